"""Figures of `labml_nn.transformers.rotary`."""

import math

import torch

from labml_nn.transformers.rotary import RotaryPositions, rotate
from pylit.figures.draw import Figure, Plot, Table

SIZE, LENGTH = 16, 65
SHOWN = (0, 2)


def distances():
    """What a pair of features adds to the score of two equal vectors, and what all of them do."""
    rotation = RotaryPositions(SIZE, LENGTH)(torch.arange(LENGTH)[:, None])
    turned = rotate(torch.ones(LENGTH, 1, 1, SIZE), rotation).flatten(1)  # [LENGTH, SIZE]
    parts = turned * turned[0]
    pairs = (parts[:, : SIZE // 2] + parts[:, SIZE // 2 :]) / 2
    lines = {f"pair {i}": pairs[:, i].tolist() for i in SHOWN} | {"mean": pairs.mean(1).tolist()}
    plot = Plot((0, LENGTH - 1), (-1, 1), x_label="distance", y_label="score", height=110)
    for tone, (name, values) in enumerate(lines.items()):
        plot.line(range(LENGTH), values, tone, label=name, dashed=name == "mean")
    turns = [math.atan2(rotation.sin[1, 0, 0, i], rotation.cos[1, 0, 0, i]) for i in SHOWN]
    once = [f"{2 * math.pi / turn:.0f}" for turn in turns]
    mean = lines["mean"]
    rows = [
        [str(d), *(f"{values[d]:.2f}" for values in lines.values())] for d in (0, 1, 3, 6, 20, 60)
    ]
    return Figure(
        [plot.panel()],
        f"Waves that begin at 1. That of pair 0 comes back every {once[0]} positions, and that of "
        f"pair 2 every {once[1]}. The mean of all {SIZE // 2} pairs falls to {mean[3]:.2f} at a "
        f"distance of 3 and to {mean[60]:.2f} at 60, with ripples.",
        Table(["distance", *lines], rows),
    )
