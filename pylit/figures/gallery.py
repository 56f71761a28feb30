"""All figures of a site: which of them have to run, and what pages show of them.

Figures are kept, for each file of theirs, under a digest of everything that they read: the file,
the modules of the site that it imports, by way of others too, those that ran although nobody had
imported them by name, the versions of Python and PyTorch, and other files that were opened.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.figures.files import FOLDER, FigureFile, read_files
from pylit.figures.process import Answer, Child, Task
from pylit.model import FigureKind, FigureUse, Module, figure_slot
from pylit.runs.imports import KEPT, Closure, Imports, roots, versions
from pylit.runs.process import NO_READS, Failure, Limits, Reads

#: Where a text asks for a figure; in code that only shows how, too, which does no harm.
_ASKED = re.compile(r"\((?:figure|table):([\w.]+)")
_CODES = {
    "failed": "figure-failed",
    "died": "figure-failed",
    "slow": "figure-slow",
    "waited": "figure-slow",
    "hungry": "figure-hungry",
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure or a table, finished."""

    #: HTML of its drawings, and of what opens below its caption; of its rows, and of its notes.
    picture: str
    below: str
    alt: str
    kind: FigureKind = "figure"


@dataclass(frozen=True, slots=True)
class Asked:
    """A figure or table that a page asks for, and where."""

    path: str
    source_line: str
    use: FigureUse


@dataclass(frozen=True, slots=True)
class _Kept:
    """The figures of one file, and what they read besides what its imports say."""

    drawn: Mapping[str, Drawn]
    #: Modules of the site that ran -> their digest.
    modules: Mapping[str, str]
    #: Other files and folders, by their paths from the site's root -> their digest.
    files: Mapping[str, str]


@dataclass(slots=True)
class _Job:
    """A file of figures of which some have to run."""

    file: FigureFile
    key: str
    closure: Closure
    drawn: dict[str, Drawn]
    sources: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    reads: Reads = NO_READS


