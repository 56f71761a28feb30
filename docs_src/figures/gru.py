"""A GRU that follows quotation marks, with valves for gates; and where it differs from an LSTM."""

import math
from functools import cache

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
from docs_src.tasks import lstm as task
from docs_src.tasks import results
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
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
    shown,
    text,
    title,
    word,
)

# --- The line by hand ---------------------------------------------------------------------------

KINDS = {'"': 1, "⏎": 2}
#: A row for each sum, a column for each kind of token: a letter, a quotation mark, an end of line.
SUMS = ((10, -10, -10), (-10, 10, -10), (0, 0, -10))
SAID = ("update gate", "reset gate", "candidate")
#: The weight of the old state in the candidate.
TURN = -10
LINES = ('⏎a"b"c"⏎', '⏎"a"or"b', 'a"b"c"⏎a')
#: The steps of the stage, as places in the line.
MOMENTS = (0, 1, 2, 4, 7)


@torch.no_grad()
def _follow(read, *, keep=1.0, reset=1.0):
    """Gates, candidate and state of one cell of the module after each token.

    A gate can be turned down: it is so many times what the sums by hand make of it. A dictionary of
    lists: `z`, `r`, `g` and `h`.
    """
    sums = torch.tensor(SUMS, dtype=torch.double)
    for row, share in ((0, keep), (1, reset)):
        sums[row] = torch.logit((torch.sigmoid(sums[row]) * share).clamp(min=1e-30))
    gru = GRU(3, 1, 1).double()
    cell = gru.cells[0]
    cell.input_lin.weight.copy_(sums[[1, 0, 2]])  # the order of the module: r, z, g
    cell.hidden_lin.weight.copy_(torch.tensor([[0], [0], [TURN]]))
    cell.input_lin.bias.zero_()
    cell.hidden_lin.bias.zero_()
    found, state, old = {name: [] for name in "zrgh"}, None, 0.0
    for token in read:
        kind = KINDS.get(token, 0)
        x = torch.zeros(1, 1, 3).double()
        x[0, 0, kind] = 1
        _, state = gru(x, state)
        z, r = (sums[row, kind].sigmoid().item() for row in (0, 1))
        found["z"].append(z)
        found["r"].append(r)
        found["g"].append(math.tanh(sums[2, kind].item() + r * TURN * old))
        old = state.item()
        found["h"].append(old)
    return found


@cache
@torch.no_grad()
def _counted(read, share=0.5):
    """A count of quotation marks: states of a GRU with this update gate at a mark, and an LSTM's.

    Both candidates are 1 at a mark, and all other gates are open or closed.
    """
    at_mark = math.log(share / (1 - share))
    gru, lstm = GRU(3, 1, 1).double(), LSTM(3, 1, 1).double()
    for parameter in (*gru.parameters(), *lstm.parameters()):
        parameter.zero_()
    sums = [[0, 0, 0], [10, at_mark, -10], [0, 10, 0]]  # r, z, g
    gru.cells[0].input_lin.weight.copy_(torch.tensor(sums))
    sums = [[-10, 10, -10], [10, 10, -10], [10, 10, 10], [10, 10, 10]]  # i, f, g, o
    lstm.cells[0].input_lin.weight.copy_(torch.tensor(sums))
    kinds = torch.tensor([KINDS.get(token, 0) for token in read])
    x = torch.nn.functional.one_hot(kinds, 3).double()[:, None]
    states, kept, after = gru(x)[0].flatten().tolist(), [], None
    for x_t in x:
        _, after = lstm(x_t[None], after)
        kept.append(after.c.item())
    return states, kept


