"""The bucket of Mamba-2, its matrix that fades, the same as a table, chunks, the layer, the task.

Every number comes out of the lesson's functions, with the numbers of the two worked examples, or
out of the runs of its task.
"""

import math

import torch

from docs_src.tasks import mamba2 as task
from docs_src.tasks import results
from labml_nn.recurrent.mamba2 import ssd_loop, ssd_table
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
    Panel,
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
    short,
    shown,
    text,
    title,
    word,
)

#: The roles, as tones of `pylit.figures.draw`.
DELTA, KEY, VALUE, QUERY, GREY, STATE, ERROR = range(7)

# --- The bucket -----------------------------------------------------------------------------------

WORDS = ("7", "er", "well", "so", "9", "er")
#: How strong the stream of each word is.
STREAMS = (7.0, 1.0, 1.0, 1.0, 9.0, 1.0)
#: Which of four steps of the stage each word belongs to.
STEP_OF = (0, 1, 1, 1, 2, 3)
A = -3.0
#: Δ of numbers and of all other words.
NUMBER, OTHER = 1.0, 0.01
#: Most that a bucket holds.
FULL = 12.0


def _deltas(number=NUMBER, other=OTHER):
    """Δ of each word."""
    return [number if one.isdigit() else other for one in WORDS]


@torch.no_grad()
def _fill(delta, a=A):
    """What is in the bucket after each word, computed by the loop of the lesson."""
    delta = torch.tensor(delta).double()
    ones = torch.ones(len(WORDS), 1, 1, 1).double()
    write = (delta * torch.tensor(STREAMS).double())[:, None, None, None]
    found, _ = ssd_loop(
        ones, ones, write, a * delta[:, None, None], torch.zeros(1, 1, 1, 1).double()
    )
    return found.flatten().tolist()


def station():
    """What is to be remembered after each word: 7 until the 9 comes."""
    parts, step, w, y = [], 98.0, 62.0, 104.0
    for t, (one, heard) in enumerate(zip(WORDS, "777799", strict=True)):
        x, number = 46 + t * step, one.isdigit()
        parts.append(word(x, 40, one, size="big" if number else "large"))
        look = f"l t{VALUE} thick" if number else f"l t{GREY} d"
        parts.append(arrow(x, 56, x, y - 8, look))
        parts.append(cell(x - w / 2, y, w, 56, STATE, 0.34 if number else 0.16))
        parts.append(word(x, y + 38, heard, size="big"))
        if t:
            new = WORDS[t].isdigit()
            look = f"l t{GREY} d" if new else f"l t{STATE} thick"
            parts.append(arrow(x - step + w / 2 + 4, y + 28, x - w / 2 - 5, y + 28, look))
    return Figure(
        [Panel(600, 166, tuple(parts))],
        "Six words, 7, er, well, so, 9, er, and below each a box with what is to be remembered "
        "after it: 7, 7, 7, 7, 9, 9. Strong arrows lead from the two numbers into their boxes, and "
        "from box to box where a number is kept.",
    )


def others():
    """What the two memories of the lessons before do: one keeps all, the other replaces one row."""
    adding = [title("linear attention: all is added")]
    step, h, foot = 47.0, 15.0, 120.0
    for t in range(len(WORDS)):
        for i, one in enumerate(WORDS[: t + 1]):
            y = foot - (i + 1) * h
            adding.append(cell(t * step, y, step - 5, h - 1, STATE, 0.3 if one.isdigit() else 0.1))
            adding.append(text(t * step + 21, y + 11, one, "middle"))
    adding.append(line(0, foot + 2, WIDTH, foot + 2, "g"))
    adding.append(text(0, foot + 18, "after each word →"))
    replaced, w, h = [title("DeltaNet: one row is replaced")], 40.0, 30.0
    before, after = [[3, 1], [2, 4]], [[1, 1], [2, 4]]
    for x, rows in ((34.0, before), (188.0, after)):
        replaced += grid(x, 44, rows, STATE, w, h, most=4)
        replaced += [text(x + (j + 0.5) * w, 38, one, "middle") for j, one in enumerate(COLUMNS)]
        replaced += [text(x - 6, 63 + i * h, one, "end") for i, one in enumerate(("Ann", "Ben"))]
    replaced.append(frame(187, 43, 2 * w + 2, h + 2, KEY))
    replaced.append(arrow(120, 59, 152, 59, f"l t{KEY} thick"))
    replaced.append(text(188 + w, 124, "Ben stays as he was", "middle"))
    replaced.append(text(74, 124, "Ann eats 2 apples", "middle"))
    return Figure(
        [Panel(WIDTH, 142, tuple(adding)), Panel(WIDTH, 142, tuple(replaced))],
        "Left, a stack of words that grows with each word, up to all six. Right, a matrix with the "
        "rows Ann (3, 1) and Ben (2, 4); when Ann eats two apples her row becomes (1, 1), and that "
        "of Ben stays.",
    )


def _valve(x, y, delta, name=""):
    """A valve in a pipe that leads downwards: its bar turns from across to along."""
    turned = f"rotate({shown(90 * min(delta, 1), 1)} {x:g} {y:g})"
    bar = element("path", f"l t{DELTA} thick", d=f"M{x - 9:g} {y:g}h18", transform=turned)
    ground = element("circle", "o", cx=x, cy=y, r=5)
    return [ground, element("circle", f"l t{DELTA}", cx=x, cy=y, r=5), hook(bar, name)]


def _bucket(x, y, w, h):
    """The wall of a bucket, open at its top."""
    return element("path", f"l t{GREY} thick", d=f"M{x:g} {y:g}v{h:g}h{w:g}v{-h:g}")


def _water(x, foot, w, high, old, new, names=("", "")):
    """Water from before, and on top of it what has run in."""
    parts, below = [], 0.0
    for amount, tone, name, strength in (
        (old, STATE, names[0], 0.35),
        (new, VALUE, names[1], 0.45),
    ):
        amount = min(amount, FULL - below)
        size = {"x": x, "y": foot - (below + amount) * high, "width": w, "height": amount * high}
        parts.append(element("rect", f"f t{tone}", **size, fill_opacity=strength, data_p=name))
        below += amount
    return parts


