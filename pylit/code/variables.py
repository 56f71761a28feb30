"""Where a variable stands in a module's code, by the name that a table of symbols has for it.

``query`` of ``attend`` is a variable of one function, ``keys`` of ``KeysValues`` an attribute of
one class wherever its instances go, and ``scores`` alone is what the module calls so everywhere.
``query.linear.weight`` stands where the code writes it, and where it writes ``self.query``: then
what uses the parameter is the module that holds it.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from pylit.code.resolve import Resolver
from pylit.code.scopes import Defined, Imported, Position, Scope, name_of, place
from pylit.code.values import Value

#: Bases outside of the project that give an instance no attribute that a table would name.
_PLAIN_BASES = ("builtins.object", "typing.NamedTuple", "typing.Generic", "abc.ABC")


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
    #: Of each part; None where the ast does not know.
    places: tuple[Position | None, ...]
    #: What has the first part: the function or module that binds a variable, the class that an
    #: attribute is of.
    owner: str
    kind: Kind
    #: What the first part is, if that is known.
    value: Value | None


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
        functions = {name for name in self._scopes.returns if name.endswith(f".{within}")}
        classes = {name for name in self._scopes.classes if name.endswith(f".{within}")}
        value = self._values.named(within, self._scopes.module) if within else None
        if not classes and value is not None and self._values.is_class(value.name):
            classes = {value.name}
        if within and not functions and not classes:
            return self._no_owner(within)

        def meant(name: str) -> list[_Written]:
            written = list(self._written(name))
            if not within:
                # Of other modules' classes only what is defined here is meant without their names.
                own = {self._name, *self._scopes.classes}
                found = [w for w in written if w.kind == "variable" or w.owner in own]
                return [w for w in found if w.kind != "definition"] or found
            return [
                w
                for w in written
                if (w.owner in functions if w.kind == "variable" else self._is_any(w, classes))
            ]

        known = meant(path[0])
        if known:
            return self._missing_part(path, known) or Found(_places(path, known))
        if any(self._has(owner, path[0]) for owner in classes):
            return Found()
        names = get_close_matches(path[0], sorted(self._uses), n=len(self._uses) or 1)
        first = next(filter(meant, names), "")
        fault = f"`{within or self._name}` has no `{path[0]}`"
        return Found(fault=fault, near=".".join([first, *path[1:]]) if first else "")

    def _no_owner(self, within: str) -> Found:
        full = [*self._scopes.returns, *self._scopes.classes]
        names = {name.removeprefix(f"{self._name}.") for name in full}
        names |= {name.rpartition(".")[2] for name in full}
        near = get_close_matches(within, sorted(names), n=1)
        fault = f"`{self._name}` has no function or class `{within}`"
        return Found(fault=fault, near=near[0] if near else "")

    def _is_any(self, written: _Written, classes: set[str]) -> bool:
        return not classes.isdisjoint(self._values.order(written.owner))

    def _has(self, owner: str, name: str) -> bool:
        """Whether a class of the project has an attribute, whatever it is."""
        for base in filter(None, self._values.order(owner)):
            target = self._values.target(base)
            if target and (name in target.attributes or self._values.target(f"{base}.{name}")):
                return True
        return False

    def _missing_part(self, path: tuple[str, ...], known: Sequence[_Written]) -> Found | None:
        """A fault, if a class of the project is known to lack what the path asks of it."""
        held = [written for written in known if written.kind == "attribute"]
        values = {written.value for written in held or known}
        value = values.pop() if len(values) == 1 else None
        for index, name in enumerate(path[1:], start=1):
            target = self._values.target(value.of) if value and value.of else None
            following = self._values.attribute(value, name)
            if target and value and not following and self._is_known(value.of, name):
                near = get_close_matches(name, sorted(target.attributes), n=1)
                fault = f"`{'.'.join(path[:index])}` has no `{name}`"
                return Found(fault=fault, near=".".join([*path[:index], *near]) if near else "")
            value = following
        return None

    def _is_known(self, owner: str, name: str) -> bool:
        """Whether all bases of a class are known, and none of them has an attribute."""
        bases = self._values.order(owner)
        outside = [base for base in bases if not (base and self._values.target(base))]
        plain = all(base in _PLAIN_BASES or base.startswith("torch.nn.") for base in outside)
        return plain and not self._has(owner, name)

    def _written(self, name: str) -> Iterator[_Written]:
        """Every place where the code writes a name, and whose it is there."""
        for node, scope in self._uses.get(name, ()):
            chain: list[ast.AST] = [node]
            while isinstance(chain[-1], ast.expr) and chain[-1] in self._above:
                chain.append(self._above[chain[-1]])
            parts = tuple(map(name_of, chain))
            places = tuple(place(part, self._lines) for part in chain)
            if isinstance(node, ast.Attribute):
                of = self._values.value(node.value, scope)
                if of is not None and of.of:
                    value = self._values.attribute(of, node.attr)
                    yield _Written(parts, places, of.of, self._kind(of.of, node.attr), value)
                continue
            home = scope.find(name)
            if home and not scope.receiver(name):
                kind: Kind = "attribute" if home.kind == "class" else "variable"
                kind = "definition" if _is_definition(home, name) else kind
                value = self._values.named(name, scope)
                yield _Written(parts, places, home.dotted, kind, value)

    def _kind(self, owner: str, name: str) -> Kind:
        """Whether an attribute of a class is a method."""
        bodies = map(self._scopes.classes.get, self._values.order(owner))
        body = next((body for body in bodies if body and name in body.bindings), None)
        return "definition" if body and _is_definition(body, name) else "attribute"


def _places(path: tuple[str, ...], known: Sequence[_Written]) -> frozenset[Position]:
    """The places of a path, of whose first name `known` has all.

    A parameter is used where the module is that holds it; a part of a variable is the part.
    """
    whole: set[Position | None] = set()
    parts: set[Position | None] = set()
    for written in known:
        length = min(len(path), len(written.parts))
        if written.parts[:length] == path[:length]:
            holds = length == len(path) or written.kind == "attribute"
            (whole if holds else parts).add(written.places[length - 1])
    return frozenset(where for where in whole or parts if where)


def _is_definition(home: Scope, name: str) -> bool:
    return any(isinstance(b, Defined | Imported) for b in home.bindings[name])
