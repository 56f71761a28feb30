"""Arithmetic with the names of axes: ``H*K``, ``2T``, ``S + T``, ``⌈C/2⌉``."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}
_CEILING = re.compile(r"⌈(.+)/(\w+)⌉")
_JUXTAPOSED = re.compile(r"(?<![\w.])(\d+)\s*(?=[A-Za-z_])")


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr | None:
    """The expression that a text writes; None if it is none of whole numbers and names."""
    text = text.replace("·", "*").replace("−", "-").replace("×", "*").strip()
    text = _CEILING.sub(r"((\1 + \2 - 1) // \2)", text).replace("⌊", "(").replace("⌋", ")")
    try:
        tree = ast.parse(_JUXTAPOSED.sub(r"\1*", text), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if _is_plain(tree) else None


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _OPERATORS and _is_plain(left) and _is_plain(right)
        case ast.Constant(value=value):
            return type(value) is int
    return isinstance(node, ast.Name)


@lru_cache(maxsize=4096)
def names(text: str) -> frozenset[str]:
    """The names in an expression."""
    tree = parse(text)
    if tree is None:
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def evaluate(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression; None if it has a name without a size, or is none."""
    tree = parse(text)
    if tree is None or not names(text) <= sizes.keys():
        return None
    try:
        return _value(tree, sizes)
    except ZeroDivisionError:
        return None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Name(id=name):
            return sizes[name]
        case ast.Constant(value=int(value)):
            return value
    raise AssertionError(ast.dump(node))
