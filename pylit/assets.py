"""Style sheet, scripts and fonts of the site, from the small files of its theme.

A page loads one style sheet and one script; each is put together here from files that are short
enough to read. Nothing is rewritten on the way but comments and indentation, which readers of the
site do not need: its sources are in the repository.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pylit.fonts import fonts

#: Script of the site -> folder of ``js/`` that it is made of.
SCRIPTS: Mapping[str, str] = {
    "site.js": "core",
    "search.js": "search",
    "previews.js": "previews",
    "figures.js": "figures",
}

_BLOCK_COMMENT = re.compile(r"^[ \t]*/\*.*?\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
_LINE_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_INDENTATION = re.compile(r"^[ \t]+|\n(?=\n)", re.MULTILINE)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CSS_SPACE = re.compile(r"\s+")
_CSS_TIGHT = re.compile(r"\s*([{};,>])\s*|(?<=:)\s+")


def assets(theme: Path, node_modules: Path | None, cache: Path | None) -> Mapping[str, bytes]:
    """Every file of ``assets/`` that is the same for all sites with this theme.

    Args:
        theme: Folder of the theme.
        node_modules: Folder of the npm packages: fonts; None for none.
        cache: Folder in which fonts are kept once they are cut, or None.
    """
    faces, declarations = fonts(node_modules, cache) if node_modules else ({}, "")
    files = {f"assets/fonts/{name}": data for name, data in faces.items()}
    files["assets/site.css"] = (declarations + style_sheet(theme)).encode()
    for name, folder in SCRIPTS.items():
        parts = sorted((theme / "js" / folder).glob("*.js"))
        files[f"assets/{name}"] = script(parts).encode()
    return files


def style_sheet(theme: Path) -> str:
    """The files of ``css/`` in the order of their names, without comments and needless space."""
    parts = sorted((theme / "css").glob("*.css"))
    text = "".join(path.read_text(encoding="utf-8") for path in parts)
    text = _CSS_SPACE.sub(" ", _CSS_COMMENT.sub("", text))
    return _CSS_TIGHT.sub(lambda found: found[1] or "", text).replace(";}", "}").strip() + "\n"


def script(parts: Iterable[Path]) -> str:
    """Files joined into one script, whose names are nobody else's."""
    text = "".join(path.read_text(encoding="utf-8") for path in parts)
    return f'(() => {{\n"use strict";\n{compact(text)}}})();\n'


def compact(text: str) -> str:
    """A script without comments on lines of their own, indentation and empty lines."""
    text = _LINE_COMMENT.sub("", _BLOCK_COMMENT.sub("", text))
    return _INDENTATION.sub("", text)
