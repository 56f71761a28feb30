"""Where a variable stands in a module's code, by the name that a table of symbols has for it.

``query`` of ``attend`` is a variable of one function, ``keys`` of ``KeysValues`` an attribute of
one class wherever its instances go, and ``scores`` alone is what the module calls so everywhere.
``query.linear.weight`` stands where the code writes it, and where it writes ``self.query``: then
what uses the parameter is the module that holds it.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from pylit.code.resolve import Resolver
from pylit.code.scopes import (
    Defined,
    Definer,
    Imported,
    Position,
    Receiver,
    Scope,
    name_of,
    place,
)
from pylit.code.values import Value

#: Bases outside of the project that give an instance no attribute that a table would name.
_PLAIN_BASES = frozenset({"builtins.object", "typing.NamedTuple", "typing.Generic", "abc.ABC"})
_NOWHERE = (0, 0)

Kind = Literal["variable", "attribute", "definition"]


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name stands; or, without places, why it does not."""

    places: frozenset[Position] = frozenset()
    fault: str = ""
    #: The nearest name that there is, or nothing.
    near: str = ""


@dataclass(frozen=True, slots=True)
class _Written:
    """A name as the code writes it, with the attributes after it."""

    parts: tuple[str, ...]
    #: Of each part.
    places: tuple[Position, ...]
    #: What has the first part: the function or module that binds a variable, the class that an
    #: attribute is of; empty if nobody knows.
    owner: str
    kind: Kind
    #: What the first part is, if that is known.
    value: Value | None


#: Owner, kind and value of something written.
_Of = tuple[str, Kind, Value | None]


