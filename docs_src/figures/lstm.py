"""Cells of an LSTM and of a GRU, and how far a gradient reaches beside that of an Elman network."""

import torch

from labml_nn.lstm import LSTM
from labml_nn.recurrent.elman import ElmanLayer
from pylit.figures.draw import WIDTH, Figure, Panel, Plot, Table, arrow, box, element, line, text

UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)
BIASES = (0.0, 1.0, 3.0)
# Where each curve has its name: at these steps, at so many times its height.
NAMES = ((30, 1e-3), (50, 100), (50, 0.06), (50, 0.04))


def cell():
    """The upper line is the cell state; from the lower one come the gates and what is shown."""
    top, gates, low = 22, 96, 142  # heights: cell state, boxes of the gates, hidden state
    forget, write, add, shown, out = 58, 104, 150, 196, 240
    parts = [
        text(4, top + 4, "c"),
        arrow(14, top, forget - 11, top, "l t0"),
        arrow(forget + 11, top, add - 11, top, "l t0"),
        arrow(add + 11, top, WIDTH - 18, top, "l t0"),
        text(WIDTH - 14, top + 4, "c′"),
        text(4, low + 4, "h"),
        arrow(14, low, shown, low, "l t4"),
        arrow(30, low + 26, 30, low + 1, "l t4"),
        text(30, low + 38, "x", "middle"),
    ]
    anchor = "#LSTMCell.forward"
    for x, name, gate in (
        (forget, "σ", "f"),
        (write, "σ", "i"),
        (add, "tanh", "g"),
        (shown, "σ", "o"),
    ):
        parts += [
            arrow(x, low, x, gates + 23, "l t4"),
            box(x, gates, 32, 22, name, 0, anchor),
            text(x + (5 if gate != "i" else -9), gates - 7, gate),
        ]
    # A gate goes to its product; what is added, to the sum; what is shown comes from above.
    parts += [
        arrow(forget, gates, forget, top + 11, "l t0"),
        arrow(write, gates, add - 9, 66, "l t0"),
        arrow(add, gates, add, 71, "l t0"),
        arrow(add, 49, add, top + 11, "l t0"),
        line(out, top, out, 36, "l t0"),
        box(out, 36, 36, 22, "tanh", 0, anchor),
        arrow(out, 58, out, gates, "l t0"),
        arrow(shown + 16, gates + 11, out - 11, gates + 11, "l t0"),
        line(out, gates + 21, out, low, "l t0"),
        arrow(out, low, WIDTH - 18, low, "l t0"),
        text(WIDTH - 14, low + 4, "h′"),
    ]
    for x, y, sign in (
        (forget, top, "×"),
        (add, top, "+"),
        (add, 60, "×"),
        (out, gates + 11, "×"),
    ):
        parts += [element("circle", "l t0", cx=x, cy=y, r=10), text(x, y + 4, sign, "middle")]
    return Figure(
        [Panel(WIDTH, low + 44, tuple(parts))],
        "Two lines from left to right. On the upper one the old cell state c is multiplied by the "
        "forget gate f; then the product of the input gate i and the candidate g is added, which "
        "gives the new cell state. On the lower one the old hidden state h and the input x reach "
        "the four sums. The new hidden state is the output gate o times the tanh of the new cell "
        "state.",
    )


def gru():
    """The upper line is the state; the rails below bring the state and the input to the sums."""
    top, gates, state, token = 22, 96, 146, 170
    keep, reset, add = 92, 142, 220
    parts = [
        text(4, top + 4, "h"),
        arrow(14, top, keep - 11, top, "l t0"),
        arrow(keep + 11, top, add - 11, top, "l t0"),
        arrow(add + 11, top, WIDTH - 18, top, "l t0"),
        text(WIDTH - 14, top + 4, "h′"),
        # The old state goes down to its rail, the input comes in on the other.
        line(34, top, 34, state, "l t0"),
        line(34, state, add - 50, state, "l t0"),
        arrow(add - 30, state, add - 8, state, "l t0"),
        arrow(add - 8, state, add - 8, gates + 23, "l t0"),
        text(4, token + 4, "x"),
        line(14, token, add + 8, token, "l t4"),
        arrow(add + 8, token, add + 8, gates + 23, "l t4"),
    ]
    for x, name, gate in ((keep, "σ", "z"), (reset, "σ", "r"), (add, "tanh", "g")):
        if x != add:
            parts += [
                arrow(x - 8, state, x - 8, gates + 23, "l t0"),
                arrow(x + 8, token, x + 8, gates + 23, "l t4"),
            ]
        parts += [
            box(x, gates, 36, 22, name, 0, "#GRUCell.forward"),
            text(x + (5 if gate != "r" else -2), gates - 7, gate),
        ]
    parts += [
        arrow(keep, gates, keep, top + 11, "l t0"),
        line(keep, 60, add - 11, 60, "l t0"),
        arrow(add - 14, 60, add - 11, 60, "l t0"),
        text(128, 55, "1 − z"),
        arrow(add, gates, add, 71, "l t0"),
        arrow(add, 49, add, top + 11, "l t0"),
        line(reset + 18, gates + 11, add - 40, gates + 11, "l t0"),
        arrow(add - 40, gates + 11, add - 40, state - 11, "l t0"),
    ]
    for x, y, sign in ((keep, top, "×"), (add, top, "+"), (add, 60, "×"), (add - 40, state, "×")):
        parts += [element("circle", "l t0", cx=x, cy=y, r=10), text(x, y + 4, sign, "middle")]
    return Figure(
        [Panel(WIDTH, token + 12, tuple(parts))],
        "The upper line leads from the old state h to the new one. On it the old state is "
        "multiplied by the update gate z; then the product of 1 − z and the candidate g is added. "
        "Below it the old state h and the input x reach the sums of z, of the reset gate r and of "
        "g. On its way to g the old state is multiplied by r.",
    )


def gradient():
    """The length of a gradient, step by step back: new LSTMs, and an Elman layer."""
    curves = {f"LSTM, bias {bias:g}": _arriving(bias) for bias in BIASES}
    curves["Elman"] = _arriving(None)
    plot = Plot(
        (0, FAR[-1]),
        (1e-12, 2),
        log=True,
        height=150,
        x_label="steps back",
        y_label="length of the gradient",
    )
    for tone, lengths in enumerate(curves.values()):
        plot.line(FAR, lengths, tone)
    for (name, lengths), (at, beside) in zip(curves.items(), NAMES, strict=True):
        plot.note(at, lengths[FAR.index(at)] * beside, name, "end")
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
