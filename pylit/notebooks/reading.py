"""A notebook as it lies in its file: a build reads it, and needs nothing of what makes one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pylit.notebooks.model import Document, NotebookError


def source_of(cell: Mapping[str, Any]) -> str:
    """The text of a cell in a document."""
    return "".join(cell["source"])


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
