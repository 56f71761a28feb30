"""Runs of code of the annotated package: what a child process is given, tells, and has read.

The generator never imports what it renders. Traced shapes and figures order `Task`s, functions of
files of the site, from a `Runner`; a child process (`pylit.confined`) works them off. `Imports`
says what a run reads, so that it runs anew only when that has changed. What a run reads of a module
is its code. Notes are no part of it: to mend a sentence does not run everything that imports its
module, unless code that runs asks for docstrings, or opens the source as a text.
"""

import ast
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import IO, Any

from pylit.cache import Cache, digest
from pylit.model import Module

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GENERATOR = Path(__file__).resolve().parents[1]
#: Libraries that take long to import: before any run, so that they count for none.
_HEAVY = ("torch", "numpy", "jaxtyping")
#: Names by which code asks for what is written about other code.
_ASKING = frozenset({"__doc__", "getdoc", "pydoc"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may take."""

    #: Of processor time.
    seconds: float = 5.0
    bytes: int = 2**30


@dataclass(frozen=True, slots=True)
class Task:
    """A function to run."""

    #: The file that declares it, and the line where it begins there.
    file: Path
    function: str
    line: int
    #: Whose it is: a module, or a file of figures.
    owner: str
    heavy: tuple[str, ...] = ()
    #: What the child has to know besides.
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no run."""

    #: "failed", "slow" or "hungry".
    kind: str
    #: How a sentence goes on that begins with the run.
    message: str
    #: In the file that declares the run.
    line: int
    #: Where below it.
    file: str = ""
    file_line: int = 0
    #: The module that could not be found.
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Reads:
    """Files of code that ran, files that were opened, and folders that were listed."""

    sources: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def __or__(self, other: "Reads") -> "Reads":
        return Reads(
            self.sources | other.sources, self.files | other.files, self.folders | other.folders
        )


#: Of a task: what the child tells of it, or why it tells nothing; and what was read.
Answer = tuple[Task, dict[str, Any] | Failure, Reads]


class Runner:
    """A child process at work on tasks; another one goes on if a run ends it.

    Args:
        module: Of the generator, for ``python -m``; it calls `pylit.confined.serve`.
        roots: Where packages are found.
        limits: What one run may take.
        environment: Variables for the process, beside those of this one.
    """

    def __init__(
        self,
        module: str,
        roots: Sequence[Path],
        limits: Limits,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._module, self._roots, self._limits = module, roots, limits
        # The folder of the generator is for itself; packages come from their own roots.
        # Sets come in the same order every time, or pages would differ from build to build.
        fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
        fixed |= dict.fromkeys(_THREADS, "1")
        self._environment = {**os.environ, **(environment or {}), **fixed}
        self._tasks: list[Task] = []
        self._out: IO[bytes] | None = None

    def start(self, tasks: Sequence[Task]) -> None:
        """Begin; `answers` waits."""
        self._tasks = list(tasks)
        if not tasks:
            return
        order = {
            "roots": [str(root) for root in self._roots],
            "seconds": self._limits.seconds,
            "bytes": self._limits.bytes,
            "heavy": list(dict.fromkeys(name for task in tasks for name in task.heavy)),
            "tasks": [
                {"file": str(task.file), "function": task.function, **task.more} for task in tasks
            ],
        }
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            # A group of its own: what a run leaves behind, a fork that never ends, goes with it.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(json.dumps(order).encode())

    def answers(self) -> Iterator[Answer]:
        """What came of each task, in order."""
        while self._tasks and self._out is not None:
            tasks = self._tasks
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(120 + 25 * len(tasks) * self._limits.seconds)
            self._kill()
            self._out.seek(0)
            lines = self._out.read().decode("utf-8").splitlines()
            for task, line in zip(tasks, lines, strict=False):
                yield _answer(task, json.loads(line))
            left = tasks[len(lines) :]
            if left:
                message = f"failed: the process ended with status {self._process.returncode}"
                yield left[0], Failure("failed", message, left[0].line), Reads()
            self.close()
            self.start(left[1:])

    def close(self) -> None:
        """End the child, if it is still there."""
        if self._out is not None:
            self._kill()
            self._out.close()
            self._out = None

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _answer(task: Task, data: dict[str, Any]) -> Answer:
    error = data.get("error")
    if error is None:
        return task, data, Reads(*(frozenset(data[n]) for n in ("sources", "files", "folders")))
    line, missing = error["line"] or task.line, error["missing"] or ""
    return task, Failure(**error | {"line": line, "missing": missing}), Reads()


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a source."""

    #: Dotted names that it imports, wherever in it.
    imports: tuple[str, ...]
    #: Digest of its code, without docstrings, comments, and where lines begin and end.
    code: str
    #: Whether it asks for docstrings.
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Closure:
    """What a file that declares runs reads by its imports, and by theirs."""

    #: The site's modules, and digests of them: of their code, or of all where one asks for notes.
    modules: Mapping[str, str]
    #: What takes long to import, and is imported before any run, so that it counts for none.
    heavy: tuple[str, ...]

    def digests(self) -> list[str]:
        """For a key."""
        return [f"{name}={found}" for name, found in self.modules.items()]


@dataclass(slots=True)
class _Known:
    """What a build leaves for the next one."""

    #: Digest of a source and its place -> what was read of it.
    reads: dict[str, _Read] = field(default_factory=dict)
    #: Of the sources of all modules, and what follows from it for some that are imported.
    sources: str = ""
    closures: dict[tuple[tuple[str, ...], _Read], Closure] = field(default_factory=dict)


class Imports:
    """Who imports whom, read from the sources.

    Args:
        modules: Those of the site.
        root: The folder of the site.
        cache: What earlier builds left; to parse all sources takes longer than an unchanged build.
        kept: The name in the cache.
        generator: Digest of the code of the generator.
    """

    def __init__(
        self, modules: Sequence[Module], root: Path, cache: Cache, kept: str, generator: str
    ) -> None:
        self._named = {module.source.name: module.source for module in modules}
        self._root = root.resolve()
        self._cache, self._kept, self._version = cache, kept, generator
        self._known: _Known = cache.load(kept, self._version) or _Known()
        self._used = _Known()
        self._used.sources = digest(*(f"{n} {one.digest}" for n, one in self._named.items()))

    def keep(self) -> None:
        """Remember what was read, for the next build."""
        if self._used != self._known:
            self._cache.store(self._kept, self._version, self._used)

    def _read(self, text: str, content: str, name: str, is_package: bool) -> _Read:
        key = f"{content} {name} {is_package}"
        used = self._used.reads
        if key not in used:
            used[key] = self._known.reads.get(key) or _read(text, content, name, is_package)
        return used[key]

    def _module(self, name: str) -> _Read:
        source = self._named[name]
        return self._read(source.text, source.digest, source.name, source.is_package)

    def closure(self, text: str, *names: str) -> Closure:
        """What a file that declares runs reads.

        Args:
            text: The file, whose imports count.
            names: Modules that it reads whether it imports them or not.
        """
        own = self._read(text, digest(text), "", False)
        same = self._known.sources == self._used.sources
        if same and (found := self._known.closures.get((names, own))):
            # What was read then is worth keeping for the next change.
            self._used.reads |= self._known.reads
        else:
            found = self._follow(names, own)
        self._used.closures[names, own] = found
        return found

    def _follow(self, names: Sequence[str], own: _Read) -> Closure:
        todo = [*names, *own.imports]
        seen: dict[str, _Read] = {}
        met: set[str] = set()
        outside: set[str] = set()
        while todo:
            name = todo.pop()
            if name in met:
                continue
            met.add(name)
            prefixes = _prefixes(name)
            outside.add(prefixes[0])
            for prefix in prefixes:
                if prefix in self._named and prefix not in seen:
                    seen[prefix] = self._module(prefix)
                    todo += seen[prefix].imports
        asks = own.asks or any(one.asks for one in seen.values())
        modules = {n: self._named[n].digest if asks else seen[n].code for n in sorted(seen)}
        heavy = [name for name in _HEAVY if name in outside]
        heavy += [name for name in own.imports if name.partition(".")[0] in _HEAVY]
        return Closure(modules, tuple(dict.fromkeys(heavy)))

    def extra(self, closure: Closure, docs: Path, reads: Reads) -> dict[str, str]:
        """What runs have read besides what their key says: paths in the site, with digests.

        Of code that ran it is modules that nobody imports by name, and helpers that are none. Of
        folders only those under `docs` count; others are listed by every import.
        """
        ran = self._inside(reads.sources)
        names = {self._files[path] for path in ran & self._files.keys()} - closure.modules.keys()
        asks = any(self._module(name).asks for name in names)
        found = {
            path: self._module(name).code for path, name in self._files.items() if name in names
        }
        if asks:
            found = {p: self._named[n].digest for p, n in self._files.items()}
        texts = self._inside(reads.files)
        folders = {p for p in self._inside(reads.folders) if (self._root / p).is_relative_to(docs)}
        for path in sorted((ran - self._files.keys()) | texts | folders):
            found[path] = self._states(path)[0]
        return found

    def _inside(self, paths: Iterable[str]) -> set[str]:
        """Paths from the root of the site, of those that lie in it."""
        real = (Path(os.path.realpath(path)) for path in paths if not path.startswith("<"))
        inside = (path for path in real if path.is_relative_to(self._root))
        return {
            path.relative_to(self._root).as_posix()
            for path in inside
            if "site-packages" not in path.parts and path.suffix != ".pyc"
        }

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The names of the modules, by their files."""
        paths = {os.path.realpath(one.path): name for name, one in self._named.items()}
        root = f"{self._root}{os.sep}"
        return {path.removeprefix(root): name for path, name in paths.items()}

    def hold(self, digests: Mapping[str, str]) -> bool:
        """Whether what runs have read besides is as it was."""
        return all(found in self._states(path) for path, found in digests.items())

    def _states(self, path: str) -> tuple[str, ...]:
        """The digests of a path as it is: of its text, and of its code if it is a module."""
        if path in self._files:
            name = self._files[path]
            return self._named[name].digest, self._module(name).code
        try:
            full = self._root / path
            if full.is_dir():
                return (digest(*sorted(entry.name for entry in full.iterdir())),)
            return (digest(full.read_bytes()),)
        except OSError:
            return ("",)


@lru_cache(maxsize=10_000)
def _prefixes(name: str) -> tuple[str, ...]:
    """To import a.b.c is to run a and a.b first, and c may be a name in a.b."""
    parts = name.split(".")
    return tuple(".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def versions() -> tuple[str, ...]:
    """What a run stands on besides the sources: Python, and the libraries that compute."""
    found = [sys.version]
    for package in ("torch", "jaxtyping", "numpy"):
        try:
            found.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            found.append("none")
    return tuple(found)


def roots(modules: Iterable[Module]) -> list[Path]:
    """Where Python finds the packages of some modules."""
    found = []
    for module in modules:
        up = module.source.name.count(".") + module.source.is_package
        found.append(module.source.path.resolve().parents[up])
    return list(dict.fromkeys(found))


def _read(text: str, content: str, name: str, is_package: bool) -> _Read:
    try:
        tree = _WithoutNotes().visit(ast.parse(text))
    except (SyntaxError, ValueError):
        return _Read((), content)
    imports = tuple(dict.fromkeys(_imported(tree, name, is_package)))
    return _Read(imports, digest(ast.dump(tree)), any(map(_asks, ast.walk(tree))))


class _WithoutNotes(ast.NodeTransformer):
    """Takes out texts that nobody reads."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """A text that is a statement is a docstring, or says what stands before it."""
        value = node.value
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        return None if is_text else node


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
            return name in _ASKING
        case ast.alias(name=name) | ast.Constant(value=str(name)):
            return name in _ASKING
    return False


def _imported(tree: ast.AST, name: str, is_package: bool) -> Iterator[str]:
    """Dotted names that a source imports, wherever in it."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)
