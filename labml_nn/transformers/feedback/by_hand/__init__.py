r"""
---
title: A feedback transformer by hand
summary: >
  Backpropagation through time for a feedback transformer, derived by hand: what has to
  go step by step, and what is one large product.
paper: https://arxiv.org/abs/2002.09402
---
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback.by_hand.backward import run_backward
from labml_nn.transformers.feedback.by_hand.form import Dropout, Form
from labml_nn.transformers.feedback.by_hand.forward import Read, run_forward
from labml_nn.transformers.feedback.by_hand.weights import Weights, fold
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.feedback.memory import FeedbackMemory
from labml_nn.transformers.feedback.stack import PersistentStack

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.shared import FeedbackTransformerKV


def _results(read: Read, before: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    def new(rows: Tensor) -> Tensor:
        rows = torch.unflatten(rows[:, before:], 0, (heads, -1))
        return rows.permute(2, 1, 0, 3).clone()

    return read.outputs[:, -1].clone(), new(read.keys), new(read.values)


class _ByHand(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        form: Form,
        blank: Tensor | None,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        read = run_forward(x_seq, keys, values, blank, Weights(*weights), form)
        ctx.form, ctx.before = form, len(keys)
        ctx.save_for_backward(blank, *read, *weights)
        ctx.set_materialize_grads(False)
        return _results(read, len(keys), form.heads)

    @staticmethod
    def backward(
        ctx: Any,
        of_top: Tensor | None,
        of_keys: Tensor | None,
        of_values: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "gradients of gradients are not known to the feedback transformer by "
                "hand; set `backend = 'plain'` on the transformer"
            )
        blank, outputs, keys, values, *weights = ctx.saved_tensors
        if of_top is None:
            of_top = torch.zeros_like(outputs[:, 0])
        x_seq, keys, values, weights = run_backward(
            of_top,
            of_keys,
            of_values,
            Read(outputs, keys, values),
            ctx.before,
            blank,
            Weights(*weights),
            ctx.form,
        )
        return None, None, x_seq, keys, values, *weights


def form_of(model: "FeedbackTransformerKV") -> Form:
    r"""
    ## What the loop has to know of a model
    """
    layer = cast(FeedbackTransformerLayer, model.layers[0])
    network = layer.feed_forward
    drops = [
        module.p if module.training else 0.0
        for module in (layer.attn.dropout, layer.dropout, network.dropout)
    ]
    dropout = None
    if any(drops):
        attention, branch, hidden = drops
        dropout = Dropout(attention, branch, hidden, int(torch.randint(2**62, ())))
    return Form(
        heads=model.heads,
        eps=layer.norm_ff.eps,
        horizon=model.horizon,
        norm_memory=isinstance(model.norm_memory, nn.LayerNorm),
        activation=network.activation,
        is_gated=network.is_gated,
        dropout=dropout,
    )


def scan(
    model: "FeedbackTransformerKV", x_seq: Tensor, memory: FeedbackMemory
) -> tuple[Tensor, FeedbackMemory]:
    r"""
    ## Read on

    * `model` has nothing that [speaks against it](choice.py)
    * `x_seq` goes on where `memory` ends, `[T, B, C]`
    * `memory` has a row of each text

    Returns the outputs of the last layer, `[T, B, C]`, and the memory of everything
    read so far.
    """
    length, before = len(x_seq), len(memory)
    longest = before + length - 1
    if model.horizon is not None:
        longest = min(longest, model.horizon)
    old_keys, old_values = memory.keys.rows, memory.values.rows
    mask = memory.mask()
    dtype = torch.promote_types(x_seq.dtype, torch.float32)

    with torch.autocast(x_seq.device.type, enabled=False):
        weights = fold(model, longest, dtype)
        form = form_of(model)
        blank = None if mask is None else ~mask
        x, k, v = (part.to(dtype) for part in (x_seq, old_keys, old_values))
        if torch.is_grad_enabled():
            top, keys, values = _ByHand.apply(form, blank, x, k, v, *weights)  # type: ignore[no-untyped-call]
        else:
            read = run_forward(x, k, v, blank, weights, form)
            top, keys, values = _results(read, before, form.heads)

    def stack(old: Tensor, new: Tensor) -> PersistentStack:
        kept = len(old) + length
        if model.horizon is not None:
            kept = min(kept, model.horizon)
        rows = torch.cat(
            [old[max(0, len(old) + length - kept) :], new.to(old.dtype)[-kept:]]
        )
        return PersistentStack.of(rows)

    lengths = None if memory.lengths is None else memory.lengths + length
    memory = FeedbackMemory(
        stack(old_keys, keys), stack(old_values, values), memory.n_layers, lengths
    )
    return top.to(x_seq.dtype), memory
