"""The architecture of the autoregressive transformer, and its causal mask as gradients show it."""

import torch

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from pylit.figures.draw import LINE, WIDTH, Figure, Panel, arrow, box, element, heat_map, line, text

TOKENS = 5


def diagram():
    """Boxes from tokens to logits, and which logits depend on which tokens of a small model."""
    depends = _dependence()
    count = int(sum(map(sum, depends)))
    names = [f"w{'₀₁₂₃₄'[t]}" for t in range(TOKENS)]
    mask = heat_map(
        depends,
        title="causal mask",
        rows=[f"z{'₀₁₂₃₄'[t]}" for t in range(TOKENS)],
        columns=names,
        down="logits",
        across="tokens that they depend on",
        frames=True,
    )
    return Figure(
        [_architecture(), mask],
        "From bottom to top: tokens are embedded and positions are added. Each of L layers "
        "normalises, applies masked multi-head attention and adds the result, then normalises, "
        "applies a feed-forward network and adds the result. A last normalisation and a linear "
        "map with the embedding matrix give the logits. Beside it a table of "
        f"{TOKENS} logits by {TOKENS} tokens, filled on and below the diagonal: {count} squares.",
    )


def _dependence():
    """Whether a gradient of the logits at t reaches the embedding of token s."""
    config = AutoregressiveConfig(
        n_vocab=TOKENS, d_model=16, n_layers=2, max_len=TOKENS, tied=False, dropout_prob=0.0
    )
    model = AutoregressiveTransformer(config)
    logits, _ = model(torch.arange(TOKENS)[:, None])
    weight = model.embedding.tokens.weight
    rows = []
    for row in logits:
        (gradient,) = torch.autograd.grad(row.square().sum(), weight, retain_graph=True)
        rows.append([float(bool(each.any())) for each in gradient])
    return rows


#: From bottom to top, with the height of the gap below each, its tone and its code.
BOXES = (
    ("embedding √C · E + position P", 18, 4, "#TokenAndPositionEmbedding"),
    ("norm", 26, 4, "models.html#TransformerLayer.residual"),
    ("masked multi-head attention", 14, 1, "#AutoregressiveTransformer.run_layers"),
    ("norm", 30, 4, "models.html#TransformerLayer.residual"),
    ("feed-forward network", 14, 2, "feed_forward.html"),
    ("norm", 42, 4, "#AutoregressiveTransformer.forward"),
    ("linear, tied to E", 14, 3, "#AutoregressiveTransformer.forward"),
)


def _architecture():
    width, left, height = 216.0, 36.0, 26.0
    middle, total = left + width / 2, 386.0
    y, tops, parts = total - LINE, [], [text(middle, total - 3, "tokens w", "middle")]
    for name, gap, tone, to in BOXES:
        bottom = y - gap
        parts.append(arrow(middle, y, middle, bottom, "l t4"))
        parts.append(box(middle, bottom - height, width, height, name, tone, to))
        y = bottom - height
        tops.append(y)
    parts.append(arrow(middle, y, middle, y - 14, "l t4"))
    parts.append(text(middle, y - 18, "logits z", "middle"))

    # Both residual connections leave the stream below a norm and return above the sub-layer.
    for norm, sublayer, gap_above in ((1, 2, BOXES[3][1]), (3, 4, BOXES[5][1])):
        begin, end = tops[norm] + height + 8, tops[sublayer] - min(gap_above, 26) / 2
        x = left + width + 14
        parts += [
            line(middle, begin, x, begin, "l t4 thin"),
            line(x, begin, x, end, "l t4 thin"),
            arrow(x, end, middle + 5, end, "l t4 thin"),
            element("circle", "l t4", cx=middle, cy=end, r=4),
            line(middle - 3, end, middle + 3, end, "l t4 thin"),
            line(middle, end - 3, middle, end + 3, "l t4 thin"),
        ]
    top, bottom = tops[4] - 24, tops[1] + height + 16
    frame = {"x": left - 14, "y": top, "width": width + 40, "height": bottom - top, "rx": 6}
    parts.append(element("rect", "b", **frame))
    parts.append(text(left - 18, (top + bottom) / 2, "L ×", "end"))
    return Panel(WIDTH, total + 4, tuple(parts))
