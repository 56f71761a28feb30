"""An LSTM that counts brackets, with valves for gates; its gradient, and a task."""

import math

import torch

from docs_src.gates import (
    CANDIDATE,
    ERROR,
    GATE,
    GREY,
    GROUND,
    HIDDEN,
    KEPT,
    number,
    pipe,
    plot_by_depth,
    rounded,
    signed,
    valve,
)
from docs_src.tasks import last_bracket, results
from docs_src.tasks import lstm as task
from labml_nn.lstm import LSTM
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
    arrow,
    box,
    element,
    frame,
    grid,
    hook,
    knot,
    letter,
    line,
    listed,
    ribbon,
    shown,
    text,
    title,
    word,
)

UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)
BIASES = (0.0, 1.0, 3.0)

# --- The line by hand ---------------------------------------------------------------------------

KINDS = {"(": 1, ")": 2, "⏎": 3}
#: A row for each sum, a column for each kind of token: a letter, brackets, the end of a line.
SUMS = ((-10, 10, 10, -10), (10, 10, 10, -10), (10, 10, -10, 10), (10, 10, 10, 10))
SAID = ("input gate", "forget gate", "candidate", "output gate")
LINES = ("f(g(x))⏎", "((((x))⏎", "f(((xx)⏎")


@torch.no_grad()
def _follow(read, *, write=1.0, keep=1.0, show=1.0):
    """Gates, candidate and states of one cell of the module after each token.

    A gate can be turned down: it is so many times what the sums by hand make of it. A dictionary of
    lists: `i`, `f`, `g`, `o`, `c` and `h`.
    """
    sums = torch.tensor(SUMS, dtype=torch.double)
    for row, share in ((0, write), (1, keep), (3, show)):
        sums[row] = torch.logit((torch.sigmoid(sums[row]) * share).clamp(min=1e-30))
    lstm = LSTM(4, 1, 1).double()
    cell = lstm.cells[0]
    cell.input_lin.weight.copy_(sums)
    cell.hidden_lin.weight.zero_()
    cell.hidden_lin.bias.zero_()
    found, state = {name: [] for name in "ifgoch"}, None
    for token in read:
        x = torch.zeros(1, 1, 4).double()
        x[0, 0, KINDS.get(token, 0)] = 1
        _, state = lstm(x, state)
        for name, one in zip("ifgo", sums[:, KINDS.get(token, 0)], strict=True):
            found[name].append((one.tanh() if name == "g" else one.sigmoid()).item())
        found["c"].append(state.c.item())
        found["h"].append(state.h.item())
    return found


def _unit(read, step=1.0):
    """States of a single unit that adds at an opening bracket and subtracts at a closing one."""
    state, found = 0.0, []
    for token in read:
        state = math.tanh(state + {"(": step, ")": -step}.get(token, 0.0))
        found.append(state)
    return found


def flow():
    """*f(g(x))* through one cell: the count on its way, and a valve above each token."""
    read = "f(g(x))"
    found, parts = _follow(read), []
    w, step = 48.0, 84.0
    parts.append(arrow(2, 48, 22, 48, f"l t{KEPT} thick"))
    for t, token in enumerate(read):
        x = 50.0 + t * step
        count, gate, made = found["c"][t], found["i"][t], found["g"][t]
        if t:
            parts.append(arrow(x - step + w / 2 + 1, 48, x - w / 2 - 4, 48, f"l t{KEPT} thick"))
        parts += number(x, 48, count, KEPT, w=w, h=40, size="large")
        open_ = gate > 0.5
        parts.append(line(x, 190, x, 132, f"l t{CANDIDATE} thick"))
        above = f"l t{CANDIDATE} thick" if open_ else f"l t{GREY} thin d"
        parts.append(arrow(x, 132, x, 74, above) if open_ else line(x, 132, x, 74, above))
        parts += valve(x, 134, gate, r=18, size="large")
        if open_:
            sign = f"+{rounded(made)}" if made > 0 else rounded(made)
            parts.append(text(x + 22, 100, sign, classes=f"large t{CANDIDATE}"))
        parts.append(word(x, 232, token, size="big"))
    parts.append(arrow(50 + 6 * step + w / 2 + 1, 48, 597, 48, f"l t{KEPT} thick"))
    return Figure(
        [Panel(600, 246, tuple(parts))],
        "Seven steps, from left to right. Above each character of f(g(x)) is a valve, with a 1 at "
        "brackets and a 0 at letters. Behind an open one +1 or −1 goes up to the count, which "
        f"is {listed([round(c, 2) for c in found['c']])}.",
    )


def tanh():
    """Three brackets on the curve of tanh."""
    plot = Plot(
        (-1, 3.4),
        (-1, 1.3),
        title="the unit: tanh of state + 1",
        x_label="state before + 1",
        height=140,
        x_ticks=(-1, 0, 1, 2, 3),
        y_ticks=(-1, 0, 1),
    )
    xs = [i / 10 for i in range(-10, 35)]
    plot.line(xs, [math.tanh(x) for x in xs], GREY)
    before, told = 0.0, []
    for dx, dy in ((6, 34), (-2, -10), (6, 17)):
        after = math.tanh(before + 1)
        x, y = plot.at(before + 1, after)
        told.append(f"{shown(before, 2)} + 1 → {shown(after, 2)}")
        plot.add(element("circle", f"f t{HIDDEN}", cx=x, cy=y, r=4.5))
        plot.add(text(x + dx, y + dy, told[-1], "start" if dx > 0 else "end", "on halo"))
        before = after
    return Figure(
        [plot.panel()],
        f"The curve of tanh, which is flat above 1. Three points: {', '.join(told)}.",
    )


