"""All runs of a site: which of them are needed, and what the pages get of them.

What a module's runs told is kept under a digest of everything that they read: the file of traces,
and the code of the module and of every module of the site that these import, by way of others too.
What its page shows of them depends on its notes as well, and is made anew when they change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Module
from pylit.runs.imports import KEPT, Closure, Imports, roots, versions
from pylit.runs.process import NO_READS, Failure, Limits, Reads
from pylit.shapes.check import check
from pylit.shapes.files import FOLDER, read_axes, read_traces, trace_files
from pylit.shapes.lines import module_lines
from pylit.shapes.model import Axes, ModuleShapes, Traced
from pylit.shapes.moved import CodeLines, code_lines, moved
from pylit.shapes.plan import read_plan
from pylit.shapes.process import Answer, Child, Work

_KINDS = {
    "failed": "trace-failed",
    "died": "trace-failed",
    "slow": "trace-slow",
    "waited": "trace-slow",
    "hungry": "trace-hungry",
}


@dataclass(slots=True)
class _Job:
    """A module whose runs are needed."""

    module: Module
    #: Of its file of traces, for messages.
    shown: str
    work: Work
    #: Of what is shown, and of the runs.
    key: str
    runs_key: str
    closure: Closure
    traced: list[Traced] = field(default_factory=list)
    reads: Reads = NO_READS
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Runs:
    """What the runs of a module told, and where its code was."""

    traced: tuple[Traced, ...]
    lines: CodeLines
    #: Other modules that ran or were read -> their digest.
    others: Mapping[str, str]


def kept_as(name: str) -> str:
    """The name in the cache of what the runs of a module told."""
    return f"shapes {name}"


def runs_kept_as(name: str) -> str:
    """The name in the cache of the runs of a module."""
    return f"runs {name}"


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
        self._folder = docs / FOLDER
        self._shown = self._folder.relative_to(root).as_posix()
        self._cache = cache
        self._generator = generator
        self._limits = limits or Limits()
        self._report = Report()
        self._jobs: dict[str, _Job] = {}
        self._found: dict[str, ModuleShapes] = {}
        self._child: Child | None = None

    def __enter__(self) -> "Tracing":
        """See what is kept, and begin with the rest."""
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        files = trace_files(self._folder)
        axes = read_axes(self._folder, self._shown, self._report)
        self._axes = axes
        if not files or not self._modules or self._report.failed:
            return
        modules = list(self._modules.values())
        self._imports = imports = Imports(modules, self._cache, KEPT[0], self._generator)
        for path in files:
            self._prepare(path, axes, imports)
        imports.keep()
        self._begin([job.work for job in self._jobs.values()])

    def _begin(self, work: Sequence[Work]) -> None:
        """Start a child, if there is anything to do for one."""
        self.close()
        given = roots(self._modules.values()), self._limits, self._axes.environment
        self._child = Child(work, *given) if work else None

    def _prepare(self, path: str, axes: Axes, imports: Imports) -> None:
        shown = f"{self._shown}/{path}"
        module = self._modules.get(path)
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
        name, source = module.source.name, module.source
        closure = imports.closure(text, name)
        parts = (axes.text, path, text, repr(self._limits), *closure.digests())
        runs_key = digest(self._generator, *versions(), *parts)
        key = digest(runs_key, source.digest)
        kept: ModuleShapes | None = self._cache.load(kept_as(name), key)
        if kept is not None and imports.hold(kept.others):
            self._found[name] = kept
            return
        if self._again(module, key, runs_key):
            return
        report = Report()
        functions = read_traces(text, shown, axes, report)
        self._report.extend(report)
        if not report.failed:
            file = self._folder / path
            work = Work(name, source.path, source.text, file, functions, closure.heavy())
            self._jobs[name] = _Job(module, shown, work, key, runs_key, closure)

    def _again(self, module: Module, key: str, runs_key: str) -> bool:
        """Show runs that are kept on lines that have moved, if nothing but notes has changed."""
        name = module.source.name
        runs: _Runs | None = self._cache.load(runs_kept_as(name), runs_key)
        if runs is None or not self._imports.hold(runs.others):
            return False
        traced = moved(runs.traced, runs.lines, code_lines(module.source.text))
        if traced is None:
            return False
        self._found[name] = shapes = self._shapes(module, traced, runs.others)
        self._cache.store(kept_as(name), key, shapes)
        return True

    def finish(self, report: Report) -> dict[str, ModuleShapes]:
        """Shapes by the names of modules; faults go to the report."""
        try:
            while self._child is not None:
                answers, left = self._child.answers()
                for answer in answers:
                    self._take(answer)
                self._begin(left)
        finally:
            self.close()
        for name, job in self._jobs.items():
            if not job.failed:
                self._keep(name, job)
        for shapes in self._found.values():
            report.extend(shapes.diagnostics)
        report.extend(self._report)
        return self._found

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()

    def _take(self, answer: Answer) -> None:
        job = self._jobs[answer.module]
        if answer.failure is not None:
            job.failed = True
            files = {m.source.path.resolve(): m.source.display for m in self._modules.values()}
            self._report.add(_fault(job, answer.failure, self._limits, files))
            return
        job.reads |= answer.reads
        first, second = answer.runs
        line = next(f.line for f in job.work.functions if f.name == answer.function)
        job.traced.append(Traced(f"{job.shown}:{line}", (first, second)))

    def _keep(self, name: str, job: _Job) -> None:
        """Keep what came of runs, for pages and for builds to come."""
        ran = {file for one in job.traced for run in one.runs for file in run.files}
        others = self._imports.digests(job.closure, job.work.trace, ran, job.reads)
        self._found[name] = shapes = self._shapes(job.module, job.traced, others)
        self._cache.store(kept_as(name), job.key, shapes)
        runs = _Runs(tuple(job.traced), code_lines(job.module.source.text), others)
        self._cache.store(runs_kept_as(name), job.runs_key, runs)

    def _shapes(
        self, module: Module, traced: Sequence[Traced], others: Mapping[str, str]
    ) -> ModuleShapes:
        plan = read_plan(module.source.text)
        return replace(
            module_lines(module.source.text, plan, traced),
            page=self._axes.page,
            diagnostics=check(module, plan, traced, self._axes),
            others=others,
        )


def _fault(job: _Job, failure: Failure, limits: Limits, files: Mapping[Path, str]) -> Diagnostic:
    """What went wrong with a run, at its line in the file of traces."""
    lines = job.work.trace.read_text(encoding="utf-8").split("\n")
    source = lines[failure.line - 1] if 0 < failure.line <= len(lines) else ""
    if failure.missing == "torch":
        message = "torch is not installed, so pages are built without shapes"
        hint = "`pip install torch`, and build again"
        folder = job.shown.split(f"/{job.module.source.display}")[0]
        return Diagnostic(folder, 0, 0, "shapes-off", message, hint, severity=Severity.WARNING)
    message, hint = failure.message, "mend the run, or what it runs"
    if failure.kind == "slow":
        message = f"the run took more than {limits.seconds:g} s of processor time"
        hint = "make its tensors smaller"
    elif failure.kind == "waited":
        message = "the run waits for what does not come"
        hint = "let it compute, and ask for nothing"
    elif failure.kind == "hungry":
        message = f"the run asked for more than {limits.bytes / 2**30:g} GiB of memory"
        hint = "make its tensors smaller"
    elif failure.file:
        file = Path(failure.file)
        message += f", at {files.get(file.resolve(), file.name)}:{failure.file_line}"
    return Diagnostic(job.shown, failure.line, 1, _KINDS[failure.kind], message, hint, source)
