"""All runs of a site: the files that declare them, which are needed, what the pages get of them.

A file of traces mirrors the path of its module, ``docs_src/traces/pkg/mod.py`` for ``pkg/mod.py``.
Each of its functions whose name begins with ``trace`` is a run, and its parameters are axes. What
runs told is kept (`pylit.runs`). What a page shows of them depends on its notes as well, and is
made anew when they change.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Module
from pylit.runs import Failure, Limits, Runs, Task
from pylit.shapes.check import check
from pylit.shapes.lines import (
    Axes,
    ModuleShapes,
    Traced,
    module_lines,
    read_run,
)
from pylit.shapes.names import MOST_AXES, assign, names
from pylit.shapes.plan import read_plan

FOLDER = "traces"
AXES = "axes.toml"
_KEYS: Mapping[str, type] = {
    "words": dict,
    "derived": dict,
    "lengths": list,
    "small": list,
    "page": str,
    "environment": dict,
}


@dataclass(frozen=True, slots=True)
class TraceFunction:
    """A function of a trace file, with the sizes of its axes in two runs."""

    name: str
    line: int
    sizes: tuple[Mapping[str, int], ...]


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
        frozenset(data.get("small", ())),
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
    return TraceFunction(node.name, node.lineno, assign(letters, derived, axes.small))


class Tracing:
    """The runs of one build. On entering it a child begins to work; `finish` waits for it.

    Args:
        modules: The site's own modules.
        docs: The folder ``docs_src``.
        root: The folder of the site; paths in messages begin there.
        cache: What earlier builds left.
        generator: Digest of the code of the generator.
        limits: What a run may take.
        stays: Whether the child waits for the next build.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        limits: Limits | None = None,
        *,
        stays: bool = False,
    ) -> None:
        self._modules = {module.source.display: module for module in modules if module.parsed}
        #: A module that does not parse has been reported, and cannot run.
        self._broken = {module.source.display for module in modules if not module.parsed}
        self._docs, self._root, self._folder = docs, root, docs / FOLDER
        self._shown = self._folder.relative_to(root).as_posix()
        self._cache, self._generator = cache, generator
        self._limits, self._stays = limits or Limits(), stays
        self._report = Report()
        self._traced: list[Module] = []
        #: How many runs each of them has.
        self._ordered: dict[str, int] = {}
        self._runs: Runs | None = None

    def __enter__(self) -> "Tracing":
        """Begin with the runs of which nothing is kept."""
        files = trace_files(self._folder)
        self._axes = axes = read_axes(self._folder, self._shown, self._report)
        if files and self._modules and not self._report.failed:
            self._runs = Runs(
                "pylit.shapes.tracer",
                list(self._modules.values()),
                self._docs,
                self._root,
                self._cache,
                self._generator,
                self._limits,
                axes.environment,
                stays=self._stays,
            )
            for path in files:
                self._order(path, self._runs)
            self._runs.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._runs is not None:
            self._runs.close()

    def _order(self, path: str, runs: Runs) -> None:
        """Order the runs of a file of traces."""
        shown, module = f"{self._shown}/{path}", self._modules.get(path)
        try:
            text = (self._folder / path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self._report.add(Diagnostic(shown, 0, 0, "trace-file", f"cannot be read: {error}"))
            return
        if module is None:
            if path not in self._broken:
                message = f"there is no module `{path}` that it could run"
                hint = "a file of traces has the path of its module"
                self._report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
            return
        functions = self._functions(path, text, shown)
        if not functions:
            return
        self._traced.append(module)
        source = module.source
        more = {"source": str(source.path), "text": source.text}
        # What is told is told of lines: other code means other lines.
        key = digest(self._axes.text, runs.code(source.name).content)
        tasks = [
            Task(self._folder / path, f.name, f.line, source.name, {**more, "sizes": f.sizes}, key)
            for f in functions
        ]
        self._ordered[source.name] = len(tasks)
        runs.order(tasks, text, source.name)

    def _functions(self, path: str, text: str, shown: str) -> tuple[TraceFunction, ...]:
        """The functions of a file of traces; to find sizes for them takes time."""
        name, key = f"functions of {shown}", digest(self._generator, self._axes.text, text)
        found: tuple[TraceFunction, ...] | None = self._cache.load(name, key)
        if found is None:
            report = Report()
            found = read_traces(text, shown, self._axes, report)
            self._report.extend(report)
            if report.failed:
                return ()
            self._cache.store(name, key, found)
        return found

    def kept(self) -> Mapping[str, ModuleShapes]:
        """Shapes of the modules that need no run, before the others have theirs."""
        told: dict[str, list[tuple[Task, dict[str, Any]]]] = {}
        for task, answer in self._runs.kept() if self._runs else ():
            told.setdefault(task.owner, []).append((task, answer))
        return self._found({n: of for n, of in told.items() if len(of) == self._ordered[n]})

    def finish(self, report: Report) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules; faults go to the report."""
        told: dict[str, list[tuple[Task, dict[str, Any]]]] = {}
        failed = set()
        for task, answer in self._runs.answers() if self._runs else ():
            if isinstance(answer, Failure):
                failed.add(task.owner)
                self._report.add(self._fault(task, answer))
            else:
                answer.setdefault("numbers", self._numbers(task.owner))
                told.setdefault(task.owner, []).append((task, answer))
        found = self._found({name: of for name, of in told.items() if name not in failed})
        for shapes in found.values():
            report.extend(shapes.diagnostics)
        report.extend(self._report)
        return found

    def _found(
        self, told: Mapping[str, Sequence[tuple[Task, Mapping[str, Any]]]]
    ) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules, of what their runs told."""
        found = {}
        for module in self._traced:
            name, source = module.source.name, module.source
            if name in told:
                stamps = (f"{task.line} {answer['stamp']}" for task, answer in told[name])
                key = digest(self._generator, self._axes.text, source.digest, *stamps)
                make = partial(self._shapes, module, told[name])
                found[name] = self._cache.get(f"shapes {name}", key, make)
        return found

    def _numbers(self, name: str) -> tuple[int, ...]:
        assert self._runs is not None
        return self._runs.code(name).numbers

    def _shapes(
        self, module: Module, told: Sequence[tuple[Task, Mapping[str, Any]]]
    ) -> ModuleShapes:
        """What the page of a module shows of its runs."""
        lines = self._numbers(module.source.name)
        traced = []
        for task, answer in told:
            now = dict(zip(answer["numbers"], lines, strict=True))
            pairs = zip(answer["runs"], task.more["sizes"], strict=True)
            first, second = (read_run(run, sizes, now) for run, sizes in pairs)
            traced.append(Traced(f"{self._place(task)}:{task.line}", (first, second)))
        plan = read_plan(module.source.text)
        return replace(
            module_lines(module.source.text, plan, traced),
            page=self._axes.page,
            diagnostics=check(module, plan, traced, self._axes),
        )

    def _place(self, task: Task) -> str:
        return f"{self._shown}/{task.file.relative_to(self._folder).as_posix()}"

    def _fault(self, task: Task, failure: Failure) -> Diagnostic:
        """What went wrong with a run, at its line in the file of traces."""
        if failure.missing == "torch":
            message = "torch is not installed, so pages are built without shapes"
            hint, off = "`pip install torch`, and build again", Severity.WARNING
            return Diagnostic(self._shown, 0, 0, "shapes-off", message, hint, severity=off)
        message, hint = f"the run {failure.message}", "mend the run, or what it runs"
        if failure.kind != "failed":
            hint = "make its tensors smaller, and let it wait for nothing"
        elif failure.file:
            files = {str(m.source.path.resolve()): m.source.display for m in self._modules.values()}
            below = files.get(failure.file, Path(failure.file).name)
            message += f", at {below}:{failure.file_line}"
        line = task.file.read_text(encoding="utf-8").split("\n")[failure.line - 1]
        code, place = f"trace-{failure.kind}", self._place(task)
        return Diagnostic(place, failure.line, 1, code, message, hint, line)