def apparatus():
    """The bucket with its two valves and their handle."""
    x, y, w, h = 92.0, 62.0, 84.0, 96.0
    mid, rod = x + w / 2, x + w + 30
    parts = [title("one handle, two valves")]
    parts.append(line(mid, 22, mid, 54, f"l t{GREY} thick"))
    parts += [*_valve(mid, 36, 0.5), _bucket(x, y, w, h)]
    parts.append(line(mid, 54, mid, y + 50, f"l t{VALUE} thick"))
    parts += _water(x + 2, y + h - 2, w - 4, 7, 6, 0)
    parts.append(line(mid, y + h, mid, y + h + 34, f"l t{GREY} thick"))
    parts += _valve(mid, y + h + 14, 0.5)
    for at in (36, y + h + 14):
        parts.append(line(mid + 10, at, rod, at, f"l t{DELTA}"))
    parts.append(line(rod, 36, rod, y + h + 14, f"l t{DELTA}"))
    parts.append(line(rod, 104, rod + 22, 92, f"l t{DELTA} thick"))
    parts.append(letter(rod + 28, 96, ("Δ", DELTA)))
    parts.append(text(rod + 10, 124, "handle", classes=f"t{DELTA}"))
    parts.append(letter(mid - 14, 34, ("s", VALUE), at="end"))
    parts.append(text(mid - 28, 34, "tap:", "end"))
    parts.append(letter(mid, y + h - 16, ("h", STATE), at="middle"))
    parts.append(text(x - 8, y + h - 16, "state: water", "end", f"t{STATE}"))
    parts.append(letter(mid - 14, y + h + 22, ("A", None), at="end"))
    parts.append(text(mid - 28, y + h + 22, "drain:", "end"))

    return Figure(
        [Panel(WIDTH, 200, tuple(parts))],
        "A bucket with water, the state h. Above it is a tap with the stream s, below it a drain, "
        "A. One handle, Δ, turns the valves of both.",
    )


def bucket():
    """What one word does to the bucket."""
    before, kept = STREAMS[0], math.exp(A)
    steps = [title("er opens both for 1 second")]
    for i, (old, new, head, below) in enumerate(
        (
            (before, 0, "before", "7"),
            (kept * before, 0, "old runs out", f"{kept:.2f} · 7 = {kept * before:.2f}"),
            (kept * before, 1, "new runs in", f"+ 1 · 1 = {kept * before + 1:.2f}"),
        )
    ):
        left = 8 + i * 98.0
        steps.append(text(left + 38, 44, head, "middle"))
        steps += _water(left + 11, 146, 54, 90 / FULL, old, new)
        steps.append(_bucket(left + 9, 58, 58, 90))
        steps.append(text(left + 38, 172, below, "middle", "on"))
        if i:
            steps.append(arrow(left - 22, 104, left - 4, 104, f"l t{GREY}"))
    steps += [text(9, 194, "water from before", classes=f"t{STATE}")]
    steps += [text(150, 194, "water that runs in", classes=f"t{VALUE}")]
    return Figure(
        [Panel(WIDTH, 200, tuple(steps))],
        f"Three states of the bucket: 7; then {kept:.2f} of it, {kept * before:.2f}; then 1 "
        f"more, {kept * before + 1:.2f}.",
    )


def handle():
    """What is left and what runs in, for each Δ."""
    left = Plot((0, 1), (0, 1), title="share that is left, exp(−3 Δ)", x_label="Δ", height=112)
    ds = [i / 50 for i in range(51)]
    left.line(ds, [math.exp(A * d) for d in ds], STATE)
    right = Plot((0, 1), (0, 1), title="what runs in of a stream of 1", x_label="Δ", height=112)
    right.line(ds, ds, VALUE)
    places = {
        OTHER: ((9, 5, "start"), (4, -20, "start")),
        0.1: ((9, 5, "start"), (9, 10, "start")),
        NUMBER: ((-2, -9, "end"), (-10, 3, "end")),
    }
    for d, both in places.items():
        for plot, value, tone, (dx, dy, at) in zip(
            (left, right), (math.exp(A * d), d), (STATE, VALUE), both, strict=True
        ):
            x, y = plot.at(d, value)
            plot.add(element("circle", f"f t{tone}", cx=x, cy=y, r=4.5))
            plot.add(text(x + dx, y + dy, f"{d:g} → {value:.2f}", at, "on halo"))
    return Figure(
        [left.panel(), right.panel()],
        "Two curves for Δ from 0 to 1. Left, the share that is left falls from 1: "
        + ", ".join(f"{math.exp(A * d):.2f} at {d:g}" for d in (OTHER, 0.1, NUMBER))
        + ". Right, what runs in of a stream of 1 is Δ itself.",
    )


def _row_of_buckets(delta, head):
    """Six small buckets, one for each word."""
    found, parts, step, w, high = _fill(delta), [title(head)], 48.0, 38.0, 84 / FULL
    for t, (one, level, d) in enumerate(zip(WORDS, found, delta, strict=True)):
        x, new = 2 + t * step, d * STREAMS[t]
        parts += _water(x + 1, 118, w - 2, high, level - new, new)
        parts.append(_bucket(x, 36, w, 84))
        parts.append(text(x + w / 2, 30, f"{level:.2f}", "middle", "on"))
        parts.append(word(x + w / 2, 138, one, size="mid" if one.isdigit() else ""))
    return Panel(WIDTH, 146, tuple(parts)), found


def constant():
    """The same Δ for all words, large and small."""
    panels, said = [], []
    for delta in (1.0, 0.1):
        panel, found = _row_of_buckets([delta] * len(WORDS), f"Δ = {delta:g} for all words")
        panels.append(panel)
        said.append(f"With Δ = {delta:g} for all words it holds {listed(found, 2)}.")
    return Figure(
        panels, f"The bucket after each of the words {', '.join(WORDS)}. {' '.join(said)}"
    )


#: Places of the stage, in which its script draws too.
TAP = {"foot": 178, "high": 7.5, "full": FULL}


