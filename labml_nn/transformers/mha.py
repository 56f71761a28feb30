r"""
---
title: Multi-head attention
summary: >
  Every position takes a weighted average of all positions, with weights computed from
  the content, in several heads side by side.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/mha.ipynb
---

In a recurrent network, what an early token said reaches a late one only through all
hidden states in between. **Attention** connects any two positions directly. Each
position sends out a *query*; each position offers a *key*, which says what it holds,
and a *value*, which is what it holds. The output is an average of the values, weighted
by how well each key fits the query ([@vaswani2017attention], §3.2.1, eq. 1):

$$\operatorname{Attention}(Q, K, V)
    = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

![Left: the steps of one head, from queries, keys and values to their average. Right:
all heads between their projections and the output projection.](figure:mha.diagram)

The rows of $Q$, $K$ and $V$ are queries, keys and values; the softmax turns each row
of scores $Q K^\top / \sqrt{d_k}$ into positive weights that sum to one. Every step is
differentiable, so queries learn to find what helps and keys learn to be found. It is
the lookup of a dictionary made soft: not the one entry whose key is equal, but all of
them, weighted by fit. Queries and keys have projections of their own, because a verb
may look for its subject without the subject looking for the verb; with a shared one the
scores would be symmetric, and largest as a rule between a position and itself.

In training all positions are computed in parallel, and the path between two of them has
length one, however far apart they are, so long-range dependencies are easier to learn.
The price is one score for every pair of positions. And attention without a mask does
not see the order of the tokens: [positional encoding](positional_encoding.py) adds it.

One average blurs: a position that needs the subject of the sentence *and* the previous
word would get a mixture of both. **Multi-head** attention computes $H$ averages with
projections of their own (§3.2.2). Each head has only $d_k = C / H$ features, so that
all together cost as much as a single head of full width:

\begin{align}
\operatorname{MultiHead}(X, Y, Z)
    &= \operatorname{Concat}(\text{head}_1, \dots, \text{head}_H) \, W^O \\
\text{head}_h &= \operatorname{Attention}(X W_h^Q, \; Y W_h^K, \; Z W_h^V)
\end{align}

![Three heads with hand-set projections attend to the positions 0, 1 and 4 places
before.](figure:heads.by_hand)

In **self-attention** $X = Y = Z$ is one sequence. In **cross-attention** the queries
come from one sequence, such as a translation, and keys and values from another, such as
the source sentence ([encoder–decoder](models.py)).

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $X$ | `query` of `forward` | `[T, B, C]` | input of the queries, $T$ positions |
| $Y$, $Z$ | `key`, `value` of `forward` | `[S, B, C]` | inputs of keys and values |
| $Q$ | `query` of `attend` | `[T, B, H, D]` | queries, $D = d_k$ features each |
| $K$ | `key` of `attend` | `[S, B, H, D]` | keys |
| $V$ | `value` of `attend` | `[S, B, H, Dv]` | values, $d_v$ features each |
| $M$ | `mask` | `[T\|1, S, B\|1]` | `True` where a query may attend to a key |
| $e$ | `scores` | `[T, S, B, H]` | scores |
| $A$ | `attn` | `[T, S, B, H]` | attention weights, $\sum_s A_{tsbh} = 1$ |
| $W^Q$, $W^K$ | `query.linear`, `key.linear` | `[H·D, C]` | projections of all heads |
| $W^V$ | `value.linear` | `[H·Dv, C]` | the same for values |
| $W^O$ | `output.weight` | `[C, H·Dv]` | output projection, which combines the heads |

$B$ sequences have $C$ features at each position. `nn.Linear` stores its matrix
transposed; the table gives shapes as stored.

</details>
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_bool, check_heads, check_probability, check_sizes
from labml_nn.kernels import reference

__all__ = ["KVCache", "MultiHeadAttention", "PrepareForMultiHeadAttention"]


class PrepareForMultiHeadAttention(nn.Module):
    r"""
    ## Projection into heads

    The matrices $W_1, \dots, W_H$ of all heads, $C \times d_k$ each, stand side by side
    in one linear map: $x \, [W_1, \dots, W_H] = [x W_1, \dots, x W_H]$. Its output is
    cut into $H$ heads of $D = d_k$ features.

    One large product replaces $H$ small ones. The cut computes nothing: the head
    becomes an axis of its own, and head $h$ sees *all* $C$ input features through its
    own $W_h$, not only a slice of them.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        super().__init__()
        check_sizes(d_model=d_model, heads=heads, d_k=d_k)
        check_bool(bias=bias)
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads, self.d_k = heads, d_k

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H _"]:
        return torch.unflatten(self.linear(x), -1, (self.heads, self.d_k))