def unit():
    """Brackets that are open, and the state of the unit, as bars."""
    read, count = "((()))", 0
    parts = [title("open brackets"), text(0, 106, "state of the unit", classes="h")]
    low, zero = 84.0, 158.0
    parts += [line(0, low, WIDTH, low, "g"), line(0, zero, WIDTH, zero, "g")]
    states = _unit(read)
    for t, (token, state) in enumerate(zip(read, states, strict=True)):
        count += 1 if token == "(" else -1
        x = 26.0 + t * 47
        for tone, foot, value, unit, words in (
            (KEPT, low, count, 18, str(count)),
            (HIDDEN, zero, state, 30, shown(state, 2)),
        ):
            high = abs(value) * unit
            top = foot - high if value > 0 else foot
            size = {"x": x - 13, "y": top, "width": 26, "height": max(high, 1)}
            parts.append(element("rect", f"f t{tone}", fill_opacity=".55", **size))
            at = foot - high - 5 if value >= 0 else foot + high + 14
            parts.append(text(x, at, words, classes="n"))
        parts.append(word(x, 222, token, size="mid"))
    return Figure(
        [Panel(WIDTH, 230, tuple(parts))],
        "Bars for three opening and three closing brackets. Open brackets: 1, 2, 3, 2, 1, 0. "
        f"States of the unit: {', '.join(shown(state, 2) for state in states)}.",
    )


def fading():
    """A count of small steps in the unit and in the cell, over a hundred letters."""
    plot = Plot(
        (0, 103),
        (0, 0.35),
        title="three brackets of 0.1, then letters",
        x_label="steps",
        height=150,
        x_ticks=(3, 28, 53, 78, 103),
        y_ticks=(0, 0.1, 0.2, 0.3),
    )
    states = [0.0, *_unit("(((" + "x" * 100, 0.1)]
    steps = range(len(states))
    for count in (1, 3):
        x, y = plot.at(0, 0.1 * count)
        plot.add(line(x, y, plot.right, y, f"l t{GREY} thin d"))
    plot.line(steps, states, HIDDEN)
    plot.dots((3, 103), (states[3], states[103]), HIDDEN)
    plot.note(6, 0.325, "what three brackets should be")
    plot.note(6, 0.075, "what one bracket would be")
    for at, dx, anchor in ((3, 9, "start"), (103, -2, "end")):
        x, y = plot.at(at, states[at])
        plot.add(text(x + dx, y + (16 if at == 3 else -8), shown(states[at], 2), anchor, "on halo"))
    return Figure(
        [plot.panel()],
        f"A curve that rises to {states[3]:.2f} in three steps and falls to {states[103]:.2f} in a "
        "hundred more, steeply at first.",
    )


def lanes():
    """The same three brackets: a state that is rewritten, and one to which is added."""
    panels, said = [], []
    for words, tone, sign, states in (
        ("rewritten: everything goes through the tanh", HIDDEN, "tanh", _unit("(((")),
        ("added to: nothing stands in the way", KEPT, "+", _follow("(((")["c"]),
    ):
        parts, y, step = [title(words)], 52.0, 84.0
        parts += number(20, y, 0, tone, w=38)
        for t, state in enumerate(states):
            x = 20.0 + (t + 1) * step
            middle = x - step / 2
            if sign == "tanh":
                parts.append(arrow(x - step + 20, y, middle - 19, y, f"l t{tone} thick"))
                parts.append(box(middle, y - 11, 36, 22, sign, GREY))
                parts.append(arrow(middle + 19, y, x - 22, y, f"l t{tone} thick"))
                parts.append(arrow(middle, y + 44, middle, y + 14, f"l t{CANDIDATE}"))
            else:
                parts.append(arrow(x - step + 20, y, x - 22, y, f"l t{tone} thick"))
                parts.append(knot(middle, y, "+", tone))
                parts.append(arrow(middle, y + 44, middle, y + 12, f"l t{CANDIDATE}"))
            parts.append(text(middle + 7, y + 36, "+1", classes=f"t{CANDIDATE}"))
            parts.append(word(middle, y + 60, "("))
            parts += number(x, y, state, tone, w=38)
        panels.append(Panel(WIDTH, y + 66, tuple(parts)))
        said.append(", ".join(rounded(state) for state in states))
    return Figure(
        panels,
        "Three opening brackets twice. Above, each sum goes through a tanh, and the states are "
        f"{said[0]}. Below, 1 is added to a line that nothing interrupts: {said[1]}.",
    )