def tap():
    """The six words with their valves: the reader turns them."""
    delta, found, panels, said = _deltas(), _fill(_deltas()), [], []
    before = 0.0
    for t, (one, d, level) in enumerate(zip(WORDS, delta, found, strict=True)):
        if t % 3 == 0:
            panels.append([])
        parts, left = panels[-1], 101.0 * (t % 3)
        mid, foot, kept, new = left + 34, TAP["foot"], math.exp(A * d), d * STREAMS[t]
        around = {"x": left + 1, "y": 2, "width": 84, "height": 250, "rx": 4}
        around["stroke_opacity"] = float(not STEP_OF[t])
        parts.append(element("rect", f"l t{STATE}", **around, data_p="at"))
        parts.append(word(mid, 28, one, size="large" if one.isdigit() else "mid"))
        # What runs in and out is as thick as it is much.
        top = foot - level * TAP["high"]
        for start, end, tone, name, much in (
            (50, top, VALUE, "in", new),
            (foot + 2, foot + 38, STATE, "out", before - kept * before),
        ):
            look = {"d": f"M{mid:g} {start:g}V{short(end)}", "stroke_width": max(much, 0.7)}
            parts.append(element("path", f"r t{tone}", **look, data_p=name))
        parts += _valve(mid, 50, d, "valve") + _valve(mid, foot + 16, d, "valve")
        parts.append(_bucket(left + 8, 86, 52, foot - 84))
        names = ("old", "new")
        parts += _water(left + 10, foot, 48, TAP["high"], level - new, new, names)
        for y, name, words, kind in (
            (55, "plus", f"+ {new:.2f}", f"t{VALUE}"),
            (foot + 21, "left", f"× {kept:.2f}", f"t{STATE}"),
        ):
            parts.append(hook(text(mid + 11, y, words, classes=kind), name))
        parts.append(hook(text(mid, foot - 8, f"{level:.2f}", classes="n halo"), "level"))
        parts.append(hook(text(mid, foot + 58, f"Δ = {d:g}", "middle", f"t{DELTA} on"), "delta"))
        said.append(f"{one}: Δ = {d:g}, {kept:.2f} is left, {new:.2f} runs in, h = {level:.2f}")
        before = level
    same = {"number": NUMBER, "other": OTHER, "drain": -A}
    cases = (
        ("as in the text", same),
        ("Δ = 1 for all", same | {"other": 1}),
        ("Δ = 0.3 for all", same | {"number": 0.3, "other": 0.3}),
        ("Δ = 0.1 for all", same | {"number": 0.1, "other": 0.1}),
        ("no drain", same | {"drain": 0}),
    )
    return Figure(
        [Panel(WIDTH, 254, tuple(parts)) for parts in panels],
        f"Six buckets, each with a valve above and below. {'; '.join(said)}.",
        stage=Stage(
            "tap",
            [
                Choice("case", "Try", [name for name, _ in cases], 0, [sets for _, sets in cases]),
                Knob("number", "Δ of 7 and 9", 0, 1, 0.01, NUMBER),
                Knob("other", "Δ of other words", 0, 1, 0.01, OTHER),
                Knob("drain", "Drain, −A", 0, 6, 0.5, -A),
            ],
            {"words": WORDS, "streams": STREAMS, "steps": STEP_OF, **TAP},
            f"After 7 the bucket holds {found[0]:.2f}: 0.00 from before, {found[0]:.2f} of this "
            "word.",
            ("7", "er, well, so", "9", "er"),
        ),
    )


def positive():
    """What makes Δ positive, and A negative."""
    soft = Plot((-5, 3), (0, 3), title="Δ = log(1 + exp(sum))", x_label="sum", height=112)
    xs = [i / 5 for i in range(-25, 16)]
    soft.line(xs, [math.log1p(math.exp(x)) for x in xs], DELTA)
    for delta, dx, dy, at in ((OTHER, -4, -9, "start"), (NUMBER, -9, -5, "end")):
        total = math.log(math.expm1(delta))
        x, y = soft.at(total, delta)
        soft.add(element("circle", f"f t{DELTA}", cx=x, cy=y, r=4.5))
        words = f"{shown(total, 2)} → {delta:g}"
        soft.add(text(x + dx, y + dy, words, at, "on halo"))
    rate = Plot(
        (-2, 2), (-8, 0), title="A = −exp(a)", x_label="a", height=112, x_ticks=range(-2, 3)
    )
    xs = [i / 10 for i in range(-20, 21)]
    rate.line(xs, [-math.exp(x) for x in xs], GREY)
    for a, dx, at in ((0.0, -9, "end"), (math.log(-A), -9, "end")):
        x, y = rate.at(a, -math.exp(a))
        rate.add(element("circle", f"f t{GREY}", cx=x, cy=y, r=4.5))
        rate.add(text(x + dx, y + 14, f"{shown(a, 2)} → {shown(-math.exp(a))}", at, "on halo"))
    return Figure(
        [soft.panel(), rate.panel()],
        f"Left, the softplus: sums of {shown(math.log(math.expm1(OTHER)), 2)} and "
        f"{math.log(math.expm1(NUMBER)):.2f} become {OTHER} and {NUMBER:g}. Right, −exp(a): 0 "
        f"becomes −1, and {math.log(-A):.2f} becomes {shown(A)}.",
    )


# --- Ann, a night, Ben ----------------------------------------------------------------------------

READ, COLUMNS = ("Ann", "night", "Ben"), ("apples", "pears")
KEYS = ((1.0, 0.0), (0.0, 0.0), (0.0, 1.0))
VALUES = ((3.0, 1.0), (0.0, 0.0), (2.0, 4.0))
TIMES, LEAK = (1.0, 30.0, 1.0), -0.1
#: The query, for Ann.
ASKED = (1.0, 0.0)


@torch.no_grad()
def _night(form=ssd_loop, values=None):
    """What is found for Ann after each step, and the matrix after the last one."""
    q, k = (torch.tensor(one).double()[:, None, None] for one in ((ASKED,) * 3, KEYS))
    delta = torch.tensor(TIMES).double()[:, None, None]
    v = torch.tensor(VALUES).double()[:, None, None] if values is None else values
    write = delta[..., None] * v if values is None else v
    h = torch.zeros(1, 1, 2, v.shape[-1]).double()
    found, h = form(q, k, write, LEAK * delta, h)
    return found[:, 0, 0], h[0, 0]


