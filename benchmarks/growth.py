"""How time grows with a size: the exponent of the power law that fits best."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.contest import Run, contest

Rows = list[dict[str, Any]]
#: Sizes that grow, by name.
Axes = Mapping[str, Sequence[int]]


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of a line through (log size, log time), by least squares.

    1: twice the size takes twice the time. 2: four times. Over a range in which several terms
    matter, say a linear and a quadratic one, it lies between their exponents.
    """
    if len(sizes) != len(times):
        raise ValueError(f"{len(sizes)} sizes and {len(times)} times; expected as many of both")
    if len(set(sizes)) < 2:
        raise ValueError(f"sizes ({list(sizes)}) must be two or more different ones")
    x, y = [math.log(size) for size in sizes], [math.log(time) for time in times]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def sweep(
    axes: Axes, runs: Callable[[str, int], Mapping[str, Run]], *, first: str, rounds: int
) -> dict[str, Rows]:
    """Times while one size grows and the others stay, and the exponents that fit: two tables.

    `runs` is asked for an axis and a size on it, and gives the forms that take turns there.
    """
    rows: Rows = []
    fits: Rows = []
    for axis, sizes in axes.items():
        times: dict[str, list[tuple[float, float]]] = {}
        for size in sizes:
            for row in contest(runs(axis, size), first=first, rounds=rounds):
                rows.append({"axis": axis, "size": size, "form": row["name"], **row})
                times.setdefault(row["name"], []).append((row["ms"], row["processor_ms"]))
        for form, pairs in times.items():
            clock, processor = (exponent(sizes, column) for column in zip(*pairs, strict=True))
            fit = {"exponent": clock, "processor_exponent": processor}
            fits.append({"axis": axis, "form": form, "sizes": list(sizes), **fit})
    return {"growth": rows, "exponents": fits}
