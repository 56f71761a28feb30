"""Figures of `labml_nn.transformers.qk_norm`."""

import torch

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.qk_norm import QKNormAttention
from pylit.figures.draw import Figure, Plot, Table

FACTORS = (1, 1.5, 2, 3, 4, 6, 8)
KEYS, SIZE, HEADS = 32, 128, 4


def growth():
    """The largest weight when the maps of queries and keys are so many times as large."""
    kinds = {"plain": MultiHeadAttention, "QK norm": QKNormAttention}
    found = {name: [_largest(kind, factor) for factor in FACTORS] for name, kind in kinds.items()}
    plot = Plot(
        (1, FACTORS[-1]),
        (0, 1),
        x_label="both maps, times",
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
        f"The largest weight grows from {plain[0]:.2f} to {plain[-1]:.2f} when both maps become "
        f"{FACTORS[-1]} times as large, and stays at {normed[0]:.2f} with normalised queries and "
        "keys.",
        Table(["times", *found], rows),
    )


def _largest(kind, factor):
    torch.manual_seed(0)
    attention = kind(HEADS, SIZE, 0.0, bias=False, store_attn=True).eval()
    x = torch.nn.functional.layer_norm(torch.randn(KEYS, 4, SIZE), (SIZE,))
    with torch.no_grad():
        for part in (attention.query, attention.key):
            part.linear.weight.copy_(factor * torch.randn_like(part.linear.weight) / SIZE**0.5)
        attention(query=x, key=x, value=x)
    return attention.attn.amax(dim=1).mean().item()
