"""The fonts of mathematics, the large one cut down to the characters that the site's formulas use.

MathJax's text font holds every letter of mathematics, 94 KB for a site that uses two hundred of
them; what those need is about 20 KB. The other fonts are small, and loaded only where a page has
one of their characters.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.tex.maths import Rendered, font_file

#: Whatever decides how a font is cut: kept fonts are those that this code made.
CODE = tuple(
    (Path(__file__).parents[1] / name).read_bytes() for name in ("fontcut.py", "tex/mathfonts.py")
)

#: Smaller fonts are left as they are.
LARGE = 32_000


def math_fonts(
    names: Iterable[str], rendered: Iterable[Rendered], cache: Path | None
) -> dict[str, bytes]:
    """The font files that `pylit.tex.maths.stylesheet` named, by name, for the same formulas.

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
            key = digest(*CODE, source, repr(characters))
            files[name] = kept.get(name, key, partial(_cut, source, characters))
    return files


def _cut(source: bytes, characters: list[int]) -> bytes:
    # Slow to import, and rarely needed: cut fonts are kept.
    from pylit import fontcut

    return fontcut.cut(source, characters, drop_tables=["FFTM", "ltag"])