def flow():
    """A line through one cell: at letters the state passes its valve, at marks it is replaced."""
    read = LINES[0][:-1]
    found, parts = _follow(read), []
    w, step, lane = 46.0, 88.0, 48.0
    for t, token in enumerate(read):
        x = 46.0 + t * step
        kept, made = found["z"][t] > 0.5, found["g"][t]
        if t:
            left, middle = x - step + w / 2 + 1, x - step / 2
            tone = f"l t{KEPT} thick" if kept else f"l t{GREY} thin d"
            parts += [line(left, lane, middle - 14, lane, f"l t{KEPT} thick")]
            parts += [(arrow if kept else line)(middle + 14, lane, x - w / 2 - 3, lane, tone)]
            parts += valve(middle, lane, found["z"][t], size="large")
        parts += number(x, lane, found["h"][t], KEPT, w=w, h=40, size="large")
        if kept:
            parts.append(line(x, 196, x, 172, f"l t{GREY}"))
        else:
            parts += number(x, 134, made, CANDIDATE, w=w, h=34, size="large")
            parts += pipe(((x, 116), (x, 73)), CANDIDATE)
            parts.append(line(x, 196, x, 153, f"l t{CANDIDATE} thick"))
        parts.append(word(x, 232, token, size="big"))
    return Figure(
        [Panel(600, 246, tuple(parts))],
        'Seven steps, from left to right, for an end of line and a"b"c". On the upper line is the '
        f"state: {listed([round(h, 2) for h in found['h']])}. At letters the valve in this line "
        "is open, and the state passes. At quotation marks it is closed, and a new number, the "
        f"candidate, comes from below: 1, −1, 1.",
    )


def unit():
    """What an Elman unit would have to add at a quotation mark: two numbers for one token."""
    parts, said = [title("an Elman unit at a quotation mark")], []
    for y, old, side, must in ((48.0, 1.0, 1, -4.0), (162.0, -1.0, -1, 4.0)):
        new = math.tanh(2 * old + must)
        parts += number(20, y, old, KEPT, w=38)
        parts.append(arrow(40, y, 58, y, f"l t{KEPT} thick"))
        parts.append(box(80, y - 11, 42, 22, "× 2", GREY))
        parts.append(arrow(102, y, 124, y, f"l t{GREY} thick"))
        parts.append(knot(136, y, "+"))
        parts.append(arrow(146, y, 168, y, f"l t{GREY} thick"))
        parts.append(box(192, y - 11, 46, 22, "tanh", GREY))
        parts.append(arrow(216, y, 238, y, f"l t{KEPT} thick"))
        parts += number(263, y, new, KEPT, w=46)
        parts.append(arrow(136, y + side * 40, 136, y + side * 12, f"l t{ERROR} thick"))
        parts.append(text(145, y + side * 28 + 4, f"{shown(must)} ?", classes=f"t{ERROR}"))
        said.append(f"{rounded(old)} becomes {rounded(new)} if {shown(must)} is added")
    parts.append(word(136, 108, '"', size="large"))
    parts.append(text(160, 110, "one token"))
    return Figure(
        [Panel(WIDTH, 184, tuple(parts))],
        f"Twice the state is multiplied by 2, the token adds to it, and a tanh follows. "
        f"{'; '.join(said)}. Both come from the same quotation mark.",
    )


def mix():
    """One number sets two valves: what stays and what is new add up to 1."""
    parts, said = [title("one gate, two valves")], []
    for row, z in enumerate((1.0, 0.5, 0.0)):
        y, new = 48.0 + row * 82, z * -1 + (1 - z) * 1
        parts += number(20, y, -1, KEPT, w=38)
        parts += number(268, y, 1, CANDIDATE, w=38)
        for sign, share, tone in ((1, z, KEPT), (-1, 1 - z, CANDIDATE)):
            at, look = 144 - sign * 62, "thick" if share else "thin d"
            passed = f"l t{tone if share else GREY} {look}"
            parts.append(line(144 - sign * 104, y, at - sign * 14, y, f"l t{tone} thick"))
            parts.append((arrow if share else line)(at + sign * 14, y, 144 - sign * 13, y, passed))
            parts += valve(at, y, share)
        parts.append(knot(144, y, "+"))
        parts.append(arrow(144, y + 10, 144, y + 27, f"l t{KEPT} thick"))
        parts += number(144, y + 42, new, KEPT, w=42, h=26)
        said.append(f"z is {rounded(z)} and 1 − z is {rounded(1 - z)}: {rounded(new)}")
    parts.append(text(0, 78, "old state", classes=f"t{KEPT}"))
    parts.append(text(WIDTH, 78, "candidate", "end", f"t{CANDIDATE}"))
    parts.append(letter(82, 78, ("z", GATE), at="middle"))
    parts.append(letter(206, 78, "1 − ", ("z", GATE), at="middle"))
    return Figure(
        [Panel(WIDTH, 272, tuple(parts))],
        "From the left the old state −1 comes through a valve, from the right the candidate 1 "
        f"through another one, and both are added. {'; '.join(said)}.",
    )


