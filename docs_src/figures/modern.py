"""Figures of `labml_nn.transformers.modern`."""

import math

import torch

from labml_nn.kernels import disabled
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.modern import QKNormAttention, rotate
from pylit.figures.draw import Figure, Plot, Table

SIZE, LENGTH = 16, 65
SHOWN = (0, 2)
FACTORS = (1, 1.5, 2, 3, 4, 6, 8)
KEYS, WIDTH, HEADS = 32, 128, 4


def distances():
    """What a pair of features contributes to the score of two equal vectors, and the mean."""
    rotated = rotate(torch.ones(LENGTH, 1, 1, SIZE), torch.arange(LENGTH)[:, None]).flatten(1)
    products = rotated * rotated[0]  # [LENGTH, SIZE]
    pairs = (products[:, : SIZE // 2] + products[:, SIZE // 2 :]) / 2
    lines = {f"pair {i}": pairs[:, i].tolist() for i in SHOWN} | {"mean": pairs.mean(1).tolist()}
    plot = Plot((0, LENGTH - 1), (-1, 1), x_label="distance", y_label="score", height=110)
    for tone, (name, values) in enumerate(lines.items()):
        plot.line(range(LENGTH), values, tone, label=name, dashed=name == "mean")
    periods = [f"{2 * math.pi / math.acos(pairs[1, i]):.0f}" for i in SHOWN]
    mean = lines["mean"]
    rows = [
        [str(d), *(f"{values[d]:.2f}" for values in lines.values())] for d in (0, 1, 3, 6, 20, 60)
    ]
    return Figure(
        [plot.panel()],
        f"Cosines that begin at 1. That of pair 0 has a period of {periods[0]} positions, that of "
        f"pair 2 one of {periods[1]}. The mean of all {SIZE // 2} pairs falls to {mean[3]:.2f} at "
        f"a distance of 3 and to {mean[60]:.2f} at 60, with ripples.",
        Table(["distance", *lines], rows),
    )


def growth():
    """The largest attention weight, as the projections of queries and keys grow."""
    kinds = {"plain": MultiHeadAttention, "QK-norm": QKNormAttention}
    found = {name: [_largest(kind, factor) for factor in FACTORS] for name, kind in kinds.items()}
    plot = Plot(
        (1, FACTORS[-1]),
        (0, 1),
        x_label="factor of both projections",
        y_label="largest weight",
        height=100,
    )
    for tone, (name, values) in enumerate(found.items()):
        plot.line(FACTORS, values, tone, label=name, dashed=bool(tone))
    (plain, normed) = found.values()
    rows = [
        [f"{factor:g}", f"{a:.2f}", f"{b:.2f}"]
        for factor, a, b in zip(FACTORS, plain, normed, strict=True)
    ]
    return Figure(
        [plot.panel()],
        f"The largest weight grows from {plain[0]:.2f} to {plain[-1]:.2f} when both projections "
        f"become {FACTORS[-1]} times as large. With QK-norm it stays at {normed[0]:.2f}.",
        Table(["factor", *found], rows),
    )


def _largest(kind, factor):
    torch.manual_seed(0)
    attention = kind(HEADS, WIDTH, 0.0, bias=False).eval()
    x = torch.nn.functional.layer_norm(torch.randn(KEYS, 4, WIDTH), (WIDTH,))
    with torch.no_grad(), disabled():
        for part in (attention.query, attention.key):
            part.linear.weight.copy_(factor * torch.randn_like(part.linear.weight) / WIDTH**0.5)
        attention(query=x, key=x, value=x)
    return attention.attn.amax(dim=1).mean().item()
