"""Runs of code of the annotated package: ordered here, worked off by a child process, and kept.

The generator never imports what it renders. Traced shapes and figures order `Task`s, functions of
files of the site, from `Runs`; a child process (`pylit.confined`) works them off. What a run told
is kept as long as all that it read is as it was: the file that declares it; of every module of the
site that it imports, by way of others too, what runs on import, which is all but the bodies of
functions; the bodies of the functions that it called; the files that it opened and the folders that
it listed. Notes are no part of it: to mend a sentence runs nothing anew, unless code that runs asks
for docstrings, or opens the source as a text.
"""

import ast
import importlib.metadata
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

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
    #: What the child has to know besides.
    more: Mapping[str, Any] = field(default_factory=dict)
    #: What of it the answer depends on.
    key: str = ""


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


class Worker:
    """The child process; it waits for one order after the other.

    Args:
        program: A module of the generator, for ``python -m``; it calls `pylit.confined.serve`.
        environment: Variables for the process, beside those of this one.
    """

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        # The folder of the generator is for itself; packages come from their own roots.
        # Sets come in the same order every time, or pages would differ from build to build.
        fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
        fixed |= dict.fromkeys(_THREADS, "1")
        self._group = 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # what is ready is what `select` sees
            env={**os.environ, **environment, **fixed},
            start_new_session=True,
        )

    def begin(self, order: Path) -> None:
        """Give it an order, a file that its answers replace; it must be through with others."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{order}\n".encode())

    def wait(self, seconds: float) -> int:
        """The status of the order's process; the worker is ended if it takes longer."""
        self._group = self._number(seconds)
        status = self._number(seconds)
        self._group = 0
        if self.process.poll() is not None:
            return self.process.returncode
        return status

    def _number(self, seconds: float) -> int:
        pipe = self.process.stdout
        assert pipe is not None
        line = pipe.readline() if select.select([pipe], [], [], seconds)[0] else b""
        if not line:
            self.close()
        return int(line or -1)

    def close(self) -> None:
        """End it, and what it has begun."""
        into, out = self.process.stdin, self.process.stdout
        assert into is not None and out is not None
        if not self._group and select.select([out], [], [], 0)[0]:
            self._group = int(out.readline() or 0)
        for group in (self.process.pid, self._group):
            with suppress(ProcessLookupError, PermissionError):
                if group:
                    os.killpg(group, signal.SIGKILL)
        self.process.wait()
        into.close()
        out.close()


#: Workers that stay for the next build, by their programs and variables.
_STAYING: dict[tuple[Any, ...], Worker] = {}


def end_workers() -> None:
    """End those that stay."""
    while _STAYING:
        _STAYING.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class CodeLines:
    """The lines of a module that hold code."""

    #: Their numbers, in order.
    numbers: tuple[int, ...]
    #: Digest of what stands on them.
    content: str


@dataclass(frozen=True, slots=True)
class _Source:
    """What was read of a source."""

    lines: CodeLines
    #: Dotted names that it imports, wherever in it.
    imports: tuple[str, ...] = ()
    #: Digest of what runs when it is imported.
    frame: str = ""
    #: Digests of the bodies of functions, by their qualified names.
    bodies: Mapping[str, str] = field(default_factory=dict)
    #: The functions that ask for docstrings; an empty name is the module itself.
    asking: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Record:
    """What a run told, and what it read."""

    key: str
    told: dict[str, Any]
    #: ``module:function`` -> the digest of its body.
    called: dict[str, str]
    #: Paths of the site, read in another way -> the digest of what is there.
    read: dict[str, str]


