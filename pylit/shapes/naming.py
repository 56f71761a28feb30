"""Sizes for axes, and names for sizes.

Every axis gets a prime, another one in a second run. A size is then told by both numbers together:
91 in one run and 33 in the other is H·K when H and K were 7, 13 and 3, 11. A name stands only
where both runs agree on it, and on no other name as simple.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pylit.shapes.expressions import evaluate

Sizes = Mapping[str, int]
Derived = Mapping[str, str]
_PRIMES = (5, 7, 3, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
#: Smaller numbers than this have too many long names to be called by one.
_SMALL = 5
#: What stands for a size that has no name.
UNKNOWN = "?"


def assign(axes: Sequence[str], derived: Derived) -> tuple[dict[str, int], ...]:
    """Two sizes for each axis. Derived axes, ``C = H*K``, get what follows for them."""
    free = [axis for axis in axes if axis not in derived]
    first = _sized(free, derived, _PRIMES)
    for shift in range(1, len(_PRIMES)):
        turned = _PRIMES[shift:] + _PRIMES[:shift]
        second = _sized(free, derived, turned)
        if _tell_apart(first, second):
            break
    return first, second


def _sized(free: Sequence[str], derived: Derived, primes: Sequence[int]) -> dict[str, int]:
    sizes = dict(zip(free, primes, strict=False))
    return sizes | {axis: evaluate(text, sizes) or 0 for axis, text in derived.items()}


def _tell_apart(first: Sizes, second: Sizes) -> bool:
    """Whether every axis differs between the runs, and all differ from each other in each."""
    pairs = {(first[axis], second[axis]) for axis in first}
    products = {
        (first[a] * first[b], second[a] * second[b])
        for a, b in itertools.combinations_with_replacement(first, 2)
    }
    count = len(first) * (len(first) + 1) // 2
    return (
        len(pairs) == len(first)
        and all(one != two for one, two in pairs)
        and len(set(second.values())) == len(second)
        and len(products) == count
    )


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
