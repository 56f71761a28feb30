r"""
---
title: A span of steps once more
summary: >
  On the way back a feedback transformer needs what it had in hand on the way there. It
  computes it again, all steps side by side, because now nothing has to wait.
---

On the way there, step $t$ had to wait for $m_{t-1}$. On the way *back* everything has
been there before: the outputs $x_t^l$ of all layers, and all keys and values. Given
these, no step depends on another any more. Queries, weights, hidden features of many
steps, and of all layers at once, are a few large products, just as in an ordinary
transformer.

So nothing else is kept. For each step and layer the loop makes a query, weights over
all rows, what they found, and hidden features: with $F = 4C$ and $S$ rows
$8C + H S$ numbers and more. The output, $C$ numbers, is all that is written down.
The rest is worked out anew for a span of steps, used, and forgotten. The trick is known
as checkpointing ([@chen2016training]), and costs a second forward pass. Here the second
pass is the cheap one, for it is not a loop.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x^{l-1}$ | `x` | `[L, n, B, C]` | inputs of all layers, at $n$ steps |
| $\hat{x}$, $\hat{z}$ | `x_norm`, `z_norm` | `[L, n, B, C]` | normalised |
| $q$ | `what[0]` | `[H·B, n·L, K]` | queries, for each head and text |
| $a$ | `attn` | `[H·B, n·L, S]` | weights |
| $o$ | `found` | `[L, n, B, C]` | what was found |
| $z$ | `z` | `[L, n, B, C]` | what attention left |
| $h$ | `hidden` | `[L, n, B, F]` | hidden features |
| $f'$ | `slopes` | `[L, n, B, 1, F]` | slopes of the hidden features |
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.transformers.feedback.by_hand.form import Form, Masks, Span, draw
from labml_nn.transformers.feedback.by_hand.forward import Read, bend
from labml_nn.transformers.feedback.by_hand.weights import Weights


class Scratch:
    r"""
    ## Paper to scribble on

    Every span needs the same large tensors. Memory that is asked for anew has to be
    found, and cleared, by the operating system; for these it took longer than the
    products. So each is asked for once, by name, and the next span writes over it.
    """

    def __init__(self, like: Tensor) -> None:
        """Tensors of the type and on the device of `like`."""
        self.like = like
        self.space: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Space of this shape. What it holds is what was left there."""
        size = math.prod(shape)
        space = self.space.get(name)
        if space is None or space.numel() < size:
            space = self.space[name] = self.like.new_empty(size)
        return space[:size].view(shape)


class Norm(NamedTuple):
    r"""
    ## Normalised vectors

    * `vectors` is $\hat{x}$
    * `mean`, `rstd` are $\mu$ and $1 / \sigma$, which its derivative needs
    """

    vectors: Tensor
    mean: Tensor
    rstd: Tensor

    @staticmethod
    def of(x: Tensor, form: Form) -> "Norm":
        """Normalise the vectors of `x`."""
        return Norm(*torch.native_layer_norm(x, x.shape[-1:], None, None, form.eps))


@dataclass(frozen=True)
class Known:
    r"""
    ## What is known of a span

    The table above, and

    * `placed_query` is $q$ as distances want it, `[L·H, n·B, K]`
    * `slopes` is `None` for the ReLU, whose slope can be read off $h$
    * `by` has room for blame of scores, and behind it $a$ after dropout,
      `[2, H·B, n·L, S]`; `what` has $q$, and behind it room for blame of $o$,
      `[2, H·B, n·L, K]`: the [factors](backward.py#Walk.blame) of blame of rows
    * `masks` are those of the way there
    """

    x: Tensor
    x_norm: Norm
    placed_query: Tensor
    attn: Tensor
    by: Tensor
    what: Tensor
    found: Tensor
    z: Tensor
    z_norm: Norm
    hidden: Tensor
    slopes: Tensor | None
    masks: Masks

    @property
    def query(self) -> Tensor:
        """Queries, for each head and text, `[H·B, n·L, K]`."""
        return self.what[0]

    @property
    def kept_attn(self) -> Tensor:
        """What dropout left of weights, `[H·B, n·L, S]`."""
        return self.by[1]


