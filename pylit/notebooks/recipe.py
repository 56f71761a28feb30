"""``docs_src/notebooks``: what each notebook is made of.

A recipe is Markdown with front matter. Its ```` ```python ```` blocks become code cells and what is
between them text. A word behind ``python`` marks the cell (``parameters``), and ``alt="…"`` says
what its pictures show. Comments stand for what comes from elsewhere:

    <!-- include: setup -->    the file docs_src/notebooks/parts/setup.md
    <!-- chapters -->          the modules, cell by cell
    <!-- exercises -->         the exercises of the page that the notebook belongs to

A chapter is a module, or some of its definitions: ``pkg.a(Name,Other)`` takes these, and
``pkg.a(-Name)`` all but this one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pylit.diagnostics import Report
from pylit.source import frontmatter

_PIECE = re.compile(
    r"^(?:```python([^\n]*)\n(.*?)^```|<!-- (chapters|exercises) -->)$", re.MULTILINE | re.DOTALL
)
_INCLUDE = re.compile(r"^<!-- include: ([\w-]+) -->$", re.MULTILINE)
_ALT = re.compile(r'alt="([^"]*)"')
_CHAPTER = re.compile(r"([\w.]+)(?:\(([\w,-]+)\))?")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class NotebookError(Exception):
    """A notebook cannot be made, or cannot be run: why, and what to do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell before it is in a notebook."""

    kind: Literal["markdown", "code"]
    text: str
    #: Dotted name of the module that the cell was made of; empty if it stands in the recipe.
    chapter: str = ""
    tags: tuple[str, ...] = ()
    #: What its pictures show, in words.
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A chapter: a module, and the definitions that are taken of it (see `Lesson`)."""

    module: str
    choice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """One notebook as its author describes it: ``docs_src/notebooks/feedback.md``."""

    name: str
    title: str
    summary: str
    #: Dotted name of the module whose page the notebook belongs to; its exercises are set.
    page: str
    #: Its cells; modules, which are taken apart into cells, where they come; and "exercises".
    pieces: tuple[Cell | Part | str, ...]


def read_recipe(path: Path, root: Path) -> Recipe:
    """One recipe, its includes filled in. Raises `NotebookError` for a fault of it."""
    display = path.relative_to(root).as_posix()
    report = Report()
    values, body, _ = frontmatter.split(path.read_text("utf-8"), path=display, report=report)
    if report.failed:
        raise NotebookError("\n".join(map(str, report)))
    for key in ("title", "summary", "page", "chapters"):
        if not values.get(key):
            raise NotebookError(f"{display} has no `{key}`; add a line `{key}: …` to its head")

    def included(match: re.Match[str]) -> str:
        part = path.parent / "parts" / f"{match[1]}.md"
        if not part.is_file():
            hint = "there is no such file in `parts`"
            raise NotebookError(f"{display} includes `{match[1]}`; {hint}")
        return part.read_text(encoding="utf-8").strip("\n")

    parts = []
    for written in values["chapters"].split():
        match = _CHAPTER.fullmatch(written)
        if match is None:
            hint = "write `pkg.module(Name,Other)`"
            raise NotebookError(f"{display}: `{written}` is no chapter; {hint}")
        parts.append(Part(match[1], tuple(match[2].split(",")) if match[2] else ()))
    summary = " ".join(values["summary"].split())
    pieces = tuple(_pieces(_INCLUDE.sub(included, body), parts))
    return Recipe(path.stem, values["title"], summary, values["page"], pieces)


def _pieces(body: str, chapters: list[Part]) -> Iterator[Cell | Part | str]:
    found = iter([*_PIECE.split(body), None, None, None])
    for text, info, code, mark in zip(found, found, found, found, strict=True):
        # One cell for each chapter of the recipe, so that it can be found and folded.
        for part in re.split(r"\n(?=## )", _COMMENT.sub("", text or "").strip("\n")):
            if part.strip():
                yield Cell("markdown", part.strip("\n"))
        if mark is not None:
            yield from chapters if mark == "chapters" else (mark,)
        elif code is not None and info is not None:
            alt = _ALT.search(info)
            tags = tuple(_ALT.sub("", info).split())
            yield Cell("code", code.rstrip("\n"), tags=tags, alt=alt[1] if alt else "")
