"""Sizes for axes, names for sizes, and texts for shapes: ``[T, B, C]``, ``[1…T, B]``.

Every axis gets a prime, another one in a second run. A size is then told by both numbers together:
91 in one run and 33 in the other is H·K when H and K were 7, 13 and 3, 11. A name stands only
where both runs agree on it, and on no other name as simple. Names are expressions: ``H*K``, ``2T``,
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

from pylit.shapes.tracer import Value

#: All that an expression may be made of.
_PLAIN: tuple[type[ast.AST], ...] = (ast.Expression, ast.BinOp, ast.Name, ast.Load, ast.Constant)
_PLAIN += (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_SIGNS = (
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
    for written, meant in _SIGNS:
        text = re.sub(written, meant, text.strip())
    return text


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[CodeType, frozenset[str]] | None:
    """The expression that a text writes, and its names; None if it computes anything else."""
    try:
        tree = ast.parse(_python(text), mode="eval")
    except (SyntaxError, ValueError):
        return None
    nodes = list(ast.walk(tree))
    whole = all(type(node.value) is int for node in nodes if isinstance(node, ast.Constant))
    if not whole or not all(isinstance(node, _PLAIN) for node in nodes):
        return None
    found = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    return compile(tree, "<size>", "eval"), found


def symbols(text: str) -> frozenset[str]:
    """The names in an expression."""
    return found[1] if (found := parse(text)) else frozenset()


def evaluate(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of an expression; None if it has a name without a size, or is none."""
    found = parse(text)
    try:
        return int(eval(found[0], {"__builtins__": {}}, sizes)) if found else None
    except (NameError, ZeroDivisionError):
        return None


Sizes = Mapping[str, int]
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
#: So many axes a run may have.
MAX_AXES = len(_PRIMES) - 1
#: Orders of the primes that are tried.
_TRIES = 400
#: Smaller numbers than this have too many long names to be called by one.
_SMALL = 5
#: What stands for a size that has no name.
UNKNOWN = "?"


def assign(
    axes: Sequence[str], derived: Mapping[str, str], small: Collection[str] = ()
) -> tuple[dict[str, int], ...]:
    """Two sizes for each axis: small primes for those of `small`, such as a number of layers.

    Derived axes, ``C = H*K``, get what follows for them.
    """
    free = tuple(axis for axis in axes if axis not in derived)
    # Factors of others get small primes: their product is as large as it is slow.
    factors = set(small).union(*map(symbols, derived.values()))
    first = tuple(axis for axis in free if axis in factors)
    others = tuple(axis for axis in free if axis not in factors)
    return tuple(map(dict, _assigned(first, others, tuple(derived.items()))))


@lru_cache
def _assigned(
    factors: tuple[str, ...], others: tuple[str, ...], derived: tuple[tuple[str, str], ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Of many orders of the primes two in which simple names are told apart, and small ones."""
    shuffle = random.Random(1)

    def sizes() -> dict[str, int]:
        small = shuffle.sample(_PRIMES[: len(factors) + 3], len(factors)) if factors else []
        rest = [n for n in _PRIMES[1 : len(factors) + len(others) + 3] if n not in small]
        primes = [*small, *shuffle.sample(rest, len(others))]
        found = dict(zip([*factors, *others], primes, strict=True))
        for axis, text in derived:
            found[axis] = evaluate(text, found) or 0
        return found

    pairs = [(sizes(), sizes()) for _ in range(_TRIES)]
    return min(pairs, key=lambda two: (_confused(*two), sum(math.prod(s.values()) for s in two)))


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
    texts = "".join(f"{text}, " for text in map(_python, _levels(axes)[1]))
    found: Callable[..., tuple[int, ...]] = eval(f"lambda {', '.join(axes)}: ({texts})")
    return found


class Names:
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
        """What to call a size that was the one number and then the other."""
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
#: What stands for forms that are too many to tell.
MORE = "…"

Vector = tuple[int, ...]
#: The tensors of a value: where each is, its shape, and its dtype if that is not the usual one.
Parts = tuple[tuple[str, str, str], ...]
NONE_PARTS: Parts = (("", "None", ""),)


def distinct_shapes(first: Sequence[Value], second: Sequence[Value], names: Names) -> list[Parts]:
    """The different forms of a value in two runs, those that differ in a number only as a range.

    A form that only one of the runs had is left out: two sizes are needed for a name.
    """
    ours, theirs = _by_kind(first), _by_kind(second)
    found = [
        _parts(kind, texts)
        for kind, vectors in ours.items()
        if kind in theirs
        for texts in _texts(vectors, theirs[kind], names)
    ]
    return list(dict.fromkeys(found))


def _by_kind(values: Sequence[Value]) -> dict[Value, list[Vector]]:
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


def _texts(ours: list[Vector], theirs: list[Vector], names: Names) -> list[list[str]]:
    """What to say of vectors of the same length: one by one, or ranges of them."""
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


def _range(mine: set[int], yours: set[int], names: Names) -> str:
    """A size, or the two that it grows between; empty where it jumps."""
    low, high = names.name(min(mine), min(yours)), names.name(max(mine), max(yours))
    if len(mine) == len(yours) == 1:
        return low
    return f"{low}…{high}" if _contiguous(mine) and _contiguous(yours) else ""


def _contiguous(numbers: set[int]) -> bool:
    return max(numbers) - min(numbers) == len(numbers) - 1


def named_parts(parts: Parts) -> list[tuple[str, str]]:
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
    # A kind of number that all forms share is said once, behind the last.
    shared = dtypes.pop() if len(dtypes) == 1 and all(len(parts) == 1 for parts in forms) else ""
    texts = []
    for parts in forms:
        whole = [f"{name} {text}".strip() for name, text in named_parts(parts)]
        while len(whole) > 1 and len(", ".join(whole)) > LONG:
            whole[-2:] = [MORE]
        texts.append(", ".join(whole).removesuffix(f" {shared}" if shared else ""))
    if shared:
        texts[sum(text != "None" for text in texts) - 1] += f" {shared}"
    shown = texts[:MOST]
    while len(shown) > 1 and sum(map(len, shown)) > LONG:
        shown.pop()
    return " | ".join([*shown, MORE] if len(shown) < len(texts) else shown)