def opposite():
    """The candidate at a mark: the opposite of the old state."""
    parts, said = [title("U = −10: the opposite")], []
    for y, old in ((46.0, 1.0), (90.0, -1.0)):
        new = math.tanh(TURN * old)
        parts += number(20, y, old, KEPT, w=38)
        parts.append(arrow(40, y, 62, y, f"l t{KEPT} thick"))
        parts.append(box(92, y - 11, 56, 22, f"× {shown(TURN)}", GREY))
        parts.append(line(121, y, 140, y, f"l t{GREY} thick"))
        parts.append(text(158, y + 4, shown(TURN * old), "middle", "on"))
        parts.append(arrow(175, y, 190, y, f"l t{GREY} thick"))
        parts.append(box(214, y - 11, 44, 22, "tanh", GREY))
        parts.append(arrow(237, y, 246, y, f"l t{CANDIDATE} thick"))
        parts += number(268, y, new, CANDIDATE, w=38)
        said.append(f"{rounded(old)} times −10 is {shown(TURN * old)}, its tanh {rounded(new)}")
    return Figure([Panel(WIDTH, 112, tuple(parts))], f"Two lines: {'; '.join(said)}.")


def reset():
    """The valve between the old state and the candidate: open at a mark, closed at a line's end."""
    parts, said = [title("the reset gate, when the state is 1")], []
    for left, token, r, own in ((0.0, '"', 1.0, 0.0), (150.0, "⏎", 0.0, -10.0)):
        x, made = left + 56, math.tanh(own + r * TURN)
        parts.append(word(left + 10, 50, token, size="large"))
        parts += number(x, 44, 1, KEPT, w=36)
        parts.append(line(x, 59, x, 70, f"l t{KEPT} thick"))
        parts.append(box(x, 70, 56, 22, f"× {shown(TURN)}", GREY))
        parts.append(line(x, 93, x, 104, f"l t{KEPT} thick"))
        if r:
            parts.append(arrow(x, 132, x, 148, f"l t{KEPT} thick"))
        else:
            parts.append(line(x, 132, x, 148, f"l t{GREY} thin d"))
        parts += valve(x, 118, r, r=14)
        parts.append(knot(x, 160, "+"))
        parts += number(left + 113, 160, own, GREY, w=36)
        parts.append(arrow(left + 94, 160, x + 13, 160, f"l t{GREY}"))
        parts.append(letter(left + 113, 190, ("W x", None), at="middle"))
        parts.append(line(x, 170, x, 182, f"l t{GREY} thick"))
        parts.append(box(x, 182, 44, 22, "tanh", GREY))
        parts.append(arrow(x, 205, x, 216, f"l t{CANDIDATE} thick"))
        parts += number(x, 232, made, CANDIDATE, w=38)
        said.append(f"at {token} it is {rounded(r)}, the token adds {shown(own)}: {rounded(made)}")
    parts.append(text(79, 236, "candidate", classes=f"t{CANDIDATE}"))
    return Figure(
        [Panel(WIDTH, 250, tuple(parts))],
        "Twice the state 1 is multiplied by −10 and meets the reset gate; then the token adds to "
        f"it, and a tanh makes the candidate of the sum. {'; '.join(said)}.",
    )


