"""The files of figures, ``docs_src/figures``, read without running them.

``figure:masks.causal`` is the function `causal` of ``docs_src/figures/masks.py``. Functions whose
name begins with an underscore are no figures.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = "figures"


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A file of figures."""

    #: As notes write it: ``masks``, or ``feedback.chains`` for one in a folder.
    name: str
    path: Path
    #: For messages.
    shown: str
    text: str
    #: Its figures, each with the line that defines it.
    functions: Mapping[str, int]
    #: Why it cannot be read.
    problem: str = ""


def read_files(folder: Path, shown: str) -> dict[str, FigureFile]:
    """All files of figures, by their names."""
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else []
    files = [_read(path, folder, shown) for path in paths]
    return {file.name: file for file in files}


def _read(path: Path, folder: Path, shown: str) -> FigureFile:
    relative = path.relative_to(folder)
    name = ".".join(relative.with_suffix("").parts)
    display = f"{shown}/{relative.as_posix()}"
    try:
        text = path.read_text(encoding="utf-8")
        found = _functions(text)
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        return FigureFile(name, path, display, "", {}, f"does not parse{place}: {error.msg}")
    except (OSError, ValueError) as error:
        return FigureFile(name, path, display, "", {}, f"cannot be read: {error}")
    return FigureFile(name, path, display, text, found)


@lru_cache(maxsize=1000)
def _functions(text: str) -> Mapping[str, int]:
    """The figures of a file; few files change from build to build."""
    return {
        node.name: node.lineno
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
