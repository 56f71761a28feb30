"""All runs of a site: the files that declare them, which are needed, what the pages get of them.

A file of traces mirrors the path of its module, ``docs_src/traces/pkg/mod.py`` for ``pkg/mod.py``.
Each of its functions whose name begins with ``trace`` is a run, and its parameters are axes. What
a module's runs told is kept under a digest of everything that they read: the file of traces, and
the code of the module and of every module of the site that these import, by way of others too.
What its page shows of them depends on its notes as well, and is made anew when they change.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Module
from pylit.runs import Closure, Failure, Imports, Limits, Reads, Runner, Task, roots, versions
from pylit.shapes.check import check
from pylit.shapes.lines import (
    Axes,
    CodeLines,
    ModuleShapes,
    Traced,
    code_lines,
    module_lines,
    moved,
    read_run,
)
from pylit.shapes.names import MOST_AXES, assign, names
from pylit.shapes.plan import read_plan

_IMPORTS = "imports of traces"
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


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the runs of a module told, where its code was, and what its page shows of them."""

    traced: tuple[Traced, ...]
    lines: CodeLines
    #: What ran or was read besides what the key says: paths of the site -> their digest.
    extra: Mapping[str, str]
    #: Digest of the source with the notes that pages and checks took from it.
    source: str
    shapes: ModuleShapes


@dataclass(slots=True)
class _Job:
    """A module whose runs are needed."""

    module: Module
    #: Its file of traces: the path, the path for messages, the text.
    file: Path
    shown: str
    text: str
    key: str
    closure: Closure
    traced: list[Traced] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)
    failed: bool = False


def _kept_as(name: str) -> str:
    """The name in the cache of what the runs of a module told."""
    return f"shapes {name}"


class Tracing:
    """The runs of one build. On entering it a child begins to work; `finish` waits for it.

    Args:
        modules: The site's own modules.
        docs: The folder ``docs_src``.
        root: The folder of the site; paths in messages begin there.
        cache: What earlier builds left.
        generator: Digest of the code of the generator.
        limits: What a run may take.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        limits: Limits | None = None,
    ) -> None:
        self._modules = {module.source.display: module for module in modules if module.parsed}
        #: A module that does not parse has been reported, and cannot run.
        self._broken = {module.source.display for module in modules if not module.parsed}
        self._folder, self._root = docs / FOLDER, root
        self._shown = self._folder.relative_to(root).as_posix()
        self._cache = cache
        self._generator = generator
        self._limits = limits or Limits()
        self._report = Report()
        self._jobs: dict[str, _Job] = {}
        self._found: dict[str, ModuleShapes] = {}
        self._runner: Runner | None = None

    def __enter__(self) -> "Tracing":
        """See what is kept, and begin with the rest."""
        files = trace_files(self._folder)
        self._axes = axes = read_axes(self._folder, self._shown, self._report)
        if files and self._modules and not self._report.failed:
            modules = list(self._modules.values())
            self._imports = Imports(modules, self._root, self._cache, _IMPORTS, self._generator)
            tasks = [task for path in files for task in self._tasks(path)]
            self._imports.keep()
            where = roots(modules)
            self._runner = Runner("pylit.shapes.tracer", where, self._limits, axes.environment)
            self._runner.start(tasks)
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()

    def _tasks(self, path: str) -> list[Task]:
        """What of a file of traces has to run."""
        shown = f"{self._shown}/{path}"
        module = self._modules.get(path)
        try:
            text = (self._folder / path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self._report.add(Diagnostic(shown, 0, 0, "trace-file", f"cannot be read: {error}"))
            return []
        if module is None:
            if path not in self._broken:
                message = f"there is no module `{path}` that it could run"
                hint = "a file of traces has the path of its module"
                self._report.add(Diagnostic(shown, 0, 0, "trace-file", message, hint))
            return []
        name, source = module.source.name, module.source
        closure = self._imports.closure(text, name)
        parts = (self._axes.text, path, text, repr(self._limits), *closure.digests())
        key = digest(self._generator, *versions(), *parts)
        if self._again(module, key):
            return []
        report = Report()
        functions = read_traces(text, shown, self._axes, report)
        self._report.extend(report)
        if report.failed:
            return []
        file = self._folder / path
        self._jobs[name] = _Job(module, file, shown, text, key, closure)
        more = {"source": str(source.path), "text": source.text}
        return [
            Task(file, f.name, f.line, name, closure.heavy, {**more, "sizes": f.sizes})
            for f in functions
        ]

    def _again(self, module: Module, key: str) -> bool:
        """Show runs that are kept, on lines that have moved if only notes have changed."""
        name, source = module.source.name, module.source
        kept: _Kept | None = self._cache.load(_kept_as(name), key)
        if kept is None or not self._imports.hold(kept.extra):
            return False
        if kept.source == source.digest:
            self._found[name] = kept.shapes
            return True
        traced = moved(kept.traced, kept.lines, code_lines(source.text))
        if traced is not None:
            self._keep(module, key, traced, kept.extra)
        return traced is not None

    def finish(self, report: Report) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules; faults go to the report."""
        for task, told, reads in self._runner.answers() if self._runner else ():
            job = self._jobs[task.owner]
            if isinstance(told, Failure):
                job.failed = True
                self._report.add(self._fault(job, told))
                continue
            job.reads |= reads
            pairs = zip(told["runs"], task.more["sizes"], strict=True)
            first, second = (read_run(run, sizes) for run, sizes in pairs)
            job.traced.append(Traced(f"{job.shown}:{task.line}", (first, second)))
        for job in self._jobs.values():
            if not job.failed:
                extra = self._imports.extra(job.closure, self._folder.parent, job.reads)
                self._keep(job.module, job.key, tuple(job.traced), extra)
        for shapes in self._found.values():
            report.extend(shapes.diagnostics)
        report.extend(self._report)
        return self._found

    def _keep(
        self, module: Module, key: str, traced: tuple[Traced, ...], extra: Mapping[str, str]
    ) -> None:
        """Keep what came of runs, for pages and for builds to come."""
        name, source = module.source.name, module.source
        plan = read_plan(source.text)
        self._found[name] = shapes = replace(
            module_lines(source.text, plan, traced),
            page=self._axes.page,
            diagnostics=check(module, plan, traced, self._axes),
        )
        kept = _Kept(traced, code_lines(source.text), extra, source.digest, shapes)
        self._cache.store(_kept_as(name), key, kept)

    def _fault(self, job: _Job, failure: Failure) -> Diagnostic:
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
        line = job.text.split("\n")[failure.line - 1]
        return Diagnostic(job.shown, failure.line, 1, f"trace-{failure.kind}", message, hint, line)
