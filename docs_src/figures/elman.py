"""An Elman network that reads *hello*, learns to, and how its gradient vanishes over time."""

import contextlib
import inspect
import io
import json
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from docs_src.tasks import elman as task
from docs_src.tasks import results
from labml_nn.experiments.checkpoint import load_run
from labml_nn.recurrent import elman as lesson
from labml_nn.recurrent.elman import ElmanLayer
from pylit.figures.draw import (
    WIDTH,
    Choice,
    Figure,
    Knob,
    Panel,
    Plot,
    Stage,
    Table,
    arc,
    arrow,
    box,
    cell,
    element,
    frame,
    grid,
    hook,
    letter,
    line,
    listed,
    polyline,
    ribbon,
    shown,
    square,
    text,
    title,
    word,
)

TRAINED = Path(__file__).parents[1] / "results/elman"
UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)
#: The roles, as tones of `pylit.figures.draw`.
WEIGHT, RIGHT, GREY, STATE, ERROR = 0, 2, 4, 5, 6

# --- The word by hand ---------------------------------------------------------------------------

LETTERS = "helo"
W = torch.tensor([[0.0, 0, 0, 0], [-1, 0, 2, 0]])
U = torch.tensor([[0.0, 2], [0, 0]])
R = torch.tensor([[0.0, 0], [0, -4], [-4, 4], [4, 0]])


def _read(letters="hell", memory=1.0):
    """The sums from letters and from states, the states, logits and probabilities of a word."""
    layer = ElmanLayer(4, 2)
    with torch.no_grad():
        layer.cell.input.weight.copy_(W)
        layer.cell.input.bias.zero_()
        layer.cell.recurrent.weight.copy_(memory * U)
        x = torch.eye(4)[[LETTERS.index(one) for one in letters]][:, None]
        states = layer(x)[0]
        before = torch.cat([torch.zeros(1, 1, 2), states[:-1]])
        sums = layer.cell.input(x), layer.cell.recurrent(before)
        logits = states @ R.T
    return [made[:, 0] for made in (*sums, states, logits, logits.softmax(-1))]


def network():
    """*hell* goes in and *ello* should come out: each state is made of a letter and a state."""
    states, parts, w, h = _read()[2].tolist(), [], 92.0, 34.0
    for t, (one, target, state) in enumerate(zip("hell", "ello", states, strict=True)):
        x, y = 74.0 + t * 150, 128.0
        parts.append(word(x, 48, target, size="big"))
        parts.append(arrow(x, y - 8, x, 64, f"l t{WEIGHT} thick"))
        parts.append(arrow(x, 250, x, y + 2 * h + 8, f"l t{WEIGHT} thick"))
        start = x - 150 + w / 2 + 5 if t else 0
        parts.append(arrow(start, y + h, x - w / 2 - 6, y + h, f"l t{STATE} thick"))
        for i, value in enumerate(state):
            strength = 0.06 + 0.4 * abs(value)
            parts.append(cell(x - w / 2, y + i * h, w, h, STATE, strength))
            at = (x, y + i * h + 23)
            parts.append(text(*at, shown(value, 2), "middle", "large on"))
        parts.append(word(x, 290, one, size="big"))
    return Figure(
        [Panel(600, 304, tuple(parts))],
        "Four steps, side by side. At each step an arrow leads from a letter of hell to a state of "
        "two numbers, and another from the state up to a letter of ello. Arrows lead from each "
        f"state to the next. The states are {', '.join(listed(state, 2) for state in states)}.",
    )


def targets():
    """Each letter is the target of the one before."""
    xs, parts = [26.0 + i * 58 for i in range(5)], [title("one text …")]
    for x, one in zip(xs, "hello", strict=True):
        parts.append(word(x, 78, one, size="large"))
    for a, b in pairwise(xs):
        parts.append(arc(a + 5, b - 5, 54, 30, 0.2, RIGHT))
        parts.append(arrow(b - 5.4, 52, b - 5, 56, f"l t{RIGHT}"))
    table = [title("… is inputs and targets")]
    for t, pair in enumerate(zip("hell", "ello", strict=True)):
        x = 104 + t * 50.0
        table.append(text(x, 30, str(t + 1), "middle"))
        for y, tone, one in ((36, GREY, pair[0]), (70, RIGHT, pair[1])):
            table.append(cell(x - 23, y, 46, 30, tone, 0.12))
            table.append(word(x, y + 21, one, size="mid"))
    for y, words in ((30, "step"), (56, "input"), (90, "target")):
        table.append(text(0, y, words, classes=f"t{RIGHT}" if words == "target" else ""))
    return Figure(
        [Panel(WIDTH, 104, tuple(parts)), Panel(WIDTH, 104, tuple(table))],
        "Left, the word hello, with an arrow from each letter to the next. Right, a table: inputs "
        "h, e, l, l, and below them the targets e, l, l, o.",
    )


