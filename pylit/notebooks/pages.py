"""Notebooks as pages of the site: what to run, and what came of it.

A chapter that was made of a module is shown as its code alone. Its notes stand on that module's
page, beside every line and with the shapes, one link away.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, SourceFile
from pylit.notebooks.model import (
    OWN,
    Document,
    NotebookError,
    Surroundings,
    read_document,
    source_of,
)
from pylit.site.prose import text_module

FOLDER = "notebooks"
#: A drawing of more elements becomes a file of its own: a page has room for so many nodes.
LARGEST_DRAWING = 1_000

_TITLE = re.compile(r"# (?P<title>[^\n]+)\n+(?P<summary>[^\n]+)(?:\n+(?P<links>[^\n]+))?")
_TAG = re.compile(r"<[a-z]")
_CHAPTER = re.compile(r"(## [^\n]+\n+[^\n]+)")


@dataclass(frozen=True, slots=True)
class Notebooks:
    """Notebooks as pages, and the files that belong to them, by their paths in the site."""

    modules: tuple[Module, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def read_notebooks(around: Surroundings, report: Report) -> Notebooks:
    """All notebooks of a site; one that cannot be read is reported."""
    modules: list[Module] = []
    files: dict[str, bytes] = {}
    for path in sorted(around.notebooks.glob("*.ipynb")):
        try:
            document = read_document(path)
            if document is not None:
                module, beside = notebook_page(document, path, around)
                modules.append(module)
                files |= beside
        except (NotebookError, LookupError, TypeError) as error:
            hint = "make it anew with `make notebooks`"
            shown = f"{FOLDER}/{path.name}"
            message = str(error) if isinstance(error, NotebookError) else f"is damaged ({error!r})"
            report.add(Diagnostic(shown, 0, 0, "notebook", message, hint))
    return Notebooks(tuple(modules), files)


def notebook_page(
    document: Document, path: Path, around: Surroundings
) -> tuple[Module, dict[str, bytes]]:
    """One notebook as a page of Markdown, and the files that go with it."""
    name = f"{FOLDER}/{path.stem}"
    writer = _Writer(name, around)
    text, head = writer.text(document["cells"])
    source = SourceFile(path, name, f"{FOLDER}/{path.name}", False, True, text, "")
    values = {"title": head["title"], "summary": head["summary"]}
    files = {f"{name}.ipynb": path.read_bytes(), **writer.files}
    return text_module(source, values, text, 1), files


class _Writer:
    """Writes one notebook as Markdown, and collects its pictures."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self._name = name
        self._around = around
        self.files: dict[str, bytes] = {}

    def text(self, cells: Sequence[Mapping[str, Any]]) -> tuple[str, Mapping[str, str]]:
        """The text, and the title and summary of the notebook."""
        head = _TITLE.match(source_of(cells[0]))
        if head is None:
            raise NotebookError("has no title and summary in its first cell")
        file = f"{self._name.rpartition('/')[2]}.ipynb"
        links = self._linked(f"{head['links']} · ") if head["links"] else ""
        parts = [f"{links}[Download]({file})"]
        for chapter, group in groupby(cells[1:], key=_chapter_of):
            part = list(group)
            parts += self._chapter(part) if chapter else map(self._cell, part)
        return "\n\n".join(parts) + "\n", head.groupdict()

    def _chapter(self, cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """A module: its title, where its notes are, and its code."""
        opening = _CHAPTER.match(source_of(cells[0]))
        yield self._linked(opening[1]) if opening else ""
        for cell in cells:
            if cell["cell_type"] == "code":
                yield self._cell(cell)

    def _cell(self, cell: Mapping[str, Any]) -> str:
        text = source_of(cell)
        if cell["cell_type"] != "code":
            return self._linked(text)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
        parts = [f"{fence}python\n{text}\n{fence}"]
        alt = cell["metadata"].get(OWN, {}).get("alt", "")
        for output in cell["outputs"]:
            parts += self._output(output, alt)
        return "\n\n".join(parts)

    def _output(self, output: Mapping[str, Any], alt: str) -> Iterator[str]:
        data = {kind: _joined(value) for kind, value in output.get("data", {}).items()}
        if output["output_type"] == "stream":
            data = {"text/plain": _joined(output["text"])}
        drawing = data.get("image/svg+xml", "")
        if drawing.startswith("<svg") and len(_TAG.findall(drawing)) <= LARGEST_DRAWING:
            # No blank line: it would end the block of HTML.
            lines = filter(None, map(str.strip, drawing.split("\n")))
            yield f'<figure class="out">{" ".join(lines)}</figure>'
        elif drawing:
            yield self._picture(drawing.encode(), "svg", alt)
        elif "image/png" in data:
            yield self._picture(base64.b64decode(data["image/png"]), "png", alt)
        elif data.get("text/plain", "").strip():
            yield f'<pre class="fence out">{escape(data["text/plain"].rstrip(), quote=False)}</pre>'

    def _picture(self, data: bytes, kind: str, alt: str) -> str:
        name = f"{self._name}-{len(self.files) + 1}.{kind}"
        self.files[name] = data
        file = name.rpartition("/")[2]
        size = ""
        if kind == "png":
            width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
            size = f' width="{width}" height="{height}"'
        words = escape(alt or "What the cell above has drawn.")
        image = f'<img src="{file}" alt="{words}"{size} loading="lazy">'
        return f'<figure class="out">{image}</figure>'

    def _linked(self, text: str) -> str:
        """Links to the site, as a page of it writes them."""
        base = self._around.base_url
        if not base:
            return text
        text = text.replace(f"]({base})", "](../index.html)")
        return text.replace(f"]({base}", "](../")


def _chapter_of(cell: Mapping[str, Any]) -> str:
    chapter: str = cell["metadata"].get(OWN, {}).get("chapter", "")
    return chapter


def _joined(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)
