"""An Elman network that reads a word, and how its gradient vanishes over time."""

import json
from functools import cache
from pathlib import Path

import torch
from torch import nn

from labml_nn.experiments.checkpoint import load_run
from labml_nn.recurrent.elman import ElmanLayer
from pylit.figures.draw import WIDTH, Figure, Panel, Plot, Table, arrow, box, element, text

TRAINED = Path(__file__).parents[1] / "results/elman"
UNITS, BATCH = 128, 8
FAR = (0, 1, 2, 5, 10, 20, 30, 40, 50)


def network():
    """*hell* goes in and *ello* should come out: each state is made of a letter and a state."""
    parts, step = [], (WIDTH - 20) / 4
    for t, (letter, target) in enumerate(zip("hell", "ello", strict=True), 1):
        middle = (t - 0.5) * step + 18
        parts.append(text(middle, 14, target, "middle"))
        parts.append(arrow(middle, 50, middle, 20, "l t0"))
        parts.append(text(middle + 6, 40, "R"))
        parts.append(box(middle, 50, 36, 26, f"h{_below(t)}", 0, "#ElmanCell.forward"))
        parts.append(arrow(middle, 112, middle, 77, "l t0"))
        parts.append(text(middle + 6, 98, "W"))
        parts.append(box(middle, 112, 30, 26, letter, 4))
        begin = middle - step + 19 if t > 1 else 14.0
        parts.append(arrow(begin, 63, middle - 19, 63, "l t4"))
        parts.append(text((begin + middle - 19) / 2, 57, "U", "middle"))
    parts.append(text(5, 67, "0", "middle"))
    return Figure(
        [Panel(WIDTH, 142, tuple(parts))],
        "Four steps, side by side. At each step an arrow W leads from a letter of hell to the "
        "hidden state, and an arrow R from the state up to a letter of ello. Arrows U lead from "
        "each state to the next.",
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


def _below(number):
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
