"""Who imports whom in a site, read from the sources: what a run may read."""

import ast
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.model import Module

#: Names in the cache of what was read from the sources, for traces and for figures.
KEPT = ("imports of traces", "imports of figures")


class Imports:
    """Who imports whom, read from the sources.

    Args:
        modules: Those of the site.
        cache: What earlier builds left; to parse all sources takes longer than an unchanged build.
        kept: The name in the cache, one of `KEPT`.
    """

    def __init__(self, modules: Sequence[Module], cache: Cache, kept: str) -> None:
        self._named = {module.source.name: module for module in modules}
        self._files = {str(module.source.path.resolve()): module for module in modules}
        self._cache, self._kept = cache, kept
        #: Digest of a source and its place -> what it imports.
        self._known: dict[str, tuple[str, ...]] = cache.load(kept, sys.version) or {}
        self._used: dict[str, tuple[str, ...]] = {}

    def keep(self) -> None:
        """Remember what was read, for the next build."""
        if self._used != self._known:
            self._cache.store(self._kept, sys.version, self._used)

    def _imported(self, text: str, content: str, name: str, is_package: bool) -> tuple[str, ...]:
        key = f"{content} {name} {is_package}"
        if key not in self._used:
            known = self._known.get(key)
            self._used[key] = known or tuple(dict.fromkeys(_imported(text, name, is_package)))
        return self._used[key]

    def closure(self, text: str, *names: str) -> tuple[list[str], set[str]]:
        """What a file that declares runs reads: the site's modules, with digests, and others.

        Args:
            text: The file, whose imports count.
            names: Modules that it reads whether it imports them or not.
        """
        todo = [*names, *self._imported(text, digest(text), "", False)]
        seen: dict[str, None] = {}
        outside: set[str] = set()
        while todo:
            name = todo.pop()
            outside.add(name.split(".")[0])
            # To import a.b.c is to run a and a.b first, and c may be a name in a.b.
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                prefix = ".".join(parts[:count])
                if prefix in self._named and prefix not in seen:
                    seen[prefix] = None
                    found = self._named[prefix].source
                    todo += self._imported(found.text, found.digest, found.name, found.is_package)
        digests = [f"{name}={self._named[name].source.digest}" for name in sorted(seen)]
        return digests, outside - {name.split(".")[0] for name in self._named}

    def digests(self, files: set[str]) -> dict[str, str]:
        """Of the modules among files that ran."""
        found = {str(Path(file).resolve()) for file in files if file.endswith(".py")}
        modules = [self._files[file].source for file in found & self._files.keys()]
        return {source.name: source.digest for source in modules}

    def hold(self, digests: Mapping[str, str]) -> bool:
        """Whether modules are as they were."""
        named = self._named
        return all(name in named and named[name].source.digest == d for name, d in digests.items())


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


def _imported(text: str, name: str, is_package: bool) -> Iterator[str]:
    """Dotted names that a source imports, wherever in it."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)
