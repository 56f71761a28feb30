"""Whose names are whose, when several modules share one namespace.

In a notebook all cells write into one namespace. What a module imports from another one that is
taken apart too is there already, so that import goes; what it imports from elsewhere stays, once.
Two things of one name are an error: the later one would silently take the place of the earlier.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pylit.model import Module
from pylit.notebooks.model import Cell, NotebookError
from pylit.notebooks.standalone import DROPPED

#: Longer lines of imports are broken.
WIDTH = 88

#: A module and its syntax tree.
Read = tuple[Module, ast.Module]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a name comes from: a module, and the name there (empty: the module itself)."""

    module: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


class Namespace:
    """The names of one notebook, while its chapters are put in.

    Args:
        modules: Finds modules of the site's packages by their dotted names.
        chapters: Those that are taken apart into cells.
    """

    def __init__(self, modules: "Modules", chapters: Sequence[str]) -> None:
        self._modules = modules
        self._chapters = chapters
        self._owners: dict[str, Origin] = {}

    @property
    def defined(self) -> Collection[str]:
        """The names so far."""
        return self._owners.keys()

    def define(self, module: str, name: str) -> None:
        """A chapter defines `name`."""
        self._take(name, Origin(module, name), module)

    def cell(self, cell: Cell) -> None:
        """What a cell of the recipe imports need not be imported again."""
        if cell.kind == "markdown":
            return
        for statement in ast.parse(cell.text).body:
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._owners[name] = Origin(alias.name if alias.asname else name)
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    origin = Origin(statement.module or "", alias.name)
                    self._owners[alias.asname or alias.name] = origin

    def dropped(self, tree: ast.Module) -> set[str]:
        """The names that a module imports of what falls away in a notebook."""
        return {
            alias.asname or alias.name
            for statement in ast.walk(tree)
            if isinstance(statement, ast.ImportFrom) and statement.module in DROPPED
            for alias in statement.names
        }

    def imports(
        self, module: Module, statement: ast.Import | ast.ImportFrom, used: Collection[str]
    ) -> Iterator[str]:
        """The lines that stay of an import of a chapter, for the names that it still uses."""
        here = module.source.name
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.partition(".")[0]
                if name not in used:
                    continue
                target = Origin(alias.name if alias.asname else name)
                if self._take(name, target, here):
                    yield f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            return
        base = _base(module, statement)
        kept: dict[str, list[str]] = {}
        for alias in statement.names:
            origin = self._modules.origin(base, alias.name)
            name = alias.asname or alias.name
            if name not in used:
                continue
            if origin.module in self._chapters and origin.name:
                # It is, or will be, defined in a cell. Under another name it is one more.
                if name != origin.name and self._take(name, origin, here):
                    yield f"{name} = {origin.name}"
                continue
            if origin.module in self._modules:
                raise NotebookError(
                    f"{here} uses `{name}` of {origin.module}, and a notebook has nothing of the "
                    f"package; take `{origin.module}` as a chapter before it"
                )
            if self._take(name, origin, here):
                # What a chapter only passes on comes from where it was defined.
                home = origin.module if base in self._chapters and origin.name else base
                text = alias.name + (f" as {alias.asname}" if alias.asname else "")
                kept.setdefault(home, []).append(text)
        for home, names in kept.items():
            yield _from(home, names)

    def _take(self, name: str, origin: Origin, where: str) -> bool:
        """Give a name to its owner; whether it is new here."""
        if name not in self._owners:
            self._owners[name] = origin
            return True
        if self._owners[name] != origin:
            raise NotebookError(
                f"{where}: `{name}` is {origin}, and in the same notebook it is "
                f"{self._owners[name]}; rename one of the two, or take one module less apart"
            )
        return False


class Modules:
    """Modules by dotted name, read when they are asked for."""

    def __init__(self, known: Mapping[str, Read]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> Read:
        """Raises `NotebookError` for a module that is not there."""
        if name not in self._known:
            raise NotebookError(f"there is no module `{name}`; write its dotted name")
        return self._known[name]

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def origin(self, module: str, name: str) -> Origin:
        """Where `name` of `module` was defined, through any number of re-exports."""
        here, seen = Origin(module, name), set[Origin]()
        while here.module in self._known and here not in seen:
            seen.add(here)
            if str(here) in self._known:
                return Origin(str(here))
            further = self._imported(here)
            if further is None:
                break
            here = further
        return here

    def _imported(self, asked: Origin) -> Origin | None:
        module, tree = self._known[asked.module]
        for statement in ast.walk(tree):
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == asked.name:
                        return Origin(_base(module, statement), alias.name)
        return None


def _base(module: Module, statement: ast.ImportFrom) -> str:
    """The dotted name after `from`, a relative one made absolute."""
    if not statement.level:
        return statement.module or ""
    parts = module.source.name.split(".")
    up = statement.level - module.source.is_package
    package = parts[: len(parts) - up] if up else parts
    return ".".join([*package, *([statement.module] if statement.module else [])])


def _from(home: str, names: Sequence[str]) -> str:
    line = f"from {home} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {name},\n" for name in names)
    return f"from {home} import (\n{inner})"
