"""What expressions stand for: followed through scopes, classes and other modules, or left open."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pylit.code.external import external_link, is_external_class
from pylit.code.facts import BUILTINS, DEPTH, annotation_class, literal_class
from pylit.code.index import Lookup, exports
from pylit.code.scopes import (
    Assigned,
    Binding,
    Declared,
    Defined,
    Imported,
    Opaque,
    Receiver,
    Scope,
)
from pylit.model import Link, Target

#: Bases that add no attribute worth a link: a search for one goes on behind them.
_EMPTY_BASES = frozenset({"builtins.object", "typing.Generic", "typing.Protocol", "abc.ABC"})


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression."""

    #: Full name of the thing that it names: a module, class, function or constant.
    name: str = ""
    #: Full name of the class that it is an instance of.
    of: str = ""
    #: For ``super()``: attributes are those of the bases of `of` alone.
    above: bool = False
    #: Line of a definition that no other module can name, because it is inside a function.
    line: int = 0


class Project:
    """What one module learns of the project, all of it through its `Lookup`."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._targets: dict[str, Target | None] = {}
        self._orders: dict[str, tuple[str, ...]] = {}

    def target(self, dotted: str) -> Target | None:
        """What the project defines under a dotted name."""
        if dotted not in self._targets:
            self._targets[dotted] = self._lookup(dotted)
        return self._targets[dotted]

    def canonical(self, dotted: str, depth: int = DEPTH) -> str:
        """The name under which a thing is defined, through re-exports out of the project too."""
        target = self.target(dotted)
        if target is not None:
            return target.definition.dotted
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            owner = self.target(".".join(parts[:cut]))
            if owner is not None:
                alias = owner.attributes.get(parts[cut], "")
                known = owner.definition.kind == "module" and alias and depth
                rest = [alias, *parts[cut + 1 :]]
                return self.canonical(".".join(rest), depth - 1) if known else ""
        return dotted

    def is_class(self, dotted: str) -> bool:
        """Whether calling `dotted` makes an instance of it."""
        target = self.target(dotted)
        if target is not None:
            return target.definition.kind == "class"
        return is_external_class(dotted)

    def order(self, dotted: str) -> tuple[str, ...]:
        """The classes in which an attribute of class `dotted` is searched; ``""`` is unknown."""
        if dotted not in self._orders:
            self._orders[dotted] = (dotted, "")  # what a class among its own bases gets
            target = self.target(dotted)
            if target is None:
                self._orders[dotted] = (dotted,)
            else:
                bases = [self.canonical(base) if base else "" for base in target.bases]
                chains = [self.order(base) if base else ("",) for base in bases]
                self._orders[dotted] = (dotted, *_merge([*chains, tuple(bases)]))
        return self._orders[dotted]

    def member(self, dotted: str, name: str, *, above: bool = False) -> Value | None:
        """The attribute `name` of class `dotted`, or of an instance of it."""
        for place in self.order(dotted)[1 if above else 0 :]:
            target = self.target(place) if place else None
            if target is not None:
                if name in target.attributes:
                    return self.instance(target.attributes[name])
                defined = self.target(f"{place}.{name}")
                if defined is not None:
                    return Value(defined.definition.dotted)
            elif place not in _EMPTY_BASES:
                outside = f"{place}.{name}"
                return Value(outside) if place and external_link(outside) else None
        return None

    def instance(self, dotted: str) -> Value | None:
        """An instance of class `dotted`, if it is one."""
        dotted = self.canonical(dotted) if dotted else ""
        return Value(of=dotted) if dotted and self.is_class(dotted) else None

    def described(self, dotted: str) -> Value | None:
        """The thing with a dotted name."""
        name = self.canonical(dotted)
        if not name:
            return None
        target = self.target(name)
        if target is not None and target.definition.kind == "constant" and target.bases:
            held = self.instance(target.bases[0])
            return Value(name, held.of if held else "")
        return Value(name)


class Values(Project):
    """What the names and expressions of one module stand for."""

    def __init__(self, name: str, lookup: Lookup) -> None:
        super().__init__(lookup)
        self._module = name
        self._names: dict[tuple[Scope, str], Value | None] = {}

    def link(self, value: Value | None) -> Link | None:
        """Link to the thing that a value names."""
        if value is None or not value.name:
            return None
        target = self.target(value.name)
        if target is not None:
            return Link(target.url, target.definition.dotted)
        if value.line:
            page = self.target(self._module)
            return Link(f"{page.url}#L{value.line}", value.name) if page else None
        return external_link(value.name)

    def value(self, node: ast.expr, scope: Scope) -> Value | None:
        """What is known of an expression in a scope."""
        if isinstance(node, ast.Name):
            return self.named(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value, scope), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        literal = literal_class(node)
        return Value(of=literal) if literal else None

    def attribute(self, owner: Value | None, name: str) -> Value | None:
        """The attribute `name` of a value."""
        if owner is None or owner.line:
            return None
        if owner.of:
            return self.member(owner.of, name, above=owner.above)
        target = self.target(owner.name)
        if target is None or target.definition.kind == "module":
            return self.described(f"{owner.name}.{name}")
        if target.definition.kind == "class":
            return self.member(owner.name, name)
        return None

    def _called(self, node: ast.Call, scope: Scope) -> Value | None:
        function = self.value(node.func, scope)
        if function is None:
            return None
        if not function.name:
            function = self.call(function.of)
            return self._returned(function.name) if function is not None else None
        if function.name == "builtins.super":
            home = self.value(node.args[0], scope) if node.args else Value(scope.owner)
            return Value(of=home.name, above=True) if home and home.name else None
        return self.instance(function.name) or self._returned(function.name)

    def call(self, dotted: str) -> Value | None:
        """The method that a call of an instance runs; in a PyTorch module it is ``forward``."""
        special = self.member(dotted, "__call__")
        if special is None and any(place.startswith("torch.nn.") for place in self.order(dotted)):
            special = self.member(dotted, "forward")
        return special if special is not None and self.target(special.name) else None

    def _returned(self, dotted: str) -> Value | None:
        """What a function of the project is declared to return."""
        target = self.target(dotted)
        if target is None or target.definition.kind not in ("function", "method"):
            return None
        return self.instance(target.bases[0]) if target.bases else None

    def named(self, name: str, scope: Scope) -> Value | None:
        """What a plain name stands for in a scope."""
        home = scope.find(name)
        if home is None:
            return self._global(name, scope.module)
        if (home, name) not in self._names:
            self._names[home, name] = None  # what ``x = x`` finds
            values = {self._bound(binding, name, home) for binding in home.bindings[name]}
            self._names[home, name] = _common(values)
        return self._names[home, name]

    def _global(self, name: str, module: Scope) -> Value | None:
        """A name that the module does not bind itself: from a star import, or built in."""
        for star in reversed(module.stars):
            source = self.target(star)
            if source is None:
                return None
            value = self.described(f"{star}.{name}") if exports(source, name) else None
            if value is not None:
                return value
        return Value(f"builtins.{name}") if name in BUILTINS else None

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        match binding:
            case Imported():
                return self.described(binding.dotted)
            case Defined() if self.target(binding.dotted) is None:
                return Value(binding.dotted, line=binding.line)
            case Defined():
                return self.described(binding.dotted)
            case Receiver() if self.target(binding.dotted) is None:
                return None
            case Receiver():
                return Value(of=binding.dotted) if binding.instance else Value(binding.dotted)
            case Declared():
                known = self.instance(annotation_class(binding.annotation, binding.scope))
            case Assigned():
                known = self._assigned(binding.value, binding.scope)
            case Opaque():
                known = None
        own = self.target(f"{home.dotted}.{name}") if home.kind in ("module", "class") else None
        if own is not None:
            constant = own.definition.kind == "constant"
            return Value(own.definition.dotted, known.of if known else "") if constant else None
        return known

    def _assigned(self, node: ast.expr, scope: Scope) -> Value | None:
        """What a name stands for after ``name = node``."""
        value = self.value(node, scope)
        if value is not None and isinstance(node, ast.Attribute):
            owner = self.value(node.value, scope)
            if owner is not None and owner.of:
                # It may be a property: then the name holds a result, not what is defined there.
                return Value(of=value.of) if value.of else None
        return value


def _common(values: set[Value | None]) -> Value | None:
    """What a name stands for that is bound in several places: only what all of them say."""
    if len(values) == 1:
        return values.pop()
    names = {value.name if value else "" for value in values}
    return Value(names.pop()) if len(names) == 1 and "" not in names else None


def _merge(chains: list[tuple[str, ...]]) -> Iterable[str]:
    """Python's method resolution order (C3) of the chains of a class's bases and the bases."""
    while chains := [chain for chain in chains if chain]:
        for head in (chain[0] for chain in chains):
            if not any(head in chain[1:] for chain in chains):
                break
        else:
            yield ""
            return
        yield head
        chains = [chain[1:] if chain[0] == head else chain for chain in chains]
