"""The syntax of a module: the names that a line binds and mentions, and the declared shapes.

Used in the child process, and by what reads its answers: plain `ast`, nothing of the module runs.
Shapes are declared in signatures as jaxtyping does: ``Float[Tensor, "T B C"]``.
"""

import ast
import warnings
from dataclasses import dataclass, field
from functools import lru_cache

from pylit.source.scopes import FunctionNode, definitions, name_of

#: A name, or a chain of attributes that begins with one: ``("self", "attn")``.
Path = tuple[str, ...]
#: Lines -> the names that are bound there, each with the line of its own.
Names = dict[int, list[tuple[int, Path]]]


@dataclass(frozen=True, slots=True)
class Statement:
    """A simple statement, or the header of a compound one."""

    first: int
    last: int
    #: What it binds, each with its line; a subscript or slice binds its base.
    targets: tuple[tuple[int, Path], ...]
    #: What it only mentions, and might change in place.
    mentions: tuple[Path, ...]
    #: The lines that a loop's header binds its targets for; elsewhere it ends, and they are old.
    body: tuple[int, int] | None
    #: A `return` of something that is not written as None.
    returns: bool
    #: Whether it assigns a literal None, which needs no run.
    nothing: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A function, by the first line of its code object."""

    qualname: str
    node: FunctionNode


@dataclass(slots=True)
class Plan:
    """The syntax of a module, as the tracer and the checks need it."""

    statements: dict[int, Statement] = field(default_factory=dict)
    functions: dict[int, Function] = field(default_factory=dict)
    #: First line of a comprehension -> the names that it binds, with their lines.
    comprehensions: Names = field(default_factory=dict)
    #: The same for each line of those that may run inside the frame around them.
    inlined: Names = field(default_factory=dict)
    #: The lines of classes by their qualified names.
    classes: dict[str, int] = field(default_factory=dict)

    def function_at(self, line: int) -> Function | None:
        """The innermost function that a line belongs to."""
        functions = self.functions.items()
        around = [first for first, f in functions if first <= line <= (f.node.end_lineno or first)]
        return self.functions[max(around)] if around else None


@lru_cache(maxsize=4)
def read_plan(text: str) -> Plan:
    """The plan of a module; its source must parse."""
    with warnings.catch_warnings(action="ignore"):  # An odd escape in a string is no fault here.
        tree = ast.parse(text)
    plan = Plan()
    for name, definition in definitions(tree):
        if isinstance(definition, ast.ClassDef):
            plan.classes[name] = definition.lineno
        else:
            first = min([definition.lineno, *(d.lineno for d in definition.decorator_list)])
            plan.functions[first] = Function(name, definition)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            _statement(node, plan)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            names = plan.comprehensions.setdefault(node.lineno, [])
            bound = [found for one in node.generators for found in _targets(one.target)]
            names += bound
            if not isinstance(node, ast.GeneratorExp):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    plan.inlined.setdefault(line, []).extend(bound)
    return plan


def _statement(node: ast.stmt, plan: Plan) -> None:
    parts, bound = _header(node)
    if not parts:
        return
    last = max(node.lineno, *(part.end_lineno or part.lineno for part in parts))
    inner = [one for part in parts for one in ast.walk(part)]
    bound += [one.target for one in inner if isinstance(one, ast.NamedExpr)]
    targets = dict.fromkeys(found for part in bound for found in _targets(part))
    known = {path for _, path in targets}
    names = (attribute_path(one) for one in inner if isinstance(one, ast.Name | ast.Attribute))
    value, body = getattr(node, "value", None), None
    literal = isinstance(value, ast.Constant) and value.value is None
    if isinstance(node, ast.For | ast.AsyncFor):
        body = node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
    statement = Statement(
        node.lineno,
        last,
        tuple(targets),
        tuple(dict.fromkeys(path for path in names if path is not None and path not in known)),
        body,
        returns=isinstance(node, ast.Return) and value is not None and not literal,
        nothing=literal,
    )
    for line in range(node.lineno, last + 1):
        plan.statements.setdefault(line, statement)


def _header(node: ast.stmt) -> tuple[list[ast.expr | ast.stmt], list[ast.expr]]:
    """The parts of a statement that run before any statement inside it, and what they bind."""
    match node:
        case ast.For() | ast.AsyncFor():
            return [node.target, node.iter], [node.target]
        case ast.While(test=test) | ast.If(test=test) | ast.Match(subject=test):
            return [test], []
        case ast.With() | ast.AsyncWith():
            names = [item.optional_vars for item in node.items if item.optional_vars]
            return [*(item.context_expr for item in node.items), *names], names
        case ast.Assign():
            return [node], [*node.targets]
        case ast.AugAssign() | ast.AnnAssign(value=ast.expr()):
            return [node], [node.target]
        # Nothing of these runs: a docstring, the ``...`` of a stub, a declaration.
        case ast.Global() | ast.Nonlocal() | ast.Expr(value=ast.Constant()) | ast.AnnAssign():
            return [], []
    inside = ast.Try | ast.TryStar | ast.ClassDef | FunctionNode
    return [] if isinstance(node, inside) else [node], []


def _targets(node: ast.expr) -> list[tuple[int, Path]]:
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [found for element in elements for found in _targets(element)]
        case ast.Starred(value=value) | ast.Subscript(value=value):
            return _targets(value)
    path = attribute_path(node)
    # What is called `_` is not looked at.
    return [(node.lineno, path)] if path is not None and path != ("_",) else []


def attribute_path(node: ast.expr) -> Path | None:
    """A name with the attributes behind it; None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


#: jaxtyping's types -> the dtype that a chip names; none is the usual one.
_DTYPES = dict.fromkeys(("Float", "Inexact", "Real", "Num", "Shaped"), "")
_DTYPES |= {"Complex": "complex", "Int": "int64", "UInt": "uint", "Integer": "int64"}
_DTYPES |= {
    name: name.lower()
    for name in ("Float16", "Float32", "Float64", "BFloat16", "Int32", "Int64", "Bool")
}


def parameters(node: FunctionNode) -> list[ast.arg]:
    """The parameters of a function, without those that gather what is left."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def annotation(node: FunctionNode, name: str) -> ast.expr | None:
    """What is written for a parameter; ``""`` names the result."""
    return ({one.arg: one.annotation for one in parameters(node)} | {"": node.returns}).get(name)


def union_members(node: ast.expr | None) -> list[ast.expr]:
    """What an annotation allows, one by one. None is left out, since it fits everywhere."""
    match node:
        case None | ast.Constant(value=None):
            return []
        case ast.Constant(value=str(text)):
            try:
                return union_members(ast.parse(text.strip(), mode="eval").body)
            except SyntaxError:
                return []
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return union_members(left) + union_members(right)
        case ast.Subscript(slice=inner) if name_of(node.value) in ("Optional", "Union"):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return [one for part in parts for one in union_members(part)]
    return [node]


def annotation_text(node: ast.expr | None) -> str:
    """The text of a chip for a declared tensor; empty unless exactly one is declared."""
    match union_members(node):
        case [ast.Subscript(value=kind, slice=ast.Tuple(elts=[_, ast.Constant(value=str(axes))]))]:
            if name_of(kind) in _DTYPES:
                shape = f"[{', '.join(axes.split())}]" if axes.strip() else "scalar"
                return f"{shape} {_DTYPES[name_of(kind)]}".strip()
    return ""