def forgetful():
    """Without memory, and with a window of three letters."""
    alone = [title("no memory: the same in, the same out")]
    for row, target in enumerate("lo"):
        y = 52.0 + row * 62
        for i, one in enumerate("hel"[: 2 + row]):
            alone.append(text(14 + i * 18, y + 5, one, classes=f"w t{GREY}"))
        x = 14.0 + 18 * (2 + row)
        alone += [word(x, y + 5, "l", size="mid"), frame(x - 9, y - 13, 18, 25, GREY)]
        alone.append(arrow(x + 12, y, 96, y, f"l t{GREY}"))
        alone.append(box(134, y - 14, 72, 28, "f(W x + b)", GREY))
        alone.append(arrow(171, y, 186, y, f"l t{GREY}"))
        for i, one in enumerate("lo"):
            bar = {"x": 206, "y": y - 15 + 16 * i, "width": 24, "height": 12}
            alone.append(word(196, y - 4 + 16 * i, one, size="small"))
            alone.append(element("rect", f"f t{GREY}", fill_opacity=".5", **bar))
            alone.append(text(235, y - 5 + 16 * i, "½"))
        alone.append(text(252, y - 6, "target"))
        alone.append(word(270, y + 14, target, size="mid"))
    window, step = [title("a window: other weights at each position")], 40.0
    for row, start in enumerate((0, 1)):
        y = 36.0 + row * 62
        for i, one in enumerate("hello"):
            kind = "mid" if start <= i < start + 3 else f"mid t{GREY}"
            window.append(word(46 + i * step, y + 16, one, size=kind))
        window.append(frame(28 + start * step, y - 4, 3 * step - 4, 28, GREY))
        for i in range(3):
            x = 46 + (start + i) * step
            window.append(cell(x - 18, y + 28, 36, 18, WEIGHT, (0.06, 0.14, 0.24)[i]))
            window.append(text(x, y + 41, f"W{_below(i + 1)}", "middle", f"t{WEIGHT}"))
    return Figure(
        [Panel(WIDTH, 150, tuple(alone)), Panel(WIDTH, 150, tuple(window))],
        "Left, a network without memory reads the letter l twice, gives l and o one half each both "
        "times, and is to predict l the first time and o the second. Right, a window of three "
        "letters: e meets the second weights at first, and after a shift of one letter the first.",
    )


def one_step():
    """The last step of hello with its numbers, and tanh with all sums of the example."""
    from_letter, from_state, states, *_ = (made.tolist() for made in _read())
    total = [a + b for a, b in zip(from_letter[3], from_state[3], strict=True)]
    w, h, mid = 52.0, 24.0, 146.0

    def column(x, y, values, tone):
        return grid(x - w / 2, y, [[value] for value in values], tone, w, h, digits=2, most=2)

    flow = [title("the last step"), word(30, 190, "l", size="large")]
    flow += column(26, 62, states[2], STATE) + column(mid, 62, total, GREY)
    flow += column(262, 62, states[3], STATE)
    flow.append(letter(26, 54, ("h", STATE), ("₃", STATE), at="middle"))
    flow.append(letter(262, 54, ("h", STATE), ("₄", STATE), at="middle"))
    flow.append(text(mid, 54, "sum", "middle"))
    flow.append(arrow(54, 86, mid - 30, 86, f"l t{WEIGHT} thick"))
    flow.append(letter(86, 78, ("U h", WEIGHT), ("₃", WEIGHT), at="middle"))
    flow.append(text(86, 102, listed(from_state[3]), "middle"))
    flow.append(line(40, 184, mid, 184, f"l t{WEIGHT} thick"))
    flow.append(arrow(mid, 184, mid, 116, f"l t{WEIGHT} thick"))
    flow.append(letter(mid + 10, 148, ("W x", WEIGHT), ("₄", WEIGHT)))
    flow.append(text(mid + 10, 166, listed(from_letter[3])))
    flow.append(arrow(mid + 30, 86, 232, 86, f"l t{GREY}"))
    flow.append(text(204, 78, "tanh", "middle", "on"))

    left, unit, zero, high = 28.0, 52.0, 108.0, 76.0
    curve = [title("tanh squeezes any number")]
    for value in (-1, 0, 1):
        y = zero - value * high
        curve += [line(left, y, WIDTH, y, "g"), text(left - 6, y + 4, shown(value), "end")]
    middle = left + 2.5 * unit
    for value in (-2, -1, 0, 1, 2):
        curve.append(text(middle + value * unit, zero + high + 18, shown(value), "middle"))
    points = [(middle + a / 20 * unit, zero - math.tanh(a / 20) * high) for a in range(-48, 49, 4)]
    curve.append(element("path", f"l t{GREY} thick", d=polyline(points)))
    for a, dx, dy, at in ((-1.52, 8, 12, "start"), (-1.0, 9, 5, "start"), (2.0, -4, 20, "middle")):
        x, y = middle + a * unit, zero - math.tanh(a) * high
        curve.append(element("circle", f"f t{STATE}", cx=x, cy=y, r=4.5))
        words = f"{shown(a)} → {shown(math.tanh(a), 2)}"
        curve.append(text(x + dx, y + dy, words, at, "on halo"))
    return Figure(
        [Panel(WIDTH, 200, tuple(flow)), Panel(WIDTH, 204, tuple(curve))],
        f"Left, the last step: the state {listed(states[2], 2)} gives {listed(from_state[3], 2)}, "
        f"the letter l gives {listed(from_letter[3], 2)}, their sum is {listed(total, 2)}, and "
        f"its tanh is the next state, {listed(states[3], 2)}. Right, the curve of tanh, which "
        "leads from −1 to 1.",
    )


def one_hot():
    """A one-hot vector picks a column of W."""
    side, x, y, parts = 28.0, 50.0, 44.0, []
    for j, one in enumerate(LETTERS):
        parts.append(word(x + (j + 0.5) * side, y - 8, one))
    parts.append(letter(x + 2 * side, 14, ("W", WEIGHT), at="middle"))
    parts += [text(x - 8, y + (i + 0.5) * side + 4, f"unit {i + 1}", "end") for i in (0, 1)]
    parts += grid(x, y, W, WEIGHT, side, side)
    parts.append(frame(x + 2 * side - 1, y - 24, side + 2, 2 * side + 27, STATE))
    parts.append(text(x + 4 * side + 10, y + side + 5, "·", "middle", "on"))
    x += 4 * side + 34
    vector = [[float(one == "l")] for one in LETTERS]
    parts.append(letter(x + 14, 14, ("x", None), at="middle"))
    parts += grid(x, y - side / 2 - 8, vector, GREY, 28, 27)
    parts.append(text(x + 40, y + side + 5, "=", "middle", "on"))
    parts += grid(x + 52, y, W[:, 2:3], WEIGHT, side, side, most=2)
    for j, one in enumerate(LETTERS):
        parts.append(word(x - 6, y - side / 2 + 10 + j * 27, one, "end", "small"))
    return Figure(
        [Panel(WIDTH, 136, tuple(parts))],
        "The matrix W has a row for each of two units and a column for each of the letters h, e, "
        f"l, o: {listed(W[0])} and {listed(W[1])}. Times the one-hot vector of l, (0, 0, 1, 0), it "
        f"gives its third column, {listed(W[:, 2])}.",
    )


