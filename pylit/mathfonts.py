"""The fonts of mathematics, the large one cut down to the characters that the site's formulas use.

MathJax's text font holds every letter of mathematics, 94 KB for a site that uses two hundred of
them; what those need is about 20 KB. The other fonts are small, and loaded only where a page has
one of their characters.
"""

import io
from collections.abc import Iterable
from pathlib import Path

from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

from pylit.cache import Cache, digest
from pylit.maths import Rendered, font_file

#: Smaller fonts are left as they are.
LARGE = 32_000


def math_fonts(
    names: Iterable[str], rendered: Iterable[Rendered], cache: Path | None
) -> dict[str, bytes]:
    """The font files that `pylit.maths.stylesheet` named, by name, for the same formulas.

    Args:
        names: What `stylesheet` returned.
        rendered: The formulas.
        cache: Folder in which fonts are kept once they are cut, or None.
    """
    written = {rule[1:] for one in rendered for rule in one.css if rule[0] == "0"}
    characters = sorted({ord(character) for text in written for character in text})
    kept = Cache(cache)
    files = {name: font_file(name).read_bytes() for name in sorted(names)}
    for name, source in files.items():
        if len(source) >= LARGE:
            key = digest(Path(__file__).read_bytes(), source, repr(characters))
            data: bytes | None = kept.load(name, key)
            if data is None:
                data = subset(source, characters)
                kept.store(name, key, data)
            files[name] = data
    return files


def subset(source: bytes, characters: list[int]) -> bytes:
    """A font with only some characters: the same bytes for the same ones."""
    font = TTFont(io.BytesIO(source), recalcTimestamp=False)
    subsetter = Subsetter(Options(hinting=False, layout_features=[], drop_tables=["FFTM", "ltag"]))
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    font.flavor = "woff2"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()
