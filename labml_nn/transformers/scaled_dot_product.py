r"""
---
title: Scaled dot-product attention
summary: >
  The one equation that transformers are built on, with nothing around it, in three
  forms that compute the same: einsum, matrix products, and a fused kernel.
paper: https://arxiv.org/abs/1706.03762
---

Ask a dictionary for *Verona*, and it finds the one entry of that name, or none.
Attention asks a softer question. A **query** is compared with every **key**. How well
they fit is a number, and the answer is a mean of all **values** in which those with the
best keys count most. Nothing is found or missed; everything is weighed. And a weighted
mean changes smoothly when the weights do, so gradients can teach queries what to ask
for and keys what to offer:

$$\operatorname{Attention}(Q, K, V)
    = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

This is [@vaswani2017attention, §3.2.1, eq. 1]. The rows of $Q$, $K$ and $V$ are
queries, keys and values. The softmax works along each row of $Q K^\top$ and turns the
scores of one query into weights: positive numbers that sum to one.

The equation has no parameters. What queries and keys *are* is decided elsewhere:
[multi-head attention](mha.py) makes them, for $B$ sequences and $H$ heads at once. So
the tensors have these two axes as well, and the equation holds for each sequence and
each head by itself.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $Q$ | `query` | `[T, B, H, K]` | what each position asks, $d_k$ features |
| $K$ | `key` | `[S, B, H, K]` | what each position can be asked for |
| $V$ | `value` | `[S, B, H, D]` | what it has to say, $d_v$ features |
| $M$ | `mask` | `[T\|1, S, B\|1, H\|1]` | which keys a query may see |
| $E$ | `scores` | `[T, S, B, H]` | how well each key fits each query, scaled |
| $A$ | `weights` | `[T, S, B, H]` | how much each value counts, $\sum_s A_{tsbh} = 1$ |
| $O$ | what is returned | `[T, B, H, D]` | a mean of values for each query |

The same function stands here three times: `einsum_attention` to read,
`matmul_attention` as it was written for years, `fused_attention` to use.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from labml_nn.checks import check_attention_heads, check_probability
from labml_nn.transformers.attention_in_blocks import (
    attention_in_blocks,
    is_for_blocks,
)
from labml_nn.transformers.utils import is_known_as_causal


def dot_products(
    query: Float[Tensor, "T B H K"], key: Float[Tensor, "S B H K"]
) -> Float[Tensor, "T S B H"]:
    r"""
    ## How well does each key fit each query?

    $$(Q K^\top)_{tsbh} = \sum_{k=1}^{d_k} Q_{tbhk} \, K_{sbhk}$$

    A dot product is large where two vectors point the same way. `[T, B, H, K]` meets
    `[S, B, H, K]`: the letters `b` and `h` stand in both and in the result, so each
    sequence and head stays by itself; `k` is missing in the result, so it is summed
    over; `t` and `s` stand in one each, so every query meets every key.
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

    $$A_{tsbh} = \frac{M_{tsbh} \, e^{E_{tsbh}}}{\sum_{s'} M_{ts'bh} \, e^{E_{ts'bh}}}$$

    * `scores` is $E$, `[T, S, B, H]`, or with the axes in another order
    * `mask` is $M$, boolean, with the axes of `scores`; any may be 1, that of the keys
      excepted
    * `axis` is that of the keys, along which the weights sum to one
    * `softmax` takes the place of PyTorch's along that axis

    Returns $A$, of the shape of `scores`. A query that may see nothing has weights of
    zero.
    """
    # A score of $-\infty$ becomes a weight of $e^{-\infty} = 0$, and the others share
    # the sum of one among them.
    if mask is not None:
        visible, blind = _open_blind(mask, axis)
        scores = scores.masked_fill(~visible, -math.inf)
    weights = torch.softmax(scores, axis) if softmax is None else softmax(scores)
    return weights if mask is None else weights.masked_fill(blind, 0.0)


# ### Fault: not quite infinity
#
# Tutorials fill in `-1e4` or `-1e9`, because a row of nothing but $-\infty$ becomes
# $0 / 0$. What comes of it, measured with 8 keys:
#
# | Filled in | float32, bfloat16 | float16 |
# |:--|:--|:--|
# | `-1e4`, scores of −12,000 | the hidden keys get **all** the weight | the same |
# | `-1e9`, nothing to see | each hidden key gets a weight of **1/8** | `RuntimeError` |
# | `(1 - mask) * -1e9` added, nothing to see | the same, 1/8 | **NaN** |
# | $-\infty$ and the rule below, any of these | hidden keys get 0 | hidden keys get 0 |
#
# The largest number of float16 is 65,504, so `-1e9` does not exist there. Converted
# first, `torch.tensor(-1e9).half()`, it is $-\infty$, and $0 \cdot (-\infty)$ makes NaN
# of the keys that *may* be seen. `test_hidden_keys_get_nothing_in_any_precision` builds
# all of these. [Five more faults](../../faults.md) of this kind.


# A query that may see nothing at all is *blind*. It may see everything for the moment,
# so that the softmax has numbers to work with, and its weights are taken away
# afterwards. It gets a mean of nothing, which is zero, and sends no gradient anywhere.
# For a mask `[T, S, B, 1]`, `blind` is `[T, 1, B, 1]`.
def _open_blind(mask: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    blind = ~mask.any(dim=axis, keepdim=True)
    return mask | blind, blind


def weighted_mean(
    weights: Float[Tensor, "T S B H"], value: Float[Tensor, "S B H D"]
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The mean of the values

    $$O_{tbhd} = \sum_s A_{tsbh} \, V_{sbhd}$$

    `[T, S, B, H]` and `[S, B, H, D]` make `[T, B, H, D]`: the keys are summed away, and
    what is left of $S$ positions is one vector for each query.
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

    * `query`, `key` and `value` have shapes `[T, B, H, K]`, `[S, B, H, K]` and
      `[S, B, H, D]`
    * `mask` is boolean, `[T|1, S, B|1, H|1]`, `True` where a query may see a
      key. [Masks](utils.py) are `[T, S, B]`; `mask[..., None]` is the same for all
      heads
    * `scale` is what scores are multiplied with, $1 / \sqrt{d_k}$ if not given
    * `dropout_prob` is the probability of dropping a weight; give it in training only

    Returns `[T, B, H, D]`, zeros for a query that may see nothing. Raises `ValueError`
    for shapes that do not fit or a probability that cannot be, and `TypeError` for
    different dtypes or a mask that is not boolean.
    """
    _check(query, key, value, mask, dropout_prob)

    # Why divide? If the components of a query and a key are independent, with mean 0
    # and variance 1, their dot product has variance $d_k$ (§3.2.1, footnote 4). Wide
    # heads would make large scores, and a softmax of large scores picks one key and
    # forgets the rest, with next to no gradient to change its mind. With 32 random keys
    # and $d_k = 64$ the largest weight is 0.82 on average; divided by $\sqrt{d_k}$ the
    # scores have variance 1 again, and it is 0.16.
    scores = dot_products(query, key) * _scale(query, scale)
    weights = attention_weights(scores, mask)

    # Dropout takes whole keys away from a query, so that none becomes indispensable.
    # What is left is scaled up, and the mean over many draws stays what it was.
    return weighted_mean(F.dropout(weights, dropout_prob), value)


# ### Fault: dropout too early
#
# `softmax(dropout(scores))` looks much like `dropout(softmax(scores))`. But a score of
# 0 is no weight of 0: with 32 keys for each of 20,000 queries, not one weight was
# dropped. And a hidden key whose `-1e9` becomes 0 is hidden no more. With scores from a
# normal distribution, a causal mask of 128 positions and dropout of 0.1, **12 %** of
# the weight fell on the future, and 90 % in the first row. Scores of $-\infty$ become
# $-\infty \cdot 0$, and 92 % of the rows are NaN.
# `test_dropout_shows_nothing_of_the_future` asks all three forms of this page, and
# [a page of faults](../../faults.md) has the program.


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

    `@` multiplies the last two axes and treats those before them as a batch. So
    sequences and heads move to the front, and eq. 1 reads as it is printed. Arguments,
    result and errors are those of `einsum_attention`.
    """
    _check(query, key, value, mask, dropout_prob)

    # `[B, H, T, K]` times `[B, H, K, S]` is `[B, H, T, S]`: $Q K^\top$ with the keys
    # last, where a softmax reads one row of memory from end to end.
    scores = query.permute(1, 2, 0, 3) @ key.permute(1, 2, 3, 0)
    scores = scores * _scale(query, scale)
    if mask is not None:
        mask = mask.permute(2, 3, 0, 1)
    weights = attention_weights(scores, mask, axis=-1)

    # `[B, H, T, S]` times `[B, H, S, D]` is `[B, H, T, D]`, and back to `[T, B, H, D]`.
    x = F.dropout(weights, dropout_prob) @ value.permute(1, 2, 0, 3)
    return x.permute(2, 0, 1, 3)


def fused_attention(
    query: Float[Tensor, "T B H K"],
    key: Float[Tensor, "S B H K"],
    value: Float[Tensor, "S B H D"],
    mask: Bool[Tensor, "#T S #B #H"] | None = None,
    *,
    scale: float | None = None,
    dropout_prob: float = 0.0,
    checked: bool = False,
) -> Float[Tensor, "T B H D"]:
    r"""
    ## The same in one call

    Both forms above write all $T \cdot S \cdot B \cdot H$ scores to memory, and several
    times: scaled, masked, as weights. For 1,024 positions, 8 sequences and 8 heads each
    copy takes 256 MiB. PyTorch's kernels go through the keys block by block instead,
    keep running sums, and never hold more than a block
    ([@dao2022flashattention]). The last exercise does it by hand. Arguments, result and
    errors are those of `einsum_attention`; whoever has looked for them says `checked`.
    """
    if not checked:
        _check(query, key, value, mask, dropout_prob)

    # Under a mask that is [known as causal](utils.py) the kernels leave out all blocks
    # above the diagonal, half of the work, and nobody is blind. Any other mask they
    # have to read. Blind queries see everything for the moment, here too.
    causal = is_known_as_causal(mask)
    visible = blind = None
    if mask is not None and not causal:
        visible, blind = _open_blind(mask.permute(2, 3, 0, 1), -1)

    # Kernels want `[B, H, T, K]`. Permuting only reads numbers in another order. With
    # dropout a processor has none, but for [one of ours](attention_in_blocks.py).
    q, k, v = [each.permute(1, 2, 0, 3) for each in (query, key, value)]
    if is_for_blocks(q, k, dropout_prob):
        x = attention_in_blocks(q, k, v, visible, dropout_prob, causal, scale=scale)
    else:
        options = (visible, dropout_prob, causal)
        x = F.scaled_dot_product_attention(q, k, v, *options, scale=scale)

    # No weights are returned to take from the blind, so we take their result. `blind`
    # is `[B, H, T, 1]`, or 1 for an axis that the mask leaves open.
    if blind is not None:
        x = x.masked_fill(blind, 0.0)
    return x.permute(2, 0, 1, 3)


def _scale(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


# A mask has the axes of the scores, heads included. PyTorch would take a mask of
# `[T, S, B]` for one of `[1, T, S, B]`, and fail, or not, depending on the sizes.
def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_prob: float
) -> None:
    check_attention_heads(query, key, value)
    check_probability(dropout_prob=dropout_prob)
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(
            f"`mask` has dtype {mask.dtype}; expected torch.bool with True = may attend"
        )
    shape = (query.shape[0], key.shape[0], query.shape[1], query.shape[2])
    stretched = mask.dim() == 4 and mask.shape[1] == shape[1]
    if not stretched or any(
        m not in (1, n) for m, n in zip(mask.shape, shape, strict=True)
    ):
        raise ValueError(
            f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1, H or "
            "1] with T = {}, S = {}, B = {}, H = {}. A mask [T, S, B] lacks the heads: "
            "add them with mask[..., None]".format(*shape)
        )


# ## What the three forms cost
#
# Forward and backward of 2 sequences that attend to themselves, 8 heads of 32 features,
# a causal mask, float32, on one of two processor cores: time of the processor (median
# of 7 or 3, the forms in turn), and the most memory held at once beyond the inputs.
#
# | length $T = S$ | einsum | matmul | fused |
# |--:|--:|--:|--:|
# | 128 | 7.4 ms, 4 MiB | 5.6 ms, 4 MiB | 2.8 ms, 1 MiB |
# | 512 | 143 ms, 64 MiB | 87 ms, 64 MiB | 38 ms, 5 MiB |
# | 1,024 | 984 ms, 258 MiB | 565 ms, 258 MiB | 92 ms, 11 MiB |
#
# Twice the length is four times the scores, and the first two forms hold them four
# times over; the fused one takes twice the memory. Between the first two only the
# order of the axes differs (exercise 1). `python -m benchmarks.attention` measures it.
#
# ## Exercises
#
# **1.** In the table of costs, `einsum_attention` takes 1.7 times as long as
# `matmul_attention`, although both do the same sums. Change two strings of the first,
# and it is as fast.
#
# <details><summary>Answer</summary>
#
# The sums are the same; the order of the axes in memory is not. The products come out
# with the keys of a query side by side. The softmax of `[T, S, B, H]` first copies them
# into that order, where neighbouring keys lie $B \cdot H$ numbers apart. Put them last:
#
# ```python
# import torch
# from labml_nn.transformers.scaled_dot_product import einsum_attention
#
# query, key = torch.randn(5, 2, 3, 4), torch.randn(7, 2, 3, 4)
# value = torch.randn(7, 2, 3, 6)
# scores = torch.einsum("tbhk,sbhk->bhts", query, key) / 4**0.5
# x = torch.einsum("bhts,sbhd->tbhd", scores.softmax(dim=-1), value)
# torch.testing.assert_close(x, einsum_attention(query, key, value))
# ```
#
# In one run at the largest size of the table it took 509 ms, the form on the page 911
# and matrix products 508. The page keeps `[T, S, B, H]`, because version 0.5.1 has it,
# and code that replaces a part of its attention counts on that.
#
# </details>
#
# **2.** In *multi-query* attention ([@shazeer2019fast]) all heads share one key and one
# value, and only queries are many. Use the functions of this page. How much smaller is
# what a model keeps of the positions it has read?
#
# <details><summary>Answer</summary>
#
# By a factor of $H$. `expand` shows the one head $H$ times without copying it.
#
# ```python
# import torch
# from labml_nn.transformers.scaled_dot_product import fused_attention
#
# query = torch.randn(5, 2, 3, 4)
# key, value = torch.randn(7, 2, 1, 4), torch.randn(7, 2, 1, 6)
# heads = (-1, -1, 3, -1)
# x = fused_attention(query, key.expand(heads), value.expand(heads))
# for h in range(3):
#     alone = fused_attention(query[:, :, h : h + 1], key, value)
#     torch.testing.assert_close(x[:, :, h : h + 1], alone)
# ```
#
# </details>
#
# **3.** Compute attention without ever holding the scores of more than two keys. A mean
# over blocks is easy if the weights are $e^{E}$ and their sum is kept beside it; but
# $e^{E}$ overflows. Divide by the largest so far, and correct what was added before.
#
# <details><summary>Answer</summary>
#
# When a larger score turns up, sum and mean so far shrink by $e^{\text{old} -
# \text{new}}$ ([@milakov2018online]). It is what the kernels do.
#
# ```python
# import torch
# from labml_nn.transformers.scaled_dot_product import dot_products, einsum_attention
#
# query, key = torch.randn(5, 2, 3, 4), torch.randn(7, 2, 3, 4)
# value = torch.randn(7, 2, 3, 6)
# largest = torch.full((5, 2, 3), -torch.inf)  # [T, B, H]
# total, x = torch.zeros(5, 2, 3), torch.zeros(5, 2, 3, 6)
# for k, v in zip(key.split(2), value.split(2)):
#     scores = dot_products(query, k) / 4**0.5  # [T, 2, B, H]
#     larger = torch.maximum(largest, scores.amax(dim=1))
#     weights, shrink = (scores - larger[:, None]).exp(), (largest - larger).exp()
#     total = total * shrink + weights.sum(dim=1)
#     x = x * shrink[..., None] + torch.einsum("tsbh,sbhd->tbhd", weights, v)
#     largest = larger
# torch.testing.assert_close(x / total[..., None], einsum_attention(query, key, value))
# ```
#
# </details>