def matrices():
    """The weights of the example, and what they do."""
    side, panels, said = 34.0, [], []
    for name, matrix, columns, words in (
        ("W", W, LETTERS, "weighs the letter"),
        ("U", U, ("unit 1", "unit 2"), "weighs the state before"),
    ):
        wide = side if name == "W" else 52.0
        parts = [letter(0, 13, (name, WEIGHT)), text(20, 12, words, classes="h")]
        for j, column in enumerate(columns):
            x = 54 + (j + 0.5) * wide
            parts.append(word(x, 36, column) if name == "W" else text(x, 36, column, "middle"))
        parts += [text(46, 44 + (i + 0.5) * side + 4, f"unit {i + 1}", "end") for i in (0, 1)]
        parts += grid(54, 44, matrix, WEIGHT, wide, side)
        row, source = (1, "← letter") if name == "W" else (0, "← memory")
        parts.append(text(64 + len(columns) * wide, 44 + (row + 0.5) * side + 4, source))
        panels.append(Panel(WIDTH, 44 + 2 * side + 2, tuple(parts)))
        said.append(f"{name} has the rows {listed(matrix[0])} and {listed(matrix[1])}")
    return Figure(
        panels,
        f"{said[0]}, one for each unit, with a column for each of h, e, l, o. {said[1]}: unit 1 "
        "gets twice unit 2.",
    )


#: Places of a step of the stage, in which its script draws too: the bars and the height of their
#: foot, and the ground of a state of 0 and what is added for 1.
STEP = {"foot": 92, "high": 52, "left": 14, "apart": 31, "wide": 144, "pale": 0.06, "strong": 0.4}
#: What the network may read.
WORDS = ("hello", "olleh", "lolle")


def hello():
    """The four steps of *hello*: letter, sums, state, and probabilities of the next letter."""
    from_letter, from_state, states, _, shares = (made.tolist() for made in _read())
    panels, wide, foot, w, said = [], STEP["wide"], STEP["foot"], 68.0, []
    for t, (one, target) in enumerate(zip("hell", "ello", strict=True)):
        parts, left = [], wide * (t % 2)
        x, right = left + wide / 2, LETTERS.index(target)
        around = {"x": left + 2, "y": 2, "width": wide - 4, "height": 308, "rx": 4}
        around["stroke_opacity"] = float(not t)
        parts.append(element("rect", f"l t{STATE}", **around, data_p="at"))
        parts.append(text(left + 12, 22, f"step {t + 1}", classes="h"))
        share = shown(shares[t][right], 2)
        parts.append(hook(text(left + 132, 22, f"p = {share}", "end", f"t{RIGHT}"), "share"))
        for i, name in enumerate(LETTERS):
            at, high = left + STEP["left"] + i * STEP["apart"], max(shares[t][i] * STEP["high"], 1)
            size = {"x": at, "y": foot - high, "width": 23, "height": high, "fill_opacity": ".65"}
            tone = RIGHT if i == right else GREY
            parts.append(element("rect", f"f t{tone}", **size, data_p="bar"))
            parts.append(word(at + 11.5, foot + 17, name))
        parts.append(line(left + 10, foot, left + 134, foot, "g"))
        at = left + STEP["left"] + 2 + right * STEP["apart"]
        parts.append(hook(frame(at, foot + 3, 19, 20, RIGHT), "target"))
        parts.append(arrow(x, 150, x, 122, f"l t{WEIGHT} thick"))
        parts.append(letter(x + 8, 141, ("R", WEIGHT)))
        parts.append(arrow(left, 178, x - w / 2 - 4, 178, f"l t{STATE} thick"))
        parts.append(line(x + w / 2 + 2, 178, left + wide, 178, f"l t{STATE} thick"))
        for i, value in enumerate(states[t]):
            strength = STEP["pale"] + STEP["strong"] * abs(value)
            look = {"d": square(x - w / 2, 154 + 24 * i, w, 24), "fill_opacity": f"{strength:.2f}"}
            parts.append(element("path", f"k t{STATE}", **look, data_p="ground"))
            parts.append(hook(text(x, 170 + 24 * i, shown(value, 2), classes="n"), "unit"))
        for y, name, made, sums in (
            (222, "W x", "letter", from_letter),
            (240, "U h", "memory", from_state),
        ):
            index = _below(t + (made == "letter"))
            parts.append(letter(left + 12, y, (name + index, WEIGHT)))
            parts.append(hook(text(left + 132, y, listed(sums[t]), "end", "num"), made))
        parts.append(arrow(x, 270, x, 250, f"l t{WEIGHT} thick"))
        parts.append(hook(word(x, 297, one, size="large"), "word"))
        said.append(f"{one}: state {listed(states[t], 2)}, {share} for {target}")
        if t % 2:
            panels[-1] += parts
        else:
            panels.append(parts)
    costs = [-math.log(shares[t][LETTERS.index(target)]) for t, target in enumerate("ello")]
    matrices = {"W": W.tolist(), "U": U.tolist(), "R": R.tolist(), "letters": LETTERS}
    return Figure(
        [Panel(WIDTH, 312, tuple(parts)) for parts in panels],
        "Four steps. In each a letter and the state before make a state of two units, and R makes "
        f"four probabilities of it. {'; '.join(said)}.",
        stage=Stage(
            "hello",
            [
                Choice("word", "Word", WORDS),
                Knob("memory", "Memory, share of U", 0, 1, 0.1, 1),
            ],
            {**matrices, "words": WORDS, **STEP},
            f"After h the right letter, e, gets {math.exp(-costs[0]):.2f}. A letter of hello costs "
            f"{sum(costs) / len(costs):.2f} nats on average.",
            tuple("hell"),
        ),
    )


