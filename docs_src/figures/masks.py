"""Figures of `labml_nn.transformers.utils`."""

import torch

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Encoder, TransformerLayer
from labml_nn.transformers.utils import combine_masks, padding_mask, subsequent_mask
from pylit.figures.draw import Figure, heat_map

SIZE, LENGTH = 6, 4
TOKENS = ("the", "dog", "sleeps", "here", "(pad)", "(pad)")


def three():
    """A causal mask, a padding mask, and both at once."""
    causal = subsequent_mask(SIZE)
    padding = padding_mask(torch.tensor([LENGTH]), SIZE)
    masks = {
        "causal": causal,
        "padding": padding.expand(SIZE, -1, -1),
        "both": combine_masks(causal, padding),
    }
    counts = [int(mask.sum()) for mask in masks.values()]
    return Figure(
        [_panel(name, mask[:, :, 0], rows=TOKENS) for name, mask in masks.items()],
        f"Three tables of {SIZE} queries by {SIZE} keys. The causal one is filled on and below "
        f"its diagonal, {counts[0]} squares; that for padding in the first {LENGTH} columns, "
        f"{counts[1]} squares; and both together where both are, {counts[2]} squares.",
    )


def windows():
    """Which positions reach a query, if each layer attends to three."""
    size, seen = 12, 3
    encoder = _encoder(layers=3)
    age = torch.arange(size)[:, None] - torch.arange(size)
    window = subsequent_mask(size)[:, :, 0] & (age < seen)
    x = torch.randn(size, 1, encoder.size, requires_grad=True)
    rows, panels, widths = x, [], []
    for number, layer in enumerate(encoder.layers, start=1):
        rows = layer(x=rows, mask=window[:, :, None])
        reached = _reached(rows, x)
        panels.append(_panel(f"{number} layer{'s' if number > 1 else ''}", reached, side=14.0))
        widths.append(int(reached[-1].sum()))
    return Figure(
        panels,
        f"Bands along the diagonal: {widths[0]} positions reach a query through one layer, "
        f"{widths[1]} through two and {widths[2]} through three.",
    )


def _encoder(layers):
    layer = TransformerLayer(
        d_model=8,
        self_attn=MultiHeadAttention(2, 8, 0.0),
        feed_forward=FeedForward(8, 8, 0.0),
        dropout_prob=0.0,
    )
    return Encoder(layer, layers)


def _reached(rows, x):
    """Which rows of `x` make a difference to which of `rows`: where a gradient arrives."""
    sent = torch.randn_like(rows)
    found = []
    for t in range(len(rows)):
        (gradient,) = torch.autograd.grad(rows[t], x, sent[t], retain_graph=True)
        found.append(gradient.abs().sum((1, 2)) > 0)
    return torch.stack(found)


def _panel(title, mask, side=22.0, rows=None):
    labels = [str(i) for i in range(len(mask))]
    return heat_map(
        mask.tolist(),
        title=title,
        down="query",
        across="key",
        rows=rows or labels,
        columns=labels,
        cell=side,
        frames=True,
        width=len(mask) * side + (60 if rows else 30),
    )
