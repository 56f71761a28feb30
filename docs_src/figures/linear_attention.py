"""The memory of linear attention: written and read by hand, in three forms, and what it holds."""

import math

import torch
from torch.nn import functional as F

from docs_src.figures import performance
from docs_src.tasks import linear_attention as task
from docs_src.tasks import results
from labml_nn.recurrent.linear_attention import (
    feature_map,
    linear_attention_chunks,
    linear_attention_loop,
    linear_attention_table,
)
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
    Panel,
    Plane,
    Plot,
    Stage,
    Table,
    arrow,
    box,
    cell,
    element,
    frame,
    grid,
    hatch,
    hook,
    knot,
    letter,
    line,
    listed,
    polyline,
    shown,
    square,
    text,
    title,
    word,
)

#: The roles, as tones of `pylit.figures.draw`.
WEIGHT, KEY, VALUE, QUERY, GREY, STATE, OTHER = 0, 1, 2, 3, 4, 5, 6

#: Of the figure of what fits in: pairs, sizes of keys, different values, trials.
PAIRS, SIZES, CHOICES, TRIALS = (1, 2, 4, 8, 16, 32, 64), (4, 8, 16, 32), 64, 100

# --- Ann, Ben and Cleo --------------------------------------------------------------------------

NAMES, HAVE = ("Ann", "Ben", "Cleo"), ("apples", "pears")
KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
VALUES = torch.tensor([[3.0, 1.0], [2.0, 4.0], [5.0, 0.0]])
#: The strongest ground of a cell.
MOST = 6.0


def _memory(keys, values):
    """The memory after these pairs, made by the loop of the lesson."""
    zeros = torch.zeros(1, 1, keys.shape[1], values.shape[1])
    _, memory = linear_attention_loop(*(x[:, None, None] for x in (keys, keys, values)), zeros)
    return memory[0, 0]


def _column(x, y, numbers, tone, w=26.0, h=26.0):
    """A key or a query, beside the rows that it weighs."""
    return grid(x, y, [[number] for number in numbers], tone, w, h, most=1.5)


def _outer(x, y, key, value, w=38.0, h=26.0, *, most=MOST):
    """A pair, written: the key on the left, the value above, and their products between."""
    product = [[a * b for b in value] for a in key]
    return [
        *_column(x, y, key, KEY, 30.0, h),
        *grid(x + 34, y - h - 4, [value], VALUE, w, h, most=most),
        *grid(x + 34, y, product, STATE, w, h, most=most),
    ]


def _lists(*vectors):
    return ", ".join(listed(vector) for vector in vectors)


def memory():
    """Two sentences go into one matrix, and a query reads a row of it."""
    found = _memory(KEYS[:2], VALUES[:2])
    w, h, left, top = 80.0, 66.0, 268.0, 92.0
    right, parts = left + 2 * w, []
    for i, (name, *words) in enumerate(
        (("Ann", "3 apples", "1 pear"), ("Ben", "2 apples", "4 pears"))
    ):
        y = top + i * h
        parts.append(word(44, y + 44, name, size="big"))
        parts += [text(92, y + 27 + k * 30, one, classes="large") for k, one in enumerate(words)]
        parts.append(arrow(206, y + h / 2, left - 12, y + h / 2, f"l t{KEY} thick"))
        for j, value in enumerate(found[i].tolist()):
            x = left + j * w
            parts.append(cell(x + 1, y + 1, w - 2, h - 2, STATE, 0.06 + 0.34 * value / 4))
            parts.append(text(x + w / 2, y + 40, shown(value), "middle", "large on"))
    parts += [
        text(left + (j + 0.5) * w, top - 12, one, "middle", "large") for j, one in enumerate(HAVE)
    ]
    parts.append(text(226, 30, "write", "middle", "large"))
    parts.append(text(left + w, 30, "memory", "middle", f"large t{STATE}"))
    parts.append(text(450, 30, "read", "middle", f"large t{QUERY}"))
    parts.append(frame(left - 2, top - 2, 2 * w + 4, h + 4, QUERY))
    parts.append(word(535, top - 16, "Ann?", size="big"))
    parts.append(arrow(right + 10, top + h / 2, 468, top + h / 2, f"l t{QUERY} thick"))
    for j, value in enumerate(found[0].tolist()):
        x = 476.0 + j * 60
        parts.append(cell(x, top + 8, 58, h - 16, VALUE, 0.06 + 0.3 * value / 4))
        parts.append(text(x + 29, top + 40, shown(value), "middle", "large on"))
    return Figure(
        [Panel(600, 246, tuple(parts))],
        "Two sentences, Ann with 3 apples and 1 pear and Ben with 2 apples and 4 pears, lead into "
        f"a matrix with the rows {_lists(*found)}. The question Ann? leads from its first row to "
        f"{listed(found[0])}.",
    )


def growth():
    """What is kept after two, four and eight tokens."""
    side, x = 13.0, 62.0
    parts = [title("what is kept after 2, 4 and 8 tokens")]
    parts += [text(0, 44, "attention"), text(0, 110, "linear"), text(0, 124, "attention")]
    for count in (2, 4, 8):
        written = [[0.8 * count, 0.5 * count], [0.3 * count, 0.6 * count]]
        for row, tone in ((28, KEY), (46, VALUE)):
            parts += grid(x, row, [[1.0] * count], tone, side, 18, digits=0, most=1)
        parts += grid(x, 96, written, STATE, 18, 18, digits=0, most=8)
        parts.append(text(x, 154, f"{count} tokens"))
        x += max(count * side, 48) + 14
    parts.append(text(WIDTH, 82, "a key and a value for each", "end"))
    return Figure(
        [Panel(WIDTH, 160, tuple(parts))],
        "After 2, 4 and 8 tokens attention keeps 2, 4 and 8 keys and as many values. Linear "
        "attention keeps one matrix, always of the same size.",
    )


