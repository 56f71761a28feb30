"""Attention as Figure 2 of the paper draws it, the worked example, and two trained heads."""

from pathlib import Path

import torch

from labml_nn import kernels
from labml_nn.attention_maps import attention_maps
from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.mha import MultiHeadAttention
from pylit.figures.draw import WIDTH, Figure, Panel, Table, arrow, box, element, heat_map, text

HEIGHT, GAP = 26.0, 15.0
#: The steps from the bottom to the top, with tones for products and other steps, and the methods.
STEPS = (
    ("compare, Q Kᵀ", 1, "get_scores"),
    ("scale by 1/√d", 4, "attend"),
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
        words, to = ("", "") if i else (f"head 1 … {attention.heads}", f"{CODE}.attend")
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
        "Left, from bottom to top: dot products of queries and keys, scale, mask, softmax over "
        "keys, dropout, and the average of the values, which enter at the top only. Right: three "
        "projections make queries, keys and values of all heads, each head attends by itself, and "
        f"the output projection combines them; with 12 features these have {count} parameters.",
        Table(["tensor", "shape", "meaning"], shapes, align="lll"),
    )


#: The worked example of the page: tokens, their features, and the three matrices.
TOKENS = ("the", "dog", "sleeps")
FEATURES = [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]]
MATRICES = {
    "query": [[0, 0, 2, 0], [0, 0, 0, 2], [1, 0, 2, 0], [1, 0, 0, 0]],
    "key": [[0, 1, 0, 2], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]],
    "value": [[1, 1], [10, 0], [0, 10], [0, 0]],
}


def _worked_example():
    """The module with the matrices of the example, and the features of its tokens."""
    attention = MultiHeadAttention(1, 4, 0.0, bias=False, d_k=4, d_v=2)
    with torch.no_grad():
        for name, rows in MATRICES.items():
            attention.get_submodule(name).linear.weight.copy_(torch.tensor(rows).T)
    return attention, torch.tensor(FEATURES, dtype=torch.float)[:, None]


def example():
    """The weights of the worked example."""
    attention, x = _worked_example()
    with torch.no_grad(), kernels.disabled():
        attention(query=x, key=x, value=x)
    weights = attention.attn[:, :, 0, 0].tolist()
    side = 52.0
    # Cells of at most half the colour, so that the numbers in them can be read.
    panel = heat_map(
        weights,
        title="weights of the example",
        down="query",
        across="key",
        rows=TOKENS,
        columns=TOKENS,
        cell=side,
        most=1.6,
        frames=True,
        width=220.0,
    )
    bottom, left = panel.height - 3, max(map(len, TOKENS)) * 6.0 + 8
    numbers = [
        text(
            left + (j + 0.5) * side, bottom - (2.5 - i) * side + 4, f"{weights[i][j]:.3f}", "middle"
        )
        for i in range(3)
        for j in range(3)
    ]
    most = [TOKENS[row.index(max(row))] for row in weights]
    return Figure(
        [Panel(panel.width, panel.height, (*panel.parts, *numbers))],
        "Three queries by three keys, and each row sums to one. "
        + " ".join(
            f"{token.capitalize()} gives most to {other}, {max(row):.3f}."
            for token, other, row in zip(TOKENS, most, weights, strict=True)
        ),
    )


RESULTS = Path(__file__).parents[1] / "results"
SAID = "ROMEO:\nWhat is thy"
#: The heads that the page names: the line break after a name, and the character before.
TRAINED = ((1, 0), (2, 0))


def trained():
    """Two heads of the trained character model."""
    run = load_run(RESULTS / "autoregressive")
    tokens = torch.tensor([run.vocabulary.texts.index(letter) for letter in SAID])[:, None]
    maps = attention_maps(run.model(), tokens, vocabulary=run.vocabulary.texts)
    letters = [{"\n": "↵", " ": "␣"}.get(letter, letter) for letter in SAID]
    panels, found = [], []
    for layer, head in TRAINED:
        weights = maps[layer].weights[:, :, 0, head]
        found.append(weights)
        panels.append(
            heat_map(
                weights.tolist(),
                title=f"layer {layer + 1}, head {head + 1}",
                down="query",
                across="key",
                rows=letters,
                columns=letters,
                cell=14.0,
                most=1.0,
            )
        )
    line = SAID.index("\n")
    return Figure(
        panels,
        f"Two maps of {len(SAID)} queries by as many keys, empty above the diagonal. In the first "
        f"there is a column at the line break, with {found[0][line + 2 :, line].mean():.2f} of the "
        "weight on average; in the second a line below the diagonal, with "
        f"{found[1].diagonal(-1).mean():.2f}.",
    )
