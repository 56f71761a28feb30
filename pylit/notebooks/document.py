"""A notebook as a file: cells in, JSON out, the same bytes for the same source.

What a run left in a notebook, its outputs, belongs to its code: as long as no code cell changes,
a notebook that is made anew keeps them, and a mended sentence costs no training.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pylit.diagnostics import Report
from pylit.notebooks.lesson import Lesson, Names
from pylit.notebooks.recipe import Cell, NotebookError, Part, Recipe, read_recipe
from pylit.notebooks.wording import Wording
from pylit.prose.works import read_bibliography
from pylit.site.addresses import module_url
from pylit.site.config import load_config
from pylit.source.discover import discover
from pylit.source.parse import parse_module

#: A notebook as its file holds it.
Document = dict[str, Any]

#: What of a notebook's and a cell's metadata is ours.
OWN = "labml_nn"
#: Metadata of a notebook's language, as Jupyter and Colab write it.
_LANGUAGE = {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4", "provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PACKAGE = """\
## The package

The same classes are in a package, with kernels that make them faster on a CPU, with checkpoints
and training on several processes. The next cell installs it, without changing PyTorch, once you
remove its `#`."""


class Maker:
    """Makes the notebooks of the site in a folder. Raises `NotebookError` for what is wrong in it.

    `root` is the folder that holds ``docs_src`` and the packages.
    """

    def __init__(self, root: Path) -> None:
        report, docs = Report(), root / "docs_src"
        config = load_config(docs / "site.toml", "docs_src/site.toml", report)
        if config is None:
            raise NotebookError("\n".join(map(str, report)))
        self._config = config
        self._folder = root / "notebooks"
        found = [
            parse_module(source, report)
            for name in config.sources
            for source in discover(root / name, own=True, report=report)
        ]
        self._modules = {module.source.name: module for module in found if module.parsed}
        works = read_bibliography(docs / "references.bib", "docs_src/references.bib", report)
        if report.failed:
            raise NotebookError("\n".join(map(str, report)))
        sources = (module.source for module in self._modules.values())
        self._wording = Wording(config.base_url, works, sources)
        paths = sorted((docs / "notebooks").glob("*.md"))
        self.recipes = {path.stem: read_recipe(path, root) for path in paths}

    def cells(self, name: str) -> Iterator[Cell]:
        """The cells of a notebook, without the line that says where it ran."""
        recipe, repository = self.recipes[name], self._config.repository
        chapters = [piece.module for piece in recipe.pieces if isinstance(piece, Part)]
        names = Names(chapters, self._modules)
        yield Cell("markdown", self._title(recipe))
        for piece in recipe.pieces:
            if isinstance(piece, Cell):
                yield piece
                names.cell(piece)
            elif isinstance(piece, Part):
                yield from self._lesson(piece, names).cells()
            elif text := self._lesson(Part(recipe.page), names).exercises():
                yield Cell("markdown", names.not_imported(text))
            else:
                hint = "remove the comment that asks for them"
                raise NotebookError(f"{name}: the page {recipe.page} sets no exercises; {hint}")
        if repository:
            yield Cell("markdown", PACKAGE)
            address = f"git+https://github.com/{repository}"
            yield Cell("code", f'# %pip install "labml-nn @ {address}"')

    def _lesson(self, part: Part, names: Names) -> Lesson:
        if part.module not in self._modules:
            raise NotebookError(f"there is no module `{part.module}`; write its dotted name")
        return Lesson(self._modules[part.module], names, self._wording, part)

    def _title(self, recipe: Recipe) -> str:
        config, links = self._config, []
        if config.base_url:
            page = module_url(self._modules[recipe.page].source)
            links.append(f"[The page]({config.base_url}{page})")
        if config.repository:
            path = f"{config.repository}/blob/{config.branch}/notebooks/{recipe.name}.ipynb"
            links.append(f"[Open in Colab](https://colab.research.google.com/github/{path})")
        return f"# {recipe.title}\n\n{recipe.summary}\n\n{' · '.join(links)}".strip()

    def path(self, name: str) -> Path:
        """The file of a notebook."""
        return self._folder / f"{name}.ipynb"

    def document(self, name: str, old: Document | None = None) -> Document:
        """A notebook as its sources say, with the outputs of `old`, or its file, if they hold."""
        return document([*self.cells(name)], name, old or read_document(self.path(name)))


def document(cells: Sequence[Cell], name: str, old: Document | None = None) -> Document:
    """The notebook of these cells, with the outputs of `old` if it has the same code."""
    ran = code_cells(old) if old is not None else []
    kept = [source_of(cell) for cell in ran] == [cell.text for cell in cells if cell.kind == "code"]
    run: Mapping[str, Any] = old["metadata"].get(OWN, {}).get("run", {}) if old and kept else {}
    outputs = iter(ran if kept else [])
    counted: Counter[str] = Counter()
    result = []
    for cell in (cells[0], Cell("markdown", run_line(run)), *cells[1:]):
        key = f"{name} {cell.kind} {cell.text}"
        counted[key] += 1
        digest = hashlib.sha256(f"{key} {counted[key]}".encode()).hexdigest()
        own = {key: value for key in ("chapter", "alt") if (value := getattr(cell, key))}
        metadata: dict[str, Any] = {OWN: own} if own else {}
        if cell.tags:
            metadata["tags"] = list(cell.tags)
        made: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": digest[:12],
            "metadata": metadata,
            "source": cell.text.splitlines(keepends=True),
        }
        if cell.kind == "code":
            before = next(outputs, {})
            made["execution_count"] = before.get("execution_count")
            made["outputs"] = before.get("outputs", [])
        result.append(made)
    about = {**_LANGUAGE, OWN: {"notebook": name, **({"run": dict(run)} if run else {})}}
    return {"cells": result, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def run_line(run: Mapping[str, Any]) -> str:
    """What a notebook says about the outputs in it."""
    if not run:
        return "> **Not run yet.** There are no outputs below."
    minutes, seconds = divmod(round(run["seconds"]), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    torch = f", PyTorch {run['torch']}" if run["torch"] else ""
    return (
        f"> **The outputs below** are those of a run on {run['hardware']}, on {run['date']}. The "
        f"whole notebook took {took}, with Python {run['python']}{torch}."
    )


def read_document(path: Path) -> Document | None:
    """A notebook from its file; None if there is none. Raises `NotebookError` if it is damaged."""
    try:
        loaded: Document = json.loads(path.read_text(encoding="utf-8"))
        code_cells(loaded)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        hint = "remove it, and make it anew with `make notebooks`"
        raise NotebookError(f"{path.name} cannot be read ({error!r}); {hint}") from error
    return loaded


def as_text(document: Document) -> str:
    """The file: sorted keys and an indentation of one space, as Jupyter writes it."""
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def has_run(document: Document) -> bool:
    """Whether its outputs are those of a run of this code."""
    return "run" in document["metadata"].get(OWN, {})


def source_of(cell: Mapping[str, Any]) -> str:
    """The text of a cell in a document."""
    return "".join(cell["source"])


def code_cells(document: Document) -> list[dict[str, Any]]:
    """The code cells of a document."""
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]
