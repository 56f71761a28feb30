r"""
---
title: The gradients of weights, as products
summary: >
  When a span of steps has been walked back, all that was blamed lies beside all that
  went in, and the gradient of each weight is one product of the two.
---

[The walk back](backward.py) has noted down, for each step of a span, what is to blame
for what. [What went in](again.py) is known. The gradients of all weights are
sums over steps and texts of one times the other, which is what a matrix product is:

$$\delta_W = \sum_{t, b} \delta_{y_{tb}} \, x_{tb}^\top, \qquad
\delta_b = \sum_{t, b} \delta_{y_{tb}}$$

Three are a little different. $W_2$ is kept the other way round. Distances are counted
from the step that looks, so scores go back from [rows to distances](again.py#by_row)
first. And the shares $w$ are single numbers, which multiply whole vectors:

$$\delta_{w_l} = \sum_t \delta_{m_t}^\top x_t^l$$
"""

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.again import (
    Known,
    Scratch,
    by_row,
    recompute,
)
from labml_nn.transformers.feedback.by_hand.backward import Total, Walk
from labml_nn.transformers.feedback.by_hand.form import Form, Span, spans
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.notes import Notes
from labml_nn.transformers.feedback.by_hand.weights import Weights


def add_linear(weight: Tensor, bias: Tensor, blame: Tensor, x: Tensor) -> None:
    r"""
    ## A linear map of each layer

    * `weight`, `bias` are sums so far, `[L, F, C]` and `[L, F]`
    * `blame` is $\delta_y$, `[L, n, B, F]`
    * `x` is what went in, `[L, n, B, C]`
    """
    blame = blame.flatten(1, 2)
    weight.baddbmm_(blame.transpose(1, 2), x.flatten(1, 2))
    bias.add_(blame.sum(1))


def add_down(weight: Tensor, bias: Tensor, blame: Tensor, x: Tensor) -> None:
    r"""
    And the map back down, whose matrix is `[L, F, C]` too: here $F$ goes in.
    """
    weight.baddbmm_(x.flatten(1, 2).transpose(1, 2), blame.flatten(1, 2))
    bias.add_(blame.sum((1, 2)))


def add_memory(sums: Weights, notes: Notes, outputs: Tensor, vectors: Tensor) -> None:
    r"""
    ## Shares, keys and values

    * `outputs` is $x_t^l$ of the span, `[n, L + 1, B, C]`
    * `vectors` is what was made of them, $\hat{m}_t$, or $m_t$ if it is not normalised,
      `[n, B, C]`
    """
    rows = notes.row.flatten(0, 1)
    sums.memory.addmm_(rows.T, vectors.flatten(0, 1))
    sums.memory_bias.add_(rows.sum(0))
    each = outputs.flatten(2), notes.vector.flatten(1).unsqueeze(2)
    sums.shares.add_(torch.bmm(*each).sum((0, 2)))


def add_distances(
    sums: Weights, notes: Notes, known: Known, span: Span, scratch: Scratch
) -> None:
    r"""
    ## Distances

    $$\delta_{E_d} = \sum_{t, b} \delta_{A_{t, S_t - d}} \, q_t, \qquad
    \delta_{b'_d} = \sum_{t, b} \delta_{A_{t, S_t - d}}$$
    """
    n_layers, heads, length, _ = sums.distance.shape
    _, steps, batch, _ = known.x.shape
    shape = (n_layers, heads, steps, batch, span.rows + steps - 1)
    by_distance = scratch("distance", *shape).zero_()
    scores = notes.scores.view(heads, batch, steps, n_layers, span.rows)
    by_row(by_distance, span.rows).copy_(scores)

    near = min(span.rows, length)
    blame = by_distance.view(n_layers * heads, steps * batch, -1)
    blame = blame[..., span.rows - near : span.rows]
    product = torch.bmm(blame.transpose(1, 2), known.placed_query)
    sums.distance[:, :, -near:].add_(product.view(n_layers, heads, near, -1))
    sums.distance_bias[:, :, -near:].add_(blame.sum(1).view(n_layers, heads, near))


def run_backward(
    gradients: Tensor,
    of_keys: Tensor | None,
    of_values: Tensor | None,
    read: Read,
    before: int,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
    walk: type[Walk] = Walk,
) -> Total:
    r"""
    ## All the way back

    * `gradients` is $g$, of the outputs of the last layer, `[T, B, C]`
    * `of_keys`, `of_values` are those of the rows that were written, `[T, B, H, K]`:
      somebody may have gone on from this memory
    * `read` is what the way there wrote down
    * `before` is how many rows were there before, and `blank` marks those of them that
      are none of a text's own
    * `walk` is who goes through the steps of a span

    Returns all gradients.
    """
    total = Total(
        torch.empty_like(read.outputs[:, 0]),
        torch.zeros_like(read.values),
        torch.zeros_like(read.values),
        Weights(*(torch.zeros_like(weight) for weight in weights)),
    )
    for rows, given in ((total.keys, of_keys), (total.values, of_values)):
        if given is not None:
            rows[:, before:] = given.permute(2, 1, 0, 3).flatten(0, 1)

    scratch = Scratch(read.outputs)
    for span in reversed(list(spans(len(read.outputs), before, form.horizon))):
        go_through(span, gradients, read, blank, weights, form, scratch, total, walk)
    return total


def go_through(
    span: Span,
    gradients: Tensor,
    read: Read,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
    scratch: Scratch,
    total: Total,
    kind: type[Walk] = Walk,
) -> None:
    r"""
    ## One span of it

    Once more, back, and the products. What was known of the span is forgotten when this
    function ends, and before the next span needs the place.
    """
    known = recompute(span, read, blank, weights, form, scratch)
    notes = Notes.empty(known, weights, scratch)
    walk = kind(span, read, known, notes, weights, form)
    walk.run(gradients, total)

    x, z, up = known.x_norm.vectors, known.z_norm.vectors, notes.up
    sums, outputs = total.weights, read.outputs[span.start : span.stop]
    add_linear(sums.query, sums.query_bias, notes.query, x)
    add_linear(sums.output, sums.output_bias, notes.attended, known.found)
    add_linear(sums.up, sums.up_bias, up, z)
    add_down(sums.down, sums.down_bias, notes.concluded, known.hidden)
    vectors = walk.norm.vectors if form.norm_memory else walk.vectors
    add_memory(sums, notes, outputs, vectors)
    add_distances(sums, notes, known, span, scratch)