def logits():
    """From the state after *hel* to logits, and from these to probabilities."""
    *_, states, found, shares = (made.tolist() for made in _read())
    state, found, shares = states[2], found[2], shares[2]
    powers = [math.exp(one) for one in found]
    w, h, y = 40.0, 27.0, 44.0
    first = [title("the state is read …")]
    first += [word(14, y + (i + 0.5) * h + 5, one) for i, one in enumerate(LETTERS)]
    first += grid(26, y, R, WEIGHT, w, h)
    first.append(letter(26 + w, y - 8, ("R", WEIGHT), at="middle"))
    first.append(text(118, y + 2 * h + 4, "·", "middle", "on"))
    first += grid(130, y + h, [[one] for one in state], STATE, 48, h, digits=2)
    first.append(letter(154, y + h - 8, ("h", STATE), ("₃", STATE), at="middle"))
    first.append(text(192, y + 2 * h + 4, "=", "middle", "on"))
    first += grid(206, y, [[one] for one in found], GREY, 58, h, digits=2)
    first.append(text(235, y - 8, "logits", "middle"))
    second, most = [title("… and softmax makes shares of it")], 96.0
    for x, words in ((78, "exp"), (150, "probability")):
        second.append(text(x, y - 8, words, "end" if x == 78 else "start"))
    for i, (one, power, share) in enumerate(zip(LETTERS, powers, shares, strict=True)):
        top = y + i * h
        second.append(word(14, top + h / 2 + 5, one))
        second.append(text(78, top + h / 2 + 4, f"{power:.2f}", "end", "num"))
        second.append(text(106, top + h / 2 + 4, f"/ {sum(powers):.2f}", "middle"))
        bar = {"x": 150, "y": top + 5, "width": max(share * most, 1), "height": h - 10}
        second.append(
            element("rect", f"f t{RIGHT if one == 'l' else GREY}", fill_opacity=".6", **bar)
        )
        second.append(text(156 + share * most, top + h / 2 + 4, f"{share:.2f}", classes="num"))
    second += [line(40, y + 4 * h + 2, 78, y + 4 * h + 2, "g"), text(10, y + 4 * h + 17, "sum")]
    second.append(text(78, y + 4 * h + 17, f"{sum(powers):.2f}", "end", "num"))
    return Figure(
        [Panel(WIDTH, y + 4 * h + 22, tuple(first)), Panel(WIDTH, y + 4 * h + 22, tuple(second))],
        f"Left, the matrix R times the state {listed(state, 2)} gives the logits "
        f"{listed(found, 2)} of h, e, l, o. Right, their powers of e, {listed(powers, 2)}, divided "
        f"by the sum {sum(powers):.2f}, are the probabilities {listed(shares, 2)}.",
    )


def losses():
    """The loss of each letter, with memory and without, and the curve of −ln p."""
    costs = {}
    for name, memory in (("with memory", 1.0), ("without, U = 0", 0.0)):
        shares = _read(memory=memory)[4]
        wanted = [LETTERS.index(one) for one in "ello"]
        costs[name] = [-math.log(shares[t, i].item()) for t, i in enumerate(wanted)]
    plot = Plot((0, 1), (0, 4), title="the loss of a probability, in nats", x_label="p", height=150)
    ps = [i / 100 for i in range(2, 101, 2)]
    plot.line(ps, [-math.log(p) for p in ps], GREY)
    said = (
        (0.02, "o without memory, 0.02"),
        (0.25, "one of four, 0.25"),
        (0.5, "½"),
        (0.96, "0.96"),
    )
    for p, words in said:
        cost = costs["without, U = 0"][3] if p == 0.02 else -math.log(p)
        x, y = plot.at(math.exp(-cost), cost)
        plot.add(element("circle", f"f t{ERROR}", cx=x, cy=y, r=4.5))
        last = p == 0.96
        plot.add(
            text(
                x + 14 if last else x + 9,
                y - (17 if last else -5 if p == 0.02 else 4),
                f"{words} → {cost:.2f}",
                "end" if last else "start",
                "on",
            )
        )
    bars = [title("the loss of each letter, in nats")]
    scale, left, y = 180 / 4, 44.0, 26.0
    for name, found in costs.items():
        mean = sum(found) / len(found)
        bars.append(text(left, y + 4, f"{name}: {mean:.2f} on average", classes="on"))
        for one, target, cost in zip("hell", "ello", found, strict=True):
            y += 18
            bars.append(word(left - 8, y + 1, f"{one} → {target}", "end", "small"))
            size = {"x": left, "y": y - 9, "width": max(cost * scale, 1), "height": 12}
            bars.append(element("rect", f"f t{ERROR}", fill_opacity=".65", **size))
            bars.append(text(left + cost * scale + 6, y + 1, f"{cost:.2f}", classes="num"))
        y += 26
    return Figure(
        [plot.panel(), Panel(WIDTH, y - 12, tuple(bars))],
        "Left, the curve of −ln p: it is 0 for 1 and rises steeply towards 0. Right, bars for the "
        "losses of e, l, l, o: "
        + "; ".join(f"{name} {listed(found, 2)}" for name, found in costs.items())
        + " nats.",
    )


