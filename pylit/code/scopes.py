"""Scopes: which names a module's code binds, where, and what its syntax says of each.

Python's rules decide (reference, "Resolution of names"): a name belongs to the innermost function
that binds it anywhere; a class body sees its own names, but the functions inside it do not;
comprehensions are functions but for their first iterable; `global` and `nonlocal` move a binding
elsewhere.

`targets` says what other modules may learn of one: bases, attributes, re-exported names. They are
names, not yet followed: ``attn -> pkg.mha.MultiHeadAttention`` may turn out to be a re-export, or a
function. Nothing here looks at another module.
"""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pylit.model import Definition, Module, Target
from pylit.source.cpp import includes, is_cpp


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


def read_scopes(tree: ast.Module, name: str, *, is_package: bool) -> Scopes:
    """Walk the syntax tree of module `name` once."""
    scopes = Scopes(Scope("module", name), is_package)
    walk = _Walk(scopes)
    # A stack instead of recursion: generated code nests deeper than Python's stack is high.
    walk.push(tree.body, scopes.module)
    while walk.pending:
        node, scope = walk.pending.pop()
        handler = _HANDLERS.get(type(node))
        if handler is None:
            walk.push(list(ast.iter_child_nodes(node)), scope)
        else:
            handler(walk, node, scope)
    return scopes


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Walk:
    """What is still to be visited, in source order, and one method per kind of node."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.pending: list[tuple[ast.AST, Scope]] = []

    def push(self, nodes: Sequence[ast.AST], scope: Scope) -> None:
        self.pending.extend((node, scope) for node in reversed(nodes))

    def name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
        else:
            scope.bind(node.id, OPAQUE)
            self.scopes.stored.append((node, scope))

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
        else:
            self._set_attribute(node, scope, OPAQUE)
        self.push([node.value], scope)

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.scopes.called.add(node.func)
        self.push([node.func, *node.args, *(k.value for k in node.keywords)], scope)

    def _set_attribute(self, node: ast.Attribute, scope: Scope, how: AttributeBinding) -> None:
        """Record ``self.attr = …`` for the class whose receiver `self` is."""
        self.scopes.stored.append((node, scope))
        if not isinstance(node.value, ast.Name):
            return
        home = scope.find(node.value.id)
        for binding in home.bindings[node.value.id] if home else ():
            if isinstance(binding, Receiver):
                table = self.scopes.attributes.setdefault(binding.dotted, {})
                table.setdefault(node.attr, []).append(how)

    def import_(self, node: ast.Import, scope: Scope) -> None:
        self.scopes.imports.append(node)
        for alias in node.names:
            if alias.asname:
                scope.bind(alias.asname, Imported(alias.name))
            else:
                top = alias.name.partition(".")[0]
                scope.bind(top, Imported(top))

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.scopes.imports.append(node)
        origin = self.scopes.origin(node)
        for alias in node.names:
            if alias.name == "*":
                scope.module.stars.append(origin)
            else:
                known = Imported(f"{origin}.{alias.name}") if origin else OPAQUE
                scope.bind(alias.asname or alias.name, known)

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.bind(target.id, Assigned(node.value, scope))
                self.scopes.stored.append((target, scope))
            elif isinstance(target, ast.Attribute):
                self._set_attribute(target, scope, Assigned(node.value, scope))
        rest = [t for t in node.targets if not isinstance(t, ast.Name | ast.Attribute)]
        owners = [t.value for t in node.targets if isinstance(t, ast.Attribute)]
        self.push([*owners, *rest, node.value], scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        declared = Declared(node.annotation, scope)
        if isinstance(node.target, ast.Name):
            scope.bind(node.target.id, declared)
            self.scopes.stored.append((node.target, scope))
        elif isinstance(node.target, ast.Attribute):
            self._set_attribute(node.target, scope, declared)
            self.push([node.target.value], scope)
        else:
            self.push([node.target], scope)
        self.push([node.annotation, *([node.value] if node.value else [])], scope)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self.push([node.target, node.value], scope)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        home = scope
        while home.dotted.endswith(".<comprehension>") and home.parent is not None:
            home = home.parent
        home.bind(node.target.id, Assigned(node.value, scope))
        self.scopes.stored.append((node.target, home))
        self.push([node.value], scope)

    def global_(self, node: ast.Global, scope: Scope) -> None:
        scope.module_names.update(node.names)

    def nonlocal_(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(node.names)

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def mapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            scope.bind(node.rest, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def alias(self, node: ast.AST, scope: Scope) -> None:
        """``type Name[T] = value``, where this Python knows it."""
        name = getattr(node, "name", None)
        if isinstance(name, ast.Name):
            scope.bind(name.id, OPAQUE)
        inner = self._type_parameters(node, scope)
        self.push([node.value] if hasattr(node, "value") else [], inner)

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of ``[T]`` after a name, or `scope` itself where there is none."""
        parameters: list[ast.AST] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        inner = Scope("type parameters", scope.dotted, scope)
        for parameter in parameters:
            inner.bind(str(getattr(parameter, "name", "")), OPAQUE)
            self.push(list(ast.iter_child_nodes(parameter)), inner)
        return inner

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Defined(dotted, node.lineno))
        self.scopes.stored.append((node, scope))
        outer = self._type_parameters(node, scope)
        body = Scope("class", dotted, outer, dotted)
        if dotted in self.scopes.classes:
            # Defined twice: which of the two a name means is not known.
            self.scopes.classes[dotted] = ([ast.Constant(None)], outer)
        else:
            self.scopes.classes[dotted] = (node.bases, outer)
        self.scopes.bodies[dotted] = body
        self.push(node.body, body)
        self.push([*node.bases, *(k.value for k in node.keywords)], outer)
        self.push(node.decorator_list, scope)

    def function(self, node: FunctionNode, scope: Scope) -> None:
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Defined(dotted, node.lineno))
        self.scopes.stored.append((node, scope))
        outer = self._type_parameters(node, scope)
        owner = scope.dotted if scope.kind == "class" else ""
        body = Scope("function", dotted, outer, owner)
        self._parameters(node.args, body, outer, _receiver(node, scope))
        plain = isinstance(node, ast.FunctionDef) and not set(_decorators(node)) - _HARMLESS
        returned = Declared(node.returns, outer) if node.returns and plain else OPAQUE
        self.scopes.returns.setdefault(dotted, []).append(returned)
        self.push(node.body, body)
        self.push([node.returns] if node.returns else [], outer)
        self.push(node.decorator_list, scope)

    def lambda_(self, node: ast.Lambda, scope: Scope) -> None:
        body = Scope("function", f"{scope.dotted}.<lambda>", scope, scope.owner)
        self._parameters(node.args, body, scope, None)
        self.push([node.body], body)

    def _parameters(
        self, arguments: ast.arguments, body: Scope, outer: Scope, receiver: Receiver | None
    ) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        for index, argument in enumerate([*positional, *arguments.kwonlyargs]):
            known: Binding = OPAQUE
            if index == 0 and receiver is not None and positional:
                known = receiver
            elif argument.annotation is not None:
                known = Declared(argument.annotation, outer)
            body.bind(argument.arg, known)
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                body.bind(variadic.arg, OPAQUE)
        self.push([n for n in ast.iter_child_nodes(arguments) if isinstance(n, ast.expr)], outer)
        every = [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.scopes.stored += [(argument, body) for argument in every if argument]
        self.push([a.annotation for a in every if a and a.annotation], outer)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> None:
        inner = Scope("function", f"{scope.dotted}.<comprehension>", scope, scope.owner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.push(results, inner)
        for index, clause in reversed(list(enumerate(node.generators))):
            self.push([clause.target, *clause.ifs], inner)
            self.push([clause.iter], scope if index == 0 else inner)


#: Decorators that leave alone what a call returns.
_HARMLESS = frozenset(
    [
        "staticmethod",
        "classmethod",
        "abstractmethod",
        "override",
        "final",
        "cache",
        "no_grad",
        "inference_mode",
    ]
)


def _decorators(node: FunctionNode) -> Iterator[str]:
    """The last name of each decorator."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _receiver(node: FunctionNode, scope: Scope) -> Receiver | None:
    """What the first parameter of a function is, when the function is a method."""
    if scope.kind != "class":
        return None
    names = set(_decorators(node))
    if "staticmethod" in names:
        return None
    of_class = "classmethod" in names or node.name in (
        "__new__",
        "__init_subclass__",
        "__class_getitem__",
    )
    return Receiver(scope.dotted, instance=not of_class)


_HANDLERS: dict[type[ast.AST], Callable[..., None]] = {
    ast.Name: _Walk.name,
    ast.Attribute: _Walk.attribute,
    ast.Call: _Walk.call,
    ast.Import: _Walk.import_,
    ast.ImportFrom: _Walk.import_from,
    ast.Assign: _Walk.assign,
    ast.AnnAssign: _Walk.annotated,
    ast.AugAssign: _Walk.augmented,
    ast.NamedExpr: _Walk.walrus,
    ast.Global: _Walk.global_,
    ast.Nonlocal: _Walk.nonlocal_,
    ast.ExceptHandler: _Walk.handler,
    ast.MatchAs: _Walk.capture,
    ast.MatchStar: _Walk.capture,
    ast.MatchMapping: _Walk.mapping,
    ast.ClassDef: _Walk.class_,
    ast.FunctionDef: _Walk.function,
    ast.AsyncFunctionDef: _Walk.function,
    ast.Lambda: _Walk.lambda_,
    ast.ListComp: _Walk.comprehension,
    ast.SetComp: _Walk.comprehension,
    ast.DictComp: _Walk.comprehension,
    ast.GeneratorExp: _Walk.comprehension,
}
if hasattr(ast, "TypeAlias"):
    _HANDLERS[ast.TypeAlias] = _Walk.alias


#: Attribute of a module's `Target` that holds the modules of its ``from m import *``, and the one
#: that holds the names in its ``__all__``; both separated by spaces.
STARS = "*"
PUBLIC = "__all__"

#: How many aliases are followed before they are taken for a circle.
DEPTH = 20

BUILTINS = frozenset(n for n in vars(builtins) if not n.startswith("_"))

#: Subscripted forms of which an instance is an instance of their first argument.
_TRANSPARENT = frozenset(
    f"{module}.{name}"
    for module in ("typing", "typing_extensions")
    for name in ("Optional", "Annotated", "Final", "ClassVar")
)
_LITERALS: dict[type[ast.AST], str] = {
    ast.List: "builtins.list",
    ast.ListComp: "builtins.list",
    ast.Dict: "builtins.dict",
    ast.DictComp: "builtins.dict",
    ast.Set: "builtins.set",
    ast.SetComp: "builtins.set",
    ast.Tuple: "builtins.tuple",
    ast.JoinedStr: "builtins.str",
}


def read_module(module: Module) -> Scopes | None:
    """The names of a module, or None when its source does not parse."""
    source = module.source
    try:
        # Python ends lines at a lone carriage return, our sources only at a line feed.
        tree = ast.parse(source.text.replace("\r", " "))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return read_scopes(tree, source.name, is_package=source.is_package)


def targets(module: Module, url: str) -> dict[str, Target]:
    """The definitions of a module by dotted name, with their addresses on the page at `url`."""
    scopes = read_module(module) if not is_cpp(module.source.name) else None
    anchored = {section.definition for section in module.sections}
    found: dict[str, Target] = {}
    for definition in module.definitions:
        place = _address(definition, url, anchored)
        bases: tuple[str, ...] = ()
        attributes: Mapping[str, str] = {}
        if scopes is not None:
            bases, attributes = _facts(definition, scopes, module)
        elif is_cpp(module.source.name) and definition.kind == "module":
            # An included file is like one of which everything is imported.
            attributes = {
                STARS: " ".join(name for names in includes(module.source) for name in names)
            }
        # The first of several definitions of a name owns its anchor.
        found.setdefault(definition.dotted, Target(definition, place, bases, attributes))
    return found


def _address(definition: Definition, url: str, anchored: set[str]) -> str:
    if not definition.qualname:
        return url
    anchor = definition.qualname if definition.qualname in anchored else f"L{definition.line}"
    return f"{url}#{anchor}"


def _facts(
    definition: Definition, scopes: Scopes, module: Module
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    if definition.kind == "module":
        return (), _module_names(scopes, module)
    if definition.kind == "class" and definition.dotted in scopes.classes:
        bases, scope = scopes.classes[definition.dotted]
        names = tuple(static_name(base, scope) for base in bases)
        return names, _class_attributes(definition.dotted, scopes)
    if definition.kind in ("function", "method"):
        returned = _held_class(list(scopes.returns.get(definition.dotted, [])))
        return ((returned,) if returned else ()), {}
    if definition.kind == "constant":
        scope = scopes.bodies.get(definition.dotted.rpartition(".")[0], scopes.module)
        held = _held_class(scope.bindings.get(definition.dotted.rpartition(".")[2], []))
        return ((held,) if held else ()), {}
    return (), {}


def _module_names(scopes: Scopes, module: Module) -> dict[str, str]:
    """Names that a module has from elsewhere; those of which nothing is known lead to ``""``."""
    defined = {d.qualname for d in module.definitions}
    names: dict[str, str] = {}
    for name, bindings in scopes.module.bindings.items():
        if name == PUBLIC:
            public = _literal_names(bindings)
            if public is not None:
                names[PUBLIC] = " ".join(public)
        elif name not in defined:
            known = {static_binding(binding) for binding in bindings}
            names[name] = known.pop() if len(known) == 1 else ""
    if scopes.module.stars:
        names[STARS] = " ".join(scopes.module.stars)
    return names


def _literal_names(bindings: list[Binding]) -> list[str] | None:
    """The names in ``__all__ = [...]``, or None when it is not one plain list of strings."""
    if len(bindings) != 1 or not isinstance(bindings[0], Assigned):
        return None
    try:
        value = ast.literal_eval(bindings[0].value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return list(value)
    return None


def _class_attributes(dotted: str, scopes: Scopes) -> dict[str, str]:
    """Attribute -> class it holds; ``""`` for one that is set but holds something unknown."""
    known: dict[str, list[Binding]] = {}
    for name, bindings in scopes.bodies[dotted].bindings.items():
        values = [b for b in bindings if not isinstance(b, Defined | Imported)]
        if values:
            known[name] = list(values)
    for name, settings in scopes.attributes.get(dotted, {}).items():
        known.setdefault(name, []).extend(settings)
    return {name: _held_class(bindings) for name, bindings in known.items()}


def _held_class(bindings: list[Binding]) -> str:
    """The one class that all bindings agree on; a declared type outweighs what is assigned."""
    declared: list[Binding] = [b for b in bindings if isinstance(b, Declared)]
    decisive = declared or [b for b in bindings if not _is_none(b)]
    classes = {_class_of_binding(binding, DEPTH) for binding in decisive}
    return classes.pop() if len(classes) == 1 else ""


def _is_none(binding: Binding) -> bool:
    """``self.memory = None`` in a constructor says "not yet", not "nothing else ever"."""
    return (
        isinstance(binding, Assigned)
        and isinstance(binding.value, ast.Constant)
        and binding.value.value is None
    )


def _class_of_binding(binding: Binding, depth: int) -> str:
    if isinstance(binding, Declared):
        return annotation_class(binding.annotation, binding.scope)
    if isinstance(binding, Assigned):
        return static_class(binding.value, binding.scope, depth)
    return ""


def literal_class(node: ast.expr) -> str:
    """Dotted name of the class of a literal or display; else empty."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "builtins.str"
    return _LITERALS.get(type(node), "")


def static_class(value: ast.expr, scope: Scope, depth: int = DEPTH) -> str:
    """Dotted name of what a value was called from, if it is a call: its class, most likely."""
    if isinstance(value, ast.Call):
        return static_name(value.func, scope)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return "builtins.str"
    if isinstance(value, ast.Name) and depth:
        home = scope.find(value.id)
        bindings = home.bindings[value.id] if home else []
        return _class_of_binding(bindings[0], depth - 1) if len(bindings) == 1 else ""
    return _LITERALS.get(type(value), "")


def static_name(node: ast.expr, scope: Scope, depth: int = DEPTH) -> str:
    """Dotted name of what an expression names, not followed into other modules; else empty."""
    if isinstance(node, ast.Subscript):
        node = node.value
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    owner = _root_name(node, scope, depth)
    return ".".join([owner, *reversed(attributes)]) if owner else ""


def _root_name(node: ast.expr, scope: Scope, depth: int) -> str:
    if not isinstance(node, ast.Name):
        return ""
    home = scope.find(node.id)
    if home is None:
        if scope.module.stars:
            return "" if node.id in BUILTINS else f"{scope.module.dotted}.{node.id}"
        return f"builtins.{node.id}" if node.id in BUILTINS else ""
    known = {static_binding(binding, depth) for binding in home.bindings[node.id]}
    return known.pop() if len(known) == 1 else ""


def static_binding(binding: Binding, depth: int = DEPTH) -> str:
    """Dotted name of what a binding binds a name to: an import, a definition, or an alias."""
    match binding:
        case Imported() | Defined():
            return binding.dotted
        case Assigned(value=ast.Name() | ast.Attribute()) if depth:
            return static_name(binding.value, binding.scope, depth - 1)
    return ""


def annotation_class(node: ast.expr, scope: Scope) -> str:
    """Dotted name of the class that an annotation promises an instance of; else empty."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [s for s in (node.left, node.right) if not _is_none_constant(s)]
        return annotation_class(sides[0], scope) if len(sides) == 1 else ""
    if isinstance(node, ast.Subscript):
        outer = static_name(node.value, scope)
        if outer in _TRANSPARENT or outer.startswith("jaxtyping."):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return annotation_class(parts[0], scope) if parts else ""
        return "" if outer in ("typing.Type", "builtins.type", "typing.Union") else outer
    return static_name(node, scope)


def _is_none_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