def beside():
    """The valves of an LSTM and those of a GRU."""
    lane, low = 52.0, 150.0
    lstm = [title("LSTM: three gates, two states"), letter(2, lane + 4, ("c", KEPT))]
    lstm.append(arrow(14, lane, 268, lane, f"l t{KEPT} thick"))
    lstm.append(letter(274, lane + 4, ("c′", KEPT)))
    lstm += pipe(((136, low), (136, lane + 12)), CANDIDATE)
    lstm.append(box(136, low, 44, 22, "tanh", CANDIDATE))
    lstm += pipe(((206, lane), (206, 72)), KEPT, head=False)
    lstm += pipe(((206, 95), (206, low), (268, low)), HIDDEN)
    lstm.append(box(206, 72, 40, 22, "tanh", GREY))
    lstm.append(letter(274, low + 4, ("h′", HIDDEN)))
    lstm.append(knot(136, lane, "+", KEPT))
    lstm.append(letter(2, low + 15, ("h", HIDDEN)))
    lstm.append(arrow(14, low + 11, 110, low + 11, f"l t{HIDDEN}"))
    for x, y, name in ((78, lane, "f"), (136, 104, "i"), (206, 122, "o")):
        lstm += valve(x, y, 1, symbol=name)

    gru = [title("GRU: two gates, one state"), letter(2, lane + 4, ("h", KEPT))]
    gru.append(arrow(14, lane, 268, lane, f"l t{KEPT} thick"))
    gru.append(letter(274, lane + 4, ("h′", KEPT)))
    gru += pipe(((176, low), (176, lane + 12)), CANDIDATE)
    gru.append(box(176, low, 44, 22, "tanh", CANDIDATE))
    gru += pipe(((36, lane), (36, low + 11), (152, low + 11)), KEPT)
    gru.append(knot(176, lane, "+", KEPT))
    gru.append(line(106, lane + 6, 164, 96, f"l t{GATE} thin d"))
    for x, y, share, name in (
        (96, lane, 0.7, "z"),
        (176, 104, 0.3, "1−z"),
        (96, low + 11, 1, "r"),
    ):
        gru += valve(x, y, share, r=17 if len(name) > 1 else 13, symbol=name)
    return Figure(
        [Panel(WIDTH, 180, tuple(lstm)), Panel(WIDTH, 180, tuple(gru))],
        "LSTM: in the line of the cell state is the valve f; what is added comes through the "
        "valve i; a branch through tanh and the valve o is the hidden state. All three may be "
        "open at once. GRU: in the line of the state is the valve z; what is added comes through "
        "the valve 1 − z, which closes as the other one opens; the old state reaches the "
        "candidate through the valve r. What is kept is also what is shown.",
    )


def weights():
    """The weights by hand, of which a quotation mark picks the second column."""
    w, h, x, y = 50.0, 28.0, 88.0, 46.0
    parts = [letter(x + 1.5 * w, 14, ("W", None), at="middle")]
    for j, name in enumerate(("letter", '"', "⏎")):
        at = x + (j + 0.5) * w
        parts.append(word(at, y - 8, name) if j == 1 else text(at, y - 8, name, "middle"))
    for i, name in enumerate(SAID):
        tone = CANDIDATE if name == "candidate" else GATE
        parts += grid(x, y + i * h, [SUMS[i]], tone, w, h, most=24)
        parts.append(text(x - 8, y + (i + 0.5) * h + 4, name, "end", f"t{tone}"))
    parts.append(frame(x + w - 1, y - 24, w + 2, 3 * h + 27, KEPT))
    parts.append(text(x + 3 * w + 8, y + h, "at", classes="on"))
    parts.append(word(x + 3 * w + 32, y + h, '"', size="mid"))
    return Figure(
        [Panel(WIDTH, y + 3 * h + 6, tuple(parts))],
        "A matrix with a row for each sum and a column for each kind of token: letter, quotation "
        "mark, end of line. "
        + "; ".join(f"{name} {listed(row)}" for name, row in zip(SAID, SUMS, strict=True))
        + ". The second column is framed.",
    )


#: Places of the drawing of a cell, in which the script of the stage draws too.
CELL = {"keep": [92, 44], "reset": [104, 150], "write": [224, 98], "r": 15}


