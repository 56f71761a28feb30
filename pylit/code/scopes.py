"""Scopes: which names a module's code binds, where, and what its syntax says of each.

Python's rules decide (reference, "Resolution of names"): a name belongs to the innermost function
that binds it anywhere; a class body sees its own names, but the functions inside it do not;
comprehensions are functions but for their first iterable; `global` and `nonlocal` move a binding
elsewhere.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pylit.model import SourceFile
from pylit.source.decode import cut
from pylit.source.parse import syntax_tree


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


#: How code binds a name. None says nothing: a loop, `with`, `except`, `del`, a bare parameter.
Binding = Imported | Defined | Assigned | Declared | Receiver | None
#: Line from 1, offset in the line from 0.
Position = tuple[int, int]

_HEADER = re.compile(r"(?:async\s+)?(?:def|class)\s+")

#: Names, each with all of its bindings.
Bindings = dict[str, list[Binding]]


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class body or function (or what works like one: a lambda, a comprehension)."""

    kind: Literal["module", "class", "function", "comprehension", "type parameters"]
    #: Full dotted name; that of the scope around it for a comprehension.
    dotted: str
    parent: "Scope | None" = None
    #: Dotted name of the class whose method this function is, for `super()`.
    owner: str = ""
    bindings: Bindings = field(default_factory=dict)
    #: Names that a `global` or `nonlocal` statement gives to an outer scope.
    module_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    #: Class only: its bases, of the scope around it, and how its code sets ``self.attr``.
    bases: list[ast.expr] = field(default_factory=list)
    attributes: Bindings = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        """Record that code of this scope binds `name`."""
        if name in self.module_names:
            *_, module = self.around()
            module.bindings.setdefault(name, []).append(binding)
        elif name in self.outer_names:
            # Which function owns it may not be known yet, so each of them loses what it knew.
            for scope in self.around():
                if scope is not self and scope.kind == "function":
                    scope.bindings.setdefault(name, []).append(None)
        else:
            self.bindings.setdefault(name, []).append(binding)

    def around(self) -> Iterator["Scope"]:
        """This scope and those around it, from the inside out; the last is the module."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> "Scope | None":
        """The scope whose binding a use of `name` here sees; None for built-in or star names."""
        inside = True
        scope: Scope | None = self
        while scope is not None:
            in_sight = scope.kind != "class" or inside
            if self.module_names and name in self.module_names:
                in_sight = scope.parent is None
            if in_sight and name in scope.bindings:
                return scope
            # ``def f[T](x: Size)`` in a class: behind its type parameters the class is in sight.
            inside = inside and scope.kind == "type parameters"
            scope = scope.parent
        return None

    def receiver(self, name: str) -> Receiver | None:
        """What `name` is here, if it is the first parameter of a method."""
        home = self.find(name)
        # A parameter is bound before anything else binds its name.
        first = home.bindings[name][0] if home else None
        return first if isinstance(first, Receiver) else None


#: A statement that defines a thing with a name.
Definer = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


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
    #: The modules of ``from m import *``, in order.
    stars: list[str] = field(default_factory=list)
    #: Dotted name of each class -> the scope of its body.
    classes: dict[str, Scope] = field(default_factory=dict)
    #: Dotted name of each function -> what a call of it is declared to return, per definition.
    returns: Bindings = field(default_factory=dict)

    def origin(self, node: ast.ImportFrom) -> str:
        """Full name of the module that an import takes names from; empty when above the top."""
        if not node.level:
            return node.module or ""
        parts = self.module.dotted.split(".")
        above = node.level - self.is_package
        package = ".".join(parts[: max(len(parts) - above, 0)])
        return f"{package}.{node.module}" if package and node.module else package


def place(node: ast.AST, lines: Sequence[str]) -> Position | None:
    """Where the name of something stands, if it does where the ast says."""
    name = name_of(node)
    assert isinstance(node, ast.expr | ast.arg | ast.alias | Definer)
    line, column = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute):
        # What is before it on its line may be any text.
        line, column = node.end_lineno or line, (node.end_col_offset or 0) - len(name.encode())
    column = len(cut(lines[line - 1], 0, column))
    if isinstance(node, Definer):
        header = _HEADER.match(lines[line - 1], column)
        column = header.end() if header else column
    # Python's own columns inside of an f-string are not always right.
    return (line, column) if lines[line - 1].startswith(name, column) else None


def name_of(node: ast.AST) -> str:
    """The name that a node writes; of an attribute its last one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(getattr(node, "arg", None) or getattr(node, "name", ""))


