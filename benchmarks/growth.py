"""How time grows with a size: the exponent of the power law that fits best."""

import math
from collections.abc import Sequence


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
