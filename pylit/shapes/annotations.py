"""Shapes declared in signatures: jaxtyping's ``Float[Tensor, "T B C"]``, read from the syntax."""

import ast
from dataclasses import dataclass

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