def written():
    """The two pairs as outer products, and their sum."""
    y, w, h = 70.0, 38.0, 28.0
    panels = []
    for i, name in enumerate(NAMES[:2]):
        parts = [title(f"{name} is written")]
        parts.append(letter(15, y - 12, ("k", KEY), at="middle"))
        parts.append(letter(120, y - 14, ("v", VALUE)))
        parts += _outer(0, y, KEYS[i].tolist(), VALUES[i].tolist(), w, h)
        after = _memory(KEYS[: i + 1], VALUES[: i + 1])
        parts.append(arrow(118, y + h, 176, y + h, f"l t{STATE} thick"))
        parts.append(text(146, y + h - 8, "add", "middle"))
        parts += grid(184, y, after.tolist(), STATE, w, h, most=MOST)
        parts.append(letter(222, y + 2 * h + 18, ("S", STATE), at="middle"))
        parts += [text(184 + (j + 0.5) * w, y - 8, one, "middle") for j, one in enumerate(HAVE)]
        panels.append(Panel(WIDTH, y + 2 * h + 24, tuple(parts)))
    both = _memory(KEYS[:2], VALUES[:2])
    return Figure(
        panels,
        f"Left, the key {listed(KEYS[0])} times the value {listed(VALUES[0])} has the rows (3, 1) "
        f"and (0, 0). Right, the key {listed(KEYS[1])} times the value {listed(VALUES[1])} has the "
        f"rows (0, 0) and (2, 4). The memory is their sum, {_lists(*both)}.",
    )


def _reading(x, y, query, rows, found, w=44.0, h=28.0, most=MOST):
    """A read: the query on the left weighs the rows, and their sum stands below."""
    return [
        *_column(x, y, query, QUERY, 34.0, h),
        text(x + 44, y + h + 4, "×", "middle", "on"),
        *grid(x + 54, y, rows, STATE, w, h, most=most),
        line(x + 54, y + 2 * h + 5, x + 54 + w * len(rows[0]), y + 2 * h + 5, "g"),
        *grid(x + 54, y + 2 * h + 9, [found], VALUE, w, h, most=most),
    ]


def read():
    """The query of Ann weighs the rows of the memory."""
    found = _memory(KEYS[:2], VALUES[:2])
    y, h = 44.0, 28.0
    parts = [title("Ann is read")]
    parts += _reading(16, y, [1.0, 0.0], found.tolist(), found[0].tolist())
    parts.append(letter(33, y - 8, ("q", QUERY), at="middle"))
    parts.append(letter(114, y - 8, ("S", STATE), at="middle"))
    for i, weight in enumerate((1, 0)):
        value = [weight * one for one in found[i].tolist()]
        words = f"{weight} · {listed(found[i])} = {listed(value)}"
        parts.append(text(172, y + (i + 0.5) * h + 4, words))
    parts.append(text(172, y + 2.5 * h + 13, f"sum: {listed(found[0])}", classes="sum"))
    return Figure(
        [Panel(WIDTH, y + 3 * h + 14, tuple(parts))],
        f"The query (1, 0) stands beside the rows {_lists(*found)}. Once the first and 0 times the "
        f"second is {listed(found[0])}.",
    )


def third():
    """Cleo's pair goes into both rows."""
    before, after = _memory(KEYS[:2], VALUES[:2]), _memory(KEYS, VALUES)
    y, w, h = 70.0, 30.0, 28.0
    parts = [title("Cleo is written")]
    parts += grid(0, y, before.tolist(), STATE, w, h, most=MOST)
    parts.append(text(76, y + h + 4, "+", "middle", "on"))
    parts += _outer(90, y, [0.6, 0.8], [5.0, 0.0], w, h)
    parts.append(text(200, y + h + 4, "=", "middle", "on"))
    parts += grid(216, y, after.tolist(), STATE, w, h, most=MOST)
    for x, words in ((30, "before"), (246, "after")):
        parts.append(text(x, y - 8, words, "middle"))
    parts.append(letter(105, y - 10, ("k", KEY), at="middle"))
    parts.append(letter(192, y - 14, ("v", VALUE)))
    return Figure(
        [Panel(WIDTH, y + 2 * h + 6, tuple(parts))],
        f"The memory {_lists(*before)}, plus the key (0.6, 0.8) times the value (5, 0), with the "
        f"rows (3, 0) and (4, 0), is {_lists(*after)}.",
    )


def asked():
    """What each of the three finds, as a sum of all values."""
    found = KEYS @ _memory(KEYS, VALUES)
    weights = KEYS @ KEYS.T
    x, y, w, h = 38.0, 60.0, 40.0, 28.0
    first = [title("weights: query · key")]
    first += grid(x, y, weights.tolist(), WEIGHT, w, h, most=1.2)
    for i, name in enumerate(NAMES):
        first.append(text(x - 6, y + (i + 0.5) * h + 4, name, "end", f"t{QUERY}"))
        first.append(text(x + (i + 0.5) * w, y - 8, name, "middle", f"t{KEY}"))
    first.append(text(x + 1.5 * w, y - 26, "key of", "middle", f"t{KEY}"))
    first.append(frame(x - 1, y - 1, 3 * w + 2, h + 2, QUERY))
    first.append(text(x + 3 * w + 14, y + 1.5 * h + 4, "×", "middle", "on"))
    first += grid(x + 3 * w + 30, y, VALUES.tolist(), VALUE, 40, h, most=MOST)
    middle = x + 3 * w + 70
    first.append(text(middle, y - 8, "values", "middle", f"t{VALUE}"))
    second = [title("what they find, and what they have")]
    second.append(text(12, y + 1.5 * h + 4, "=", "middle", "on"))
    for column, words in ((110, "found"), (218, "has")):
        second.append(text(column, y - 8, words, "middle"))
    for i, name in enumerate(NAMES):
        second.append(text(52, y + (i + 0.5) * h + 4, name, "end", f"t{QUERY}"))
    second += grid(60, y, found.tolist(), VALUE, 50, h, most=8.4)
    second += grid(178, y, VALUES.tolist(), GREY, 40, h, most=12)
    return Figure(
        [Panel(WIDTH, y + 3 * h + 4, tuple(first)), Panel(WIDTH, y + 3 * h + 4, tuple(second))],
        f"Left, the dot products of queries and keys, {_lists(*weights)}, times the values "
        f"{_lists(*VALUES)}. Right, what is found, {_lists(*found)}, beside what each one has.",
    )


