"""Sizes for axes, names for sizes, and texts for shapes: ``[T, B, C]``, ``[1…T, B]``.

Every axis gets a prime, another one in a second run. A size is then told by both numbers together:
91 in one run and 33 in the other is H·K when H and K were 7, 13 and 3, 11. A name stands only
where both runs agree on it, and on no other name as simple. Names are expressions: ``H*K``, ``2T``,
``S + T``, ``⌈C/2⌉``.
"""

import ast
import itertools
import math
import operator
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pylit.shapes.tracer import Value

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


Sizes = Mapping[str, int]
Derived = Mapping[str, str]
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
#: So many axes a run may have.
MOST_AXES = len(_PRIMES) - 1
#: Orders of the primes that are tried.
_TRIES = 400
#: Smaller numbers than this have too many long names to be called by one.
_SMALL = 5
#: What stands for a size that has no name.
UNKNOWN = "?"


def assign(
    axes: Sequence[str], derived: Derived, small: Collection[str] = ()
) -> tuple[dict[str, int], ...]:
    """Two sizes for each axis: small primes for those of `small`, such as a number of layers.

    Derived axes, ``C = H*K``, get what follows for them.
    """
    free = tuple(axis for axis in axes if axis not in derived)
    # Factors of others get small primes: their product is as large as it is slow.
    factors = set(small).union(*map(names, derived.values()))
    first = tuple(axis for axis in free if axis in factors)
    others = tuple(axis for axis in free if axis not in factors)
    return tuple(map(dict, _assigned(first, others, tuple(derived.items()))))