def input_gate():
    """The valve in front of the sum: open at a bracket, closed at a letter."""
    panels, said = [], []
    for token, words in (("(", "a bracket: open"), ("x", "a letter: closed")):
        found = _follow(f"({token}")
        gate, made, old, new = found["i"][1], found["g"][1], found["c"][0], found["c"][1]
        parts, x, y = [title(words)], 116.0, 52.0
        parts += number(24, y, old, KEPT)
        parts.append(arrow(46, y, 184, y, f"l t{KEPT} thick"))
        parts.append(knot(x, y, "+", KEPT))
        parts += number(208, y, new, KEPT)
        parts.append(line(x, 172, x, 118, f"l t{CANDIDATE} thick"))
        above = f"l t{CANDIDATE} thick" if gate > 0.5 else f"l t{GREY} thin d"
        parts.append((arrow if gate > 0.5 else line)(x, 118, x, y + 12, above))
        parts += valve(x, 118, gate, r=15)
        parts.append(text(x + 23, 122, "input gate", classes=f"t{GATE}"))
        parts += number(x, 178, made, CANDIDATE)
        parts.append(text(x + 29, 182, "candidate", classes=f"t{CANDIDATE}"))
        added = f"{rounded(gate)} · {rounded(made)} = {rounded(gate * made)}"
        parts.append(text(x + 10, 90, added, classes="on"))
        parts.append(word(24, 128, token, size="large"))
        panels.append(Panel(WIDTH, 198, tuple(parts)))
        said.append(
            f"at {token} the gate is {rounded(gate)}, and {rounded(old)} becomes {rounded(new)}"
        )
    return Figure(
        panels,
        f"The candidate 1 comes from below through a valve to the cell state: {'; '.join(said)}.",
    )


def forget_gate():
    """The valve in the line itself."""
    parts, said = [title("the forget gate decides what stays")], []
    for row, (share, words) in enumerate(
        ((1.0, "all of it stays"), (0.5, "half of it"), (0.0, "nothing: ⏎"))
    ):
        y, new = 54.0 + row * 50, 2 * share
        parts += number(20, y, 2, KEPT, w=38)
        parts.append(line(41, y, 94, y, f"l t{KEPT} thick"))
        parts.append((arrow if share else line)(94, y, 152, y, _flow(KEPT, share)))
        parts += valve(94, y, share, r=16)
        parts += number(174, y, new, KEPT, w=38)
        parts.append(text(202, y + 4, words))
        said.append(f"{rounded(share)} makes {rounded(new)} of it")
    return Figure(
        [Panel(WIDTH, 174, tuple(parts))],
        f"A cell state of 2 meets a valve in its line: {'; '.join(said)}.",
    )


def output_gate():
    """A branch of the line: squeezed by tanh, and shown or not."""
    panels = []
    for words, gate in (("open: shown", 1.0), ("closed: not shown", 0.0)):
        x, y, parts = 116.0, 44.0, [title(words)]
        parts += number(24, y, 2, KEPT)
        parts.append(arrow(46, y, 184, y, f"l t{KEPT} thick"))
        parts += number(208, y, 2, KEPT)
        parts.append(line(x, y, x, 68, f"l t{KEPT}"))
        parts.append(box(x, 68, 40, 22, "tanh", GREY))
        parts.append(line(x, 90, x, 126, f"l t{HIDDEN} thick"))
        parts.append(text(x + 8, 105, shown(math.tanh(2), 2), classes="on"))
        parts.append((arrow if gate else line)(x, 126, x, 162, _flow(HIDDEN, gate)))
        parts += valve(x, 128, gate, r=15)
        parts.append(text(x + 23, 132, "output gate", classes=f"t{GATE}"))
        parts += number(x, 178, gate * math.tanh(2), HIDDEN)
        parts.append(text(x + 29, 182, "hidden state", classes=f"t{HIDDEN}"))
        panels.append(Panel(WIDTH, 196, tuple(parts)))
    return Figure(
        panels,
        "Twice a cell state of 2 goes on unchanged, and a branch leads through tanh, which makes "
        "0.96 of it, to a valve. Open, it shows 0.96; closed, it shows 0.",
    )


def _flow(tone, share):
    """The look of a line behind a valve."""
    return f"l t{tone} thick" if share else f"l t{GREY} thin d"


#: Places of the drawing of a cell, in which the script of the stage draws too.
CELL = {"forget": [86, 44], "input": [152, 108], "output": [222, 122], "r": 15}