def model():
    """From a token to its loss: boxes lead to the code."""
    x, high, gap, top, parts = 84.0, 28.0, 20.0, 2.0, []
    chain = (
        ("token", GREY, "", ("wₜ", None), "which letter"),
        ("one-hot or embedding", WEIGHT, "#ElmanLanguageModel.forward", ("xₜ", None), "C numbers"),
        ("the cell", STATE, "#ElmanCell.forward", ("hₜ", STATE), "N numbers"),
        ("R hₜ + c", WEIGHT, "#ElmanLanguageModel.forward", ("zₜ", None), "V logits"),
        ("softmax", GREY, "", ("pₜ", None), "V probabilities"),
        ("− ln p of the target", ERROR, "#training-and-generation", ("ℒ", ERROR), "the loss"),
    )
    for level, (words, tone, to, symbol, about) in enumerate(chain):
        y = top + (len(chain) - 1 - level) * (high + gap)
        parts.append(box(x, y, 140, high, words, tone, to))
        parts += [letter(160, y + 19, symbol), text(184, y + 18, about)]
        if level:
            parts.append(arrow(x, y + high + gap, x, y + high + 2, f"l t{GREY}"))
    y = top + 3 * (high + gap)
    d = f"M40 {y}v-11H3v{high / 2 + 11}h9m-4-4l4 4l-4 4"
    parts.append(element("path", f"l t{STATE} thick", d=d))
    return Figure(
        [Panel(WIDTH, y + 3 * (high + gap), tuple(parts))],
        "A chain of boxes from bottom to top: token, one-hot vector or embedding, the cell, whose "
        "state also goes back into the cell, output, softmax, loss.",
    )


# --- The gradient -------------------------------------------------------------------------------

CHAIN = 7


def backward():
    """How much of a gradient of the last loss arrives at each earlier state, as thickness."""
    panels, said = [], []
    torch.manual_seed(5)
    x = torch.randn(CHAIN, BATCH, 1)
    for radius, words in (
        (1.0, "a new network: it vanishes"),
        (2.0, "U twice as large: it grows"),
    ):
        lengths = _arriving(_layer(radius), x, range(CHAIN))[::-1]
        parts, y, step = [title(words)], 74.0, 39.0
        for t, length in enumerate(lengths):
            at = 16.0 + t * step
            if t + 1 < CHAIN:
                parts.append(ribbon(at + 12, y, at + step - 12, y, length, ERROR, 9))
            parts.append(cell(at - 11, y - 15, 22, 30, STATE, 0.15))
            parts.append(text(at, y + 5, f"h{_below(t + 1)}", classes=f"w small t{STATE}"))
            parts.append(arrow(at, y + 44, at, y + 20, f"l t{GREY} thin"))
            parts.append(word(at, y + 58, f"x{_below(t + 1)}", size="small"))
            parts.append(text(at, y + 82, f"{length:.2f}", "middle", f"t{ERROR}"))
        at = 16.0 + (CHAIN - 1) * step
        parts.append(ribbon(at, 34, at, y - 17, 1, ERROR, 9))
        parts.append(text(at + 14, 32, "loss", "end", f"t{ERROR}"))
        panels.append(Panel(WIDTH, y + 88, tuple(parts)))
        said.append(f"{words}, {', '.join(f'{length:.2f}' for length in lengths)}")
    return Figure(
        panels,
        f"Two chains of {CHAIN} states. From the loss at the last state a line leads back through "
        f"all states, as thick as the gradient is long. From the first state to the last: "
        f"{'; '.join(said)}.",
    )


def unrolled():
    """Seven steps; the darker a state, the more of the last state's gradient arrives there."""
    steps = 7
    layer, x = _layer(1.0), torch.randn(steps, BATCH, 1)
    left = _arriving(layer, x, range(steps))[::-1]
    parts = [text(0, 24, "state"), text(0, 98, "input"), text(0, 122, "length")]
    for t in range(steps):
        at, shade = 52.0 + t * 37, max(left[t] ** 0.5, 0.06)
        state = f"h{_below(t + 1)}"
        if t:
            parts.append(arrow(at - 25.5, 42, at - 13, 42, "l t4"))
        parts.append(arrow(at, 86, at, 55, "l t4"))
        parts.append(element("circle", "f t0", cx=at, cy=42, r=11, fill_opacity=f"{shade:.2f}"))
        parts.append(element("circle", "l t0", cx=at, cy=42, r=11))
        parts.append(text(at, 24, state, "middle"))
        parts.append(text(at, 98, f"x{_below(t + 1)}", "middle"))
        parts.append(text(at, 122, f"{left[t]:.2f}", "middle"))
    rows = [[f"h{_below(t + 1)}", f"{share:.3g}"] for t, share in enumerate(left)]
    return Figure(
        [Panel(WIDTH, 126, tuple(parts))],
        f"A chain of {steps} states, each made from the one before and an input. Of a gradient "
        f"of length 1 at the last state, {left[-2]:.2f} arrives one step before, "
        f"{left[-4]:.2f} three steps before, and {left[0]:.2f} at the first state.",
        Table(["state", "length of the gradient"], rows),
    )


def powers():
    """0.9 and 1.1 to the power of 0 to 50."""
    panels, steps = [], range(51)
    for u, top, ticks in ((0.9, 1.0, (0, 0.5, 1)), (1.1, 120.0, (0, 60, 120))):
        plot = Plot(
            (0, 50), (0, top), title=f"u = {u}", x_label="steps t", height=110, y_ticks=ticks
        )
        ys = [u**t for t in steps]
        plot.line(steps, ys, ERROR)
        plot.dots((0, 10, 50), [u**t for t in (0, 10, 50)], ERROR)
        for t in (10, 50):
            x, y = plot.at(t, u**t)
            told = f"{u**t:.0f}" if u**t > 100 else f"{u**t:.3f}" if u**t < 0.1 else f"{u**t:.2f}"
            at = ("end", x - 9) if t == 50 else ("start", x + 6)
            plot.add(
                text(
                    at[1], y - 7 + 12 * (u > 1 and t == 50), f"{u}{_above(t)} = {told}", at[0], "on"
                )
            )
        panels.append(plot.panel())
    return Figure(
        panels,
        f"Left, the powers of 0.9 fall from 1 to {0.9**50:.3f} after 50 steps. Right, those of 1.1 "
        f"rise from 1 to {1.1**50:.0f}.",
    )


