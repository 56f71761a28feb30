"""``docs_src/notebooks``: what each notebook is made of.

A recipe is Markdown with front matter. Its ```` ```python ```` blocks become code cells and what is
between them text. A word behind ``python`` marks the cell (``parameters``), and ``alt="…"`` says
what its pictures show. Comments stand for what comes from elsewhere:

    <!-- include: setup -->    the file docs_src/notebooks/parts/setup.md
    <!-- chapters -->          the modules, cell by cell
    <!-- exercises -->         the exercises of the page that the notebook belongs to

A chapter is a module, or some of its definitions: ``pkg.a(Name,Other)`` takes these, and
``pkg.a(-Name)`` all but this one.

``{{name}}`` is a value of the front matter or of the site: ``{{repository}}``, ``{{site}}``.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pylit.diagnostics import Report
from pylit.notebooks.model import Cell, NotebookError, Part, Recipe, Surroundings
from pylit.source import frontmatter

CHAPTERS, EXERCISES = "<!-- chapters -->", "<!-- exercises -->"
_REQUIRED = ("title", "summary", "page", "chapters")
_INCLUDE = re.compile(r"^<!-- include: ([\w-]+) -->$", re.MULTILINE)
_VALUE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_BLOCK = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_ALT = re.compile(r'alt="([^"]*)"')
_CHAPTER = re.compile(r"([\w.]+)(?:\(([\w,-]+)\))?")
_MARK = re.compile(rf"^({CHAPTERS}|{EXERCISES})$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def read_recipes(around: Surroundings) -> list[Recipe]:
    """All recipes, by name. Raises `NotebookError` for one that is not whole."""
    return [read_recipe(path, around) for path in sorted(around.recipes.glob("*.md"))]


def read_recipe(path: Path, around: Surroundings) -> Recipe:
    """One recipe, its includes and values filled in."""
    display = path.relative_to(around.root).as_posix()
    report = Report()
    text = path.read_text(encoding="utf-8")
    values, rest, taken = frontmatter.split(text, path=display, report=report)
    if report.failed:
        raise NotebookError("\n".join(map(str, report)))
    for key in _REQUIRED:
        if not values.get(key, "").strip():
            raise NotebookError(f"{display} has no `{key}`; add a line `{key}: …` to its head")
    known = {**values, "name": path.stem, "repository": around.repository}
    known |= {"site": around.base_url, "branch": around.branch}
    # A link to where nobody knows that the project lives stays as its words.
    unknown = [key for key in ("repository", "site") if not known[key]]
    for key in unknown:
        rest = re.sub(rf"\[([^\[\]]+)\]\([^()\s]*\{{\{{{key}\}}\}}[^()\s]*\)", r"\1", rest)
    return Recipe(
        name=path.stem,
        display=display,
        title=values["title"],
        summary=" ".join(values["summary"].split()),
        page=values["page"],
        chapters=tuple(_part(written, display) for written in values["chapters"].split()),
        body=_filled(_included(rest, path.parent, display), known, display),
        first_line=taken + 1,
        values=values,
    )


def _part(written: str, display: str) -> Part:
    match = _CHAPTER.fullmatch(written)
    if match is None:
        raise NotebookError(f"{display}: `{written}` is no chapter; write `pkg.module(Name,Other)`")
    return Part(match[1], tuple((match[2] or "").split(",")) if match[2] else ())


def pieces(recipe: Recipe) -> Iterator[Cell | Part | str]:
    """The cells of a recipe; a module where it comes, and `EXERCISES`."""
    for part in _MARK.split(recipe.body):
        if part == CHAPTERS:
            yield from recipe.chapters
        elif part == EXERCISES:
            yield part
        else:
            yield from _cells(part)


def _cells(text: str) -> Iterator[Cell]:
    done = 0
    for block in _BLOCK.finditer(text):
        # A program inside of an answer stays where it is, folded away.
        if text.count("<details", 0, block.start()) > text.count("</details", 0, block.start()):
            continue
        yield from _text(text[done : block.start()])
        alt = _ALT.search(block["info"])
        tags = tuple(_ALT.sub("", block["info"]).split())
        yield Cell("code", block["code"].rstrip("\n"), tags=tags, alt=alt[1] if alt else "")
        done = block.end()
    yield from _text(text[done:])


def _text(text: str) -> Iterator[Cell]:
    """Text as cells: one for each chapter of the recipe, so that it can be found and folded."""
    text = _COMMENT.sub("", text).strip("\n")
    for part in re.split(r"\n(?=## )", text):
        if part.strip():
            yield Cell("markdown", part.strip("\n"))


def _included(text: str, folder: Path, display: str) -> str:
    def part(match: re.Match[str]) -> str:
        path = folder / "parts" / f"{match[1]}.md"
        if not path.is_file():
            hint = f"there is no {path.name} in {path.parent.name}"
            raise NotebookError(f"{display} includes `{match[1]}`; {hint}")
        return path.read_text(encoding="utf-8").strip("\n")

    return _INCLUDE.sub(part, text)


def _filled(text: str, values: Mapping[str, str], display: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            known = ", ".join(sorted(values))
            raise NotebookError(f"{display} asks for {match[0]}; known values: {known}")
        return values[match[1]]

    return _VALUE.sub(value, text)
