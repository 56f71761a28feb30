r"""
---
title: One shape of text on tape
summary: >
  The two ways of a feedback transformer, recorded, with the places that they read from
  and write to, and the masks that are drawn before.
---

A [recording](recording.py) knows only its own **places**: tensors that were there when
it was made. So to play it is to fill some places, and to look at others.

**In.** The text, the rows of before and the folded weights are copied into their
places. For $C = 128$ and four layers the weights are 3 MB.

**Out.** What was read, $x_t^l$, $k_j$ and $v_j$ of all steps, lies where the next text
will write over it. Two texts may be read before either is gone back through. So what
somebody still needs has to be copied out, and for the way back it is put in again.

**Chance.** Random numbers that are drawn with a seed of Python's cannot be recorded. So
[masks of dropout](../by_hand/form.py) are drawn outside, into places of their own. They
have to be there all at once, for all spans of a text, and those of attention are as
large as all attention weights: $H B L T^2 / 2$ numbers. Without dropout there are none.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x_seq` | `[T, B, C]` | the text, embedded |
| $k_j$, $v_j$ | `keys`, `values` | `[S, B, H, K]` | rows of before |
| $g_t$ | `of_top` | `[T, B, C]` | the gradient of outputs |
| $\delta_k$, $\delta_v$ | `of_keys`, `of_values` | `[T, B, H, K]` | those of new rows |
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.form import Drawn, Form, draw, spans
from labml_nn.transformers.feedback.by_hand.forward import Read, run_forward
from labml_nn.transformers.feedback.by_hand.products import run_backward
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu.recording import Record


class Given(NamedTuple):
    r"""
    ## What goes in

    That of [`run_forward`](../by_hand/forward.py); `blank` is `None` where every text
    has all rows of before.
    """

    x_seq: Tensor
    keys: Tensor
    values: Tensor
    blank: Tensor | None
    weights: Weights

    def tensors(self) -> list[Tensor | None]:
        """All of them, in a row."""
        return [self.x_seq, self.keys, self.values, self.blank, *self.weights]

    @staticmethod
    def of(tensors: Iterable[Tensor | None]) -> "Given":
        """And back."""
        x_seq, keys, values, blank, *weights = tensors
        assert x_seq is not None and keys is not None and values is not None
        return Given(x_seq, keys, values, blank, Weights(*weights))  # type: ignore[arg-type]


def fill(places: Iterable[Tensor | None], tensors: Iterable[Tensor | None]) -> None:
    r"""
    ## Into their places

    A gradient that nobody asked for, `None`, is zero in a place that is there.
    """
    for place, tensor in zip(places, tensors, strict=True):
        if place is not None and tensor is not None:
            place.copy_(tensor)
        elif place is not None:
            place.zero_()


class Tape:
    r"""
    ## A shape, recorded

    Whoever calls its methods [has the turn](recording.py#turn), and gradients off.
    """

    def __init__(
        self, form: Form, given: Given, record: Record, *, backwards: bool
    ) -> None:
        r"""
        * `form`, `given` are of the shape that is recorded
        * `record` records
        * `backwards` is whether there will be a way back

        Raises `RuntimeError` if it cannot be recorded.
        """
        self.given = Given.of(
            None if tensor is None else torch.empty_like(tensor).copy_(tensor)
            for tensor in given.tensors()
        )
        self.before, device = len(given.keys), given.x_seq.device
        length = len(given.x_seq)
        self.spans = list(spans(length, self.before, form.horizon))
        self.masks = [draw(form, span, *self._sizes()) for span in self.spans]
        self.form = form
        if form.dropout is not None:
            starts = (span.start for span in self.spans)
            drawn = Drawn(masks=dict(zip(starts, self.masks, strict=True)))
            self.form = replace(form, dropout=drawn)

        self.there = record(self._forward, device)
        if backwards:
            new = (length, *given.keys.shape[1:])
            of_top = torch.zeros_like(given.x_seq)
            of_keys, of_values = (x.new_zeros(new) for x in (given.keys, given.values))
            self.gradients = of_top, of_keys, of_values
            self.back = record(self._backward, device)

    def _sizes(self) -> tuple[Tensor, int, int, int]:
        x, weights = self.given.x_seq, self.given.weights
        return x, len(weights.query), x.shape[1], weights.down.shape[1]

    # ### What is recorded
    #
    # Two functions without arguments. The way back reads what the way there has
    # written, in the same places.
    def _forward(self) -> tuple[Tensor, ...]:
        given = self.given
        return run_forward(
            *(given.x_seq, given.keys, given.values, given.blank, given.weights),
            self.form,
        )

    def _backward(self) -> tuple[Tensor, ...]:
        total = run_backward(
            *self.gradients,
            Read(*self.there.results),
            self.before,
            self.given.blank,
            self.given.weights,
            self.form,
        )
        old = (self._old(rows) for rows in (total.keys, total.values))
        return total.x_seq, *old, *total.weights

    def _old(self, rows: Tensor) -> Tensor:
        rows = torch.unflatten(rows[:, : self.before], 0, (self.form.heads, -1))
        return rows.permute(2, 1, 0, 3)

    def _draw(self, form: Form) -> None:
        if form.dropout is None:
            return
        for span, masks in zip(self.spans, self.masks, strict=True):
            fill(masks, draw(form, span, *self._sizes()))

    def forward(self, form: Form, given: Given) -> Read:
        r"""
        ### There

        * `form` says how dropout begins

        Returns what was read, in its place.
        """
        fill(self.given.tensors(), given.tensors())
        self._draw(form)
        self.there.replay()
        return Read(*self.there.results)

    def backward(
        self,
        form: Form,
        gradients: Iterable[Tensor | None],
        read: Read,
        blank: Tensor | None,
        weights: Iterable[Tensor],
    ) -> list[Tensor]:
        r"""
        ### And back

        * `gradients` are $g$, $\delta_k$ and $\delta_v$
        * `read` is a copy of what `forward` returned

        Returns the gradients of the text, of the rows of before and of the weights.
        """
        fill([self.given.blank, *self.given.weights], [blank, *weights])
        self._draw(form)
        fill(self.there.results, read)
        fill(self.gradients, gradients)
        self.back.replay()
        return [result.clone() for result in self.back.results]


# ## Exercises
#
# **1.** Somebody leaves out one copy: what the way there has written stays in its
# place, and the way back finds it there. When does that go wrong?
#
# <details><summary>Answer</summary>
#
# When a second text is read before the first is gone back through. Its numbers then
# stand where those of the first were, and the gradients of the first are made of them.
#
# ```python
# import torch
#
# class Square(torch.autograd.Function):
#     place = torch.zeros(1)
#
#     @staticmethod
#     def forward(ctx, x):
#         Square.place.copy_(x)
#         return Square.place.square()
#
#     @staticmethod
#     def backward(ctx, gradient):
#         return 2 * Square.place * gradient
#
# x = torch.tensor([3.0], requires_grad=True)
# Square.apply(x).backward()
# assert x.grad == 6
#
# x.grad = None
# first, second = Square.apply(x), Square.apply(x.detach() + 1)
# first.backward()
# assert x.grad == 8  # of the other text
# ```
#
# </details>
#
# **2.** What do places cost? Count what is copied for a training step of 128 steps of
# 16 texts, $C = 128$, $F = 512$, $L = 4$, and compare it with the weights that the
# products read.
#
# <details><summary>Answer</summary>
#
# The weights go in twice, once each way. Outputs and rows come out, are kept, and go in
# again. But every step reads all the weights, each way.
#
# ```python
# from math import prod
#
# T, B, C, F, L = 128, 16, 128, 512, 4
# weights = L * (2 * C * C + 2 * C * F) + 2 * C * C
# read = prod((T, L + 1, B, C)) + 2 * prod((T, B, C))
# copied = 2 * (weights + T * B * C) + 3 * read
# assert copied * 4 / 1e6 < 30  # MB
# assert 2 * T * weights > 20 * copied
# ```
#
# </details>