def clipping():
    """A long gradient is shortened to the threshold; and the lengths while the program learns."""
    ox, oy, unit = 96.0, 134.0, 56.0
    plane = [title("clip at θ = 1")]
    plane.append(element("circle", "g", cx=ox, cy=oy, r=unit))
    plane.append(text(ox - unit - 4, oy + unit + 4, "length 1", "middle"))
    for (a, b), words, (dx, dy) in (
        ((2.4, 1.8), "length 3", (-8, -6)),
        ((-0.3, 0.4), "0.5 stays", (-10, -8)),
    ):
        length = math.hypot(a, b)
        to = ox + a * unit, oy - b * unit
        if length > 1:
            plane.append(arrow(ox, oy, *to, f"l t{ERROR} d"))
            cut = ox + a / length * unit, oy - b / length * unit
            plane.append(arrow(ox, oy, *cut, f"l t{ERROR} thick"))
            plane.append(
                text(cut[0] + 10, cut[1] + 12, "clipped: same direction", classes="on halo")
            )
        else:
            plane.append(arrow(ox, oy, *to, f"l t{ERROR} thick"))
        plane.append(text(to[0] + dx, to[1] + dy, words, "end", "on halo"))
    return Figure(
        [Panel(WIDTH, 200, tuple(plane)), _cliff()],
        "Left, an arrow of length 3 is shortened to 1 and keeps its direction, one of length 0.5 "
        f"stays as it is. Right, the loss of one unit over its weight u: flat below 1, and a wall "
        f"above. At u = {START} its slope is {_slope():,.0f}. An update without clipping goes to "
        f"u = {START - RATE * _slope():.0f}, a clipped one to {START - RATE:.2f}.",
    )


#: One unit of 50 steps from 1, whose state should end at 0.5; and an update of its weight.
START, RATE, WANTED = 1.05, 0.01, 0.5


def _slope():
    u = torch.tensor(START, dtype=torch.double, requires_grad=True)
    ((u**50 - WANTED) ** 2).backward()
    return u.grad.item()


def _cliff():
    """The loss of one unit over its weight, and one update with clipping and without."""
    plot = Plot(
        (0.9, 1.06),
        (0, 150),
        title="loss of one unit: (u⁵⁰ − 0.5)²",
        x_label="weight u",
        height=134,
        x_ticks=(0.9, 0.95, 1, 1.05),
        y_ticks=(0, 50, 100, 150),
    )
    us = [0.9 + i / 500 for i in range(77)]
    plot.line(us, [(u**50 - WANTED) ** 2 for u in us], GREY)
    x, y = plot.at(START, (START**50 - WANTED) ** 2)
    near = plot.at(START - RATE, ((START - RATE) ** 50 - WANTED) ** 2)
    plot.add(arrow(x, y, plot.left + 6, y, f"l t{ERROR} d"))
    plot.add(
        text(
            plot.left + 12,
            y - 7,
            f"without: to u = {shown(round(START - RATE * _slope()))}",
            classes=f"t{ERROR} halo",
        )
    )
    plot.add(arrow(x, y, *near, f"l t{ERROR} thick"))
    plot.add(
        text(near[0] - 8, near[1] + 2, f"clipped: to {START - RATE:.2f}", "end", f"t{ERROR} halo")
    )
    plot.add(element("circle", f"f t{ERROR}", cx=x, cy=y, r=4.5))
    return plot.panel()


def chunks():
    """The state goes on from chunk to chunk, the gradient does not."""
    width, gap, parts = 130.0, 28.0, [title("chunks of ten")]
    for i, chunk in enumerate(("hello␣yell", "ow␣fellow,")):
        x = i * (width + gap)
        parts.append(cell(x, 30, width, 30, STATE, 0.1))
        parts += [word(x + 9 + j * 12.4, 50, one, size="small") for j, one in enumerate(chunk)]
        if not i:
            parts.append(arrow(x + width + 1, 45, x + width + gap - 2, 45, f"l t{STATE} thick"))
        parts.append(arrow(x + width - 3, 80, x + 5, 80, f"l t{ERROR} thick"))
        parts.append(line(x + 1, 72, x + 1, 88, f"l t{ERROR} thick"))
    parts.append(text(0, 110, "The state goes on,", classes=f"t{STATE}"))
    parts.append(text(0, 126, "the gradient stops at the start.", classes=f"t{ERROR}"))
    return Figure(
        [Panel(WIDTH, 132, tuple(parts))],
        "Two chunks of ten, hello yell and ow fellow with a comma. An arrow leads from "
        "the first chunk to the second, and below each one goes back from its end to its beginning "
        "and stops there.",
    )


def learning():
    """The loss while the program learns, and what it predicts."""
    made = _program()
    found = made["losses"]
    plot = Plot((0, 50), (0, 2.5), title="loss, nats a letter", x_label="update", height=110)
    plot.line(range(1, len(found) + 1), found, ERROR)
    guess = math.log(len(made["letters"]))
    plot.note(50, guess, f"guessing: ln {len(made['letters'])} = {guess:.2f}", "end")
    plot.note(50, found[-1] + 0.18, f"{found[-1]:.2f}", "end")
    parts, said, y = [title("what it predicts afterwards")], [], 36.0
    for prompt, shares in made["shares"].items():
        parts.append(word(0, y + 4, f"{prompt} …", "start", "mid"))
        best = sorted(shares, key=shares.__getitem__)[::-1][:2]
        for one in best:
            size = {"x": 84, "y": y - 10, "width": max(shares[one] * 140, 1), "height": 14}
            parts.append(word(72, y + 2, one))
            parts.append(
                element(
                    "rect", f"f t{RIGHT if one == best[0] else GREY}", fill_opacity=".6", **size
                )
            )
            parts.append(text(90 + shares[one] * 140, y + 2, f"{shares[one]:.2f}", classes="num"))
            y += 22
        said.append(f"{best[0]} with {shares[best[0]]:.2f} after {prompt}")
        y += 16
    return Figure(
        [plot.panel(), Panel(WIDTH, y - 14, tuple(parts))],
        f"Left, the loss falls from {found[0]:.2f} to {found[-1]:.2f} nats in {len(found)} "
        "updates. "
        f"Right, the network predicts {' and '.join(said)}.",
    )