def directions():
    """The keys as directions, and how much two of them have in common."""
    plane = Plane((-0.2, 1.2), (-0.15, 1.15), 112.0, 16.0, 20.0)
    parts = [title("keys as directions")]
    x0, y0 = plane.at(0, 0)
    parts += [line(*plane.at(-0.2, 0), *plane.at(1.2, 0), "g")]
    parts += [line(*plane.at(0, -0.15), *plane.at(0, 1.15), "g")]
    x, y = plane.at(0.6, 0.8)
    parts.append(line(x, y, x, y0, f"l t{WEIGHT} d thin"))
    parts.append(line(x, y, x0, y, f"l t{WEIGHT} d thin"))
    parts += [plane.vector(*key, KEY) for key in KEYS.tolist()]
    at = plane.at(1, 0)
    parts.append(text(at[0], at[1] + 15, "Ann", "middle", "on"))
    at = plane.at(0, 1)
    parts.append(text(at[0] + 9, at[1] + 4, "Ben", classes="on"))
    parts.append(text(x + 8, y + 4, "Cleo", classes="on"))
    parts.append(text(x, y0 + 15, "0.6", "middle", f"t{WEIGHT}"))
    parts.append(text(x0 - 5, y + 4, "0.8", "end", f"t{WEIGHT}"))
    corner = 10
    parts.append(
        element(
            "path",
            f"l t{GREY} thin",
            d=polyline([(x0 + corner, y0), (x0 + corner, y0 - corner), (x0, y0 - corner)]),
        )
    )
    words = (
        ("Ann · Ben = 0", "each its own alone"),
        ("Ann · Cleo = 0.6", "0.6 of the other, too"),
        ("Ben · Cleo = 0.8", "0.8 of the other, too"),
    )
    for i, (first, second) in enumerate(words):
        parts.append(text(174, 58 + i * 42, first, classes="on"))
        parts.append(text(174, 73 + i * 42, second, classes="s"))
    return Figure(
        [Panel(WIDTH, 172, tuple(parts))],
        "Three keys as arrows of length 1: those of Ann and Ben at right angles, and Cleo's "
        "between them. Its dot product with Ann's is 0.6 and with Ben's 0.8; that of Ann's and "
        "Ben's is 0.",
    )


def _shape(x, y, rows, columns, tone, name, size, side=13.0):
    """A matrix without numbers with its middle at `y`, its name above and its size below."""
    middle, half = x + columns * side / 2, rows * side / 2
    look = {"digits": 0, "most": 1.6}
    return [
        *grid(x, y - half, [[1.0] * columns] * rows, tone, side, side, **look),
        letter(middle, y - half - 8, (name, tone), at="middle"),
        text(middle, y + half + 15, size, "middle"),
    ]


def brackets():
    """The same product in two orders, with what the product in brackets is."""
    panels, factors = [], ((3, 2, QUERY, "Q"), (2, 3, KEY, "Kᵀ"), (3, 2, VALUE, "V"))
    for table in (False, True):
        parts = [title("… or first the weights" if table else "first the memory …")]
        first, x, y, low = (0 if table else 1), 50.0, 66.0, 168.0
        ends, third = [], ()
        for i, (rows, columns, tone, name) in enumerate(factors):
            if i == first:
                parts.append(text(x - 4, y + 6, "(", "end", "big on"))
                ends.append(x)
            parts += _shape(x, y, rows, columns, tone, name, "")
            if i not in (first, first + 1):
                third = (x, rows, columns, tone, name)
            x += columns * 13
            if i == first + 1:
                parts.append(text(x + 4, y + 6, ")", "start", "big on"))
                ends.append(x)
            x += 26
        # What is in brackets is made first; the third factor comes down to it.
        middle = sum(ends) / 2
        left, right = ends
        parts.append(line(left, y + 34, right, y + 34, f"l t{GREY}"))
        parts.append(arrow(middle, y + 34, middle, y + 56, f"l t{GREY}"))
        made = (3, 3, WEIGHT, "weights") if table else (2, 2, STATE, "S")
        size = "3×3: grows with the text" if table else "2×2: always"
        parts += _shape(middle - made[1] * 8, low, *made, size, 16.0)
        x, rows, columns, tone, name = third
        parts += _shape(x, low, rows, columns, tone, name, "")
        panels.append(Panel(WIDTH, low + 46, tuple(parts)))
    return Figure(
        panels,
        "Queries, keys as columns, and values. Left, the last two are in brackets, and an arrow "
        "leads from them to the memory, always 2 by 2. Right, the first two are, which gives the "
        "weights, 3 by 3 for three tokens.",
    )


def average():
    """What is found without a division, and with it, among what the three have."""
    total = KEYS[0] @ _memory(KEYS, VALUES)
    mean = total / (KEYS @ KEYS[0]).sum()
    plane = Plane((0, 7), (0, 4), 34.0, 22.0, 46.0)
    parts = [title("what Ann’s query finds"), *plane.axes()]
    parts.append(text(0, 32, "pears"))
    parts.append(text(WIDTH, plane.at(0, 0)[1] + 30, "apples", "end"))
    parts.append(line(*plane.at(3, 1), *plane.at(5, 0), f"l t{GREY} d"))
    near = (mean + 0.09 * (total - mean)).tolist()
    parts.append(arrow(*plane.at(*total.tolist()), *plane.at(*near), f"l t{WEIGHT}"))
    x, y = plane.at(4.72, 0.3)
    parts.append(text(x, y, "/ 1.6", "middle", f"t{WEIGHT} halo"))
    for name, value, dx, at in zip(
        NAMES, VALUES.tolist(), (-9, 9, 9), ("end", "start", "start"), strict=True
    ):
        x, y = plane.at(*value)
        parts += [plane.point(*value, VALUE), text(x + dx, y - 6, name, at, "on halo")]
    for value, words, dx, dy, at in (
        (total, f"sum {listed(total)}", 0, -12, "middle"),
        (mean, f"average ({mean[0]:g}, {mean[1]:g})", -9, 10, "end"),
    ):
        x, y = plane.at(*value.tolist())
        parts.append(element("circle", f"f t{STATE}", cx=x, cy=y, r=5.5))
        parts.append(text(x + dx, y + dy, words, at, "on halo"))
    return Figure(
        [Panel(WIDTH, 218, tuple(parts))],
        f"A plane of apples and pears. Ann {listed(VALUES[0])}, Ben {listed(VALUES[1])} and Cleo "
        f"{listed(VALUES[2])} are points. The sum {listed(total)} lies outside of them, the "
        f"average {listed(mean, 3)} on the line from Ann to Cleo.",
    )