def _cell(old, found, token, t):
    """One cell with its numbers: the line of the state above, the way to the candidate below."""
    (kx, y), (rx, ry), (wx, wy) = CELL["keep"], CELL["reset"], CELL["write"]
    z, r, g, h = (found[name][t] for name in "zrgh")
    own = SUMS[2][KINDS.get(token, 0)]
    parts = [text(20, 22, "before", "middle"), text(268, 22, "after", "middle")]
    parts += number(20, y, old, KEPT, w=40, named="old")
    parts.append(arrow(41, y, 246, y, f"l t{KEPT} thick"))
    parts += number(268, y, h, KEPT, w=40, named="new")
    parts += pipe(((56, y), (56, 84)), KEPT, head=False)
    parts.append(box(56, 84, 52, 22, f"× {shown(TURN)}", GREY))
    parts += pipe(((56, 107), (56, ry), (140, ry)), KEPT)
    parts.append(box(162, ry - 11, 42, 22, "tanh", GREY))
    parts += pipe(((184, ry), (203, ry)), CANDIDATE)
    parts += number(wx, ry, g, CANDIDATE, w=40, named="made")
    parts.append(text(wx, ry + 30, "candidate", "middle", f"t{CANDIDATE}"))
    parts += pipe(((wx, ry - 15), (wx, y + 12)), CANDIDATE)
    parts.append(knot(wx, y, "+", KEPT))
    parts += number(162, 192, own, GREY, w=40, named="own")
    parts.append(arrow(162, 177, 162, 164, f"l t{GREY} thick"))
    parts.append(letter(134, 196, ("W x", None), at="end"))
    for name, (x, high), value in (
        ("z", (kx, y), z),
        ("r", (rx, ry), r),
        ("write", (wx, wy), 1 - z),
    ):
        parts += valve(x, high, value, r=CELL["r"], named=f"gate-{name}")
    parts.append(letter(kx, y + 30, ("z", GATE), at="middle"))
    parts.append(letter(rx, ry + 30, ("r", GATE), at="middle"))
    parts.append(letter(wx + 18, wy + 22, "1 − ", ("z", GATE)))
    parts.append(hook(text(150, y + 18, rounded(z * old), "middle", "on halo"), "kept"))
    parts.append(hook(text(wx - 8, 74, signed((1 - z) * g), "end", "on halo"), "added"))
    parts.append(hook(word(20, 184, token, size="large"), "token"))
    parts.append(text(20, 204, "token", "middle"))
    return parts


def line_by_hand():
    """The whole line in columns, and the cell at the step that is read."""
    read = LINES[0]
    found, first = _follow(read), MOMENTS[0]
    parts, left, step = [], 61.0, 30.0
    rows = (
        ("update", "z", GATE, 34.0),
        ("reset", "r", GATE, 66.0),
        ("cand.", "g", CANDIDATE, 98.0),
        ("state", "h", KEPT, 136.0),
    )
    for words, _, tone, y in rows:
        parts.append(text(0, y + 4, words, classes=f"t{tone}"))
    around = {"x": left + first * step - step / 2, "y": 16, "width": step, "height": 174, "rx": 4}
    parts.append(hook(element("rect", f"l t{KEPT}", **around), "at"))
    for t, token in enumerate(read):
        x = left + t * step
        for _, name, tone, y in rows:
            value = round(found[name][t], 1)
            if tone == GATE:
                parts += valve(x, y, found[name][t], named=f"gates-{name}")
            elif name == "g":
                words = text(x, y + 4, rounded(value), "middle", f"t{CANDIDATE}")
                parts.append(hook(words, "made-all"))
            else:
                parts += number(x, y, value, tone, w=step - 1, h=28, named="all-h")
        parts.append(hook(word(x, 178, token, size="mid"), "tokens"))
    big = _cell(0.0, found, read[first], first)
    told = "; ".join(
        f"{token}: candidate {rounded(g)}, state {rounded(h)}"
        for token, g, h in zip(read, found["g"], found["h"], strict=True)
    )
    data = {
        "lines": LINES,
        "kinds": KINDS,
        "sums": SUMS,
        "turn": TURN,
        "moments": MOMENTS,
        "left": left,
        "step": step,
        "small": 13,
        "rows": [y for _, _, tone, y in rows if tone == GATE],
        **GROUND,
        **CELL,
    }
    return Figure(
        [Panel(WIDTH, 196, tuple(parts)), Panel(WIDTH, 212, tuple(big))],
        f"A line in eight columns, and the cell at one of them. {told}.",
        stage=Stage(
            "quotations",
            [
                Choice("line", "Line", LINES),
                Knob("keep", "Update gate", 0, 1, 0.1, 1),
                Knob("reset", "Reset gate", 0, 1, 0.1, 1),
            ],
            data,
            "Read: ⏎. The state was 0, the candidate is −1, and the new state is −1.",
            ("⏎", "a", '"', '" again', "⏎ again"),
        ),
    )


