"""Style sheet, scripts and fonts of the site, from the small files of its theme.

A page loads one style sheet and one script. Only comments, indentation and other needless space
are removed: the sources of the theme are in the repository.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pylit.fonts import FONTS, cut_fonts

#: Script of the site -> folder of ``js/`` that it is made of.
SCRIPTS: Mapping[str, str] = {
    "site.js": "core",
    "search.js": "search",
    "previews.js": "previews",
    "figures.js": "figures",
    "replay.js": "replay",
}

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
    files["assets/replay.css"] = style_sheet([theme / "replay.css"]).encode()
    for name, folder in SCRIPTS.items():
        parts = sorted((theme / "js" / folder).glob("*.js"))
        parts += sorted((docs / folder).glob("*.js")) if folder == "figures" else []
        files[f"assets/{name}"] = _script(parts).encode()
    return files


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
