r"""
---
title: Checks of queries and memories
summary: What feedback attention says to a query or a memory that cannot work.
---

One query and a memory of rows have shapes of their own, so they have checks of their
own beside the [common ones](../../checks.html). Most of them run at every step of every
layer: a few comparisons of numbers that PyTorch has at hand.
"""

import torch
from torch import Tensor

from labml_nn.checks import autocast_is_on, check_same_precision


def check_query(query: Tensor, d_model: int, weight: Tensor) -> None:
    """
    ## One token per sequence

    A query is `[B, C]`, in the type of the parameters (`weight` is any of them) unless
    autocast converts it.
    """
    if query.dim() != 2 or query.shape[1] != d_model:
        raise ValueError(
            f"`query` has shape {list(query.shape)}; expected [B, C] (batch, features) "
            f"with C = d_model = {d_model}: one token per sequence"
        )
    if query.dtype != weight.dtype and not autocast_is_on(query):
        raise TypeError(
            f"`query` has dtype {query.dtype} but the parameters have {weight.dtype}; "
            f"convert one: query.to({weight.dtype}) or module.to({query.dtype})"
        )


def check_rows(
    key: Tensor, value: Tensor, query: Tensor, features: tuple[int, ...]
) -> None:
    """
    ## A memory of fitting rows

    A row is `[B, *features]`: `[B, C]`, or `[B, H, K]` if keys and values come
    projected. There must be at least one.
    """
    row = (query.shape[0], *features)
    for name, rows in (("key", key), ("value", value)):
        if rows.shape[1:] != row or rows.shape[0] != key.shape[0]:
            raise ValueError(
                f"`{name}` has shape {list(rows.shape)}; expected "
                f"{[key.shape[0], *row]}: [S, B, C] memory, or [S, B, H, K] keys and "
                "values with is_kv_precomputed=True, for the batch of the query"
            )
        if rows.dtype != query.dtype and not autocast_is_on(query):
            raise TypeError(
                f"`{name}` has dtype {rows.dtype} but `query` has {query.dtype}; "
                f"convert one: {name}.to({query.dtype}) or query.to({rows.dtype})"
            )
    if key.shape[0] == 0:
        raise ValueError(
            "the memory is empty (S = 0) and a softmax needs something to choose from; "
            "on the first step give the layer key=None, value=None"
        )


def check_row_mask(mask: Tensor, rows: Tensor) -> None:
    """
    ## A mask for the rows of a memory

    One answer per row and sequence, `[S, B or 1]`. There is one query per sequence, so
    the axis of queries that other masks have is missing.
    """
    length, batch = rows.shape[:2]
    if mask.dtype != torch.bool or mask.shape not in ((length, batch), (length, 1)):
        raise ValueError(
            f"`mask` is {list(mask.shape)} of {mask.dtype}; expected [S, B or 1] with "
            f"S = {length}, B = {batch} of torch.bool, True = may attend"
        )


def check_real(real: Tensor, x_seq: Tensor) -> None:
    """
    ## What is real and what is padding

    One answer per token, `[T, B]`.
    """
    if real.dtype != torch.bool or real.shape != x_seq.shape[:2]:
        raise ValueError(
            f"`real` is {list(real.shape)} of {real.dtype}; expected [T, B] = "
            f"{list(x_seq.shape[:2])} of torch.bool, False = padding"
        )


def check_origin(
    length: int, memory_layers: int, horizon: int | None, n_layers: int
) -> None:
    """
    ## A memory that this model can have written

    It had as many layers, and kept as many rows.
    """
    if memory_layers != n_layers:
        raise ValueError(
            f"`memory` was written by {memory_layers} layers, and this model has "
            f"{n_layers}; give a memory back to the model it is from"
        )
    if horizon is not None and length > horizon:
        raise ValueError(
            f"`memory` has {length} rows, and this model keeps horizon = {horizon}; "
            "give a memory back to the model it is from"
        )


def check_memory(rows: Tensor, x_seq: Tensor, features: tuple[int, ...]) -> None:
    """
    ## A memory of this model and this batch

    `rows` is what a sequence left in memory, and `x_seq` goes on with that sequence.
    """
    row = (x_seq.shape[1], *features)
    if rows.shape[1:] != row:
        raise ValueError(
            f"`memory` has rows of shape {list(rows.shape[1:])}; expected {list(row)} "
            f"for this model and a batch of {x_seq.shape[1]}; give a memory back to "
            "the model and the batch it is from"
        )
    check_same_precision("memory", rows, "`x_seq` has", x_seq)
