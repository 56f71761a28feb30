"""A cell of an LSTM, and how far its gradient reaches beside that of an Elman network."""

import torch

from labml_nn.lstm import LSTM
from labml_nn.recurrent.elman import ElmanLayer
from pylit.figures.draw import WIDTH, Figure, Panel, Plot, Table, arrow, box, element, text

UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)
BIASES = (0.0, 1.0, 3.0)


def cell():
    """The upper line is the cell state; the lower one makes gates and shows the hidden state."""
    parts = []
    top, low, mid = 30, 128, 82
    times, plus, shown = 96, 190, 262
    parts.append(arrow(30, top, times - 11, top, "l t0"))
    parts.append(arrow(times + 11, top, plus - 11, top, "l t0"))
    parts.append(arrow(plus + 11, top, WIDTH - 30, top, "l t0"))
    parts.append(text(26, top + 4, "c", "end") + text(WIDTH - 26, top + 4, "c′"))
    for x, y, sign in (
        (times, top, "×"),
        (plus, top, "+"),
        (plus, 62, "×"),
        (shown + 24, mid + 12, "×"),
    ):
        parts.append(element("circle", "l t0", cx=x, cy=y, r=10))
        parts.append(text(x, y + 4, sign, "middle"))
    anchor = "#LSTMCell.forward"
    for x, name, gate in (
        (times, "σ", "f"),
        (plus - 44, "σ", "i"),
        (plus, "tanh", "g"),
        (shown - 14, "σ", "o"),
    ):
        parts.append(box(x, 96, 34, 22, name, 0, anchor))
        parts.append(text(x + 20, 112, gate))
        parts.append(arrow(x, low + 14, x, 119, "l t4"))
    parts.append(arrow(times, 96, times, top + 11, "l t0"))
    parts.append(arrow(plus - 44, 96, plus - 9, 68, "l t0"))
    parts.append(arrow(plus, 96, plus, 73, "l t0"))
    parts.append(arrow(plus, 51, plus, top + 11, "l t0"))
    parts.append(arrow(shown + 24, top, shown + 24, 51, "l t0"))
    parts.append(box(shown + 24, 52, 38, 22, "tanh", 0, anchor))
    parts.append(arrow(shown + 24, 74, shown + 24, mid + 1, "l t0"))
    parts.append(arrow(shown + 4, 107, shown + 15, mid + 18, "l t0"))
    parts.append(arrow(shown + 24, mid + 23, shown + 24, low + 14, "l t0"))
    parts.append(arrow(shown + 24, low + 14, WIDTH - 30, low + 14, "l t0"))
    parts.append(text(WIDTH - 26, low + 18, "h′"))
    parts.append(arrow(30, low + 14, shown - 14, low + 14, "l t4"))
    parts.append(text(26, low + 18, "h", "end"))
    parts.append(arrow(60, low + 36, 60, low + 15, "l t4"))
    parts.append(text(60, low + 48, "x", "middle"))
    return Figure(
        [Panel(WIDTH, low + 54, tuple(parts))],
        "Two lines from left to right. On the upper one the old cell state c is multiplied by the "
        "forget gate f; then the product of the input gate i and the candidate g is added, which "
        "gives the new cell state. On the lower one the old hidden state h and the input x reach "
        "the four sums. The new hidden state is the output gate o times the tanh of the new cell "
        "state.",
    )


def gradient():
    """The length of a gradient, step by step back: new LSTMs, and an Elman layer."""
    curves = {f"LSTM, bias {bias:g}": arriving(bias) for bias in BIASES}
    curves["Elman"] = arriving(None)
    plot = Plot(
        (0, FAR[-1]),
        (1e-20, 10),
        log=True,
        height=150,
        x_label="steps back",
        y_label="length of the gradient",
    )
    for tone, lengths in enumerate(curves.values()):
        plot.line(FAR, lengths, tone)
    for name, lengths in curves.items():
        at = 40 if name != "Elman" else 20
        plot.note(at, lengths[FAR.index(at)] * 30, name, "end")
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


def arriving(bias):
    """The length of a gradient of length 1 at the last state, so many steps before.

    For new layers with random inputs; `bias` is that of the forget gates, None an Elman layer.
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
        state = step(x_t, *state) if bias is not None else (step(x_t, *state),)
        states.append([part.requires_grad_() if part.is_leaf else part for part in state])
    # The gradient enters at the state that is kept: of an LSTM the cell state.
    sent = torch.randn(BATCH, UNITS, generator=torch.Generator().manual_seed(0)).double()
    sent /= sent.norm(dim=1, keepdim=True)
    wanted = [states[-1 - k][-1] for k in FAR]
    arrived = torch.autograd.grad(states[-1][-1], wanted, sent)
    return [one.norm(dim=1).mean().item() for one in arrived]
