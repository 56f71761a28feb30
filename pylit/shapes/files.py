"""The files that declare runs: ``docs_src/traces``.

A file of traces mirrors the path of its module, ``docs_src/traces/pkg/mod.py`` for ``pkg/mod.py``.
Each of its functions whose name begins with ``trace`` is a run, and its parameters are axes.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report
from pylit.shapes.expressions import names
from pylit.shapes.model import Axes, TraceFunction
from pylit.shapes.naming import MOST_AXES, assign

FOLDER = "traces"
AXES = "axes.toml"
_KEYS: Mapping[str, type] = {
    "words": dict,
    "derived": dict,
    "lengths": list,
    "page": str,
    "environment": dict,
}


def read_axes(folder: Path, shown: str, report: Report) -> Axes:
    """The letters of the site; none where there is no file."""
    path = folder / AXES
    if not path.is_file():
        return Axes()
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, ValueError) as error:
        report.add(Diagnostic(f"{shown}/{AXES}", 0, 0, "axes", str(error)))
        return Axes()
    for problem in _problems(data):
        report.add(Diagnostic(f"{shown}/{AXES}", 0, 0, "axes", problem))
    if report.failed:
        return Axes()
    return Axes(
        data.get("words", {}),
        data.get("derived", {}),
        frozenset(data.get("lengths", ())),
        data.get("page", ""),
        text,
        {name: str(value) for name, value in data.get("environment", {}).items()},
    )


def _problems(data: Mapping[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if key not in _KEYS:
            yield f"unknown key `{key}`; known: {', '.join(_KEYS)}"
        elif not isinstance(value, _KEYS[key]):
            yield f"`{key}` must be a {_KEYS[key].__name__}"
        elif isinstance(value, list) and not all(isinstance(one, str) for one in value):
            yield f"`{key}` is {value!r}; expected letters, such as ['T', 'S']"
    for key in ("words", "derived"):
        table = data.get(key)
        for name, text in table.items() if isinstance(table, dict) else ():
            if not isinstance(text, str) or not names(text):
                yield f"`{key}.{name}` is {text!r}; expected letters, such as 'T' or 'H*K'"


def trace_files(folder: Path) -> list[str]:
    """The files of traces, by the paths of their modules."""
    if not folder.is_dir():
        return []
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))


def read_traces(text: str, shown: str, axes: Axes, report: Report) -> tuple[TraceFunction, ...]:
    """The functions of one file of traces."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        # A ValueError is Python 3.11's word for a null byte, and has no place.
        line, column = getattr(error, "lineno", 0) or 0, getattr(error, "offset", 0) or 0
        message = f"does not parse: {getattr(error, 'msg', error)}"
        report.add(Diagnostic(shown, line, column, "trace-file", message))
        return ()
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    nodes = [node for node in nodes if node.name.startswith("trace")]
    found = [one for node in nodes if (one := _function(node, axes, shown, report))]
    if not nodes:
        message = "no function whose name begins with `trace`"
        hint = "write `def trace(T, B): ...`, with the axes of the run as its parameters"
        report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
    return tuple(found)


def _function(
    node: ast.FunctionDef, axes: Axes, shown: str, report: Report
) -> TraceFunction | None:
    """A parameter with a default value is no axis."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    positional = positional[: len(positional) - len(given.defaults)]
    named = [a for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is None]
    letters = [argument.arg for argument in (*positional, *named)]
    if len(letters) > MOST_AXES:
        message = f"`{node.name}` has {len(letters)} axes, and there are sizes for {MOST_AXES}"
        hint = "give those that need no name a default value"
        report.add(Diagnostic(shown, node.lineno, 1, "trace-file", message, hint))
        return None
    derived = {
        letter: text
        for letter, text in axes.derived.items()
        if letter in letters and names(text) <= set(letters)
    }
    return TraceFunction(node.name, node.lineno, assign(letters, derived))