class MultiHeadAttention(nn.Module):
    r"""
    ## Multi-head attention

    * `heads` is the number of heads, $H$
    * `d_model` is the number of features of a position, $C$
    * `dropout_prob` is the dropout probability of the attention weights
    * `bias` is whether the projections have biases
    * `output_bias` decides it for values and output; `None` follows `bias`. Version
      0.5.1 always has these two: for its checkpoints with `bias=False`, give
      `output_bias=True`
    * `d_k` and `d_v` are the features of one head, for queries and keys and for values;
      `None` is $C / H$

    With $d_k = d_v = C / H$ each of the four matrices is $C \times C$: $4 C^2$ weights
    and up to $4 C$ biases, whatever the number of heads. More heads do not add
    parameters; they divide the same features into more and smaller subspaces.

    Raises `ValueError` if `d_model` is not divisible by `heads` and `d_k` or `d_v` is
    missing.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        *,
        output_bias: bool | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
    ) -> None:
        super().__init__()
        check_probability(dropout_prob=dropout_prob)
        check_sizes(heads=heads, d_model=d_model)
        if d_k is None or d_v is None:
            check_heads(heads, d_model)
        self.heads, self.d_model = heads, d_model
        self.d_k = d_model // heads if d_k is None else d_k
        self.d_v = d_model // heads if d_v is None else d_v
        check_sizes(d_k=self.d_k, d_v=self.d_v)
        output_bias = bias if output_bias is None else output_bias
        check_bool(bias=bias, output_bias=output_bias)

        # The softmax runs over axis 1 of the scores `[T, S, B, H]`, the keys: the
        # weights of one query sum to one. Over the queries, axis 0, it would have the
        # right shape and raise no error, but under a causal mask later queries would be
        # in the denominator: the future leaks. A test: change a token, and the outputs
        # before it must not change.
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_v, output_bias)
        self.output = nn.Linear(heads * self.d_v, d_model, bias=output_bias)
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout_prob)

        # Why divide by $\sqrt{d_k}$: if the components of a query and a key are
        # independent with mean 0 and variance 1, their dot product, a sum of $d_k$
        # terms, has variance $d_k$. For large $d_k$ the scores would be large, the
        # softmax would saturate, with almost all weight on one key, and its gradients
        # would vanish: $\partial A_i / \partial e_j = A_i (\delta_{ij} - A_j)$ is near
        # 0 for all $i$ and $j$ if one weight is near 1 and the others near 0. The
        # division brings the variance back to 1 (§3.2.1, footnote 4).
        #
        # > [!WARNING]
        # > $\sqrt{C}$ in place of $\sqrt{d_k}$ is a common mistake, and divides by
        # > $\sqrt{H}$ too much: with $C = 512$, 8 heads and 32 random keys the largest
        # > weight is 0.06 on average instead of 0.16, close to a plain average, and
        # > queries and keys have to grow before attention can select anything.
        self.scale = 1 / math.sqrt(self.d_k)
        self.attn: Tensor | None = None

    def get_scores(
        self, query: Float[Tensor, "T B H D"], key: Float[Tensor, "S B H D"]
    ) -> Float[Tensor, "T S B H"]:
        r"""
        ### Scores

        $$e_{tsbh} = Q_{tbh} \cdot K_{sbh} = \sum_{d=1}^{d_k} Q_{tbhd} \, K_{sbhd}$$

        They are divided by $\sqrt{d_k}$ afterwards, in `attend`.
        Every query $t$ meets every key $s$, for each sequence $b$ and head $h$
        separately; only the features $d$ are summed over. The table is quadratic in the
        length: $H T S$ numbers per sequence. *Additive* attention computes each score
        with a small network instead; dot products are one matrix product, faster and
        with less memory (§3.2.1). To use other scores, override this method.
        """
        return torch.einsum("tbhd,sbhd->tsbh", query, key)

    def prepare_mask(
        self,
        mask: Tensor,
        query_shape: torch.Size | tuple[int, ...],
        key_shape: torch.Size | tuple[int, ...],
    ) -> Bool[Tensor, "#T S #B 1"]:
        r"""
        ### Mask

        $M$, `[T|1, S, B|1]`, is `True` where a query may attend to a key, and an axis
        of length one stands for all: causal masks are `[T, S, 1]`, padding masks `[1,
        S, B]` ([masks](utils.py)). A last axis is added for the heads, which share the
        mask. `query_shape` and `key_shape` begin with `[T, B]` and `[S, B]`.

        Integers count as booleans. Floating-point masks are refused with a `TypeError`,
        because elsewhere they are added to the scores, with the opposite meaning; other
        shapes raise a `ValueError`, because they could broadcast without an error.
        """
        if mask.is_floating_point():
            raise TypeError(
                f"`mask` has dtype {mask.dtype}; expected torch.bool, True = may "
                "attend; mask == 0 converts a mask that is added to scores"
            )
        (length, batch), keys = query_shape[:2], key_shape[0]
        shapes = [(t, keys, b) for t in (length, 1) for b in (batch, 1)]
        if tuple(mask.shape) not in shapes:
            raise ValueError(
                f"`mask` has shape {list(mask.shape)}; expected [T or 1, S, B or 1] "
                f"with T = {length}, S = {keys}, B = {batch}; mask[:, :, None] adds a "
                "missing batch axis"
            )
        return mask.bool().unsqueeze(-1)

    @reference
    def attend(
        self,
        query: Float[Tensor, "T B H D"],
        key: Float[Tensor, "S B H D"],
        value: Float[Tensor, "S B H Dv"],
        mask: Bool[Tensor, "#T S #B #H"] | None = None,
    ) -> Float[Tensor, "T B H Dv"]:
        r"""
        ### Weighted average

        $$A = \operatorname{softmax}_s\!\left(\frac{e}{\sqrt{d_k}}\right), \qquad
            o_{tbh} = \sum_s A_{tsbh} \, V_{sbh}$$
        """
        scores = self.get_scores(query, key)
        scores = scores * self.scale

        # A masked key gets a score of $-\infty$ *before* the softmax: its weight is
        # exactly 0, and the other weights still sum to 1. To set weights to 0 *after*
        # the softmax would leave rows that sum to less than 1, and the masked keys'
        # scores would still be in the denominator, so that what is to be hidden changes
        # the other weights. (And $-10^9$ in place of $-\infty$ does not fit into
        # float16, whose largest number is 65,504.)
        #
        # A query with *all* its keys masked would be 0/0. It attends to all keys in the
        # softmax, so that numbers and gradients stay finite, and afterwards all its
        # weights are set to 0. Before dropout this is the only row whose weights do not
        # sum to 1: its average is 0, and no gradient passes.
        if mask is not None:
            fully_masked = ~mask.any(dim=1, keepdim=True)
            scores = scores.masked_fill(~(mask | fully_masked), -math.inf)
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(fully_masked, 0.0)
        self.attn = attn.detach()

        # In training, dropout sets some weights to 0 and multiplies the others by
        # $1 / (1 - p)$, so that no query relies on a single key. It comes after the
        # softmax: dropout on the scores would remove nothing, because a score of 0
        # still has the weight $e^0 = 1$ before normalisation.
        return torch.einsum("tsbh,sbhd->tbhd", self.dropout(attn), value)

    # Copies and pickles of the module leave the recorded weights behind.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "attn": None}

    # `attend` and `forward` are the definitions. [Kernels](../kernels/attention.py)
    # compute the same with PyTorch's fused attention, which does not store the table of
    # weights: `attn` is `None` then. For the weights of the last call, run the module
    # in `with labml_nn.kernels.disabled():`.
    @reference
    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        mask: Bool[Tensor, "#T _ #B"] | None = None,
        cache: "KVCache | None" = None,
    ) -> Float[Tensor, "T B C"]:
        """
        ### Forward pass

        * `query`, `key` and `value` are the inputs $X$, $Y$ and $Z$; the same tensor
          three times in self-attention
        * `mask` is $M$, with the cached keys first if there is a cache
        * `cache` holds keys and values of earlier positions, and takes the new ones

        Returns `[T, B, C]`. A fully masked query gets zeros from all heads, so that its
        output is the bias of the output projection, and zero only without one.
        """
        query = self.query(query)
        key = self.key(key)
        value = self.value(value)
        if cache is not None:
            key, value = cache.append(key, value)
        if mask is not None:
            mask = self.prepare_mask(mask, query.shape, key.shape)
        x = self.attend(query, key, value, mask)

        # The outputs of the heads, side by side, are $H \cdot d_v$ features again.
        # $W^O$ lets each output feature combine what different heads found; without it,
        # head $h$ could only write to its own $d_v$ features.
        x = x.flatten(-2)
        output: Tensor = self.output(x)
        return output


class KVCache:
    r"""
    ## KV cache

    A language model is trained with a *causal* mask, a lower triangle: all positions
    are queries at once, and each attends to itself and to earlier positions only. So
    nothing that is computed for a position depends on later ones, in any layer, and its
    keys and values stay valid when the sequence grows. In generation they are computed
    once and kept in a cache: each new token is a single query against $S$ cached keys,
    $O(S C + C^2)$ with its projections, where the whole sequence again would take
    $O(S^2 C + S C^2)$. No mask is needed, because nothing stands after the newest token
    yet. Old queries are not kept, since only the outputs of their own positions need
    them. The price is memory: $2 S C$ numbers per layer and sequence.

    * `keys` and `values` are those of the positions before, `[S, B, H, D]`; `None` at
      the beginning
    * `positions` are the positions of the new tokens, `[T, B|1]`, for attention that
      depends on them; `None` counts on from $S$
    """

    def __init__(
        self,
        keys: Float[Tensor, "S B H D"] | None = None,
        values: Float[Tensor, "S B H Dv"] | None = None,
        positions: Int[Tensor, "T #B"] | None = None,
    ) -> None:
        self.keys, self.values, self.positions = keys, values, positions

    def append(
        self, keys: Float[Tensor, "T B H D"], values: Float[Tensor, "T B H Dv"]
    ) -> tuple[Float[Tensor, "S B H D"], Float[Tensor, "S B H Dv"]]:
        """
        Stores and returns old and new keys and values together. The tensors that were
        given are not modified, so two continuations can start from the same ones.
        """
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys])
            values = torch.cat([self.values, values])
        self.keys, self.values = keys, values
        return keys, values


# ## Try it
#
# A trained transformer of 3 layers with 4 heads each runs in this page. See what each
# head attends to, switch heads off, and let the model continue your text.
#
# ![One of its 12 heads attends to the line break after the speaker's
# name.](figure:live.attention)

# ## Pseudo-code
#
# $$\begin{array}{l}
# \textbf{procedure } \text{MultiHeadAttention}(X, Y, Z, M) \\
# \quad \textbf{for } h = 1, \dots, H \\
# \quad\quad Q, K, V \gets X W_h^Q + b_h^Q,\; Y W_h^K + b_h^K,\; Z W_h^V + b_h^V \\
# \quad\quad e \gets Q K^\top / \sqrt{d_k}, \quad e_{ts} \gets -\infty
#     \text{ where not } M_{ts} \\
# \quad\quad A \gets \text{softmax}(e), \quad A_t \gets 0 \text{ where no } M_{ts} \\
# \quad\quad o_h \gets \text{dropout}(A) \, V \\
# \quad \textbf{return } [o_1, \dots, o_H]\, W^O + b^O
# \end{array}$$
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | `query.linear`, `key.linear` | `[H·D, C]`, `[H·D]` | | $Q$ | `[T, B, H, D]` |
# | `value.linear` | `[H·Dv, C]`, `[H·Dv]` | | $K$ | `[S, B, H, D]` |
# | `output` | `[C, H·Dv]`, `[C]` | | $V$ | `[S, B, H, Dv]` |
# | | | | $e$, $A$ | `[T, S, B, H]` |
# | | | | $o$ | `[T, B, H, Dv]` |
#
# ## Cost
#
# Per sequence, for $T$ queries and as many keys (Table 1 of the paper):
#
# | | Self-attention | Recurrent layer |
# |:--|:--|:--|
# | Time | $O(T C^2)$ for projections, $O(T^2 C)$ for scores and averages | $O(T C^2)$ |
# | Memory for the backward pass | $O(T C + H T^2)$ | $O(T C)$ |
# | Sequential steps | $O(1)$ | $O(T)$ |
# | Longest path between two positions | 1 | $T - 1$ |
#
# The number of heads does not change the time: $H$ heads of $C / H$ features take
# $T^2 C$ multiplications for the scores and as many for the averages, like one of $C$.
# It does change the memory, for each head has its own table of weights. The projections
# take $4 T C^2$, so the quadratic part is the smaller one up to $T = 2 C$.
#
# The paper compares $T^2 C$ with the $T C^2$ of a recurrent layer: attention is cheaper
# if $T < C$. With its projections it takes more than the $2 T C^2$ of a plain recurrent
# layer at any length. What it gains are the parallel steps and the short path.
#
# ## Differences from the paper
#
# * **Biases** in the projections. The paper writes none; `bias=False` is the paper.
# * **Dropout on the attention weights**, as in the authors' code. §5.4 of the paper
#   names dropout on outputs of sublayers and on embeddings only.
# * **Fully masked queries** get zeros from the heads. The equation has 0/0 there.
#
# ## Exercises
#
# **1.** Permute the positions of a sequence in self-attention without a mask. What
# happens to the output?
#
# <details><summary>Answer</summary>
#
# It is permuted in the same way. A sum over keys has no order, so self-attention treats
# a sequence as a set, until positions are encoded in the inputs or the scores.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x, order = torch.randn(10, 2, 64), torch.randperm(10)
# permuted = attention(query=x[order], key=x[order], value=x[order])
# torch.testing.assert_close(permuted, attention(query=x, key=x, value=x)[order])
# ```
#
# </details>
#
# **2.** One of the four biases never changes the output. Which one, and why?
#
# <details><summary>Answer</summary>
#
# That of the keys. It adds $Q_{tbh} \cdot b_h$ to the scores of *all* keys of a query,
# and the softmax ignores what is added to all its inputs.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=4, d_model=64)
# x = torch.randn(10, 2, 64)
# attention(query=x, key=x, value=x).square().sum().backward()
# assert attention.key.linear.bias.grad.abs().max() < 1e-5
# ```
#
# </details>
#
# **3.** Confirm footnote 4: with $d_k = 512$, what is the variance of a dot product of
# random queries and keys, how large is the largest of 32 weights with and without the
# division, and how large is the gradient that the scores receive?
#
# <details><summary>Answer</summary>
#
# The variance is $d_k$. Without the division the largest weight is close to 1, and the
# gradient is a fraction of what it is with it.
#
# ```python
# import torch
#
# torch.manual_seed(0)
# query, key = torch.randn(1000, 1, 512), torch.randn(1000, 32, 512)
# products = (query * key).sum(-1)
# assert abs(products.var() / 512 - 1) < 0.1
#
# def largest_and_gradient(scale):
#     scores = (products * scale).requires_grad_()
#     attn = scores.softmax(-1)
#     attn[:, 0].sum().backward()
#     return attn.amax(-1).mean(), scores.grad.abs().mean()
#
# (large, small_gradient), (small, gradient) = map(largest_and_gradient, (1, 512**-0.5))
# assert large > 0.9 and small < 0.3 and gradient > 2 * small_gradient
# ```
#
# </details>
#
# **4.** Generate with a cache: process 9 tokens, then attend from the tenth to all ten
# without projecting the nine again.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.mha import KVCache, MultiHeadAttention
# from labml_nn.transformers.utils import subsequent_mask
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x, cache = torch.randn(10, 2, 64), KVCache()
# first, last = x[:9], x[9:]
# attention(query=first, key=first, value=first, mask=subsequent_mask(9), cache=cache)
# tenth = attention(query=last, key=last, value=last, cache=cache)
# whole = attention(query=x, key=x, value=x, mask=subsequent_mask(10))
# torch.testing.assert_close(tenth, whole[9:])
# ```
#
# </details>
#
# **5.** In *multi-query* attention ([@shazeer2019fast]) all heads share one key and one
# value. Write it as a subclass. How much smaller is its KV cache?
#
# <details><summary>Answer</summary>
#
# By a factor of $H$: the cache holds one head, which broadcasts against $H$ queries.
#
# ```python
# import torch
# from labml_nn.transformers.mha import (
#     KVCache, MultiHeadAttention, PrepareForMultiHeadAttention
# )
#
# class MultiQueryAttention(MultiHeadAttention):
#     def __init__(self, heads, d_model):
#         super().__init__(heads, d_model)
#         self.key = PrepareForMultiHeadAttention(d_model, 1, self.d_k, bias=True)
#         self.value = PrepareForMultiHeadAttention(d_model, 1, self.d_v, bias=True)
#
#     def attend(self, query, key, value, mask=None):
#         key, value = (x.expand(-1, -1, self.heads, -1) for x in (key, value))
#         return super().attend(query, key, value, mask)
#
# attention, cache, x = MultiQueryAttention(4, 64), KVCache(), torch.randn(10, 2, 64)
# assert attention(query=x, key=x, value=x, cache=cache).shape == (10, 2, 64)
# assert cache.keys.shape == (10, 2, 1, 16)
# ```
#
# </details>