def _matrices():
    """The matrix after each step."""
    found = [torch.zeros(2, 2).double()]
    for key, value, delta in zip(KEYS, VALUES, TIMES, strict=True):
        outer = torch.outer(torch.tensor(key).double(), torch.tensor(value).double())
        found.append(math.exp(LEAK * delta) * found[-1] + delta * outer)
    return found


def pairs():
    """What each step has: key, value and Δ."""
    parts, w, h = [], 38.0, 28.0
    for x, words, tone in ((56, "key", KEY), (144, "value", VALUE)):
        parts.append(text(x + w, 14, words, "middle", f"t{tone} on"))
    parts.append(letter(234, 14, ("Δ", DELTA)))
    for i, (one, key, value, delta) in enumerate(zip(READ, KEYS, VALUES, TIMES, strict=True)):
        y = 26 + i * (h + 6)
        parts.append(text(46, y + 18, one, "end", "on"))
        parts += grid(56, y, [key], KEY, w, h, most=1) + grid(144, y, [value], VALUE, w, h, most=4)
        size = {"x": 234, "y": y + 6, "width": max(delta * 0.9, 1), "height": h - 12}
        parts.append(element("rect", f"f t{DELTA}", **size, fill_opacity=0.6))
        parts.append(text(240 + delta * 0.9, y + 18, f"{delta:g}"))
    for j, words in enumerate(COLUMNS):
        parts.append(text(144 + (j + 0.5) * w, 138, words, "middle", "s"))
    for j, words in enumerate(("Ann", "Ben")):
        parts.append(text(56 + (j + 0.5) * w, 138, words, "middle", "s"))
    return Figure(
        [Panel(WIDTH, 142, tuple(parts))],
        "; ".join(
            f"{one}: key {listed(key)}, value {listed(value)}, Δ {delta:g}"
            for one, key, value, delta in zip(READ, KEYS, VALUES, TIMES, strict=True)
        )
        + ".",
    )


def leaking():
    """The three steps of the matrix: what is left, what is written, and their sum."""
    panels, said, w, h, x = [], [], 42.0, 26.0, 96.0
    matrices = _matrices()
    for t, (one, key, value, delta) in enumerate(zip(READ, KEYS, VALUES, TIMES, strict=True)):
        kept, outer = math.exp(LEAK * delta), torch.outer(torch.tensor(key), torch.tensor(value))
        parts = [title(f"{t + 1}. {one}")]
        parts += [letter(0, 58, ("h", STATE), (_below(t), STATE))]
        parts += [text(x - 32, 58, f"{kept:.2f} ·", "end", f"t{DELTA} on")]
        parts += grid(x - 26, 28, matrices[t], STATE, w, h, most=4)
        parts += [text(x - 60, 156, f"+ {delta:g} ·", "end", f"t{DELTA} on")]
        parts += grid(x - 26, 96, [value], VALUE, w, h, most=4)
        parts += grid(x - 54, 126, [[one] for one in key], KEY, 26, h, most=1)
        parts += grid(x - 26, 126, outer, GREY, w, h, most=4)
        parts.append(line(0, 186, 158, 186, "g"))
        parts += [letter(0, 224, ("h", STATE), (_below(t + 1), STATE)), text(28, 224, "=")]
        parts += grid(x - 26, 194, matrices[t + 1], STATE, w, h, most=4)
        panels.append(Panel(160, 248, tuple(parts)))
        rows = " and ".join(listed(row) for row in matrices[t + 1])
        said.append(f"{one}: {kept:.2f} is left, then the rows are {rows}")
    return Figure(panels, f"Three steps of a matrix of two rows. {'; '.join(said)}.")


def reading():
    """The query for Ann times the matrix."""
    found, h = _night()
    w, high, y = 44.0, 28.0, 34.0
    parts = grid(0, y + high / 2, [ASKED], QUERY, 28, high, most=1)
    parts += [letter(28, y + high / 2 - 8, ("q", QUERY), at="middle")]
    parts.append(text(66, y + high + 4, "·", "middle", "on"))
    parts += grid(76, y, h, STATE, w, high, most=4)
    parts += [letter(76 + w, y - 20, ("h", STATE), ("₃", STATE), at="middle")]
    parts += [text(76 + (j + 0.5) * w, y - 5, one, "middle", "s") for j, one in enumerate(COLUMNS)]
    parts += [frame(75, y - 1, 2 * w + 2, high + 2, QUERY)]
    parts.append(text(178, y + high + 4, "=", "middle", "on"))
    parts += grid(192, y + high / 2, [found[-1]], VALUE, w, high, most=4)
    parts += [letter(192 + w, y + high / 2 - 8, ("y", VALUE), ("₃", VALUE), at="middle")]
    return Figure(
        [Panel(WIDTH, 96, tuple(parts))],
        f"The query (1, 0) times a matrix with the rows {listed(h[0], 2)} and {listed(h[1])} is "
        f"its first row, {listed(found[-1], 2)}.",
    )


