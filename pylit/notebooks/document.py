"""A notebook as a file: cells in, JSON out, the same bytes for the same source.

What a run left in a notebook, its outputs, belongs to its code: as long as no code cell changes,
a notebook that is made anew keeps them, and a mended sentence costs no training.
"""

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pylit.diagnostics import Report
from pylit.notebooks.chapters import Chapter, Names, Read
from pylit.notebooks.model import (
    OWN,
    Cell,
    Document,
    NotebookError,
    Part,
    Recipe,
    Surroundings,
    code_cells,
    source_of,
)
from pylit.notebooks.recipe import pieces
from pylit.notebooks.standalone import without_imports
from pylit.notebooks.wording import Wording, path_url
from pylit.prose.works import read_bibliography
from pylit.source.discover import discover
from pylit.source.parse import parse_module

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
    """Makes notebooks of recipes.

    Args:
        around: The site that they belong to.
        sources: Folders of the packages whose modules may be chapters.
    """

    def __init__(self, around: Surroundings, sources: Sequence[str]) -> None:
        self._around = around
        report = Report()
        works = read_bibliography(
            around.root / "docs_src" / "references.bib", "docs_src/references.bib", report
        )
        self._wording = Wording(around.root, around.base_url, works)
        self._modules = dict(_read(around.root, sources, report))
        if report.failed:
            raise NotebookError("\n".join(map(str, report)))

    def cells(self, recipe: Recipe) -> list[Cell]:
        """The cells of a notebook, without the line that says where it ran."""
        found = list(pieces(recipe))
        names = Names([part.module for part in recipe.chapters], self._modules.keys())
        cells = [Cell("markdown", self._title(recipe))]
        for piece in found:
            if isinstance(piece, Cell):
                cells.append(piece)
                names.cell(piece)
            elif isinstance(piece, Part):
                cells.extend(self._chapter(piece, names).cells())
            else:
                page = self._chapter(Part(recipe.page), names)
                text = without_imports(self._exercises(recipe, page), names.origins)
                cells.append(Cell("markdown", text))
        return [*cells, *self._package()]

    def _package(self) -> list[Cell]:
        """How to install the package, where it is known where that is."""
        if not self._around.repository:
            return []
        address = f"git+https://github.com/{self._around.repository}"
        return [Cell("markdown", PACKAGE), Cell("code", f'# %pip install "labml-nn @ {address}"')]

    def _chapter(self, part: Part, names: Names) -> Chapter:
        if part.module not in self._modules:
            raise NotebookError(f"there is no module `{part.module}`; write its dotted name")
        return Chapter(self._modules[part.module], names, self._wording, part)

    def _title(self, recipe: Recipe) -> str:
        around = self._around
        links = []
        if around.base_url:
            module = self._modules[recipe.page][0].source
            links.append(f"[The page]({around.base_url}{path_url(module.display)})")
        if around.repository:
            path = f"{around.repository}/blob/{around.branch}/notebooks/{recipe.name}.ipynb"
            links.append(f"[Open in Colab](https://colab.research.google.com/github/{path})")
        return f"# {recipe.title}\n\n{recipe.summary}\n\n{' · '.join(links)}".strip()

    def _exercises(self, recipe: Recipe, page: Chapter) -> str:
        text = page.exercises()
        if not text:
            raise NotebookError(f"{recipe.display}: the page {recipe.page} sets no exercises")
        return text


def _read(root: Path, sources: Sequence[str], report: Report) -> Iterator[tuple[str, Read]]:
    for name in sources:
        for source in discover(root / name, own=True, report=report):
            module = parse_module(source, report)
            if module.parsed:
                yield source.name, (module, ast.parse(source.text))


def document(cells: Sequence[Cell], name: str, old: Document | None = None) -> Document:
    """The notebook of these cells, with the outputs of `old` if it has the same code."""
    ran = code_cells(old) if old is not None else []
    kept = [source_of(cell) for cell in ran] == [cell.text for cell in cells if cell.kind == "code"]
    run: Mapping[str, Any] = old["metadata"].get(OWN, {}).get("run", {}) if old and kept else {}
    outputs = iter(ran if kept else [])
    title, *rest = cells
    counted: Counter[str] = Counter()
    result = []
    for cell in (title, Cell("markdown", run_line(run)), *rest):
        made = _cell(cell, name, counted)
        if cell.kind == "code":
            before = next(outputs, None)
            made["execution_count"] = before["execution_count"] if before else None
            made["outputs"] = before["outputs"] if before else []
        result.append(made)
    metadata = {**_LANGUAGE, OWN: {"notebook": name, **({"run": dict(run)} if run else {})}}
    return {"cells": result, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def run_line(run: Mapping[str, Any]) -> str:
    """What a notebook says about the outputs in it."""
    if not run:
        return "> **Not run yet.** There are no outputs below."
    minutes, seconds = divmod(round(run["seconds"]), 60)
    took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    preset = f"the preset `{run['preset']}`, " if run["preset"] else ""
    torch = f", PyTorch {run['torch']}" if run["torch"] else ""
    return (
        f"> **The outputs below** are those of a run on {run['hardware']}, on {run['date']}. The "
        f"whole notebook took {took}, with {preset}Python {run['python']}{torch}."
    )


def _cell(cell: Cell, name: str, counted: Counter[str]) -> dict[str, Any]:
    key = f"{name} {cell.kind} {cell.text}"
    counted[key] += 1
    digest = hashlib.sha256(f"{key} {counted[key]}".encode()).hexdigest()
    about = (("chapter", cell.chapter), ("alt", cell.alt))
    own = {name: value for name, value in about if value}
    metadata: dict[str, Any] = {OWN: own} if own else {}
    if cell.tags:
        metadata["tags"] = list(cell.tags)
    return {
        "cell_type": cell.kind,
        "id": digest[:12],
        "metadata": metadata,
        "source": cell.text.splitlines(keepends=True),
    }


def has_run(document: Document) -> bool:
    """Whether its outputs are those of a run of this code."""
    return "run" in document["metadata"].get(OWN, {})


def as_text(document: Document) -> str:
    """The file: sorted keys and an indentation of one space, as Jupyter writes it."""
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