@lru_cache
def _assigned(
    factors: tuple[str, ...], others: tuple[str, ...], derived: tuple[tuple[str, str], ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Of many orders of the primes two in which simple names are told apart, and small ones."""
    shuffle = random.Random(1)
    best: tuple[tuple[int, int], dict[str, int], dict[str, int]] | None = None
    for _ in range(_TRIES):
        runs = []
        for _ in range(2):
            small = shuffle.sample(_PRIMES[: len(factors) + 3], len(factors)) if factors else []
            rest = [n for n in _PRIMES[1 : len(factors) + len(others) + 3] if n not in small]
            primes = [*small, *shuffle.sample(rest, len(others))]
            sizes = dict(zip([*factors, *others], primes, strict=True))
            for axis, text in derived:
                sizes[axis] = evaluate(text, sizes) or 0
            runs.append(sizes)
        first, second = runs
        worth = _confused(first, second), math.prod(first.values()) + math.prod(second.values())
        if best is None or worth < best[0]:
            best = worth, first, second
    assert best is not None
    return best[1], best[2]


def _confused(first: Sizes, second: Sizes) -> int:
    """How many simple names are not told by their sizes; axes that are not, count most.

    Two names may have the same sizes, and a name the same size twice, as a number that is written
    in the code has: T+S must not look like 42.
    """
    axes = tuple(first)
    pairs = list(zip(first.values(), second.values(), strict=True))
    alike = sum(one == two for one, two in pairs)
    alike += sum(len(axes) - len(set(run.values())) for run in (first, second))
    simple = list(zip(*(_simple(axes)(*run.values()) for run in (first, second)), strict=True))
    told = {(one, two) for one, two in (*pairs, *simple) if one != two}
    return 1000 * alike + len(axes) + len(simple) - len(told)


@lru_cache
def _simple(axes: tuple[str, ...]) -> Callable[..., tuple[int, ...]]:
    """The sizes of all simple names at once, from those of the axes, which are identifiers."""
    texts = "".join(f"{text}, " for _, text in _levels(axes)[1])
    found: Callable[..., tuple[int, ...]] = eval(f"lambda {', '.join(axes)}: ({texts})")
    return found


class Names:
    """Names for the sizes of two runs."""

    def __init__(self, first: Sizes, second: Sizes) -> None:
        self._known: dict[tuple[int, int], str] = {}
        levels = _levels(tuple(first))
        for level in levels:
            found: dict[tuple[int, int], list[str]] = {}
            for shown, text in level:
                pair = (evaluate(text, first) or 0, evaluate(text, second) or 0)
                found.setdefault(pair, []).append(shown)
            for pair, texts in found.items():
                if level is levels[-1] and min(pair) < _SMALL:
                    continue
                # Two names that are as simple: nobody can tell which is meant.
                self._known.setdefault(pair, texts[0] if len(texts) == 1 else UNKNOWN)

    def name(self, first: int, second: int) -> str:
        """What to call a size that was the one number and then the other."""
        if first == second:
            return str(first)
        return self._known.get((first, second), UNKNOWN)


@lru_cache
def _levels(axes: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Expressions as they are shown and as they are computed, the simplest first."""
    return tuple(tuple(level) for level in ([(a, a) for a in axes], _second(axes), _third(axes)))


def _second(axes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for a, b in itertools.combinations_with_replacement(axes, 2):
        yield f"{a}·{b}" if a != b else f"{a}²", f"{a}*{b}"
        if a != b:
            yield f"{a}+{b}", f"{a}+{b}"
    for a in axes:
        for n in (2, 3, 4):
            yield f"{n}{a}", f"{n}*{a}"
        for n in (1, 2):
            yield f"{a}+{n}", f"{a}+{n}"
            yield f"{a}−{n}", f"{a}-{n}"


def _third(axes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for a in axes:
        yield f"⌈{a}/2⌉", f"({a}+1)//2"
        yield f"⌊{a}/2⌋", f"{a}//2"
        for n in (1, -1):
            yield f"2{a}{'+' if n > 0 else '−'}1", f"2*{a}+{n}"
    for a, b in itertools.permutations(axes, 2):
        yield f"{a}−{b}", f"{a}-{b}"
    for a, b in itertools.combinations(axes, 2):
        yield f"{a}+{b}+1", f"{a}+{b}+1"
        yield f"{a}+{b}−1", f"{a}+{b}-1"
        for n in (2, 3, 4):
            yield f"{n}·{a}·{b}", f"{n}*{a}*{b}"
    for a, b, c in itertools.combinations(axes, 3):
        yield f"{a}·{b}·{c}", f"{a}*{b}*{c}"
        yield f"{a}+{b}+{c}", f"{a}+{b}+{c}"


#: Different shapes of one name that are shown, and letters of all of them.
MOST, LONG = 3, 54
#: What stands for forms that are too many to tell.
MORE = "…"
#: What most tensors hold: not worth a word.
USUAL = "float32"

Vector = tuple[int, ...]


class Part(NamedTuple):
    """One tensor of a value, as text; `shape` is ``None`` for None."""

    path: str
    shape: str
    dtype: str


Parts = tuple[Part, ...]
NONE_PARTS: Parts = (Part("", "None", ""),)


def alternatives(first: Sequence[Value], second: Sequence[Value], names: Names) -> list[Parts]:
    """The different forms of a value in two runs, those that differ in a number only as a range.

    A form that one of the runs did not have is left out: nobody could name it.
    """
    found = []
    for kind in dict.fromkeys(map(_kind, first)):
        ours = [_numbers(value) for value in first if _kind(value) == kind]
        theirs = [_numbers(value) for value in second if _kind(value) == kind]
        if ours and theirs:
            found += [_parts(kind, texts) for texts in _texts(ours, theirs, names)]
    return list(dict.fromkeys(found))


Kind = tuple[tuple[str, int | None, str, bool], ...]


def _kind(value: Value) -> Kind:
    """All of a value but its numbers."""
    return tuple(
        (leaf.path, None if leaf.dims is None else len(leaf.dims), leaf.dtype, leaf.times is None)
        for leaf in value
    )


def _numbers(value: Value) -> Vector:
    result: list[int] = []
    for leaf in value:
        result += [] if leaf.times is None else [leaf.times]
        result += leaf.dims or ()
    return tuple(result)


def _parts(kind: Kind, texts: Sequence[str]) -> Parts:
    rest = iter(texts)
    parts = []
    for path, rank, dtype, single in kind:
        if rank is None:
            parts.append(Part(path, "None", ""))
            continue
        count = "" if single else f"{next(rest)} × "
        sizes = [next(rest) for _ in range(rank)]
        shape = count + (f"[{', '.join(sizes)}]" if sizes else "scalar")
        if sizes and set(sizes) == {MORE}:
            shape = MORE
        parts.append(Part(path, shape, "" if dtype == USUAL else dtype))
    return tuple(parts)


def _texts(ours: list[Vector], theirs: list[Vector], names: Names) -> Iterator[Sequence[str]]:
    """What to say of vectors of the same length: one by one, or ranges of them."""
    if len(ours) == len(theirs) <= MOST and not _is_run(ours):
        pairs = [_named(a, b, names) for a, b in zip(ours, theirs, strict=True)]
        if not any(UNKNOWN in text for text in pairs):
            yield from pairs
            return
    ranged = _ranged(ours, theirs, names)
    if ranged:
        yield ranged
        return
    shown = [_named(a, b, names) for a, b in zip(ours, theirs, strict=False)][:MOST]
    yield from shown
    if len(shown) < max(len(ours), len(theirs)):
        yield [MORE] * len(ours[0])


def _named(first: Vector, second: Vector, names: Names) -> list[str]:
    return [names.name(a, b) for a, b in zip(first, second, strict=True)]


def _is_run(vectors: list[Vector]) -> bool:
    """Whether they are the steps of a loop: three or more, one more each time."""
    return len(vectors) >= 3 and any(
        len(column) > 2 and _contiguous(column) for column in map(set, zip(*vectors, strict=True))
    )


def _ranged(first: list[Vector], second: list[Vector], names: Names) -> list[str]:
    """One text for all, with a range where a number grows; empty where numbers jump."""
    texts = []
    for ours, theirs in zip(zip(*first, strict=True), zip(*second, strict=True), strict=True):
        mine, yours = set(ours), set(theirs)
        low = names.name(min(mine), min(yours))
        high = names.name(max(mine), max(yours))
        if len(mine) == len(yours) == 1:
            texts.append(low)
        elif _contiguous(mine) and _contiguous(yours):
            texts.append(f"{low}…{high}")
        else:
            return []
    return texts


def _contiguous(numbers: set[int]) -> bool:
    return max(numbers) - min(numbers) == len(numbers) - 1


def named_parts(parts: Parts) -> list[tuple[str, str]]:
    """Names, those of alike tensors that follow each other together, and texts."""
    found: list[tuple[str, str]] = []
    for part in parts:
        steps = [step for step in part.path.split(".") if step and not step.isdigit()]
        name, text = "".join(f".{step}" for step in steps), _with_dtype(part)
        if found and name and found[-1][0] and found[-1][1] == text:
            found[-1] = (f"{found[-1][0]}, {name}", text)
        else:
            found.append((name, text))
    return found


def text_of(found: list[Parts]) -> str:
    """``[T, B] | [S, B] | None``; a tuple's tensors are separated by commas."""
    forms = sorted(found, key=lambda parts: parts == NONE_PARTS)
    dtypes = {part.dtype for parts in forms for part in parts if parts != NONE_PARTS}
    # A kind of number that all forms share is said once, behind the last.
    shared = dtypes.pop() if len(dtypes) == 1 and all(len(parts) == 1 for parts in forms) else ""
    texts = []
    for parts in forms:
        whole = [f"{name} {text}".strip() for name, text in named_parts(parts)]
        while len(whole) > 1 and len(", ".join(whole)) > LONG:
            whole[-2:] = [MORE]
        texts.append(", ".join(whole).removesuffix(f" {shared}" if shared else ""))
    tensors = [text for text in texts if text != "None"]
    if shared:
        texts[len(tensors) - 1] += f" {shared}"
    shown = texts[:MOST]
    while len(shown) > 1 and sum(map(len, shown)) > LONG:
        shown.pop()
    return " | ".join([*shown, MORE] if len(shown) < len(texts) else shown)


def _with_dtype(part: Part) -> str:
    return f"{part.shape} {part.dtype}" if part.dtype else part.shape
