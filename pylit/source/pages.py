"""Markdown pages, and the files beside them that are published as they are.

A page, and the docstring of a module, may begin with front matter, fenced by ``---``:

    ---
    title: Multi-head attention
    summary: >
      Folded over several lines, as in YAML.
    ---

Every value is text: ``no`` stays ``no``, and ``1.10`` stays ``1.10``.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import Module, Note, Section, SourceFile, Span
from pylit.source.discover import leaves, read_bytes, read_source

_KEY = re.compile(r"[A-Za-z_][\w.-]*[ \t]*:(?:[ \t]|$)")


def split_front_matter(
    text: str, report: Report, start: tuple[str, int, int] = ("", 1, 0), *, own: bool = True
) -> tuple[dict[str, str], str, int]:
    """The values of the front matter of `text`, the rest, and the number of lines before it.

    Blank lines may precede the opening ``---``, which may also be a horizontal rule: front matter
    has a key on its first line. `start` is the position of `text`: path, line and column.
    """
    lines = text.split("\n")
    opening = next((i for i, line in enumerate(lines) if line.strip()), 0)
    below = range(opening + 1, len(lines))
    key = next((lines[i] for i in below if lines[i] and not lines[i].startswith("#")), "")
    if lines[opening].rstrip() != "---" or not _KEY.match(key):
        return {}, text, 0
    # Here, because it takes 11 ms, and of packages without front matter nobody needs it.
    import yaml

    closing = next((i for i in below if lines[i].rstrip() in ("---", "...")), -1)
    values: dict[str, str] = {}
    fault = None
    try:
        # `BaseLoader` keeps what looks like a number or a date as text.
        found = yaml.load("\n".join(lines[opening + 1 : max(closing, 0)]), yaml.BaseLoader) or {}
        # A mapping on one line, `{query: 3, key: 1}`, is text as well.
        flat = {key: _flat(value) for key, value in found.items()}
        values = {key: value.strip() for key, value in flat.items() if isinstance(value, str)}
        if closing < 0:
            fault = opening, "front matter is never closed", "end it with a line `---`"
        elif other := next(iter(found.keys() - values.keys()), ""):
            fault = opening, f"`{other}` is not text", "put its value in quotes"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = opening + 1 + min(mark.line if mark else 0, closing - opening - 2)
        message = f"it is not YAML: {getattr(error, 'problem', error)}"
        fault = line, message, "write `key: value`, with quotes around a colon"
    if fault:
        index, message, hint = fault
        path, first, column = start
        place, shown = (path, first + index, column + 1), " " * column + lines[index]
        report.fault(own, place, "front-matter", message, hint, shown)
    return values, "\n".join(lines[closing + 1 :]), closing + 1


def _flat(value: object) -> object:
    """A mapping of texts as one text; anything else as it is."""
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return ", ".join(f"{key}: {each}" for key, each in value.items())
    return value


def read_pages(folder: Path, display: str, report: Report) -> list[Module]:
    """The pages in a folder, sorted by name; a missing folder holds none.

    `display` is what diagnostics call the folder.
    """
    paths = _inside(folder, display, report, pages=True)
    pages = (read_page(path, folder, display, report) for path in paths)
    return [page for page in pages if page is not None]


def _inside(folder: Path, display: str, report: Report, *, pages: bool) -> list[Path]:
    """The pages, or the other files, of a folder and its subfolders.

    A symbolic link out of it would publish a file that nobody meant to publish.
    """
    top, found = os.path.realpath(folder), []
    paths = (path for path in folder.rglob("*") if (path.suffix == ".md") == pages)
    for path in sorted(path for path in paths if path.is_file()):
        shown = f"{display}/{path.relative_to(folder).as_posix()}"
        if not leaves(path, top, shown, own=True, report=report):
            found.append(path)
    return found


def read_static(folder: Path, display: str, report: Report) -> dict[str, bytes]:
    """The other files in the folder, hidden ones left out, by their path in the site."""
    files: dict[str, bytes] = {}
    for path in _inside(folder, display, report, pages=False):
        name = path.relative_to(folder).as_posix()
        if not f"/{name}".count("/."):
            data = read_bytes(path, f"{display}/{name}", own=True, report=report)
            files |= {name: data} if data is not None else {}
    return files


def read_page(path: Path, folder: Path, display: str, report: Report) -> Module | None:
    """One page; None, with the reason in `report`, if it cannot be read."""
    name = path.relative_to(folder).as_posix()
    shown = f"{display}/{name}"
    name = name.removesuffix(".md")
    source = read_source(path, name=name, display=shown, own=True, report=report)
    if source is None:
        return None
    values, rest, taken = split_front_matter(source.text, report, (shown, 1, 0))
    return text_module(source, values, rest, taken + 1)


def text_module(source: SourceFile, values: Mapping[str, str], text: str, first: int) -> Module:
    """A source that is one note and no code: `text`, which begins on its line `first`."""
    source = replace(source, digest=hashlib.sha256(source.text.encode()).hexdigest())
    note = Note("docstring", Span(1, source.text.count("\n") + 1), text, first, 0)
    return Module(source, values, (), (Section((note,), None),))
