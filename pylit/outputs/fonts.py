"""The fonts of the site, cut down to the characters and weights that it uses, and cached.

A page loads four files of about 17 KB each instead of the packages' 200 KB. ``fonts.css`` of the
theme declares them.
"""

import io
import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pylit.cache import Cache, digest

#: Latin with the letters of Western European names, and the punctuation of good typesetting.
CHARACTERS = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
CHARACTERS += "\u2009\u2013\u2014‘’“”…•′″↑↓−ŒœŁł"

_FEATURES = ["kern", "liga", "ccmp", "mark", "tnum"]


class Font(NamedTuple):
    """A font file of the site: WOFF2, or TrueType if its name ends with ``.ttf``."""

    name: str
    #: The file below the folder of npm packages, without ``.woff2``.
    source: str
    characters: str = CHARACTERS
    #: Of a variable font: the first and the last weight.
    weights: tuple[int, int] | None = None


SERIF = "@fontsource-variable/source-serif-4/files/source-serif-4-latin-wght-normal"
SANS = "@fontsource-variable/inter/files/inter-latin-wght-normal"
_MONO = "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal"
FONTS: tuple[Font, ...] = (
    Font("serif.woff2", SERIF, weights=(400, 600)),
    Font("serif-italic.woff2", SERIF.replace("normal", "italic"), weights=(400, 400)),
    Font("sans.woff2", SANS, weights=(400, 600)),
    Font("mono.woff2", _MONO, weights=(400, 400)),
)


def cut_fonts(fonts: Iterable[Font], node_modules: Path, cache: Path | None) -> dict[str, bytes]:
    """Font files by name, with only the characters and weights of each `Font`."""
    results, code = Cache(cache), Path(__file__).read_bytes()
    files: dict[str, bytes] = {}
    for font in fonts:
        source = (node_modules / f"{font.source}.woff2").read_bytes()
        key = digest(code, source, repr(font))
        files[font.name] = results.get(font.name, key, partial(_cut, font, source))
    return files


def _cut(font: Font, source: bytes) -> bytes:
    # Imported here because it is slow and most builds find the fonts in the cache.
    from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
    from fontTools.varLib.instancer import (  # type: ignore[import-untyped]
        instantiateVariableFont,
    )

    # Some tables name characters that their font lacks; the warnings need no action.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    cut = TTFont(io.BytesIO(source), recalcTimestamp=False)
    options = Options(hinting=False, layout_features=_FEATURES)
    options.drop_tables += ["FFTM", "ltag"]
    subsetter = Subsetter(options)
    subsetter.populate(text=font.characters)
    subsetter.subset(cut)
    if font.weights:
        low, high = font.weights
        instantiateVariableFont(cut, {"wght": low if low == high else (low, high)}, inplace=True)
    cut.flavor = None if font.name.endswith(".ttf") else "woff2"
    out = io.BytesIO()
    cut.save(out)
    return out.getvalue()
