"""What a module's syntax says: which names a line binds and mentions, which shapes are declared.

Used in the child process, and by the checks: plain `ast`, nothing of the module runs. Shapes are
declared in signatures as jaxtyping does: ``Float[Tensor, "T B C"]``.
"""

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

#: A name, or a chain of attributes that begins with one: ``("self", "attn")``.
Path = tuple[str, ...]

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Statement:
    """A simple statement, or the header of a compound one."""

    first: int
    last: int
    #: What it binds, each with the line that says so; a subscript or slice binds its base.
    targets: tuple[tuple[int, Path], ...]
    #: What it only mentions, and might change in place.
    mentions: tuple[Path, ...]
    #: The lines that a loop's header binds its targets for; elsewhere it ends, and they are old.
    body: tuple[int, int] | None = None
    #: A `return` of something that is not written as None.
    returns: bool = False
    #: What it assigns is a literal None: nothing that a run could tell.
    nothing: bool = False
    #: A docstring, or the ``...`` of a body that nobody runs.
    inert: bool = False


@dataclass(slots=True)
class Function:
    """A function, by where its code object says that it begins."""

    qualname: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    #: Each parameter and the line it is written on.
    parameters: dict[str, int]
    #: The lines of its header and body.
    first: int
    last: int


@dataclass(slots=True)
class Plan:
    """Everything that the tracer and the checks ask of a module's syntax."""

    #: The module compiled, for the lines that have code. Nobody runs it.
    code: CodeType
    statements: dict[int, Statement] = field(default_factory=dict)
    functions: dict[int, Function] = field(default_factory=dict)
    #: First line of a comprehension -> the names that it binds, with their lines.
    comprehensions: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    #: Classes by their qualified names.
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)

    def function_at(self, line: int) -> Function | None:
        """The innermost function that a line belongs to."""
        around = [f for f in self.functions.values() if f.first <= line <= f.last]
        return max(around, key=lambda f: f.first, default=None)


@lru_cache(maxsize=4)
def read_plan(text: str) -> Plan:
    """The plan of a module; its source must parse."""
    with warnings.catch_warnings():
        # An odd escape in a string is no business of ours.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        tree = ast.parse(text)
        plan = Plan(compile(tree, "<page>", "exec", dont_inherit=True))
    _definitions(tree, "", plan)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            _statement(node, plan)
        elif isinstance(node, _COMPREHENSIONS):
            names = plan.comprehensions.setdefault(node.lineno, [])
            for generator in node.generators:
                names += [(line, path[0]) for line, path in _targets(generator.target)]
    return plan


def _definitions(node: ast.AST, prefix: str, plan: Plan) -> None:
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, ast.ClassDef):
            plan.classes[prefix + child.name] = child
            inside = f"{prefix}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            given = child.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            arguments += [a for a in (given.vararg, given.kwarg) if a]
            plan.functions[first] = Function(
                prefix + child.name,
                child,
                {a.arg: a.lineno for a in arguments},
                first,
                child.end_lineno or child.lineno,
            )
            inside = f"{prefix}{child.name}.<locals>."
        _definitions(child, inside, plan)


