r"""
---
title: LSTM kernel
summary: All steps of an LSTM layer in one call of PyTorch's own operation.
---

The [LSTM](../lstm/__init__.py) is a Python loop with about ten small operations in each
step. PyTorch has the same recurrence as one operation, which `torch.nn.LSTM` calls. It
computes $W x_t$ for all steps in one product, and on CPUs oneDNN does the rest of a
step at once, forward and backward. We call it with the lesson's weights, which are in
the same order of gates, and with a second bias of zeros.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W$, $U$, $b$ | `weights` | `[4N, C]`, `[4N, N]`, `[4N]` | those of a cell |
| $h_0$, $c_0$ | `h`, `c` | `[L, B, N]` | the state before the first step |
"""

from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.kernels import kernel_for
from labml_nn.kernels.elman import autocast_dtype
from labml_nn.lstm import LSTM, LSTMCell, LSTMState

#: What the operation computes itself. A cell with layer normalisation has others.
SUBMODULES: set[type[nn.Module]] = {
    LSTMCell,
    *(nn.Linear, nn.Identity, nn.Dropout, nn.ModuleList),
}


def is_like(x: Any, shape: tuple[int, ...], like: Tensor) -> bool:
    """Whether it is a plain tensor of a shape, with the dtype and device of another."""
    return (
        type(x) in (Tensor, nn.Parameter)
        and (tuple(x.shape), x.dtype) == (shape, like.dtype)
        and (x.device, x.layout) == (like.device, torch.strided)
    )


def weights_of(lstm: LSTM, x: Tensor) -> list[tuple[Tensor, Tensor, Tensor]] | None:
    """
    ## Weights of all layers

    Returns $W$, $U$ and $b$ of each cell. Returns `None` if anything has another shape,
    dtype or device than those that the lesson made for this input: the reference
    decides what to do with it.
    """
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    units, width = lstm.hidden_size, x.shape[2]
    for cell in lstm.cells:
        if type(cell) is not LSTMCell:
            return None
        linear, square = cell.input_lin, cell.hidden_lin
        norms = [*cell.layer_norm, cell.layer_norm_c]
        weights = linear.weight, square.weight, square.bias
        shapes = (4 * units, width), (4 * units, units), (4 * units,)
        if (
            not type(linear) is type(square) is nn.Linear
            or linear.bias is not None
            or len(norms) != 5
            or any(type(norm) is not nn.Identity for norm in norms)
            or not all(map(is_like, weights, shapes, [x] * 3))
        ):
            return None
        found.append(weights)
        width = units
    return found if len(found) == lstm.n_layers else None


@kernel_for(LSTM.forward, owner=LSTM, submodules=SUBMODULES)
def lstm_in_one_call(
    lstm: LSTM,
    x: Tensor,
    state: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
) -> Any:
    """
    ## Kernel in PyTorch

    Takes and returns what [`LSTM.forward`](../lstm/__init__.py#LSTM.forward) does. It
    runs on CPUs, in single or double precision, without a mask and without autocast.
    """
    if (
        mask is not None
        or type(x) is not Tensor
        or x.dim() != 3
        or x.numel() == 0
        or x.dtype not in (torch.float32, torch.float64)
        or x.device.type != "cpu"
        or autocast_dtype(x) is not None
        or type(lstm.dropout) is not nn.Dropout
        or (weights := weights_of(lstm, x)) is None
    ):
        return NotImplemented
    h, c = lstm.initial(x) if state is None else state
    size = len(weights), x.shape[1], lstm.hidden_size
    if not (is_like(h, size, x) and is_like(c, size, x)):
        return NotImplemented

    # One call a layer, so that dropout between layers draws as in the lesson.
    last = []
    for i, (w, u, b) in enumerate(weights):
        if i:
            x = lstm.dropout(x)
        start, parts = (h[i : i + 1], c[i : i + 1]), [w, u, b, torch.zeros_like(b)]
        x, *end = torch.lstm(x, start, parts, True, 1, 0.0, lstm.training, False, False)
        last.append(end)
    h, c = (torch.cat(parts) for parts in zip(*last, strict=True))
    return x, LSTMState(h, c)
