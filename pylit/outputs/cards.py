"""Social cards: the image beside a link to a page on other sites, with its title and diagram.

A card is the template ``card.svg`` of the theme, converted to PNG by resvg. Its fonts are those of
the site, as files that resvg can read.
"""

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from unicodedata import normalize

import resvg_py
from jinja2 import Environment, FileSystemLoader

from pylit.outputs.fonts import SANS, SERIF, Font, cut_fonts

#: What the first two have no glyph for is taken from the last.
_SYMBOLS = "".join(map(chr, range(0x370, 0x2B00)))
_FONTS = (
    Font("card-serif.ttf", SERIF, weights=(600, 600)),
    Font("card-sans.ttf", SANS, weights=(400, 400)),
    Font("card-symbols.ttf", "@mathjax/mathjax-newcm-font/chtml/woff2/mjx-ncm-n", _SYMBOLS),
)
#: Letters in a line of a title, and its size; the first that needs no more than four lines.
_TITLES = ((20, 60), (26, 46), (34, 35))
_DRAWING = re.compile(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>(.*?)</svg>', re.DOTALL)
_LINK = re.compile(r"</?a\b[^>]*>")
#: The fonts lack these characters or draw them badly, so they are composed.
_SUBSCRIPTS = re.compile("[\u2080-\u209c]+")
_SUBSCRIPT = '<tspan baseline-shift="-25%" font-size="75%">{}</tspan>'
_ROOT = '<tspan baseline-shift="70%">√</tspan>'
_COLOUR = re.compile(r"(--[\w-]+): light-dark\(([^,()]+),")
_VARIABLE = re.compile(r"var\((--[\w-]+)\)")


class Cards:
    """The cards of a site; `cache` is the folder of the cache for cut fonts."""

    def __init__(self, theme: Path, node_modules: Path, cache: Path) -> None:
        tokens, style = (theme / "css" / name for name in ("10-tokens.css", "58-figures.css"))
        self._colours = dict(_COLOUR.findall(tokens.read_text("utf-8"))) | {"--sans": "Inter"}
        self._style = self._plain(style.read_text("utf-8")).replace("currentcolor", "currentColor")
        loader = FileSystemLoader(theme)
        environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
        self._template = environment.get_template("card.svg")
        self._fonts = partial(cut_fonts, _FONTS, node_modules, cache)

    def svg(self, title: str, summary: str, above: str, site: str, picture: str) -> str:
        """A card as SVG; `picture` is the HTML of the first figure of its page, or empty."""
        box, drawing = found.groups() if (found := _DRAWING.search(picture)) else ("", "")
        fitting = [(wrap(title, n, break_on_hyphens=False), size) for n, size in _TITLES]
        lines, size = next((one for one in fitting if len(one[0]) <= 4), fitting[-1])
        return self._template.render(
            title=lines,
            size=size,
            summary=wrap(summary, 46, max_lines=max(7 - len(lines), 1), placeholder=" …"),
            above=above,
            site=site,
            style=self._style,
            box=box,
            drawing=self._drawing(drawing),
        )

    def _plain(self, text: str) -> str:
        """Text with the values of CSS variables in place of their names."""
        return _VARIABLE.sub(lambda match: self._colours.get(match[1], match[0]), text)

    def _drawing(self, text: str) -> str:
        text = _LINK.sub("", self._plain(text)).replace("ᵀ", "⊤").replace("√", _ROOT)
        return _SUBSCRIPTS.sub(lambda m: _SUBSCRIPT.format(normalize("NFKD", m[0])), text)

    def png(self, svg: str) -> bytes:
        """A card as an image."""
        with TemporaryDirectory() as folder:
            for name, data in self._fonts().items():
                Path(folder, name).write_bytes(data)
            drawn = resvg_py.svg_to_bytes(
                svg_string=svg, skip_system_fonts=True, font_dirs=[folder], font_family="Inter"
            )
        return bytes(drawn)
