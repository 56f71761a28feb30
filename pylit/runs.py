"""Runs of the annotated package's code: a child process executes them, and the cache has the rest.

The generator never imports what it renders. Traced shapes and figures are `Runs`: they declare
`Task`s, functions of files of the site, and a child process (`pylit.limits`) executes them. An
answer stays valid as long as all that its run has read is the same: the file that declares it; of
every module of the site that it imports, directly or not, what runs on import, which is all but the
bodies of functions; the bodies of the functions that it called; the files that it opened and the
folders that it listed. Notes are no part of it: to edit one runs nothing anew, unless code that
runs reads docstrings, or opens the source as a text.
"""

import ast
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Self

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Module

#: The limits of one run: of CPU time, and bytes of memory.
SECONDS, MEMORY = 5.0, 2**30
#: Libraries that take long to import: before any run, so that its limits do not include them.
_LIBRARIES = ("torch", "numpy", "jaxtyping")
_GENERATOR = Path(__file__).resolve().parents[1]
#: The variables of this process that a child process gets: not its keys and tokens.
_VARIABLES: tuple[str, ...] = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
)
_VARIABLES += ("TEMP", "SYSTEMROOT", "VIRTUAL_ENV", "XDG_CACHE_HOME", "CC", "CXX")
_VARIABLES += ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: Names by which code reads docstrings.
_DOCSTRINGS = re.compile(r"\b(?:__doc__|getdoc|pydoc)\b")


