"""Runs of code of the annotated package: ordered here, worked off by a child process, and kept.

The generator never imports what it renders. Traced shapes and figures order `Task`s, functions of
files of the site, from `Runs`; a child process (`pylit.sandbox`) works them off. What a run told
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
import re
import select
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from pylit.cache import Cache, digest
from pylit.model import Module

_GENERATOR = Path(__file__).resolve().parents[1]
#: Libraries that take long to import: before any run, so that they count for none.
_HEAVY = ("torch", "numpy", "jaxtyping")
#: Names by which code asks for what is written about other code.
_ASKING = re.compile(r"\b(?:__doc__|getdoc|pydoc)\b")


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
        program: A module of the generator, for ``python -m``; it calls `pylit.sandbox.serve`.
        environment: Variables for the process, beside those of this one.
    """

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        # The folder of the generator is for itself; packages come from their own roots.
        # Sets come in the same order every time, or pages would differ from build to build.
        fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
        fixed |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # what is ready is what `select` sees
            env={**os.environ, **environment, **fixed},
            start_new_session=True,
        )
        #: Where the answers to its order will be; None if it has none.
        self.answers: Path | None = None

    def begin(self, order: Mapping[str, Any]) -> None:
        """Give it an order, in a file that its answers replace; it must be through with others."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", delete=False) as file:
            json.dump(order, file)
        self.answers = Path(file.name)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{file.name}\n".encode())

    def wait(self, seconds: float) -> tuple[list[str], int]:
        """The answers to the order, and its status; the worker is ended if it takes longer."""
        pipe = self.process.stdout
        assert pipe is not None and self.answers is not None
        ended = pipe.readline() if select.select([pipe], [], [], seconds)[0] else b""
        # Whole lines are answers. A worker that died leaves a part of one, or the order itself.
        *lines, _ = self.answers.read_text(encoding="utf-8").split("\n")
        self.answers.unlink()
        self.answers = None
        if not ended:
            self.close()
        return lines, int(ended or self.process.returncode)

    def close(self) -> None:
        """End it, and by way of it what it has begun."""
        with self.process:
            self.process.terminate()
        if self.answers is not None:
            self.answers.unlink()
            self.answers = None


#: Workers that stay for the next build, by their programs and variables.
_STAYING: dict[tuple[Any, ...], Worker] = {}


def end_workers() -> None:
    """End those that stay."""
    while _STAYING:
        _STAYING.popitem()[1].close()


@dataclass(frozen=True, slots=True)
class Source:
    """What runs of a source depend on."""

    #: The lines that hold code, and a digest of what stands on them.
    numbers: tuple[int, ...]
    content: str
    #: Dotted names that it imports, wherever in it.
    imports: tuple[str, ...] = ()
    #: Digest of what runs when it is imported.
    frame: str = ""
    #: Digests of the bodies of functions, by their qualified names.
    bodies: Mapping[str, str] = field(default_factory=dict)
    #: The functions that ask for docstrings; an empty name is the module itself.
    asking: frozenset[str] = frozenset()


#: Module and function, or an empty text and a path -> the digest of what is there.
Read = dict[tuple[str, str], str]


class Runs:
    """Tasks of one build. `start` begins with those of which nothing is kept; `answers` waits.

    Args:
        program: A module of the generator; it calls `pylit.sandbox.serve`.
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
        self._docs, self._root, self._cache = docs.resolve(), root.resolve(), cache
        self._environment = dict(environment or {})
        self._kind = (program, *sorted(self._environment.items()))
        self._version = digest(generator, *versions(), repr(limits), repr(environment))
        self._roots = [str(path) for path in roots(modules)]
        self._generator, self._sources = generator, f"sources of {program}"
        self._known: dict[str, Source] = cache.load(self._sources, generator) or {}
        self._read: dict[str, Source] = {}
        self._codes: dict[str, Source] = {}
        #: Of a module: those that it imports, and heavy libraries.
        self._near: dict[str, tuple[set[str], set[str]]] = {}
        #: Each task, what its answer depends on, and the answer that is kept.
        self._tasks: list[tuple[Task, Mapping[str, str], dict[str, Any] | None]] = []
        self._heavy: dict[str, None] = {}
        self._worker: Worker | None = None

    def order(self, tasks: Iterable[Task], text: str, *names: str) -> None:
        """Order tasks of one file.

        Args:
            tasks: In the order in which they are answered.
            text: The file, whose imports count.
            names: Modules that it reads whether it imports them or not.
        """
        frames, heavy = self._closure(text, names)
        for task in tasks:
            kept: tuple[dict[str, Any], Read] | None = self._cache.load(*self._entry(task, frames))
            if kept is None or any(found != self._state(*what) for what, found in kept[1].items()):
                self._tasks.append((task, frames, None))
                self._heavy |= heavy
            else:
                self._tasks.append((task, frames, kept[0]))

    def _entry(self, task: Task, frames: Mapping[str, str]) -> tuple[str, str]:
        """The name and the key of an answer in the cache."""
        key = digest(self._version, task.key, *(f"{n}={d}" for n, d in frames.items()))
        return f"{self._program} {task.file} {task.function}", key

    def code(self, name: str) -> Source:
        """What was read of a module."""
        if name not in self._codes:
            source = self._modules[name]
            self._codes[name] = self._source(source.text, source.digest, name, source.is_package)
        return self._codes[name]

    def start(self) -> None:
        """Begin with what has to run."""
        if self._read != self._known:
            self._cache.store(self._sources, self._generator, self._read)
        self.begin(self._fresh())

    def begin(self, tasks: Sequence[Task]) -> None:
        """Give tasks to the child."""
        if not tasks:
            return
        self._worker = _STAYING.pop(self._kind, None)
        if self._worker is None or self._worker.process.poll() is not None:
            self._worker = Worker(self._program, self._environment)
        order = {
            "roots": self._roots,
            "seconds": self._limits.seconds,
            "bytes": self._limits.bytes,
            "heavy": list(self._heavy),
            "tasks": [{"file": str(t.file), "function": t.function, **t.more} for t in tasks],
        }
        self._worker.begin(order)

    def _fresh(self) -> list[Task]:
        return [task for task, _, kept in self._tasks if kept is None]

    def kept(self) -> Iterator[tuple[Task, dict[str, Any]]]:
        """What came of the tasks that need not run, before the others are through."""
        return ((task, kept) for task, _, kept in self._tasks if kept is not None)

    def answers(self) -> Iterator[tuple[Task, dict[str, Any] | Failure]]:
        """What came of each task, in order. What is put into an answer is kept with it."""
        fresh = self._told(self._fresh())
        for task, frames, kept in self._tasks:
            if kept is not None:
                yield task, kept
            elif isinstance(found := next(fresh), Failure):
                yield task, found
            else:
                read = {what: self._state(*what) for what in self._reads(found, frames)}
                yield task, found
                self._cache.store(*self._entry(task, frames), (found, read))

    def _told(self, tasks: list[Task]) -> Iterator[dict[str, Any] | Failure]:
        """The answers of the child; another one goes on if a file ends it on import."""
        while tasks and self._worker is not None:
            lines, status = self._worker.wait(120 + 25 * len(tasks) * self._limits.seconds)
            for task, line in zip(tasks, lines, strict=False):
                data = json.loads(line)
                if error := data.get("error"):
                    yield Failure(**error | {"line": error["line"] or task.line})
                else:
                    yield data | {"stamp": digest(line)}
            tasks = tasks[len(lines) :]
            if tasks:
                message = f"failed: the process ended with status {status}"
                yield Failure("failed", message, tasks.pop(0).line)
            self.close()
            self.begin(tasks)

    def close(self) -> None:
        """End the child, if it is still there, or leave it for the next build."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if self._stays and worker.answers is None and worker.process.poll() is None:
            _STAYING[self._kind] = worker
        else:
            worker.close()

    def _source(self, text: str, content: str, name: str, is_package: bool) -> Source:
        key = f"{content} {name} {is_package}"
        if key not in self._read:
            self._read[key] = self._known.get(key) or read_source(text, name, is_package)
        return self._read[key]

    def _closure(
        self, text: str, names: Sequence[str]
    ) -> tuple[Mapping[str, str], dict[str, None]]:
        """A file and the modules that it imports, with digests of what runs; heavy libraries."""
        own = self._source(text, digest(text), "", False)
        todo, heavy = self._led_to([*names, *own.imports])
        seen: dict[str, Source] = {}
        while todo:
            if (name := todo.pop()) not in seen:
                seen[name] = self.code(name)
                if name not in self._near:
                    self._near[name] = self._led_to(seen[name].imports)
                more, heavier = self._near[name]
                todo |= more
                heavy |= heavier
        # What asks for notes on import, or where the runs are, may ask for those of any module.
        asks = own.asking or any("" in one.asking for one in seen.values())
        frames = {n: self._modules[n].digest if asks else seen[n].frame for n in sorted(seen)}
        frames["<file>"] = digest(text)
        libraries = [name for name in _HEAVY if name in heavy]
        libraries += [name for name in own.imports if name.partition(".")[0] in _HEAVY]
        return frames, dict.fromkeys(libraries)

    def _led_to(self, imports: Iterable[str]) -> tuple[set[str], set[str]]:
        """Modules of the site that names lead to, and heavy libraries.

        To import a.b.c is to run a and a.b first, and c may be a name in a.b.
        """
        found = {
            parent
            for name in imports
            for parent in accumulate(name.split("."), lambda above, part: f"{above}.{part}")
        }
        return found & self._modules.keys(), found & set(_HEAVY)

    def _reads(self, told: dict[str, Any], frames: Mapping[str, str]) -> set[tuple[str, str]]:
        """What a run called, and what it has read besides.

        That is modules that nobody imports by name, helpers that are none, and files. Of folders
        only those below ``docs_src`` count; others are listed by every import.
        """
        ran, imported = told.pop("ran"), told.pop("imported")
        read = {("", self._inside(name)) for name in told.pop("files")}
        folders = (name for name in told.pop("folders") if Path(name).is_relative_to(self._docs))
        read |= {("", self._inside(name)) for name in folders}
        for file, functions in (*imported.items(), *ran.items()):
            path = self._inside(file)
            name = self._files.get(path, "")
            asking = self.code(name).asking if name else frozenset()
            if name in frames:
                read |= {(name, f) for f in functions if f in self.code(name).bodies}
                asking &= set(functions)
            elif file in ran:
                read.add((name, "") if name else ("", path))
            if asking and (file in ran or name in frames):
                read |= {("", path) for path in self._files}
        return read - {("", "")}

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

    def _state(self, name: str, what: str) -> str:
        """The digest of a function, of all code of a module, or of a path, as it is."""
        if name in self._modules:
            return self.code(name).bodies.get(what, "") if what else self.code(name).content
        if what in self._files:
            return self._modules[self._files[what]].digest
        full = self._root / what
        try:
            if full.is_dir():
                return digest(*sorted(entry.name for entry in full.iterdir()))
            return digest(full.read_bytes())
        except OSError:
            return ""


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


@lru_cache(maxsize=256)
def read_source(text: str, name: str = "", is_package: bool = False) -> Source:
    """What runs of a source depend on; one that does not parse is its text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return Source((), digest(text))
    numbers, content = _code_lines(text, tree)
    imports = tuple(dict.fromkeys(_imported(tree, name, is_package)))
    split = _Split()
    dumps = {"": [ast.dump(split.visit(tree))]} | split.bodies
    asking = frozenset(n for n, dump in dumps.items() if any(map(_ASKING.search, dump)))
    bodies = {name: digest(*dump) for name, dump in dumps.items()}
    return Source(numbers, content, imports, bodies.pop(""), bodies, asking)


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _Split(ast.NodeTransformer):
    """Takes out the bodies of functions, and everywhere the texts that nobody reads: docstrings."""

    def __init__(self) -> None:
        #: Several functions may have one name.
        self.bodies: dict[str, list[str]] = {}
        self._around: list[str] = []
        self._is_inside = False

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if _is_text(node) else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """What stands in a class runs when it is defined."""
        self._around.append(node.name)
        self.generic_visit(node)
        self._around.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """What stands in a function runs when it is called."""
        outermost, self._is_inside = not self._is_inside, True
        self.generic_visit(node)
        if outermost:
            name = ".".join([*self._around, node.name])
            self.bodies.setdefault(name, []).extend(map(ast.dump, node.body))
            node.body, self._is_inside = [], False
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


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


def _code_lines(text: str, tree: ast.Module) -> tuple[tuple[int, ...], str]:
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
    return numbers, digest(*("\0".join(found[line]) for line in numbers))
