"""Attention as Figure 2 of the paper draws it, with the steps of a module that was run."""

import torch

from labml_nn import kernels
from labml_nn.transformers.mha import MultiHeadAttention
from pylit.figures.draw import WIDTH, Figure, Panel, Table, arrow, box, element, text

HEIGHT, GAP = 26.0, 15.0
#: The steps from the bottom to the top, with tones for products and other steps, and the methods.
STEPS = (
    ("scores Q Kᵀ", 1, "get_scores"),
    ("scale by 1/√d", 4, "get_scores"),
    ("mask with −∞", 4, "prepare_mask"),
    ("softmax over keys", 2, "attend"),
    ("dropout", 4, "attend"),
    ("average A V", 1, "attend"),
)
CODE = "#MultiHeadAttention"
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
    for name, tone, method in STEPS:
        top -= HEIGHT + GAP
        parts.append(arrow(LEFT - 14, top + HEIGHT + GAP, LEFT - 14, top + HEIGHT, "l t4"))
        parts.append(box(LEFT, top, BOX, HEIGHT, name, tone, f"{CODE}.{method}"))
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
        parts.append(box(at, rows[0], NARROW, HEIGHT, name, 3, "#PrepareForMultiHeadAttention"))
        parts.append(arrow(at, rows[0], at, rows[1] + HEIGHT + 10, "l t4"))
    for i in reversed(range(attention.heads)):
        shift = 5.0 * i
        # The page hides what lies behind a head.
        behind = {"x": RIGHT + shift - 1.4 * NARROW, "y": rows[1] - shift + 5, "height": HEIGHT}
        page = "fill: var(--page)"
        parts.append(element("rect", style=page, width=2.8 * NARROW, rx=4, **behind))
        words, to = ("", "") if i else (f"head 0 … {attention.heads - 1}", f"{CODE}.attend")
        parts.append(box(RIGHT + shift, rows[1] - shift + 5, 2.8 * NARROW, HEIGHT, words, 1, to))
    parts.append(arrow(RIGHT, rows[1] - 5, RIGHT, rows[2] + HEIGHT, "l t4"))
    parts.append(text(RIGHT + 6, (rows[1] + rows[2] + HEIGHT) / 2 + 3, "side by side"))
    parts.append(box(RIGHT, rows[2], 3 * NARROW, HEIGHT, "output projection", 3, f"{CODE}.forward"))
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
        Table(["tensor", "shape", "meaning"], shapes, align="lll"),
    )