def _cell(old, found, token, t, *, named=False):
    """One cell with its numbers: the line of the cell state above, what is added and shown below.

    `named` gives the elements that change the names by which the script of the stage finds them.
    """
    (fx, y), (ix, iy), (ox, oy) = CELL["forget"], CELL["input"], CELL["output"]
    i, f, g, o, c, h = (found[name][t] for name in "ifgoch")
    low, rail, thin = 178.0, 220.0, f"l t{GREY} thin"

    def called(name):
        return name if named else ""

    # The token decides on the three gates and on the candidate.
    parts = [
        line(34, rail, 287, rail, thin),
        arrow(fx, rail, fx, y + 18, thin),
        line(120, rail, 120, iy, thin),
        arrow(120, iy, ix - 18, iy, thin),
        arrow(ix, rail, ix, low + 17, thin),
        line(287, rail, 287, oy, thin),
        arrow(287, oy, ox + 18, oy, thin),
        text(20, 22, "before", "middle"),
        text(270, 22, "after", "middle"),
    ]
    parts += number(20, y, old, KEPT, w=40, named=called("old"))
    parts.append(arrow(41, y, 246, y, f"l t{KEPT} thick"))
    parts += number(268, y, c, KEPT, w=40, named=called("new"))
    parts += pipe(((ix, low - 14), (ix, y + 12)), CANDIDATE)
    parts += pipe(((ox, y), (ox, 60)), KEPT, head=False)
    parts += pipe(((ox, 82), (ox, low - 16)), HIDDEN)
    parts.append(box(ox, 60, 40, 22, "tanh", GREY))
    parts.append(knot(ix, y, "+", KEPT))
    for name, (x, high), value in (("f", (fx, y), f), ("i", (ix, iy), i), ("o", (ox, oy), o)):
        parts += valve(x, high, value, r=CELL["r"], named=called(f"gate-{name}"))
    parts.append(text(fx, 22, "forget", "middle", f"t{GATE}"))
    parts.append(text(ix + 19, iy + 4, "input", classes=f"t{GATE}"))
    parts.append(text(ox + 21, oy - 8, "output", classes=f"t{GATE}"))
    kept, added = text(112, y + 18, rounded(f * old), "middle", "on halo"), i * g
    parts.append(hook(kept, called("kept")))
    parts.append(hook(text(ix - 8, 80, signed(added), "end", "on halo"), called("added")))
    parts += number(ix, low, g, CANDIDATE, w=40, named=called("made"))
    parts += number(ox, low, h, HIDDEN, w=40, named=called("shown"))
    parts.append(text(ix + 24, low + 28, "candidate", classes=f"t{CANDIDATE}"))
    parts.append(text(ox + 23, low + 4, "shown", classes=f"t{HIDDEN}"))
    parts.append(hook(word(18, rail + 8, token, size="large"), called("token")))
    parts.append(text(18, rail - 24, "token", "middle"))
    return parts


def cell():
    """The second bracket of *f(g(x))* in one cell."""
    found = _follow("f(g(")
    parts = _cell(found["c"][2], found, "(", 3)
    return Figure(
        [Panel(WIDTH, 234, tuple(parts))],
        "The cell state 1 passes an open valve, the forget gate. The candidate 1 passes another "
        "one, the input gate, and is added: 2. A branch leads through tanh and the output gate, "
        f"and {found['h'][3]:.2f} is shown.",
    )


def sigmoid():
    """From a sum to a gate: the curve of the sigmoid, and the valve at three places."""
    plot = Plot(
        (-11, 11),
        (-0.2, 1.15),
        title="the sigmoid makes a gate of a sum",
        x_label="sum",
        height=140,
        x_ticks=(-10, -5, 0, 5, 10),
        y_ticks=(0, 0.5, 1),
    )
    xs = [i / 2 for i in range(-22, 23)]
    plot.line(xs, [1 / (1 + math.exp(-x)) for x in xs], GATE)
    for a, dx, dy, anchor in ((-10, -4, -22, "start"), (0, 22, 4, "start"), (10, 4, 32, "end")):
        gate = 1 / (1 + math.exp(-a))
        x, y = plot.at(a, gate)
        for part in valve(x, y, gate):
            plot.add(part)
        told = f"{gate:.5f}".rstrip("0")
        plot.add(text(x + dx, y + dy, f"{shown(a)} → {told}", anchor, "on"))
    return Figure(
        [plot.panel()],
        "The curve of the sigmoid rises from 0 to 1. −10 gives 0.00005, a closed valve; 0 gives "
        "0.5, half open; 10 gives 0.99995, an open one.",
    )


def weights():
    """The weights by hand, of which an opening bracket picks the second column."""
    w, h, x, y = 40.0, 32.0, 82.0, 46.0
    names = ("letter", "(", ")", "⏎")
    left = [title("W: a column for each kind of token")]
    for j, name in enumerate(names):
        at = x + (j + 0.5) * w
        drawn = text(at, y - 8, name, "middle") if j in (0, 3) else word(at, y - 8, name)
        left.append(drawn)
    found, made = _follow("("), []
    right = [title("what the token ( makes of it"), text(51, y - 8, "its sums", "middle")]
    for i, (name, short_name) in enumerate(zip(SAID, "ifgo", strict=True)):
        is_gate = name != "candidate"
        tone, middle = GATE if is_gate else CANDIDATE, y + (i + 0.5) * h
        left += grid(x, y + i * h, [SUMS[i]], tone, w, h, most=24)
        left.append(text(x - 8, middle + 4, name, "end", f"t{tone}"))
        right += grid(31, y + i * h, [[SUMS[i][1]]], tone, w, h, most=24)
        right.append(arrow(76, middle, 150, middle, f"l t{GREY}"))
        right.append(text(112, middle - 5, "σ" if is_gate else "tanh", "middle"))
        value = found[short_name][0]
        made.append(f"{name} {rounded(value)}")
        drawn = valve(170, middle, value) if is_gate else number(170, middle, value, tone, w=36)
        right += [*drawn, text(194, middle + 4, "open" if is_gate else "add 1")]
    left.append(frame(x + w - 1, y - 24, w + 2, 4 * h + 27, GREY))
    return Figure(
        [Panel(WIDTH, y + 4 * h + 6, tuple(left)), Panel(WIDTH, y + 4 * h + 6, tuple(right))],
        "A matrix with a row for each sum and a column for each kind of token: letter, opening "
        "bracket, closing bracket, end of line. "
        + "; ".join(f"{name} {listed(row)}" for name, row in zip(SAID, SUMS, strict=True))
        + f". The second column is framed. Its sums become: {', '.join(made)}.",
    )


