"""Scopes: which names a module's code binds, where, and what its syntax says of each.

Python's rules decide (reference, "Resolution of names"): a name belongs to the innermost function
that binds it anywhere; a class body sees its own names, but the functions inside it do not. What a
comprehension binds counts as bound around it: nothing is then known of that name there. `global`
and `nonlocal` are not followed: what a function binds is its own.
"""

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from pylit.model import SourceFile

#: Line from 1, offset in the line from 0.
Position = tuple[int, int]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
#: A statement that defines a class or a function.
Definer = ast.ClassDef | FunctionNode

_HEADER = re.compile(r"(?:async\s+)?(?:def|class)\s+")
#: Decorators that leave alone what a call returns.
_HARMLESS = {"staticmethod", "classmethod", "abstractmethod", "override", "no_grad"}


class Binding(NamedTuple):
    """How code binds a name: nothing is known of a loop, `with`, `del`, a bare parameter, …"""

    how: Literal["unknown", "import", "definition", "value", "annotation", "self", "cls"]
    #: Full name of what is imported or defined, or of the class whose method has `self` or `cls`.
    dotted: str = ""
    #: The value or annotation, and the scope that it stands in.
    node: ast.expr = ast.Constant(None)
    scope: "Scope | None" = None
    #: Of a definition.
    line: int = 0


