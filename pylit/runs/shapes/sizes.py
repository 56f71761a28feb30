"""Sizes for axes, names for sizes, and texts for shapes: ``[T, B, C]``, ``[1…T, B]``.

Every axis gets a prime, another one in a second run. Both numbers together identify a size: 91 in
one run and 33 in the other is H·K when H and K were 7, 13 and 3, 11. A name is used only if both
runs agree on it, and on no other name as simple. Names are expressions: ``H*K``, ``2T``,
``S + T``, ``⌈C/2⌉``.
"""

import ast
import itertools
import math
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from types import CodeType

from pylit.runs.shapes.tracer import Value

#: The syntax nodes that an expression may contain.
_NODES: tuple[type[ast.AST], ...] = (ast.Expression, ast.BinOp, ast.Name, ast.Load, ast.Constant)
_NODES += (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_REPLACEMENTS = (
    (r"⌈(.+)/(\w+)⌉", r"((\1 + \2 - 1) / \2)"),
    (r"⌊(.+)⌋", r"(\1)"),
    (r"(\w+)²", r"\1*\1"),
    (r"[·×]", "*"),
    (r"−", "-"),
    (r"//?", "//"),
    (r"(?<![\w.])(\d+)\s*(?=[A-Za-z_])", r"\1*"),
)


def _python(text: str) -> str:
    """An expression in Python's syntax, with integer division."""
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text.strip())
    return text


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[CodeType, frozenset[str]] | None:
    """Return a compiled expression and its names; None if it has other syntax."""
    try:
        tree = ast.parse(_python(text), mode="eval")
    except (SyntaxError, ValueError):
        return None
    nodes = list(ast.walk(tree))
    whole = all(type(node.value) is int for node in nodes if isinstance(node, ast.Constant))
    if not whole or not all(isinstance(node, _NODES) for node in nodes):
        return None
    found = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    return compile(tree, "<size>", "eval"), found


def symbols(text: str) -> frozenset[str]:
    """The names in an expression."""
    return found[1] if (found := parse(text)) else frozenset()


