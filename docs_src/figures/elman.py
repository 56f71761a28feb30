"""An Elman network with its context units, and how its gradient vanishes over time."""

import torch
from torch import nn

from labml_nn.recurrent.elman import ElmanLayer
from pylit.figures.draw import WIDTH, Figure, Panel, Plot, Table, arrow, box, element, text

UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)


def network():
    """Three steps: inputs and context units feed the hidden units, whose state is copied."""
    parts = []
    for t in range(1, 4):
        left = 2 + (t - 1) * 100.0
        middle = left + 42
        parts.append(box(middle, 50, 40, 26, f"h{_below(t)}", 0, "#ElmanCell.forward"))
        parts.append(box(left + 18, 112, 36, 26, f"h{_below(t - 1)}", 1, "#ElmanLayer.forward"))
        parts.append(box(left + 66, 112, 36, 26, f"x{_below(t)}", 4))
        parts += [
            arrow(left + 20, 112, middle - 10, 76, "l t0"),
            arrow(left + 64, 112, middle + 10, 76, "l t0"),
            arrow(middle, 50, middle, 24, "l t0"),
            text(left + 16, 98, "U", "middle"),
            text(left + 70, 98, "W", "middle"),
            text(middle, 18, f"y{_below(t)}", "middle"),
        ]
        if t < 3:
            path = f"M{middle + 20} 64C{left + 92} 64 {left + 88} 96 {left + 112} 110"
            parts.append(element("path", "l t4", d=path, stroke_dasharray="4 3"))
            parts.append(arrow(left + 108, 107.5, left + 112, 110, "l t4"))
            parts.append(text(left + 90, 60, "copy", "middle"))
    parts += [text(20, 152, "context", "middle"), text(68, 152, "input", "middle")]
    return Figure(
        [Panel(WIDTH, 158, tuple(parts))],
        "Three steps of an Elman network, side by side. At each step the input, with weights W, "
        "and the context units, with weights U, lead to the hidden units, and these to the "
        "output. A dashed arrow, the copy, leads from the hidden units of a step to the "
        "context units of the next.",
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


def vanishing():
    """The length of a gradient, step by step back, for several sizes of the matrix."""
    radii = (0.5, 1.0, 1.5, 2.0)
    x = torch.randn(FAR[-1] + 1, BATCH, 1)
    curves = {radius: _arriving(_layer(radius), x, FAR) for radius in radii}
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
    for radius, at, factor, side in ((0.5, 20, 3, "start"), (1.0, 30, 8, "start")):
        plot.note(at, curves[radius][FAR.index(at)] * factor, f"ρ = {radius}", side)
    for radius, at, factor, side in ((1.5, 50, 2, "end"), (2.0, 40, 10, "end")):
        plot.note(at, curves[radius][FAR.index(at)] * factor, f"ρ = {radius}", side)
    rows = [
        [f"{radius}", *(f"{lengths[FAR.index(k)]:.2g}" for k in (1, 10, 30, 50))]
        for radius, lengths in curves.items()
    ]
    told = ", ".join(f"{lengths[-1]:.0e} for {radius}" for radius, lengths in curves.items())
    return Figure(
        [plot.panel()],
        "On a logarithmic scale the lengths fall or rise in nearly straight lines. After "
        f"{FAR[-1]} steps they are {told}.",
        Table(["ρ", "1 step", "10", "30", "50"], rows),
    )


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


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
