r"""
---
title: Checks of states and masks
summary: What recurrent layers say to a state or a mask that cannot work.
---

A state of another batch or another model has numbers like any other. Where PyTorch can
stretch it to fit, it would, and a batch of texts would go on from one and the same
memory without a word. So shapes are compared before anything is computed.
"""

import torch
from torch import Tensor

from labml_nn.checks import check_same_precision


def check_state(state: Tensor, x: Tensor, shape: tuple[int, ...]) -> None:
    """
    ## A state belongs to its model and its batch

    It has the `shape` that this model and the batch of `x` need, and the dtype of `x`
    unless autocast converts it.
    """
    if not isinstance(state, Tensor):
        raise TypeError(
            f"`state` is a {type(state).__name__}; expected the tensor that was "
            "returned with the text before, or None to begin"
        )
    if state.shape != shape:
        axes = "[L, B, N] (layers, batch, units)"
        if len(shape) == 2:
            axes = "[B, N] (batch, units)"
        raise ValueError(
            f"`state` has shape {list(state.shape)}; expected {axes}, here "
            f"{list(shape)}: give a state back to the model and the batch it is from, "
            "or None to begin"
        )
    check_same_precision("state", state, "`x` has", x)


def check_mask(mask: Tensor, x: Tensor) -> None:
    """
    ## A mask says of each position whether it is read

    It is boolean, `[T, B]`, like the tokens of `x`.
    """
    if mask.dtype != torch.bool:
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool, True for what is to "
            "be read: for example tokens != padding_token"
        )
    if mask.shape != x.shape[:2]:
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T, B], here "
            f"{list(x.shape[:2])}: one for each position of each sequence"
        )
