"""Attention weights of heads whose projections were set by hand."""

import torch

from labml_nn import kernels
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.utils import subsequent_mask
from pylit.figures.draw import Figure, Table, heat_map

SIZE, LENGTH = 32, 12
#: How far back each head looks, and how sharply all do.
BACK = (0, 1, 4)
SHARP = 12.0


def by_hand():
    """Heads that attend a number of positions back, by rotating the positional encoding."""
    attention = MultiHeadAttention(len(BACK), SIZE, 0.0, bias=False, d_k=SIZE, d_v=SIZE)
    with torch.no_grad(), kernels.disabled():
        attention.key.linear.weight.copy_(torch.eye(SIZE).repeat(len(BACK), 1))
        attention.query.linear.weight.copy_(SHARP * torch.cat([_turn(back) for back in BACK]))
        x = get_positional_encoding(SIZE, LENGTH)
        attention(query=x, key=x, value=x, mask=subsequent_mask(LENGTH))
    weights = attention.attn[:, :, 0]
    names = [f"{back} back" for back in BACK]
    labels = [str(t) for t in range(LENGTH)]
    panels = [
        heat_map(
            weights[:, :, head].tolist(),
            title=f"head {head + 1}: {name}",
            down="query",
            across="key",
            rows=labels,
            columns=labels,
            cell=14.0,
            most=1.0,
            width=14.0 * LENGTH + 26,
        )
        for head, name in enumerate(names)
    ]
    last = weights[-1]
    rows = [
        [name, *(f"{last[LENGTH - 1 - back, head].item():.2f}" for back in range(6))]
        for head, name in enumerate(names)
    ]
    found = [f"{last[LENGTH - 1 - back, head].item():.2f}" for head, back in enumerate(BACK)]
    return Figure(
        panels,
        "Three tables of 12 queries by 12 keys. Weights lie on the diagonal in head 1, one place "
        f"to its left in head 2, and four places in head 3. The last query gives these keys the "
        f"weights {', '.join(found)}.",
        Table(
            ["head", "itself", *(f"{back} back" for back in range(1, 6))],
            rows,
            title="The weights of the last query",
        ),
    )


def _turn(back):
    """The matrix that makes of an encoding the one of a position so many places before."""
    angles = -back * 10000 ** (-torch.arange(0, SIZE, 2) / SIZE)
    blocks = [torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angles]
    return torch.block_diag(*blocks)
