r"""
---
title: Scaled dot-product attention
summary: >
  The one equation that transformers are built on, with nothing around it, in three
  forms that compute the same: einsum, matrix products, and a fused kernel.
paper: https://arxiv.org/abs/1706.03762
---

Ask a dictionary for *Verona*, and it finds the one entry with that name. Attention asks
a softer question. Each **query** is compared with every **key**; how well they fit is a
number, and the answer is a mean of all **values** in which the keys that fit best count
most. Nothing is found or missed, everything is weighed, and a weight can be learned.

$$\operatorname{Attention}(Q, K, V)
    = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

This is Vaswani et al. 2017, §3.2.1, eq. 1. The rows of $Q$, $K$ and $V$ are queries,
keys and values. The softmax works along each row of $Q K^\top$ and turns the scores of
one query into weights: positive numbers that sum to one.

The equation has no parameters. What queries and keys *are* is decided elsewhere, by the
maps of [multi-head attention](mha.py), which makes them for $B$ sequences and $H$ heads
at once. So the tensors here have those two axes besides, and the equation holds for
each sequence and each head by itself.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Q$ | `query` | `[T, B, H, K]` | what each position asks |
| $K$ | `key` | `[S, B, H, K]` | what each position can be asked for |
| $V$ | `value` | `[S, B, H, D]` | what it has to say, $D = d_v$ features |
| $E$ | `scores` | `[T, S, B, H]` | how well each key fits each query |
| $M$ | `mask` | `[T or 1, S, B or 1, H or 1]` | which keys a query may see |
| $A$ | `weights` | `[T, S, B, H]` | the weights, $\sum_s A_{tsbh} = 1$ |

The same function stands here three times. `einsum_attention` is the one to read: each
line is a line of mathematics. `matmul_attention` is how it was written before there
were kernels for it, and still is in most tutorials. `fused_attention` is the one to
use.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from labml_nn.checks import autocast_is_on


def dot_products(
    query: Float[Tensor, "T B H K"], key: Float[Tensor, "S B H K"]
) -> Float[Tensor, "T S B H"]:
    r"""
    ## How well does each key fit each query?

    $$E_{tsbh} = \sum_{k=1}^{d_k} Q_{tbhk} \, K_{sbhk}$$

    The letters of the string are those of the equation. The one that is missing on the
    right, `k`, is summed over.
    """
    return torch.einsum("tbhk,sbhk->tsbh", query, key)


def attention_weights(
    scores: Float[Tensor, "*scores"],
    mask: Bool[Tensor, "*#scores"] | None = None,
    *,
    axis: int = 1,
    softmax: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, "*scores"]:
    r"""
    ## From scores to weights

    $$A_{tsbh} = \begin{cases}
        \dfrac{e^{E_{tsbh}}}{\sum_{s'} M_{ts'bh} \, e^{E_{ts'bh}}}
            & \text{if } M_{tsbh} \\
        0 & \text{otherwise}
    \end{cases}$$

    * `scores` are $E$, already scaled
    * `mask` is boolean and has the axes of `scores`, any of them 1 where it says the
      same for all; `True` where the query may see the key
    * `axis` is the one along which the keys lie, and the weights sum to one
    * `softmax` takes the place of PyTorch's along that axis
    """
    # A score of $-\infty$ becomes a weight of $e^{-\infty} = 0$, and the others share
    # the sum of one among them.
    if mask is not None:
        visible, blind = _open_blind(mask, axis)
        scores = scores.masked_fill(~visible, -math.inf)
    weights = torch.softmax(scores, axis) if softmax is None else softmax(scores)
    if mask is not None:
        weights = weights.masked_fill(blind, 0.0)
    return weights


# A query that may see nothing at all would be left with $0 / 0$. We call it blind, let
# it see everything for the moment, so that the softmax has numbers to work with, and
# take its weights away afterwards. It gets a mean of nothing, which is zero, and sends
# no gradient anywhere.
def _open_blind(mask: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    blind = ~mask.any(dim=axis, keepdim=True)
    return mask | blind, blind


def weighted_mean(
    weights: Float[Tensor, "T S B H"], value: Float[Tensor, "S B H D"]
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The mean of the values

    $$O_{tbhd} = \sum_s A_{tsbh} \, V_{sbhd}$$
    """
    return torch.einsum("tsbh,sbhd->tbhd", weights, value)


def einsum_attention(
    query: Float[Tensor, "T B H K"],
    key: Float[Tensor, "S B H K"],
    value: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
    *,
    scale: float | None = None,
    dropout_prob: float = 0.0,
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The equation, line by line
    """
    check_attention_heads(query, key, value, mask)
    scores = dot_products(query, key) * default_scale(query, scale)
    weights = attention_weights(scores, mask)
    return weighted_mean(F.dropout(weights, dropout_prob), value)


def matmul_attention(
    query: Float[Tensor, "T B H K"],
    key: Float[Tensor, "S B H K"],
    value: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
    *,
    scale: float | None = None,
    dropout_prob: float = 0.0,
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The same with matrix products
    """
    check_attention_heads(query, key, value, mask)

    # `[B, H, T, K]` times `[B, H, K, S]` is `[B, H, T, S]`.
    scores = query.permute(1, 2, 0, 3) @ key.permute(1, 2, 3, 0)
    scores = scores * default_scale(query, scale)
    if mask is not None:
        mask = mask.permute(2, 3, 0, 1)
    weights = F.dropout(attention_weights(scores, mask, axis=-1), dropout_prob)
    return (weights @ value.permute(1, 2, 0, 3)).permute(2, 0, 1, 3)


def fused_attention(
    query: Float[Tensor, "T B H K"],
    key: Float[Tensor, "S B H K"],
    value: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
    *,
    scale: float | None = None,
    dropout_prob: float = 0.0,
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The same in one call
    """
    check_attention_heads(query, key, value, mask)

    # Kernels want `[B, H, T, K]`. Permuting moves no numbers, it only reads them in
    # another order. Blind queries see everything for the moment, here too.
    visible = blind = None
    if mask is not None:
        visible, blind = _open_blind(mask.permute(2, 3, 0, 1), -1)
    x = F.scaled_dot_product_attention(
        query.permute(1, 2, 0, 3),
        key.permute(1, 2, 0, 3),
        value.permute(1, 2, 0, 3),
        attn_mask=visible,
        dropout_p=dropout_prob,
        scale=scale,
    )

    # The call returns no weights to take from the blind, so we take their result.
    if blind is not None:
        x = x.masked_fill(blind, 0.0)
    return x.permute(2, 0, 1, 3)


def default_scale(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def check_attention_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> None:
    """
    ## What belongs together

    PyTorch would stretch a batch of one to meet the others, and all sequences would
    attend to the same one without a word.

    Raises `ValueError` for shapes that do not fit, `TypeError` for dtypes.
    """
    axes = {"query": "T, B, H, K", "key": "S, B, H, K", "value": "S, B, H, D"}
    for (name, letters), x in zip(axes.items(), (query, key, value), strict=True):
        if x.dim() != 4 or x.shape[0] == 0:
            raise ValueError(
                f"`{name}` has shape {list(x.shape)}; expected [{letters}] (sequence, "
                "batch, heads, features of a head) with at least one position"
            )
    if key.shape[0] != value.shape[0]:
        raise ValueError(
            f"`key` has {key.shape[0]} positions and `value` {value.shape[0]}; "
            "expected the same number: each key belongs to one value"
        )
    if not query.shape[1] == key.shape[1] == value.shape[1]:
        raise ValueError(
            f"`query`, `key` and `value` have batches of {query.shape[1]}, "
            f"{key.shape[1]} and {value.shape[1]}; expected the same: use "
            ".expand(-1, B, ...) to share one sequence among all"
        )
    if not query.shape[2] == key.shape[2] == value.shape[2]:
        raise ValueError(
            f"`query`, `key` and `value` have {query.shape[2]}, {key.shape[2]} and "
            f"{value.shape[2]} heads; expected the same number"
        )
    if query.shape[3] != key.shape[3]:
        raise ValueError(
            f"`query` has {query.shape[3]} features per head and `key` {key.shape[3]}; "
            "expected the same number, d_k: their dot product is the score"
        )
    if not query.dtype == key.dtype == value.dtype and not autocast_is_on(query):
        raise TypeError(
            f"`query`, `key` and `value` have dtypes {query.dtype}, {key.dtype} and "
            f"{value.dtype}; expected the same: convert with .to({query.dtype})"
        )
    if mask is not None:
        _check_mask(mask, (query.shape[0], key.shape[0], *query.shape[1:3]))


def _check_mask(mask: Tensor, scores: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool with True = may attend"
        )
    fits = mask.dim() == 4 and mask.shape[1] == scores[1]
    if not fits or any(
        m not in (1, n) for m, n in zip(mask.shape, scores, strict=True)
    ):
        t, s, b, h = scores
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1, H or "
            f"1] with T = {t}, S = {s}, B = {b}, H = {h}. A mask [T, S, B] lacks the "
            "heads: add them with mask[..., None]"
        )
