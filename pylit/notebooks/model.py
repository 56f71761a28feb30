"""The values of which notebooks are made, and a notebook as its file holds it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

#: What of a notebook's and a cell's metadata is ours.
OWN = "labml_nn"


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
    """A chapter: a module, and the definitions that are taken of it (see `Chapter`)."""

    module: str
    choice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """One notebook as its author describes it: ``docs_src/notebooks/feedback.md``."""

    name: str
    #: As diagnostics and errors name the file.
    display: str
    title: str
    summary: str
    #: Dotted name of the module whose page the notebook belongs to; its exercises are asked.
    page: str
    #: The modules that are taken apart into cells, each before those that use it.
    chapters: tuple[Part, ...]
    #: Markdown. Its Python blocks become cells; comments say where chapters go.
    body: str
    #: Line of the file on which the body begins.
    first_line: int
    #: Other values of the front matter, which ``{{name}}`` in the body asks for.
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is the same for all notebooks of a site."""

    root: Path
    #: Absolute, ends with ``/``: links of a notebook must work wherever it lies.
    base_url: str
    #: ``owner/name`` on GitHub.
    repository: str
    branch: str

    @property
    def recipes(self) -> Path:
        """Where the recipes lie."""
        return self.root / "docs_src" / "notebooks"

    @property
    def notebooks(self) -> Path:
        """Where the notebooks lie."""
        return self.root / "notebooks"


#: A notebook as its file holds it.
Document = dict[str, Any]


def source_of(cell: Mapping[str, Any]) -> str:
    """The text of a cell in a document."""
    return "".join(cell["source"])


def code_cells(document: Document) -> list[dict[str, Any]]:
    """The code cells of a document."""
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def read_document(path: Path) -> Document | None:
    """A notebook from its file; None if there is none. Raises `NotebookError` if it is damaged."""
    try:
        loaded: Document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        hint = "remove it, and make it anew with `make notebooks`"
        raise NotebookError(f"{path.name} cannot be read ({error}); {hint}") from error
    if not isinstance(loaded, dict) or not isinstance(loaded.get("cells"), list):
        raise NotebookError(f"{path.name} is no notebook; remove it, and run `make notebooks`")
    return loaded
