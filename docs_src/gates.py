"""Drawings of gated cells: a gate is a valve in a pipe, closed at 0 and open at 1."""

import math
from itertools import pairwise

from pylit.figures.draw import arrow, element, hook, line, short, shown, square, text

#: The roles on these pages, as tones of `pylit.figures.draw`.
GATE, CANDIDATE, HIDDEN, GREY, KEPT, ERROR = 0, 2, 3, 4, 5, 6
#: Opacity of the ground of a number of 0, and what is added for 1; numbers above 2 look alike.
GROUND = {"pale": 0.06, "strong": 0.17, "most": 2}


def bar(x, y, r, value, *, upright=False):
    """The path of the wing of a valve: along the pipe at 1, across it at 0."""
    turned = (1 - value) * math.pi / 2 + (math.pi / 2 if upright else 0)
    dx, dy = r * math.cos(turned), r * math.sin(turned)
    return f"M{short(x - dx)} {short(y - dy)}L{short(x + dx)} {short(y + dy)}"


def valve(x, y, value, *, r=11.0, upright=False, named=""):
    """A gate in a pipe that runs from left to right, or up; scripts find its wing by its name."""
    size = {"cx": x, "cy": y, "r": r}
    wing = element("path", f"l t{GATE} thick", d=bar(x, y, r - 3, value, upright=upright))
    return [
        element("circle", "o", **size),
        element("circle", f"f t{GATE}", fill_opacity=".12", **size),
        element("circle", f"l t{GATE}", **size),
        hook(wing, named),
    ]


def strength(value):
    """How strong the ground of a number is."""
    return GROUND["pale"] + GROUND["strong"] * min(abs(value), GROUND["most"])


def number(x, y, value, tone, *, w=42.0, h=28.0, named="", size=""):
    """A number in its cell, with its middle at `x` and `y`; both parts have the name."""
    d, ground = square(x - w / 2, y - h / 2, w, h), f"{strength(value):.3f}"
    return [
        element("path", "o", d=d),
        hook(element("path", f"k t{tone}", d=d, fill_opacity=ground), named and f"{named}-ground"),
        hook(text(x, y + 4 + 2 * bool(size), rounded(value), classes=f"n {size}".strip()), named),
    ]


def rounded(value):
    """With two digits at most: 0.96, 0.5, 2."""
    return shown(round(float(value), 2))


def pipe(points, tone, classes="thick", *, head=True):
    """Straight lines from point to point, with a head at the end of the last."""
    pairs = list(pairwise(points))
    drawn = [line(*a, *b, f"l t{tone} {classes}") for a, b in pairs[: len(pairs) - head]]
    return [*drawn, *(arrow(*a, *b, f"l t{tone} {classes}") for a, b in pairs[len(drawn) :])]
