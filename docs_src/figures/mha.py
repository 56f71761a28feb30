"""Attention as Figure 2 of the paper draws it, with the steps of a module that was run."""

import torch

from labml_nn import kernels
from labml_nn.transformers.mha import MultiHeadAttention
from pylit.figures.draw import WIDTH, Figure, Panel, Table, arrow, element, text

HEIGHT, GAP = 22.0, 17.0
#: The steps of `attend` from the bottom to the top, with tones for products and other steps.
STEPS = (
    ("scores Q Kᵀ", 1),
    ("scale by 1/√d", 4),
    ("mask with −∞", 4),
    ("softmax over keys", 2),
    ("dropout", 4),
    ("average A V", 1),
)
LEFT, BOX = 62.0, 110.0
RIGHT, NARROW = 213.0, 40.0


def diagram():
    """Scaled dot-product attention on the left; the heads between the projections on the right."""
    attention = MultiHeadAttention(heads=3, d_model=12)
    x = torch.randn(5, 2, 12)
    with kernels.disabled():
        attention(query=x, key=x, value=x)
    assert attention.attn is not None
    parts = [
        text(LEFT, 14, "one head", "middle"),
        text(RIGHT, 14, "all heads", "middle"),
    ]

    bottom = 40 + len(STEPS) * (HEIGHT + GAP)
    top = bottom
    for name, tone in STEPS:
        top -= HEIGHT + GAP
        parts.append(arrow(LEFT - 14, top + HEIGHT + GAP, LEFT - 14, top + HEIGHT, "l t4"))
        parts += _box(LEFT, top, BOX, name, tone)
    parts.append(arrow(LEFT - 14, top, LEFT - 14, top - GAP + 3, "l t4"))
    # Keys enter with the queries at the bottom, values only at the top.
    parts.append(text(LEFT - 14, bottom + 12, "Q, K", "middle"))
    side = LEFT + BOX / 2 + 10
    parts.append(text(side, bottom + 12, "V", "middle"))
    level = top + HEIGHT / 2
    parts.append(element("path", "l t4", d=f"M{side:g} {bottom:g}V{level:g}", fill="none"))
    parts.append(arrow(side, level, LEFT + BOX / 2, level, "l t4"))

    # From the inputs through projections, heads, and the output projection.
    rows = bottom - HEIGHT - GAP, bottom - 3.6 * (HEIGHT + GAP), 40 + HEIGHT / 2
    for i, name in enumerate(("query", "key", "value")):
        at = RIGHT + (i - 1) * (NARROW + 6)
        assert attention.get_submodule(name).heads == attention.heads
        parts.append(text(at, bottom + 12, "XYZ"[i], "middle"))
        parts.append(arrow(at, bottom, at, rows[0] + HEIGHT, "l t4"))
        parts += _box(at, rows[0], NARROW, name, 3)
        parts.append(arrow(at, rows[0], at, rows[1] + HEIGHT + 10, "l t4"))
    for i in reversed(range(attention.heads)):
        shift = 5.0 * i
        parts += _box(RIGHT + shift, rows[1] - shift + 5, 2.8 * NARROW, "", 1)
    parts.append(text(RIGHT, rows[1] + HEIGHT - 2, f"head 0 … {attention.heads - 1}", "middle"))
    parts.append(arrow(RIGHT, rows[1] - 5, RIGHT, rows[2] + HEIGHT, "l t4"))
    parts.append(text(RIGHT + 6, (rows[1] + rows[2] + HEIGHT) / 2 + 3, "side by side"))
    parts += _box(RIGHT, rows[2], 3 * NARROW, "output projection", 3)
    parts.append(arrow(RIGHT, rows[2], RIGHT, rows[2] - 20, "l t4"))
    count = sum(p.numel() for p in attention.parameters())
    shapes = [
        ["Q, K, V", "[T, B, H, D]", "a query, a key and a value of each head"],
        ["scores, weights", "[T, S, B, H]", "one for each pair of positions, in each head"],
        ["heads side by side", "[T, B, H·D]", "the input of the output projection"],
    ]
    return Figure(
        [Panel(WIDTH, bottom + 20, tuple(parts))],
        "Left, from bottom to top: scores of queries and keys, scale, mask, softmax over keys, "
        "dropout, and the average of the values, which enter at the top only. Right: three "
        "projections make queries, keys and values of all heads, each head attends by itself, and "
        f"the output projection combines them; with 12 features these have {count} parameters.",
        Table(["tensor", "shape", "meaning"], shapes),
    )


def _box(x, y, width, words, tone):
    """A filled and framed box with its top at `y`, and words in its middle."""
    size = {"x": x - width / 2, "y": y, "width": width, "height": HEIGHT, "rx": 4}
    return [
        element("rect", f"f t{tone}", fill_opacity="0.16", **size),
        element("rect", f"l t{tone}", **size),
        *([text(x, y + HEIGHT / 2 + 4, words, "middle")] if words else []),
    ]
