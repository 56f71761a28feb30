"""Who imports whom in a site, read from the sources: what a run may read.

What a run reads of a module is its code. Notes are no part of it, so that to mend a sentence does
not run everything that imports its module; unless something in a run has asked for what is written,
which `pylit.runs.curiosity` notes down.
"""

import ast
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.model import Module
from pylit.runs.process import HEAVY, Reads

#: Names in the cache of what was read from the sources, for traces and for figures.
KEPT = ("imports of traces", "imports of figures")


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a source."""

    #: Dotted names that it imports, wherever in it.
    imports: tuple[str, ...]
    #: Digest of its code, without docstrings, comments, and where lines begin and end.
    code: str


@dataclass(frozen=True, slots=True)
class Closure:
    """What a file that declares runs reads by its imports, and by theirs."""

    #: The site's modules, and the digest of their code.
    modules: Mapping[str, str]
    #: Packages of others.
    outside: frozenset[str]
    #: What the file imports itself.
    own: tuple[str, ...] = ()

    def digests(self) -> list[str]:
        """For a key."""
        return [f"{name}={code}" for name, code in self.modules.items()]

    def heavy(self) -> tuple[str, ...]:
        """What takes long to import, and is imported before any run, so that it counts for none."""
        own = (name for name in self.own if name.partition(".")[0] in HEAVY)
        return tuple(dict.fromkeys([*(name for name in HEAVY if name in self.outside), *own]))


@dataclass(slots=True)
class _Known:
    """What a build leaves for the next one."""

    #: Digest of a source and its place -> what was read of it.
    reads: dict[str, _Read] = field(default_factory=dict)
    #: Of the code of all modules, and what follows from it for some that are imported.
    code: str = ""
    closures: dict[tuple[tuple[str, ...], tuple[str, ...]], Closure] = field(default_factory=dict)


class Imports:
    """Who imports whom, read from the sources.

    Args:
        modules: Those of the site.
        cache: What earlier builds left; to parse all sources takes longer than an unchanged build.
        kept: The name in the cache, one of `KEPT`.
        generator: Digest of the code of the generator.
    """

    def __init__(self, modules: Sequence[Module], cache: Cache, kept: str, generator: str) -> None:
        self._named = {module.source.name: module for module in modules}
        self._cache, self._kept, self._version = cache, kept, generator
        self._known: _Known = cache.load(kept, self._version) or _Known()
        self._used = _Known()
        reads = [(name, self._module(name)) for name in self._named]
        self._used.code = digest(*(f"{name} {one.code} {one.imports}" for name, one in reads))

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
        source = self._named[name].source
        return self._read(source.text, source.digest, source.name, source.is_package)

    def closure(self, text: str, *names: str) -> Closure:
        """What a file that declares runs reads.

        Args:
            text: The file, whose imports count.
            names: Modules that it reads whether it imports them or not.
        """
        own = self._read(text, digest(text), "", False).imports
        known = self._known.closures if self._known.code == self._used.code else {}
        found = known.get((names, own)) or self._follow(names, own)
        self._used.closures[names, own] = found
        return found

    def _follow(self, names: Sequence[str], own: tuple[str, ...]) -> Closure:
        todo = [*names, *own]
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
        outside -= {name.split(".")[0] for name in self._named}
        return Closure({name: seen[name].code for name in sorted(seen)}, frozenset(outside), own)

    def digests(
        self, closure: Closure, file: Path, ran: Iterable[str], reads: Reads
    ) -> dict[str, str]:
        """What the runs of a file have read besides what their key says: modules, with digests.

        Args:
            closure: What the key says.
            file: The file.
            ran: Files of which code ran, some of them modules that nobody imports by name.
            reads: Whose code asked for notes, and which sources were read.
        """
        extra = self._names(ran)
        everything = extra | closure.modules.keys()
        curious = str(file.resolve()) in reads.asked or not everything.isdisjoint(
            self._names(reads.asked)
        )
        whole = self._names(reads.read) | (everything if curious else set())
        found = {name: self._module(name).code for name in sorted(extra)}
        return found | {name: self._named[name].source.digest for name in sorted(whole)}

    def _names(self, files: Iterable[str]) -> set[str]:
        """The modules of the site among some files."""
        paths = {str(Path(file).resolve()) for file in files if file.endswith(".py")}
        return {self._files[path] for path in paths & self._files.keys()}

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The names of the modules, by their files."""
        return {str(one.source.path.resolve()): name for name, one in self._named.items()}

    def hold(self, digests: Mapping[str, str]) -> bool:
        """Whether modules are as they were."""
        return all(
            name in self._named
            and found in (self._named[name].source.digest, self._module(name).code)
            for name, found in digests.items()
        )


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
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _Read((), content)
    imports = tuple(dict.fromkeys(_imported(tree, name, is_package)))
    return _Read(imports, digest(ast.dump(_WithoutNotes().visit(tree))))


class _WithoutNotes(ast.NodeTransformer):
    """Takes out texts that nobody reads."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """A text that is a statement is a docstring, or says what stands before it."""
        value = node.value
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        return None if is_text else node


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
