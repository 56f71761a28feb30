"""A notebook made of its recipe: the same file for the same source.

The recipe, ``docs_src/notebooks/feedback.md``, is Markdown with front matter. Its blocks of
``python`` become code cells and the rest Markdown cells. A word after ``python`` is a tag of the
cell (``parameters``), and ``alt="…"`` describes its pictures. Comments insert other cells:

    <!-- include: setup -->    the file docs_src/notebooks/parts/setup.md
    <!-- chapters -->          the modules of `chapters`, cell by cell
    <!-- exercises -->         the exercises of `page`, to which the notebook belongs

A chapter is a module or some of its definitions: ``pkg.a(Name,Other)`` has only these, and
``pkg.a(-Name)`` all but this one.

A new version of a notebook has the outputs of its last run if its code is the same, whatever the
comments say, so a correction of the text needs no training.
"""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict, v4

from docs_src.notebooks import OWN, NotebookError
from docs_src.notebooks.lesson import Lesson, Names
from docs_src.notebooks.note_text import NoteText
from pylit.config import load_config
from pylit.diagnostics import Report
from pylit.languages.language import FOLDER, file_of
from pylit.languages.translations import in_language
from pylit.model import Module
from pylit.notes.citations import read_bibliography
from pylit.source.discover import discover, read_source
from pylit.source.pages import split_front_matter
from pylit.source.parse import parse_module