@cache
def _program():
    """What the page's training program computes: its losses, and what it predicts then."""
    source = re.sub(r"(?m)^# ?", "", inspect.getsource(lesson))
    listings = re.findall(r"```python\n(.*?)```", source, re.DOTALL)
    (program,) = (listing for listing in listings if "hello yellow" in listing)
    made = {}
    with torch.random.fork_rng(), contextlib.redirect_stdout(io.StringIO()):
        torch.manual_seed(0)
        exec(program, made)
    letters, shares = made["letters"], {}
    for prompt in ("hel", "hell"):
        with torch.no_grad():
            tokens = torch.tensor([[letters.index(one)] for one in prompt])
            found = made["model"](tokens)[0][-1, 0].softmax(-1)
        shares[prompt] = dict(zip(letters, found.tolist(), strict=True))
    return {
        "losses": made["losses"],
        "letters": letters,
        "shares": shares,
    }


# --- The task -----------------------------------------------------------------------------------

#: Presses, as two readers see them: the last four steps are the same.
PRESSES = ("0100101001", "1100101001")


def lamp():
    """A lamp and its switch: two sequences with the same last four steps."""
    parts, step, left = [], 20.0, 58.0
    for row, presses in enumerate(PRESSES):
        on, y = False, 24.0 + row * 96
        parts.append(text(0, y + 17, "switch"))
        parts.append(text(0, y + 49, "lamp"))
        for t, press in enumerate(presses):
            x = left + t * step
            if press == "1":
                on = not on
                parts.append(arrow(x, y, x, y + 22, f"l t{GREY} thick"))
            else:
                parts.append(text(x, y + 17, "·", "middle"))
            parts.append(
                element(
                    "circle",
                    "k t1",
                    cx=x,
                    cy=y + 45,
                    r=8,
                    fill_opacity=".75" if on else ".04",
                )
            )
        x = left + (len(presses) - 4) * step - 9
        parts.append(
            element("rect", f"l t{ERROR} d", x=x, y=y - 6, width=4 * step - 2, height=34, rx=3)
        )
        parts.append(
            text(left + len(presses) * step - 4, y + 49, "on" if on else "off", classes="sum")
        )
        if not row:
            parts.append(text(x + 2 * step, y - 11, "window", "middle", f"t{ERROR}"))
    return Figure(
        [Panel(WIDTH, 190, tuple(parts))],
        "Two rows of ten steps, in some of which the switch of a lamp is pressed; each press turns "
        "the lamp. The last four steps of both are the same, but at the end the lamp is "
        f"{' in one row and '.join('on' if row.count('1') % 2 else 'off' for row in PRESSES)} in "
        "the other.",
    )


def lamp_by_step():
    """The share of right answers at each step, five seeds of each model."""
    found = results("elman", "by_step")
    drawn = [task.TESTED.index(t) for t in (*range(1, 7), 8, 12, 16, 24, 32, 60, 100, 300, 1000)]
    logs = [math.log10(task.TESTED[i]) for i in drawn]
    plot = Plot(
        (0, 3),
        (0.4, 1.05),
        title="right answers, five seeds each",
        x_label="step, on a logarithmic scale",
        height=170,
        x_ticks=(),
        y_ticks=(0.5, 0.75, 1),
    )
    for step in (1, 4, task.STEPS, 100, 1000):
        x, y = plot.at(math.log10(step), 0.4)
        plot.add(text(min(x, WIDTH - 18), y + 14, f"{step:,}", "middle"))
    x, y = plot.at(math.log10(task.STEPS), 0.4)
    plot.add(line(x, plot.top, x, y, f"l t{GREY} thin d"))
    plot.note(math.log10(task.STEPS) + 0.04, 0.83, "longer than any")
    plot.note(math.log10(task.STEPS) + 0.04, 0.77, "in training")
    tones = dict(zip(task.MODELS, (STATE, WEIGHT, GREY), strict=True))
    for model, runs in reversed(found.items()):
        # The runs without recurrence are the same, and one line is enough.
        for run in dict.fromkeys(tuple(run[i] for i in drawn) for run in runs):
            plot.line(logs, run, tones[model])
    plot.add(text(*plot.at(1.25, 0.96), "with recurrence", "start", f"t{STATE}"))
    plot.add(text(*plot.at(1.25, 0.64), "window of 4", "start", f"t{WEIGHT}"))
    plot.add(text(*plot.at(0.02, 0.44), "U = 0", "start"))
    last = {model: [run[-1] for run in runs] for model, runs in found.items()}
    steps, rows = (1, 2, 4, 8, 16, 100, 1000), []
    for model, runs in found.items():
        seen = [[run[task.TESTED.index(t)] for run in runs] for t in steps]
        rows.append([model, *(f"{min(share):.2f} to {max(share):.2f}" for share in seen)])
    return Figure(
        [plot.panel()],
        "The share of right answers from step 1 to step 1,000. At the last one it is "
        + ", ".join(f"{min(runs):.2f} to {max(runs):.2f} ({model})" for model, runs in last.items())
        + ".",
        Table(["step", *(f"{t:,}" for t in steps)], rows),
    )


