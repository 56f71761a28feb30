"""The traces of a site: the files that declare them, and what pages show of their runs.

A file of traces mirrors the path of its module, ``docs_src/traces/pkg/mod.py`` for ``pkg/mod.py``.
Each of its functions whose name begins with ``trace`` is a run (`runs.tasks`), and its parameters
are axes; one whose name begins with ``replay`` is a replay (`replay`). What a page
shows depends on its notes as well, and is made anew when they change.
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from pylit.cache import digest
from pylit.config import NOTES
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module
from pylit.runs.shapes.check import check
from pylit.runs.shapes.lines import Axes, ModuleShapes, Traced, forms_of, module_lines, read_run
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.replay import Replay, read_replay, replay_script
from pylit.runs.shapes.sizes import MAX_AXES, assign, symbols
from pylit.runs.tasks import Failure, Runs, Task

AXES = "axes.toml"
_KEYS: Mapping[str, Any] = {
    "words": dict,
    "derived": dict,
    "lengths": list,
    "small": list,
    "page": str,
    "environment": dict,
}


@dataclass(frozen=True, slots=True)
class TraceFunction:
    """A function of a trace file: a trace, with the sizes of its axes in two runs, or a replay."""

    name: str
    line: int
    sizes: tuple[Mapping[str, int], ...] = ()
    replay: Replay | None = None


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
                if not isinstance(text, str) or not symbols(text):
                    yield f"`{key}.{name}` is {text!r}; expected letters, such as 'T' or 'H*K'"


def read_traces(text: str, shown: str, axes: Axes) -> tuple[tuple[TraceFunction, ...], Report]:
    """The functions of a file of traces, and its faults.

    A parameter with a default is no axis, and a small axis that is keyword-only is a little larger.
    """
    report = Report()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        # Python 3.11 raises a ValueError for a null byte, and it has no place.
        line, column = getattr(error, "lineno", 0) or 0, getattr(error, "offset", 0) or 0
        message = f"does not parse: {getattr(error, 'msg', error)}"
        report.add(Diagnostic(shown, line, column, "trace-file", message))
        return (), report
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    replays = [node for node in nodes if node.name.startswith("replay")]
    nodes = [node for node in nodes if node.name.startswith("trace")]
    if not nodes and not replays:
        message = "no function whose name begins with `trace`"
        hint = "write `def trace(T, B): ...`, with the axes of the run as its parameters"
        report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
    found = []
    for node in nodes:
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        positional = positional[: len(positional) - len(given.defaults)]
        named = [a for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is None]
        letters = [argument.arg for argument in (*named, *positional)]
        larger = axes.small.intersection(argument.arg for argument in named)
        if len(letters) > MAX_AXES:
            message = f"`{node.name}` has {len(letters)} axes, and there are sizes for {MAX_AXES}"
            hint = "give those that need no name a default value"
            report.add(Diagnostic(shown, node.lineno, 1, "trace-file", message, hint))
            continue
        derived = {
            letter: text
            for letter, text in axes.derived.items()
            if letter in letters and symbols(text) <= set(letters)
        }
        sizes = assign(letters, derived, axes.small - larger, larger)
        found.append(TraceFunction(node.name, node.lineno, sizes))
    for node in replays:
        if replay := read_replay(node, shown, report):
            found.append(TraceFunction(node.name, node.lineno, replay=replay))
    return tuple(found), report


class ShapeRuns(Runs):
    """The traces of one build."""

    program, folder = "pylit.runs.shapes.process", "traces"

    _axes = Axes()

    def __enter__(self) -> Self:
        #: By the names of their modules, and then by their own.
        self._replays: dict[str, dict[str, Replay]] = {}
        return super().__enter__()

    def declared(self) -> Iterator[tuple[Sequence[Task], str]]:
        """The tasks of each file of traces."""
        self._axes = read_axes(self._folder / AXES, f"{self._shown}/{AXES}", self._faults)
        self._environment = self._axes.environment
        modules = {module.source.display: module for module in self._pages.values()}
        if self._faults.failed or not modules:
            return
        for path in sorted(self._folder.rglob("*.py")):
            place = path.relative_to(self._folder).as_posix()
            shown, module = f"{self._shown}/{place}", modules.get(place)
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                self._faults.add(Diagnostic(shown, 0, 0, "trace-file", f"cannot be read: {error}"))
                continue
            if module is None:
                # Notes on a package that is not installed, which has been told.
                if (self._root / NOTES / place).with_suffix(".md").is_file():
                    continue
                message = f"there is no module `{place}` that it could run"
                hint = "a file of traces has the path of its module"
                self._faults.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
            # A module that does not parse has been reported, and cannot run.
            elif module.parsed:
                # To find sizes for the axes takes time.
                key = digest(self._generator, self._axes.text, text)
                read = partial(read_traces, text, shown, self._axes)
                functions, faults = self._cache.get(f"functions of {shown}", key, read)
                self._faults.update(faults)
                if functions and not faults:
                    yield [self._task(path, module, one) for one in functions], text

    def _task(self, path: Path, module: Module, function: TraceFunction) -> Task:
        source, code = module.source, self.code(module.source.name)
        arguments = {
            "source": str(source.path),
            "text": source.text,
            "sizes": function.sizes,
            "replay": function.replay is not None,
        }
        # An answer is about lines: the same code on other lines has another one.
        # What a package calls of its own is not looked at: its version stands for all of it.
        package = module.package.version if module.package else ""
        key = digest(self._axes.text, code.content, package)
        stored = {"lines": code.lines}
        if function.replay:
            self._replays.setdefault(source.name, {})[function.name] = function.replay
        return Task(path, function.name, function.line, source.name, arguments, key, stored)

    def finish(self, report: Report) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules; faults are added to the report."""
        answers: list[tuple[Task, dict[str, Any]]] = []
        for task, answer in self.answers():
            if isinstance(answer, Failure):
                self._faults.add(self._fault(task, answer))
            else:
                answers.append((task, answer))
        found = self._found(answers)
        for shapes in found.values():
            report.update(shapes.diagnostics)
        report.update(self._faults)
        return found

    def _found(self, answers: Iterable[tuple[Task, dict[str, Any]]]) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules, of those for which there are all answers."""
        counts = Counter(run.task.owner for run in self._runs)
        by_module: dict[str, list[tuple[Task, dict[str, Any]]]] = {}
        for task, answer in answers:
            by_module.setdefault(task.owner, []).append((task, answer))
        found = {}
        for name, own in by_module.items():
            if len(own) == counts[name]:
                module = self._pages[name]
                stamps = (f"{task.line} {answer['stamp']}" for task, answer in own)
                declared = self._axes.text, repr(self._replays.get(name))
                sources = module.source.digest, module.written.digest
                key = digest(self._generator, *declared, *sources, *stamps)
                make = partial(self._shapes, module, own)
                found[name] = self._cache.get(f"shapes {name}", key, make)
        return found

    def _shapes(
        self, module: Module, answers: Sequence[tuple[Task, dict[str, Any]]]
    ) -> ModuleShapes:
        """What the page of a module shows of its runs."""
        lines = self.code(module.source.name).lines
        traced, recorded = [], []
        for task, answer in answers:
            now = dict(zip(answer["lines"], lines, strict=True))
            if task.arguments["replay"]:
                recorded.append((task, answer, now))
                continue
            pairs = zip(answer["runs"], task.arguments["sizes"], strict=True)
            first, second = (read_run(run, sizes, now) for run, sizes in pairs)
            traced.append(Traced(f"{self._place(task)}:{task.line}", (first, second)))
        plan = read_plan(module.source.text)
        faults, scripts = check(module, plan, traced, self._axes), []
        forms = [forms_of([one]) for one in traced]
        spans = [s.code for s in module.sections if s.code and not s.folded]
        shown = {line for span in spans for line in range(span.first, span.last + 1)}
        for task, answer, now in recorded:
            replay = self._replays[task.owner][task.function]
            answer = {**answer, "steps": [s for s in answer["steps"] if now[s["line"]] in shown]}
            script, problems = replay_script(replay, answer, now, forms, module.source.text)
            scripts.append(script)
            place = self._place(task), task.line, 1, "replay"
            faults += [Diagnostic(*place, problem) for problem in problems]
        made = module_lines(module.source.text, plan, traced)
        return replace(
            made,
            chips={line: chip for line, chip in made.chips.items() if line in shown},
            unreached=made.unreached & shown,
            page=self._axes.page,
            diagnostics=tuple(faults),
            replay="".join(scripts),
        )

    def _place(self, task: Task) -> str:
        return f"{self._shown}/{task.file.relative_to(self._folder).as_posix()}"

    def _fault(self, task: Task, failure: Failure) -> Diagnostic:
        """What went wrong with a run, at its line in the file of traces."""
        hint = "correct the run, or the code that it runs"
        if failure.kind != "failed":
            hint = "make its tensors smaller, and let it wait for nothing"
        line = task.file.read_text(encoding="utf-8").split("\n")[failure.line - 1]
        place, message = self._place(task), f"the run {failure.message}"
        return Diagnostic(place, failure.line, 1, f"trace-{failure.kind}", message, hint, line)
