"""Scopes: the names that a module's code binds, where, and the value that its syntax gives each.

Python's rules decide (reference, "Resolution of names"): a name belongs to the innermost function
that binds it anywhere; a class body sees its own names, but the functions inside it do not. A name
that a comprehension binds counts as bound, to an unknown value, in the scope around it. `global`
and `nonlocal` are ignored: what a function binds is local to it.
"""

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from pylit.model import SourceFile

#: Line from 1, offset in the line from 0.
Position = tuple[int, int]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
#: A statement that defines a class or a function.
Definer = ast.ClassDef | FunctionNode

#: Decorators that do not change what a call returns.
_TRANSPARENT = {"staticmethod", "classmethod", "abstractmethod", "override", "no_grad"}


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression."""

    #: Full name of the module, class, function or constant that it names.
    name: str = ""
    #: Full name of the class that it is an instance of.
    of: str = ""
    #: For ``super()``: attributes are those of the bases of `of` alone.
    above: bool = False
    #: Line of a definition inside a function, which other modules cannot name.
    line: int = 0


class Binding(NamedTuple):
    """How code binds a name: "unknown" is a loop, `with`, `del`, a parameter without type, …"""

    how: Literal["unknown", "import", "definition", "receiver", "value", "annotation"]
    #: What is imported or defined; of `self` and `cls` in a method, the instance or the class.
    value: Value | None = None
    #: The assigned expression or the annotation, and its scope.
    node: ast.expr = ast.Constant(None)
    scope: "Scope | None" = None


UNKNOWN = Binding("unknown")
#: Where syntax keeps statements: nine of ten nodes are expressions, which hold none.
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
#: Names, each with all of its bindings.
Bindings = dict[str, list[Binding]]


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class body or function; a lambda is one too."""

    kind: Literal["module", "class", "function"]
    #: Full dotted name.
    dotted: str
    parent: "Scope | None" = None
    #: Dotted name of the class whose method this function is, for `super()`.
    owner: str = ""
    #: Whether other modules can use the names of its definitions: it is in no function.
    public: bool = False
    bindings: Bindings = field(default_factory=lambda: defaultdict(list))
    #: Class only: its bases, of the scope around it, and how its code sets ``self.attr``.
    bases: list[ast.expr] = field(default_factory=list)
    attributes: Bindings = field(default_factory=lambda: defaultdict(list))

    def find(self, name: str) -> "Scope | None":
        """The scope whose binding a use of `name` here sees; None for built-in or star names."""
        scope: Scope | None = self
        while scope and (name not in scope.bindings or (scope.kind == "class" and scope != self)):
            scope = scope.parent
        return scope

    def receiver(self, name: str) -> str:
        """The class of which `name` is `self` or `cls`, the first parameter of a method."""
        home = self.find(name)
        # A parameter is bound before anything else binds its name.
        first = home.bindings[name][0] if home else UNKNOWN
        value = first.value if first.how == "receiver" else None
        return value.name or value.of if value else ""