@dataclass(frozen=True, slots=True)
class Task:
    """A function to run."""

    #: The file that declares it, and the line where it begins there.
    file: Path
    function: str
    line: int
    #: A module of the site, or the name of a file of figures.
    owner: str
    #: Values for the child process.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: What of them the answer depends on.
    key: str = ""
    #: Values that are stored with the answer.
    stored: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run has no result."""

    #: "failed", "slow", "memory" or "no torch".
    kind: str
    #: The predicate of a sentence whose subject is the run.
    message: str
    #: In the file that declares the run.
    line: int


class Worker:
    """A child process for one order.

    Args:
        program: A module of the generator, for ``python -m``; it calls `pylit.limits.serve`.
        environment: Variables for the process, beside a few of this one.
        libraries: What the process imports while there is no order yet.
    """

    def __init__(
        self, program: str, environment: Mapping[str, str], libraries: Sequence[str] = ()
    ) -> None:
        # Only the generator itself is found by its folder; packages have roots of their own.
        # Sets have the same order every time, or pages would differ from build to build.
        fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
        fixed |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        own = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        #: The order, and the answers: more than pipes hold while this process does something else.
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", program, *libraries],
            stdin=subprocess.PIPE,
            stdout=self.file,
            stderr=subprocess.DEVNULL,
            env={**own, **environment, **fixed},
            start_new_session=True,
        )

    def begin(self, order: Mapping[str, Any]) -> None:
        """Give it the order."""
        self.file.write(f"{json.dumps(order)}\n".encode())
        self.file.flush()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def wait(self, seconds: float) -> tuple[list[bytes], int]:
        """The answers and the exit status; a process that takes longer is killed."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.file.seek(0)
        _, *lines, _ = self.file.read().split(b"\n")
        self.close()
        return lines, self.process.returncode

    def close(self) -> None:
        """End it, and every process that it has started."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with self.file, self.process:
            pass


#: Processes that have imported the libraries for the next build, by programs and variables.
_spare: dict[tuple[Any, ...], Worker] = {}


def end_workers() -> None:
    """End the processes that wait for another build."""
    while _spare:
        _spare.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class Source:
    """What runs of a source depend on."""

    #: The lines of its statements and expressions.
    lines: tuple[int, ...]
    #: Digest of the code, and of how it is spread over lines.
    content: str
    #: Modules that it imports, wherever in it.
    imports: tuple[str, ...]
    #: Digests of the bodies of functions, by qualified names; under "" that of all else.
    parts: Mapping[str, str]
    #: The parts that read docstrings.
    documented: frozenset[str]


#: Module and part, or "" and a path -> the digest of its content.
Read = dict[tuple[str, str], str]


class Runs:
    """The tasks of one build. On entering it a child process begins with those not in the cache.

    Args:
        modules: The site's own modules.
        docs: The folder ``docs_src``.
        cache: The answers of earlier builds.
        generator: Digest of the code of the generator.
        run: Whether tasks may run; without it there are the answers of the cache.
        stays: Whether a child process waits for the next build.
    """

    #: A module of the generator; it calls `pylit.limits.serve`.
    program: ClassVar[str]
    #: The folder of the files that declare tasks, in ``docs_src``, and what pages get of them.
    folder: ClassVar[str]
    product: ClassVar[str]

    def __init__(
        self,
        modules: Sequence[Module],
        docs: Path,
        cache: Cache,
        generator: str,
        *,
        run: bool = True,
        stays: bool = False,
    ) -> None:
        self._run = run
        self._pages = {module.source.name: module for module in modules}
        self._modules = {name: page.source for name, page in self._pages.items() if page.parsed}
        self._docs, self._root = docs.resolve(), docs.resolve().parent
        self._folder, self._shown = docs / self.folder, f"{docs.name}/{self.folder}"
        self._cache, self._generator, self._stays = cache, generator, stays
        self._environment: Mapping[str, str] = {}
        self._faults = Report()
        self._codes: dict[str, Source] = {}
        #: Each task, what its answer depends on, and the answer if it is in the cache.
        self._tasks: list[tuple[Task, Mapping[str, str], dict[str, Any] | None]] = []
        self._libraries: set[str] = set()
        self._worker: Worker | None = None

    def declared(self) -> Iterator[tuple[Sequence[Task], str]]:
        """The tasks of each file, in the order of their answers, and its text."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for tasks, text in self.declared():
            frames, libraries = self._closure(tasks[0], text)
            self._libraries |= libraries
            for task in tasks:
                found: tuple[dict[str, Any], Read] | None = self._cache.load(
                    *self._key(task, frames)
                )
                if not found or any(old != self._state(*what) for what, old in found[1].items()):
                    self._tasks.append((task, frames, None))
                else:
                    self._tasks.append((task, frames, found[0]))
        missing = [task for task, _, answer in self._tasks if answer is None]
        #: How many tasks would have run.
        self.left = 0 if self._run else len(missing)
        if self._run:
            self.begin(missing)
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()
        elif self._stays and self._run and self._tasks and self._kind not in _spare:
            _spare[self._kind] = Worker(self.program, self._environment, sorted(self._libraries))

    def begin(self, tasks: Sequence[Task]) -> None:
        """Give tasks to a child process."""
        if not tasks:
            return
        self._worker = _spare.pop(self._kind, None)
        if self._worker is None or self._worker.process.poll() is not None:
            self._worker = Worker(self.program, self._environment)
        packages = (
            module.path.resolve().parents[module.name.count(".") + module.is_package]
            for module in self._modules.values()
        )
        order = {
            "root": str(self._root),
            "roots": list(dict.fromkeys(map(str, packages))),
            "seconds": SECONDS,
            "bytes": MEMORY,
            "libraries": sorted(self._libraries),
            "tasks": [{"file": str(t.file), "function": t.function, **t.arguments} for t in tasks],
        }
        self._worker.begin(order)

    def cached_answers(self) -> Iterator[tuple[Task, dict[str, Any]]]:
        """The answers of tasks that need not run, available while the others do."""
        return ((task, answer) for task, _, answer in self._tasks if answer is not None)

    def answers(self) -> Iterator[tuple[Task, dict[str, Any] | Failure]]:
        """What came of each task, in order. If torch is missing, of those that need none."""
        results = self._results()
        for task, frames, answer in self._tasks:
            if answer is None and not self._run:
                continue
            found = next(results) if answer is None else answer
            if isinstance(found, Failure) and found.kind == "no torch":
                message = f"torch is not installed, so pages are built without {self.product}"
                hint, off = "`pip install torch`, and build again", Severity.WARNING
                code = f"{self.product}-off"
                self._faults.add(Diagnostic(self._shown, 0, 0, code, message, hint, severity=off))
                continue
            if isinstance(found, dict) and answer is None:
                read = {what: self._state(*what) for what in self._reads(found, frames)}
                self._cache.store(*self._key(task, frames), (found, read))
            yield task, found

    def _results(self) -> Iterator[dict[str, Any] | Failure]:
        """What came of the tasks that run; a new process continues if one ends on an import."""
        tasks = [task for task, _, answer in self._tasks if answer is None]
        while tasks and self._worker is not None:
            lines, status = self._worker.wait(120 + 50 * len(tasks) * SECONDS)
            self._worker = None
            for task, line in zip(tasks, lines, strict=False):
                answer = json.loads(line)
                if error := answer.get("error"):
                    yield Failure(error["kind"], error["message"], error["line"] or task.line)
                else:
                    yield {**answer, **task.stored, "stamp": digest(line)}
            tasks = tasks[len(lines) :]
            if tasks:
                message = f"failed: the process ended with status {status}"
                yield Failure("failed", message, tasks.pop(0).line)
                self.begin(tasks)

    def _key(self, task: Task, frames: Mapping[str, str]) -> tuple[str, str]:
        """The name and the key of an answer in the cache."""
        given = repr((SECONDS, MEMORY, self._environment, frames))
        key = digest(self._generator, *versions(), task.key, given)
        return f"{self.program} {task.file} {task.function}", key

    def code(self, name: str) -> Source:
        """What runs of a module depend on."""
        if name not in self._codes:
            module = self._modules[name]
            package = name if module.is_package else name.rpartition(".")[0]
            self._codes[name] = self._source(f"module {name}", module.text, package)
        return self._codes[name]

    def _source(self, name: str, text: str, package: str = "") -> Source:
        key = digest(self._generator, text, package)
        found = self._cache.get(f"code of {name}", key, partial(read_source, text, package))
        known = (n for n in found.imports if n in self._modules or _library(n))
        return replace(found, imports=tuple(known))

    def _closure(self, task: Task, text: str) -> tuple[Mapping[str, str], set[str]]:
        """Digests of what runs when a file and its module are imported; libraries among that."""
        own = self._source(str(task.file), text)
        found, todo = set[str](), [*with_parents([task.owner]), *own.imports]
        while todo:
            if (name := todo.pop()) not in found:
                found.add(name)
                todo += self.code(name).imports if name in self._modules else ()
        frames = {name: self._state(name, "") for name in sorted(found & self._modules.keys())}
        frames["<file>"] = digest(text) + (self._notes if own.documented else "")
        return frames, found.intersection(_LIBRARIES) | set(filter(_library, own.imports))

    def _reads(self, answer: dict[str, Any], frames: Mapping[str, str]) -> set[tuple[str, str]]:
        """What a run has called and read, besides what its file imports by name.

        Of folders only those in ``docs_src`` count; others are listed by every import.
        """
        ran, imported = answer.pop("ran"), answer.pop("imported")
        paths = map(Path, answer.pop("paths"))
        inside = (p for p in paths if p.is_relative_to(self._docs) or not p.is_dir())
        read = {("", self._inside(str(path))) for path in inside}
        for file, functions in (*imported.items(), *ran.items()):
            path = self._inside(file)
            name = self._files.get(path, "")
            if name in frames:
                read |= {(name, function) for function in functions}
            elif file in ran:
                read |= {(name, part) for part in self.code(name).parts} if name else {("", path)}
        return read - {("", "")}

    def _inside(self, name: str) -> str:
        """The path from the root of the site; empty for one outside of it."""
        path = Path(os.path.realpath(name))
        if "site-packages" in path.parts or not path.is_relative_to(self._root):
            return ""
        return path.relative_to(self._root).as_posix()

    @property
    def _kind(self) -> tuple[Any, ...]:
        return self.program, *self._environment.items()

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The names of the modules, by their files."""
        return {self._inside(str(one.path)): name for name, one in self._modules.items()}

    @cached_property
    def _notes(self) -> str:
        """Digest of all texts, for code that reads docstrings."""
        return digest(*(module.digest for module in self._modules.values()))

    def _state(self, name: str, what: str) -> str:
        """The digest of a part of a module, or of a path, as it is now."""
        if name:
            code = self.code(name) if name in self._modules else None
            found = code.parts.get(what, "") if code else ""
            return found + (self._notes if code and what in code.documented else "")
        path = self._root / what
        try:
            if path.is_dir():
                return digest(*sorted(entry.name for entry in path.iterdir()))
            return digest(path.read_bytes())
        except OSError:
            return ""


@cache
def versions() -> tuple[str, ...]:
    """What a run depends on besides the sources: Python, and the libraries that compute."""
    found = [sys.version]
    for library in _LIBRARIES:
        try:
            found.append(importlib.metadata.version(library))
        except importlib.metadata.PackageNotFoundError:
            found.append("none")
    return tuple(found)


def _library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES


def with_parents(names: Iterable[str]) -> Collection[str]:
    """Dotted names and what Python imports before them: to import a.b is to run a first."""
    paths = (accumulate(name.split("."), "{}.{}".format) for name in names)
    return dict.fromkeys(parent for path in paths for parent in path)


def read_source(text: str, package: str = "") -> Source:
    """What runs of a source depend on; `package` is the one for its relative imports."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for value in vars(node).values():
            if isinstance(value, list):
                value[:] = [part for part in value if not _is_note(part)]
    imports = tuple(with_parents(_imported(tree, package)))
    places = [node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")]
    lines = tuple(sorted(set(places)))
    ranks = {line: rank for rank, line in enumerate(lines)}
    content = digest(ast.dump(tree), repr([ranks[line] for line in places]))
    parts: dict[str, list[str]] = {}
    for name, body in _bodies(tree, ""):
        # Several functions may have one name.
        parts.setdefault(name, []).extend(map(ast.dump, body))
    parts[""] = [ast.dump(tree)]
    documented = frozenset(n for n, dumps in parts.items() if any(map(_DOCSTRINGS.search, dumps)))
    digests = {name: digest(*dumps) for name, dumps in parts.items()}
    return Source(lines, content, imports, digests, documented)


def _is_note(node: object) -> bool:
    """Whether it is a statement that is a text: a docstring, or of no effect."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that a source imports; the last part may be a name in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = above[: len(above) + 1 - node.level] if node.level else []
            base += [node.module] if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _bodies(node: ast.AST, scope: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Take the bodies out of functions; what a class contains runs when it is defined."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield scope + child.name, child.body
            child.body = []
        else:
            inner = f"{scope}{child.name}." if isinstance(child, ast.ClassDef) else scope
            yield from _bodies(child, inner)
