"""Notebooks as pages of the site: what to run, and what came of it.

A chapter that was made of a module is shown as its code alone. Its notes stand on that module's
page, beside every line and with the shapes, one link away.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, SourceFile
from pylit.notebooks import OWN
from pylit.site.prose import text_module

FOLDER = "notebooks"
#: What a picture shows, where its cell does not say it.
UNSAID = "What the cell above has drawn."

_TITLE = re.compile(r"# (?P<title>[^\n]+)\n+(?P<summary>[^\n]+)(?:\n+(?P<links>[^\n]+))?")
_CHAPTER = re.compile(r"## [^\n]+\n+[^\n]+")


def read_notebooks(
    folder: Path, base_url: str, report: Report
) -> tuple[list[Module], dict[str, bytes]]:
    """All notebooks as pages, and the files that belong to them; a damaged one is reported."""
    modules: list[Module] = []
    files: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        try:
            module, beside = _page(path, base_url)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            message, hint = f"is damaged ({error!r})", "make it anew with `make notebooks`"
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
        parts += _cell(cell, name, files)
    text = "\n\n".join(parts) + "\n"
    if base_url:
        # Links to the site, as a page of it writes them.
        text = text.replace(f"]({base_url})", "](../index.html)").replace(f"]({base_url}", "](../")
    source = SourceFile(path, name, f"{FOLDER}/{path.name}", False, True, text, "")
    values = {"title": head["title"], "summary": head["summary"]}
    return text_module(source, values, text, 1), files


def _cell(cell: Mapping[str, Any], name: str, files: dict[str, bytes]) -> Iterator[str]:
    """A cell as Markdown; its pictures go to `files`."""
    text, own = "".join(cell["source"]), cell["metadata"].get(OWN, {})
    if cell["cell_type"] == "code":
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
        yield f"{fence}python\n{text}\n{fence}"
        for output in cell["outputs"]:
            yield from _output(output, own.get("alt", ""), name, files)
    elif "chapter" not in own:
        yield text
    elif opening := _CHAPTER.match(text):
        yield opening[0]


def _output(
    output: Mapping[str, Any], alt: str, name: str, files: dict[str, bytes]
) -> Iterator[str]:
    data = output.get("data", {})
    if png := base64.b64decode("".join(data.get("image/png", ""))):
        file = f"{name}-{len(files)}.png"
        files[file] = png
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        image = f'src="{file.rpartition("/")[2]}" alt="{escape(alt or UNSAID)}"'
        image += f' width="{width}" height="{height}" loading="lazy"'
        yield f'<figure class="out"><img {image}></figure>'
    elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
        yield f'<pre class="fence out">{escape(text, quote=False)}</pre>'