class Scopes:
    """The names of a module: where its syntax tree binds and uses them."""

    def __init__(
        self, tree: ast.Module, source: SourceFile, fault: tuple[int, int, str] | None = None
    ) -> None:
        self.tree = tree
        #: Line, column and message of a syntax error; line 0 is the file as a whole.
        self.fault = fault
        self.module = Scope("module", source.name, public=True)
        self._package = source.name if source.is_package else source.name.rpartition(".")[0]
        #: Each node that reads or binds a name or an attribute, with its scope.
        self.names: list[tuple[ast.Name | ast.Attribute | ast.arg | Definer, Scope]] = []
        #: The statements at module level, in loops too, that first bind a constant.
        self.constants: dict[str, ast.stmt] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        #: The modules of ``from m import *``, in order.
        self.stars: list[str] = []
        #: Dotted name of each class -> the scope of its body.
        self.classes: dict[str, Scope] = {}
        #: Dotted name of each function -> its return types, one for each definition.
        self.returns: Bindings = defaultdict(list)
        # A stack instead of recursion: generated code can exceed Python's recursion limit.
        self._pending: list[tuple[ast.AST, Scope, Binding]] = [(tree, self.module, UNKNOWN)]
        while self._pending:
            node, scope, binding = self._pending.pop()
            getattr(self, f"_{type(node).__name__}", self._other)(node, scope, binding)

    def origin(self, node: ast.ImportFrom) -> str:
        """Full name of the module that names are imported from; empty when above the top."""
        return origin(node, self._package)

    def _push(self, nodes: Iterable[ast.AST], scope: Scope, binding: Binding = UNKNOWN) -> None:
        """Visit `nodes` next, in order; names that they bind themselves have this `binding`."""
        self._pending += [(node, scope, binding) for node in [*nodes][::-1]]

    # One method per type of node.

    def _other(self, node: ast.AST, scope: Scope, _: Binding) -> None:
        # An `except` clause or a pattern holds the name that it binds as a string.
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(name, str):
            scope.bindings[name].append(UNKNOWN)
        self._push(ast.iter_child_nodes(node), scope)

    def _Name(self, node: ast.Name, scope: Scope, binding: Binding) -> None:
        self.names.append((node, scope))
        if not isinstance(node.ctx, ast.Load):
            scope.bindings[node.id].append(binding)

    def _Attribute(self, node: ast.Attribute, scope: Scope, binding: Binding) -> None:
        self.names.append((node, scope))
        self._push([node.value], scope)
        stored = isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Load)
        if stored and (owner := scope.receiver(name_of(node.value))):
            self.classes[owner].attributes[node.attr].append(binding)

    def _Assign(self, node: ast.Assign | ast.AnnAssign, scope: Scope, _: Binding) -> None:
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
            binding = Binding("annotation", node=node.annotation, scope=scope)
        else:
            targets = node.targets
            binding = Binding("value", node=node.value, scope=scope)
        for target in targets if scope is self.module else ():
            for each in getattr(target, "elts", [target]):
                if isinstance(each, ast.Name):
                    self.constants.setdefault(each.id, node)
        self._push(ast.iter_child_nodes(node), scope, binding)

    _AnnAssign = _Assign

    def _Import(self, node: ast.Import, scope: Scope, _: Binding) -> None:
        self.imports.append(node)
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            scope.bindings[alias.asname or name].append(Binding("import", Value(name)))

    def _ImportFrom(self, node: ast.ImportFrom, scope: Scope, _: Binding) -> None:
        self.imports.append(node)
        home = self.origin(node)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(home)
            else:
                known = Binding("import", Value(f"{home}.{alias.name}")) if home else UNKNOWN
                scope.bindings[alias.asname or alias.name].append(known)

    def _ClassDef(self, node: ast.ClassDef, scope: Scope, _: Binding) -> None:
        dotted = self._define(node, scope)
        inner = self._generic(node, scope)
        body = Scope("class", dotted, inner, dotted, public=scope.public, bases=node.bases)
        self.classes[dotted] = body
        self._push(node.body, body)
        self._push([*node.bases, *node.keywords], inner)
        self._push(node.decorator_list, scope)

    def _FunctionDef(self, node: FunctionNode, scope: Scope, _: Binding) -> None:
        dotted = self._define(node, scope)
        decorated = decorators(node)
        returned = receiver = UNKNOWN
        inner = self._generic(node, scope)
        if node.returns and isinstance(node, ast.FunctionDef) and decorated <= _TRANSPARENT:
            returned = Binding("annotation", node=node.returns, scope=inner)
        self.returns[dotted].append(returned)
        if scope.kind == "class" and "staticmethod" not in decorated:
            of_class = "classmethod" in decorated or node.name == "__new__"
            value = Value(scope.dotted) if of_class else Value(of=scope.dotted)
            receiver = Binding("receiver", value)
        body = Scope("function", dotted, inner, scope.owner)
        self._parameters(node.args, body, receiver)
        self._push(node.body, body)
        self._push([*filter(None, [node.returns]), node.args], inner)
        self._push(node.decorator_list, scope)

    _AsyncFunctionDef = _FunctionDef

    def _TypeAlias(self, node: ast.AST, scope: Scope, _: Binding) -> None:
        # A statement of Python 3.12, ``type Pair[T] = tuple[T, T]``.
        name: ast.Name = getattr(node, "name")  # noqa: B009
        if scope is self.module and isinstance(node, ast.stmt):
            self.constants.setdefault(name.id, node)
        self._push([getattr(node, "value")], self._generic(node, scope))  # noqa: B009
        self._push([name], scope)

    def _generic(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of the type parameters of a definition, which hide outer names."""
        found = getattr(node, "type_params", ())
        inner = Scope("function", scope.dotted, scope, scope.owner) if found else scope
        for parameter in found:
            # They are objects with a name, and maybe a bound and a default.
            self._other(parameter, inner, UNKNOWN)
        return inner

    def _Lambda(self, node: ast.Lambda, scope: Scope, _: Binding) -> None:
        body = Scope("function", f"{scope.dotted}.<lambda>", scope, scope.owner)
        self._parameters(node.args, body)
        self._push([node.body], body)
        self._push([node.args], scope)

    def _define(self, node: Definer, scope: Scope) -> str:
        dotted = f"{scope.dotted}.{node.name}"
        value = Value(dotted, line=0 if scope.public else node.lineno)
        scope.bindings[node.name].append(Binding("definition", value))
        self.names.append((node, scope))
        return dotted

    def _parameters(self, args: ast.arguments, body: Scope, receiver: Binding = UNKNOWN) -> None:
        positional, several = [*args.posonlyargs, *args.args], [args.vararg, args.kwarg]
        for each in filter(None, [*positional, *args.kwonlyargs, *several]):
            binding = UNKNOWN
            if each in positional[:1] and receiver is not UNKNOWN:
                binding = receiver
            elif each.annotation and each not in several:
                binding = Binding("annotation", node=each.annotation, scope=body.parent)
            body.bindings[each.arg].append(binding)
            self.names.append((each, body))


@lru_cache(maxsize=1)
def read_scopes(source: SourceFile) -> Scopes:
    """The names of a module; there are none if it has a syntax error.

    The last result is cached for `parse` and `names`, which need it one after the other.
    """
    try:
        with warnings.catch_warnings():
            # A warning such as that of `"\d"` in a string is no fault of the site.
            warnings.simplefilter("ignore")
            return Scopes(ast.parse(source.text), source)
    except SyntaxError as error:
        fault = error.lineno or 0, max(error.offset or 1, 1), error.msg
    except ValueError as error:
        fault = 0, 0, str(error)
    except (RecursionError, MemoryError):
        fault = 0, 0, "expressions nested too deeply for Python's parser"
    return Scopes(ast.Module([], []), source, fault)


def origin(node: ast.ImportFrom, package: str) -> str:
    """The module that a module of a package imports names from, as `Scopes.origin`."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = ".".join(parts[: max(len(parts) - node.level + 1, 0)])
    return f"{above}.{node.module}" if above and node.module else above


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definer]]:
    """The classes and functions in a syntax tree, with their qualified names."""
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, Definer):
            yield (name := prefix + child.name), child
            inside = f"{name}." if isinstance(child, ast.ClassDef) else f"{name}.<locals>."
        yield from definitions(child, inside)


def name_of(node: ast.AST) -> str:
    """The name in a node; the last one of an attribute."""
    names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
    return next(filter(None, names), "")


def decorators(node: Definer) -> set[str]:
    """The last name of each decorator."""
    return {name_of(getattr(each, "func", each)) for each in node.decorator_list}


def place(node: ast.AST, lines: Sequence[str]) -> Position | None:
    """The position of the name in a node; None if it differs from that of the syntax tree."""
    name = name_of(node)
    assert isinstance(node, ast.expr | ast.arg | ast.alias | Definer)
    line, column = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute):
        line, column = node.end_lineno or line, (node.end_col_offset or 0) - len(name.encode())
    text = lines[line - 1]
    column = len(cut(text, 0, column))
    if isinstance(node, Definer) and (word := re.compile(rf"\b{name}\b").search(text, column)):
        column = word.start()
    # Python's own columns inside f-strings are not always right.
    return (line, column) if text.startswith(name, column) else None


def cut(line: str, start: int, stop: int | None) -> str:
    """A slice of a line by the columns of the syntax tree, which count bytes of UTF-8."""
    return line.encode()[start:stop].decode(errors="ignore")


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement of a module, at any depth. The order is none to rely on."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in _BODIES:
            pending += getattr(node, name, ())
