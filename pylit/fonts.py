"""The typefaces of the site: cut down to the characters and weights that pages use.

A page loads four files of about 17 KB each instead of the packages' 200 KB. Each family also gets
stand-ins, fonts that readers have, scaled so that a line of it is as long and as high as one of the
real font, so that hardly anything moves when the font takes its place, however late it comes.
"""

import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pylit.cache import Cache, digest


def cut(
    source: bytes,
    characters: Iterable[int],
    *,
    features: Sequence[str] = (),
    drop_tables: Sequence[str] = (),
    weights: tuple[int, int] | None = None,
    flavor: str | None = "woff2",
) -> bytes:
    """A font with only some characters, code points: the same bytes for the same ones.

    `features` of OpenType are kept, `drop_tables` left out besides those that fontTools leaves out;
    of a variable font only `weights`, one or a range. `flavor` None is a file that is not packed.
    """
    # Slow to import, and rarely needed: cut fonts are kept.
    from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
    from fontTools.varLib.instancer import (  # type: ignore[import-untyped]
        instantiateVariableFont,
    )

    # Some tables name characters that their font does not hold; nobody can act on that.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    font = TTFont(io.BytesIO(source), recalcTimestamp=False)
    options = Options(hinting=False, layout_features=list(features))
    options.drop_tables += drop_tables
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    if weights is not None:
        low, high = weights
        instantiateVariableFont(font, {"wght": low if low == high else weights}, inplace=True)
    font.flavor = flavor
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def measure(source: bytes, frequency: Mapping[str, int]) -> tuple[dict[str, float], float]:
    """Heights of a font, and the mean width of letters that occur with `frequency`, in em."""
    from fontTools.ttLib import TTFont

    font = TTFont(io.BytesIO(source))
    unit, line = font["head"].unitsPerEm, font["hhea"]
    names, widths = font.getBestCmap(), font["hmtx"]
    total = sum(widths[names[ord(letter)]][0] * count for letter, count in frequency.items())
    heights = {"ascent": line.ascent, "descent": -line.descent, "line-gap": line.lineGap}
    mean = total / sum(frequency.values()) / unit
    return {name: height / unit for name, height in heights.items()}, mean


#: Whatever decides how a font is cut: kept fonts are those that this code made.
CODE = Path(__file__).read_bytes()

#: Latin with the letters of Western European names, and the punctuation of good typesetting.
CHARACTERS: frozenset[int] = frozenset(
    [*range(0x20, 0x7F), *range(0xA0, 0x100)]
    + [ord(character) for character in "\u2009\u2013\u2014‘’“”…•′″↑↓−ŒœŁł"]
)

#: How often letters stand in English, per thousand characters of text, the space first.
_FREQUENCY = {" ": 183, "e": 102, "t": 75, "a": 65, "o": 62, "n": 57, "i": 57, "s": 53, "r": 50}
_FREQUENCY |= {"h": 50, "l": 33, "d": 33, "u": 23, "c": 22, "m": 20, "f": 20, "w": 17, "g": 16}
_FREQUENCY |= {"p": 15, "y": 14, "b": 13, "v": 8, "k": 6, "x": 1, "j": 1, "q": 1, "z": 1}


#: Fonts that readers have, each with the mean width of its letters in em: it becomes a stand-in of
#: its own, since no two are equally wide.
Fallback = tuple[tuple[str, float], ...]
_SERIFS: Fallback = (
    ("Georgia", 0.4447),
    ("Gelasio", 0.4447),
    ("Times New Roman", 0.4003),
    ("Liberation Serif", 0.4003),
    ("DejaVu Serif", 0.515),
)
_SANS: Fallback = (
    ("Arial", 0.4423),
    ("Helvetica", 0.4423),
    ("Liberation Sans", 0.4423),
    ("Roboto", 0.4406),
    ("Noto Sans", 0.4698),
    ("DejaVu Sans", 0.5046),
)
_MONOS: Fallback = (
    ("Menlo", 0.602),
    ("Consolas", 0.5498),
    ("DejaVu Sans Mono", 0.602),
    ("Liberation Mono", 0.6001),
    ("Noto Sans Mono", 0.6),
)


@dataclass(frozen=True, slots=True)
class Face:
    """One font file of the site and where it comes from."""

    name: str
    family: str
    #: Below ``@fontsource-variable/`` in the folder of npm packages.
    source: str
    #: One weight, or the ends of a range.
    weights: tuple[int, int]
    style: str
    fallback: Fallback


_SERIF = "source-serif-4/files/source-serif-4-latin-wght"
FACES: tuple[Face, ...] = (
    Face("serif", "Source Serif 4", f"{_SERIF}-normal", (400, 600), "normal", _SERIFS),
    Face("serif-italic", "Source Serif 4", f"{_SERIF}-italic", (400, 400), "italic", _SERIFS),
    Face("sans", "Inter", "inter/files/inter-latin-wght-normal", (400, 600), "normal", _SANS),
    Face(
        "mono",
        "JetBrains Mono",
        "jetbrains-mono/files/jetbrains-mono-latin-wght-normal",
        (400, 400),
        "normal",
        _MONOS,
    ),
)


def fonts(node_modules: Path, cache: Path | None) -> tuple[dict[str, bytes], str]:
    """The font files by name, and the style sheet that declares them and their stand-ins."""
    kept = Cache(cache / "fonts" if cache else None)
    files: dict[str, bytes] = {}
    rules: list[str] = []
    for face in FACES:
        source = (node_modules / "@fontsource-variable" / f"{face.source}.woff2").read_bytes()
        key = digest(CODE, source, repr(face))
        files[f"{face.name}.woff2"], rule = kept.get(face.name, key, partial(_cut, face, source))
        rules.append(rule)
    return files, "".join(rules)


def _cut(face: Face, source: bytes) -> tuple[bytes, str]:
    features = ["kern", "liga", "ccmp", "mark", "tnum"]
    data = cut(source, CHARACTERS, features=features, weights=face.weights)
    return data, _rules(face, *measure(data, _FREQUENCY))


def _rules(face: Face, heights: Mapping[str, float], letter: float) -> str:
    low, high = face.weights
    weight = f"{low}" if low == high else f"{low} {high}"
    common = f"font-style:{face.style};font-weight:{weight}"
    rules = [
        f'@font-face{{font-family:"{face.family}";{common};font-display:swap;'
        f'src:url("fonts/{face.name}.woff2")format("woff2")}}\n'
    ]
    # Of rules of one name a browser tries the last one first, and goes on where a font is missing.
    for name, width in reversed(face.fallback):
        scale = letter / width
        overrides = ";".join(f"{key}-override:{em / scale:.1%}" for key, em in heights.items())
        rules.append(
            f'@font-face{{font-family:"{face.family} fallback";{common};src:local("{name}");'
            f"size-adjust:{scale:.1%};{overrides}}}\n"
        )
    return "".join(rules)