def linear(
    x: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None
) -> Tensor:
    r"""
    Layer by layer $x W^\top + b$, of `[L, n, B, C]` with `[L, F, C]`.
    """
    rows, columns = x.flatten(1, 2), weight.transpose(1, 2)
    out = torch.baddbmm(bias.unsqueeze(1), rows, columns, out=out)
    return torch.unflatten(out, 1, x.shape[1:3])


def by_row(by_distance: Tensor, rows: int) -> Tensor:
    r"""
    ## From distances to rows

    The score of a distance is needed at the row that lies so far back, and for each
    step that is another one. With three steps, which see 2, 3 and 4 rows:

    ```text
     by distance              by row
     4  3  2  1               row 0  row 1  row 2  row 3
     ·  ·  b  a       ──►       b      a      ·      ·
     ·  f  e  d                 f      e      d      ·
     k  j  i  h                 k      j      i      h
    ```

    Each line has to move to the left, by one place less than the line above it. No
    number need be touched for that: a tensor is a list of numbers and a rule how far
    apart lines are in it. Say that they are one number closer than they are, and each
    line begins one number earlier than the line before it would have it.

    * `by_distance` is `[L, H, n, B, rows + n - 1]`: distances `rows`, …, 1, and $n - 1$
      places that the moved lines reach into

    Returns the same numbers as `[H, B, n, L, rows]`; what lies in the future of a step
    is not for use.
    """
    n_layers, heads, steps, batch, _ = by_distance.shape
    layer, head, step, text, one = by_distance.stride()
    return by_distance.as_strided(
        (heads, batch, steps, n_layers, rows),
        (head, text, step - one, layer, one),
        steps - 1,
    )


def distances(weights: Weights, rows: int) -> tuple[Tensor, Tensor]:
    r"""
    ## As many distances as a span has rows

    The last steps of a span see rows that are too far for the first ones. Where the
    window is shorter than that, zeros stand for distances that no step sees.

    Returns `[L·H, rows, K]` and `[L·H, rows]`.
    """
    missing = max(0, rows - weights.distance.shape[2])
    table = F.pad(weights.distance, (0, 0, missing, 0))[:, :, -rows:]
    bias = F.pad(weights.distance_bias, (missing, 0))[:, :, -rows:]
    return table.flatten(0, 1), bias.flatten(0, 1)