def loop():
    """The three steps as a recurrent network: the matrix goes from step to step and fades."""
    found, _ = _night()
    matrices, parts, w, h, y = _matrices()[1:], [], 30.0, 24.0, 66.0
    for t, (one, matrix, delta) in enumerate(zip(READ, matrices, TIMES, strict=True)):
        x = 38 + t * 95.0
        kept = math.exp(LEAK * delta)
        parts += grid(x, y, matrix, STATE, w, h, most=4)
        start = x - 35 if t else 1
        parts.append(arrow(start + 2, y + h, x - 4, y + h, f"l t{STATE} thick"))
        at = (start + x) / 2 - 1, y - 5
        parts.append(text(*at, f"×{kept:.2f}", "middle", f"t{DELTA} halo"))
        parts.append(line(at[0], y, at[0], y + h - 5, f"l t{DELTA} thin d"))
        parts.append(arrow(x + w, y - 4, x + w, y - 22, f"l t{QUERY} thick"))
        parts.append(letter(x + w + 7, y - 10, ("q", QUERY), (_below(t + 1), QUERY)))
        parts.append(text(x + w, y - 30, listed(found[t]), "middle", "on"))
        parts.append(letter(x + w, y - 47, ("y", VALUE), (_below(t + 1), VALUE), at="middle"))
        parts.append(arrow(x + w, y + 2 * h + 26, x + w, y + 2 * h + 4, f"l t{VALUE} thick"))
        symbols = [("Δ", DELTA), "·", ("k", KEY), "ᵀ", ("v", VALUE)]
        parts.append(letter(x + w, y + 2 * h + 42, *symbols, at="middle"))
        parts.append(text(x + w, y + 2 * h + 60, one, "middle", "on"))
    return Figure(
        [Panel(WIDTH, y + 2 * h + 66, tuple(parts))],
        "Three matrices side by side. An arrow from each to the next says what is left, "
        + ", ".join(f"{math.exp(LEAK * delta):.2f}" for delta in TIMES)
        + ". From below a product of key and value is added, and above a query for Ann finds "
        + ", ".join(listed(one) for one in found)
        + ".",
    )


#: Rates of heads that a picture compares, and Δ of each token there.
RATES, EACH = (-1.0, -4.0, -16.0), 0.05


def heads():
    """What is left after so many tokens, for heads with different A."""
    plot = Plot(
        (0, 20), (0, 1), title="what is left, Δ = 0.05 at each token", x_label="tokens later"
    )
    steps, rows = range(21), []
    for tone, a in zip((STATE, DELTA, GREY), RATES, strict=True):
        left = [math.exp(a * EACH * n) for n in steps]
        plot.line(steps, left, tone)
        rows.append([shown(a), *(f"{left[n]:.2f}" for n in (1, 5, 10, 20))])
    for a, (at, up) in zip(RATES, ((8, 0.7), (5.3, 0.37), (3, 0.12)), strict=True):
        plot.note(at, up, f"A = {shown(a)}")
    return Figure(
        [plot.panel()],
        "Three curves that fall from 1. After ten tokens "
        + ", ".join(f"{math.exp(a * EACH * 10):.2f} is left with A = {shown(a)}" for a in RATES)
        + ".",
        Table(["A", "1 token later", "5", "10", "20"], rows),
    )


# --- The table ------------------------------------------------------------------------------------


def path():
    """What is left of Ann after the night and after Ben."""
    kept = [math.exp(LEAK * delta) for delta in TIMES]
    left, parts, step, w = [1.0, kept[1], kept[1] * kept[2]], [], 104.0, 58.0
    parts.append(title("what is left of Ann’s value"))
    for t, (one, share) in enumerate(zip(READ, left, strict=True)):
        x = 40 + t * step
        size = {"x": x - w / 2, "y": 112 - 72 * share, "width": w, "height": 72 * share}
        parts.append(element("rect", f"f t{STATE}", **size, fill_opacity=0.4))
        number = shown(share, 3 if t == 2 else 2)
        parts.append(text(x, 102 if not t else 100 - 72 * share, number, "middle", "sum"))
        parts.append(text(x, 130, f"step {t + 1}: {one}", "middle"))
        if t:
            mid = x - step / 2
            parts.append(arrow(mid - 16, 94, mid + 18, 94, f"l t{DELTA} thick"))
            parts.append(text(mid, 86, f"× {kept[t]:.2f}", "middle", f"t{DELTA} on halo"))
    parts.append(line(6, 112, WIDTH, 112, "g"))
    found, _ = _night()
    words = f"{left[2]:.3f} · {listed(VALUES[0])} = {listed(found[-1], 2)}"
    parts.append(text(WIDTH - 2, 156, words, "end", "on"))
    return Figure(
        [Panel(WIDTH, 164, tuple(parts))],
        f"Bars of what is left of Ann: 1 at her own step, {left[1]:.2f} after the night, and "
        f"{left[2]:.3f} after Ben. {words}.",
    )


def table():
    """L of three steps, and its product with the agreement of queries and keys."""
    units = torch.eye(3).double()[:, None, None]
    ones = torch.ones(3, 1, 1, 1).double()
    delta = torch.tensor(TIMES).double()[:, None, None]
    left, _ = ssd_table(ones, ones, units, LEAK * delta, torch.zeros(1, 1, 1, 3).double())
    left, agree = left[:, 0, 0], torch.tensor(KEYS).double() @ torch.tensor(ASKED).double()
    side, y = 46.0, 58.0

    def drawn(x, rows, tone):
        parts = []
        for i, row in enumerate(rows.tolist()):
            for j, value in enumerate(row):
                at = (x + j * side, y + i * 32)
                if j > i:
                    parts.append(hatch(at[0] + 1, at[1] + 1, side - 2, 30))
                    continue
                parts.append(cell(at[0] + 1, at[1] + 1, side - 2, 30, tone, 0.05 + 0.4 * value))
                number = shown(value, 3 if 0 < value < 0.048 else 2)
                parts.append(
                    text(at[0] + side / 2, at[1] + 20, number, classes="n" if value else "z")
                )
        for i, one in enumerate(READ):
            parts.append(text(x + (i + 0.5) * side, y - 6, one, "middle"))
            parts.append(text(x - 6, y + i * 32 + 20, one, "end"))
        return parts

    first = [title("what is left, L"), *drawn(48, left, DELTA)]
    first.append(text(48, 36, "written at →"))
    first.append(text(0, 36, "read ↓"))
    weights = left * agree
    second = [title("times how well query and key agree"), *drawn(48, weights, QUERY)]
    second.append(text(48, 36, "written at →"))
    second.append(text(0, 36, "read ↓"))
    for i, (value, time) in enumerate(zip(VALUES, TIMES, strict=True)):
        words = f"{time:g} · {listed(value)}"
        second.append(text(200, y + i * 32 + 20, words, classes=f"t{VALUE}"))
    second.append(letter(204, y - 8, ("Δ v", VALUE)))
    second.append(frame(47, y + 63, 3 * side + 2, 34, STATE))
    found, _ = _night()
    words = f"{weights[2, 0]:.3f} · {listed(VALUES[0])} = {listed(found[-1], 2)}"
    second.append(text(48, y + 118, f"last row: {words}", classes="on"))
    return Figure(
        [Panel(WIDTH, y + 124, tuple(first)), Panel(WIDTH, y + 124, tuple(second))],
        "Two tables of three rows with zeros above the diagonal. Left, L: "
        + "; ".join(listed(row, 3) for row in left)
        + ". Right, times the agreement with the query for Ann: "
        + "; ".join(listed(row, 3) for row in weights)
        + f". Its last row gives {listed(found[-1], 2)}.",
    )