#: What a second cell, which knows of comments, puts into the sum of the first one's input gate.
INSIDE = -30.0


@torch.no_grad()
def _follow_comments(read):
    """Two cells of the module: one counts brackets, the other one shows whether `#` was read.

    For each token: what W and U put into the sum of the first cell's input gate, and the sum; the
    count, and what the second cell shows.
    """
    kinds, lstm = {**KINDS, "#": 4}, LSTM(5, 2, 1).double()
    cell = lstm.cells[0]
    second = ((-10, -10, -10, -10, 10), (10, 10, 10, -10, 10), (10,) * 5, (10,) * 5)
    for row, (one, two) in enumerate(zip(SUMS, second, strict=True)):
        like_a_letter = torch.tensor([*one, one[0]], dtype=torch.double)
        cell.input_lin.weight[2 * row] = like_a_letter
        cell.input_lin.weight[2 * row + 1] = torch.tensor(two, dtype=torch.double)
    cell.hidden_lin.weight.zero_()
    cell.hidden_lin.bias.zero_()
    cell.hidden_lin.weight[0, 1] = INSIDE
    found, state, before = [], None, 0.0
    for token in read:
        x = torch.zeros(1, 1, 5).double()
        x[0, 0, kinds.get(token, 0)] = 1
        by_w, by_u = cell.input_lin.weight[0, kinds.get(token, 0)].item(), INSIDE * before
        _, state = lstm(x, state)
        before = state.h[0, 0, 1].item()
        found.append((by_w, by_u, by_w + by_u, state.c[0, 0, 0].item(), before))
    return found


def comment():
    """A bracket outside and one inside a comment: the sum of the input gate, and the count."""
    read, panels = "(#(", [[], []]
    found = _follow_comments(read)
    columns = (("W x", 108.0), ("U h", 164.0), ("sum", 220.0), ("gate", 266.0))
    left, right = panels
    left.append(title("the input gate of the count"))
    left += [text(x, 34, words, "middle") for words, x in columns[2:]]
    left.append(letter(108, 34, ("W", None), ("x", None), at="middle"))
    left.append(letter(164, 34, ("U", None), ("h", HIDDEN), at="middle"))
    right.append(title("what the two cells hold"))
    right += [text(60, 34, "comment shows", "middle"), text(170, 34, "count", "middle")]
    for t, (token, (by_w, by_u, total, count, shown_)) in enumerate(zip(read, found, strict=True)):
        y = 62.0 + t * 46
        left.append(word(20, y + 6, token, size="large"))
        for value, (_, x) in zip((by_w, by_u, total), columns[:3], strict=True):
            left += grid(x - 22, y - 14, [[round(value, 1)]], GATE, 44, 28, most=40)
        left.append(text(136, y + 4, "+", "middle"))
        left.append(text(192, y + 4, "=", "middle"))
        left += valve(266, y, torch.sigmoid(torch.tensor(total)).item(), r=14)
        right += number(60, y, shown_, HIDDEN)
        right += number(170, y, count, KEPT)
        if t:
            for x, tone in ((60, HIDDEN), (170, KEPT)):
                right.append(arrow(x, y - 31, x, y - 16, f"l t{tone}"))
    end = 62 + 46 * len(read) - 22
    told = "; ".join(
        f"{token}: sum {shown(w, 1)} + {shown(u, 1)} = {shown(total, 1)}, count {rounded(count)}"
        for token, (w, u, total, count, _) in zip(read, found, strict=True)
    )
    return Figure(
        [Panel(WIDTH, end, tuple(parts)) for parts in panels],
        f"Three tokens, a bracket, # and another bracket. {told}.",
    )


#: The steps of the stage, as places in the line.
MOMENTS = (1, 3, 4, 6, 7)


