r"""
---
title: "Files and errors of a run"
summary: >
  The error class whose text is shown to the user, and JSON files that are replaced in
  one step.
---

A run can fail without a programming error: the text is missing, the disk
is full, the loss became infinite. Such a failure is reported in one sentence. A value
that is out of range is a `ValueError`, as everywhere in the library.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labml_nn.saving import replace as write_files

__all__ = ["RunError", "read_json", "write_files", "write_json"]


class RunError(Exception):
    """
    ## A run that cannot start or continue

    Its text says what happened, with the values that matter, and what can be done. The
    command line prints it; a program that catches it knows that the last checkpoint is
    intact.
    """


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Atomically, with one line for each field."""
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for name, value in values.items()
    )
    write_files({path: f"{{\n{lines}\n}}\n".encode()})


def read_json(path: Path) -> dict[str, Any]:
    """Raises `RunError` for a file that is missing or damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"there is no {path}: the run is incomplete") from None
    except (ValueError, OSError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise RunError(f"{path} is damaged: expected a JSON object")
    return values
