"""Drawings of a memory that is a matrix: rows are numbers of a key, columns those of a value."""

from pylit.figures.draw import (
    WIDTH,
    Panel,
    arrow,
    box,
    element,
    grid,
    hook,
    letter,
    line,
    short,
    shown,
    square,
    text,
)

#: The roles, as tones of `pylit.figures.draw`.
KEY, VALUE, QUERY, GREY, MEMORY, ERROR = 1, 2, 3, 4, 5, 6

PEOPLE = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
SENTENCES = (("Ann", (3, 1)), ("Ben", (2, 4)), ("Ann", (1, 1)), ("Cleo", (5, 0)))
FRUITS = ("apples", "pears")
ROWS = ("Ann", "Ben")
#: Grounds of cells of the stage: of a 0, and what is added for the largest.
PALE, STRONG = 0.05, 0.35
#: What the script of the stage needs.
STAGE = {"pale": PALE, "strong": STRONG, "most": 5.0, "narrow": 2.0}


def draw_memory(x, y, rows, w=44.0, h=28.0, tone=MEMORY, names=ROWS, fruits=FRUITS, most=5.0):
    """A matrix: a row for each number of a key, a column for each number of a value."""
    parts = grid(x, y, rows, tone, w, h, most=most)
    parts += [text(x - 6, y + (i + 0.5) * h + 4, name, "end") for i, name in enumerate(names)]
    return parts + draw_fruits(x, y, w, fruits)


def draw_fruits(x, y, w, fruits=FRUITS):
    """The heads of its columns."""
    return [text(x + (j + 0.5) * w, y - 6, name, "middle") for j, name in enumerate(fruits)]


def draw_look(key, rows, answer, *, x=104.0, y=48.0, w=54.0, h=32.0, tone=KEY, hooks=False):
    """A key beside the rows of a memory, and below them what it finds."""
    name = "{}".format if hooks else lambda _: ""
    parts = draw_cells(x - 52, y, [[one] for one in key], tone, 38, h, name("key"), 2.0)
    parts += [text(x - 7, y + (i + 0.5) * h + 4, "×", "middle") for i in range(2)]
    parts += draw_cells(x, y, rows, MEMORY, w, h, name("memory"))
    parts += [
        text(x + 2 * w + 8, y + (i + 0.5) * h + 4, f"{one}’s row") for i, one in enumerate(ROWS)
    ]
    parts += draw_fruits(x, y, w)
    parts.append(line(x - 52, y + 2 * h + 6, x + 2 * w, y + 2 * h + 6, "g"))
    parts += draw_cells(x, y + 2 * h + 12, [answer], GREY, w, h, name("answer"))
    parts.append(text(x - 8, y + 2.5 * h + 16, "sum", "end"))
    return parts


def draw_cells(x, y, rows, tone, w, h, name="", most=5.0, change=""):
    """Cells, with a name for a script: that of their numbers; the grounds are ``NAME-ground``."""
    parts = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            left, top = x + j * w, y + i * h
            look = {"d": square(left + 1, top + 1, w - 2, h - 2)}
            look["fill_opacity"] = f"{_strength(value, most):.2f}"
            ground = element("path", f"k t{tone}", **look)
            parts.append(hook(ground, name and f"{name}-ground"))
            middle = top + (h / 2 + 4 if not change else h - 9)
            parts.append(hook(text(left + w / 2, middle, shown(value), classes="n"), name))
    return parts


def _strength(value, most):
    return PALE + STRONG * min(abs(value) / most, 1)


def sum_of(old, new):
    """What was there, and what is added: 3 − 2."""
    return f"{shown(old)} {'−' if new < -0.005 else '+'} {shown(abs(new))}"


def draw_chain(levels, x, width):
    """Boxes below each other, and a line from the second last memory to the box that writes.

    Each has words, a tone, a link, a symbol or none, and its numbers.
    """
    high, gap, half, parts = 28.0, 18.0, width / 2, []
    for i, (words, tone, link, symbol, numbers) in enumerate(levels):
        y = 2 + i * (high + gap)
        parts.append(box(x, y, width, high, words, tone, link))
        if symbol:
            parts.append(letter(x + half + 7, y + 18, *symbol))
        parts.append(text(x + half + (37 if symbol else 7), y + 18, numbers))
        if i:
            parts.append(arrow(x, y - gap, x, y - 2, f"l t{GREY}"))
    # What is read and what is written to are the same memory: three boxes above the one that asks.
    y, left = 2 + (len(levels) - 5) * (high + gap) + high / 2, x - half
    d = f"M{short(left)} {short(y)}H{short(left - 10)}v{short(3 * (high + gap))}h8m-4-4l4 4l-4 4"
    parts.append(element("path", f"l t{MEMORY} thick", d=d))
    return Panel(WIDTH, len(levels) * (high + gap) - gap + 4, tuple(parts))