def line_by_hand():
    """The whole line in columns, and the cell at the step that is read."""
    read = LINES[0]
    found, first = _follow(read), MOMENTS[0]
    parts, left, step = [], 70.0, 28.8
    rows = (
        ("input", "i", GATE, 18.0),
        ("forget", "f", GATE, 48.0),
        ("output", "o", GATE, 78.0),
        ("candidate", "g", CANDIDATE, 106.0),
        ("cell state", "c", KEPT, 136.0),
        ("shown", "h", HIDDEN, 168.0),
    )
    for words, _, tone, y in rows:
        parts.append(text(0, y + 4, words, classes=f"t{tone}"))
    around = {"x": left + first * step - step / 2, "y": 1, "width": step, "height": 222, "rx": 4}
    parts.append(hook(element("rect", f"l t{KEPT}", **around), "at"))
    for t, token in enumerate(read):
        x = left + t * step
        for _, name, tone, y in rows:
            if tone == GATE:
                parts += valve(x, y, found[name][t], named=f"gates-{name}")
            elif name == "g":
                words = text(x, y + 4, rounded(found[name][t]), "middle", f"t{CANDIDATE}")
                parts.append(hook(words, "made-all"))
            else:
                value = found[name][t]
                parts += number(x, y, value, tone, w=step - 1, h=28, named=f"all-{name}")
        parts.append(hook(word(x, 212, token, size="mid"), "tokens"))
    big = _cell(found["c"][first - 1], found, read[first], first, named=True)
    told = "; ".join(
        f"{token}: cell state {rounded(c)}, shown {rounded(h)}"
        for token, c, h in zip(read, found["c"], found["h"], strict=True)
    )
    data = {
        "lines": LINES,
        "kinds": KINDS,
        "sums": SUMS,
        "moments": MOMENTS,
        "left": left,
        "step": step,
        "small": 13,
        "rows": [y for _, _, tone, y in rows if tone == GATE],
        **GROUND,
        **CELL,
    }
    return Figure(
        [Panel(WIDTH, 226, tuple(parts)), Panel(WIDTH, 234, tuple(big))],
        f"A line in eight columns, and the cell at one of them. {told}.",
        stage=Stage(
            "brackets",
            [
                Choice("line", "Line", LINES),
                Knob("write", "Input gate", 0, 1, 0.1, 1),
                Knob("keep", "Forget gate", 0, 1, 0.1, 1),
                Knob("show", "Output gate", 0, 1, 0.1, 1),
            ],
            data,
            "Read: f(. The cell state was 0 and is 1 now. It shows 0.76.",
            ("(", "( again", "x", ")", "⏎"),
        ),
    )


def shown_apart():
    """What is shown of 1, 2, 3 brackets, with steps of 1 and with steps of 0.3."""
    plot = Plot(
        (0, 3.2),
        (0, 1.2),
        title="what is shown: the tanh of the cell state",
        x_label="cell state",
        height=140,
        x_ticks=(0, 1, 2, 3),
        y_ticks=(0, 0.5, 1),
    )
    xs = [i / 10 for i in range(33)]
    plot.line(xs, [math.tanh(x) for x in xs], GREY)
    told = []
    for size, tone in ((1.0, HIDDEN), (0.3, KEPT)):
        for count in (1, 2, 3):
            after = math.tanh(size * count)
            x, y = plot.at(size * count, after)
            plot.add(element("circle", f"f t{tone}", cx=x, cy=y, r=4.5))
            words = shown(after, 3 if after > 0.99 else 2)
            dx, dy = (9, 8) if tone == KEPT else (-4, -9)
            plot.add(
                text(
                    x + dx,
                    y + dy,
                    f"{count}: {words}",
                    "start" if dx > 8 else "end" if dx < 0 else "middle",
                    f"t{tone} halo",
                )
            )
            told.append(f"{shown(size * count)} is shown as {words}")
    plot.add(text(*plot.at(1.35, 0.36), "one step is 0.3", classes=f"t{KEPT}"))
    plot.add(text(*plot.at(3.2, 0.83), "one step is 1", "end", f"t{HIDDEN}"))
    return Figure([plot.panel()], f"Points on the curve of tanh: {', '.join(told)}.")


def formula():
    """The same cell with the sums behind its valves: each has a product with h and one with x."""
    top, sums, hidden, token = 42.0, 122.0, 172.0, 194.0
    forget, write, add, show, out = 44.0, 98.0, 152.0, 200.0, 244.0
    anchor = "#LSTMCell.forward"
    parts = [
        letter(0, top + 4, ("c", KEPT)),
        arrow(12, top, WIDTH - 18, top, f"l t{KEPT} thick"),
        letter(WIDTH - 13, top + 4, ("c′", KEPT)),
        letter(0, hidden + 4, ("h", HIDDEN)),
        line(12, hidden, show - 7, hidden, f"l t{HIDDEN}"),
        letter(0, token + 4, ("x", None)),
        line(12, token, show + 7, token, "l t4"),
    ]
    for x, words, tone in (
        (forget, "σ", GATE),
        (write, "σ", GATE),
        (add, "tanh", CANDIDATE),
        (show, "σ", GATE),
    ):
        parts.append(arrow(x - 7, hidden, x - 7, sums + 23, f"l t{HIDDEN}"))
        parts.append(arrow(x + 7, token, x + 7, sums + 23, "l t4"))
        parts.append(box(x, sums, 38, 22, words, tone, anchor))
    parts.append(letter(forget - 12, sums + 40, ("U", None), at="end"))
    parts.append(letter(forget + 11, sums + 40, ("W", None)))
    parts += pipe(((forget, sums), (forget, top + 15)), GATE, "")
    parts += pipe(((write, sums), (write, 82), (add - 16, 82)), GATE, "")
    parts += pipe(((add, sums), (add, top + 10)), CANDIDATE, "")
    parts += pipe(((out, top), (out, 66)), KEPT, "", head=False)
    parts += pipe(((out, 88), (out, hidden), (WIDTH - 18, hidden)), HIDDEN, "")
    parts += pipe(((show, sums), (show, 110), (out - 16, 110)), GATE, "")
    parts.append(box(out, 66, 40, 22, "tanh", GREY, anchor))
    parts.append(letter(WIDTH - 13, hidden + 4, ("h′", HIDDEN)))
    parts.append(letter(add + 6, 114, ("g", CANDIDATE)))
    parts.append(knot(add, top, "+", KEPT))
    for x, y, name in ((forget, top, "f"), (add, 82, "i"), (out, 110, "o")):
        parts += valve(x, y, 1, r=14, symbol=name)
    return Figure(
        [Panel(WIDTH, token + 8, tuple(parts))],
        "Two lines from left to right. On the upper one the old cell state c passes the valve f; "
        "then the candidate g, which has passed the valve i, is added, which gives the new cell "
        "state. Below, each of the four sums has a product of U with the old hidden state h, and "
        "one of W with the input x. The new hidden state is the tanh of the new cell state behind "
        "the valve o.",
    )