#: Metadata of a notebook, as Jupyter and Colab write it.
_METADATA = {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4", "provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_PACKAGE = """\
## The package

The same classes are in a package, with kernels that make them faster on a CPU, with checkpoints
and training on several processes. The next cell installs it, without changing PyTorch, once you
remove its `#`."""

#: A recipe is divided at code, at comments and before headings, so that chapters can be folded.
_PIECES = re.compile(
    r"^(```python[^\n]*\n.*?\n```|<!-- (?:chapters|exercises) -->)$|^(?=## )", re.M | re.S
)
_CODE = re.compile(r'```python([^\n]*?)(?: alt="([^\n]*)")?\n(.*)\n```', re.DOTALL)
_INCLUDE = re.compile(r"^<!-- include: ([\w-]+) -->$", re.MULTILINE)


def cell(kind: str, text: str, tags: Iterable[str] = (), **about: str) -> NotebookNode:
    """A cell; `about` may have the `chapter` that it is made of, and the `alt` of its pictures."""
    own = {key: value for key, value in about.items() if value}
    metadata = {OWN: own, "tags": [*tags]}
    metadata = {key: value for key, value in metadata.items() if value}
    made: NotebookNode = getattr(v4, f"new_{kind}_cell")(text, metadata=metadata)
    return made


class NotebookBuilder:
    """Makes the notebooks of the site in `root`. Raises `NotebookError` for invalid sources."""

    def __init__(
        self, root: Path, language: str = "", words: Mapping[str, str] | None = None
    ) -> None:
        report, docs = Report(), root / "docs_src"
        config = load_config(root, report)
        found = [
            parse_module(source, report)
            for name in (config.sources if config else ())
            for source in discover(root / name, own=True, report=report)
        ]
        works = read_bibliography(docs / "references.bib", "docs_src/references.bib", report)
        if config is None or report.failed:
            raise NotebookError("\n".join(map(str, report)))
        self._config, self._root, self._recipes = config, root, docs / "notebooks"
        self._modules = {module.source.name: module for module in found if module.parsed}
        sources = [module.source for module in self._modules.values()]
        by_name = {name: source for source in sources for name in (source.name, source.display)}
        self._note_text = partial(NoteText, config.base_url, works, by_name)
        self.names = [path.stem for path in sorted(self._recipes.glob("*.md"))]
        #: Modules in English whose notes are in another language in `_modules`.
        self._originals: dict[str, Module] = {}
        if language:
            self._translate(docs / FOLDER / language, words or {}, report)

    def _translate(self, folder: Path, words: Mapping[str, str], report: Report) -> None:
        """Take the notes of a language, where there are any."""
        written = {*folder.rglob("*.md")}

        def moved(url: str) -> str:
            page = url.partition("#")[0].removesuffix(".html").removesuffix("/index")
            names = (f"{page}.md", f"{page}/__init__.md", f"pages/{page}.md")
            return f"{folder.name}/{url}" if {folder / name for name in names} & written else url

        self._note_text = partial(self._note_text, words=words, moved=moved)
        for name, module in self._modules.items():
            if (path := folder / file_of(module.source)) in written:
                file = read_source(path, name=name, display=path.name, own=True, report=report)
                if file:
                    self._originals[name] = module
                    self._modules[name] = in_language(module, file)

    def recipe(self, name: str) -> tuple[Mapping[str, str], str]:
        """The front matter and the text of a recipe."""
        path, report = self._recipes / f"{name}.md", Report()
        display = path.relative_to(self._root).as_posix()
        values, body, _ = split_front_matter(path.read_text("utf-8"), report, (display, 1, 0))
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

        return values, _INCLUDE.sub(included, body)

    def cells(self, name: str) -> Iterator[NotebookNode]:
        """The cells of a notebook, without the one about its run."""
        values, body = self.recipe(name)
        chapters = {
            module: choice.rstrip(")").split(",")
            for module, _, choice in (one.partition("(") for one in values["chapters"].split())
        }
        names = Names(chapters, self._modules)
        page = self._lesson(values["page"], names)
        links = [page.note_text.page("The page")] if self._config.base_url else []
        if repository := self._config.repository:
            path = f"{repository}/blob/{self._config.branch}/notebooks/{name}.ipynb"
            links.append(f"[Open in Colab](https://colab.research.google.com/github/{path})")
        summary = " ".join(values["summary"].split())
        head = f"# {values['title']}\n\n{summary}\n\n{' · '.join(links)}"
        yield cell("markdown", head.strip())
        for piece in filter(None, ((part or "").strip("\n") for part in _PIECES.split(body))):
            if match := _CODE.fullmatch(piece):
                tags, alt, code = match.groups(default="")
                yield cell("code", code, tags.split(), alt=alt)
                names.imported(code)
            elif piece == "<!-- chapters -->":
                for module, choice in chapters.items():
                    lesson = self._lesson(module, names, choice)
                    yield from (cell(*made, chapter=module) for made in lesson.cells())
            elif piece != "<!-- exercises -->":
                yield cell("markdown", piece)
            elif exercises := page.exercises():
                yield cell("markdown", exercises)
            else:
                message = f"the page {values['page']} has no exercises"
                raise NotebookError(f"{name}: {message}; remove the comment that inserts them")
        if repository:
            yield cell("markdown", _PACKAGE)
            yield cell("code", f'# %pip install "labml-nn @ git+https://github.com/{repository}"')

    def _lesson(self, name: str, names: Names, choice: Collection[str] = ()) -> Lesson:
        if name not in self._modules:
            raise NotebookError(f"there is no module `{name}`; write its dotted name")
        module = self._modules[name]
        note_text = self._note_text(module.source)
        return Lesson(module, names, note_text, choice, self._originals.get(name))

    def path(self, name: str) -> Path:
        """The file of a notebook."""
        return self._root / "notebooks" / f"{name}.ipynb"

    def document(self, name: str, old: NotebookNode | None = None) -> NotebookNode:
        """A notebook with the outputs of `old`, by default its file, if the code is the same."""
        return document(self.cells(name), name, old or read_document(self.path(name)))


def document(
    cells: Iterable[NotebookNode], name: str, old: NotebookNode | None = None
) -> NotebookNode:
    """The notebook of these cells, with the outputs of `old` if it has the same code."""
    first, *others = deepcopy([*cells])
    about = cell("markdown", run_line({}))
    metadata = _METADATA | {OWN: {"notebook": name}}
    made: NotebookNode = v4.new_notebook(cells=[first, about, *others], metadata=metadata)
    code, earlier = code_cells(made), code_cells(old) if old else []
    if old and [*map(_program, code)] == [*map(_program, earlier)]:
        for one, before in zip(code, earlier, strict=True):
            one.update(execution_count=before.execution_count, outputs=before.outputs)
        if has_run(old):
            made.metadata[OWN].run = old.metadata[OWN].run
            about.source = run_line(old.metadata[OWN].run)
    return numbered(made, name)


def numbered(made: NotebookNode, name: str) -> NotebookNode:
    """The notebook; its cells get the names that their texts have in any version."""
    counted: Counter[str] = Counter()
    for one in made.cells:
        key = f"{name} {one.cell_type} {one.source}"
        counted[key] += 1
        one.id = hashlib.sha256(f"{key} {counted[key]}".encode()).hexdigest()[:12]
    return made


def _program(one: NotebookNode) -> str:
    """What a code cell runs: its syntax tree, in which there are no comments."""
    source = "".join(one.source)
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:  # such as a magic command of IPython
        return source


def run_line(run: Mapping[str, Any]) -> str:
    """The sentence of a notebook about the run that its outputs are from."""
    if not run:
        return "> **Not run yet.** There are no outputs below."
    minutes, seconds = divmod(round(run["seconds"]), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    torch = f", PyTorch {run['torch']}" if run["torch"] else ""
    return (
        f"> **The outputs below** are those of a run on {run['hardware']}, on {run['date']}. The "
        f"whole notebook took {took}, with Python {run['python']}{torch}."
    )


def read_document(path: Path) -> NotebookNode | None:
    """A notebook from its file; None if there is none. Raises `NotebookError` if it is damaged."""
    try:
        # Not `nbformat.read`: outputs keep their bytes, whichever version of nbformat wrote them.
        old: NotebookNode = from_dict(json.loads(path.read_text(encoding="utf-8")))
        code_cells(old)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "delete it, and run `make notebooks`"
        raise NotebookError(f"{path.name} cannot be read ({error!r}); {hint}") from error
    return old


def as_text(document: NotebookNode) -> str:
    """The file, as Jupyter writes it."""
    return f"{v4.writes(document)}\n"


def has_run(document: NotebookNode) -> bool:
    """Whether its outputs are those of a run of this code."""
    return "run" in document.metadata.get(OWN, {})


def code_cells(document: NotebookNode) -> list[NotebookNode]:
    """The code cells of a document."""
    return [cell for cell in document.cells if cell.cell_type == "code"]