def weigh(
    query: Tensor,
    placed_query: Tensor,
    keys: Tensor,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
    span: Span,
    scratch: Scratch,
    out: tuple[Tensor, Tensor],
) -> Tensor:
    r"""
    ## Attention weights of a span

    All queries of a text meet all rows, one product per head and text, and all
    distances, one per layer and head. Rows that a step did not see, because they were
    too old or not there yet, get none of the weight.

    * `out` is space for scores and for weights

    Returns $a$, `[H, B, n, L, rows]`.
    """
    n_layers, steps, rows = len(weights.query), span.steps, span.rows
    shape = (form.heads, len(query) // form.heads, steps, n_layers, rows)
    table, bias = distances(weights, rows)
    places = rows + steps - 1
    by_distance = scratch("distance", *placed_query.shape[:2], places)
    torch.baddbmm(
        bias.unsqueeze(1),
        placed_query,
        table.transpose(1, 2),
        out=by_distance[..., :rows],
    )
    by_distance = by_distance.view(n_layers, form.heads, steps, -1, places)

    scores = torch.bmm(query, keys.transpose(1, 2), out=out[0]).view(shape)
    scores += by_row(by_distance, rows)
    # Without a horizon, all steps see the rows of before.
    first = span.old if form.horizon is None else 0
    distance = span.distances(scores.device)[:, first:]
    unseen = distance < 1
    if form.horizon is not None:
        unseen |= distance > form.horizon
    scores[..., first:].masked_fill_(unseen.unsqueeze(1), -math.inf)
    if blank is not None and span.low < span.before:
        oldest = blank[span.low :].T[:, None, None]
        scores[..., : oldest.shape[-1]].masked_fill_(oldest, -math.inf)
    return torch.softmax(scores, -1, out=out[1].view(shape))


def slopes_of(up: Tensor, form: Form) -> tuple[Tensor, Tensor | None]:
    r"""
    ## Hidden features and their slopes

    * `up` is $W_1 \hat{z} + b_1$, and the gate behind it; it may be written over

    Returns $h$, and how much it changes with each number of `up`: a tensor like $h$,
    with one more axis for the feature and its gate.

    Of the ReLU, $h$ itself tells: it is never negative, and the slope is its sign. So
    there is nothing to be returned. For the others we ask autograd: a feature depends
    on its own number, and its gate, alone, so the gradient of the sum of all features
    is the slope of each.
    """
    if type(form.activation) is nn.ReLU and not form.is_gated:
        return up.relu_(), None
    with torch.enable_grad():
        leaf = up.detach().requires_grad_()
        hidden = bend(form, leaf)
        (slopes,) = torch.autograd.grad(hidden.sum(), leaf)
    return hidden.detach(), torch.unflatten(slopes, -1, (1 + form.is_gated, -1))


def recompute(
    span: Span,
    read: Read,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
    scratch: Scratch,
) -> Known:
    r"""
    ## Once more, without waiting

    * `read` is what the loop wrote down
    * `blank` marks rows that are none of a text's own, as in the loop

    Returns what the loop had in hand at the steps of `span`.
    """
    x = read.outputs[span.start : span.stop, :-1].transpose(0, 1).contiguous()
    n_layers, steps, batch, _ = x.shape
    heads, rows = form.heads, slice(span.low, span.low + span.rows)
    masks = draw(form, span, x, n_layers, batch, weights.down.shape[1])

    # Queries, in the two orders that are needed.
    x_norm = Norm.of(x, form)
    query = linear(x_norm.vectors, weights.query, weights.query_bias)
    query = torch.unflatten(query, -1, (heads, -1))
    placed_query = query.permute(0, 3, 1, 2, 4).reshape(
        n_layers * heads, steps * batch, -1
    )
    query = query.permute(3, 2, 1, 0, 4)
    sizes = (2, heads * batch, steps * n_layers)
    by = scratch("by", *sizes, span.rows)
    what = scratch("what", *sizes, query.shape[-1])
    what[0].view(query.shape).copy_(query)

    # Weights, and what they find.
    attn = by[1] if masks.attention is None else scratch("attn", *by.shape[1:])
    keys, values, space = read.keys[:, rows], read.values[:, rows], (by[0], attn)
    weigh(what[0], placed_query, keys, blank, weights, form, span, scratch, space)
    if masks.attention is not None:
        torch.mul(attn, masks.attention, out=by[1])
    found = torch.bmm(by[1], values)
    found = found.view(heads, batch, steps, n_layers, -1)
    found = found.permute(3, 2, 1, 0, 4).reshape(x.shape)
    added = linear(found, weights.output, weights.output_bias)
    z = x + (added if masks.attended is None else added.mul_(masks.attended))

    # Hidden features. A feature that was dropped has no slope either.
    z_norm = Norm.of(z, form)
    out = scratch("hidden", n_layers, steps * batch, weights.up.shape[1])
    up = linear(z_norm.vectors, weights.up, weights.up_bias, out)
    hidden, slopes = slopes_of(up, form)
    if masks.hidden is not None:
        if slopes is None:
            slopes = hidden.sign().unsqueeze(-2)
        hidden, slopes = hidden * masks.hidden, slopes * masks.hidden.unsqueeze(-2)
    return Known(
        x,
        x_norm,
        placed_query,
        attn,
        by,
        what,
        found,
        z,
        z_norm,
        hidden,
        slopes,
        masks,
    )
