r"""
---
title: A feedback transformer in graphs
summary: >
  The loop by hand, recorded once for each shape of a text, and played from then on with
  one launch for each way.
---

The [loop by hand](../by_hand/index.html) launches the same kernels at every text of
the same shape, thousands of them. Here each of its two ways is
[recorded](recording.py), and then played. None of it is written anew: what is recorded
are [`run_forward`](../by_hand/forward.py) and
[`run_backward`](../by_hand/products.py).

What is new is bookkeeping: [a tape](tape.py) has places, into which a text has to be
copied, and out of which its results have to be.

**Once is not enough.** To record takes longer than to run. Who writes a text, or ends
an epoch with a shorter batch, has shapes that never come again. So the first time a
shape runs by hand, and the second time it is recorded. The last eight are kept.

> [!NOTE]
> No GPU was at hand where this was written. Tests play it on a processor, with a
> recording that calls the function again on the same places, and those that need a GPU
> wait for one.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import Read, results_of
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu import recording
from labml_nn.transformers.feedback.gpu.recording import turn
from labml_nn.transformers.feedback.gpu.tape import Given, Tape


class CannotRecord(Exception):
    r"""
    ## Why there is no recording

    Its text is what the one line says.
    """


class Tapes:
    r"""
    ## The shelf

    * `most` is how many tapes there are at most. The one that was not used for the
      longest time has to go
    """

    def __init__(self, most: int = 8) -> None:
        """Nothing is on it."""
        self.most = most
        self.tapes: OrderedDict[Hashable, Tape] = OrderedDict()
        # Shapes that were met, and what was in the way of recording them.
        self.met: OrderedDict[Hashable, str | None] = OrderedDict()

    def find(self, key: Hashable, make: Callable[[], Tape]) -> Tape | None:
        r"""
        * `key` is the shape
        * `make` records it

        Returns the tape, or `None` where a shape comes for the first time. Raises
        `CannotRecord` where that was tried in vain.
        """
        if key in self.tapes:
            self.tapes.move_to_end(key)
            return self.tapes[key]
        if key not in self.met:
            self.met[key] = None
            while len(self.met) > 16 * self.most:
                self.met.popitem(last=False)
            return None
        reason = self.met[key]
        if reason is None:
            try:
                tape = make()
            except RuntimeError as error:
                reason = self.met[key] = str(error).partition("\n")[0]
            else:
                return self._keep(key, tape)
        raise CannotRecord(f"it could not be recorded: {reason}")

    # A tape that is thrown away may still be played by the device.
    def _keep(self, key: Hashable, tape: Tape) -> Tape:
        if len(self.tapes) == self.most:
            if tape.given.x_seq.is_cuda:
                torch.cuda.synchronize(tape.given.x_seq.device)
            self.tapes.popitem(last=False)
        self.tapes[key] = tape
        return tape


TAPES = Tapes()


def forget() -> None:
    r"""
    ## Give all memory back

    What is recorded stays on the device until the program ends. Who needs the room
    clears the shelf; what is still needed is recorded anew.
    """
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    TAPES.tapes.clear()
    TAPES.met.clear()


def key_of(form: Form, given: Given, *, backwards: bool) -> Hashable:
    r"""
    ## What makes a recording another

    Everything that Python decides by: sizes, choices, and how exactly PyTorch was told
    to multiply. Not the numbers, nor where chance begins. Networks are alike if their
    nonlinearities are called the same: copies of a model share a tape.
    """
    named = form.activation
    activation = (type(named), repr(named)) if isinstance(named, nn.Module) else named
    dropout = None if form.dropout is None else replace(form.dropout, seed=0)
    return (
        given.x_seq.device,
        backwards,
        *(None if x is None else (x.shape, x.dtype) for x in given.tensors()),
        *(form.heads, form.eps, form.horizon, form.norm_memory, form.is_gated),
        *(activation, dropout, forms.STEPS),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )


class _Played(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tape: Tape,
        form: Form,
        blank: Tensor | None,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        with turn(x_seq.device):
            given = Given(x_seq, keys, values, blank, Weights(*weights))
            read = tape.forward(form, given)
            results = results_of(read, len(keys), form.heads)
            kept = [part.clone() for part in read]
        ctx.tape, ctx.form = tape, form
        ctx.save_for_backward(blank, *kept, *weights)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "gradients of gradients are not known to the graphs of the feedback "
                "transformer; set `backend = 'plain'` on the transformer"
            )
        blank, outputs, keys, values, *weights = ctx.saved_tensors
        with turn(outputs.device):
            read = Read(outputs, keys, values)
            found = ctx.tape.backward(ctx.form, gradients, read, blank, weights)
        return None, None, None, *found


def unsuited(form: Form, x_seq: Tensor) -> str | None:
    r"""
    ## Where nothing can be recorded

    * `form` is that of the model
    * `x_seq` is what it shall read, in the type that it computes in

    Returns what is in the way, or `None`.
    """
    if recording.recorder(x_seq.device) is None:
        return f"it runs on a GPU, and the text is on {x_seq.device}"
    if x_seq.numel() == 0:
        return "there is nothing to read"
    if x_seq.is_cuda and torch.cuda.is_current_stream_capturing():
        return "somebody is recording already, and what by hand launches goes there"
    return None


def recur(
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor] | None:
    r"""
    ## The recurrence

    The arguments are those of the [loop by hand](../by_hand/forward.py). Returns the
    outputs of the last layer, `[T, B, C]`, and keys and values of the new rows, `[T, B,
    H, K]`; or `None` where the form by hand shall run, because the shape is new. Raises
    `CannotRecord` with the reason if it cannot be recorded.
    """
    given = Given(x_seq, keys, values, blank, weights)
    backwards, record = torch.is_grad_enabled(), recording.recorder(x_seq.device)
    assert record is not None
    # Places must be tensors that can be written to under any mode.
    with torch.inference_mode(False), torch.no_grad(), turn(x_seq.device):
        tape = TAPES.find(
            key_of(form, given, backwards=backwards),
            lambda: Tape(form, given, record, backwards=backwards),
        )
    if tape is None:
        return None
    if backwards:
        played: tuple[Tensor, Tensor, Tensor] = _Played.apply(  # type: ignore[no-untyped-call]
            tape, form, blank, x_seq, keys, values, *weights
        )
        return played
    with turn(x_seq.device):
        return results_of(tape.forward(form, given), len(keys), form.heads)


# ## Exercises
#
# **1.** Which of these calls run by hand, which record, and which play? Texts of 64,
# 64, 40, 64, 40 tokens.
#
# <details><summary>Answer</summary>
#
# The first of each length runs by hand, the second is recorded, and then played as all
# others are.
#
# ```python
# from labml_nn.transformers.feedback.gpu.graphs import Tapes
# from labml_nn.transformers.feedback.gpu.tape import Tape
#
# shelf, did = Tapes(), []
# for length in (64, 64, 40, 64, 40):
#     made = []
#     def record():
#         made.append("recorded")
#         return object.__new__(Tape)  # an empty one
#     tape = shelf.find(length, record)
#     did.append("by hand" if tape is None else (made or ["played"])[0])
# assert did == ["by hand", "recorded", "by hand", "played", "recorded"]
# ```
#
# </details>
