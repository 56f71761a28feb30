r"""
---
title: A feedback transformer in graphs
summary: >
  The loop by hand, recorded once for each shape of a text, and played from then on with
  one launch for each way.
---

The [loop by hand](../by_hand/index.html) launches the same kernels at every text of
the same shape, thousands of them. Here each of its two ways is
[recorded](recording.py), and then played. None of it is written anew: this page has a
`run_forward` and a `run_backward` that are called like [those by
hand](../by_hand/forward.py) and give the same.

**Once is not enough.** To record takes longer than to run. Who writes a text, or ends
an epoch with a shorter batch, has shapes that never come again. So the first time a
shape runs by hand, and the second time it is recorded. The last sixteen are kept, two
for each shape that is trained with.

**What may go wrong** is no error. Where something cannot be recorded, one line says
why, and the form by hand runs: at every text, or for one of its two ways.

> [!NOTE]
> No GPU was at hand where this was written. Tests play it on a processor, with a
> recording that calls the function again on the same places, and those that need a GPU
> wait for one.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.by_hand import forward, products
from labml_nn.transformers.feedback.by_hand.backward import Total
from labml_nn.transformers.feedback.by_hand.form import Form, spans
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.operation import Ways, go
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu import recording
from labml_nn.transformers.feedback.gpu.tape import Tape, Tensors, draw_all, drawn


class Tapes:
    r"""
    ## The shelf

    * `most` is how many tapes there are at most. The one that was not used for the
      longest time has to go
    """

    def __init__(self, most: int = 16) -> None:
        """Nothing is on it."""
        self.most = most
        self.tapes: OrderedDict[Hashable, Tape] = OrderedDict()
        # Shapes that were met, and whether it was tried in vain to record them.
        self.met: OrderedDict[Hashable, bool] = OrderedDict()

    def find(self, key: Hashable, make: Callable[[], Tape]) -> Tape | None:
        r"""
        * `key` is what makes a tape another
        * `make` records it

        Returns the tape, or `None` where that is new, or was tried in vain.
        """
        if key in self.tapes:
            self.tapes.move_to_end(key)
            return self.tapes[key]
        if key not in self.met:
            self.met[key] = False
            while len(self.met) > 16 * self.most:
                self.met.popitem(last=False)
            return None
        if self.met[key]:
            return None
        try:
            tape = make()
        except RuntimeError as error:
            settle()
            self.met[key] = True
            why = str(error).partition("\n")[0]
            tell("graphs", f"something could not be recorded: {why}")
            return None
        return self._keep(key, tape)

    # A tape that is thrown away may still be played by the device.
    def _keep(self, key: Hashable, tape: Tape) -> Tape:
        if len(self.tapes) == self.most:
            settle()
            self.tapes.popitem(last=False)
        self.tapes[key] = tape
        return tape


TAPES = Tapes()


def settle() -> None:
    """Wait until nothing runs on any GPU."""
    for number in range(torch.cuda.device_count()):
        torch.cuda.synchronize(number)


def forget() -> None:
    r"""
    ## Give all memory back

    What is recorded stays on the device until the program ends. Who needs the room
    clears the shelf; what is still needed is recorded anew.
    """
    settle()
    TAPES.tapes.clear()
    TAPES.met.clear()


TOLD: set[tuple[str, str]] = set()


def tell(backend: str, reason: str) -> None:
    r"""
    ## One line

    Once: a training run of many steps hears it on the first.

    * `backend` is the form that was asked for
    * `reason` is what is in its way
    """
    if (backend, reason) not in TOLD:
        TOLD.add((backend, reason))
        warnings.warn(
            f"backend = {backend!r} of the feedback transformer is not used: {reason}. "
            "The form by hand runs, with the same results",
            RuntimeWarning,
            stacklevel=3,
        )


def key_of(way: str, form: Form, before: int, tensors: Tensors) -> Hashable:
    r"""
    ## What makes a recording another

    Everything that Python decides by: sizes, choices, and how exactly PyTorch was told
    to multiply. Not the numbers, nor where chance begins. Nonlinearities are alike if
    they are called the same: copies of a model share a tape.
    """
    named = form.activation
    activation = (type(named), repr(named)) if isinstance(named, nn.Module) else named
    dropout = None if form.dropout is None else replace(form.dropout, seed=0)
    return (
        *(way, before, forms.STEPS, activation, dropout),
        *(form.heads, form.eps, form.horizon, form.norm_memory, form.is_gated),
        *(None if x is None else (x.device, x.dtype, x.shape) for x in tensors),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )


def play(
    way: str,
    function: Callable[..., tuple[Tensor, ...]],
    tensors: list[Tensor | None],
    form: Form,
    before: int,
) -> list[Tensor] | None:
    r"""
    ## Play, and record before if need be

    * `way` is the name of the function
    * `function` is called with a form and `tensors`
    * `tensors` are what it works on: first one of `[T, B, C]`, last the weights
    * `before` is how many rows there were before

    Returns the results, or `None` if they have to be had by hand.
    """
    like, weights = tensors[0], Weights(*tensors[-len(Weights._fields) :])  # type: ignore[arg-type]
    assert like is not None
    device, number = like.device, len(tensors)
    record = recording.recorder(device)
    if record is None or recording.is_recording(device):
        return None
    all_spans = list(spans(len(like), before, form.horizon))

    def with_masks(*places: Any) -> tuple[Tensor, ...]:
        return function(drawn(form, all_spans, places[number:]), *places[:number])

    def to_play() -> list[Tensor | None]:
        n_layers, d_ff = weights.down.shape[:2]
        return [*tensors, *draw_all(form, all_spans, like, n_layers, d_ff)]

    # Places must be tensors that can be written to in any mode of PyTorch.
    with torch.inference_mode(False), torch.no_grad(), recording.turn(device):
        tape = TAPES.find(
            key_of(way, form, before, tensors),
            lambda: Tape(with_masks, to_play(), record, device),
        )
        return None if tape is None else tape.play(to_play())


def run_forward(
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> Read:
    r"""
    ## There

    Arguments and results are those of the [loop by hand](../by_hand/forward.py).
    """

    def way(form: Form, *tensors: Any) -> tuple[Tensor, ...]:
        x_seq, keys, values, blank, *weights = tensors
        given = x_seq, keys, values, blank, Weights(*weights), form
        return forward.run_forward(*given)

    tensors = [x_seq, keys, values, blank, *weights]
    found = play("there", way, tensors, form, len(keys))
    if found is None:
        return forward.run_forward(x_seq, keys, values, blank, weights, form)
    return Read(*found)


def run_backward(
    gradients: Tensor,
    of_keys: Tensor | None,
    of_values: Tensor | None,
    read: Read,
    before: int,
    blank: Tensor | None,
    weights: Weights,
    form: Form,
) -> Total:
    r"""
    ## And back

    Arguments and results are those of the [way back by hand](../by_hand/products.py).
    A gradient that nobody asked for is zeros here.
    """

    def way(form: Form, *tensors: Any) -> tuple[Tensor, ...]:
        of_top, of_keys, of_values, outputs, keys, values, blank, *weights = tensors
        read = Read(outputs, keys, values)
        given = read, before, blank, Weights(*weights), form
        total = products.run_backward(of_top, of_keys, of_values, *given)
        return total.x_seq, total.keys, total.values, *total.weights

    batch = len(read.keys) // form.heads
    rows = len(gradients), batch, form.heads, read.keys.shape[-1]
    of_rows = [
        gradients.new_zeros(rows) if given is None else given
        for given in (of_keys, of_values)
    ]
    found = play(
        "back", way, [gradients, *of_rows, *read, blank, *weights], form, before
    )
    if found is None:
        return products.run_backward(
            gradients, of_keys, of_values, read, before, blank, weights, form
        )
    of_text, of_all_keys, of_all_values, *of_weights = found
    return Total(of_text, of_all_keys, of_all_values, Weights(*of_weights))


PLAYED = Ways("the graphs of the feedback transformer", run_forward, run_backward)


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
    if recording.is_recording(x_seq.device):
        return "somebody is recording already, and what is launched by hand goes there"
    return None


def recur(
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    ## The recurrence

    All are those of the [loop by hand](../by_hand/forward.py). Returns the outputs of
    the last layer, `[T, B, C]`, and keys and values of the new rows, `[T, B, H, K]`.
    """
    return go(PLAYED, form, blank, x_seq, keys, values, weights)


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