@torch.no_grad()
def _decays(delta, a=A):
    """L of the words at the station: with unit vectors as values the output is the table itself."""
    ones, units = torch.ones(6, 1, 1, 1).double(), torch.eye(6).double()[:, None, None]
    steps = a * torch.tensor(delta).double()[:, None, None]
    left, _ = ssd_table(ones, ones, units, steps, torch.zeros(1, 1, 1, 6).double())
    return left[:, 0, 0]


def triangles():
    """L of the station: nothing fades, all fade alike, each word decides."""
    cases = (
        ("A = 0: nothing fades", _decays(_deltas(), 0.0)),
        ("Δ = 0.1 for all words", _decays([0.1] * 6)),
        ("each word its own Δ", _decays(_deltas())),
    )
    panels, side, x, y = [], 25.0, 36.0, 34.0
    for head, left in cases:
        parts = [title(head)]
        for i, row in enumerate(left.tolist()):
            parts.append(text(x - 6, y + i * side + 17, WORDS[i], "end"))
            parts.append(text(x + (i + 0.5) * side, y - 6, WORDS[i], "middle"))
            for j, value in enumerate(row[: i + 1]):
                at = (x + j * side, y + i * side, side - 1, side - 1)
                parts.append(cell(*at, DELTA, 0.04 + 0.8 * value))
        if head.startswith("each"):
            parts.append(frame(x - 1, y + 4 * side - 1, 4 * side, 2 * side, ERROR))
        panels.append(Panel(192, y + 6 * side + 2, tuple(parts)))
    chosen = cases[2][1]
    return Figure(
        panels,
        "Three triangles, a row and a column for each of the words "
        f"{', '.join(WORDS)}. With A = 0 all is left. With Δ = 0.1 each step leaves "
        f"{math.exp(0.1 * A):.2f}, and cells are paler the further they are from the diagonal. "
        "With a Δ for each word, the 9 and the er after it have only "
        f"{chosen[4, 0]:.2f} of the first four words, and the 9 is left to the end.",
        Table(
            ["read at", *WORDS],
            [[one, *(shown(v, 2) for v in row)] for one, row in zip(WORDS, chosen, strict=True)],
            "L with a Δ for each word",
        ),
    )


def two_ways():
    """A loop of eight steps, and a table of eight rows."""
    n, side = 8, 15.0
    chain = [title("the loop: 8 steps, one after the other")]
    for t in range(n):
        x = 2 + t * 36.0
        chain.append(cell(x, 54, 20, 30, STATE, 0.12 + 0.03 * t))
        chain.append(arrow(x + 10, 104, x + 10, 88, f"l t{GREY} thin"))
        chain.append(text(x + 10, 120, str(t + 1), "middle"))
        if t:
            chain.append(arrow(x - 14, 69, x - 3, 69, f"l t{STATE} thick"))
    chain.append(text(0, 146, "each waits for the one before"))
    left = [title("the table: 36 numbers, all at once")]
    for i in range(n):
        left.append(text(40, 33 + i * side, str(i + 1), "end"))
        for j in range(i + 1):
            at = (48 + j * side, 22 + i * side, side - 1, side - 1)
            left.append(cell(*at, DELTA, 0.7 * 0.8 ** (i - j) + 0.06))
    left.append(text(186, 60, "nothing waits,"))
    left.append(text(186, 76, "but twice the text"))
    left.append(text(186, 92, "has 136 of them"))
    return Figure(
        [Panel(WIDTH, 152, tuple(chain)), Panel(WIDTH, 152, tuple(left))],
        "Left, a chain of eight states, each with an arrow to the next. Right, a triangle of 36 "
        "cells, paler the further they are from the diagonal.",
    )


#: Tokens and length of a chunk in the picture.
LONG, CHUNK = 12, 4


