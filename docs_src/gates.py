"""What the figures of gated cells share: a gate is a valve in a pipe, a ring with its number.

The sign means the same wherever its pipe leads: the disc in the ring is how far the valve is open.
It fills the ring at 1, and there is none at 0.
"""

import math
from itertools import pairwise

from docs_src.tasks import lstm as task
from pylit.figures.draw import Plot, arrow, element, hook, letter, line, short, shown, square, text

#: The roles on these pages, as tones of `pylit.figures.draw`.
GATE, CANDIDATE, HIDDEN, GREY, KEPT, ERROR = 0, 2, 3, 4, 5, 6
#: Opacity of the ground of a number of 0, and what is added for 1; numbers above 2 look alike.
GROUND = {"pale": 0.06, "strong": 0.17, "most": 2}


def disc(x, y, r, value):
    """The path of the disc in a valve, whose area says how far it is open."""
    wide = float(short(r * math.sqrt(max(value, 0))))
    half = f"a{short(wide)} {short(wide)} 0 1 0 "
    return f"M{short(x - wide)} {short(y)}{half}{short(2 * wide)} 0{half}{short(-2 * wide)} 0"


def valve(x, y, value, *, r=13.0, named="", size="", symbol=""):
    """A gate with its number, or with its symbol in place of it.

    Scripts find its disc by its name, and the number by `…-number`.
    """
    round_ = {"cx": x, "cy": y, "r": r}
    opened = element("path", f"f t{GATE}", d=disc(x, y, r, value), fill_opacity=".3")
    words = text(x, y + 4 + 2 * bool(size), rounded(value), classes=f"n {size}".strip())
    if symbol:
        words = letter(x, y + 5, (symbol, None), at="middle")
    return [
        element("circle", "o", **round_),
        hook(opened, named),
        element("circle", f"l t{GATE}", **round_),
        hook(words, named and f"{named}-number"),
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


def signed(value):
    """The same, with its sign: what is added."""
    words = rounded(value)
    return words if words.startswith("−") else f"+{words}"


def pipe(points, tone, classes="thick", *, head=True):
    """Straight lines from point to point, with a head at the end of the last."""
    pairs = list(pairwise(points))
    drawn = [line(*a, *b, f"l t{tone} {classes}") for a, b in pairs[: len(pairs) - head]]
    return [*drawn, *(arrow(*a, *b, f"l t{tone} {classes}") for a, b in pairs[len(drawn) :])]


def plot_by_depth(words_at):
    """The plot of the task with brackets, and where training ends; its words are at `words_at`."""
    plot = Plot(
        (0, 40),
        (0, 1.08),
        title="lines with no mistake, five seeds each",
        x_label="opening brackets",
        height=170,
        x_ticks=(1, 10, 20, 30, 40),
        y_ticks=(0, 0.5, 1),
    )
    x, y = plot.at(task.DEEPEST, 0)
    plot.add(line(x, plot.top, x, y, f"l t{GREY} thin d"))
    plot.note(task.DEEPEST - 0.7, words_at, "in training", "end")
    return plot
