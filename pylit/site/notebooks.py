"""Notebooks as pages of the site: their text, code and outputs.

The program that made a notebook may tell more of a cell, below its own name in the metadata:
``alt`` describes the cell's pictures, and ``chapter`` names the module that the cell is made of.
A chapter is shown without its notes, which are on the page of that module, beside its code.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pylit.diagnostics import Diagnostic, Report
from pylit.languages.language import CODE
from pylit.model import Module, Note, Section, SourceFile, Span
from pylit.source.pages import text_module

FOLDER = "notebooks"
#: The text alternative of a picture whose cell gives none.
DEFAULT_ALT = "What the cell above has drawn."

#: The beginning of the first cell: a title, a paragraph, and a line of links.
_TITLE = re.compile(r"# +([^\n]+)\n*((?:[^\n]+\n?)*)\n*(\[[^\n]*(?=\n*\Z))?")
#: The address of what is pasted into a cell, and what colours text in a terminal.
_ATTACHED = re.compile(r"\battachment:([^)\s>\"']+)")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: Kinds of pictures, and how the names of their files end.
_PICTURES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
}
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
            message, hint = f"is no notebook ({error!r})", "save it again, or remove it"
            report.add(Diagnostic(f"{FOLDER}/{path.name}", 0, 0, "notebook", message, hint))
        else:
            modules.append(module)
            files |= beside
    # Those in other languages are files only: a page in a language is made of the one above.
    for path in sorted(folder.glob("*/*.ipynb")):
        if CODE.fullmatch(path.parent.name):
            files[f"{path.parent.name}/{FOLDER}/{path.name}"] = path.read_bytes()
    return modules, files


def _page(path: Path, base_url: str) -> tuple[Module, dict[str, bytes]]:
    name, raw = f"{FOLDER}/{path.stem}", path.read_bytes()
    files = {f"{name}.ipynb": raw}
    first, *cells = json.loads(raw)["cells"]
    text = "".join(first["source"])
    head = _TITLE.match(text) if first["cell_type"] == "markdown" else None
    title, summary, links = head.groups("") if head else (path.stem.replace("_", " "), "", "")
    rest = {**first, "source": text[head.end() :].strip("\n") if head else text}
    parts = [f"{links} · " * bool(links) + f"[Download]({path.name})"]
    for cell in (rest, *cells):
        text = "".join(cell["source"])
        text = _ATTACHED.sub(partial(_attached, cell=cell, name=name, files=files), text)
        named = (about for about in cell["metadata"].values() if isinstance(about, dict))
        about = {key: text for tool in named for key, text in tool.items()}
        fence = max(["```", *(f"{ticks}`" for ticks in re.findall("`{3,}", text))], key=len)
        if cell["cell_type"] == "raw":
            # It is written for another program.
            parts.append(f"{fence}text\n{text.strip()}\n{fence}" if text.strip() else "")
        elif cell["cell_type"] == "code":
            outputs = (_output(one, about.get("alt", ""), name, files) for one in cell["outputs"])
            parts += [f"{fence}python\n{text}\n{fence}", *filter(None, outputs)]
        elif "chapter" not in about:
            parts.append(text)
        elif opening := _CHAPTER.match(text):
            parts.append(opening[0])
    parts = [part.strip("\n") for part in parts if part.strip()]
    if base_url:
        # Links to the site, as a page of it writes them.
        home, site = (f"]({base_url})", "](../index.html)"), (f"]({base_url}", "](../")
        parts = [part.replace(*home).replace(*site) for part in parts]
    text = "\n\n".join(parts) + "\n"
    source = SourceFile(path, name, f"{FOLDER}/{path.name}", False, True, text, "")
    values = {"title": title, "summary": " ".join(summary.split())}
    module = text_module(source, values, text, 1)
    # A note for each cell and each output: only words are translated.
    notes, line = [], 1
    for part in parts:
        last = line + part.count("\n")
        notes.append(Note("comment", Span(line, last), part, line, 0))
        line = last + 2
    return replace(module, sections=(Section(tuple(notes), None),)), files


def _attached(
    link: re.Match[str], cell: Mapping[str, Any], name: str, files: dict[str, bytes]
) -> str:
    """The address of what is pasted into a cell; without it the link is broken, which is told."""
    found = cell.get("attachments", {}).get(unquote(link[1]), {})
    return _picture(found, name, files)[0] or link[1]


def _picture(data: Mapping[str, Any], name: str, files: dict[str, bytes]) -> tuple[str, bytes]:
    """The address and the content of a picture, which is added to `files`; empty if it is none."""
    for kind, suffix in _PICTURES.items():
        if written := "".join(data.get(kind, "")):
            is_text = written.lstrip().startswith("<")
            content = written.encode() if is_text else base64.b64decode(written)
            file = f"{name}-{len(files)}.{suffix}"
            files[file] = content
            return file.rpartition("/")[2], content
    return "", b""


def _output(output: Mapping[str, Any], alt: str, name: str, files: dict[str, bytes]) -> str:
    """An output of a cell as HTML; a picture is added to `files`."""
    data = output.get("data", {})
    address, content = _picture(data, name, files)
    if address:
        image = f'src="{address}" alt="{escape(alt or DEFAULT_ALT)}"'
        if address.endswith(".png"):
            width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
            image += f' width="{width}" height="{height}"'
        return f'<figure class="out"><img {image} loading="lazy"></figure>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    if output.get("output_type") == "error":
        text = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
    text = _COLOURS.sub("", text).rstrip()
    return f'<pre class="fence out">{escape(text, quote=False)}</pre>' if text else ""