def normaliser():
    """The memory with a third column, the sum of all keys, and the division."""
    ones = torch.cat([VALUES, torch.ones(3, 1)], 1)
    found = _memory(KEYS, ones)
    total = KEYS[0] @ found
    y, w, h = 44.0, 44.0, 28.0
    parts = _reading(16, y, [1.0, 0.0], found.tolist(), total.tolist(), w, h)
    for j, one in enumerate((*HAVE, "1")):
        parts.append(text(70 + (j + 0.5) * w, y - 8, one, "middle"))
    parts.append(text(214, y + h + 4, "z: all keys", classes=f"t{STATE}"))
    parts.append(text(214, y + 2.5 * h + 13, "all weights", classes=f"t{WEIGHT}"))
    parts.append(frame(70 + 2 * w - 1, y - 1, w + 2, 3 * h + 13, WEIGHT))
    low = y + 3 * h + 36
    parts.append(
        text(70, low, f"{listed(total[:2])} / {shown(total[2])} = (3.75, 0.625)", classes="sum")
    )
    return Figure(
        [Panel(WIDTH, low + 8, (title("one more column"), *parts))],
        f"The memory has a third column, {listed(found[:, 2])}. The query (1, 0) finds "
        f"{listed(total)}, and {listed(total[:2])} divided by {shown(total[2])} is (3.75, 0.625).",
    )


def positive():
    """The feature map, and two keys that are nearly at right angles behind it."""
    plot = Plot(
        (-5, 5),
        (0, 6),
        title="φ(x) = elu(x) + 1",
        x_label="x",
        height=130,
        x_ticks=(-5, 0, 5),
        y_ticks=(0, 1, 3, 6),
    )
    xs = [i / 10 for i in range(-50, 51, 2)]
    plot.line(xs, feature_map(torch.tensor(xs)).tolist(), GREY)
    for x in (-5.0, 5.0):
        value = feature_map(torch.tensor(x)).item()
        cx, cy = plot.at(x, value)
        plot.add(element("circle", f"f t{KEY}", cx=cx, cy=cy, r=4.5))
        plot.add(
            text(
                cx + (8 if x < 0 else -10),
                cy + (-8 if x < 0 else 4),
                f"{shown(x)} → {shown(value, 3 if x < 0 else None)}",
                "start" if x < 0 else "end",
                "on halo",
            )
        )
    raw = torch.tensor([[5.0, -5.0], [-5.0, 5.0]])
    features = feature_map(raw)
    products = features @ features.T
    y, w, h = 44.0, 52.0, 28.0
    parts = [title("two keys that hardly meet")]
    for i, name in enumerate(NAMES[:2]):
        top = y + i * 40
        parts.append(text(0, top + 18, name))
        parts += grid(34, top, [raw[i].tolist()], GREY, 36, h, most=12)
        parts.append(arrow(112, top + 14, 144, top + 14, f"l t{GREY}"))
        parts.append(letter(128, top + 8, ("φ", None), at="middle"))
        parts += grid(150, top, [features[i].tolist()], KEY, w, h, digits=0)
        for j, value in enumerate(features[i].tolist()):
            number = shown(value, None if value > 1 else 3)
            parts.append(text(150 + (j + 0.5) * w, top + h / 2 + 4, number, classes="n"))
    low = y + 104
    parts.append(text(0, low, f"Ann · Ann = {products[0, 0]:.0f}", classes="sum"))
    parts.append(text(140, low, f"Ann · Ben = {products[0, 1]:.2f}", classes="sum"))
    return Figure(
        [plot.panel(), Panel(WIDTH, low + 8, tuple(parts))],
        "Left, the curve of φ: close to 0 for negative numbers, then a straight line from 1 "
        f"upwards. Right, φ makes {listed(features[0], 3)} of (5, −5) and {listed(features[1], 3)} "
        f"of (−5, 5). Their dot product is {products[0, 1]:.2f}, and that of each with itself "
        f"{products[0, 0]:.0f}.",
    )


def diagram():
    """The upper line is the memory: an outer product is added, and a query reads from it."""
    top, low, add, read_at = 50, 132, 98, 190
    parts = []
    for x, below in ((8, "before"), (134, "after")):
        for left, wide, name in ((x, 28, "S"), (x + 29, 12, "z")):
            size = {"x": left, "y": top - 15, "width": wide, "height": 30}
            parts.append(element("rect", f"f t{STATE}", **size, fill_opacity="0.2"))
            parts.append(letter(left + wide / 2, top + 5, (name, STATE), at="middle"))
        parts.append(text(x + 20, top + 31, below, "middle"))
    parts += [
        arrow(51, top, add - 11, top, f"l t{STATE} thick"),
        arrow(add + 11, top, 132, top, f"l t{STATE} thick"),
        arrow(177, top, 282, top, f"l t{STATE} thick"),
        box(add, 92, 50, 24, "kᵀ v", STATE, "#linear_attention_loop"),
        arrow(add, 92, add, top + 12, f"l t{STATE}"),
        arrow(add - 14, low + 12, add - 14, 118, f"l t{KEY}"),
        arrow(add + 14, low + 12, add + 14, 118, f"l t{VALUE}"),
        letter(add - 16, low + 27, ("φ(k)", KEY), at="middle"),
        letter(add + 22, low + 27, ("v, 1", VALUE), at="middle"),
        arrow(read_at + 10, top, read_at + 10, 90, f"l t{STATE}"),
        box(read_at + 10, 92, 50, 24, "q S, q z", VALUE, "#linear_attention_loop"),
        arrow(read_at + 10, low + 12, read_at + 10, 118, f"l t{QUERY}"),
        letter(read_at + 10, low + 27, ("φ(q)", QUERY), at="middle"),
        arrow(read_at + 36, 104, read_at + 48, 104, f"l t{VALUE}"),
        box(read_at + 61, 92, 24, 24, "÷", WEIGHT, "#LinearAttention"),
        arrow(read_at + 61, 116, read_at + 61, low + 12, f"l t{VALUE}"),
        letter(read_at + 61, low + 27, ("y", VALUE), at="middle"),
        knot(add, top, "+", STATE, 10),
        text(add, 18, "write", "middle", "h"),
        text(read_at + 10, 18, "read", "middle", "h"),
        text(read_at + 61, 18, "divide", "middle", "h"),
    ]
    return Figure(
        [Panel(WIDTH, low + 34, tuple(parts))],
        "The upper line leads from the memory before, S with the column z, to the memory after. On "
        "it the outer product of the key k, behind φ, and of the value v with a 1 is added. Behind "
        "it the query q reads both: q S is divided by q z and gives the output y.",
    )


