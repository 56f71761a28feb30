"""Scopes: which names a module's code binds, where, and what its syntax says of each.

Python's rules decide (reference, "Resolution of names"): a name belongs to the innermost function
that binds it anywhere; a class body sees its own names, but the functions inside it do not;
comprehensions are functions but for their first iterable; `global` and `nonlocal` move a binding
elsewhere. Nothing here looks at another module.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Imported:
    """Bound by an import; `dotted` is the full name of the module or thing."""

    dotted: str


@dataclass(frozen=True, slots=True)
class Defined:
    """Bound by `class` or `def`, on `line`."""

    dotted: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """Bound by ``name = value``."""

    value: ast.expr
    scope: "Scope"


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """Bound by ``name: annotation``, or a parameter with one."""

    annotation: ast.expr
    scope: "Scope"


@dataclass(frozen=True, slots=True)
class Receiver:
    """The first parameter of a method: an instance of the class, or the class itself."""

    dotted: str
    instance: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bound in a way that says nothing: a loop, `with`, `except`, `del`, a bare parameter."""


Binding = Imported | Defined | Assigned | Declared | Receiver | Opaque
OPAQUE = Opaque()


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class body or function (or what works like one: a lambda, a comprehension)."""

    kind: Literal["module", "class", "function", "type parameters"]
    #: Full dotted name; that of the enclosing definition for a lambda or comprehension.
    dotted: str
    parent: "Scope | None" = None
    #: Dotted name of the class whose method this function is, for `super()`.
    owner: str = ""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    #: Names that a `global` or `nonlocal` statement gives to an outer scope.
    module_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    #: Module only: the modules of its ``from m import *``, in order.
    stars: list[str] = field(default_factory=list)

    def bind(self, name: str, binding: Binding) -> None:
        """Record that code of this scope binds `name`."""
        if name in self.module_names:
            self.module.bindings.setdefault(name, []).append(binding)
        elif name in self.outer_names:
            # Which function owns it may not be known yet, so each of them loses what it knew.
            for scope in self.enclosing_functions():
                scope.bindings.setdefault(name, []).append(OPAQUE)
        else:
            self.bindings.setdefault(name, []).append(binding)

    def enclosing_functions(self) -> Iterator["Scope"]:
        """The functions around this scope, from the inside out."""
        scope = self.parent
        while scope is not None:
            if scope.kind == "function":
                yield scope
            scope = scope.parent

    @property
    def module(self) -> "Scope":
        """The module that this scope is in."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> "Scope | None":
        """The scope whose binding a use of `name` here sees; None for built-in or star names."""
        if name in self.module_names:
            return self.module if name in self.module.bindings else None
        scope: Scope | None = self
        inside = True
        while scope is not None:
            if name in scope.bindings and (inside or scope.kind != "class"):
                return scope
            # ``def f[T](x: Size)`` in a class: behind its type parameters the class is in sight.
            inside = inside and scope.kind == "type parameters"
            scope = scope.parent
        return None


#: A statement that defines a thing with a name.
Definer = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
#: What is known of an attribute, ``self.attr = value``, or of what a function returns.
AttributeBinding = Assigned | Declared | Opaque


@dataclass(slots=True, eq=False)
class Scopes:
    """Everything that one walk over a module's syntax tree finds."""

    module: Scope
    is_package: bool
    #: Names and attributes that code reads, each with the scope it stands in.
    uses: list[tuple[ast.Name | ast.Attribute, Scope]] = field(default_factory=list)
    #: What binds a name or an attribute of something, each with the scope it stands in.
    stored: list[tuple[ast.Name | ast.Attribute | ast.arg | Definer, Scope]] = field(
        default_factory=list
    )
    #: What stands before the parentheses of a call.
    called: set[ast.expr] = field(default_factory=set)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    #: Dotted name of each class -> its bases, with the scope they are evaluated in.
    classes: dict[str, tuple[list[ast.expr], Scope]] = field(default_factory=dict)
    #: Dotted name of each class -> the scope of its body.
    bodies: dict[str, Scope] = field(default_factory=dict)
    #: Dotted name of each function -> what a call of it is declared to return, per definition.
    returns: dict[str, list[AttributeBinding]] = field(default_factory=dict)
    #: Dotted name of each class -> attribute of its instances -> how code of the class sets it.
    attributes: dict[str, dict[str, list[AttributeBinding]]] = field(default_factory=dict)

    def package(self, level: int) -> str:
        """The package that ``level`` leading dots of an import mean; empty when above the top."""
        parts = self.module.dotted.split(".")
        drop = level - 1 if self.is_package else level
        return ".".join(parts[: len(parts) - drop]) if drop < len(parts) else ""

    def origin(self, node: ast.ImportFrom) -> str:
        """Full name of the module that an import takes names from; empty when above the top."""
        if not node.level:
            return node.module or ""
        package = self.package(node.level)
        return f"{package}.{node.module}" if package and node.module else package