def hang(html: str, uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """The HTML of a page with its figures in their places; one that failed leaves its caption."""
    for name, kind in dict.fromkeys((use.name, use.kind) for use in uses):
        drawn = figures.get(name, Drawn("", "", ""))
        if drawn.kind != kind:
            drawn = Drawn("", "", "")
        html = html.replace(figure_slot(name, "picture"), drawn.picture)
        html = html.replace(figure_slot(name, "below"), drawn.below)
    return html


def stamp(uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """Text that differs when the figures of a page do."""
    return repr([figures.get(use.name) for use in uses])


def kept_as(file: str) -> str:
    """The name in the cache of the figures of a file."""
    return f"figures {file}"


class Gallery:
    """The figures of one build. On entering it a child begins to draw; `finish` waits for it.

    Args:
        modules: The site's own modules.
        texts: Of all its pages.
        docs: The folder ``docs_src``.
        root: The folder of the site; paths in messages begin there.
        cache: What earlier builds left.
        generator: Digest of the code of the generator.
        limits: What a figure may take.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        texts: Iterable[str],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        limits: Limits | None = None,
    ) -> None:
        self._modules = [module for module in modules if module.parsed]
        self._asked = {name for text in texts for name in _ASKED.findall(text)}
        self._folder = docs / FOLDER
        self._root = root.resolve()
        self._cache = cache
        self._generator = generator
        self._limits = limits or Limits()
        self._drawn: dict[str, Drawn] = {}
        self._failures: dict[str, Failure] = {}
        self._files: dict[str, FigureFile] = {}
        self._jobs: dict[str, _Job] = {}
        self._child: Child | None = None

    def __enter__(self) -> "Gallery":
        """See what is kept, and begin with the rest."""
        if self._asked:
            shown = self._folder.relative_to(self._root).as_posix()
            self._files = read_files(self._folder, shown)
            self._imports = imports = Imports(self._modules, self._cache, KEPT[1], self._generator)
            tasks = [task for file in self._files.values() for task in self._tasks(file, imports)]
            imports.keep()
            self._begin(tasks)
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.close()

    @property
    def kept(self) -> set[str]:
        """Names in the cache of what this build may need again."""
        return {kept_as(file) for file in self._files}

    def _begin(self, tasks: Sequence[Task]) -> None:
        """Start a child, if there is anything to do for one."""
        if self._child is not None:
            self._child.close()
        self._child = Child(tasks, roots(self._modules), self._limits) if tasks else None

    def _tasks(self, file: FigureFile, imports: Imports) -> list[Task]:
        """What of a file has to run."""
        wanted = [name for name in file.functions if f"{file.name}.{name}" in self._asked]
        if not wanted or file.problem:
            return []
        closure = imports.closure(file.text)
        parts = (file.name, file.text, repr(self._limits), *closure.digests())
        key = digest(self._generator, *versions(), *parts)
        kept: _Kept | None = self._cache.load(kept_as(file.name), key)
        if kept is None or not imports.hold(kept.modules) or not self._same(kept.files):
            kept = _Kept({}, {}, {})
        self._drawn |= {f"{file.name}.{name}": one for name, one in kept.drawn.items()}
        missing = [name for name in wanted if name not in kept.drawn]
        if not missing:
            return []
        job = _Job(file, key, closure, dict(kept.drawn))
        job.modules, job.digests = dict(kept.modules), dict(kept.files)
        self._jobs[file.name] = job
        return [
            Task(file.name, name, file.path, file.functions[name], closure.heavy())
            for name in missing
        ]

    def finish(self, asked: Iterable[Asked], report: Report) -> Mapping[str, Drawn]:
        """The figures by their names. Faults go to the report, at each place that asks for one."""
        while self._child is not None:
            answers, left = self._child.answers()
            for answer in answers:
                self._take(answer)
            self._begin(left)
        for name, job in self._jobs.items():
            found = self._imports.digests(job.closure, job.file.path, job.sources, job.reads)
            modules = job.modules | found
            files = job.digests | self._digests(job.files) | self._listed(job.folders)
            files |= self._helpers(job.sources)
            self._cache.store(kept_as(name), job.key, _Kept(job.drawn, modules, files))
        off = next((f for f in self._failures.values() if f.missing == "torch"), None)
        if off:
            report.add(self._off())
        for one in asked:
            fault = None if off else self._fault(one)
            if fault:
                report.add(fault)
        return self._drawn

    def _take(self, answer: Answer) -> None:
        name = f"{answer.task.file}.{answer.task.function}"
        if answer.failure is not None:
            self._failures[name] = answer.failure
            return
        drawn = Drawn(answer.picture, answer.below, answer.alt, answer.kind)
        self._drawn[name] = drawn
        job = self._jobs[answer.task.file]
        job.drawn[answer.task.function] = drawn
        job.sources |= set(answer.sources)
        job.files |= set(answer.files)
        job.folders |= set(answer.folders)
        job.reads |= answer.reads

    def _digests(self, files: Iterable[str]) -> dict[str, str]:
        """Of the files of the site among those that were opened, but for sources."""
        found = {}
        for path in map(Path, files):
            if path.suffix not in (".py", ".pyc") and path.is_relative_to(self._root):
                found[path.relative_to(self._root).as_posix()] = self._digest(path)
        return found

    def _helpers(self, sources: Iterable[str]) -> dict[str, str]:
        """Of code of the project that ran and is no module of the site."""
        modules = {module.source.path.resolve() for module in self._modules}
        found = {}
        for path in map(Path, sources):
            ours = path.is_relative_to(self._root) and "site-packages" not in path.parts
            if ours and path not in modules and path.is_file():
                found[path.relative_to(self._root).as_posix()] = self._digest(path)
        return found

    def _listed(self, folders: Iterable[str]) -> dict[str, str]:
        """Of the names in folders under ``docs_src``; others are listed by every import."""
        docs = self._folder.parent.resolve()
        inside = [path for path in map(Path, folders) if path.is_relative_to(docs)]
        return {path.relative_to(self._root).as_posix(): self._digest(path) for path in inside}

    def _digest(self, path: Path) -> str:
        try:
            if path.is_dir():
                return digest(*sorted(entry.name for entry in path.iterdir()))
            return digest(path.read_bytes())
        except OSError:
            return ""

    def _same(self, files: Mapping[str, str]) -> bool:
        return all(self._digest(self._root / path) == found for path, found in files.items())

    def _off(self) -> Diagnostic:
        message = "torch is not installed, so pages are built without figures"
        folder = self._folder.relative_to(self._root).as_posix()
        hint = "`pip install torch`, and build again"
        return Diagnostic(folder, 0, 0, "figures-off", message, hint, severity=Severity.WARNING)

    def _fault(self, asked: Asked) -> Diagnostic | None:
        """What is wrong with a figure, at the place that asks for it."""
        name = asked.use.name
        file, _, function = name.rpartition(".")
        found = self._files.get(file)
        known = found is not None and function in found.functions
        if found is not None and found.problem:
            code, hint = "figure-failed", "mend the file"
            message = f"`{found.shown}` {found.problem}"
        elif name in self._failures and found is not None:
            failure = self._failures[name]
            code, hint = _CODES[failure.kind], "mend the figure, or what it runs"
            message = f"`{name}` {self._why(failure)}, at {found.shown}:{failure.line}"
            if failure.file and failure.kind == "failed":
                message += f", from {self._shown(failure.file)}:{failure.file_line}"
        elif not known:
            code, hint = "figure-unknown", self._nearest(name)
            message = f"there is no {asked.use.kind} `{name}`"
        elif found is not None and name in self._drawn:
            place = f"{found.shown}:{found.functions[function]}"
            code, message, hint = self._lacks(asked.use, self._drawn[name], place)
        else:
            return None
        if not code:
            return None
        return Diagnostic(
            asked.path, asked.use.line, asked.use.column, code, message, hint, asked.source_line
        )

    @staticmethod
    def _lacks(use: FigureUse, drawn: Drawn, place: str) -> tuple[str, str, str]:
        """What a page cannot show of something that was made: a code, a message and a hint."""
        if drawn.kind != use.kind:
            message = f"`{use.name}` is a {drawn.kind}, not a {use.kind}, at {place}"
            return "figure-kind", message, f"write `{drawn.kind}:{use.name}`"
        if drawn.kind == "figure" and not drawn.alt:
            message = f"`{use.name}` has no words for those who do not see it, at {place}"
            return "figure-alt", message, "give its `Figure` an `alt` that says what it shows"
        return "", "", ""

    def _why(self, failure: Failure) -> str:
        if failure.kind == "slow":
            return f"took more than {self._limits.seconds:g} s of processor time"
        if failure.kind == "waited":
            return "waits for what does not come"
        if failure.kind == "hungry":
            return f"asked for more than {self._limits.bytes / 2**30:g} GiB of memory"
        return f"failed: {failure.message}"

    def _shown(self, file: str) -> str:
        files = {module.source.path.resolve(): module.source.display for module in self._modules}
        return files.get(Path(file).resolve(), Path(file).name)

    def _nearest(self, name: str) -> str:
        known = [f"{file.name}.{f}" for file in self._files.values() for f in file.functions]
        if name.rpartition(".")[2].startswith("_"):
            return "a function whose name begins with an underscore is no figure"
        near = get_close_matches(name, known, n=1)
        shown = self._folder.relative_to(self._root).as_posix()
        path = name.rpartition(".")[0].replace(".", "/") or "file"
        where = f"write `def {name.rpartition('.')[2]}()` in {shown}/{path}.py"
        return f"did you mean `{near[0]}`?" if near else where