def formula():
    """The upper line is the state; from the lower ones the gates and the candidate come."""
    top, gates, state, token = 24.0, 100.0, 158.0, 182.0
    keep, reset_at, add = 74.0, 128.0, 226.0
    to, product = "#GRUCell.forward", 176.0
    parts = [
        letter(2, top + 4, ("h", KEPT)),
        arrow(14, top, WIDTH - 18, top, f"l t{KEPT} thick"),
        letter(WIDTH - 14, top + 4, ("h′", KEPT)),
        # The old state goes down to its rail, the input comes in on the other.
        line(30, top, 30, state, f"l t{KEPT}"),
        line(30, state, product, state, f"l t{KEPT}"),
        letter(2, token + 4, ("x", None)),
        line(14, token, add + 8, token, "l t4"),
        arrow(add + 8, token, add + 8, gates + 23, "l t4"),
    ]
    for x, name in ((keep, "z"), (reset_at, "r")):
        parts.append(arrow(x - 8, state, x - 8, gates + 23, f"l t{KEPT}"))
        parts.append(arrow(x + 8, token, x + 8, gates + 23, "l t4"))
        parts.append(box(x, gates, 36, 22, "σ", GATE, to))
        parts.append(letter(x + (12 if name == "z" else -2), gates - 8, (name, GATE), at="middle"))
    parts += pipe(((product, state), (product, state - 12)), KEPT, "")
    parts.append(box(product, state - 34, 26, 22, "U", GREY, to))
    parts += pipe(((product, state - 35), (product, gates + 21)), KEPT, "")
    parts += pipe(((reset_at + 19, gates + 11), (product - 10, gates + 11)), GATE, "")
    parts += pipe(((product + 10, gates + 11), (add - 20, gates + 11)), KEPT, "")
    parts.append(box(add, gates, 40, 22, "tanh", CANDIDATE, to))
    parts.append(letter(add + 14, gates - 8, ("g", CANDIDATE), at="middle"))
    parts += pipe(((keep, gates), (keep, top + 10)), GATE, "")
    parts += pipe(((keep, 62), (add - 11, 62)), GATE, "")
    parts.append(letter(150, 56, "1 − ", ("z", GATE), at="middle"))
    parts += pipe(((add, gates), (add, top + 10)), CANDIDATE, "")
    for x, y, sign in ((keep, top, "×"), (add, top, "+"), (add, 62, "×"), (product, 111, "×")):
        parts.append(knot(x, y, sign))
    return Figure(
        [Panel(WIDTH, token + 10, tuple(parts))],
        "The upper line leads from the old state h to the new one. On it the old state is "
        "multiplied by the update gate z; then the product of 1 − z and the candidate g is added. "
        "Below it the old state h and the input x reach the sums of z and of the reset gate r. "
        "On its way to g the old state is multiplied by U, and then by r.",
    )


# --- Counting -------------------------------------------------------------------------------------


def counting():
    """Quotation marks counted by an LSTM and by a GRU, at one scale."""
    read = LINES[0]
    states, kept = _counted(read)
    parts, unit = [], 24.0
    for head, top, foot, values, tone in (
        ("cell state of the LSTM", 11.0, 98.0, kept, HIDDEN),
        ("state of the GRU, with z = 0.5 at marks", 124.0, 172.0, states, KEPT),
    ):
        parts += [title(head, top), line(0, foot, WIDTH, foot, "g")]
        for t, value in enumerate(values):
            x, high = 20.0 + t * 35, max(value * unit, 1)
            size = {"x": x - 12, "y": foot - high, "width": 24, "height": high}
            parts.append(element("rect", f"f t{tone}", fill_opacity=".55", **size))
            parts.append(text(x, foot - high - 4, rounded(value), classes="n"))
    for t, token in enumerate(read):
        parts.append(word(20.0 + t * 35, 196, token, size="mid"))
    return Figure(
        [Panel(WIDTH, 208, tuple(parts))],
        f"Bars for the line {read}. Cell state of the LSTM: {listed([round(c, 2) for c in kept])}. "
        f"State of the GRU: {listed([round(h, 2) for h in states])}.",
    )