def read_scopes(source: SourceFile) -> Scopes | None:
    """The names of a module, or None when its source does not parse."""
    try:
        tree = syntax_tree(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    scopes = Scopes(Scope("module", source.name), source.is_package)
    walk = _Walk(scopes)
    # A stack instead of recursion: generated code nests deeper than Python's stack is high.
    walk.push(tree.body, scopes.module)
    while walk.pending:
        node, scope = walk.pending.pop()
        handler = _HANDLERS.get(type(node).__name__)
        if handler is None:
            walk.push(ast.iter_child_nodes(node), scope)
        else:
            handler(walk, node, scope)
    return scopes


class _Walk:
    """What is still to be visited, in source order, and one method per kind of node."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.pending: list[tuple[ast.AST, Scope]] = []

    def push(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        self.pending += [(node, scope) for node in [*nodes][::-1] if node is not None]

    def bind(self, target: ast.expr, scope: Scope, how: Binding) -> None:
        """Record what a name is set to, or an attribute of a method's first parameter."""
        if isinstance(target, ast.Name):
            scope.bind(target.id, how)
            self.scopes.stored.append((target, scope))
        elif isinstance(target, ast.Attribute):
            self.scopes.stored.append((target, scope))
            self.push([target.value], scope)
            name = target.value.id if isinstance(target.value, ast.Name) else ""
            receiver = scope.receiver(name)
            if receiver is not None:
                attributes = self.scopes.classes[receiver.dotted].attributes
                attributes.setdefault(target.attr, []).append(how)
        else:
            # Of the names in a tuple nothing is known.
            self.push([target], scope)

    def Constant(self, node: ast.AST, scope: Scope) -> None:
        """Nothing is in it to be visited; so it is with most nodes, which saves time."""

    Load = Store = Constant

    def Name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
        else:
            self.bind(node, scope, None)

    def Attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
            self.push([node.value], scope)
        else:
            self.bind(node, scope, None)

    def Call(self, node: ast.Call, scope: Scope) -> None:
        self.scopes.called.add(node.func)
        self.push(ast.iter_child_nodes(node), scope)

    def Import(self, node: ast.Import, scope: Scope) -> None:
        self.scopes.imports.append(node)
        for alias in node.names:
            top = alias.name.partition(".")[0]
            scope.bind(alias.asname or top, Imported(alias.name if alias.asname else top))

    def ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.scopes.imports.append(node)
        origin = self.scopes.origin(node)
        for alias in node.names:
            if alias.name == "*":
                self.scopes.stars.append(origin)
            else:
                known = Imported(f"{origin}.{alias.name}") if origin else None
                scope.bind(alias.asname or alias.name, known)

    def Assign(self, node: ast.Assign, scope: Scope) -> None:
        self.push([node.value], scope)
        for target in node.targets:
            self.bind(target, scope, Assigned(node.value, scope))

    def AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        self.push([node.annotation, node.value], scope)
        self.bind(node.target, scope, Declared(node.annotation, scope))

    def NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        self.push([node.value], scope)
        home = next(around for around in scope.around() if around.kind != "comprehension")
        self.bind(node.target, home, Assigned(node.value, scope))

    def Global(self, node: ast.Global, scope: Scope) -> None:
        scope.module_names.update(node.names)

    def Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(node.names)

    def ExceptHandler(self, node: ast.AST, scope: Scope) -> None:
        """What has the name that it binds as text."""
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name:
            scope.bind(name, None)
        self.push(ast.iter_child_nodes(node), scope)

    MatchAs = MatchStar = MatchMapping = ExceptHandler

    def TypeAlias(self, node: ast.AST, scope: Scope) -> None:
        """``type Name[T] = value``, where this Python knows it."""
        name, *_, value = ast.iter_child_nodes(node)
        self.push([name], scope)
        self.push([value], self._type_parameters(node, scope))

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of ``[T]`` after a name, or `scope` itself where there is none."""
        parameters: list[ast.AST] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        inner = Scope("type parameters", scope.dotted, scope)
        for parameter in parameters:
            inner.bind(str(getattr(parameter, "name", "")), None)
            self.push(ast.iter_child_nodes(parameter), inner)
        return inner

    def _define(self, node: Definer, scope: Scope) -> tuple[str, Scope]:
        """The full name of what a statement defines, and the scope that its header is in."""
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Defined(dotted, node.lineno))
        self.scopes.stored.append((node, scope))
        self.push(node.decorator_list, scope)
        return dotted, self._type_parameters(node, scope)

    def ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        dotted, outer = self._define(node, scope)
        body = Scope("class", dotted, outer, dotted, bases=node.bases)
        earlier = self.scopes.classes.get(dotted)
        if earlier is not None:
            # Defined twice: which of the two a name means is not known.
            body.bases, body.attributes = [ast.Constant(None)], earlier.attributes
        self.scopes.classes[dotted] = body
        self.push([*node.bases, *node.keywords], outer)
        self.push(node.body, body)

    def FunctionDef(self, node: FunctionNode, scope: Scope) -> None:
        dotted, outer = self._define(node, scope)
        body = Scope("function", dotted, outer, scope.dotted if scope.kind == "class" else "")
        plain = isinstance(node, ast.FunctionDef) and not {*_decorators(node)} - _HARMLESS
        returned = Declared(node.returns, outer) if node.returns and plain else None
        self.scopes.returns.setdefault(dotted, []).append(returned)
        self._parameters(node.args, body, outer, _receiver(node, scope))
        self.push([node.returns], outer)
        self.push(node.body, body)

    AsyncFunctionDef = FunctionDef

    def Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        body = Scope("function", f"{scope.dotted}.<lambda>", scope, scope.owner)
        self._parameters(node.args, body, scope, None)
        self.push([node.body], body)

    def _parameters(
        self, arguments: ast.arguments, body: Scope, outer: Scope, receiver: Receiver | None
    ) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        variadic = [each for each in (arguments.vararg, arguments.kwarg) if each]
        for argument in [*positional, *arguments.kwonlyargs, *variadic]:
            known: Binding = None
            if receiver is not None and argument in positional[:1]:
                known = receiver
            elif argument.annotation is not None and argument not in variadic:
                known = Declared(argument.annotation, outer)
            body.bind(argument.arg, known)
            self.scopes.stored.append((argument, body))
            self.push([argument.annotation], outer)
        self.push([*arguments.defaults, *arguments.kw_defaults], outer)

    def ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> None:
        inner = Scope("comprehension", scope.dotted, scope, scope.owner)
        first, *others = node.generators
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.push([first.target, *first.ifs, *others, *results], inner)
        self.push([first.iter], scope)

    SetComp = DictComp = GeneratorExp = ListComp


_HANDLERS: dict[str, Callable[..., None]] = {
    name: handler for name, handler in vars(_Walk).items() if name[0].isupper()
}

#: Decorators that leave alone what a call returns.
_HARMLESS = {"staticmethod", "classmethod", "abstractmethod", "override", "final"}
_HARMLESS |= {"cache", "no_grad", "inference_mode"}
_OF_CLASS = ("__new__", "__init_subclass__", "__class_getitem__")


def _decorators(node: FunctionNode) -> Iterator[str]:
    """The last name of each decorator."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _receiver(node: FunctionNode, scope: Scope) -> Receiver | None:
    """What the first parameter of a function is, when the function is a method."""
    names = {*_decorators(node)} if scope.kind == "class" else {"staticmethod"}
    if "staticmethod" in names:
        return None
    return Receiver(scope.dotted, "classmethod" not in names and node.name not in _OF_CLASS)
