"""Figures of `labml_nn.transformers.rotary`."""

import math

import torch

from labml_nn.transformers.rotary import RotaryPositions
from pylit.figures.draw import Figure, Plot, Table

SIZE, LENGTH = 16, 65


def angles():
    """By how many turns each pair has been turned, on a logarithmic scale."""
    rotation = RotaryPositions(SIZE, LENGTH)(torch.arange(LENGTH)[:, None])
    once = torch.atan2(rotation.sin[1], rotation.cos[1]).flatten().tolist()  # from 0 to 1
    turns = [[p * angle / (2 * math.pi) for p in range(1, LENGTH)] for angle in once]
    plot = Plot(
        (1, LENGTH - 1), (1e-4, 10), x_label="position", y_label="turns", log=True, height=140
    )
    shown = (0, 2, 4, 7)
    for tone, pair in enumerate(shown):
        plot.line(range(1, LENGTH), turns[pair], tone, label=f"pair {pair}")
    rows = [
        [str(pair), f"{2 * math.pi / once[pair]:,.0f}", f"{turns[pair][-1]:.3f}"]
        for pair in range(SIZE // 2)
    ]
    return Figure(
        [plot.panel()],
        f"Four lines of the same slope. At position {LENGTH - 1} pair 0 has gone round "
        f"{turns[0][-1]:.0f} times, pair 2 once, and pair 7 a "
        f"{1 / turns[7][-1]:.0f}th part of a turn.",
        Table(["pair", "positions for one turn", f"turns at position {LENGTH - 1}"], rows),
    )
