r"""
---
title: Attention over a feedback memory
summary: >
  One query looks at all the rows that a feedback transformer has remembered so far.
  How relative positions enter the scores, and how to attend to a memory without ever
  projecting it.
paper: https://arxiv.org/abs/2002.09402
---

A [feedback transformer](index.html) reads one token at a time. So its attention has one
query per sequence, the token that is being read, and $S$ rows of memory to compare it
with, one for each token before. No mask hides the future: it has not been computed yet.

$$\operatorname{Attn}(x, m) = W_O \sum_{j=0}^{S-1} a_j \, (W_V m_j + b_V) + b_O, \qquad
a = \operatorname{softmax}_j \left( \frac{A_j}{\sqrt K} \right)$$

The scores $A_j$ compare the query with row $j$, by what the row says and by how far
back it lies. Every head does this for itself, with $K = C / H$ features.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `query` of `forward` | `[B, C]` | the token being read, normalised |
| $m_j$ | `key`, `value` of `attend_absorbed` | `[S, B, C]` | memory, oldest row first |
| $q$ | `query` of `get_scores` and `attend_absorbed` | `[B, H, K]` | $W_Q x$ |
| $E_d$, $b_d$ | `positions` | `[S, H, K]`, `[S, H]` | what distance $d$ means |
| $u$ | `query_pos_bias` | `[H, K]` | what every query asks for |
| | `mask` | `[S, B]` | which rows are a sequence's own, if not all |
| $a_j$ | `attn` | `[B, H, S]` | attention weights |
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_heads, check_probability, check_sizes
from labml_nn.transformers.feedback.checks import (
    check_query,
    check_row_mask,
    check_rows,
)
from labml_nn.transformers.feedback.positions import RelativePositions
from labml_nn.transformers.mha import PrepareForMultiHeadAttention


class FeedbackAttention(nn.Module):
    r"""
    ## Attention with one query
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        *,
        is_kv_precomputed: bool = False,
        max_distance: int = 2**12,
        store_attn: bool = False,
    ) -> None:
        r"""
        * `heads` is the number of heads $H$
        * `d_model` is the number of features $C$, divisible by `heads`
        * `dropout_prob` is the probability to drop an attention weight
        * `is_kv_precomputed` says that `key` and `value` come projected already, as
          `FeedbackTransformerKV` has them
        * `max_distance` is how many distances get parameters of their own; what is
          farther back shares those of the farthest
        * `store_attn` keeps the weights of the last call in `attn`

        Raises `ValueError` or `TypeError` for sizes that cannot work.
        """
        super().__init__()
        check_heads(heads, d_model)
        check_probability(dropout_prob=dropout_prob)
        check_sizes(max_distance=max_distance)
        self.d_model = d_model
        self.d_k = d_model // heads
        self.heads = heads
        self.is_kv_precomputed = is_kv_precomputed
        self.scale = 1 / math.sqrt(self.d_k)

        # $W_Q$, $W_K$, $W_V$ and $W_O$. A bias on the keys would add the same
        # $q^\top b_K$ to all scores of a query, and the softmax cannot see that; a bias
        # on the query is $u$ below.
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=False)
        self.key: PrepareForMultiHeadAttention | None = None
        self.value: PrepareForMultiHeadAttention | None = None
        if not is_kv_precomputed:
            self.key = PrepareForMultiHeadAttention(
                d_model, heads, self.d_k, bias=False
            )
            self.value = PrepareForMultiHeadAttention(
                d_model, heads, self.d_k, bias=True
            )
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_prob)

        # The tables end with distance 1, so that a memory of $S$ rows uses the last $S$
        # rows of them. The default size is that of existing checkpoints, and it is
        # large. In a `FeedbackTransformerKV` of 6 layers with $C = 512$ and $F = 2048$
        # the tables hold 12.8 of 29.1 million parameters, 44 %, and training on 128
        # tokens reaches 127 of the 4096 rows. `max_distance=127` learns the same with
        # 16.7 million parameters in all.
        self.P = max_distance
        self.key_pos_embeddings = nn.Parameter(torch.empty(self.P, heads, self.d_k))
        self.key_pos_bias = nn.Parameter(torch.empty(self.P, heads))
        self.query_pos_bias = nn.Parameter(torch.empty(heads, self.d_k))
        self.reset_parameters()

        self.store_attn = store_attn
        self.attn: Tensor | None = None

    def reset_parameters(self) -> None:
        r"""
        Begin with no opinion on distances: all of them zero.
        """
        for table in (self.key_pos_embeddings, self.key_pos_bias, self.query_pos_bias):
            nn.init.zeros_(table)

    def relative_positions(self, length: int) -> RelativePositions:
        r"""
        The parameters of distances $S, \dots, 2, 1$, with `length` for $S$.
        """
        return RelativePositions.look_up(
            self.key_pos_embeddings, self.key_pos_bias, length
        )

    def get_scores(
        self,
        query: Float[Tensor, "B H K"],
        key: Float[Tensor, "S B H K"],
        positions: RelativePositions | None = None,
    ) -> Float[Tensor, "S B H"]:
        r"""
        ### Scores

        Suppose that tokens had position vectors, added before the projections. Then
        query and key would each be a sum, and their product would have four terms.
        Transformer-XL ([@dai2019transformerxl, §3.3]) keeps the four and makes each a
        matter of *distance*, and so does this:

        $$A_j = \underbrace{q^\top k_j}_{\text{A}} + \underbrace{q^\top E_d}_{\text{B}}
        + \underbrace{u^\top k_j}_{\text{C}} + \underbrace{b_d}_{\text{D}},
        \qquad d = S - j$$

        A: does row $j$ say what I look for? B: do I, being what I am, look $d$ steps
        back? C: is row $j$ worth a look for anybody? D: is distance $d$?

        * `query` is $q$, `[B, H, K]`
        * `key` is $k$, `[S, B, H, K]`
        * `positions` holds $E$ and $b$; by default they are looked up for $S$ rows

        Returns $A$, `[S, B, H]`. A subclass may override it and have scores of its own.
        """
        if positions is None:
            positions = self.relative_positions(key.shape[0])

        # A and C share the key, so the sum $q + u$ does both at once.
        content = torch.einsum("bhk,sbhk->sbh", query + self.query_pos_bias, key)
        return content + positions.scores(query)

    def attend(
        self,
        query: Float[Tensor, "B H K"],
        key: Float[Tensor, "S B H K"],
        value: Float[Tensor, "S B H K"],
        positions: RelativePositions,
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B H K"]:
        r"""
        ### The readable form

        Scores, weights, weighted sum: $\sum_j a_j v_j$.
        """
        if self._overrides_scores():
            scores = self.get_scores(query, key)
        else:
            scores = self.get_scores(query, key, positions)
        return torch.einsum("bhs,sbhk->bhk", self._weights(scores, mask), value)

    def attend_absorbed(
        self,
        query: Float[Tensor, "B H K"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        positions: RelativePositions,
        to_key: nn.Linear,
        to_value: nn.Linear,
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B H K"]:
        r"""
        ### The fast form: leave the memory as it is

        Projecting the memory is the expensive part. Every layer has its own $W_K$ and
        $W_V$, so at each step each layer would project all $S$ rows anew: $2 S C^2$
        multiplications. But there is only *one* query, and a product can be bracketed
        the other way round:

        \begin{align}
        (q + u)^\top (W_K m_j) &= (W_K^\top (q + u))^\top m_j \\
        \sum_j a_j (W_V m_j + b_V) &= W_V \Big( \sum_j a_j m_j \Big) + b_V \sum_j a_j
        \end{align}

        On the right, the matrices meet one vector per head instead of $S$. That makes
        $2 C^2 + 2 S H C$ multiplications, where the readable form has
        $2 S C^2 + 2 S C$: with $S = 128$, $C = 256$ and $H = 8$, 0.66 million against
        16.8. It is also why `FeedbackTransformer` has to keep nothing but the plain
        memory vectors. DeepSeek-V2 reads its compressed memory in the same way
        ([-@deepseek2024deepseekv2, §2.1.2]).

        * `to_key`, `to_value` hold $W_K$, $W_V$ and $b_V$

        Returns the same as `attend` of the projected memory.
        """
        split = (self.heads, self.d_k)
        w_key = torch.unflatten(to_key.weight, 0, split)
        w_value = torch.unflatten(to_value.weight, 0, split)

        # $W_K^\top (q + u)$ lives in the space of the memory itself: one vector of $C$
        # features per head.
        probe = torch.einsum("bhk,hkc->bhc", query + self.query_pos_bias, w_key)
        content = torch.einsum("bhc,sbc->sbh", probe, key)
        weights = self._weights(content + positions.scores(query), mask)

        # $\sum_j a_j$ is 1 except under dropout, which removes weights and scales up
        # the others.
        context = torch.einsum("bhs,sbc->bhc", weights, value)
        x = torch.einsum("bhc,hkc->bhk", context, w_value)
        if to_value.bias is not None:
            bias = torch.unflatten(to_value.bias, 0, split)
            x = x + weights.sum(-1, keepdim=True) * bias
        return x

    def _weights(
        self, scores: Float[Tensor, "S B H"], mask: Bool[Tensor, "S #B"] | None
    ) -> Float[Tensor, "B H S"]:
        # Sequences that have read less than others of their batch have fewer rows. As
        # in `MultiHeadAttention.attend`, one that has none is blind and gets zeros.
        if mask is not None:
            blind = ~mask.any(0, keepdim=True)
            scores = scores.masked_fill(~(mask | blind)[..., None], -math.inf)

        # $a = \operatorname{softmax}(A / \sqrt K)$. Putting the rows last is free,
        # for that is how the product left them in memory, and the sums that follow run
        # along it.
        attn = (scores * self.scale).movedim(0, -1).softmax(-1)
        if mask is not None:
            attn = attn.masked_fill(blind.T[..., None], 0.0)
        self.attn = attn.detach().movedim(-1, 0) if self.store_attn else None
        dropped: Tensor = self.dropout(attn)
        return dropped

    def _overrides_scores(self) -> bool:
        # In a subclass, or on this one object.
        scores = getattr(self.get_scores, "__func__", None)
        return scores is not FeedbackAttention.get_scores

    def forward(
        self,
        *,
        query: Float[Tensor, "B C"],
        key: Float[Tensor, "S B *row"],
        value: Float[Tensor, "S B *row"],
        positions: RelativePositions | None = None,
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B C"]:
        r"""
        ### Choose a form

        * `query` is the token being read, `[B, C]`
        * `key`, `value` are the memory, `[S, B, C]`, at least one row; with
          `is_kv_precomputed` they are its keys and values, `[S, B, H, K]`
        * `positions` are those of $S$ rows, if they have been looked up
        * `mask` is `True` for the rows that a sequence may attend to, `[S, B or 1]`;
          `None`: all

        Returns `[B, C]`. Raises `ValueError` for shapes and `TypeError` for dtypes that
        do not fit.
        """
        shared = self.key is None or self.value is None
        check_query(query, self.d_model, self.output.weight)
        check_rows(
            key, value, query, (self.heads, self.d_k) if shared else (self.d_model,)
        )
        if mask is not None:
            check_row_mask(mask, key)
        query = self.query(query)

        # A transformer looks positions up once and passes them on: each look-up in the
        # large table costs a gradient as large as the table.
        if positions is None:
            positions = self.relative_positions(key.shape[0])

        # Somebody who replaced a projection, or the scores, means it to be used.
        if self.key is None or self.value is None:
            x = self.attend(query, key, value, positions, mask)
        elif self._overrides_scores() or not (
            type(self.key.linear) is type(self.value.linear) is nn.Linear
        ):
            x = self.attend(query, self.key(key), self.value(value), positions, mask)
        else:
            linear = (self.key.linear, self.value.linear)
            x = self.attend_absorbed(query, key, value, positions, *linear, mask)

        # Heads side by side again, and $W_O$.
        output: Tensor = self.output(x.flatten(1))
        return output


# ## Differences from the paper
#
# * **Terms C and D.** Fan et al. use relative positions too. In
#   [their code](https://github.com/facebookresearch/transformer-sequential) they are
#   term B alone, with one table for all heads and layers. Here every head of every
#   layer has its own, and there are $u$ and $b_d$ besides, as in Transformer-XL.
# * **No zeros.** There the memory is filled with zeros at first. Here it begins empty,
#   and is as long as what was read, up to the horizon of the model.
# * **Biases.** The output has one here, and so do values that are projected here.
#   Their code has none.
#
# ## Exercises
#
# **1.** What does attention to a memory give whose rows are all the same? Does the
# length of the memory leave a trace, or the distance?
#
# <details><summary>Answer</summary>
#
# Neither does. Weights sum to one, so the mean of equal values is that value, whatever
# the weights are: $E$, $b$ and $u$ may say what they like.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import FeedbackAttention
#
# attention = FeedbackAttention(heads=3, d_model=12, dropout_prob=0.0)
# torch.nn.init.normal_(attention.key_pos_bias)
# x, one = torch.randn(2, 12), torch.randn(1, 2, 12)
# seven = one.expand(7, 2, 12)
# attended = attention(query=x, key=one, value=one)
# torch.testing.assert_close(attention(query=x, key=seven, value=seven), attended)
# ```
#
# </details>
#
# **2.** Check the two ways to place the brackets against each other.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from labml_nn.transformers.feedback import FeedbackAttention
#
# attention = FeedbackAttention(heads=3, d_model=12, dropout_prob=0.0)
# x, memory = torch.randn(2, 12), torch.randn(5, 2, 12)
# fast = attention(query=x, key=memory, value=memory)
# projected = attention.query(x), attention.key(memory), attention.value(memory)
# heads = attention.attend(*projected, attention.relative_positions(5))
# torch.testing.assert_close(fast, attention.output(heads.flatten(1)))
# ```
#
# </details>
#
# **3.** For how many rows $S$ does the fast form multiply less than the readable one?
# Let PyTorch count.
#
# <details><summary>Answer</summary>
#
# $2 C^2 + 2 S H C < 2 S C^2 + 2 S C$ means $C < S (C + 1 - H)$. With $H = 1$ that is
# any $S > 1$, and with $C = 256$ and $H = 8$ too. For one row, the readable form is
# ahead by $(H - 1) / C$ of the work. PyTorch counts two operations per multiplication,
# and both forms multiply $S C$ times for term B.
#
# ```python
# import torch
# from torch.utils.flop_counter import FlopCounterMode
# from labml_nn.transformers.feedback import FeedbackAttention
#
# C, H = 256, 8
# attention = FeedbackAttention(H, C).eval()
# to_key, to_value = attention.key.linear, attention.value.linear
#
# def multiplications(S, fast):
#     q, m = torch.randn(1, H, C // H), torch.randn(S, 1, C)
#     positions = attention.relative_positions(S)
#     with FlopCounterMode(display=False) as counter:
#         if fast:
#             attention.attend_absorbed(q, m, m, positions, to_key, to_value)
#         else:
#             attention.attend(q, attention.key(m), attention.value(m), positions)
#     return counter.get_total_flops() // 2 - S * C
#
# for S in (2, 16, 128):  # of one row no product is made
#     assert multiplications(S, fast=True) == 2 * C**2 + 2 * S * H * C
#     assert multiplications(S, fast=False) == 2 * S * C**2 + 2 * S * C
# ```
#
# </details>