class Runs:
    """Tasks of one build. `start` begins with those of which nothing is kept; `answers` waits.

    Args:
        program: A module of the generator; it calls `pylit.confined.serve`.
        modules: Those of the site.
        docs: The folder ``docs_src``.
        root: The folder of the site.
        cache: What earlier builds left.
        generator: Digest of the code of the generator.
        limits: What one run may take.
        environment: Variables for the child.
        stays: Whether the child waits for the next build.
    """

    def __init__(
        self,
        program: str,
        modules: Sequence[Module],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        limits: Limits,
        environment: Mapping[str, str] | None = None,
        *,
        stays: bool = False,
    ) -> None:
        self._program, self._limits, self._stays = program, limits, stays
        self._modules = {module.source.name: module.source for module in modules}
        self._docs, self._root, self._cache = docs, root.resolve(), cache
        self._environment = dict(environment or {})
        self._version = digest(generator, *versions(), repr(limits), repr(environment))
        self._roots = [str(path) for path in roots(modules)]
        self._known: dict[str, _Source] = cache.load(f"sources of {program}", generator) or {}
        self._generator = generator
        self._read: dict[str, _Source] = {}
        self._records: dict[Path, dict[str, _Record]] = {}
        self._tasks: list[tuple[Task, str, Mapping[str, str]]] = []
        self._fresh: list[Task] = []
        self._heavy: dict[str, None] = {}
        self._worker: Worker | None = None
        self._is_through = False
        self._answers: Path | None = None

    def order(self, tasks: Iterable[Task], text: str, *names: str) -> None:
        """Order tasks of one file.

        Args:
            tasks: In the order in which they are answered.
            text: The file, whose imports count.
            names: Modules that it reads whether it imports them or not.
        """
        frames, heavy = self._closure(text, names)
        for task in tasks:
            key = digest(self._version, task.key, text, *(f"{n}={d}" for n, d in frames.items()))
            if task.file not in self._records:
                kept = self._cache.load(self._kept_as(task.file), self._version)
                self._records[task.file] = kept or {}
            record = self._records[task.file].get(task.function)
            self._tasks.append((task, key, frames))
            if record is None or record.key != key or not self._holds(record):
                self._records[task.file].pop(task.function, None)
                self._fresh.append(task)
                self._heavy |= heavy

    def code(self, name: str) -> CodeLines:
        """Where the code of a module is."""
        return self._module(name).lines

    def start(self) -> None:
        """Begin with what has to run."""
        if self._read != self._known:
            self._cache.store(f"sources of {self._program}", self._generator, self._read)
        self.begin(self._fresh)

    def begin(self, tasks: Sequence[Task]) -> None:
        """Give tasks to the child."""
        if not tasks:
            return
        kept = (self._program, *sorted(self._environment.items()))
        self._worker = _STAYING.pop(kept, None)
        if self._worker is None or self._worker.process.poll() is not None:
            self._worker = Worker(self._program, self._environment)
        order = {
            "roots": self._roots,
            "seconds": self._limits.seconds,
            "bytes": self._limits.bytes,
            "heavy": list(self._heavy),
            "tasks": [{"file": str(t.file), "function": t.function, **t.more} for t in tasks],
        }
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", delete=False) as file:
            json.dump(order, file)
        self._answers = Path(file.name)
        self._worker.begin(self._answers)
        self._is_through = False

    def kept(self) -> Iterator[tuple[Task, dict[str, Any]]]:
        """What came of the tasks that need not run, before the others are through."""
        for task, _, _ in self._tasks:
            record = self._records[task.file].get(task.function)
            if record is not None:
                yield task, record.told

    def answers(self) -> Iterator[tuple[Task, dict[str, Any] | Failure]]:
        """What came of each task, in order. What is put into an answer is kept with it."""
        fresh = self._told()
        changed = set()
        for task, key, frames in self._tasks:
            record = self._records[task.file].get(task.function)
            if record is not None:
                yield task, record.told
                continue
            found = next(fresh)
            if isinstance(found, Failure):
                yield task, found
                continue
            record = _Record(key, found, *self._reads(found, frames))
            self._records[task.file][task.function] = record
            changed.add(task.file)
            yield task, found
        for file in changed:
            self._cache.store(self._kept_as(file), self._version, self._records[file])

    def _told(self) -> Iterator[dict[str, Any] | Failure]:
        """The answers of the child; another one goes on if a file ends it on import."""
        tasks = self._fresh
        while tasks and self._worker is not None and self._answers is not None:
            status = self._worker.wait(120 + 25 * len(tasks) * self._limits.seconds)
            self._is_through = True
            lines = self._answers.read_text(encoding="utf-8").splitlines()
            for task, line in zip(tasks, lines, strict=False):
                data = json.loads(line)
                if error := data.get("error"):
                    yield Failure(**error | {"line": error["line"] or task.line})
                else:
                    yield data | {"stamp": digest(line)}
            tasks = tasks[len(lines) :]
            if tasks:
                message = f"failed: the process ended with status {status}"
                yield Failure("failed", message, tasks[0].line)
                tasks = tasks[1:]
            self.close()
            self.begin(tasks)

    def close(self) -> None:
        """End the child, if it is still there, or leave it for the next build."""
        if self._answers is not None:
            self._answers.unlink(missing_ok=True)
            self._answers = None
        if self._worker is None:
            return
        if self._stays and self._is_through and self._worker.process.poll() is None:
            _STAYING[self._program, *sorted(self._environment.items())] = self._worker
        else:
            self._worker.close()
        self._worker = None

    def _kept_as(self, file: Path) -> str:
        """The name in the cache of what the runs of a file told."""
        return f"{self._program} {file}"

    def _source(self, text: str, content: str, name: str, is_package: bool) -> _Source:
        key = f"{content} {name} {is_package}"
        if key not in self._read:
            self._read[key] = self._known.get(key) or _read(text, name, is_package)
        return self._read[key]

    def _module(self, name: str) -> _Source:
        source = self._modules[name]
        return self._source(source.text, source.digest, source.name, source.is_package)

    def _closure(
        self, text: str, names: Sequence[str]
    ) -> tuple[Mapping[str, str], dict[str, None]]:
        """The modules that a file imports, with digests of what they do then; heavy libraries."""
        own = self._source(text, digest(text), "", False)
        todo, met = [*names, *own.imports], set[str]()
        seen: dict[str, _Source] = {}
        while todo:
            name = todo.pop()
            if name in met:
                continue
            met.add(name)
            for prefix in _prefixes(name):
                if prefix in self._modules and prefix not in seen:
                    seen[prefix] = self._module(prefix)
                    todo += seen[prefix].imports
        # What asks for notes on import, or where the runs are, may ask for those of any module.
        asks = own.asking or any("" in one.asking for one in seen.values())
        frames = {n: self._modules[n].digest if asks else seen[n].frame for n in sorted(seen)}
        outside = {name.partition(".")[0] for name in met}
        heavy = [name for name in _HEAVY if name in outside]
        heavy += [name for name in own.imports if name.partition(".")[0] in _HEAVY]
        return frames, dict.fromkeys(heavy)

    def _holds(self, record: _Record) -> bool:
        """Whether what a run has read is as it was."""
        for called, found in record.called.items():
            name, _, function = called.partition(":")
            if name not in self._modules or self._module(name).bodies.get(function) != found:
                return False
        return all(found in self._states(path) for path, found in record.read.items())

    def _reads(
        self, told: dict[str, Any], frames: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """What a run called, and what it has read besides, with digests.

        That is modules that nobody imports by name, helpers that are none, and files. Of folders
        only those below ``docs_src`` count; others are listed by every import.
        """
        ran, imported = told.pop("ran"), told.pop("imported")
        texts = {self._inside(name) for name in told.pop("files")}
        texts |= {path for path in map(self._inside, told.pop("folders")) if self._is_docs(path)}
        called: dict[str, str] = {}
        others = set()
        for file, functions in (*imported.items(), *ran.items()):
            path = self._inside(file)
            name = self._files.get(path, "")
            if name in frames:
                source = self._module(name)
                called |= {f"{name}:{f}": source.bodies[f] for f in functions if f in source.bodies}
                asks = not source.asking.isdisjoint(functions)
            else:
                others |= {path} if file in ran else set()
                asks = file in ran and bool(name) and bool(self._module(name).asking)
            if asks:
                texts |= self._files.keys()
        read = {path: self._states(path)[-1] for path in others - {""}}
        return called, read | {path: self._states(path)[0] for path in texts - {""}}

    def _is_docs(self, path: str) -> bool:
        return bool(path) and (self._root / path).is_relative_to(self._docs)

    def _inside(self, name: str) -> str:
        """The path from the root of the site; empty for one that does not lie in it."""
        path = Path(os.path.realpath(name))
        outside = "site-packages" in path.parts or path.suffix == ".pyc"
        if name.startswith("<") or outside or not path.is_relative_to(self._root):
            return ""
        return path.relative_to(self._root).as_posix()

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The names of the modules, by their files."""
        return {self._inside(str(one.path)): name for name, one in self._modules.items()}

    def _states(self, path: str) -> tuple[str, ...]:
        """The digests of a path as it is: of its text, and of its code if it is a module."""
        if path in self._files:
            name = self._files[path]
            return self._modules[name].digest, self._module(name).lines.content
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


def _read(text: str, name: str, is_package: bool) -> _Source:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _Source(CodeLines((), digest(text)))
    lines = code_lines(text, tree)
    imports = tuple(dict.fromkeys(_imported(tree, name, is_package)))
    split = _Split()
    split.visit(tree)
    split.asking |= {""} if any(map(_asks, ast.walk(tree))) else set()
    bodies = {name: digest(*found) for name, found in split.bodies.items()}
    return _Source(lines, imports, digest(ast.dump(tree)), bodies, frozenset(split.asking))


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _WithoutTexts(ast.NodeTransformer):
    """Takes out texts that nobody reads: docstrings, and what says what stands before it."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if _is_text(node) else node


class _Split(_WithoutTexts):
    """Takes out the bodies of functions, too."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[str]] = {}
        self.asking: set[str] = set()
        self._around: tuple[str, ...] = ()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """What stands in a class runs when it is defined."""
        around, self._around = self._around, (*self._around, node.name)
        self.generic_visit(node)
        self._around = around
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What stands in a function runs when it is called. Several may have one name."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """The same."""
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        body = [part for part in map(_WithoutTexts().visit, node.body) if part is not None]
        name = ".".join((*self._around, node.name))
        self.bodies.setdefault(name, []).extend(map(ast.dump, body))
        if any(_asks(inner) for part in body for inner in ast.walk(part)):
            self.asking.add(name)
        node.body = []
        return node


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


_SILENT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER})
_SILENT |= {tokenize.INDENT, tokenize.DEDENT}


def code_lines(text: str, tree: ast.Module) -> CodeLines:
    """The lines of a source that hold code. A text that is a statement is a docstring, and none."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    notes = {(node.lineno, node.col_offset) for node in statements if _is_text(node)}
    found: dict[int, list[str]] = {}
    within = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A docstring may be several texts side by side: the statement ends where its line does.
        within = token.type != tokenize.NEWLINE and (within or token.start in notes)
        if within or token.type in _SILENT:
            continue
        for line in range(token.start[0], token.end[0] + 1):
            found.setdefault(line, [])
        found[token.start[0]].append(token.string)
    numbers = tuple(sorted(found))
    return CodeLines(numbers, digest(*("\0".join(found[line]) for line in numbers)))