# --- The stage ----------------------------------------------------------------------------------

#: What four tokens write; the last one is Ann once more, after she has eaten two apples.
TOKENS = ("Ann", "Ben", "Cleo", "Ann")
WRITTEN = ((3.0, 1.0), (2.0, 4.0), (5.0, 0.0), (1.0, 1.0))
CHUNKS = (1, 2, 4)
#: Grounds of cells: of a number of 0, what is added for the largest one, and the largest ones.
LOOK = {"pale": 0.05, "strong": 0.35, "most": 8, "unit": 1.2}


def _keys(cleo=0.6):
    """The keys of the four tokens, for the first number of Cleo's."""
    return torch.tensor([[1.0, 0.0], [0.0, 1.0], [cleo, math.sqrt(1 - cleo * cleo)], [1.0, 0.0]])


def _computed(cleo=0.6, chunk=2):
    """What the three forms of the lesson find for the four tokens: sums and the sum of weights."""
    keys = _keys(cleo)[:, None, None]
    ones = torch.cat([torch.tensor(WRITTEN), torch.ones(4, 1)], 1)[:, None, None]
    zeros = torch.zeros(1, 1, 2, 3)
    forms = (
        linear_attention_table(keys, keys, ones, zeros),
        linear_attention_loop(keys, keys, ones, zeros),
        linear_attention_chunks(keys, keys, ones, zeros, chunk),
    )
    return [found[:, 0, 0] for found, _ in forms]


def _live(x, y, rows, tone, name, w=34.0, h=24.0, *, most=None, hide=()):
    """Cells that the script of the stage fills; those of `hide` are empty at first."""
    most = most or LOOK["most"]
    found = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            left, top = x + j * w, y + i * h
            strength = LOOK["pale"] + LOOK["strong"] * min(abs(value) / most, 1)
            empty, place = (i, j) in hide, square(left + 1, top + 1, w - 2, h - 2)
            look = {"d": place, "fill_opacity": f"{strength:.2f}", "opacity": "0" * empty}
            found.append(element("path", f"k t{tone}", **look, data_p=f"{name}_"))
            words = "" if empty else shown(value)
            at = left + w / 2, top + h / 2 + 4
            found.append(hook(element("text", "n", words or " ", x=at[0], y=at[1]), name))
    return found


def stage():
    """Four tokens, in three forms that give the same."""
    panels = [_table_panel(), _loop_panel(), _chunks_panel(), *_answer_panels()]
    sizes = *[(300, 222)] * 3, (168, 148), (110, 148)
    total = _computed()[0][0].tolist()
    return Figure(
        [Panel(*size, tuple(parts)) for size, parts in zip(sizes, panels, strict=True)],
        "Five panels, for the token Ann: the table of weights with its first row framed, the "
        "memory to which the pair is added and which the query reads, the same by chunks of two "
        f"tokens, and what all three find, {listed(total)}.",
        stage=Stage(
            "linear_attention",
            [
                Knob("cleo", "Cleo's key, its first number", 0, 1, 0.1, 0.6),
                Choice("chunk", "Tokens of a chunk", [str(n) for n in CHUNKS], 1),
            ],
            {"tokens": TOKENS, "values": WRITTEN, "chunks": CHUNKS, **LOOK},
            "After token 1, Ann, all three find (3, 1), and the sum of the weights is 1. "
            "The average is (3, 1); written was (3, 1).",
            [f"{name}{' again' * (i == 3)}" for i, name in enumerate(TOKENS)],
        ),
    )


def _table_panel():
    w, h, x, y, v, u = 29.0, 26.0, 38.0, 50.0, 174.0, 37.0
    keys = _keys()
    parts = [title("table")]
    weights = (keys @ keys.T).tolist()
    for i, name in enumerate(TOKENS):
        parts.append(text(x - 6, y + (i + 0.5) * h + 4, name, "end", f"t{QUERY}"))
        parts.append(text(x + (i + 0.5) * w, y - 8, name, "middle", f"t{KEY}"))
        for j in range(i + 1, 4):
            parts.append(hatch(x + j * w + 1, y + i * h + 1, w - 2, h - 2))
        row = [weights[i][: i + 1]]
        parts += _live(x, y + i * h, row, WEIGHT, "weight", w, h, most=LOOK["unit"])
        parts.append(
            hook(
                frame(x - 1, y + i * h - 1, (i + 1) * w + 2, h + 2, QUERY).replace(
                    "<rect", f'<rect stroke-opacity="{int(not i)}"'
                ),
                "row",
            )
        )
    parts.append(text(x + 4 * w + 10, y + 2 * h + 4, "×", "middle", "on"))
    for i, value in enumerate(WRITTEN):
        parts += grid(v, y + i * h, [[*value, 1.0]], VALUE, u, h, most=LOOK["most"])
    for j, words in enumerate((*HAVE, "1")):
        parts.append(text(v + (j + 0.5) * u + 4 * (j - 1), y - 8, words, "middle"))
    low = y + 4 * h + 22
    parts.append(text(v - 8, low + 16, "framed row × values", "end"))
    parts += _live(v, low, [[3.0, 1.0, 1.0]], VALUE, "by-table", u, h)
    parts.append(line(v, y + 4 * h + 8, v + 3 * u, y + 4 * h + 8, "g"))
    return parts


