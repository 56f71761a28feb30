"""The mixer of Mamba-2, and what is left of each word at each other."""

import torch

from labml_nn.recurrent.mamba2 import ssd_table
from pylit.figures.draw import WIDTH, Figure, Panel, arrow, box, element, heat_map, line, text


def mixer():
    """From one projection come all signals; those on the right pass the memory."""
    gate, value, key, query, delta = 36, 112, 160, 208, 262
    conv, memory, add, times, norm, out = 76, 132, 186, 222, 244, 282
    forward = "#Mamba2.forward"
    parts = [
        text(WIDTH / 2, 11, "x", "middle"),
        arrow(WIDTH / 2, 14, WIDTH / 2, 22, "l t4"),
        box(WIDTH / 2, 22, WIDTH - 8, 22, "in_proj", 0, "#Mamba2.__init__"),
        box(160, conv, 136, 22, "convolution, SiLU", 1, forward),
        box(187, memory, 198, 22, "h ← exp(Δ A) h + Δ k vᵀ", 2, "#ssd_loop"),
        box(gate, 110, 44, 22, "SiLU", 0, forward),
        box(delta, conv, 52, 22, "softplus", 0, forward),
    ]
    for x, name in ((gate, "gate"), (value, "v"), (key, "k"), (query, "q"), (delta, "Δ")):
        parts += [text(x + 5, 60, name)]
        end = 110 if x == gate else conv
        parts += [arrow(x, 44, x, end, "l t4")]
        if x != gate:
            parts += [arrow(x, conv + 22, x, memory, "l t4")]
    parts += [
        # The skip leaves the value before the memory, and joins what the memory gave.
        line(value, 112, 78, 112, "l t0"),
        line(78, 112, 78, add, "l t0"),
        arrow(78, add, 150, add, "l t0"),
        text(82, add - 5, "D"),
        arrow(160, memory + 22, 160, add - 10, "l t4"),
        text(165, memory + 38, "y = hᵀq"),
        arrow(160, add + 10, 160, times - 10, "l t4"),
        line(gate, 132, gate, times, "l t4"),
        arrow(gate, times, 150, times, "l t4"),
        arrow(160, times + 10, 160, norm, "l t4"),
        box(160, norm, 84, 22, "norm", 0, forward),
        arrow(160, norm + 22, 160, out, "l t4"),
        box(160, out, 84, 22, "out_proj", 0, forward),
        arrow(160, out + 22, 160, out + 34, "l t4"),
    ]
    for y, sign in ((add, "+"), (times, "×")):
        parts += [
            element("circle", "l t0", cx=160, cy=y, r=10),
            text(160, y + 4, sign, "middle"),
        ]
    return Figure(
        [Panel(WIDTH, out + 38, tuple(parts))],
        "From top to bottom: the input x is projected to a gate, a value v, a key k, a query q "
        "and Δ. Value, key and query pass a convolution and a SiLU, Δ a softplus. With them the "
        "memory leaks, is written and is read. D times the value, which goes around the memory, "
        "is added. Then follow the product with the SiLU of the gate, a norm, and the output "
        "projection.",
    )


@torch.no_grad()
def decays():
    """The table L of the first example: its values are unit vectors, so the output is L itself."""
    words = ["7", "er", "well", "so", "9", "er"]
    delta = torch.tensor([1.0 if word.isdigit() else 0.001 for word in words])
    ones, units = torch.ones(6, 1, 1, 1), torch.eye(6)[:, None, None]
    left, _ = ssd_table(ones, ones, units, -3 * delta[:, None, None], torch.zeros(1, 1, 1, 6))
    panel = heat_map(
        left[:, 0, 0].tolist(),
        title="what is left, L",
        rows=words,
        columns=words,
        down="read at",
        across="written at",
        cell=22.0,
        most=1.0,
    )
    return Figure(
        [panel],
        "A map of six words by six. On and below the diagonal of the first four words everything "
        "is left, and nothing above it. In the rows of the 9 and of the last er, only "
        f"{left[4, 0, 0, 0]:.2f} is left of the first four words, and all of the 9.",
    )
