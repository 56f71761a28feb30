r"""
---
title: A feedback transformer, backwards
summary: >
  The gradients of a feedback transformer, equation by equation: what must go step by
  step, what may wait for the end of a span, and what needs no step at all.
---
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.again import (
    Known,
    Norm,
    Scratch,
    by_row,
    distances,
    recompute,
)
from labml_nn.transformers.feedback.by_hand.form import Form, Span, spans
from labml_nn.transformers.feedback.by_hand.forward import Read, by_heads, side_by_side
from labml_nn.transformers.feedback.by_hand.weights import Weights


def normalise_backward(
    gradient: Tensor, x: Tensor, mean: Tensor, rstd: Tensor
) -> Tensor:
    r"""
    ## Through a norm

    With $\hat{x} = (x - \mu) / \sigma$ and $\hat{\delta}$ for the gradient of
    $\hat{x}$,

    $$\delta_x = \frac{1}{\sigma} \left( \hat{\delta}
        - \operatorname{mean}(\hat{\delta})
        - \hat{x} \operatorname{mean}(\hat{\delta} \otimes \hat{x}) \right)$$

    What points along $\hat{x}$, or adds the same to all features, had no effect, and is
    taken out.
    """
    shape, only_x = x.shape[-1:], [True, False, False]
    whole = torch.ops.aten.native_layer_norm_backward(
        gradient, x, shape, mean, rstd, None, None, only_x
    )
    moved: Tensor = whole[0]
    return moved


class Blame(NamedTuple):
    r"""
    ## Gradients of a span

    What the steps have to write down for the products at the end:

    * `attended`, `concluded` are those of what the branches of a layer add,
      `[L, n, B, C]`
    * `query` is that of the queries, `[L, n, B, C]`
    * `up` is that of what enters $f$, `[L, n, B, 1 or 2, F]`
    * `found` is that of what heads found, `[H·B, n·L, K]`
    * `scores` is that of scores, `[H·B, n·L, rows]`
    * `vector` is that of memory vectors, `[n, B, C]`
    * `row` is that of keys and values, `[n, B, 2·C]`
    """

    attended: Tensor
    concluded: Tensor
    query: Tensor
    up: Tensor
    found: Tensor
    scores: Tensor
    vector: Tensor
    row: Tensor


def blank_blame(known: Known, scratch: Scratch) -> Blame:
    shape = known.x.shape
    _, steps, batch, width = shape
    return Blame(
        attended=scratch("attended", *shape),
        concluded=scratch("concluded", *shape),
        query=scratch("queries", *shape),
        up=scratch("bends", *known.slopes.shape),
        found=scratch("found", *known.query.shape),
        scores=scratch("scores", *known.attn.shape).zero_(),
        vector=scratch("vectors", steps, batch, width),
        row=scratch("rows", steps, batch, 2 * width),
    )


class Place(NamedTuple):
    r"""
    ## One step of one layer

    Views of what is [known](again.py) of it, and of where its gradients go. To cut all
    of them out of a span at once is quicker than to ask for each when it is needed.
    """

    x: Tensor
    x_mean: Tensor
    x_rstd: Tensor
    z: Tensor
    z_mean: Tensor
    z_rstd: Tensor
    slopes: Tensor
    attended: Tensor
    concluded: Tensor
    query: Tensor
    up: Tensor
    attended_kept: Tensor | None
    concluded_kept: Tensor | None


def places(known: Known, blame: Blame) -> list[Place]:
    r"""
    Those of step $t$ and layer $l$ are number $l \cdot n + t$.
    """
    parts = [
        known.x,
        known.x_norm.mean,
        known.x_norm.rstd,
        known.z,
        known.z_norm.mean,
        known.z_norm.rstd,
        known.slopes,
        blame.attended,
        blame.concluded,
        blame.query,
        blame.up,
    ]
    number = known.x.shape[0] * known.x.shape[1]
    lists = [list(part.flatten(0, 1).unbind()) for part in parts]
    kept: list[list[Tensor | None]] = [
        [None] * number if mask is None else list(mask.flatten(0, 1).unbind())
        for mask in (known.masks.attended, known.masks.concluded)
    ]
    return [Place(*views) for views in zip(*lists, *kept, strict=True)]


def conclude_backward(
    gradient: Tensor, place: Place, up: Tensor, down: Tensor
) -> Tensor:
    r"""
    ## Through the network
    """
    _store(place.concluded, gradient, place.concluded_kept)
    hidden = torch.mm(place.concluded, down.T)
    torch.mul(hidden.unsqueeze(1), place.slopes, out=place.up)
    moved = torch.mm(place.up.flatten(1), up)
    return gradient + normalise_backward(moved, place.z, place.z_mean, place.z_rstd)


def _store(space: Tensor, gradient: Tensor, kept: Tensor | None) -> None:
    if kept is None:
        space.copy_(gradient)
    else:
        torch.mul(gradient, kept, out=space)


class Looked(NamedTuple):
    keys: Tensor
    values: Tensor
    distance: tuple[Tensor, ...]


def attend_backward(
    gradient: Tensor,
    place: Place,
    query: Tensor,
    output: Tensor,
    looked: Looked,
    number: int,
    attn: Tensor,
    kept: Tensor | None,
    found: Tensor,
    scores: Tensor,
) -> Tensor:
    r"""
    ## Through attention
    """
    _store(place.attended, gradient, place.attended_kept)
    by_head = looked.distance[number].shape[0]
    heads_first = by_heads(torch.mm(place.attended, output), by_head)
    found.view(heads_first.shape).copy_(heads_first)
    weights = torch.bmm(found.unsqueeze(1), looked.values)
    if kept is not None:
        weights = weights * kept.unsqueeze(1)
    weights = torch._softmax_backward_data(weights, attn.unsqueeze(1), -1, attn.dtype)
    scores.copy_(weights.squeeze(1))
    asked = torch.bmm(weights, looked.keys).view(heads_first.shape)
    placed = weights.view(*heads_first.shape[:2], -1)
    asked = torch.baddbmm(asked, placed, looked.distance[number])
    torch.mul(side_by_side(asked), 1, out=place.query)
    moved = torch.mm(place.query, query)
    return gradient + normalise_backward(moved, place.x, place.x_mean, place.x_rstd)


@dataclass
class Sums:
    r"""
    ## What all steps have a say in

    * `keys`, `values` are gradients of all rows, `[H·B, before + T, K]`
    * `weights` are those of the weights
    * `x_seq` is that of the text, `[T, B, C]`
    """

    keys: Tensor
    values: Tensor
    weights: Weights
    x_seq: Tensor


def walk(
    span: Span,
    known: Known,
    blame: Blame,
    read: Read,
    gradients: Tensor,
    weights: Weights,
    form: Form,
    sums: Sums,
) -> None:
    r"""
    ## A span, from its last step to its first
    """
    n_layers, steps, _, _ = known.x.shape
    shares = weights.shares.tolist()
    queries, outputs, ups, downs = (
        m.unbind() for m in (weights.query, weights.output, weights.up, weights.down)
    )
    place = places(known, blame)
    table = torch.unflatten(distances(weights, span.rows)[0], 0, (n_layers, -1))
    low = span.low
    keys = read.keys[:, low : low + span.rows]
    values = read.values[:, low : low + span.rows].transpose(1, 2)
    attn = known.attn.unbind(1)
    kept = None if known.masks.attention is None else known.masks.attention.unbind(1)
    found, scores = blame.found.unbind(1), blame.scores.unbind(1)
    vectors = torch.einsum(
        "l,tlbc->tbc", weights.shares, read.outputs[span.start : span.stop]
    )
    norm = Norm.of(vectors, form)

    for step in reversed(range(steps)):
        t, end = span.start + step, span.old + step
        # What later steps say of the row that this one has written.
        own = blame.row[step]
        for part, rows in zip(own.chunk(2, -1), (sums.keys, sums.values), strict=True):
            heads_first = rows[:, span.before + t].view(form.heads, len(own), -1)
            part.copy_(side_by_side(heads_first))
        vector = torch.mm(own, weights.memory)
        if form.norm_memory:
            vector = normalise_backward(
                vector, vectors[step], norm.mean[step], norm.rstd[step]
            )
        blame.vector[step] = vector
        looked = Looked(
            keys[:, :end], values[..., :end], table[:, :, span.rows - end :].unbind()
        )

        y = torch.add(gradients[t], vector, alpha=shares[n_layers])
        for number in reversed(range(n_layers)):
            here, row = place[number * steps + step], step * n_layers + number
            y = conclude_backward(y, here, ups[number], downs[number])
            y = attend_backward(
                y,
                here,
                queries[number],
                outputs[number],
                looked,
                number,
                attn[row][:, :end],
                None if kept is None else kept[row][:, :end],
                found[row],
                scores[row][:, :end],
            )
            y = torch.add(y, vector, alpha=shares[number])
        sums.x_seq[t] = y

        # The rows of this span are next.
        now = slice(step * n_layers, (step + 1) * n_layers)
        mine = slice(span.old, end)
        newer = slice(span.before + span.start, span.before + t)
        spread(sums, newer, known, blame, now, mine)

    # The older rows can wait for the whole span.
    everything = slice(0, steps * n_layers)
    older = slice(low, span.before + span.start)
    spread(sums, older, known, blame, everything, slice(0, span.old))


def spread(
    sums: Sums, rows: slice, known: Known, blame: Blame, by: slice, columns: slice
) -> None:
    r"""
    ## Rows of memory
    """
    if rows.start == rows.stop:
        return
    for space, seen, what in (
        (sums.keys, blame.scores, known.query),
        (sums.values, known.kept_attn, blame.found),
    ):
        space[:, rows].baddbmm_(seen[:, by, columns].transpose(1, 2), what[:, by])


def gather(
    span: Span,
    known: Known,
    blame: Blame,
    read: Read,
    weights: Weights,
    form: Form,
    sums: Sums,
    scratch: Scratch,
) -> None:
    r"""
    ## Weights, all at once
    """
    total = sums.weights
    for weight, bias, gradient, x in (
        (total.query, total.query_bias, blame.query, known.x_norm.vectors),
        (total.output, total.output_bias, blame.attended, known.found),
        (total.up, total.up_bias, blame.up.flatten(3), known.z_norm.vectors),
    ):
        gradient = gradient.flatten(1, 2)
        weight.baddbmm_(gradient.transpose(1, 2), x.flatten(1, 2))
        bias.add_(gradient.sum(1))
    gradient = blame.concluded.flatten(1, 2)
    total.down.baddbmm_(known.hidden.flatten(1, 2).transpose(1, 2), gradient)
    total.down_bias.add_(gradient.sum(1))

    outputs = read.outputs[span.start : span.stop]
    vectors = torch.einsum("l,tlbc->tbc", weights.shares, outputs)
    if form.norm_memory:
        vectors = Norm.of(vectors, form).vectors
    rows = blame.row.flatten(0, 1)
    total.memory.addmm_(rows.T, vectors.flatten(0, 1))
    total.memory_bias.add_(rows.sum(0))
    total.shares.add_(torch.einsum("tlbc,tbc->l", outputs, blame.vector))

    n_layers, steps, batch, _ = known.x.shape
    space = scratch(
        "distance", n_layers, form.heads, steps, batch, span.rows + steps - 1
    ).zero_()
    by_row(space, span.rows).copy_(
        blame.scores.view(form.heads, batch, steps, n_layers, span.rows)
    )
    near = min(span.rows, weights.distance.shape[2])
    placed = space.view(n_layers * form.heads, steps * batch, -1)
    placed = placed[..., span.rows - near : span.rows]
    table = torch.bmm(placed.transpose(1, 2), known.placed_query)
    total.distance[:, :, -near:].add_(table.view(n_layers, form.heads, near, -1))
    total.distance_bias[:, :, -near:].add_(placed.sum(1).view(n_layers, -1, near))


def run_backward(
    gradients: Tensor,
    of_keys: Tensor | None,
    of_values: Tensor | None,
    read: Read,
    before: int,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> tuple[Tensor, Tensor, Tensor, Weights]:
    r"""
    ## All of it
    """
    length, _, batch, _ = read.outputs.shape
    sums = Sums(
        torch.zeros_like(read.keys),
        torch.zeros_like(read.values),
        Weights(*(torch.zeros_like(weight) for weight in weights)),
        torch.empty_like(read.outputs[:, 0]),
    )
    for space, given in ((sums.keys, of_keys), (sums.values, of_values)):
        if given is not None:
            space[:, before:] = given.permute(2, 1, 0, 3).flatten(0, 1)
    scratch = Scratch(read.outputs)
    for span in reversed(list(spans(length, before, form.horizon))):
        known = recompute(span, read, blank, weights, form, scratch)
        blame = blank_blame(known, scratch)
        walk(span, known, blame, read, gradients, weights, form, sums)
        gather(span, known, blame, read, weights, form, sums, scratch)

    def old(rows: Tensor) -> Tensor:
        return torch.unflatten(rows[:, :before], 0, (form.heads, batch)).permute(
            2, 1, 0, 3
        )

    return sums.x_seq, old(sums.keys), old(sums.values), sums.weights
