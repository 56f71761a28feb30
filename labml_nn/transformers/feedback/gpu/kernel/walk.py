r"""
---
title: The walk back, launched
summary: >
  A span of the way back, prepared and gathered in as by hand, with programs for the
  walk in the middle.
---

By hand, [the way back](../../by_hand/products.py) goes through a text in spans. Of each
it has [again what was known](../../by_hand/again.py), walks, and makes the gradients of
weights. All but the walk are large products, and PyTorch makes them as well on a GPU.
So this is [`Walk`](../../by_hand/backward.py) once more, with one launch in the place
of its loop.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.again import Known, Norm
from labml_nn.transformers.feedback.by_hand.backward import Total, Walk
from labml_nn.transformers.feedback.by_hand.form import Form, Span
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.notes import Notes
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu.kernel import backward, launch
from labml_nn.transformers.feedback.gpu.kernel.blocks import plan_of


class Totals(NamedTuple):
    r"""
    ## What all steps have a say in

    Of [`Total`](../../by_hand/backward.py), what the walk reads and writes: the
    gradients of the text, `[T, B, C]`, and of all rows, `[H·B, S, K]`. (Triton's tuples
    have a `values` of their own.)
    """

    x_seq: Tensor
    key: Tensor
    value: Tensor


class Launched(Walk):
    r"""
    ## The walk
    """

    def __init__(
        self,
        span: Span,
        read: Read,
        known: Known,
        notes: Notes,
        weights: Weights,
        form: Form,
    ) -> None:
        """What the steps of a span share."""
        self.span, self.known, self.notes = span, known, notes
        self.weights, self.form, self.read = weights, form, read
        outputs = read.outputs[span.start : span.stop]
        vectors = torch.einsum("l,tlbc->tbc", weights.shares, outputs)
        self.vectors = vectors.contiguous()
        self.norm = Norm.of(self.vectors, form)

    def run(self, gradients: Tensor, total: Total) -> None:
        r"""
        ### Step after step

        One launch. Then rows that are older than the span hear of all of its steps at
        once.
        """
        known, read, span = self.known, self.read, self.span
        weights, (layers, hidden, width) = self.weights, self.weights.down.shape
        facts = backward.Facts(
            x=known.x_norm.vectors,
            x_rstd=known.x_norm.rstd,
            z=known.z_norm.vectors,
            z_rstd=known.z_norm.rstd,
            slopes=known.hidden.sign() if known.slopes is None else known.slopes,
            query=known.query,
            attn=known.attn,
            kept=known.kept_attn,
            found=known.found,
            vector=self.norm.vectors,
            vector_rstd=self.norm.rstd,
            key=read.keys,
            value=read.values,
            gradients=gradients,
        )
        # The program notes down what heads found step after step.
        shape = (span.steps * layers, self.form.heads, gradients.shape[1], -1)
        found = torch.empty_like(self.notes.found).view(shape)
        maps = weights._replace(
            down=weights.down.mT, distance=weights.distance.transpose(1, 2)
        )
        launch.launch(
            backward.walk_back,
            gradients,
            backward.Facts(*(fact.contiguous() for fact in facts)),
            self.notes._replace(found=found),
            Totals(total.x_seq, total.keys, total.values),
            known.masks,
            Weights(*(weight.contiguous() for weight in maps)),
            launch.steps_of(span, read.keys.shape[1], weights),
            plan_of(self.form, layers, width, hidden, None),
        )

        self.notes.found.copy_(found.flatten(1, 2).transpose(0, 1))
        self.blame_older(total)
