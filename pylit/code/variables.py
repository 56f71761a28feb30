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
from typing import NamedTuple

from pylit.code.resolve import Resolver
from pylit.source.scopes import Position, Scope, name_of, place


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name stands; or, without places, why it does not."""

    places: frozenset[Position] = frozenset()
    fault: str = ""
    #: The nearest name that there is, or nothing.
    near: str = ""


class _Written(NamedTuple):
    """A name as the code writes it."""

    #: The name, and the attributes after it.
    chain: list[ast.AST]
    #: The function or module that binds the variable, or the class that the attribute is of.
    owner: str
    is_attribute: bool
    is_definition: bool


class Variables:
    """The names in the code of one module, which parses."""

    def __init__(self, resolver: Resolver) -> None:
        self._name = resolver.module.source.name
        self._lines = resolver.module.source.lines
        self._scopes, self._values = resolver.scopes, resolver.values
        self._above: dict[ast.AST, ast.AST] = {}
        self._uses: dict[str, list[tuple[ast.AST, Scope]]] = {}
        for node, scope in self._scopes.names:
            self._uses.setdefault(name_of(node), []).append((node, scope))
            if isinstance(node, ast.Attribute):
                self._above[node.value] = node

    def find(self, path: tuple[str, ...], within: str = "") -> Found:
        """The places of a name, of a function or class if `within` names one."""
        defined = [*self._scopes.returns, *self._scopes.classes]
        owners = {name for name in defined if within and name.endswith(f".{within}")}
        value = self._values.named(within, self._scopes.module) if within else None
        owners |= {value.name} if value and self._values.kind(value.name) == "class" else set()
        if within and not owners:
            names = {name.removeprefix(f"{self._name}.") for name in defined}
            names |= {name.rpartition(".")[2] for name in names}
            near = "".join(get_close_matches(within, sorted(names), n=1))
            return Found(fault=f"`{self._name}` has no function or class `{within}`", near=near)
        known = self._meant(path[0], owners)
        if known:
            return Found(self._places(path, known))
        similar = get_close_matches(path[0], sorted(self._uses), n=len(self._uses) or 1)
        first = next((name for name in similar if self._meant(name, owners)), "")
        near = ".".join([first, *path[1:]]) if first else ""
        return Found(fault=f"`{within or self._name}` has no `{path[0]}`", near=near)

    def _meant(self, name: str, owners: set[str]) -> list[_Written]:
        """Where the code writes a name, of one of `owners` if there are any."""
        found = list(self._written(name))
        if owners:
            order = self._values.order
            of = ((e, order(e.owner) if e.is_attribute else [e.owner]) for e in found)
            return [each for each, classes in of if not owners.isdisjoint(classes)]
        # Of other modules' classes only what is defined here is meant without their names.
        found = [
            each for each in found if not each.is_attribute or each.owner in self._scopes.classes
        ]
        return [each for each in found if not each.is_definition] or found

    def _written(self, name: str) -> Iterator[_Written]:
        """Every place where the code writes a name, and whose it is there."""
        for node, scope in self._uses.get(name, ()):
            chain = [node]
            while chain[-1] in self._above:
                chain.append(self._above[chain[-1]])
            if not isinstance(node, ast.Attribute):
                home = scope.find(name)
                if home and not scope.receiver(name):
                    yield _Written(
                        chain, home.dotted, home.kind == "class", _is_defined(name, home)
                    )
            elif (value := self._values.value(node.value, scope)) and value.of:
                bodies = filter(None, map(self._scopes.classes.get, self._values.order(value.of)))
                body = next((body for body in bodies if name in body.bindings), None)
                yield _Written(chain, value.of, True, body is not None and _is_defined(name, body))

    def _places(self, path: tuple[str, ...], known: Sequence[_Written]) -> frozenset[Position]:
        """The places of a path, of whose first name `known` has all.

        A parameter is used where the module is that holds it; a part of a variable is the part.
        """
        whole: set[Position | None] = set()
        parts: set[Position | None] = set()
        for chain, _, is_attribute, _ in known:
            length = min(len(path), len(chain))
            if tuple(map(name_of, chain[:length])) == path[:length]:
                holds = length == len(path) or is_attribute
                (whole if holds else parts).add(place(chain[length - 1], self._lines))
        return frozenset(where for where in whole or parts if where)


def _is_defined(name: str, home: Scope) -> bool:
    return any(each.how in ("definition", "import") for each in home.bindings[name])
