"""The picture of a page that others show beside a link to it: its title, and its diagram.

A card is an SVG of the theme, ``card.svg``, drawn by resvg: readers of cards take PNG only. Its
fonts are those of the site, as files that resvg can read, cut once and kept.
"""

import os
import re
from pathlib import Path
from textwrap import wrap
from unicodedata import normalize

import resvg_py
from jinja2 import Environment

from pylit.cache import digest
from pylit.fonts import CHARACTERS, CODE, cut

#: Sources below the folder of npm packages, characters and weight. What the first two have no glyph
#: for is taken from the last.
_FONTS = (
    ("@fontsource-variable/source-serif-4/files/source-serif-4-latin-wght-normal", CHARACTERS, 600),
    ("@fontsource-variable/inter/files/inter-latin-wght-normal", CHARACTERS, 400),
    ("@mathjax/mathjax-newcm-font/chtml/woff2/mjx-ncm-n", frozenset(range(0x370, 0x2B00)), 0),
)
#: Letters in a line of a title, and its size; the first that needs no more than four lines.
_TITLES = ((20, 60), (26, 46), (34, 35))
_DRAWING = re.compile(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>(.*?)</svg>', re.DOTALL)
#: The folder of all cards in the site.
CARDS = "assets/cards/"
#: What the fonts have no letter for, or a root that hangs, is put together.
_LINK = re.compile(r"</?a\b[^>]*>")
_BELOW = re.compile("[\u2080-\u209c]+")
_SUBSCRIPT = '<tspan baseline-shift="-25%" font-size="75%">{}</tspan>'
_ROOT = '<tspan baseline-shift="70%">√</tspan>'
_COLOUR = re.compile(r"(--[\w-]+): light-dark\(([^,()]+),")
_VARIABLE = re.compile(r"var\((--[\w-]+)\)")


def card_url(url: str) -> str:
    """Where the card of a page lies."""
    return f"{CARDS}{url.removesuffix('.html')}.png"


class Cards:
    """The cards of a site; `kept` is the folder that holds cut fonts."""

    def __init__(self, theme: Path, node_modules: Path, kept: Path) -> None:
        read = {path.name: path.read_text("utf-8") for path in theme.glob("css/*.css")}
        self._colours = dict(_COLOUR.findall(read["10-tokens.css"])) | {"--sans": "Inter"}
        self._style = self._plain(read["58-figures.css"]).replace("currentcolor", "currentColor")
        self._template = Environment(autoescape=True, trim_blocks=True).from_string(
            (theme / "card.svg").read_text("utf-8")
        )
        self._node_modules, self._kept = node_modules, kept
        self._fonts: list[str] = []

    def svg(self, title: str, summary: str, above: str, site: str, picture: str) -> str:
        """A card as SVG; `picture` is the HTML of the first figure of its page, or empty."""
        drawing = _DRAWING.search(picture)
        fitting = [(wrap(title, n, break_on_hyphens=False), size) for n, size in _TITLES]
        lines, size = next((one for one in fitting if len(one[0]) <= 4), fitting[-1])
        told = wrap(summary, 46, max_lines=max(7 - len(lines), 1), placeholder=" …")
        return self._template.render(
            title=lines,
            size=size,
            summary=told,
            above=above,
            site=site,
            style=self._style,
            box=drawing[1] if drawing else "",
            drawing=self._drawing(drawing[2]) if drawing else "",
        )

    def _plain(self, text: str) -> str:
        """Styles with colours in place of their names."""
        return _VARIABLE.sub(lambda match: self._colours.get(match[1], match[0]), text)

    def _drawing(self, text: str) -> str:
        text = _LINK.sub("", self._plain(text)).replace("ᵀ", "⊤").replace("√", _ROOT)
        return _BELOW.sub(lambda m: _SUBSCRIPT.format(normalize("NFKD", m[0])), text)

    def png(self, svg: str) -> bytes:
        """A card as its readers take it."""
        self._fonts = self._fonts or fonts(self._node_modules, self._kept)
        drawn = resvg_py.svg_to_bytes(
            svg_string=svg, skip_system_fonts=True, font_files=self._fonts, font_family="Inter"
        )
        return bytes(drawn)


def fonts(node_modules: Path, kept: Path) -> list[str]:
    """The font files of cards, cut where they are not kept yet."""
    paths = []
    for name, characters, weight in _FONTS:
        source = (node_modules / f"{name}.woff2").read_bytes()
        path = kept / "cards" / f"{digest(CODE, source, str(weight))[:16]}.ttf"
        if not path.is_file():
            weights = (weight, weight) if weight else None
            data = cut(source, characters, features=["kern"], weights=weights, flavor=None)
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_suffix(f".{os.getpid()}")
            new.write_bytes(data)
            new.replace(path)
        paths.append(str(path))
    return paths
