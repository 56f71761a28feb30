"""The memory of linear attention as a drawing, its three forms, and how much it holds."""

import torch
from torch.nn import functional as F

from labml_nn.recurrent.linear_attention import linear_attention_table
from pylit.figures.draw import (
    WIDTH,
    Figure,
    Panel,
    Plot,
    Table,
    arrow,
    box,
    element,
    heat_map,
    text,
)

PAIRS, SIZES, VALUES, TRIALS = (1, 2, 4, 8, 16, 32, 64), (4, 8, 16, 32), 64, 100
#: Tokens of the drawing of the three forms, and of a chunk.
TOKENS, CHUNK = 12, 4


def diagram():
    """The upper line is the memory: an outer product is added, and a query reads from it."""
    top, low, add, read = 40, 112, 104, 206
    parts = [
        element("rect", "f t0", x=22, y=top - 13, width=26, height=26, fill_opacity="0.14"),
        element("rect", "f t0", x=138, y=top - 13, width=26, height=26, fill_opacity="0.14"),
        element("rect", "l t0", x=22, y=top - 13, width=26, height=26),
        element("rect", "l t0", x=138, y=top - 13, width=26, height=26),
        text(35, top + 4, "S", "middle"),
        text(151, top + 4, "S′", "middle"),
        arrow(50, top, add - 11, top, "l t0"),
        arrow(add + 11, top, 136, top, "l t0"),
        arrow(166, top, WIDTH - 18, top, "l t0"),
        box(add, 76, 44, 22, "k ⊗ v", 1, "#linear_attention_loop"),
        arrow(add, 76, add, top + 12, "l t1"),
        arrow(add - 12, low + 14, add - 12, 100, "l t4"),
        arrow(add + 12, low + 14, add + 12, 100, "l t4"),
        text(add - 12, low + 26, "k", "middle"),
        text(add + 12, low + 26, "v", "middle"),
        arrow(read, top, read, 74, "l t0"),
        box(read, 76, 44, 22, "q S′", 2, "#linear_attention_loop"),
        arrow(read, low + 14, read, 100, "l t4"),
        text(read, low + 26, "q", "middle"),
        arrow(read + 24, 87, WIDTH - 18, 87, "l t2"),
        text(WIDTH - 12, 91, "y"),
        element("circle", "l t0", cx=add, cy=top, r=10),
        text(add, top + 4, "+", "middle"),
        text(add, 16, "write", "middle", "h"),
        text(read, 16, "read", "middle", "h"),
    ]
    return Figure(
        [Panel(WIDTH, low + 34, tuple(parts))],
        "The upper line leads from the old memory S to the new one, S′. On it the outer product of "
        "the key k and the value v is added. Behind it the product of the query q and the new "
        "memory gives the output y.",
    )


def forms():
    """For each query and key, whether they meet in a table or by way of the memory."""
    panels, counts = [], []
    for name, chunk in (("table", TOKENS), ("chunks", CHUNK), ("loop", 1)):
        met = torch.zeros(TOKENS, TOKENS)
        for t in range(TOKENS):
            begin = t // chunk * chunk
            met[t, begin : t + 1], met[t, :begin] = 1.0, 0.3
        counts.append(f"{name} {int((met == 1).sum())}")
        side = 106 / TOKENS
        panels.append(heat_map(met.tolist(), title=name, most=1.0, cell=side, width=112.0))
    return Figure(
        panels,
        f"Three triangles of {TOKENS} queries by {TOKENS} keys. The dark cells are products of a "
        f"query and a key ({', '.join(counts)}); the light ones are read from the memory.",
    )


def _found(d_k, pairs, trials=TRIALS):
    """The share of values that are found, one-hot values under random keys of length 1."""
    torch.manual_seed(1)
    keys = F.normalize(torch.randn(pairs, trials, 1, d_k), dim=-1)
    answers = torch.randint(VALUES, (pairs, trials))
    values = F.one_hot(answers, VALUES)[:, :, None].float()
    _, memory = linear_attention_table(keys, keys, values, torch.zeros(trials, 1, d_k, VALUES))
    read = torch.einsum("sbhd,bhde->sbhe", keys, memory)[:, :, 0]
    return (read.argmax(-1) == answers).float().mean().item()


def capacity():
    """The share of values that are found, by the number of pairs and the size of a key."""
    curves = {d_k: [100 * _found(d_k, pairs) for pairs in PAIRS] for d_k in SIZES}
    plot = Plot((0, PAIRS[-1]), (0, 100), height=140, x_label="pairs", y_label="% found")
    for tone, (d_k, shares) in enumerate(curves.items()):
        plot.line(PAIRS, shares, tone, label=str(d_k))
        plot.dots(PAIRS, shares, tone)
    rows = [[str(d_k), *(f"{share:.0f}" for share in shares)] for d_k, shares in curves.items()]
    told = ", ".join(f"{shares[-1]:.0f} % ({d_k})" for d_k, shares in curves.items())
    return Figure(
        [plot.panel()],
        "All curves begin at 100 % and fall as pairs are added, the later the longer the keys are. "
        f"With {PAIRS[-1]} pairs the shares are {told}.",
        Table(["numbers of a key", *(f"{pairs} pairs" for pairs in PAIRS)], rows),
    )
