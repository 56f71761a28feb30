r"""
---
title: Masks
summary: >
  Who may look at whom, written as boolean tensors: for causality, for padding, and for
  both at once.
---

A mask answers one question for every pair of positions: may query $t$ of sequence $b$
look at key $s$?

$$M_{tsb} = \begin{cases}
\text{True} & \text{query } t \text{ may attend to key } s \text{ in sequence } b \\
\text{False} & \text{it may not}
\end{cases}$$

All masks of this library are boolean and have the axes `[T, S, B]`. The first may be 1
when every query sees the same keys, the last may be 1 when all sequences of the batch
share the mask; PyTorch stretches such axes where they meet a longer one.

| Mask | Function | Shape | Depends on |
|---|---|---|---|
| causal | `subsequent_mask` | `[T, T, 1]` | positions only |
| padding | `padding_mask` | `[1, S, B]` | how long each sequence is |
| padding | `token_padding_mask` | `[1, S, B]` | where the padding token stands |
| several | `combine_masks` | the longest of each axis | all of its parts |
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from labml_nn.checks import check_sizes


def subsequent_mask(
    seq_len: int, *, device: torch.device | str | None = None
) -> Bool[Tensor, "T T 1"]:
    r"""
    ## No looking ahead

    A model that predicts the next token must not read it. Position $t$ may attend to
    itself and to what came before, $M_{ts} = [\, s \le t \,]$, the lower triangle:

    ```
    key s      0 1 2 3
    query 0    1 . . .
    query 1    1 1 . .
    query 2    1 1 1 .
    query 3    1 1 1 1
    ```

    * `seq_len` is $T$, at least 1
    * `device` is where the mask is made, the default device if not given

    Returns a boolean tensor of shape `[T, T, 1]`; the 1 is the batch, which shares it.
    Vaswani et al. 2017, §3.2.3.
    """
    check_sizes(seq_len=seq_len)
    see_all = torch.ones(seq_len, seq_len, dtype=torch.bool, device=device)
    return see_all.tril().unsqueeze(-1)


def padding_mask(
    lengths: Int[Tensor, " B"], max_len: int | None = None
) -> Bool[Tensor, "1 S B"]:
    r"""
    ## Sequences of different lengths

    Sequences of a batch are filled up to a common length. Nobody may attend to the
    filling: $M_{sb} = [\, s < n_b \,]$, where $n_b$ is the length of sequence $b$.

    * `lengths` holds $n_b$, integers of shape `[B]`
    * `max_len` is $S$, the common length; the longest of `lengths` if not given

    Returns a boolean mask of shape `[1, S, B]`. Raises `ValueError` if a sequence is
    longer than `max_len`, and `TypeError` if `lengths` are not integers.
    """
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise TypeError(
            f"`lengths` has dtype {lengths.dtype}; expected integers: one length per "
            "sequence of the batch"
        )
    if lengths.dim() != 1 or len(lengths) == 0:
        raise ValueError(
            f"`lengths` has shape {list(lengths.shape)}; expected [B] with at least "
            "one sequence"
        )
    longest = int(lengths.max())
    if max_len is None:
        max_len = longest
    check_sizes(max_len=max_len)
    if longest > max_len:
        raise ValueError(
            f"`lengths` goes up to {longest}, beyond `max_len` ({max_len}); cut the "
            "sequences or raise `max_len`"
        )
    positions = torch.arange(max_len, device=lengths.device)
    return (positions[:, None] < lengths).unsqueeze(0)


def token_padding_mask(
    tokens: Int[Tensor, "S B"], padding_token: int
) -> Bool[Tensor, "1 S B"]:
    """
    ## Padding that shows in the tokens

    Where a token of its own stands for "nothing here", the mask can be read off.

    * `tokens` has shape `[S, B]`
    * `padding_token` is the number of the token that fills up

    Returns a boolean mask of shape `[1, S, B]`, `True` wherever a real token stands.
    """
    return (tokens != padding_token).unsqueeze(0)


def combine_masks(
    *masks: Bool[Tensor, "#T #S #B"] | None,
) -> Bool[Tensor, "T S B"] | None:
    """
    ## Several reasons at once

    A decoder's target is both causal and padded: a query may attend to a key if
    **every** mask allows it. `None` stands for "no restriction", as it does wherever a
    mask is an argument.

    Returns a mask that is stretched to the longest of each axis, or `None` if nothing
    restricts anything. Raises `ValueError` if shapes do not fit each other.
    """
    combined: Tensor | None = None
    for mask in masks:
        if mask is None or combined is None:
            combined = combined if mask is None else mask
            continue
        try:
            combined = combined & mask
        except RuntimeError as error:
            raise ValueError(
                f"masks of shapes {list(combined.shape)} and {list(mask.shape)} do not "
                "fit; expected [T, S, B], with 1 for an axis that a mask leaves open"
            ) from error
    return combined


def check_mask(
    mask: Tensor, query_len: int, key_len: int, batch_size: int
) -> Bool[Tensor, "#T S #B"]:
    r"""
    ## The mask at the door

    Every attention of the library calls this once on what it is given, so that a mask
    of the wrong shape is named before it is stretched into something that runs and
    means something else.

    * `query_len`, `key_len`, `batch_size` are $T$, $S$ and $B$ of the call

    Returns the mask as a boolean tensor. Raises `ValueError` for a shape other than
    `[T|1, S, B|1]`, and `TypeError` for a floating-point mask.
    """
    # Older code writes masks as integers, 1 for "may attend". That reading is safe. A
    # floating-point mask could be the same, or the opposite: numbers to be added to the
    # scores, where 0 means "may attend". We don't guess.
    if mask.is_floating_point() or mask.is_complex():
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool with True = may "
            "attend. Convert with mask.bool() if 1 means may attend, or with mask == 0 "
            "if it is added to scores"
        )
    mask = mask.bool()

    fits = (
        mask.dim() == 3
        and mask.shape[0] in (1, query_len)
        and mask.shape[1] == key_len
        and mask.shape[2] in (1, batch_size)
    )
    if not fits:
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1] with "
            f"T = {query_len}, S = {key_len}, B = {batch_size}. A mask [T, S] lacks "
            "the batch: add it with mask[:, :, None]"
        )
    return mask
