r"""
---
title: One operation for autograd
summary: >
  A way there and a way back, which somebody has worked out, as one step in the graph of
  autograd: for the loop by hand, and for whoever runs the same loop elsewhere.
---

PyTorch goes back through what it has recorded, one small operation after the other.
Where both ways are known, it need not: the whole recurrence is **one** operation, from
a text, the rows of before and the [folded parameters](weights.py) to outputs and new
rows.

There are several who know both ways: [by hand](index.html), as recorded
[graphs](../gpu/graphs.py), and as [programs](../gpu/kernel/index.html) of a GPU. They
keep the same things and return the same gradients. What differs are two functions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.backward import Total
from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import Read, results_of
from labml_nn.transformers.feedback.by_hand.weights import Weights


class Ways(NamedTuple):
    r"""
    ## Both ways

    * `name` is what errors call them
    * `there` and `back` have the arguments and results of
      [`run_forward`](forward.py#run_forward) and
      [`run_backward`](products.py#run_backward)
    """

    name: str
    there: Callable[..., Read]
    back: Callable[..., Total]


class _Operation(torch.autograd.Function):
    r"""
    ## As autograd sees it

    Nothing is kept in a module, so two forward passes may come before a backward pass,
    and a graph may be walked twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        ways: Ways,
        form: Form,
        blank: Tensor | None,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""
        Kept are outputs, keys and values, and what was multiplied with.
        """
        read = ways.there(x_seq, keys, values, blank, Weights(*weights), form)
        ctx.ways, ctx.form, ctx.before = ways, form, len(keys)
        ctx.save_for_backward(blank, *read, *weights)
        ctx.set_materialize_grads(False)
        return results_of(read, len(keys), form.heads)

    @staticmethod
    def backward(
        ctx: Any,
        of_top: Tensor | None,
        of_keys: Tensor | None,
        of_values: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        r"""
        A gradient that nobody asked for is `None`: mostly that of the rows.
        """
        # The walk back writes over its own tensors, and cannot be gone back through.
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"gradients of gradients are not known to {ctx.ways.name}; set "
                "`backend = 'plain'` on the transformer"
            )
        blank, outputs, keys, values, *weights = ctx.saved_tensors
        if of_top is None:
            of_top = torch.zeros_like(outputs[:, 0])
        total = ctx.ways.back(
            of_top,
            of_keys,
            of_values,
            Read(outputs, keys, values),
            ctx.before,
            blank,
            Weights(*weights),
            ctx.form,
        )

        # Of all rows, those of before: the others were made here.
        def old(rows: Tensor) -> Tensor:
            rows = torch.unflatten(rows[:, : ctx.before], 0, (ctx.form.heads, -1))
            return rows.permute(2, 1, 0, 3)

        older = old(total.keys), old(total.values)
        return None, None, None, total.x_seq, *older, *total.weights


def go(
    ways: Ways,
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    ## The recurrence

    * `ways` are both ways

    The others are those of the [loop by hand](forward.py). Returns the outputs of the
    last layer, `[T, B, C]`, and keys and values of the new rows, `[T, B, H, K]`.
    Without gradients nothing is kept.
    """
    if torch.is_grad_enabled():
        results: tuple[Tensor, Tensor, Tensor] = _Operation.apply(  # type: ignore[no-untyped-call]
            ways, form, blank, x_seq, keys, values, *weights
        )
        return results
    read = ways.there(x_seq, keys, values, blank, weights, form)
    return results_of(read, len(keys), form.heads)
