"""Style sheet, scripts and fonts of the site, from the small files of its theme.

A page loads one style sheet and one script. Only comments, indentation and other needless space
are removed: the sources of the theme are in the repository.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pylit.node.process import MODULES
from pylit.node.process import SCRIPTS as NODE_SCRIPTS
from pylit.notes.tex import FONT_FOLDER, FONT_PACKAGE, Rendered
from pylit.outputs.fonts import FONTS, Font, cut_fonts

#: Script of the site -> folder of ``js/`` that it is made of.
SCRIPTS: Mapping[str, str] = {
    "site.js": "core",
    "search.js": "search",
    "previews.js": "previews",
    "figures.js": "figures",
    "path.js": "path",
    "replay.js": "replay",
}

#: What links stand on, in each theme: the ground that is nearest to them (`css/10-tokens.css`).
_GROUNDS = {"#d3e4fa": "#000000", "#253c57": "#ffffff"}
_CONTRAST = 4.5
#: MathJax's text font holds every letter of mathematics, 94 KB for a site that uses two hundred of
#: them; cut down, it has about 20 KB. Smaller fonts stay as they are.
LARGE = 32_000

_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/[ \t]*|//[^\n]*)\n", re.MULTILINE | re.DOTALL)
_INDENTATION = re.compile(r"^[ \t]+|\n(?=\n)", re.MULTILINE)


def assets(
    theme: Path, docs: Path, node_modules: Path | None, cache: Path | None
) -> Mapping[str, bytes]:
    """The style sheets, scripts and fonts of the site; `docs` has scripts of its own figures.

    Without `node_modules`, the folder of the npm packages, there are no fonts.
    """
    files: dict[str, bytes] = {}
    sheets = sorted((theme / "css").glob("*.css"))
    if node_modules:
        sheets.insert(0, theme / "fonts.css")
        fonts = cut_fonts(FONTS, node_modules, cache and cache / "fonts")
        files = {f"assets/fonts/{name}": data for name, data in fonts.items()}
    files["assets/site.css"] = style_sheet(sheets).encode()
    for name in ("replay.css", "compare.css"):
        files[f"assets/{name}"] = style_sheet([theme / name]).encode()
    for name, folder in SCRIPTS.items():
        parts = sorted((theme / "js" / folder).glob("*.js"))
        parts += sorted((docs / folder).glob("*.js")) if folder == "figures" else []
        files[f"assets/{name}"] = _script(parts).encode()
    return files


def accent_rule(colour: str) -> str:
    """The rule for links and marks in an author's colour: in each theme as near to it as can be
    read.
    """
    shades = [
        next(
            shade
            for parts in range(101)
            if contrast(shade := _mixed(colour, end, parts), ground) >= _CONTRAST
        )
        for ground, end in (_GROUNDS.items() if colour else ())
    ]
    return f":root{{--link:light-dark({','.join(shades)})}}" if shades else ""


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _mixed(colour: str, end: str, percent: int) -> str:
    pairs = zip(_channels(colour), _channels(end), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * percent / 100):02x}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """The ratio of the luminances of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = (part / 255 for part in _channels(colour))
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def style_sheet(parts: Iterable[Path]) -> str:
    """Files joined into one style sheet, without comments and needless space."""
    text = "".join(path.read_text(encoding="utf-8") for path in parts)
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    text = re.sub(r" ?([{};,>]) ?|(?<=:) ", lambda found: found[1] or "", text)
    return text.replace(";}", "}").strip() + "\n"


def _script(parts: Iterable[Path]) -> str:
    """Files joined into one script with a scope of its own, without comments and indentation."""
    text = "".join(path.read_text(encoding="utf-8") for path in parts)
    text = _INDENTATION.sub("", _COMMENT.sub("", text))
    return f'(() => {{\n"use strict";\n{text}}})();\n'


def math_style_sheet(rendered: Iterable[Rendered]) -> tuple[str, frozenset[str]]:
    """The style sheet for a set of formulas, and the names of the font files that it refers to.

    The same formulas in any order give the same text. The fonts are addressed as ``fonts/NAME``
    beside the sheet, and are in `FONT_FOLDER`. Without formulas the sheet is empty.
    """
    rules = {rule for one in rendered for rule in one.css if rule[0] != "0"}
    if not rules:
        return "", frozenset()
    css = style_sheet([NODE_SCRIPTS / "base.css"]).strip()
    css += "".join(rule[1:] for rule in sorted(rules))
    return css + "\n", frozenset(re.findall(r"url\(fonts/([a-z0-9-]+\.woff2)\)", css))


def math_fonts(
    names: Iterable[str], rendered: Iterable[Rendered], cache: Path | None
) -> dict[str, bytes]:
    """The font files that the style sheet refers to, by name, with what the formulas need."""
    written = {rule[1:] for one in rendered for rule in one.css if rule[0] == "0"}
    characters = "".join(sorted(set("".join(written))))
    files = {name: (FONT_FOLDER / name).read_bytes() for name in sorted(names)}
    large = [name for name, data in files.items() if len(data) >= LARGE]
    fonts = [Font(n, f"{FONT_PACKAGE}/{n.removesuffix('.woff2')}", characters) for n in large]
    return files | cut_fonts(fonts, MODULES, cache)
