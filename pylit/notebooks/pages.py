"""Notebooks as pages of the site: their text, code and outputs.

A chapter made of a module is shown without its notes, which are on the page of that module, beside
the code and with the shapes.
"""

import base64
import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, SourceFile
from pylit.notebooks import OWN
from pylit.parse import text_module

FOLDER = "notebooks"
#: The text alternative of a picture whose cell gives none.
DEFAULT_ALT = "What the cell above has drawn."

_TITLE = re.compile(r"# (?P<title>[^\n]+)\n+(?P<summary>[^\n]+)(?:\n+(?P<links>[^\n]+))?")
_CHAPTER = re.compile(r"## [^\n]+\n+[^\n]+")


def read_notebooks(
    folder: Path, base_url: str, report: Report
) -> tuple[list[Module], dict[str, bytes]]:
    """All notebooks as pages, and their files; a damaged notebook is reported."""
    modules: list[Module] = []
    files: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        try:
            module, beside = _page(path, base_url)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            message, hint = f"is damaged ({error!r})", "delete it, and run `make notebooks`"
            report.add(Diagnostic(f"{FOLDER}/{path.name}", 0, 0, "notebook", message, hint))
        else:
            modules.append(module)
            files |= beside
    return modules, files


def _page(path: Path, base_url: str) -> tuple[Module, dict[str, bytes]]:
    name, raw = f"{FOLDER}/{path.stem}", path.read_bytes()
    files = {f"{name}.ipynb": raw}
    first, *cells = json.loads(raw)["cells"]
    head = _TITLE.match("".join(first["source"]))
    if head is None:
        raise ValueError("no title and summary in its first cell")
    parts = [f"{head['links']} · " * bool(head["links"]) + f"[Download]({path.name})"]
    for cell in cells:
        text, own = "".join(cell["source"]), cell["metadata"].get(OWN, {})
        if cell["cell_type"] == "code":
            fence = max(["```", *(f"{ticks}`" for ticks in re.findall("`{3,}", text))], key=len)
            outputs = (_output(one, own.get("alt", ""), name, files) for one in cell["outputs"])
            parts += [f"{fence}python\n{text}\n{fence}", *filter(None, outputs)]
        elif "chapter" not in own:
            parts.append(text)
        elif opening := _CHAPTER.match(text):
            parts.append(opening[0])
    text = "\n\n".join(parts) + "\n"
    if base_url:
        # Links to the site, as a page of it writes them.
        text = text.replace(f"]({base_url})", "](../index.html)").replace(f"]({base_url}", "](../")
    source = SourceFile(path, name, f"{FOLDER}/{path.name}", False, True, text, "")
    values = {"title": head["title"], "summary": head["summary"]}
    return text_module(source, values, text, 1), files


def _output(output: Mapping[str, Any], alt: str, name: str, files: dict[str, bytes]) -> str:
    """An output of a cell as HTML; a picture is added to `files`."""
    data = output.get("data", {})
    if png := base64.b64decode("".join(data.get("image/png", ""))):
        file = f"{name}-{len(files)}.png"
        files[file] = png
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        image = f'src="{file.rpartition("/")[2]}" alt="{escape(alt or DEFAULT_ALT)}"'
        image += f' width="{width}" height="{height}" loading="lazy"'
        return f'<figure class="out"><img {image}></figure>'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f'<pre class="fence out">{escape(text, quote=False)}</pre>' if text else ""