def evaluate(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression; None if it has a name without a size, or cannot be parsed."""
    found = parse(text)
    try:
        return int(eval(found[0], {"__builtins__": {}}, sizes)) if found else None
    except (NameError, ZeroDivisionError):
        return None


Sizes = Mapping[str, int]
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
#: The most axes of one run.
MAX_AXES = len(_PRIMES) - 1
#: The number of orders of the primes to try.
_ATTEMPTS = 400
#: Smaller sizes than this have too many long names for one to be certain.
_SMALL = 5
#: Shown for a size without a name.
UNKNOWN = "?"


def assign(
    axes: Sequence[str],
    derived: Mapping[str, str],
    small: Collection[str] = (),
    larger: Collection[str] = (),
) -> tuple[dict[str, int], ...]:
    """Two sizes for each axis: the smallest primes for those of `small`, such as numbers of layers.

    Those of `larger` get small ones that these leave. Derived axes, ``C = H*K``, are computed from
    the others.
    """
    free = [axis for axis in axes if axis not in derived]
    # Factors of others get small primes: their product is as large as it is slow.
    factors = set(larger).union(*map(symbols, derived.values()))
    ranks = [0 if axis in small else 1 if axis in factors else 2 for axis in free]
    groups = (tuple(a for a, r in zip(free, ranks, strict=True) if r == rank) for rank in range(3))
    return tuple(map(dict, _best_sizes(tuple(groups), tuple(derived.items()))))


@lru_cache
def _best_sizes(
    groups: tuple[tuple[str, ...], ...], derived: tuple[tuple[str, str], ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Choose from many orders of the primes two that distinguish simple names and are small.

    Of the groups of axes, those of the first get the smallest primes, and those of the last no 3.
    """
    shuffle = random.Random(1)

    def sizes() -> dict[str, int]:
        found: dict[str, int] = {}
        for group, least, spare in zip(groups, (0, 0, 1), (1, 3, 3), strict=True):
            known = _PRIMES[least : len(found) + len(group) + spare]
            primes = [prime for prime in known if prime not in found.values()]
            found |= zip(group, shuffle.sample(primes, len(group)), strict=True)
        for axis, text in derived:
            found[axis] = evaluate(text, found) or 0
        return found

    pairs = [(sizes(), sizes()) for _ in range(_ATTEMPTS)]
    return min(pairs, key=lambda two: (_ambiguities(*two), sum(math.prod(s.values()) for s in two)))


def _ambiguities(first: Sizes, second: Sizes) -> int:
    """Count the simple names whose sizes are not unique; axes count most.

    Two names may have the same sizes, and a name the same size twice, as a number that is written
    in the code has: T+S must not look like 42.
    """
    axes = tuple(first)
    pairs = list(zip(first.values(), second.values(), strict=True))
    alike = sum(one == two for one, two in pairs)
    alike += sum(len(axes) - len(set(run.values())) for run in (first, second))
    simple = list(zip(*(_evaluator(axes)(*run.values()) for run in (first, second)), strict=True))
    distinct = {(one, two) for one, two in (*pairs, *simple) if one != two}
    return 1000 * alike + len(axes) + len(simple) - len(distinct)


@lru_cache
def _evaluator(axes: tuple[str, ...]) -> Callable[..., tuple[int, ...]]:
    """The sizes of all simple names at once, from those of the axes, which are identifiers."""
    texts = "".join(f"{text}, " for text in map(_python, _levels(axes)[1]))
    found: Callable[..., tuple[int, ...]] = eval(f"lambda {', '.join(axes)}: ({texts})")
    return found


class Namer:
    """Names for the sizes of two runs."""

    def __init__(self, first: Sizes, second: Sizes) -> None:
        self._known: dict[tuple[int, int], str] = {}
        levels = _levels(tuple(first))
        for level in levels:
            found: dict[tuple[int, int], list[str]] = {}
            for text in level:
                pair = (evaluate(text, first) or 0, evaluate(text, second) or 0)
                found.setdefault(pair, []).append(text)
            for pair, texts in found.items():
                if level is levels[-1] and min(pair) < _SMALL:
                    continue
                # Two names of one level are ambiguous.
                self._known.setdefault(pair, texts[0] if len(texts) == 1 else UNKNOWN)

    def name(self, first: int, second: int) -> str:
        """Return the name of a size, from its numbers in the two runs."""
        if first == second:
            return str(first)
        return self._known.get((first, second), UNKNOWN)


@lru_cache
def _levels(axes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Expressions in levels, the simplest first."""
    pairs = list(itertools.combinations(axes, 2))
    second = [f"{a}²" for a in axes] + [f"{a}{sign}{b}" for a, b in pairs for sign in "·+"]
    second += [f"{n}{a}" for a in axes for n in (2, 3, 4)]
    second += [f"{a}{sign}{n}" for a in axes for sign in "+−" for n in (1, 2)]
    third = [form.format(a=a) for a in axes for form in ("⌈{a}/2⌉", "⌊{a}/2⌋", "2{a}+1", "2{a}−1")]
    third += [f"{a}−{b}" for a, b in itertools.permutations(axes, 2)]
    third += [f"{a}+{b}{sign}1" for a, b in pairs for sign in "+−"]
    third += [f"{n}·{a}·{b}" for a, b in pairs for n in (2, 3, 4)]
    third += [sign.join(three) for three in itertools.combinations(axes, 3) for sign in "·+"]
    return axes, tuple(second), tuple(third)


#: Different shapes of one name that are shown, and characters of all of them.
MOST, LONG = 3, 54
#: Shown for shapes that are too many to list.
MORE = "…"

Vector = tuple[int, ...]
#: The tensors of a value: where each is, its shape, and its dtype if that is not the usual one.
Parts = tuple[tuple[str, str, str], ...]
NONE_PARTS: Parts = (("", "None", ""),)


def distinct_shapes(first: Sequence[Value], second: Sequence[Value], names: Namer) -> list[Parts]:
    """Return the different shapes of a value in two runs; consecutive sizes are a range.

    A shape that only one of the runs has is left out: two sizes are needed for a name.
    """
    ours, theirs = _sizes_by_structure(first), _sizes_by_structure(second)
    found = [
        _parts(kind, texts)
        for kind, vectors in ours.items()
        if kind in theirs
        for texts in _size_texts(vectors, theirs[kind], names)
    ]
    return list(dict.fromkeys(found))


def _sizes_by_structure(values: Sequence[Value]) -> dict[Value, list[Vector]]:
    """The sizes of values, by the values with zeros in place of the sizes."""
    found: dict[Value, list[Vector]] = {}
    for value in values:
        sizes = (size for leaf in value for size in (leaf.times, *(leaf.dims or ())))
        numbers = tuple(size for size in sizes if size is not None)
        kind = tuple(
            leaf._replace(dims=leaf.dims and (0,) * len(leaf.dims), times=leaf.times and 0)
            for leaf in value
        )
        found.setdefault(kind, []).append(numbers)
    return found


def _parts(kind: Value, texts: Sequence[str]) -> Parts:
    rest = iter(texts)
    parts = []
    for path, dims, dtype, times in kind:
        shape = "" if times is None else f"{next(rest)} × "
        sizes = [next(rest) for _ in dims or ()]
        shape += f"[{', '.join(sizes)}]" if sizes else "None" if dims is None else "scalar"
        parts.append((path, MORE if set(sizes) == {MORE} else shape, dtype.removeprefix("float32")))
    return tuple(parts)


def _size_texts(ours: list[Vector], theirs: list[Vector], names: Namer) -> list[list[str]]:
    """Return the names of vectors of the same length: one by one, or as ranges."""
    shown = [list(map(names.name, *pair)) for pair in zip(ours, theirs, strict=False)][:MOST]
    many = len(shown) < max(len(ours), len(theirs))
    columns = [set(column) for column in zip(*ours, strict=True)]
    steps = len(ours) >= 3 and any(len(c) > 2 and _contiguous(c) for c in columns)
    if not many and not steps and not any(UNKNOWN in texts for texts in shown):
        return shown
    pairs = zip(columns, map(set, zip(*theirs, strict=True)), strict=True)
    ranges = [_range(mine, yours, names) for mine, yours in pairs]
    if ranges and all(ranges):
        return [ranges]
    return [*shown, [MORE] * len(ours[0])] if many else shown


def _range(mine: set[int], yours: set[int], names: Namer) -> str:
    """Return a size or a range of sizes; empty if the range has gaps."""
    low, high = names.name(min(mine), min(yours)), names.name(max(mine), max(yours))
    if len(mine) == len(yours) == 1:
        return low
    return f"{low}…{high}" if _contiguous(mine) and _contiguous(yours) else ""


def _contiguous(numbers: set[int]) -> bool:
    return max(numbers) - min(numbers) == len(numbers) - 1


def part_texts(parts: Parts) -> list[tuple[str, str]]:
    """Names, those of alike tensors that follow each other together, and texts."""
    found: list[tuple[str, str]] = []
    for path, shape, dtype in parts:
        steps = [step for step in path.split(".") if step and not step.isdigit()]
        name, text = "".join(f".{step}" for step in steps), f"{shape} {dtype}".strip()
        if found and name and found[-1][0] and found[-1][1] == text:
            found[-1] = (f"{found[-1][0]}, {name}", text)
        else:
            found.append((name, text))
    return found


def text_of(found: list[Parts]) -> str:
    """``[T, B] | [S, B] | None``; a tuple's tensors are separated by commas."""
    forms = sorted(found, key=lambda parts: parts == NONE_PARTS)
    dtypes = {dtype for parts in forms if parts != NONE_PARTS for *_, dtype in parts}
    # A dtype that all shapes share is written once, after the last.
    shared = dtypes.pop() if len(dtypes) == 1 and all(len(parts) == 1 for parts in forms) else ""
    texts = []
    for parts in forms:
        whole = [f"{name} {text}".strip() for name, text in part_texts(parts)]
        while len(whole) > 1 and len(", ".join(whole)) > LONG:
            whole[-2:] = [MORE]
        texts.append(", ".join(whole).removesuffix(f" {shared}" if shared else ""))
    if shared:
        texts[sum(text != "None" for text in texts) - 1] += f" {shared}"
    shown = texts[:MOST]
    while len(shown) > 1 and sum(map(len, shown)) > LONG:
        shown.pop()
    return " | ".join([*shown, MORE] if len(shown) < len(texts) else shown)