UNKNOWN = Binding("unknown")
#: Names, each with all of its bindings.
Bindings = dict[str, list[Binding]]
#: Line, column and what Python says; line 0 is the file as a whole.
Fault = tuple[int, int, str]


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class body or function; a lambda is one too."""

    kind: Literal["module", "class", "function"]
    #: Full dotted name.
    dotted: str
    parent: "Scope | None" = None
    #: Dotted name of the class whose method this function is, for `super()`.
    owner: str = ""
    #: Whether what it defines has a name outside: in no function.
    public: bool = False
    bindings: Bindings = field(default_factory=dict)
    #: Class only: its bases, of the scope around it, and how its code sets ``self.attr``.
    bases: list[ast.expr] = field(default_factory=list)
    attributes: Bindings = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        """Record that code of this scope binds `name`."""
        self.bindings.setdefault(name, []).append(binding)

    def find(self, name: str) -> "Scope | None":
        """The scope whose binding a use of `name` here sees; None for built-in or star names."""
        scope: Scope | None = self
        while scope and (name not in scope.bindings or (scope.kind == "class" and scope != self)):
            scope = scope.parent
        return scope

    def receiver(self, name: str) -> Binding | None:
        """What `name` is here, if it is the first parameter of a method."""
        home = self.find(name)
        # A parameter is bound before anything else binds its name.
        first = home.bindings[name][0] if home else UNKNOWN
        return first if first.how in ("self", "cls") else None


class Scopes:
    """The names of a module: where its syntax tree binds and uses them."""

    def __init__(self, tree: ast.Module, source: SourceFile, fault: Fault | None = None) -> None:
        self.tree = tree
        #: Where and why Python cannot parse the module; then it has no names.
        self.fault = fault
        self.module = Scope("module", source.name, public=True)
        self._package = source.name if source.is_package else source.name.rpartition(".")[0]
        #: What reads or binds a name or an attribute, each with the scope it stands in.
        self.names: list[tuple[ast.Name | ast.Attribute | ast.arg | Definer, Scope]] = []
        #: The statements at module level, in loops too, that first bind a constant.
        self.constants: dict[str, ast.stmt] = {}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        #: The modules of ``from m import *``, in order.
        self.stars: list[str] = []
        #: Dotted name of each class -> the scope of its body.
        self.classes: dict[str, Scope] = {}
        #: Dotted name of each function -> what a call of it is declared to return, per definition.
        self.returns: Bindings = {}
        # A stack instead of recursion: generated code nests deeper than Python's stack is high.
        self._pending: list[tuple[ast.AST, Scope, Binding]] = [(tree, self.module, UNKNOWN)]
        while self._pending:
            node, scope, how = self._pending.pop()
            getattr(self, f"_{type(node).__name__}", self._other)(node, scope, how)

    def origin(self, node: ast.ImportFrom) -> str:
        """Full name of the module that an import takes names from; empty when above the top."""
        if not node.level:
            return node.module or ""
        parts = self._package.split(".")
        package = ".".join(parts[: max(len(parts) - node.level + 1, 0)])
        return f"{package}.{node.module}" if package and node.module else package

    def _push(self, nodes: Iterable[ast.AST | None], scope: Scope, how: Binding = UNKNOWN) -> None:
        # The last node is visited first; `how` tells how names in these nodes are bound.
        self._pending += [(node, scope, how) for node in [*nodes][::-1] if node is not None]

    # One method per type of node.

    def _other(self, node: ast.AST, scope: Scope, how: Binding) -> None:
        # What an `except` clause or a pattern binds is not a node, but text.
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping):
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if name:
                scope.bind(name, UNKNOWN)
        self._push(ast.iter_child_nodes(node), scope)

    def _Name(self, node: ast.Name, scope: Scope, how: Binding) -> None:
        self.names.append((node, scope))
        if not isinstance(node.ctx, ast.Load):
            scope.bind(node.id, how)

    def _Attribute(self, node: ast.Attribute, scope: Scope, how: Binding) -> None:
        self.names.append((node, scope))
        self._push([node.value], scope)
        if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            receiver = scope.receiver(node.value.id)
            if receiver:
                attributes = self.classes[receiver.dotted].attributes
                attributes.setdefault(node.attr, []).append(how)

    def _Assign(self, node: ast.Assign | ast.AnnAssign, scope: Scope, how: Binding) -> None:
        known = node.annotation if isinstance(node, ast.AnnAssign) else node.value
        how = Binding("value" if known is node.value else "annotation", node=known, scope=scope)
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
        for target in targets if scope is self.module else ():
            for each in getattr(target, "elts", [target]):
                if isinstance(each, ast.Name):
                    self.constants.setdefault(each.id, node)
        self._push([getattr(node, "annotation", None), node.value], scope)
        self._push(targets, scope, how)

    _AnnAssign = _Assign

    def _Import(self, node: ast.Import, scope: Scope, how: Binding) -> None:
        self.imports.append(node)
        for alias in node.names:
            top = alias.name.partition(".")[0]
            scope.bind(alias.asname or top, Binding("import", alias.name if alias.asname else top))

    def _ImportFrom(self, node: ast.ImportFrom, scope: Scope, how: Binding) -> None:
        self.imports.append(node)
        origin = self.origin(node)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(origin)
            else:
                known = Binding("import", f"{origin}.{alias.name}") if origin else UNKNOWN
                scope.bind(alias.asname or alias.name, known)

    def _define(self, node: Definer, scope: Scope) -> str:
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Binding("definition", dotted, line=node.lineno))
        self.names.append((node, scope))
        return dotted

    def _ClassDef(self, node: ast.ClassDef, scope: Scope, how: Binding) -> None:
        dotted = self._define(node, scope)
        body = Scope("class", dotted, scope, dotted, public=scope.public, bases=node.bases)
        self.classes[dotted] = body
        self._push(node.body, body)
        self._push([*node.decorator_list, *node.bases, *node.keywords], scope)

    def _FunctionDef(self, node: FunctionNode, scope: Scope, how: Binding) -> None:
        dotted = self._define(node, scope)
        decorated = decorators(node)
        returned = first = UNKNOWN
        if node.returns and isinstance(node, ast.FunctionDef) and decorated <= _HARMLESS:
            returned = Binding("annotation", node=node.returns, scope=scope)
        self.returns.setdefault(dotted, []).append(returned)
        if scope.kind == "class" and "staticmethod" not in decorated:
            of_class = "classmethod" in decorated or node.name == "__new__"
            first = Binding("cls" if of_class else "self", scope.dotted)
        self._Lambda(node, scope, first)
        self._push([*node.decorator_list, node.returns], scope)

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda | FunctionNode, scope: Scope, how: Binding) -> None:
        """The parameters and the body of a function; `how` its first parameter is bound."""
        name = getattr(node, "name", "<lambda>")
        body = Scope("function", f"{scope.dotted}.{name}", scope, scope.owner)
        known = node.args
        annotated = [*known.posonlyargs, *known.args, *known.kwonlyargs]
        if not (known.posonlyargs or known.args):
            how = UNKNOWN
        for each in [*annotated, known.vararg, known.kwarg]:
            if each:
                if how is UNKNOWN and each.annotation and each in annotated:
                    how = Binding("annotation", node=each.annotation, scope=scope)
                body.bind(each.arg, how)
                self.names.append((each, body))
            how = UNKNOWN
        self._push([node.body] if isinstance(node, ast.Lambda) else node.body, body)
        self._push([known], scope)


@lru_cache(maxsize=1)
def read_scopes(source: SourceFile) -> Scopes:
    """The names of a module; there are none where it does not parse.

    The last result is cached: `parse` and `names` need it one after the other.
    """
    try:
        with warnings.catch_warnings():
            # Python warns of `"\d"` in a string, which is no fault of the site.
            warnings.simplefilter("ignore")
            return Scopes(ast.parse(source.text), source)
    except SyntaxError as error:
        fault = error.lineno or 0, max(error.offset or 1, 1), error.msg
    except ValueError as error:
        fault = 0, 0, str(error)
    except (RecursionError, MemoryError):
        fault = 0, 0, "expressions nested too deeply for Python's parser"
    return Scopes(ast.Module([], []), source, fault)


def name_of(node: ast.AST) -> str:
    """The name that a node writes; of an attribute its last one."""
    names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
    return next(filter(None, names), "")


def decorators(node: Definer) -> set[str]:
    """The last name of each decorator."""
    return {name_of(getattr(each, "func", each)) for each in node.decorator_list}


def place(node: ast.AST, lines: Sequence[str]) -> Position | None:
    """Where the name of something stands, if it does where the ast says."""
    name = name_of(node)
    assert isinstance(node, ast.expr | ast.arg | ast.alias | Definer)
    line, column = node.lineno, node.col_offset
    if isinstance(node, ast.Attribute):
        # What is before it on its line may be any text.
        line, column = node.end_lineno or line, (node.end_col_offset or 0) - len(name.encode())
    column = len(cut(lines[line - 1], 0, column))
    header = _HEADER.match(lines[line - 1], column) if isinstance(node, Definer) else None
    column = header.end() if header else column
    # Python's own columns inside of an f-string are not always right.
    return (line, column) if lines[line - 1].startswith(name, column) else None


def cut(line: str, start: int, stop: int | None) -> str:
    """A stretch of a line by the columns of the ast, which count bytes of UTF-8."""
    if line.isascii():
        return line[start:stop]
    return line.encode()[start:stop].decode(errors="ignore")
