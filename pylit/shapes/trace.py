"""All runs of a site: the files that declare them, which are needed, what the pages get of them.

A file of traces mirrors the path of its module, ``docs_src/traces/pkg/mod.py`` for ``pkg/mod.py``.
Each of its functions whose name begins with ``trace`` is a run, and its parameters are axes. What
runs told is kept (`pylit.runs`). What a page shows of them depends on its notes as well, and is
made anew when they change.
"""

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Module
from pylit.runs import Failure, Limits, Runs, Task
from pylit.shapes.check import check
from pylit.shapes.lines import Axes, ModuleShapes, Traced, module_lines, read_run
from pylit.shapes.names import MOST_AXES, assign, names
from pylit.shapes.plan import read_plan

FOLDER = "traces"
AXES = "axes.toml"
_KEYS: Mapping[str, Any] = {
    "words": dict,
    "derived": dict,
    "lengths": list,
    "small": list,
    "page": str,
    "environment": dict,
}
#: The runs of a module, and what each of them told.
Told = Sequence[tuple[Task, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class TraceFunction:
    """A function of a trace file, with the sizes of its axes in two runs."""

    name: str
    line: int
    sizes: tuple[Mapping[str, int], ...]


def read_axes(path: Path, shown: str, report: Report) -> Axes:
    """The letters of the site; none where there is no file."""
    if not path.is_file():
        return Axes()
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
        problems = list(_problems(data))
    except (OSError, ValueError) as error:
        problems = [str(error)]
    report.update(Diagnostic(shown, 0, 0, "axes", problem) for problem in problems)
    if problems:
        return Axes()
    data |= {key: frozenset(data.get(key, ())) for key in ("lengths", "small")}
    variables = {name: str(value) for name, value in data.pop("environment", {}).items()}
    return Axes(**data, environment=variables, text=text)


def _problems(data: Mapping[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if key not in _KEYS:
            yield f"unknown key `{key}`; known: {', '.join(_KEYS)}"
        elif not isinstance(value, _KEYS[key]):
            yield f"`{key}` must be a {_KEYS[key].__name__}"
        elif isinstance(value, list) and not all(isinstance(one, str) for one in value):
            yield f"`{key}` is {value!r}; expected letters, such as ['T', 'S']"
        elif key in ("words", "derived"):
            for name, text in value.items():
                if not isinstance(text, str) or not names(text):
                    yield f"`{key}.{name}` is {text!r}; expected letters, such as 'T' or 'H*K'"


def read_traces(text: str, shown: str, axes: Axes, report: Report) -> tuple[TraceFunction, ...]:
    """The functions of one file of traces. A parameter with a default value is no axis."""
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
    if not nodes:
        message = "no function whose name begins with `trace`"
        hint = "write `def trace(T, B): ...`, with the axes of the run as its parameters"
        report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
    found = []
    for node in nodes:
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        positional = positional[: len(positional) - len(given.defaults)]
        named = [a for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is None]
        letters = [argument.arg for argument in (*positional, *named)]
        if len(letters) > MOST_AXES:
            message = f"`{node.name}` has {len(letters)} axes, and there are sizes for {MOST_AXES}"
            hint = "give those that need no name a default value"
            report.add(Diagnostic(shown, node.lineno, 1, "trace-file", message, hint))
            continue
        derived = {
            letter: text
            for letter, text in axes.derived.items()
            if letter in letters and names(text) <= set(letters)
        }
        sizes = assign(letters, derived, axes.small)
        found.append(TraceFunction(node.name, node.lineno, sizes))
    return tuple(found)


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
        self._modules = {module.source.display: module for module in modules}
        parsed = [module for module in modules if module.parsed]
        self._folder = docs / FOLDER
        self._shown = self._folder.relative_to(root).as_posix()
        self._cache, self._generator = cache, generator
        self._report = Report()
        self._axes = read_axes(self._folder / AXES, f"{self._shown}/{AXES}", self._report)
        self._runs = Runs(
            *("pylit.shapes.tracer", parsed, docs, root, cache, generator, limits or Limits()),
            self._axes.environment,
            stays=stays,
        )
        #: The modules that have runs, and how many.
        self._ordered: dict[str, tuple[Module, int]] = {}

    def __enter__(self) -> "Tracing":
        """Begin with the runs of which nothing is kept."""
        if self._modules and not self._report.failed:
            for path in sorted(self._folder.rglob("*.py")):
                self._order(path)
            self._runs.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.close()

    def _order(self, path: Path) -> None:
        """Order the runs of a file of traces."""
        place = path.relative_to(self._folder).as_posix()
        shown, module = f"{self._shown}/{place}", self._modules.get(place)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self._report.add(Diagnostic(shown, 0, 0, "trace-file", f"cannot be read: {error}"))
            return
        if module is None:
            message = f"there is no module `{place}` that it could run"
            hint = "a file of traces has the path of its module"
            self._report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
        # A module that does not parse has been reported, and cannot run.
        elif module.parsed and (functions := self._functions(text, shown)):
            source = module.source
            more = {"source": str(source.path), "text": source.text}
            # What is told is told of lines: other code means other lines.
            key = digest(self._axes.text, self._runs.code(source.name).content)
            tasks = [
                Task(path, f.name, f.line, source.name, {**more, "sizes": f.sizes}, key)
                for f in functions
            ]
            self._ordered[source.name] = module, len(tasks)
            self._runs.order(tasks, text, source.name)

    def _functions(self, text: str, shown: str) -> tuple[TraceFunction, ...]:
        """The functions of a file of traces; to find sizes for them takes time."""
        name, key = f"functions of {shown}", digest(self._generator, self._axes.text, text)
        found: tuple[TraceFunction, ...] | None = self._cache.load(name, key)
        if found is None:
            report = Report()
            found = read_traces(text, shown, self._axes, report)
            self._report.update(report)
            if report.failed:
                return ()
            self._cache.store(name, key, found)
        return found

    def kept(self) -> Mapping[str, ModuleShapes]:
        """Shapes of the modules that need no run, before the others have theirs."""
        return self._found(self._runs.kept())

    def finish(self, report: Report) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules; faults go to the report."""
        told = []
        for task, answer in self._runs.answers():
            if isinstance(answer, Failure):
                self._report.add(self._fault(task, answer))
            else:
                answer.setdefault("numbers", self._runs.code(task.owner).numbers)
                told.append((task, answer))
        found = self._found(told)
        for shapes in found.values():
            report.update(shapes.diagnostics)
        report.update(self._report)
        return found

    def _found(self, answers: Iterable[tuple[Task, dict[str, Any]]]) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules, of those for which all runs have told."""
        told: dict[str, list[tuple[Task, dict[str, Any]]]] = {}
        for task, answer in answers:
            told.setdefault(task.owner, []).append((task, answer))
        found = {}
        for name, (module, count) in self._ordered.items():
            if len(own := told.get(name, ())) == count:
                stamps = (f"{task.line} {answer['stamp']}" for task, answer in own)
                key = digest(self._generator, self._axes.text, module.source.digest, *stamps)
                make = partial(self._shapes, module, own)
                found[name] = self._cache.get(f"shapes {name}", key, make)
        return found

    def _shapes(self, module: Module, told: Told) -> ModuleShapes:
        """What the page of a module shows of its runs."""
        lines = self._runs.code(module.source.name).numbers
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
