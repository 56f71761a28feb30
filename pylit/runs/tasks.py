"""Runs of the annotated package's code: a child process executes them, and the cache has the rest.

The generator never imports what it renders. Traced shapes and figures are `Runs`: they declare
`Task`s, functions of files of the site, and a child process (`pylit.runs.child`) executes them. An
answer stays valid as long as all that its run has read is the same: the file that declares it; of
every module of the site that it imports, directly or not, what runs on import, which is all but the
bodies of functions; the bodies of the functions that it called; the files that it opened and the
folders that it listed. Notes are no part of it: to edit one runs nothing anew, unless code that
runs reads docstrings, or opens the source as a text. See decision 032.
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
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Self

from pylit.cache import Cache, digest
from pylit.diagnostics import Report
from pylit.model import Module
from pylit.source.scopes import definitions, origin

#: The limits of one run: of CPU time, and bytes of memory.
SECONDS, MEMORY = 5.0, 2**30
#: Libraries that take long to import: before any run, so that its limits do not include them.
_LIBRARIES = ("torch", "numpy", "jaxtyping")
_GENERATOR = Path(__file__).resolve().parents[2]
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

    #: "failed", "slow" or "memory".
    kind: str
    #: The predicate of a sentence whose subject is the run.
    message: str
    #: In the file that declares the run.
    line: int


class Worker:
    """The child process of all builds of a site (`pylit.runs.child`); it starts when it is needed.

    Args:
        jobs: How many tasks run at a time; 0 where none may run.
        stays: Whether the process waits for the next build.
    """

    def __init__(self, jobs: int, *, stays: bool = False) -> None:
        self.jobs, self.stays = jobs, stays
        self.process: subprocess.Popen[bytes] | None = None

    def send(self, libraries: Iterable[str], order: str = "") -> None:
        """Have it import libraries, and execute the order in a file."""
        if self.process is None or self.process.poll() is not None:
            # Only the generator itself is found by its folder; packages have roots of their own.
            # Sets have the same order every time, or pages would differ from build to build.
            fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
            fixed |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            own = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from pylit.runs.child import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=own | fixed,
                start_new_session=True,
            )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            line = json.dumps({"libraries": sorted(libraries), "order": order})
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def close(self) -> None:
        """End it. What it executes ends as it notices that, and soon in any case."""
        if (process := self.process) is not None:
            self.process = None
            process.kill()
            process.wait()
            with process, suppress(OSError):
                for _ in range(100):
                    os.killpg(process.pid, 0)
                    time.sleep(0.01)
                os.killpg(process.pid, signal.SIGKILL)


class Order:
    """Tasks that a child process has been given, and what comes of them."""

    def __init__(self, worker: Worker, given: Mapping[str, Any], runs: Sequence["Run"]) -> None:
        #: The order, and the answers: more than pipes hold while this process does something else.
        number, name = tempfile.mkstemp(prefix="pylit-order-")
        self._path, self.file = Path(name), os.fdopen(number, "r+b")
        self.file.write(f"{json.dumps(given)}\n".encode())
        self.file.flush()
        worker.send(given["libraries"], name)
        self._worker, self._process, self.runs = worker, worker.process, runs
        #: For which of them a file was loaded last.
        self.loading = runs[0]
        self._end = 0.0

    def close(self) -> None:
        """Forget the answers. A child process that has the order has removed its file."""
        self.file.close()
        self._path.unlink(missing_ok=True)

    def read(self) -> Iterator[tuple["Run | None", bytes]]:
        """Wait for answers; in the end there is a status. A process that takes long is ended."""
        self._end = self._end or time.monotonic() + 120 + 50 * len(self.runs) * SECONDS
        while True:
            if time.monotonic() > self._end:
                self._worker.close()
            status = self._process.poll() if self._process else -signal.SIGKILL
            *lines, rest = self.file.read().split(b"\n")
            self.file.seek(-len(rest), os.SEEK_CUR)
            for line in lines:
                number, _, answer = line.partition(b" ")
                if answer:
                    yield None if number == b"-1" else self.runs[int(number)], answer
                else:
                    self.loading = self.runs[int(number)]
            if status is not None:
                yield None, b"%d" % status
            if lines or status is not None:
                return
            time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Code:
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


@dataclass(slots=True)
class Run:
    """A task, what its answer depends on, and the answer as soon as there is one."""

    task: Task
    frames: Mapping[str, str]
    answer: dict[str, Any] | Failure | None
    #: What it was given with in this build.
    order: Order | None = None


class Runs:
    """The tasks of one build. On entering it a child process begins with them.

    Args:
        modules: The site's own modules.
        docs: The folder ``docs_src``.
        cache: The answers of earlier builds.
        generator: Digest of the code of the generator.
        worker: What executes tasks.
    """

    #: A module of the generator, whose function `run` the child process calls with each task.
    program: ClassVar[str]
    #: The folder of the files that declare tasks, in ``docs_src``.
    folder: ClassVar[str]

    def __init__(
        self,
        modules: Sequence[Module],
        docs: Path,
        cache: Cache,
        generator: str,
        worker: Worker,
    ) -> None:
        self._pages = {module.source.name: module for module in modules}
        self._modules = {name: page.source for name, page in self._pages.items() if page.parsed}
        self._docs, self._root = docs.resolve(), docs.resolve().parent
        self._folder, self._shown = docs / self.folder, f"{docs.name}/{self.folder}"
        self._cache, self._generator = cache, generator
        self._worker = worker
        self._environment: Mapping[str, str] = {}
        self._faults = Report()
        self._codes: dict[str, Code] = {}
        self._states: dict[tuple[str, str], str] = {}
        self._runs: list[Run] = []
        self._libraries: set[str] = set()
        self._orders: list[Order] = []

    def declared(self) -> Iterator[tuple[Sequence[Task], str]]:
        """The tasks of each file, in the order of their answers, and its text."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for tasks, text in self.declared():
            frames, libraries = self._closure(tasks[0], text)
            self._libraries |= libraries
            for task in tasks:
                found: tuple[dict[str, Any], Read] | None
                found = self._cache.load(*self._key(task, frames))
                if found and any(old != self._state(what) for what, old in found[1].items()):
                    found = None
                self._runs.append(Run(task, frames, found and found[0]))
        self.begin(self._runs)
        return self

    def __exit__(self, *_: object) -> None:
        if any(run.answer is None and run.order for run in self._runs):
            self._worker.close()
        elif self._worker.stays and self._worker.jobs and self._runs:
            self._worker.send(self._libraries)
        for order in self._orders:
            order.close()

    def begin(self, runs: Iterable[Run]) -> None:
        """Give the child process the tasks that have no answer, and that it has not."""
        missing = [run for run in runs if run.answer is None and run.order is None]
        if not (missing and self._worker.jobs):
            return
        packages = (
            module.path.resolve().parents[module.name.count(".") + module.is_package]
            for module in self._modules.values()
            if not self._pages[module.name].package
        )
        order = {
            "program": self.program,
            "environment": dict(self._environment),
            "root": str(self._root),
            "roots": list(dict.fromkeys(map(str, packages))),
            "seconds": SECONDS,
            "bytes": MEMORY,
            "jobs": self._worker.jobs,
            "libraries": sorted(self._libraries),
            "tasks": [
                {"file": str(run.task.file), "function": run.task.function, **run.task.arguments}
                for run in missing
            ],
        }
        self._orders.append(Order(self._worker, order, missing))
        for run in missing:
            run.order = self._orders[-1]

    def _read(self, order: Order) -> None:
        """Take the answers that have come; a new order continues one that ended on an import."""
        for run, line in order.read():
            if run is None:
                left = [run for run in order.runs if run.answer is None]
                if left:
                    run = order.loading if order.loading in left else left[0]
                    message = f"failed: the process ended with status {line.decode()}"
                    run.answer = Failure("failed", message, run.task.line)
                for run in left:
                    run.order = None if run.answer is None else run.order
                self.begin(left)
                return
            task, data = run.task, json.loads(line)
            if error := data.get("error"):
                run.answer = Failure(error["kind"], error["message"], error["line"] or task.line)
                continue
            answer = {**data, **task.stored, "stamp": digest(line)}
            read = {what: self._state(what) for what in self._reads(answer, run.frames)}
            if self._is_current(run, read):
                self._cache.store(*self._key(task, run.frames), (answer, read))
            run.answer = answer

    @property
    def left(self) -> int:
        """How many tasks have not run."""
        return sum(run.answer is None for run in self._runs)

    def answers(self) -> Iterator[tuple[Task, dict[str, Any] | Failure]]:
        """What came of each task that may run, in order; waits for it."""
        for run in self._runs:
            while run.answer is None and run.order is not None:
                self._read(run.order)
            if run.answer is not None:
                yield run.task, run.answer

    def _key(self, task: Task, frames: Mapping[str, str]) -> tuple[str, str]:
        """The name and the key of an answer in the cache."""
        given = repr((SECONDS, MEMORY, self._environment, frames))
        key = digest(self._generator, *versions(), task.key, given)
        return f"{self.program} {task.file} {task.function}", key

    def code(self, name: str) -> Code:
        """What runs of a module depend on."""
        if name not in self._codes:
            module = self._modules[name]
            package = name if module.is_package else name.rpartition(".")[0]
            self._codes[name] = self._code(f"module {name}", module.text, package)
        return self._codes[name]

    def _code(self, name: str, text: str, package: str = "") -> Code:
        key = digest(self._generator, text, package)
        found = self._cache.get(f"code of {name}", key, partial(read_code, text, package))
        known = (n for n in found.imports if n in self._modules or _library(n))
        return replace(found, imports=tuple(known))

    def _closure(self, task: Task, text: str) -> tuple[Mapping[str, str], set[str]]:
        """Digests of what runs when a file and its module are imported; libraries among that."""
        own = self._code(str(task.file), text)
        found, todo = set[str](), [*with_parents([task.owner]), *own.imports]
        while todo:
            if (name := todo.pop()) not in found:
                found.add(name)
                todo += self.code(name).imports if name in self._modules else ()
        frames = {name: self._state((name, "")) for name in sorted(found & self._modules.keys())}
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

    def _is_current(self, run: Run, read: Read) -> bool:
        """Whether what ran is what this build has read: its author may have saved it since."""
        names = {*run.frames, *(name for name, _ in read)}
        sources = [self._modules[name] for name in names & self._modules.keys()]
        try:
            text = run.task.file.read_text(encoding="utf-8")
            return run.frames["<file>"].startswith(digest(text)) and all(
                sha256(one.path.read_bytes()).hexdigest() == one.digest for one in sources
            )
        except OSError:
            return False

    def _inside(self, name: str) -> str:
        """The path from the root of the site; empty for one outside of it."""
        path = Path(os.path.realpath(name))
        if "site-packages" in path.parts or not path.is_relative_to(self._root):
            return ""
        return path.relative_to(self._root).as_posix()

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The names of the modules, by their files."""
        files = {self._inside(str(one.path)): name for name, one in self._modules.items()}
        return {file: name for file, name in files.items() if file}

    @cached_property
    def _notes(self) -> str:
        """Digest of all texts, for code that reads docstrings."""
        return digest(*(module.digest for module in self._modules.values()))

    def _state(self, read: tuple[str, str]) -> str:
        """The digest of a part of a module, or of a path, as it is in this build."""
        if (found := self._states.get(read)) is None:
            found = self._states[read] = self._read_state(*read)
        return found

    def _read_state(self, name: str, what: str) -> str:
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


def read_code(text: str, package: str = "") -> Code:
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
    functions = [pair for pair in definitions(tree) if "<locals>" not in pair[0]]
    for name, function in functions:
        # What a class contains runs when it is defined.
        if not isinstance(function, ast.ClassDef):
            # Several functions may have one name.
            parts.setdefault(name, []).extend(map(ast.dump, function.body))
            function.body = []
    parts[""] = [ast.dump(tree)]
    documented = frozenset(n for n, dumps in parts.items() if any(map(_DOCSTRINGS.search, dumps)))
    digests = {name: digest(*dumps) for name, dumps in parts.items()}
    return Code(lines, content, imports, digests, documented)


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
            home = origin(node, package)
            yield from (f"{home}.{alias.name}" for alias in node.names)