def chunks():
    """Twelve tokens: a table inside each chunk of four, and a matrix from chunk to chunk."""
    side, x, y, parts = 13.0, 26.0, 24.0, [title("12 tokens, chunks of 4")]
    tones = (DELTA, QUERY, KEY)
    for i in range(LONG):
        for j in range(i + 1):
            same = i // CHUNK == j // CHUNK
            at = (x + j * side, y + i * side, side - 1, side - 1)
            if same:
                parts.append(cell(*at, tones[i // CHUNK], 0.45))
    for row in range(1, LONG // CHUNK):
        at = (x, y + row * CHUNK * side, row * CHUNK * side - 1, CHUNK * side - 1)
        parts.append(cell(*at, STATE, 0.22))
        mid = (at[0] + at[2] / 2, at[1] + at[3] / 2 + 4)
        parts.append(text(*mid, f"from h{_below(row * CHUNK)}", "middle", f"t{STATE} on"))
    count = CHUNK * (CHUNK + 1) // 2
    for i in range(LONG // CHUNK):
        parts.append(text(x - 6, y + (i + 0.5) * CHUNK * side + 4, str(i + 1), "end"))
    parts.append(text(200, 46, f"3 · {count} = {3 * count}", classes="on"))
    parts.append(text(200, 62, "in three tables"))
    parts.append(text(200, 92, f"{LONG * (LONG + 1) // 2}", classes="on"))
    parts.append(text(200, 108, "in one table"))
    flow = [title("all tables at once; only h waits")]
    for i, tone in enumerate(tones):
        at = 4 + i * 100.0
        for row in range(CHUNK):
            for column in range(row + 1):
                flow.append(cell(at + 14 * column, 36 + 14 * row, 13, 13, tone, 0.45))
        flow.append(text(at + 28, 30, f"tokens {i * CHUNK + 1}–{(i + 1) * CHUNK}", "middle"))
        if i < len(tones) - 1:
            # What a chunk leaves goes into the matrix, which the next chunk reads.
            flow += grid(at + 56, 116, [[0.5, 0.5], [0.5, 0.5]], STATE, 11, 11, digits=0, most=1)
            flow.append(line(at + 28, 94, at + 28, 127, f"l t{tone} thick"))
            flow.append(arrow(at + 28, 127, at + 54, 127, f"l t{tone} thick"))
            flow.append(letter(at + 60, 152, ("h", STATE), (_below((i + 1) * CHUNK), STATE)))
            flow.append(arrow(at + 86, 112, at + 104, 94, f"l t{STATE} thick"))
            if i + 2 < len(tones):
                flow.append(arrow(at + 80, 127, at + 154, 127, f"l t{STATE} thick"))
    return Figure(
        [Panel(WIDTH, y + LONG * side + 4, tuple(parts)), Panel(WIDTH, 158, tuple(flow))],
        "Left, a triangle of twelve rows: three small triangles of ten cells on its diagonal, each "
        "in its colour, and two blocks below them that are replaced by the matrices h after tokens "
        "4 and 8. Right, the three tables side by side. Below them a matrix goes from chunk to "
        "chunk: each adds to it, and the next one reads it.",
    )


# --- The layer ------------------------------------------------------------------------------------


def mixer():
    """From one projection come all signals; those on the right pass the memory."""
    gate, value, key, query, delta = 34, 106, 152, 198, 256
    forward = "#Mamba2.forward"
    x_in, proj, conv, memory, add, times, norm, out = 372, 328, 266, 196, 160, 124, 84, 40
    parts = [
        text(144, x_in + 10, "x", "middle", "on"),
        arrow(144, x_in - 2, 144, proj + 24, f"l t{GREY}"),
        box(144, proj, 280, 22, "in_proj", GREY, "#Mamba2.__init__"),
        box(152, conv, 132, 22, "convolution, SiLU", GREY, forward),
        box(gate, conv, 44, 22, "SiLU", GREY, forward),
        box(delta, conv, 56, 22, "softplus", DELTA, forward),
        box(176, memory, 216, 24, "memory: leak, write, read", STATE, "#ssd_loop"),
    ]
    signals = ((gate, "gate", GREY), (value, "v", VALUE), (key, "k", KEY), (query, "q", QUERY))
    for x, name, tone in (*signals, (delta, "Δ", DELTA)):
        parts.append(arrow(x, proj - 2, x, conv + 24, f"l t{tone} thick"))
        parts.append(text(x + 6, proj - 12, name, classes=f"t{tone} on"))
        if name != "gate":
            parts.append(arrow(x, conv - 2, x, memory + 26, f"l t{tone} thick"))
    mid = 152
    parts += [
        # The skip leaves the value before the memory, and joins what the memory gave.
        line(value, 240, 62, 240, f"l t{VALUE}"),
        line(62, 240, 62, add, f"l t{VALUE}"),
        arrow(62, add, mid - 11, add, f"l t{VALUE}"),
        text(74, add - 6, "times D", classes=f"t{VALUE}"),
        arrow(mid, memory - 2, mid, add + 11, f"l t{GREY}"),
        text(mid + 7, memory - 8, "y"),
        arrow(mid, add - 10, mid, times + 11, f"l t{GREY}"),
        line(gate, conv - 2, gate, times, f"l t{GREY}"),
        arrow(gate, times, mid - 11, times, f"l t{GREY}"),
        arrow(mid, times - 10, mid, norm + 24, f"l t{GREY}"),
        box(mid, norm, 92, 22, "norm", GREY, forward),
        arrow(mid, norm - 2, mid, out + 24, f"l t{GREY}"),
        box(mid, out, 92, 22, "out_proj", GREY, forward),
        arrow(mid, out - 2, mid, 18, f"l t{GREY}"),
        text(mid, 12, "output", "middle", "on"),
        knot(mid, add, "+"),
        knot(mid, times, "×"),
    ]
    return Figure(
        [Panel(WIDTH, 386, tuple(parts))],
        "From bottom to top: the input x is projected to a gate, a value v, a key k, a query q "
        "and Δ. Value, key and query pass a convolution and a SiLU, Δ a softplus. With them the "
        "memory leaks, is written and is read. D times the value, which goes around the memory, "
        "is added. Then follow the product with the SiLU of the gate, a norm, and the output "
        "projection.",
    )


# --- The task -------------------------------------------------------------------------------------

#: Two sequences of the task; 0 is noise.
HEARD = ((3, 0, 0, 5, 2, 0, 8, 1, 0, 4), (6, 0, 0, 0, 0, 0, 0, 0, 0, 0))


def noise():
    """Two sequences, and the last digit at each step."""
    parts, step, left = [], 23.0, 62.0
    for row, tokens in enumerate(HEARD):
        y, last = 24.0 + row * 82, 0
        parts.append(text(0, y + 5, "token"))
        parts.append(text(0, y + 37, "last digit"))
        for t, token in enumerate(tokens):
            x, last = left + t * step, token or last
            parts.append(
                cell(x - 11, y - 13, 21, 27, VALUE if token else GREY, 0.3 if token else 0.04)
            )
            parts.append(
                text(x, y + 5, str(token) if token else "·", "middle", "n" if token else "")
            )
            parts.append(cell(x - 11, y + 20, 21, 25, STATE, 0.2))
            parts.append(text(x, y + 37, str(last), classes="n"))
    return Figure(
        [Panel(WIDTH, 156, tuple(parts))],
        "Two sequences of ten tokens, and the last digit at each. "
        + " ".join(
            f"{', '.join('noise' if not one else str(one) for one in tokens)}." for tokens in HEARD
        ),
    )


def by_gap():
    """The share of right answers after so many tokens of noise, five seeds of each model."""
    found = results("mamba2", "by_gap")
    plot = Plot(
        (0, 10),
        (0, 1.05),
        title="right answers, five runs each",
        x_label="tokens of noise since the last digit",
        height=170,
        x_ticks=(),
        y_ticks=(0, 0.25, 0.5, 0.75, 1),
    )
    places = range(len(task.GAPS))
    for i in places:
        if i % 2 == 0 or i == 1:
            x, y = plot.at(i, 0)
            plot.add(text(min(x, WIDTH - 12), y + 14, str(task.GAPS[i]), "middle"))
    x, y = plot.at(task.GAPS.index(task.STEPS), 0)
    plot.add(line(x, plot.top, x, y, f"l t{GREY} thin d"))
    tones = dict(zip(task.MODELS, (DELTA, ERROR, GREY), strict=True))
    for model, runs in reversed(found.items()):
        for run in runs:
            plot.line(places, run, tones[model])
    guess = 1 / 8
    plot.line((0, 10), (guess, guess), GREY, dashed=True)
    plot.add(text(*plot.at(3.2, 0.88), "Δ from the word", "start", f"t{DELTA} halo"))
    plot.add(text(*plot.at(1.2, 0.48), "one Δ for all", "start", f"t{ERROR} halo"))
    plot.add(text(*plot.at(1.2, 0.22), "no decay, A = 0", "start", "halo"))
    plot.add(text(*plot.at(0.2, 0.03), "guessing", "start", "halo"))

    def span(runs, gap):
        seen = [run[task.GAPS.index(gap)] for run in runs]
        return f"{min(seen):.2f} to {max(seen):.2f}"

    gaps = (1, 8, 64, 256)
    rows = [[model, *(span(runs, gap) for gap in gaps)] for model, runs in found.items()]
    said = ", ".join(f"{span(runs, 16)} ({model})" for model, runs in found.items())
    return Figure(
        [plot.panel()],
        f"The share of right answers by the number of tokens since the last digit. After 16 it is "
        f"{said}.",
        Table(["noise", *map(str, gaps)], rows),
    )


def learned():
    """What the heads of the five runs keep at noise, and at digits."""
    at_noise = results("mamba2", "kept_by_noise")["chosen"]
    at_digits = results("mamba2", "kept_by_digits")["chosen"]
    parts, left, wide, y = [title("kept in one step, four heads each")], 48.0, 226.0, 50.0
    foot = 36 + 5 * 38
    for share in (0, 0.5, 1):
        x = left + share * wide
        parts.append(line(x, 36, x, foot, "g"))
        parts.append(text(x, foot + 14, shown(share), "middle"))
    for run, (noise_, digits) in enumerate(zip(at_noise, at_digits, strict=True)):
        parts.append(text(0, y + 8, f"run {run + 1}"))
        for up, kept, tone in ((-3, noise_, GREY), (14, digits, VALUE)):
            # Dots at nearly the same place stand above one another.
            for k, one in enumerate(sorted(kept)):
                size = {"cx": left + one * wide, "cy": y + up - 4.5 + 3 * k, "r": 3.5}
                parts.append(element("circle", f"f t{tone}", **size, fill_opacity=0.7))
        y += 38
    parts.append(text(150, 28, "at noise", "end"))
    parts.append(text(166, 28, "at a digit", "start", f"t{VALUE}"))
    most = [max(one) for one in at_noise]
    least = [min(one) for one in at_digits]
    return Figure(
        [Panel(WIDTH, foot + 18, tuple(parts))],
        "Dots for what each of four heads keeps in a step, in five runs. At noise the best head of "
        f"each run keeps {min(most):.3f} or more; at a digit one head keeps {max(least):.2f} or "
        "less.",
    )


# --- The price ------------------------------------------------------------------------------------


def limits():
    """A decay is blind, and cannot change a sign."""
    kept, w, h = math.exp(LEAK), 42.0, 27.0
    parts = [title("Ben is written: what becomes of Ann?")]
    rows = {
        "Mamba-2": [[3 * kept, kept], [2, 4]],
        "DeltaNet": [[3, 1], [2, 4]],
    }
    for i, (name, matrix) in enumerate(rows.items()):
        x = 34 + i * 158.0
        parts.append(text(x + w, 34, name, "middle", "on"))
        parts += grid(x, 42, matrix, STATE, w, h, most=4)
        parts += [text(x - 6, 60 + j * h, one, "end") for j, one in enumerate(("Ann", "Ben"))]
        parts.append(frame(x - 1, 41, 2 * w + 2, h + 2, ERROR if not i else VALUE))
    parts.append(text(34 + w, 116, f"{kept:.3f} of Ann is left", "middle"))
    parts.append(text(192 + w, 116, "Ann stays", "middle"))
    bits, state = (1, 0, 1, 1), 1
    flip = [title("a state that flips at each 1")]
    flip += [text(0, 48, "bit"), text(0, 84, "factor"), text(0, 120, "state")]
    flip += [cell(55, 102, 34, 27, STATE, 0.25), text(72, 120, "1", classes="n")]
    flip.append(text(72, 48, "start", "middle"))
    for t, bit in enumerate(bits):
        x, factor = 122 + t * 47.0, 1 - 2 * bit
        state *= factor
        flip.append(text(x, 48, str(bit), classes="n"))
        mark = " ✗" if factor < 0 else ""
        flip.append(text(x, 84, f"× {shown(factor)}{mark}", "middle", f"t{ERROR if bit else GREY}"))
        flip.append(arrow(x - 32, 115, x - 19, 115, f"l t{GREY}"))
        flip.append(cell(x - 17, 102, 34, 27, STATE if state > 0 else ERROR, 0.25))
        flip.append(text(x, 120, shown(state), classes="n"))
    return Figure(
        [Panel(WIDTH, 134, tuple(parts)), Panel(WIDTH, 134, tuple(flip))],
        "Left, the matrix after Ben is written: with Mamba-2 Ann has "
        f"{listed(rows['Mamba-2'][0], 2)}, "
        "with DeltaNet (3, 1). Right, a state that begins at 1: the bits 1, 0, 1, 1 need the "
        "factors −1, 1, −1, −1, and −1 is no decay.",
    )


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
