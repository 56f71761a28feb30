r"""
---
title: Notes of the walk back
summary: >
  Where the steps of a feedback transformer write down whom they blame, and how a span
  is cut into the pieces that each layer of each step reads and writes.
---

[The walk back](backward.py) goes from step to step and from layer to layer. At each of
these places it reads what was [known](again.py) there, and writes down what is to
blame. It writes into a few large tensors, because [the products](products.py) at the
end of a span want everything side by side.

So each tensor is cut into $n \cdot L$ pieces, one for each place, before the walk
begins. [A view costs as much as an operation](desk.py). To have all of them at once
costs a third of that: PyTorch is called once, and not $n \cdot L$ times.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $\delta_{x^l}$, $\delta_z$ | `x`, `z` | `[L, n, B, C]` | of layers, and attention |
| $\delta_q$ | `query` | `[L, n, B, C]` | of queries |
| $\delta_p$ | `up` | `[L, n, B, F]` | of what enters $f$ |
| $\delta_o$ | `found` | `[H·B, n·L, K]` | of what the heads found |
| $\delta_A$ | `scores` | `[H·B, n·L, S]` | of scores |
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.again import Known, Scratch
from labml_nn.transformers.feedback.by_hand.weights import Weights


class Notes(NamedTuple):
    r"""
    ## What the steps write down

    For the products at the end of a span, all that was blamed, side by side:

    * `x`, `z` are the outputs of layers and of their attention, `[L, n, B, C]`
    * `concluded`, `attended` are what the two branches of a layer add, `[L, n, B, C]`.
      If nothing is dropped, they are to blame for all of the sum that they are part of,
      and these are `x` and `z`
    * `query` is queries, `[L, n, B, C]`
    * `up` is what enters $f$, `[L, n, B, F]`, and `[L, n, B, 2·F]` with a gate
    * `found` is what heads found, `[H·B, n·L, K]`
    * `scores` is scores, `[H·B, n·L, S]`
    * `vector` is memory vectors, `[n, B, C]`
    * `row` is keys and values, `[n, B, 2·C]`
    """

    x: Tensor
    z: Tensor
    attended: Tensor
    concluded: Tensor
    query: Tensor
    up: Tensor
    found: Tensor
    scores: Tensor
    vector: Tensor
    row: Tensor

    @staticmethod
    def empty(known: Known, weights: Weights, scratch: Scratch) -> "Notes":
        """Space for the notes of a span."""
        shape = known.x.shape
        _, steps, batch, width = shape
        x, z = scratch("blame of x", *shape), scratch("blame of z", *shape)
        masks = known.masks
        return Notes(
            x=x,
            z=z,
            attended=z if masks.attended is None else scratch("attended", *shape),
            concluded=x if masks.concluded is None else scratch("concluded", *shape),
            query=scratch("query", *shape),
            up=scratch("up", *shape[:3], weights.up.shape[1]),
            found=known.what[1],
            scores=known.by[0],
            vector=scratch("vector", steps, batch, width),
            row=scratch("row", steps, batch, 2 * width),
        )


class Place(NamedTuple):
    r"""
    ## One layer at one step

    What is [known](again.py) there, and where its notes go. `query_by_head` and
    `found_rows` are notes in the shapes in which attention writes and reads them.
    """

    x: Tensor
    x_mean: Tensor
    x_rstd: Tensor
    z: Tensor
    z_mean: Tensor
    z_rstd: Tensor
    hidden: Tensor
    slopes: Tensor | None
    attended_kept: Tensor | None
    concluded_kept: Tensor | None
    of_x: Tensor
    of_z: Tensor
    attended: Tensor
    concluded: Tensor
    query: Tensor
    query_by_head: Tensor
    up: Tensor
    found: Tensor
    found_rows: Tensor
    attn: Tensor
    attn_kept: Tensor | None
    scores: Tensor

    @staticmethod
    def all(known: Known, notes: Notes) -> list["Place"]:
        r"""
        All places of a span, layer after layer. To cut a tensor into all of its pieces
        at once is quicker than to ask for each piece when it is needed, and there are
        $n \cdot L$ times 22 of them.
        """
        n_layers, steps, batch, _ = known.x.shape
        rows = len(notes.found)

        def pieces(x: Tensor | None) -> Sequence[Tensor | None]:
            if x is None:
                return [None] * (n_layers * steps)
            return x.flatten(0, 1).unbind()

        # These have the layers of a step side by side.
        def by_step(x: Tensor) -> list[Tensor]:
            found = x.unsqueeze(2).unbind(1)
            return [one for layer in range(n_layers) for one in found[layer::n_layers]]

        masks = known.masks
        of_x, of_z = pieces(notes.x), pieces(notes.z)
        found = by_step(notes.found)
        query_by_head = torch.unflatten(notes.query, -1, (rows // batch, -1))
        columns = (
            *(pieces(x) for x in (known.x, known.x_norm.mean, known.x_norm.rstd)),
            *(pieces(z) for z in (known.z, known.z_norm.mean, known.z_norm.rstd)),
            *(pieces(known.hidden), pieces(known.slopes)),
            *(pieces(masks.attended), pieces(masks.concluded)),
            *(of_x, of_z),
            of_z if notes.attended is notes.z else pieces(notes.attended),
            of_x if notes.concluded is notes.x else pieces(notes.concluded),
            pieces(notes.query),
            pieces(query_by_head.transpose(2, 3)),
            pieces(notes.up),
            [one.view(-1, batch, one.shape[-1]) for one in found],
            found,
            by_step(known.attn),
            pieces(None) if masks.attention is None else by_step(masks.attention),
            by_step(notes.scores),
        )
        return list(map(Place, *columns))
