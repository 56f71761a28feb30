r"""
---
title: Keys and values, kept
summary: >
  What the future needs of the past: two vectors for each position, in each layer. Keep
  them, and a text that goes on is not read again.
---

A model that writes adds one position after the other. Through a causal mask no position
sees a later one, so nothing that was computed for the old ones will ever change. And
of all that was computed, a new position looks at very little. Its query asks the old
*keys*, and takes home the old *values*:

$$\operatorname{Attention}(q_t, K_{\le t}, V_{\le t}) =
    \operatorname{softmax}\left(\frac{q_t K_{\le t}^\top}{\sqrt{d_k}}\right) V_{\le t}$$

Old queries are not in it, nor old rows, nor what the feed-forward networks made of
them. So each layer keeps $K$ and $V$, `KeysValues`, and a step adds one row to both. A
token then costs $t$ dot products in each head; to compute the whole text again costs
$t^2 / 2$, and all the rows besides.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $K_{<t}$, $V_{<t}$ | `past` | `[S, B, H, K]` | those of what was read before |
| $k_t$, $v_t$ | `new` | `[T, B, H, K]` | keys and values of what is read now |
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_same_precision
from labml_nn.transformers.rotary import Rotation


class KeysValues(NamedTuple):
    r"""
    ## What can be kept

    The key and the value of a position are made of its own vector alone. Where nobody
    looks ahead, that vector stays what it is when the sequence goes on. So a model that
    writes one token at a time keeps both and adds a row, instead of computing all rows
    again.

    * `keys` are $K$, `[S, B, H, K]`
    * `values` are $V$, `[S, B, H, D]`, with $D = d_v$
    """

    keys: Float[Tensor, "S B H K"]
    values: Float[Tensor, "S B H D"]


@runtime_checkable
class Reusable(Protocol):
    """
    ## Attention in two halves

    Keys and values first, then one answer after the other: attention that can be asked
    for each half by itself is reusable. `MultiHeadAttention` is; one of your own is if
    it has these two methods. It is given a `rotation` only in models with [rotary
    positions](rotary.py).
    """

    def project(
        self, *, key: Tensor, value: Tensor, rotation: Rotation = ...
    ) -> KeysValues: ...

    def attend_to(
        self,
        *,
        query: Tensor,
        past: KeysValues,
        mask: Tensor | None = None,
        rotation: Rotation = ...,
    ) -> Tensor: ...


def reusable(attention: nn.Module | None, name: str) -> Reusable:
    """
    ### Or else

    Returns `attention`, known by `name`, if it has both halves; else it is a
    `TypeError`.
    """
    if not isinstance(attention, Reusable):
        raise TypeError(
            f"`{name}` is a {type(attention).__name__}, which has no `project` and "
            "`attend_to`, so its keys and values cannot be kept; use a "
            "MultiHeadAttention, or call `forward` on the whole text"
        )
    return attention


def join(past: KeysValues | None, new: KeysValues) -> KeysValues:
    """
    ## Old and new, one behind the other

    Returns a new value and leaves `past` as it was, so that one can go on from the same
    point twice: keep what a prompt left behind, and write several continuations. The
    copy takes time, but no more than attention takes to read it.

    Raises `ValueError` for shapes and `TypeError` for dtypes that do not belong
    together: PyTorch would join two precisions, and go on in the larger.
    """
    if past is None:
        return new
    for old, added in zip(past, new, strict=True):
        if old.dim() != added.dim() or old.shape[1:] != added.shape[1:]:
            raise ValueError(
                f"`past` has shape {list(old.shape)} and new positions make "
                f"{list(added.shape)}; expected the same after the first axis: [S, B, "
                "H, K]. It was written by another model, or for another batch"
            )
        check_same_precision("past", old, "new positions make", added)
    return KeysValues(
        *(torch.cat([old, added]) for old, added in zip(past, new, strict=True))
    )


def check_values(values: Float[Tensor, "S B H D"], d_v: int) -> None:
    """
    ### Of the right width

    The map that joins the heads expects $d_v$ features of each. Raises `ValueError`.
    """
    if values.shape[3] != d_v:
        raise ValueError(
            f"`past.values` has shape {list(values.shape)}; expected d_v = {d_v} "
            "features in each head: was it made by another module?"
        )
