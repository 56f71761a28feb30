"""
---
title: LSTM and GRU kernels
summary: All steps of an LSTM or GRU layer in one call of PyTorch's own operations.
---

The [LSTM](../lstm/__init__.py) and the [GRU](../lstm/gru.py) are Python loops with
about ten small operations in each step. PyTorch has each recurrence as one operation,
which `torch.nn.LSTM` and `torch.nn.GRU` call. It computes $W x_t$ for all steps in one
product, and runs the loop in C++. For the LSTM, oneDNN does the rest of a step at once,
forward and backward. We call both operations with the weights of the lessons, whose
gates are in the same order.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$, $U$ | `weights` | `[nN, C]`, `[nN, N]` | those of a cell with $n$ sums, 4 or 3 |
| $h_0$, $c_0$ | `state` | `[L, B, N]` | the state before the first step |
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.kernels.elman import autocast_dtype
from labml_nn.lstm import LSTM, LSTMCell, LSTMState
from labml_nn.lstm.gru import GRU, GRUCell
from labml_nn.reference import Declined, kernel_for

# How many sums a cell computes, and the modules that it has, itself among them. With
# layer normalisation, which stands in place of identities, it computes something else.
CELLS: dict[type[nn.Module], tuple[int, list[type[nn.Module]]]] = {
    LSTM: (4, [LSTMCell, *[nn.Linear] * 2, nn.ModuleList, *[nn.Identity] * 5]),
    GRU: (3, [GRUCell, *[nn.Linear] * 2]),
}


def is_like(x: Any, shape: tuple[int, ...], like: Tensor) -> bool:
    """Whether it is a plain tensor of a shape, with the dtype and device of another."""
    return (
        type(x) in (Tensor, nn.Parameter)
        and (tuple(x.shape), x.dtype) == (shape, like.dtype)
        and (x.device, x.layout) == (like.device, torch.strided)
    )


def weights_of(network: LSTM | GRU, x: Tensor) -> list[list[Tensor]] | None:
    """
    ## Weights of all layers

    Returns $W$, $U$ and two biases of each cell. Returns `None` if anything has another
    shape, dtype or device than those that the lesson made for this input: the reference
    decides what to do with it.
    """
    sums, kinds = CELLS[type(network)]
    width, units = x.shape[2], network.hidden_size
    found: list[list[Tensor]] = []
    cells: list[Any] = [*network.cells]
    for cell in cells:
        if [type(part) for part in cell.modules()] != kinds:
            return None
        linear, square = cell.input_lin, cell.hidden_lin
        parts = [linear.weight, square.weight, linear.bias, square.bias]

        # The LSTM has one bias. The other one is zero.
        weights = [x.new_zeros(sums * units) if w is None else w for w in parts]
        shapes = (sums * units, width), (sums * units, units), *[(sums * units,)] * 2
        if not all(map(is_like, weights, shapes, [x] * 4)):
            return None
        found.append(weights)
        width = units
    return found if len(found) == network.n_layers else None


def run_layers(
    network: LSTM | GRU,
    operation: Callable[..., Any],
    x: Tensor,
    state: Sequence[Tensor] | None,
    mask: Tensor | None,
) -> tuple[Tensor, ...] | Declined:
    """
    ## All layers

    * `operation` is that of PyTorch
    * `x` is the input, `[T, B, C]`
    * `state` are the states before it, each `[L, B, N]`; `None` is zero

    Returns what the last layer showed, `[T, B, N]`, and the states at the end. Returns
    `Declined` where the reference has to run: on GPUs, under autocast, in other than
    single or double precision, and with a mask.
    """
    if mask is not None:
        return Declined("there is a mask")
    if type(x) is not Tensor or x.dim() != 3 or x.numel() == 0:
        return Declined("`x` is not a plain tensor `[T, B, C]` with numbers in it")
    if (
        x.dtype not in (torch.float32, torch.float64)
        or x.device.type != "cpu"
        or autocast_dtype(x) is not None
    ):
        return Declined("it is for single and double precision on a CPU")
    if type(network.dropout) is not nn.Dropout:
        return Declined("`dropout` is not a `Dropout`")
    if (weights := weights_of(network, x)) is None:
        return Declined("a cell is not as its class made it for this `x`")
    if state is None:
        zeros = network.initial(x)
        state = zeros if isinstance(zeros, tuple) else (zeros,)
    size = len(weights), x.shape[1], network.hidden_size
    if not all(is_like(part, size, x) for part in state):
        return Declined(f"the state is not {list(size)} and {x.dtype}")

    # One call a layer, so that dropout between layers draws as in the lesson.
    options = True, 1, 0.0, network.training, False, False
    ends = []
    for i, parts in enumerate(weights):
        if i:
            x = network.dropout(x)
        start = tuple(part[i : i + 1] for part in state)
        x, *end = operation(x, start if len(start) > 1 else start[0], parts, *options)
        ends.append(end)
    return x, *(torch.cat(parts) for parts in zip(*ends, strict=True))


SUBMODULES: set[type[nn.Module]] = {
    nn.Dropout,
    nn.ModuleList,
    *(kind for _, kinds in CELLS.values() for kind in kinds),
}


@kernel_for(LSTM.forward, owner=LSTM, submodules=SUBMODULES)
def lstm_in_one_call(
    lstm: LSTM,
    x: Tensor,
    state: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
) -> Any:
    """
    ## LSTM

    Takes and returns what [`LSTM.forward`](../lstm/__init__.py#LSTM.forward) does.
    """
    found = run_layers(lstm, torch.lstm, x, state, mask)
    if isinstance(found, Declined):
        return found
    return found[0], LSTMState(*found[1:])


@kernel_for(GRU.forward, owner=GRU, submodules=SUBMODULES)
def gru_in_one_call(
    gru: GRU, x: Tensor, state: Tensor | None = None, mask: Tensor | None = None
) -> Any:
    """
    ## GRU

    Takes and returns what [`GRU.forward`](../lstm/gru.py#GRU.forward) does.
    """
    states = None if state is None else (state,)
    return run_layers(gru, torch.gru, x, states, mask)
