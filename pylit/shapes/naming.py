"""Sizes for axes, and names for sizes.

Every axis gets a prime, another one in a second run. A size is then told by both numbers together:
91 in one run and 33 in the other is H·K when H and K were 7, 13 and 3, 11. A name stands only
where both runs agree on it, and on no other name as simple.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from pylit.shapes.expressions import evaluate, names

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


def assign(axes: Sequence[str], derived: Derived) -> tuple[dict[str, int], ...]:
    """Two sizes for each axis. Derived axes, ``C = H*K``, get what follows for them."""
    free = tuple(axis for axis in axes if axis not in derived)
    return tuple(map(dict, _assigned(free, tuple(derived.items()))))


@lru_cache
def _assigned(
    free: tuple[str, ...], derived: tuple[tuple[str, str], ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Of many orders of the primes two in which simple names are told apart, and small ones."""
    # Factors of others get small primes: their product is as large as it is slow.
    factors = [axis for axis in free if any(axis in names(text) for _, text in derived)]
    others = [axis for axis in free if axis not in factors]
    shuffle = random.Random(1)
    best: tuple[tuple[int, int], dict[str, int], dict[str, int]] | None = None
    for _ in range(_TRIES):
        runs = []
        for _ in range(2):
            small = shuffle.sample(_PRIMES[: len(factors) + 3], len(factors)) if factors else []
            rest = [n for n in _PRIMES[1 : len(free) + 3] if n not in small]
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