def chain():
    """How much of a change arrives some letters later: in the unit, and in the cell."""
    panels, said = [], []
    gate = torch.sigmoid(torch.tensor(10.0, dtype=torch.double)).item()
    states = _unit("(((xxx")[2:]
    slopes = [1 - state**2 for state in states[1:]]
    for words, tone, factors, digits, held in (
        ("the Elman unit at letters", HIDDEN, slopes, 2, states),
        ("the cell at letters", KEPT, [gate] * 3, 5, _follow("((xxx")["c"][1:]),
    ):
        parts, y, step, shares = [title(words)], 60.0, 80.0, [1.0]
        for factor in reversed(factors):
            shares.insert(0, shares[0] * factor)
        for t, (state, share) in enumerate(zip(held, shares, strict=True)):
            x = 24.0 + t * step
            if t < 3:
                # A line of the later share: so much leaves its state.
                ends = x + 21, y, x + step - 21, y
                parts.append(ribbon(*ends, shares[t + 1], ERROR, 9))
                parts.append(text(x + step / 2, y - 20, f"× {factors[t]:.{digits}f}", "middle"))
                parts.append(word(x + step / 2, y + 24, "x"))
            parts += number(x, y, state, tone, w=40)
            parts.append(text(x, y + 44, _left(share), "middle", "on"))
        panels.append(Panel(WIDTH, y + 50, tuple(parts)))
        said.append(
            f"{words}, states {listed(held, 2)}: factors {listed(factors, digits)}, "
            f"{_left(shares[0])} after three"
        )
    return Figure(
        panels,
        "Two chains of four states. From the last state a line leads back, as thick as what is "
        f"left of the gradient. {'; '.join(said)}.",
    )


def _left(share):
    return shown(share, 5 if 0.99 < share < 1 else 2)


# --- The task -----------------------------------------------------------------------------------


def task_line():
    """A line of the task, with the count and the right answer at each step."""
    read, count, parts = "x((x(x)x)x)x", 0, []
    left, step = 62.0, 19.5
    for words, y in (("token", 24), ("open", 56), ("answer", 92)):
        parts.append(text(0, y, words))
    for t, token in enumerate(read):
        x = left + t * step
        count += {"(": 1, ")": -1}.get(token, 0)
        parts.append(word(x, 25, token, size="mid"))
        parts += number(x, 52, count, KEPT, w=step - 1, h=24)
        tone, high = (KEPT, 0.6) if count else (GREY, 0.04)
        look = {"cx": x, "cy": 88, "r": 6, "fill_opacity": f"{high}"}
        parts.append(element("circle", f"k t{tone}", **look))
    parts.append(text(left - 6, 116, "full: a bracket is open; empty: none is"))
    return Figure(
        [Panel(WIDTH, 122, tuple(parts))],
        f"The line {read}: the number of open brackets rises to 3 and falls to 0. The answer is "
        "yes from the first opening bracket on, and no from the last closing one on.",
    )


def by_depth():
    """The share of lines that are right, by their brackets, five seeds of each network."""
    found = results("lstm", "by_depth")
    plot = plot_by_depth(0.8)
    rows, said = [], []
    for model, tone in (("Elman, 34 units", GREY), ("Elman", HIDDEN), ("LSTM", KEPT)):
        for run in found[model]:
            plot.line(task.TESTED, run, tone)
    plot.add(text(*plot.at(2, 0.89), "LSTM", "start", f"t{KEPT} halo"))
    plot.add(text(*plot.at(2, 0.13), "Elman", "start", f"t{HIDDEN} halo"))
    drawn = (1, 5, 10, 20, 30, 40)
    for model in ("LSTM", "Elman", "Elman, 34 units"):
        seen = [[run[task.TESTED.index(n)] for run in found[model]] for n in drawn]
        rows.append([model, *(f"{min(one):.2f} to {max(one):.2f}" for one in seen)])
        said.append(f"{model}: {min(seen[2]):.2f} to {max(seen[2]):.2f} at 10 brackets")
    wrong, late = (
        results("last_bracket", "late"),
        Plot(
            (0, 8),
            (0, 1.08),
            title="wrong answers after the last bracket",
            x_label="letters after it",
            height=170,
            x_ticks=last_bracket.LATER,
            y_ticks=(0, 0.5, 1),
        ),
    )
    for model, tone in (("Elman, 34 units", GREY), ("Elman", HIDDEN), ("LSTM", KEPT)):
        for run in wrong[model]:
            late.line(last_bracket.LATER, run, tone)
    late.add(text(*late.at(0.4, 0.04), "LSTM", "start", f"t{KEPT} halo"))
    late.add(text(*late.at(2.2, 0.5), "Elman", "start", f"t{HIDDEN} halo"))
    first = [run[0] for model in ("Elman", "Elman, 34 units") for run in wrong[model]]
    said.append(
        f"Of the answers of the Elman networks at the last bracket {min(first):.2f} to "
        f"{max(first):.2f} are wrong, of those of the LSTMs {max(r[0] for r in wrong['LSTM']):.2f}"
    )
    return Figure(
        [plot.panel(), late.panel()],
        f"The share of right lines for 1 to 40 brackets. {'; '.join(said)}.",
        Table(["brackets", *(str(n) for n in drawn)], rows),
    )


