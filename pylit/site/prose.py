"""``docs_src/pages``: Markdown pages, and the images and other files that go with them.

A Markdown page is read as a module that is one note and no code.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, Note, Section, SourceFile, Span
from pylit.source import frontmatter


def read_pages(folder: Path, display: str, report: Report) -> list[Module]:
    """The pages in a folder, sorted by name; a missing folder holds none.

    `display` is what diagnostics call the folder.
    """
    paths = sorted(path for path in folder.rglob("*.md") if path.is_file())
    pages = (read_page(path, folder, display, report) for path in paths)
    return [page for page in pages if page is not None]


def read_static(folder: Path, display: str, report: Report) -> dict[str, bytes]:
    """The other files in the folder, hidden ones left out, by their path in the site."""
    files: dict[str, bytes] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        relative = path.relative_to(folder)
        if path.suffix == ".md" or any(part.startswith(".") for part in relative.parts):
            continue
        try:
            files[relative.as_posix()] = path.read_bytes()
        except OSError as error:
            report.add(_unreadable(f"{display}/{relative.as_posix()}", error))
    return files


def _unreadable(shown: str, error: OSError) -> Diagnostic:
    message = f"cannot be read: {error.strerror}"
    return Diagnostic(shown, 0, 0, "source-unreadable", message, "check its permissions")


def read_page(path: Path, folder: Path, display: str, report: Report) -> Module | None:
    """One page; None, with the reason in `report`, if it cannot be read."""
    relative = path.relative_to(folder).as_posix()
    shown = f"{display}/{relative}"
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        report.add(_unreadable(shown, error))
        return None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"byte {error.start} is not UTF-8"
        report.add(Diagnostic(shown, line, 0, "source-encoding", message, "save it as UTF-8"))
        return None
    values, rest, taken = frontmatter.split(text, report, shown)
    source = SourceFile(path, relative.removesuffix(".md"), shown, False, True, text, "")
    return text_module(source, values, rest, taken + 1)


def text_module(source: SourceFile, values: Mapping[str, str], text: str, first: int) -> Module:
    """A source that is one note and no code: `text`, which begins on its line `first`."""
    source = replace(source, digest=hashlib.sha256(source.text.encode()).hexdigest())
    note = Note("docstring", Span(1, source.text.count("\n") + 1), text, first, 0)
    return Module(source, values, (), (Section((note,), None),))