def limit():
    """States after more and more marks, for three update gates."""
    plot = Plot(
        (0, 12),
        (0, 3),
        title="states after so many marks",
        x_label="marks",
        height=140,
        x_ticks=(0, 3, 6, 9, 12),
        y_ticks=(0, 1, 2, 3),
    )
    marks = range(13)
    plot.line((0, 3), (0, 3), HIDDEN, dashed=True)
    plot.note(3.2, 2.75, "LSTM, and on")
    told = []
    for share, x, dy in ((0.5, 4, 0.13), (0.9, 9, 0.14), (0.98, 9, 0.1)):
        states = [0.0, *_counted("⏎" + '"' * 12, share)[0][1:]]
        plot.line(marks, states, KEPT)
        plot.note(x, states[x] + dy, f"z = {share}")
        told.append(f"{states[-1]:.2f} with {share}")
    return Figure(
        [plot.panel()],
        f"A straight line for the LSTM, which is 3 after three marks and leaves the picture. Below "
        f"it curves of the GRU, none above 1: after twelve marks they are {', '.join(told)}.",
    )


def by_depth():
    """The share of right lines of the LSTM's task by their brackets, five seeds of each network."""
    found = results("lstm", "by_depth")
    plot = plot_by_depth(0.88)
    for model, tone in (("Elman, 34 units", GREY), ("LSTM", HIDDEN), ("GRU", KEPT)):
        for run in found[model]:
            plot.line(task.TESTED, run, tone, dashed=model == "LSTM")
    plot.add(text(*plot.at(21.2, 0.42), "GRU", "end", f"t{KEPT} halo"))
    plot.add(text(*plot.at(36.5, 0.88), "LSTM", "middle", f"t{HIDDEN} halo"))
    plot.add(text(*plot.at(2, 0.13), "Elman", "start", "halo"))
    drawn, rows, said = (1, 10, 20, 25, 30, 40), [], []
    for model in ("GRU", "LSTM", "Elman, 34 units"):
        seen = [[run[task.TESTED.index(n)] for run in found[model]] for n in drawn]
        rows.append([model, *(f"{min(one):.2f} to {max(one):.2f}" for one in seen)])
        ends = (f"{min(seen[i]):.2f} to {max(seen[i]):.2f} at {drawn[i]}" for i in (2, 3))
        said.append(f"{model}: {' and '.join(ends)}")
    return Figure(
        [plot.panel()],
        f"The share of right lines for 1 to 40 brackets. {'; '.join(said)}.",
        Table(["brackets", *(str(n) for n in drawn)], rows),
    )


def price():
    """Sums and states of the two networks, with as many cells."""
    parts = [title("a step"), text(158, 11, "what is kept", classes="h")]
    for y, name, sums, kept in (
        (40.0, "LSTM", (GATE, GATE, CANDIDATE, GATE), (HIDDEN, KEPT)),
        (92.0, "GRU", (GATE, GATE, CANDIDATE), (KEPT,)),
    ):
        parts.append(text(0, y + 4, name))
        for j, tone in enumerate(sums):
            parts.append(box(60.0 + j * 21, y - 12, 19, 24, "Σ", tone))
        for j, tone in enumerate(kept):
            parts += grid(160 + j * 66, y - 12, [[0.6] * 3], tone, 19, 24, digits=0, most=1)
        words = "N numbers" if len(kept) == 1 else "2 N numbers"
        parts.append(text(160, y + 30, words))
        parts.append(text(51, y + 30, f"{len(sums)} sums"))
    return Figure(
        [Panel(WIDTH, 128, tuple(parts))],
        "An LSTM computes four sums for each cell and keeps 2 N numbers; a GRU computes three and "
        "keeps N.",
    )