def price():
    """Sums and states of the two networks, with one cell or unit."""
    parts = [title("a step"), text(150, 11, "what is kept", classes="h")]
    for y, name, sums, kept in (
        (40.0, "Elman", (HIDDEN,), (HIDDEN,)),
        (92.0, "LSTM", (GATE, GATE, CANDIDATE, GATE), (HIDDEN, KEPT)),
    ):
        parts.append(text(0, y + 4, name))
        for j, tone in enumerate(sums):
            x = 60.0 + j * 21
            parts.append(box(x, y - 12, 19, 24, "Σ", tone))
        for j, tone in enumerate(kept):
            parts += grid(160 + j * 66, y - 12, [[0.6] * 3], tone, 19, 24, digits=0, most=1)
        words = "N numbers" if len(kept) == 1 else "2 N numbers"
        parts.append(text(160, y + 30, words))
        parts.append(text(51, y + 30, f"{len(sums)} sum" + "s" * (len(sums) > 1)))
    return Figure(
        [Panel(WIDTH, 128, tuple(parts))],
        "An Elman network computes one sum for each number of its state and keeps N numbers; an "
        "LSTM computes four and keeps 2 N.",
    )


def gradient():
    """The length of a gradient, step by step back: new LSTMs, and an Elman layer."""
    curves = {f"LSTM, bias {bias:g}": _arriving(bias) for bias in BIASES}
    curves["Elman"] = _arriving(None)
    plot = Plot(
        (0, FAR[-1] + 14),
        (1e-12, 2),
        log=True,
        height=150,
        title="what is left of a gradient of 1",
        x_label="steps back",
        x_ticks=(0, 10, 20, 30, 40, 50),
    )
    for (name, lengths), tone in zip(curves.items(), (KEPT, KEPT, KEPT, HIDDEN), strict=True):
        plot.line(FAR, lengths, tone, dashed=name == "Elman")
        x, y = plot.at(FAR[-1], lengths[-1])
        plot.add(text(x + 5, y + 4, name.removeprefix("LSTM, "), classes=f"t{tone}"))
    shown = (1, 10, 30, 50)
    rows = [
        [name, *(f"{lengths[FAR.index(k)]:.2g}" for k in shown)] for name, lengths in curves.items()
    ]
    told = ", ".join(f"{lengths[-1]:.0e} ({name})" for name, lengths in curves.items())
    return Figure(
        [plot.panel()],
        "On a logarithmic scale the lengths fall in nearly straight lines, the flatter the larger "
        f"the bias of the forget gate. After {FAR[-1]} steps they are {told}.",
        Table(["network", *(f"{k} step" + "s" * (k > 1) for k in shown)], rows),
    )


def _arriving(bias, *, cut=False):
    """The length of a gradient of length 1 at the last state, so many steps before.

    For new layers with random inputs; `bias` is that of the forget gates, None an Elman layer.
    `cut` detaches the hidden states of an LSTM, so that the gradient takes the cell states alone.
    """
    torch.manual_seed(5)
    x = torch.randn(FAR[-1] + 50, BATCH, UNITS).double()
    if bias is None:
        layer = ElmanLayer(UNITS, UNITS).double()
        step, state = layer.cell, (torch.zeros(BATCH, UNITS).double(),)
    else:
        lstm = LSTM(UNITS, UNITS, 1).double()
        step = lstm.cells[0]
        step.hidden_lin.bias.data[UNITS : 2 * UNITS] = bias
        state = tuple(part[0] for part in lstm.initial(x))
    states = []
    for x_t in x:
        if cut:
            state = (state[0].detach(), state[1])
        state = step(x_t, *state) if bias is not None else (step(x_t, *state),)
        states.append([part.requires_grad_() if part.is_leaf else part for part in state])
    # The gradient enters at the state that is kept: of an LSTM the cell state.
    sent = torch.randn(BATCH, UNITS, generator=torch.Generator().manual_seed(0)).double()
    sent /= sent.norm(dim=1, keepdim=True)
    wanted = [states[-1 - k][-1] for k in FAR]
    arrived = torch.autograd.grad(states[-1][-1], wanted, sent)
    return [one.norm(dim=1).mean().item() for one in arrived]