def price():
    """What is kept of a text, and how many steps lie between two letters."""
    kept = [title("what is kept after 3, 6, 12 letters")]
    x, side = 40.0, 11.0
    kept += [text(0, 40, "RNN"), text(0, 84, "trans-"), text(0, 98, "former")]
    for count in (3, 6, 12):
        kept += grid(x, 24, [[0.7]], STATE, side, 24, digits=0, most=1)
        kept += grid(x, 74, [[0.5] * count], GREY, side, 24, digits=0, most=1)
        kept.append(text(x, 118, f"{count}", classes="on"))
        x += max(count, 3) * side + 13
    xs, y = [16.0 + i * 51 for i in range(6)], 92.0
    torch.manual_seed(5)
    arriving = _arriving(_layer(1.0), torch.randn(6, BATCH, 1), range(6))
    hops = [title("from the first letter to the sixth: five steps")]
    for i, at in enumerate(xs):
        hops.append(cell(at - 13, y - 44, 26, 26, STATE, 0.03 + 0.4 * arriving[5 - i]))
        hops.append(arrow(at, y, at, y - 14, f"l t{GREY} thin"))
        hops.append(word(at, y + 18, "hello "[i].replace(" ", "␣")))
        if i < 5:
            hops.append(arrow(at + 15, y - 31, xs[i + 1] - 16, y - 31, f"l t{WEIGHT} thick"))
            hops.append(text(at + 25, y - 39, "U, f", "middle", f"t{WEIGHT}"))
    return Figure(
        [Panel(WIDTH, 126, tuple(kept)), Panel(WIDTH, 126, tuple(hops))],
        "Left, a recurrent network keeps one state after 3, 6 and 12 letters, a transformer 3, 6 "
        "and 12 vectors. Right, five steps lead from the first letter to the sixth, each through U "
        "and f.",
    )


def vanishing():
    """The length of a gradient, step by step back, for new networks and for the trained one."""
    radii = (0.5, 1.0, 1.5, 2.0)
    x = torch.randn(100 + FAR[-1], BATCH, 1)
    curves = {f"ρ = {radius}": _arriving(_layer(radius), x, FAR) for radius in radii}
    curves["trained"] = [1.0, *(_trained_lengths()[k - 1] for k in FAR[1:])]
    plot = Plot(
        (0, FAR[-1]),
        (1e-20, 1e4),
        log=True,
        height=150,
        x_label="steps back",
        y_label="length of the gradient",
    )
    for tone, lengths in enumerate(curves.values()):
        plot.line(FAR, lengths, tone)
    for name, at, factor, side in (
        ("ρ = 0.5", 20, 1e-3, "end"),
        ("ρ = 1.0", 30, 8, "start"),
        ("trained", 40, 1e-3, "end"),
        ("ρ = 1.5", 50, 2e-2, "end"),
        ("ρ = 2.0", 40, 30, "end"),
    ):
        plot.note(at, curves[name][FAR.index(at)] * factor, name, side)
    rows = [
        [name.removeprefix("ρ = "), *(f"{lengths[FAR.index(k)]:.2g}" for k in (1, 10, 30, 50))]
        for name, lengths in curves.items()
    ]
    told = ", ".join(f"{lengths[-1]:.0e} ({name})" for name, lengths in curves.items())
    return Figure(
        [plot.panel()],
        "On a logarithmic scale the lengths fall or rise in nearly straight lines. After "
        f"{FAR[-1]} steps they are {told}.",
        Table(["ρ", "1 step", "10", "30", "50"], rows),
    )


@cache
@torch.no_grad()
def _trained_states():
    """The trained network, and the states of its layers on what it wrote, `[L, T, N]`."""
    run = load_run(TRAINED)
    model, letters = run.model().double().eval(), run.vocabulary.texts
    result = json.loads((TRAINED / "result.json").read_text(encoding="utf-8"))
    tokens = torch.tensor([letters.index(letter) for letter in result["samples"][0]["text"]])
    x, states = model.input_projection(model.embedding(tokens[:, None]) * model.scale), []
    for layer in model.elman.layers:
        x, _ = layer(x)
        states.append(x[:, 0])
    return model.elman, torch.stack(states)


@cache
def _trained_lengths(steps=100):
    """How long a gradient of length 1 at the states of all layers is, 1 to `steps` steps back.

    Medians over a third of all steps that have so many before them.
    """
    elman, states = _trained_states()
    generator = torch.Generator().manual_seed(0)
    cells = [layer.cell for layer in elman.layers]
    lengths = []
    for end in range(steps + 1, states.shape[1], 3):
        gradient = torch.randn(states[:, 0].shape, generator=generator).double()
        gradient /= gradient.norm()
        found = []
        for t in range(end, end - steps, -1):
            # From the top layer down: what a layer receives from above comes at the same step.
            before, above = [], 0.0
            for layer in reversed(range(len(cells))):
                delta = (gradient[layer] + above) * (1 - states[layer, t] ** 2)
                before.insert(0, delta @ cells[layer].recurrent.weight.detach())
                above = delta @ cells[layer].input.weight.detach()
            gradient = torch.stack(before)
            found.append(gradient.norm().item())
        lengths.append(found)
    return torch.tensor(lengths).median(0).values.tolist()


def _layer(radius):
    """A layer with an orthogonal matrix times `radius`, and input weights of deviation 0.5."""
    torch.manual_seed(5)
    layer = ElmanLayer(1, UNITS, bias=False).double()
    nn.init.normal_(layer.cell.input.weight, std=0.5)
    nn.init.orthogonal_(layer.cell.recurrent.weight, gain=radius)
    return layer


def _arriving(layer, x, distances):
    """The length of a gradient of length 1 at the last state, so many steps before."""
    x = x.double()
    states, last = layer(x)
    sent = torch.randn(last.shape, generator=torch.Generator().manual_seed(0)).double()
    sent /= sent.norm(dim=1, keepdim=True)
    lengths = []
    for k in distances:
        if k == 0:
            lengths.append(1.0)
            continue
        state = states[-1 - k].detach().requires_grad_()
        _, end = layer(x[len(x) - k :], state)
        (arrived,) = torch.autograd.grad(end, state, sent)
        lengths.append(arrived.norm(dim=1).mean().item())
    return lengths


def _above(number):
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
