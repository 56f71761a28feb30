r"""
---
title: Places, and what lies in them
summary: >
  To play a recording is to put tensors into its places and to look at others. What goes
  in, what has to be copied out, and the masks that are drawn before.
---

A [recording](recording.py) knows only its own **places**: tensors that were there when
it was made.

**In.** Whatever a function works on is copied into its places before it is played. For
$C = 128$ and four layers the weights are 3 MB.

**Out.** What it makes lies where the next replay will write over it. So it is copied
out at once. Two texts may be read before either is gone back through: each has its own
copies, and the way back puts them in again.

**Chance.** Random numbers that are drawn with a seed of Python's cannot be recorded. So
[masks of dropout](../by_hand/form.py) are drawn outside, and go in like all the rest.
They have to be there all at once, for all spans of a text, and those of attention are
as large as all attention weights: $H B L T^2 / 2$ numbers. Without dropout there are
none.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.form import (
    Drawn,
    Form,
    Masks,
    Span,
    draw,
)
from labml_nn.transformers.feedback.gpu.recording import Record

#: What goes into places. `None` is where there is nothing, and stays so.
Tensors = Sequence[Tensor | None]


class Tape:
    r"""
    ## A function and its places

    Whoever has to do with it [has the turn](recording.py#turn), and gradients off.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Tensor, ...]],
        tensors: Tensors,
        record: Record,
        device: torch.device,
    ) -> None:
        r"""
        * `function` gets as many tensors as there are in `tensors`, and of their shapes
        * `record` records it, on `device`

        Raises `RuntimeError` if it cannot be recorded.
        """
        self.places = [None if x is None else torch.empty_like(x) for x in tensors]
        self._fill(tensors)
        self.recording = record(lambda: function(*self.places), device)

    def _fill(self, tensors: Tensors) -> None:
        for place, tensor in zip(self.places, tensors, strict=True):
            if place is not None and tensor is not None:
                place.copy_(tensor)

    def play(self, tensors: Tensors) -> list[Tensor]:
        r"""
        The results for these tensors, as copies.
        """
        self._fill(tensors)
        self.recording.replay()
        return [result.clone() for result in self.recording.results]


def draw_all(
    form: Form, all_spans: Sequence[Span], like: Tensor, n_layers: int, d_ff: int
) -> list[Tensor | None]:
    r"""
    ## Masks, before

    * `like` is a tensor of the type and on the device that they shall have, `[T, B, C]`

    Returns those of all spans in a row.
    """
    if form.dropout is None:
        return []
    sizes = like, n_layers, like.shape[1], d_ff
    return [mask for span in all_spans for mask in draw(form, span, *sizes)]


def drawn(form: Form, all_spans: Sequence[Span], masks: Tensors) -> Form:
    r"""
    The form, but for its chance: what it draws are the `masks` that lie there.
    """
    if form.dropout is None:
        return form
    size = len(Masks._fields)
    rows = [Masks(*masks[i : i + size]) for i in range(0, len(masks), size)]
    by_start = {span.start: row for span, row in zip(all_spans, rows, strict=True)}
    return replace(form, dropout=Drawn(masks=by_start))


# ## Exercises
#
# **1.** Somebody saves two copies: what the way there has written stays in its place,
# and the way back finds it there. When does that go wrong?
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
# The weights go in twice, once each way, and their gradients come out. Outputs and rows
# come out, and go in again. But every step reads all the weights, each way.
#
# ```python
# from math import prod
#
# T, B, C, F, L = 128, 16, 128, 512, 4
# weights = L * (2 * C * C + 2 * C * F) + 2 * C * C
# text = prod((T, B, C))
# read = (L + 1 + 2) * text  # outputs, keys, values
# there, back = text + weights + read, text + 2 * text + read + weights + weights
# copied = there + back
# assert copied * 4 / 1e6 < 40  # MB
# assert 2 * T * weights > 15 * copied
# ```
#
# </details>