def _loop_panel():
    w, h = 32.0, 24.0
    parts = [title("loop")]
    y = 52.0
    parts += _live(4, y, [[0.0] * 3] * 2, STATE, "before", w, h)
    parts.append(text(52, y - 8, "memory before", "middle"))
    parts.append(text(115, y + h + 4, "+", "middle", "on"))
    parts += _live(130, y, [[1.0], [0.0]], KEY, "key", 32, h, most=LOOK["unit"])
    parts += _live(168, y - h - 4, [[3.0, 1.0, 1.0]], VALUE, "value", w, h)
    parts += _live(168, y, [[3.0, 1.0, 1.0], [0.0] * 3], STATE, "outer", w, h)
    parts.append(text(146, y - 8, "key", "middle", f"t{KEY}"))
    parts.append(text(216, y - h - 9, "value", "middle", f"t{VALUE}"))
    low = 130.0
    parts.append(text(160, low - 8, "=", "end", "on"))
    parts.append(text(216, low - 8, "memory after", "middle", f"t{STATE}"))
    parts += _live(130, low, [[1.0], [0.0]], QUERY, "query", 32, h, most=LOOK["unit"])
    parts += _live(168, low, [[3.0, 1.0, 1.0], [0.0] * 3], STATE, "after", w, h)
    parts.append(text(124, low + h + 4, "query", "end", f"t{QUERY}"))
    parts.append(line(168, low + 2 * h + 6, 168 + 3 * w, low + 2 * h + 6, "g"))
    parts.append(text(160, low + 2 * h + 28, "query × memory after", "end"))
    parts += _live(168, low + 2 * h + 12, [[3.0, 1.0, 1.0]], VALUE, "by-loop", w, h)
    return parts


def _chunks_panel():
    w, h, y = 29.0, 24.0, 70.0
    parts = [title("chunks")]
    for i, name in enumerate(TOKENS):
        x = 72.0 + i * 54
        own = i < 2
        ground = {"d": square(x + 1, 4, 52, 24), "fill_opacity": "0.04" if i else "0.4"}
        tone = WEIGHT if own else GREY
        parts.append(element("path", f"k t{tone}", **ground, data_p="place"))
        parts.append(text(x + 27, 21, name, "middle"))
        if i:
            stroke = line(x, 0, x, 34, f"l t{GREY} thick")
            shown_ = 1 if i == 2 else 0
            parts.append(hook(stroke.replace("<path", f'<path stroke-opacity="{shown_}"'), "cut"))
    parts.append(text(60, y - 24, "chunks before", "middle", f"t{STATE}"))
    parts.append(text(60, y - 9, "memory", "middle"))
    parts += _live(0, y, [[1.0], [0.0]], QUERY, "ask", 28, h, most=LOOK["unit"])
    parts += _live(32, y, [[0.0] * 3] * 2, STATE, "kept", w, h)
    low = y + 4 * h + 8
    parts.append(line(32, low - 3, 32 + 3 * w, low - 3, "g"))
    parts += _live(32, low, [[0.0] * 3], VALUE, "part-memory", w, h)
    parts.append(text(225, y - 24, "own chunk", "middle", f"t{WEIGHT}"))
    parts.append(text(172, y - 9, "weights", "middle"))
    parts.append(text(244, y - 9, "values", "middle"))
    parts.append(text(136, low + 16, "+", "middle", "on"))
    hide = {(i, j) for i in range(1, 4) for j in range(3)}
    parts += _live(
        158, y, [[1.0], [0.0], [0.0], [0.0]], WEIGHT, "near", 30, h, most=LOOK["unit"], hide=hide
    )
    parts += _live(200, y, [[3.0, 1.0, 1.0]] * 4, VALUE, "own", w, h, hide=hide)
    parts.append(line(200, low - 3, 200 + 3 * w, low - 3, "g"))
    parts += _live(200, low, [[3.0, 1.0, 1.0]], VALUE, "part-own", w, h)
    parts.append(text(144, low + 44, "=", "middle", "on"))
    parts += _live(158, low + 28, [[3.0, 1.0, 1.0]], VALUE, "by-chunks", 43, h)
    return parts


def _answer_panels():
    w, h, x, y = 36.0, 26.0, 46.0, 50.0
    parts = [title("all three")]
    for j, words in enumerate((*HAVE, "weights")):
        parts.append(text(x + (j + 0.5) * w + (-5, 3, 12)[j], y - 8, words, "middle"))
    for i, name in enumerate(("table", "loop", "chunks")):
        parts.append(text(x - 4, y + (i + 0.5) * h + 4, name, "end"))
        parts += _live(x, y + i * h, [[3.0, 1.0]], VALUE, f"sum-{name}", w, h)
        parts.append(text(x + 2 * w + 6, y + (i + 0.5) * h + 4, "/", "middle", "on"))
        parts += _live(x + 2 * w + 12, y + i * h, [[1.0]], WEIGHT, f"all-{name}", w, h, most=4)
    divided = [title("divided")]
    for top, name, words, tone in (
        (y, "mean", "average", VALUE),
        (y + 2.5 * h, "has", "was written", GREY),
    ):
        divided.append(text(48, top - 8, words, "middle"))
        divided += _live(0, top, [[3.0, 1.0]], tone, name, 48, h)
    return parts, divided


# --- Forms, neighbours ---------------------------------------------------------------------------

#: Tokens of the drawing of the three forms, and of a chunk.
LENGTH, CHUNK = 12, 4