class Variables:
    """The names in the code of one module, which parses."""

    def __init__(self, resolver: Resolver) -> None:
        self._name = resolver.module.source.name
        self._lines = resolver.module.source.lines
        assert resolver.scopes is not None
        self._scopes = scopes = resolver.scopes
        self._values = resolver.values
        uses = [*scopes.uses, *scopes.stored]
        self._above = {n.value: n for n, _ in uses if isinstance(n, ast.Attribute)}
        self._uses: dict[str, list[tuple[ast.AST, Scope]]] = {}
        for node, scope in uses:
            self._uses.setdefault(name_of(node), []).append((node, scope))

    def find(self, path: tuple[str, ...], within: str = "") -> Found:
        """The places of a name, of a function or class if `within` names one."""
        if within:
            return self._within(path, within)
        # Of other modules' classes only what is defined here is meant without their names.
        own = {self._name, *self._scopes.classes}

        def known(name: str) -> list[_Written]:
            return [w for w in self._written(name) if w.kind == "variable" or w.owner in own]

        for defined in (False, True):
            wanted = [w for w in known(path[0]) if (w.kind == "definition") == defined]
            found = self._among(path, wanted)
            if found is not None:
                return found
        return self._nothing(path, known, f"`{self._name}`")

    def _within(self, path: tuple[str, ...], within: str) -> Found:
        functions, classes = self._owners(within)
        if not functions and not classes:
            names = [*self._names_of("function"), *self._names_of("class")]
            bare = {name.rpartition(".")[2] for name in names}
            near = get_close_matches(within, sorted({*names, *bare}), n=1)
            what = f"`{self._name}` has no function or class `{within}`"
            return Found(fault=what, near=near[0] if near else "")

        def known(name: str) -> list[_Written]:
            return [
                w
                for w in self._written(name)
                if (w.kind == "variable" and w.owner in functions)
                or (w.kind != "variable" and self._is_any(w.owner, classes))
            ]

        found = self._among(path, known(path[0]))
        if found is None and any(self._has(owner, path[0]) for owner in classes):
            return Found()
        return found or self._nothing(path, known, f"`{within}`")

    def _owners(self, within: str) -> tuple[set[str], set[str]]:
        """The functions and classes of a name, by their full names."""
        functions = {n for n in self._names_of("function") if _is_called(n, within)}
        classes = {n for n in self._names_of("class") if _is_called(n, within)}
        found = {f"{self._name}.{name}" for name in classes}
        value = self._values.named(within, self._scopes.module)
        if not found and value is not None and self._values.is_class(value.name):
            found.add(value.name)
        return {f"{self._name}.{name}" for name in functions}, found

    def _names_of(self, kind: str) -> Iterator[str]:
        """The functions or classes of the module, by their names inside it."""
        cut = len(self._name) + 1
        for node, scope in self._scopes.stored:
            if isinstance(node, Definer) and isinstance(node, ast.ClassDef) == (kind == "class"):
                yield f"{scope.dotted}.{node.name}"[cut:]

    def _is_any(self, owner: str, classes: Iterable[str]) -> bool:
        order = self._values.order(owner) if owner else ()
        return any(one in order for one in classes)

    def _has(self, owner: str, name: str) -> bool:
        """Whether a class of the project has an attribute, whatever it is."""
        for base in filter(None, self._values.order(owner)):
            target = self._values.target(base)
            if target and (name in target.attributes or self._values.target(f"{base}.{name}")):
                return True
        return False

    def _among(self, path: tuple[str, ...], known: Sequence[_Written]) -> Found | None:
        """The places of a path, of whose first name `known` has all; None if that is nowhere."""
        whole: set[Position] = set()
        part: set[Position] = set()
        holders: set[Position] = set()
        for written in known:
            length = min(len(path), len(written.parts))
            if written.parts[:length] == path[:length]:
                place = written.places[length - 1]
                kind = whole if length == len(path) else part
                (holders if kind is part and written.kind == "attribute" else kind).add(place)
        if not known:
            return None
        # A parameter is used where the module is that holds it; a part of a variable is the part.
        places = frozenset((whole | holders) or part) - {_NOWHERE}
        return self._missing_part(path, known) or Found(places)

    def _missing_part(self, path: tuple[str, ...], known: Sequence[_Written]) -> Found | None:
        """A fault, if a class of the project is known to lack what the path asks of it."""
        held = [written for written in known if written.kind == "attribute"]
        values = {written.value for written in held or known}
        value = values.pop() if len(values) == 1 else None
        for index, name in enumerate(path[1:], start=1):
            if value is None or not value.of:
                return None
            if self._lacks(value.of, name):
                target = self._values.target(value.of)
                names = sorted(target.attributes) if target else []
                near = get_close_matches(name, names, n=1)
                what = f"`{'.'.join(path[:index])}` has no `{name}`"
                return Found(fault=what, near=".".join([*path[:index], *near]) if near else "")
            value = self._values.attribute(value, name)
        return None

    def _lacks(self, owner: str, name: str) -> bool:
        order = self._values.order(owner)
        outside = [place for place in order if place and self._values.target(place) is None]
        known = all(o in _PLAIN_BASES or o.startswith("torch.nn.") for o in outside)
        whole = bool(order) and "" not in order and self._values.target(owner) is not None
        own = Value(of=owner)
        return (
            whole
            and known
            and not self._has(owner, name)
            and self._values.attribute(own, name) is None
        )

    def _nothing(
        self, path: tuple[str, ...], known: Callable[[str], list[_Written]], where: str
    ) -> Found:
        """That a name is not there, and the nearest one that is."""
        near = get_close_matches(path[0], sorted(self._uses), n=len(self._uses) or 1)
        first = next((name for name in near if known(name)), "")
        hint = ".".join([first, *path[1:]]) if first else ""
        return Found(fault=f"{where} has no `{path[0]}`", near=hint)

    def _written(self, name: str) -> Iterator[_Written]:
        """Every place where the code writes a name, and whose it is there."""
        for node, scope in self._uses.get(name, ()):
            found = (
                self._attribute(node, scope)
                if isinstance(node, ast.Attribute)
                else self._variable(name, scope)
            )
            if found is not None:
                owner, kind, value = found
                chain = _chain(node, self._above)
                places = tuple(place(part, self._lines) or _NOWHERE for part in chain)
                yield _Written(tuple(name_of(part) for part in chain), places, owner, kind, value)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> _Of | None:
        """The class that an attribute is of, and whether it is a method."""
        owner = self._values.value(node.value, scope)
        if owner is None or not owner.of:
            return None
        bodies = [self._scopes.classes.get(place) for place in self._values.order(owner.of)]
        body = next((b for b in bodies if b is not None and node.attr in b.bindings), None)
        method = body is not None and _is_definition(body, node.attr)
        value = self._values.attribute(owner, node.attr)
        return owner.of, "definition" if method else "attribute", value

    def _variable(self, name: str, scope: Scope) -> _Of | None:
        """The scope that binds a name, and as what."""
        home = scope.find(name)
        if home is None or any(isinstance(b, Receiver) for b in home.bindings[name]):
            return None
        value = self._values.named(name, scope)
        if _is_definition(home, name):
            return home.dotted, "definition", value
        return home.dotted, "attribute" if home.kind == "class" else "variable", value


def _chain(node: ast.AST, above: dict[ast.expr, ast.Attribute]) -> list[ast.AST]:
    """A node and the attributes after it: ``a``, ``a.b``, ``a.b.c`` for the first of them."""
    chain = [node]
    while isinstance(chain[-1], ast.expr) and chain[-1] in above:
        chain.append(above[chain[-1]])
    return chain


def _is_definition(home: Scope, name: str) -> bool:
    return any(isinstance(b, Defined | Imported) for b in home.bindings[name])


def _is_called(qualname: str, name: str) -> bool:
    return qualname == name or qualname.endswith(f".{name}")
