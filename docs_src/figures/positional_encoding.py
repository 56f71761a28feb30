"""Figures of `labml_nn.transformers.positional_encoding`.

Positions have one colour, that of a state (`P`); weights, keys, values and queries have theirs, and
tokens are grey. A hand of a clock is drawn as it turns: from the top, clockwise.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean

import torch

from docs_src.tasks import results
from labml_nn.transformers.positional_encoding import get_positional_encoding
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Knob,
    Panel,
    Plot,
    Stage,
    Table,
    arrow,
    bar_list,
    box,
    element,
    frame,
    grab,
    grid,
    heat_map,
    hook,
    letter,
    line,
    listed,
    ribbon,
    short,
    shown,
    text,
    title,
    word,
)

#: The roles, as tones.
A, K, V, Q, GREY, P, ERROR = range(7)
#: Where tokens are embedded.
EMBEDDING = "models.html#EmbeddingsWithPositionalEncoding"
RESULTS = Path(__file__).parents[1] / "results"

# --- The worked example -----------------------------------------------------------------------

TOKENS = ("dog", "bites", "man")
FEATURES = ("noun", "verb", "animal", "person")
X = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]])
#: The two sentences, as indices of `TOKENS`.
ORDERS = ((0, 1, 2), (2, 1, 0))
#: The hands of the stage: 24 features.
HANDS = 12


def _attend(x):
    """Weights and averages, where queries, keys and values are the features."""
    weights = (x @ x.T / x.shape[1] ** 0.5).softmax(dim=1)
    return weights, weights @ x


def _said(order):
    return " ".join(TOKENS[i] for i in order)


def _table(features, positions):
    return get_positional_encoding(features, positions, dtype=torch.float64)[:, 0]


def _hand(x, y, radius, sine, cosine, classes=f"l t{P} thick", name=""):
    """A dial with its middle at a place, and a hand whose tip is at (sine, cosine)."""
    dial = element("circle", f"l t{GREY} thin", cx=x, cy=y, r=radius)
    tip = (0.86 * radius * sine, -0.86 * radius * cosine)
    d = f"M{short(x)} {short(y)}l{short(tip[0])} {short(tip[1])}"
    return dial + element("path", classes, d=d, data_p=name)


def _hands(x, y, row, count, radius, step):
    """The first hands of an encoding, side by side."""
    return [
        _hand(x + i * step, y, radius, row[2 * i].item(), row[2 * i + 1].item())
        for i in range(count)
    ]


def sentences():
    """The two sentences; below each place the hands that tell it."""
    table, xs, parts = _table(2 * HANDS, 3), (110.0, 320.0, 514.0), []
    for row, order in enumerate(ORDERS):
        y = 44 + 134 * row
        for place, (x, token) in enumerate(zip(xs, order, strict=True)):
            parts.append(word(x, y, TOKENS[token], size="big"))
            parts += _hands(x - 36, y + 38, table[place], 3, 16.0, 36)
    for place, x in enumerate(xs):
        parts.append(text(x, 258, f"position {place}", "middle", f"large t{P}"))
    return Figure(
        [Panel(600, 270, tuple(parts))],
        "Two sentences, “dog bites man” and “man bites dog”. Below each word three clock hands "
        "show its position: all upright at position 0, and at the next ones the first hand turns "
        "by a sixth of a turn each time, the others by less. They are the same below both "
        "sentences, so that “dog” has other hands in the second than in the first.",
    )


def average():
    """What *bites* receives: each value times its weight, and the sum."""
    weights, averages = _attend(X)
    left, side, high, top = 58.0, 54.0, 28.0, 44.0
    first = [title("features")]
    for j, name in enumerate(FEATURES):
        first.append(text(left + (j + 0.5) * side, top - 8, name, "middle"))
    for i, token in enumerate(TOKENS):
        first.append(word(left - 8, top + (i + 0.5) * high + 5, token, "end"))
    first += grid(left, top, X, GREY, side, high)
    second, left, side = [title("what bites receives")], 102.0, 46.0
    second.append(text(left - 10, top - 8, "weight", "end", f"t{A}"))
    second.append(text(left + 4, top - 8, "times features"))
    for i, token in enumerate(TOKENS):
        y = top + (i + 0.5) * high + 5
        second.append(word(0, y, token, "start"))
        second.append(ribbon(46, y - 5, 60, y - 5, weights[1, i], full=16))
        second.append(text(left - 8, y - 1, f"{weights[1, i]:.3f}", "end", "num"))
    second += grid(left, top, weights[1][:, None] * X, V, side, high, digits=3, most=1)
    y = top + 3 * high + 10
    second.append(line(left, y - 5, left + 4 * side, y - 5, f"l t{GREY}"))
    second.append(text(left - 8, y + high / 2 + 4, "sum", "end", "on"))
    second += grid(left, y, averages[1:2], V, side, high, digits=3, most=1)
    return Figure(
        [Panel(WIDTH, y + high + 2, tuple(part)) for part in (first, second)],
        f"The features: dog {listed(X[0])}, bites {listed(X[1])}, man {listed(X[2])}. For bites "
        f"they get the weights {listed(weights[1], 3)} and add up to {listed(averages[1], 3)}.",
    )


def _both(features, digits, alt):
    """What each word receives in both sentences; a line links those of one word."""
    outputs = [_attend(features(order))[1] for order in ORDERS]
    xs, w, high, parts = (48.0, 144.0, 240.0), 60.0, 22.0, []
    tops = (46.0, 204.0)
    for order, found, y in zip(ORDERS, outputs, tops, strict=True):
        below = y > tops[0]
        for x, token, row in zip(xs, order, found, strict=True):
            parts += grid(x - w / 2, y, row[:, None], V, w, high, digits=digits, most=1.5)
            at = y + 4 * high + 16 if below else y - 7
            parts.append(word(x, at, TOKENS[token]))
    same = []
    for place, token in enumerate(ORDERS[0]):
        other = ORDERS[1].index(token)
        equal = torch.allclose(outputs[0][place], outputs[1][other], atol=1e-6)
        same.append(equal)
        start, end = (xs[place], tops[0] + 4 * high + 4), (xs[other], tops[1] - 4)
        classes = f"l t{GREY} thick" if equal else f"l t{ERROR} d"
        parts.insert(0, line(*start, *end, classes))
        # Between the crossing lines of the two nouns and those of the verb there is room.
        if place == 1:
            sign = "=" if equal else "≠"
            parts.append(text(xs[1], 176, sign, "middle", "big halo"))
    parts.append(text(0, 11, "received in the first sentence", classes="h"))
    parts.append(text(0, 328, "received in the second", classes="h"))
    said = [
        f"in “{_said(order)}” bites receives {listed(found[1], digits)}"
        for order, found in zip(ORDERS, outputs, strict=True)
    ]
    return Figure([Panel(WIDTH, 332, tuple(parts))], f"{alt} {said[0]}, and {said[1]}.")


def shuffled():
    """Without positions each word receives the same in both sentences."""
    return _both(
        lambda order: X[list(order)],
        2,
        "Rows of four numbers for the words of both sentences. Lines link the rows of one word, "
        "which are equal:",
    )


def moved():
    """With positions it does not."""
    table = get_positional_encoding(4, 3)[:, 0]
    return _both(
        lambda order: X[list(order)] + table,
        2,
        "The same drawing with positions. Dashed lines link the rows of one word, which differ "
        "now:",
    )


def recurrent():
    """A state that reads one word after the other ends in another place in each sentence."""
    panels, ends = [], []
    for order in ORDERS:
        state, w, high, gap = torch.zeros(4), 64.0, 24.0, 48.0
        parts = [title(_said(order))]
        for step, token in enumerate(order):
            x = 8 + step * (w + gap)
            state = state / 2 + X[token]
            parts.append(word(x + w / 2, 40, TOKENS[token]))
            parts.append(arrow(x + w / 2, 46, x + w / 2, 60, f"l t{GREY}"))
            # Numbers below each other are easy to compare from panel to panel.
            parts += grid(x + 4, 64, state[:, None], GREY, w - 8, high, most=1.5)
            if step < 2:
                parts.append(arrow(x + w, 112, x + w + gap, 112, f"l t{GREY} thick"))
                parts.append(text(x + w + gap / 2, 104, "half", "middle"))
        ends.append(state)
        panels.append(Panel(WIDTH + 12, 164, tuple(parts)))
    said = [f"after “{_said(o)}” it is {listed(end)}" for o, end in zip(ORDERS, ends, strict=True)]
    return Figure(
        panels,
        "A state of four numbers is halved before each word, and the features of the word are "
        f"added: {said[0]}, and {said[1]}.",
    )


def added():
    """Which word, plus where."""
    table, x0, w, high, top = _table(4, 3), 66.0, 66.0, 26.0, 34.0
    panels = []
    for name, columns, tone in (("which word it is", X.T, GREY), ("where it stands", table.T, P)):
        parts = [title(name)]
        for j, token in enumerate(TOKENS):
            x, y = x0 + (j + 0.5) * (w + 6), top + 4 * high + 20
            if tone == GREY:
                parts.append(word(x, y, token))
            else:
                parts.append(letter(x - 4, y, ("PE", P), at="middle"))
                parts.append(text(x + 10, y + 4, str(j), classes=f"s t{P}"))
        digits = None if tone == GREY else 0
        parts += grid(x0, top, columns, tone, w, high, step=w + 6, digits=digits)
        sign = "" if tone == GREY else "+"
        parts.append(text(30, top + 2 * high + 8, sign, "middle", "big"))
        panels.append(Panel(WIDTH, top + 4 * high + 28, tuple(parts)))
    return Figure(
        panels,
        "Left, three columns with the features of dog, bites and man; right, three columns of "
        "equal height, the vectors of the positions 0, 1 and 2, which are added.",
    )


def candidates():
    """Two numbers that do not do: the position, and its share of the length."""
    values = {"a feature": 1, "position 5": 5, "position 50": 50, "position 500": 500}
    bars = [title("p itself")]
    for i, (name, value) in enumerate(values.items()):
        y, width = 30 + 27 * i, 0.34 * value
        bars.append(text(78, y + 13, name, "end"))
        tone = P if i else GREY
        bars.append(element("rect", f"f t{tone}", x=84, y=y, width=width, height=18))
        bars.append(text(90 + width, y + 13, str(value), classes="num"))
    parts = [title("p divided by the length")]
    for y, length in ((52.0, 5), (112.0, 100)):
        parts.append(line(4, y, 284, y, f"l t{GREY}"))
        ticks = "".join(f"M{4 + 280 * p / length:.1f} {y - 8:.0f}v16" for p in range(length))
        parts.append(element("path", f"l t{P} thin", d=ticks))
        parts.append(text(4, y - 14, f"{length} words: neighbours {shown(1 / length)} apart"))
    parts += [text(4, 134, "0"), text(284, 134, "1", "end")]
    return Figure(
        [Panel(WIDTH, 140, tuple(part)) for part in (bars, parts)],
        "Left, bars: beside a feature of 1, position 500 is a bar 500 times as long. Right, two "
        "lines from 0 to 1: five words stand 0.2 apart, a hundred words 0.01.",
    )


def counter():
    """A counter, and the first hands, at the same positions."""
    table, count, high, top = _table(2 * HANDS, 8), 8, 28.0, 40.0
    digits = [[p >> bit & 1 for bit in range(3)] for p in range(count)]
    panels = []
    for name, heads in (
        ("a counter jumps", ("ones", "twos", "fours")),
        (f"hands turn, C = {2 * HANDS}", ("hand 0", "hand 1", "hand 2")),
    ):
        parts, w = [title(name)], 64.0
        for j, head in enumerate(heads):
            parts.append(text(84 + (j + 0.5) * w, top - 8, head, "middle"))
        for p in range(count):
            y = top + (p + 0.5) * high
            parts.append(text(66, y + 4, f"position {p}" if p == 0 else str(p), "end", "num"))
            if heads[0] != "ones":
                parts += _hands(84 + w / 2, y, table[p], 3, 12.0, w)
        if heads[0] == "ones":
            parts += grid(84, top, digits, P, w, high)
        panels.append(Panel(WIDTH, top + count * high + 2, tuple(parts)))
    return Figure(
        panels,
        "Positions 0 to 7. Left, the binary digits of a counter: the ones change at each step, "
        "the twos at each second, the fours at each fourth. Right, three clock hands: the first "
        "turns by a sixth of a turn each time, and the others more slowly.",
    )


# --- The stage --------------------------------------------------------------------------------


#: The middle and the length of the large hand.
LARGE = (76.0, 98.0, 60.0)


def clocks():
    """A hand at a position, its waves, all hands, and the encoding that they make."""
    length, hand, position = 49, 1, 5
    table = _table(2 * HANDS, length)
    # How far each hand turns from one position to the next.
    turns = [math.atan2(table[1, 2 * i], table[1, 2 * i + 1]) for i in range(HANDS)]
    plot = Plot(
        (0, length - 1),
        (-1, 1),
        title="its waves",
        x_label="position",
        height=96,
    )
    for name, feature, dashed in (("sine", 2 * hand, False), ("cosine", 2 * hand + 1, True)):
        values = table[:, feature].tolist()
        plot.line(range(length), values, P, label=name, dashed=dashed, hook=name)
        x, y = plot.at(position, values[position])
        plot.add(element("circle", f"f t{P}", cx=x, cy=y, r=4, data_p=f"{name}-dot"))
    sine, cosine = (table[position, 2 * hand + i].item() for i in (0, 1))
    (left, middle), (right, _), (_, top) = plot.at(0, 0), plot.at(length - 1, 0), plot.at(0, 1)
    once = f"{2 * math.pi / turns[hand]:.1f}".removesuffix(".0")
    return Figure(
        [
            _large(sine, cosine, turns[hand] * position),
            plot.panel(),
            _dials(table[position].tolist(), hand),
            _cells(table[position].tolist(), hand),
        ],
        f"Hand {hand} of {HANDS} at position {position}: its tip is {sine:.2f} to the right and "
        f"{cosine:.2f} up. Then the two waves of this hand along {length} positions, all hands "
        "on small dials, of which the last ones stand nearly upright, and the 24 numbers.",
        stage=Stage(
            "clocks",
            [
                Knob("position", "Position", 0, length - 1, 1, position),
                Knob("hand", "Hand", 0, HANDS - 1, 1, hand),
            ],
            {
                "turns": [round(turn, 7) for turn in turns],
                "length": length,
                "left": left,
                "step": (right - left) / (length - 1),
                "middle": middle,
                "high": middle - top,
                "large": LARGE,
            },
            f"Hand {hand} goes round once in {once} positions. At position {position} it shows "
            f"{sine:.2f} and {cosine:.2f}.",
            ("One hand", "Its waves", "All hands", "The encoding"),
        ),
    )


def _large(sine, cosine, angle):
    """One hand with its sine and cosine as lengths."""
    x, y, r = LARGE
    tip = (x + r * sine, y - r * cosine)
    parts = [
        title("one hand, and its two numbers"),
        element("circle", f"l t{GREY} thin", cx=x, cy=y, r=r),
        line(x, y - r - 6, x, y - r + 6, f"l t{GREY} thin"),
        hook(line(x, y, tip[0], y, f"l t{P} thick"), "large-sine"),
        hook(line(tip[0], y, *tip, f"l t{P} d"), "large-cosine"),
        hook(line(x, y, *tip, f"l t{P} thick"), "large-hand"),
        grab(
            element("circle", f"f t{P}", cx=tip[0], cy=tip[1], r=7, data_p="large-tip"), "position"
        ),
        text(248, 76, "radians"),
    ]
    rows = (
        ("angle", f"{angle:.2f}"),
        ("sine-number", f"{sine:.2f}"),
        ("cosine-number", f"{cosine:.2f}"),
    )
    for i, (name, words) in enumerate(rows):
        parts.append(text(160, 76 + 24 * i, name.removesuffix("-number")))
        parts.append(hook(text(212, 76 + 24 * i, words.replace("-", "−"), classes="num"), name))
    return Panel(WIDTH, 164, tuple(parts))


def _dials(row, chosen):
    """All hands at one position, each on a dial of its own."""
    parts = [title(f"all hands, C = {len(row)}")]
    for i in range(len(row) // 2):
        x, y = 24 + 48 * (i % 6), 40 + 58 * (i // 6)
        angle = math.degrees(math.atan2(row[2 * i], row[2 * i + 1])) % 360
        tone = P if i == chosen else GREY
        turned = {"d": "M0 0V-14", "data_p": "hand", "transform": f"rotate({short(angle)})"}
        dial = element("circle", "l thin", r=16) + element("path", "l thick", **turned)
        place = {"transform": f"translate({x} {y})", "data_p": "dial"}
        parts.append(element("g", f"t{tone}", dial, **place))
        parts.append(text(x, y + 31, str(i), "middle"))
    return Panel(WIDTH, 134, tuple(parts))


def _cells(row, chosen):
    """The encoding: two numbers of each hand."""
    parts, w, high = [title("the encoding: 24 numbers")], 48.0, 24.0
    for i in range(HANDS):
        x, y = w * (i % 6), 22 + 58 * (i // 6)
        for j in (0, 1):
            value = row[2 * i + j]
            ground = element(
                "rect",
                f"k t{P}",
                x=x + 1,
                y=y + j * high + 1,
                width=w - 2,
                height=high - 2,
                fill_opacity=f"{0.05 + 0.35 * abs(value):.2f}",
                data_p="cell",
            )
            number = hook(text(x + w / 2, y + j * high + 16, shown(value, 2), classes="n"), "n")
            parts += [ground, number]
    x, y = w * (chosen % 6), 22 + 58 * (chosen // 6)
    parts.append(hook(frame(x - 1, y - 1, w + 2, 2 * high + 2, P), "frame"))
    return Panel(WIDTH, 134, tuple(parts))


# --- Numbers, frequencies, rotations ----------------------------------------------------------


def worked():
    """The encodings of four features, and the sum at one position."""
    table, w, high, top = _table(4, 4), 44.0, 30.0, 54.0
    first = [title("C = 4: two hands")]
    for j, name in enumerate(("sine", "cosine", "sine", "cosine")):
        first.append(text(112 + (j + 0.5) * w, top - 7, name, "middle"))
    for j, name in enumerate(("hand 0", "hand 1")):
        first.append(text(112 + (2 * j + 1) * w, top - 23, name, "middle", f"t{P}"))
    for p in range(4):
        y = top + (p + 0.5) * high
        first.append(text(10, y + 4, str(p), "end", "num"))
        first += _hands(36, y, table[p], 2, 12.0, 36)
    first += grid(112, top, table, P, w, high, digits=2, most=1)
    y, sums = X[1].double() + table[1], []
    left, w = 88.0, 50.0
    for i, (row, tone, sign) in enumerate(((X[1], GREY, ""), (table[1], P, "+"), (y, GREY, "="))):
        at = top + i * (high + 8)
        sums += grid(left, at, [row], tone, w, high, digits=2, most=1.6)
        sums.append(text(left - 14, at + high / 2 + 5, sign, "middle", "large"))
    sums.append(title("the word, plus its position"))
    sums.append(word(0, top + high / 2 + 5, "bites", "start"))
    sums.append(text(0, top + 1.5 * high + 12, "position 1", classes=f"t{P}"))
    sums.append(text(0, top + 2.5 * high + 20, "sum"))
    bottom = top + 4 * high + 2
    return Figure(
        [Panel(WIDTH, bottom, tuple(first)), Panel(WIDTH + 8, bottom, tuple(sums))],
        f"Left, two hands and four numbers for positions 0 to 3; position 1 is "
        f"{listed(table[1], 2)}. Right, bites {listed(X[1])} plus this is {listed(y, 2)}.",
    )


def _signs(panel):
    """A map of encodings: their colour above zero, grey below."""
    tones = {"p-t0": f"p-t{P}", "p-t1": f"p-t{GREY}"}
    parts = (re.sub("p-t[01]", lambda found: tones[found[0]], part) for part in panel.parts)
    return replace(panel, parts=tuple(parts))


def matrix():
    """The table of the formula, and how long each hand takes."""
    table = _table(32, 32)
    panel = heat_map(
        table.tolist(),
        title="all encodings, C = 32",
        down="position",
        across="feature",
        rows=[str(p) if p % 8 == 0 else "" for p in range(32)],
        columns=[str(i) if i % 8 == 0 else "" for i in range(32)],
        cell=7.6,
    )
    hands = [2 * math.pi * 10000 ** (2 * i / 512) for i in range(256)]
    plot = Plot(
        (0, 255),
        (1, 1e5),
        title="positions for one turn, C = 512",
        x_label="hand",
        height=188,
        log=True,
    )
    plot.line(range(256), hands, P)
    for i, words, at in ((0, "6.3", "start"), (128, f"{hands[128]:.0f}", "start")):
        plot.dots([i], [hands[i]], P)
        plot.note(i + 8, hands[i] / 1.7, words, at)
    plot.dots([255], [hands[255]], P)
    plot.note(248, hands[255], f"{hands[255]:,.0f}", "end")
    return Figure(
        [_signs(panel), plot.panel()],
        "Left, a matrix of 32 positions by 32 features: the first columns change sign every three "
        "positions, the last ones hardly change. Right, the number of positions in which a hand "
        f"goes round once, for 256 hands: from {hands[0]:.1f} to {hands[255]:,.0f}, by the same "
        "factor from hand to hand.",
    )


def alike():
    """A fast hand comes back, a slow one hardly moves; the others tell."""
    table = _table(512, 725)
    hands, parts = (0, 8, 255), []
    apart = {i: (table[14] - table[724])[2 * i : 2 * i + 2].norm().item() for i in hands}
    for row, p in enumerate((14, 724)):
        y = 62 + 84 * row
        parts.append(text(0, y + 4, f"position {p}", classes="on"))
        for j, i in enumerate(hands):
            sine, cosine = table[p, 2 * i : 2 * i + 2].tolist()
            parts.append(_hand(112 + 72 * j, y, 30.0, sine, cosine))
    for j, i in enumerate(hands):
        x = 112 + 72 * j
        parts.append(text(x, 16, f"hand {i}", "middle", "h"))
        parts.append(text(x, 200, f"{apart[i]:.{5 if apart[i] < 0.01 else 2}f}", "middle", "num"))
    parts += [text(0, 200, "tips apart"), title("C = 512")]
    return Figure(
        [Panel(WIDTH, 206, tuple(parts))],
        "Three hands of 256 at positions 14 and 724. The tips are "
        + ", ".join(f"{apart[i]:.5f} apart for hand {i}" for i in hands)
        + ".",
    )


def turned():
    """The same step turns a hand by the same angle, wherever it began."""
    table, x, y, r = _table(2 * HANDS, 14), 74.0, 92.0, 58.0
    hand, k, panels = 1, 2, []
    angles = []
    for start in (1, 6):
        parts = [title(f"C = {2 * HANDS}, hand {hand}: from position {start} to {start + k}")]
        ends = [table[p, 2 * hand : 2 * hand + 2].tolist() for p in (start, start + k)]
        parts.append(_hand(x, y, r, *ends[0], classes=f"l t{P} d"))
        parts.append(_hand(x, y, r, *ends[1]))
        tips = [(x + 0.55 * r * s, y - 0.55 * r * c) for s, c in ends]
        reach = 0.55 * r
        d = f"M{short(tips[0][0])} {short(tips[0][1])}"
        d += f"A{short(reach)} {short(reach)} 0 0 1 {short(tips[1][0])} {short(tips[1][1])}"
        parts.append(element("path", f"r t{A}", d=d, stroke_width=4))
        (s0, c0), (s1, c1) = ends
        angles.append(math.acos(s0 * s1 + c0 * c1))
        parts.append(text(160, 70, "turned by", classes=""))
        parts.append(text(160, 90, f"{angles[-1]:.2f} radians", classes=f"sum t{A}"))
        parts.append(text(160, 110, "in two steps"))
        panels.append(Panel(WIDTH, 158, tuple(parts)))
    return Figure(
        panels,
        f"A clock hand before and after two steps, from position 1 and from position 6: both "
        f"times it turns by {angles[0]:.2f} and {angles[1]:.2f} radians.",
    )


def back():
    """The rotation one step back, as a query projection, with the numbers of the example."""
    table = _table(4, 4)
    query = table[2] @ _step_back(4)
    products = table @ query
    side, high, top = 44.0, 28.0, 96.0
    left = 108.0
    first = [title("the query of position 2")]
    first.append(letter(left - 10, top + 2 * high + 5, ("W", Q, "Q"), at="end"))
    first += grid(left, top, _step_back(4), Q, side, high, digits=2, most=1)
    for y, row, tone in ((top - high - 14, table[2], P), (top + 4 * high + 14, query, Q)):
        first += grid(left, y, [row], tone, side, high, digits=2, most=1)
    first.append(text(left - 10, top - 22, "position 2", "end", f"t{P}"))
    first.append(text(left - 10, top + 4 * high + 33, "its query", "end", f"t{Q}"))
    first.append(text(left - 10, top - 6, "times", "end"))
    y = top + 5 * high + 22
    first += grid(left, y, [table[1]], K, side, high, digits=2, most=1)
    first.append(text(left - 10, y + 19, "key of position 1", "end", f"t{K}"))
    bottom = y + high + 4
    second = [title("times each key")]
    y0 = 62.0
    for p, product in enumerate(products.tolist()):
        y = y0 + 42 * p
        second.append(text(0, y + 4, f"position {p}", classes=f"t{K}"))
        strong = p == 1
        size = {"x": 72, "y": y - 8, "width": 70 * product, "height": 16}
        tone = f"f t{A}" if strong else f"f t{GREY}"
        second.append(element("rect", tone, **size))
        kind = "sum" if strong else "num"
        second.append(text(78 + 70 * product, y + 4, f"{product:.2f}", classes=kind))
    second.append(line(72, y0 - 18, 72, y0 + 42 * 3 + 18, f"l t{GREY} thin"))
    return Figure(
        [Panel(WIDTH, bottom, tuple(first)), Panel(WIDTH, bottom, tuple(second))],
        f"Left, position 2 {listed(table[2], 2)} times a matrix with two rotations on its "
        f"diagonal is the query {listed(query, 2)}, which is the key of position 1. Right, its "
        f"products with the keys of positions 0 to 3: {listed(products, 2)}. That of position 1 is "
        "the largest.",
    )


def _step_back(features, k=-1):
    """The matrix that takes the encoding of a position, as a row, `k` positions further."""
    angles = k * 10000 ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
    blocks = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]).double() for a in angles]
    return torch.block_diag(*blocks)


# --- What training finds ----------------------------------------------------------------------

QUESTIONS = {
    "first": "which came first?",
    "before": "what stands before?",
    "reverse": "write it backwards",
}
NAMES = {
    "none": "no positions",
    "number": "the number p",
    "learned": "learned vectors",
    "sinusoids": "sinusoids",
    "rotary": "rotary",
}


def task():
    """Right answers of five runs, for each question and each way to tell positions."""
    found = {question: results("positional_encoding", question) for question in QUESTIONS}
    # Three panels fit beside each other, with letters of full size.
    left, wide, high, top, width = 98.0, 112.0, 30.0, 44.0, 256.0
    panels, said = [], []
    for question, words in QUESTIONS.items():
        parts = [title(words)]
        for i, (model, name) in enumerate(NAMES.items()):
            y, scores = top + i * high, found[question][model]
            share = mean(scores)
            tone = P if model == "sinusoids" else GREY
            strong = "0.8" if tone == P else "0.45"
            bar = {"x": left, "y": y - 9, "width": wide * share, "height": 18}
            parts.append(element("rect", f"f t{tone}", **bar, fill_opacity=strong))
            parts += [
                element("circle", "goal", cx=left + wide * score, cy=y, r=2.6) for score in scores
            ]
            said.append(f"{name} {100 * share:.0f} %")
            parts.append(text(width, y + 5, f"{100 * share:.0f} %", "end", "on"))
            parts.append(text(left - 8, y + 5, name, "end", "on" if tone == P else ""))
        parts.append(line(left, top - 16, left, top + 5 * high - 16, f"l t{GREY} thin"))
        panels.append(Panel(width, top + 5 * high - 12, tuple(parts)))
    rows = [
        [name, *(f"{100 * mean(found[q][model]):.1f} %" for q in QUESTIONS)]
        for model, name in NAMES.items()
    ]
    groups = [", ".join(said[5 * j : 5 * j + 5]) for j in range(3)]
    named = "; ".join(f"{w} {g}" for w, g in zip(QUESTIONS.values(), groups, strict=True))
    return Figure(
        panels,
        f"Right answers, the mean of five runs. {named}.",
        Table(["", *QUESTIONS.values()], rows),
    )


def attended():
    """The mean weights of the trained models with sinusoids."""
    panels, said = [], []
    for question in ("before", "reverse"):
        runs = results("positional_encoding", f"{question}_weights")["sinusoids"]
        weights = torch.tensor(runs[0]).view(12, 12)
        labels = [str(p) for p in range(12)]
        panels.append(
            heat_map(
                weights.tolist(),
                title=QUESTIONS[question],
                down="query at position",
                across="key",
                rows=labels,
                columns=labels,
                cell=18.0,
                most=1.0,
            )
        )
        goals = [p - 1 if question == "before" else 11 - p for p in range(1, 12)]
        said.append(
            mean(weights[p, goal].item() for p, goal in zip(range(1, 12), goals, strict=True))
        )
    return Figure(
        panels,
        "Two maps of 12 queries by 12 keys. Left, most of the weight, "
        f"{100 * said[0]:.0f} % in the mean, lies one place before each query. Right, "
        f"{100 * said[1]:.0f} % lies on the other diagonal: the first query attends to the last "
        "key.",
    )


def losses():
    """Language models on Shakespeare with each kind of positions."""
    studies = {
        "no positions": ("positions", "none"),
        "learned vectors": ("positions", "learned"),
        "sinusoids": ("positions", "sinusoidal"),
        "rotary": ("feedback_depth", "transformer-4"),
    }
    means = {}
    for name, (study, label) in studies.items():
        lines = (RESULTS / f"{study}.jsonl").read_text("utf-8").splitlines()
        runs = [run for run in map(json.loads, lines) if run["label"] == label]
        means[name] = mean(run["result"]["validation_loss"] for run in runs)
    bars = bar_list(
        list(means),
        list(means.values()),
        [f"{loss:.2f}" for loss in means.values()],
        title="Shakespeare: loss in nats",
        most=3.0,
        room=40,
    )
    kept = json.loads((RESULTS / "longer.json").read_text(encoding="utf-8"))
    plot = Plot(
        (0, 256),
        (1.5, 3.5),
        title="trained on 64 letters, reads 256",
        x_label="position",
        y_label="loss in nats",
        height=110,
    )
    for name, label, tone, dashed in (
        ("sinusoidal", "sinusoids", P, False),
        ("rotary", "rotary", GREY, True),
    ):
        runs = [run["losses"] for run in kept if run["positions"] == name]
        curve = [mean(run[t] for run in runs) for t in range(len(runs[0]))]
        spans = range(0, len(curve) - 7, 8)
        plot.line(
            [t + 4 for t in spans],
            [mean(curve[t : t + 8]) for t in spans],
            tone,
            label=label,
            dashed=dashed,
        )
    x = plot.at(64, 0)[0]
    plot.add(line(x, plot.top, x, plot.bottom, f"l t{ERROR} thin"))
    said = ", ".join(f"{name} {loss:.2f}" for name, loss in means.items())
    return Figure(
        [_signs(bars), plot.panel()],
        f"Left, the loss on Shakespeare: {said}. Right, the loss by position: it rises where the "
        "length of training, 64, ends, at once with sinusoids and later with rotary positions.",
    )


# --- For reference ----------------------------------------------------------------------------


def diagram():
    """Where the encodings enter, as the bottom of Figure 1 of the paper."""
    return Figure(
        [_bottom()],
        "From bottom to top, the same for encoder and decoder: tokens are embedded and scaled by "
        "the square root of C, the positional encodings are added, dropout follows, and the sum "
        "enters the layers.",
    )


def _bottom():
    """Embeddings and encodings, and their sum, in encoder and decoder."""
    middle, height, parts = WIDTH / 2, 26.0, []
    layers, dropout, plus, embedding, tokens = 24.0, 66.0, 120.0, 148.0, 192.0
    parts.append(title("sum at the bottom of both stacks"))
    encoding = "#get_positional_encoding"
    parts.append(box(middle, plus - height / 2, 76, height, "sinusoids", P, encoding))
    for x, stack, source in ((46.0, "encoder", "source"), (242.0, "decoder", "target")):
        parts.append(box(x, layers, 90, height, f"{stack}, × L", 0))
        parts.append(arrow(x, dropout, x, layers + height, "l t4"))
        parts.append(box(x, dropout, 90, height, "dropout", 4, "#PositionalEncoding.forward"))
        parts.append(arrow(x, plus - 6, x, dropout + height, "l t4"))
        parts.append(element("circle", "l t4", cx=x, cy=plus, r=6))
        parts.append(text(x, plus + 3.5, "+", "middle"))
        side = -1 if x < middle else 1
        parts.append(arrow(middle + side * 38, plus, x - side * 6, plus, f"l t{P}"))
        parts.append(arrow(x, embedding, x, plus + 6, "l t4"))
        parts.append(box(x, embedding, 92, height, "embedding √C", GREY, EMBEDDING))
        parts.append(arrow(x, tokens, x, embedding + height, "l t4"))
        parts.append(text(x, tokens + 12, f"{source} tokens", "middle"))
    return Panel(WIDTH, tokens + 18, tuple(parts))


def waves():
    """A few features along the positions."""
    table = get_positional_encoding(64, 49)[:, 0]
    hands = (0, 8)
    panels = []
    for hand in hands:
        plot = Plot((0, 48), (-1, 1), title=f"hand {hand}", x_label="position", height=80)
        plot.line(range(49), table[:, 2 * hand].tolist(), P, label="sine")
        plot.line(range(49), table[:, 2 * hand + 1].tolist(), P, label="cosine", dashed=True)
        panels.append(plot.panel())
    # Half a turn is over when the sine is no longer positive.
    half = [int((table[1:, 2 * hand] <= 0).int().argmax()) + 1 for hand in hands]
    return Figure(
        panels,
        f"The sine of hand 0 is below 0 from position {half[0]} on and comes back, that of "
        f"hand 8 first at position {half[1]}. Each cosine is a quarter of a turn ahead.",
    )


def products():
    """How similar two positions are, by their distance."""
    table = get_positional_encoding(128, 121, dtype=torch.float64)[:, 0]
    found = (table @ table[60]).tolist()
    plot = Plot((-60, 60), (0, 64), x_label="distance", y_label="dot product", height=100)
    plot.line(range(-60, 61), found, P)
    rows = [[str(k), f"{found[60 - k]:.2f}", f"{found[60 + k]:.2f}"] for k in (0, 1, 2, 5, 20, 60)]
    return Figure(
        [plot.panel()],
        f"A peak of {found[60]:.0f} at distance 0; {found[65]:.1f} is left at a distance of 5 "
        f"and {found[120]:.1f} at 60, on both sides alike, with ripples on the way.",
        Table(["distance", "before", "after"], rows),
    )


#: Queries and keys of the pictures of schemes.
SHORT = 8
#: Of each scheme: what it is, the strength of each distance, and what the strengths are.
SCHEMES = (
    ("Shaw: a vector for each distance", (0, 1, 2, 3, 3, 3, 3, 3), "a₀ a₁ a₂ a₃"),
    ("Transformer-XL: projected sinusoids", (0, 1, 2, 3, 4, 5, 6, 7), "r₀ r₁ r₂ …"),
    ("T5: a number for each range", (0, 1, 2, 2, 3, 3, 3, 3), "b₀ b₁ b₂ b₃"),
    ("ALiBi: minus slope times distance", (0, 1, 2, 3, 4, 5, 6, 7), "0 −m −2m …"),
)


def schemes():
    """Six ways to put the distance into the scores: a cell for each query and key."""
    panels, side, top = [], 20.0, 24.0

    def begun(name):
        numbers = (text(14, top + (t + 0.5) * side + 4, str(t), "end", "num") for t in range(SHORT))
        return [title(name), *numbers]

    for name, strengths, words in SCHEMES:
        parts, most, tone = begun(name), max(strengths), ERROR if name.startswith("ALiBi") else P
        for t in range(SHORT):
            row = [strengths[t - s] for s in range(t + 1)]
            parts += grid(20, top + t * side, [row], tone, side, side, digits=0, most=most)
        for i, label in enumerate(words.split()):
            y = top + 4 + i * 28
            parts += grid(196, y, [[i]], tone, side, side, digits=0, most=most)
            parts.append(text(222, y + 15, label, classes="on"))
        panels.append(Panel(WIDTH, top + SHORT * side + 4, tuple(parts)))

    table, parts = _table(8, SHORT), begun("RoPE: both turned by their positions")
    for t in range(SHORT):
        y = top + (t + 0.5) * side
        for x, tone, position in ((60.0, Q, t), (150.0, K, t - 2)):
            if position >= 0:
                sine, cosine = table[position, :2].tolist()
                parts.append(_hand(x, y, 9.0, sine, cosine, f"l t{tone} thick"))
        if t >= 2:
            parts.append(line(72, y, 138, y, f"l t{GREY} thin"))
    for i, words in enumerate(("the key two", "positions back:", "always the", "same angle")):
        parts.append(text(176, top + (2.5 + i) * side + 4, words))
    panels.append(Panel(WIDTH, top + SHORT * side + 4, tuple(parts)))

    parts = begun("none: the mask alone")
    for t in range(SHORT):
        share = [[1 / (t + 1)] * (t + 1)]
        parts += grid(20, top + t * side, share, A, side, side, digits=0, most=1)
        words = f"{t + 1} key" + "s" * (t > 0)
        parts.append(text(196, top + (t + 0.5) * side + 4, words))
    panels.append(Panel(WIDTH, top + SHORT * side + 4, tuple(parts)))
    return Figure(
        panels,
        "Six tables, a row for each of 8 queries and a cell for each key up to it. In the first "
        "four, cells of one distance are equal. Shaw has a vector for each distance up to a "
        "largest one, Transformer-XL a sinusoid for every distance, T5 a number for 0, for 1, for "
        "2 to 3 and for 4 to 7, and ALiBi takes off more the larger the distance. For RoPE, hands "
        "turned by the positions of a query and of a key two positions back, which always make "
        "the same angle. With none, queries only see different numbers of keys, from 1 to 8.",
    )