def forms():
    """What each token computes in the three forms, and what that sums to for longer texts."""
    panels, counts = [], []
    side, top = 106 / LENGTH, 22.0
    for name, chunk in (("table", LENGTH), ("loop", 0), ("chunks", CHUNK)):
        parts, direct, reads, writes, weights = [title(name)], "", "", "", 0
        for t in range(LENGTH):
            begin, y = (t // chunk * chunk if chunk else t + 1), top + t * side
            for s in range(begin, t + 1):
                direct += square(26 + (s - begin) * side * 80 / 106, y + 0.5, 6.2, side - 1)
                weights += 1
            if name != "table":
                writes += square(1, y + 0.5, side - 1, side - 1)
            if begin:
                reads += square(12, y + 0.5, side - 1, side - 1)
        counts.append(f"{name}: {weights} weights, {reads.count('M')} reads of the memory")
        parts.append(element("path", f"k t{KEY}", d=writes, fill_opacity=".4") if writes else "")
        parts.append(element("path", f"k t{STATE}", d=reads, fill_opacity=".4") if reads else "")
        parts.append(element("path", f"k t{WEIGHT}", d=direct, fill_opacity=".6") if direct else "")
        told = [f"{weights} weights"] * bool(weights)
        if reads:
            told += [f"{writes.count('M')} writes, {reads.count('M')} reads"]
        parts += [text(0, top + 124 + 15 * i, words) for i, words in enumerate(told)]
        panels.append(Panel(112, top + 145, tuple(parts)))
    plot = Plot(
        (0, 512),
        (0, 1.4),
        title="multiplications, in millions",
        x_label="tokens",
        height=112,
        x_ticks=(64, 256, 512),
        y_ticks=(0, 0.5, 1),
    )
    for (name, tone), place in zip(
        (("table", WEIGHT), ("chunks", GREY), ("loop", STATE)),
        ((140, 1.0), (450, 0.85), (512, 0.4)),
        strict=True,
    ):
        found = [_products(name, length) / 1e6 for length in TEXTS]
        inside = [(length, much) for length, much in zip(TEXTS, found, strict=True) if much < 1.4]
        plot.line(*zip(*inside, strict=True), tone)
        plot.add(text(*plot.at(*place), name, "end", f"t{tone} halo"))
    panels.append(plot.panel())
    ends = ", ".join(f"{name} {_products(name, 512):,}" for name in ("table", "loop", "chunks"))
    return Figure(
        panels,
        f"Three pictures of {LENGTH} tokens, one below the other, with blue cells for weights and "
        f"others for reads and writes. {'; '.join(counts)}. Then curves of all products: that of "
        f"the table bends upwards, the others are straight. With 512 tokens: {ends}.",
    )


#: Lengths of texts, the numbers of a key and of a value, and the tokens of a chunk, as measured.
TEXTS, NUMBERS, PIECE = range(0, 513, 16), 16, 64


def _products(form, length):
    """Products of numbers that a form computes for a text, as the lesson counts them."""
    if form == "table":
        return length**2 * 2 * NUMBERS
    inside = length * PIECE * 2 * NUMBERS if form == "chunks" else 0
    return inside + 2 * length * NUMBERS**2


def neighbours():
    """A value is written under the key of the token before it."""
    parts, xs, w = [title("what is written, and where")], (40.0, 104.0, 180.0, 244.0), 60.0
    names = ("Ann", "3", "Ben", "2")
    for x, name in zip(xs, names, strict=True):
        parts.append(word(x, 48, name, size="mid"))
    for t in (1, 2, 3):
        asked, y = t != 2, 80.0 if t != 2 else 138.0
        middle = (xs[t - 1] + xs[t]) / 2
        for at, left, tone, words in (
            (t - 1, middle - w - 1, KEY, f"key {names[t - 1]}"),
            (t, middle + 1, VALUE, f"value {names[t]}"),
        ):
            if asked:
                parts.append(arrow(xs[at], 56, xs[at], 76, f"l t{tone} thick"))
            parts.append(cell(left, y, w, 26, tone, 0.2, "" if asked else "far"))
            parts.append(text(left + w / 2, y + 17, words, "middle", "on" if asked else ""))
        edge = frame(middle - w - 4, y - 3, 2 * w + 8, 32, STATE if asked else GREY)
        parts.append(edge)
    # Which token writes the pair.
    for x, y, name in ((72, 122, "3"), (212, 122, "2"), (142, 180, "Ben")):
        asked = "" if name != "Ben" else "; nobody asks for it"
        parts.append(text(x, y, f"written at {name}{asked}", "middle"))
    taps = [
        title("four learned numbers for each feature"),
        *grid(46, 44, [[0.0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]], GREY, 54, 28, most=2),
    ]
    for i, words in enumerate(("3 back", "2 back", "before", "itself")):
        taps.append(text(46 + (i + 0.5) * 54, 36, words, "middle"))
    for i, (words, tone) in enumerate((("key", KEY), ("query", QUERY), ("value", VALUE))):
        taps.append(text(40, 44 + (i + 0.5) * 28 + 4, words, "end", f"t{tone}"))
    return Figure(
        [Panel(WIDTH, 186, tuple(parts)), Panel(WIDTH, 134, tuple(taps))],
        "Left, the tokens Ann, 3, Ben, 2: arrows lead from Ann and 3 to a pair of the key of Ann "
        "and the value of 3, and in the same way for Ben and 2. Below, pale, the key of 3 and the "
        "value of Ben. Right, the numbers of the last four tokens: 0, 0, 1, 0 for a key, and "
        "0, 0, 0, 1 for a query and for a value.",
    )


# --- The task -----------------------------------------------------------------------------------

TONES = {"attention": GREY, "linear attention": STATE, "LSTM": OTHER}
BOOK = ("ann", "ben", "cleo", "dan", "eve"), (3, 7, 1, 7, 4)
ASKED = 1


def book():
    """A telephone book as the task has them, and its question."""
    parts, step, y = [title("a book of five pairs, and its question")], 48.0, 26.0
    (names, digits), words = BOOK, []
    for i, name in enumerate((*names, names[ASKED])):
        x, last = i * step, i == len(names)
        digit = "?" if last else str(digits[i])
        words.append(f"{name} {digit}")
        for top, tone in ((y, KEY), (y + 28, VALUE)):
            parts.append(cell(x, top, step - 5, 25, QUERY if last else tone, 0.18))
        parts.append(word(x + (step - 5) / 2, y + 18, name))
        parts.append(text(x + (step - 5) / 2, y + 45, digit, "middle", "on"))
    parts.append(text(5 * step + 21, y + 78, str(digits[ASKED]), "middle", f"sum t{VALUE}"))
    parts.append(text(5 * step + 4, y + 78, "answer", "end"))
    return Figure(
        [Panel(WIDTH, y + 86, tuple(parts))],
        f"A book of five pairs and its question: {', '.join(words)}. The answer is "
        f"{digits[ASKED]}.",
    )


def found_by_pairs():
    """The share of right answers by the number of pairs, five seeds of each model."""
    found = results("linear_attention", "by_pairs")
    logs = [math.log2(pairs) for pairs in task.TESTED]
    plot = Plot(
        (0, logs[-1]),
        (0, 1.05),
        title="right answers, five seeds each",
        x_label="pairs in the book, on a logarithmic scale",
        height=170,
        x_ticks=(),
        y_ticks=(0.1, 0.5, 1),
    )
    for at, pairs in zip(logs, task.TESTED, strict=True):
        if at == int(at):
            x, y = plot.at(at, 0)
            plot.add(text(min(x, WIDTH - 8), y + 14, str(pairs), "middle"))
    for model, runs in found.items():
        for run in runs:
            plot.line(logs, run, TONES[model])
    for x, y, model in (
        (3.0, 1.04, "attention"),
        (3.3, 0.78, "linear attention"),
        (1.6, 0.2, "LSTM"),
    ):
        plot.add(text(*plot.at(x, y), model, classes=f"t{TONES[model]} halo"))
    last = {model: [run[-1] for run in runs] for model, runs in found.items()}
    rows = []
    for model, runs in found.items():
        columns = zip(*runs, strict=True)
        rows.append([model, *(f"{min(one):.2f} to {max(one):.2f}" for one in columns)])
    return Figure(
        [plot.panel()],
        f"The share of right answers from 1 pair to {task.MOST}. With {task.MOST} pairs it is "
        + ", ".join(f"{min(runs):.2f} to {max(runs):.2f} ({model})" for model, runs in last.items())
        + ".",
        Table(["pairs", *map(str, task.TESTED)], rows),
    )


#: Where the names of the two curves stand, in tokens and in the units of the plots.
LABELS = {
    ("attention", "bytes"): (3000, 2000),
    ("linear attention", "bytes"): (1500, 90),
    ("attention", "ms"): (3600, 0.29),
    ("linear attention", "ms"): (2200, 0.15),
}


def cost():
    """What one more token takes, in bytes and in milliseconds, as it was measured."""
    _, rows = performance._read("mixers", "tokens")
    panels, said = [], []
    for name, most, unit in (("bytes", 2200, "kilobytes"), ("ms", 0.32, "milliseconds")):
        plot = Plot(
            (0, 4096),
            (0, most),
            title="state, in kilobytes" if name == "bytes" else "one more token, in milliseconds",
            x_label="tokens read before",
            height=120,
            x_ticks=(256, 1024, 4096),
        )
        for model, tone in (("attention", GREY), ("linear attention", STATE)):
            own = {row["length"]: row[name] for row in rows if row["form"] == model}
            values = [value / 1000 if name == "bytes" else value for value in own.values()]
            plot.line(list(own), values, tone)
            plot.dots(list(own), values, tone)
            last = values[-1]
            words = f"{model}: {last:,.0f}" if last > 100 else f"{model}: {last:.2g}"
            # Where no line passes: the list left of its steep line, the matrix near its own.
            x, y = plot.at(*LABELS[model, name])
            plot.add(text(x, y, words, "end" if model == "attention" else "start", f"t{tone}"))
            said.append(f"{model} {values[0]:.2g} to {last:,.4g} {unit}")
        panels.append(plot.panel())
    return Figure(
        panels,
        f"After 256 to 4,096 tokens: {'; '.join(said)}.",
    )


def never_replaced():
    """The second value of Ann is added to the first."""
    first, second = VALUES[0], torch.tensor(WRITTEN[3])
    total, w, h, y = first + second, 44.0, 28.0, 44.0
    parts, x = [title("Ann is written twice, without Cleo")], 0.0
    for words, value, sign in (
        ("before", first, "+"),
        ("written", second, "="),
        ("sum", total, ""),
    ):
        parts.append(text(x + w, y - 8, words, "middle"))
        parts += grid(x, y, [value.tolist()], STATE, w - 3, h, most=MOST)
        parts += [text(x + 2 * w + 2, y + 18, sign, "middle", "on")] if sign else []
        x += 2 * w + 10
    low = y + 2 * h + 14
    for x, words, value, tone in (
        (0, "average", total / 2, VALUE),
        (2 * w + 10, "should be", second, GREY),
    ):
        parts.append(text(x + w, low - 8, words, "middle"))
        parts += grid(x, low, [value.tolist()], tone, w - 3, h, most=MOST)
    return Figure(
        [Panel(WIDTH, low + h + 4, tuple(parts))],
        f"Ann's row {listed(first)} plus {listed(second)} is {listed(total)}. The average is "
        f"{listed(total / 2)}; it should be {listed(second)}.",
    )


def _found(d_k, pairs, trials=TRIALS):
    """The share of values that are found, one-hot values under random keys of length 1."""
    torch.manual_seed(1)
    keys = F.normalize(torch.randn(pairs, trials, 1, d_k), dim=-1)
    answers = torch.randint(CHOICES, (pairs, trials))
    values = F.one_hot(answers, CHOICES)[:, :, None].float()
    _, memory = linear_attention_table(keys, keys, values, torch.zeros(trials, 1, d_k, CHOICES))
    read = torch.einsum("sbhd,bhde->sbhe", keys, memory)[:, :, 0]
    return (read.argmax(-1) == answers).float().mean().item()


def capacity():
    """The share of values that are found, by the number of pairs and the size of a key."""
    curves = {d_k: [100 * _found(d_k, pairs) for pairs in PAIRS] for d_k in SIZES}
    plot = Plot((0, PAIRS[-1]), (0, 100), height=140, x_label="pairs", y_label="% found")
    for tone, (d_k, shares) in enumerate(curves.items()):
        plot.line(PAIRS, shares, tone, label=str(d_k))
        plot.dots(PAIRS, shares, tone)
    rows = [[str(d_k), *(f"{share:.0f}" for share in shares)] for d_k, shares in curves.items()]
    told = ", ".join(f"{shares[-1]:.0f} % ({d_k})" for d_k, shares in curves.items())
    return Figure(
        [plot.panel()],
        "All curves begin at 100 % and fall as pairs are added, the later the longer the keys are. "
        f"With {PAIRS[-1]} pairs the shares are {told}.",
        Table(["numbers of a key", *(f"{pairs} pairs" for pairs in PAIRS)], rows),
    )