def _statement(node: ast.stmt, plan: Plan) -> None:
    parts = list(_header(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not parts:
        return
    first, last = node.lineno, max(p.end_lineno or p.lineno for p in parts)
    last = max(last, first)
    targets = [found for part in _bound(node) for found in _targets(part)]
    for part in parts:
        targets += [found for walrus in _walruses(part) for found in _targets(walrus.target)]
    bound = {path for _, path in targets}
    mentions = [path for part in parts for path in _mentions(part) if path not in bound]
    value = getattr(node, "value", None)
    literal = isinstance(value, ast.Constant) and value.value is None
    statement = Statement(
        first,
        last,
        tuple(dict.fromkeys(targets)),
        tuple(dict.fromkeys(mentions)),
        _body(node),
        returns=isinstance(node, ast.Return) and value is not None and not literal,
        nothing=literal,
        inert=isinstance(node, ast.Expr) and isinstance(value, ast.Constant),
    )
    for line in range(first, last + 1):
        plan.statements.setdefault(line, statement)


def _header(node: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """The parts of a statement that run before any statement inside it."""
    match node:
        case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
            yield from (target, source)
        case ast.While(test=test) | ast.If(test=test):
            yield test
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield item.context_expr
                if item.optional_vars:
                    yield item.optional_vars
        case ast.Match(subject=subject):
            yield subject
        case ast.Try() | ast.TryStar():
            return
        case _:
            yield node


def _body(node: ast.stmt) -> tuple[int, int] | None:
    if not isinstance(node, ast.For | ast.AsyncFor):
        return None
    return node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno


def _bound(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target, value=value):
            return [target] if value is not None else []
        case ast.AugAssign(target=target):
            return [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.optional_vars for item in items if item.optional_vars]
    return []


def _targets(node: ast.expr) -> Iterator[tuple[int, Path]]:
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _targets(element)
        case ast.Starred(value=value):
            yield from _targets(value)
        case ast.Subscript(value=value):
            yield from _targets(value)
        case _:
            path = chain(node)
            # What is called `_` is not looked at.
            if path is not None and path != ("_",):
                yield node.lineno, path


def _walruses(node: ast.AST) -> Iterator[ast.NamedExpr]:
    return (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))


def _mentions(node: ast.AST) -> Iterator[Path]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            path = chain(part)
            if path is not None:
                yield path


def chain(node: ast.expr) -> Path | None:
    """A name with the attributes behind it; None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return (node.id, *reversed(names))


#: jaxtyping's kinds -> how the dtypes begin that they take; the empty tuple takes all.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "Float": ("float", "bfloat"),
    "Float16": ("float16",),
    "Float32": ("float32",),
    "Float64": ("float64",),
    "BFloat16": ("bfloat16",),
    "Complex": ("complex",),
    "Inexact": ("float", "bfloat", "complex"),
    "Int": ("int",),
    "UInt": ("uint",),
    "Integer": ("int", "uint"),
    "Int64": ("int64",),
    "Int32": ("int32",),
    "Bool": ("bool",),
    "Real": ("float", "bfloat", "int", "uint"),
    "Num": ("float", "bfloat", "int", "uint", "complex"),
    "Shaped": (),
}
_SEQUENCES = frozenset({"list", "List", "Sequence", "Iterable", "Iterator", "Collection"})


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: what it may hold, and its axes."""

    category: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """One of several; None among them is left out, since it fits everywhere."""

    members: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A tuple of a known length."""

    items: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A list of alike things."""

    item: "Type"


#: None where an annotation says nothing of shapes.
Type = Tensor | Union | Product | Many | None


def written(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """The annotation of a parameter; ``""`` names the result."""
    if not name:
        return function.returns
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return next((a.annotation for a in arguments if a.arg == name), None)


def read(node: ast.expr | None) -> Type:
    """What an annotation says of shapes."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return read(ast.parse(text.strip(), mode="eval").body)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=base, slice=inner):
            return _subscript(_last(base), inner)
    return None


def _subscript(name: str, inner: ast.expr) -> Type:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in CATEGORIES and len(parts) == 2:
        axes = parts[1]
        if isinstance(axes, ast.Constant) and isinstance(axes.value, str):
            return Tensor(name, tuple(axes.value.split()))
        return None
    if name in ("Optional", "Union"):
        return _union(parts)
    if name in ("tuple", "Tuple"):
        endless = any(isinstance(p, ast.Constant) and p.value is Ellipsis for p in parts)
        return None if endless else Product(tuple(map(read, parts)))
    return Many(read(parts[0])) if name in _SEQUENCES else None


def _union(parts: list[ast.expr]) -> Type:
    real = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is None)]
    members = tuple(map(read, real))
    return members[0] if len(members) == 1 else Union(members)


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def shown(node: ast.expr) -> str:
    """A declared tensor as a chip would show it; empty if the annotation says nothing."""
    found = read(node)
    if not isinstance(found, Tensor):
        return ""
    dtypes = CATEGORIES[found.category]
    shape = f"[{', '.join(found.tokens)}]" if found.tokens else "scalar"
    return shape if dtypes[:1] in ((), ("float",)) else f"{shape} {_usual(found.category)}"


def _usual(category: str) -> str:
    return {"Int": "int64", "Integer": "int64"}.get(category, category.lower())
