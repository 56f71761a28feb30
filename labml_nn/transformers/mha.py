r"""
---
title: Multi-head attention
summary: >
  Every position takes a weighted average of all positions, with weights computed from the content,
  several times side by side.
paper: https://arxiv.org/abs/1706.03762
---

In a recurrent network, what an early token said reaches a late one only through all the hidden states
in between. **Attention** connects any two positions directly. Each position sends out a *query*; each
position offers a *key*, which says what it holds, and a *value*, which is what it holds. The output is
an average of the values, weighted by how well each key fits the query ([-@vaswani2017attention],
§3.2.1, eq. 1):

$$\operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

![Scaled dot-product attention, and three heads side by side.](figure:mha.diagram)

In training all positions are computed at the same time, and the path between two of them has length
one, however far apart they are: long-range dependencies become easier to learn. The price is one score
for every pair of positions, and that attention without a mask does not see the order of the tokens
([positional encoding](positional_encoding.py) adds it).

($Q$, $K$ and $V$ hold one query, key or value of $d_k$ features per row.) One average blurs: a position that needs the subject of the sentence *and* the previous word would get a
mixture of both. **Multi-head** attention computes $H$ averages with queries, keys and values of their
own, each on $d_k = C / H$ features, so that together they cost as much as a single one of full width
(§3.2.2):

$$\operatorname{MultiHead}(X, Y, Z) = \operatorname{Concat}(\text{head}_1, \dots, \text{head}_H)\, W^O,
\qquad \text{head}_h = \operatorname{Attention}(X W_h^Q, Y W_h^K, Z W_h^V)$$

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $X$, $Y$, $Z$ | `query`, `key`, `value` | `[T, B, C]`, `[S, B, C]` | inputs: $T$ queries, $S$ keys and values, $B$ sequences, $C$ features; all the same in self-attention |
| $W_h^Q$, $W_h^K$, $W_h^V$ | `self.query`, … | `[H D, C]` together | projections of all heads (`nn.Linear` stores them transposed) |
| $A$ | `attn` | `[T, S, B, H]` | attention weights: a distribution over the $S$ keys |
| $W^O$ | `self.output` | `[C, H D]` | mixes what the heads found |

With $d_k = C / H$ the four projections have $4 C^2$ weights and at most $4 C$ biases, whatever the number of heads.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.kernels import reference


class PrepareForMultiHeadAttention(nn.Module):
    r"""
    ## Projection into heads

    The matrices $W_1, \dots, W_H$ of all heads are stacked into one linear map. Its output of
    $H \cdot D$ features is cut into $H$ heads of $D = d_k$: nothing is computed by cutting, so the
    head is just one more axis.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool):
        super().__init__()
        self.linear = nn.Linear(d_model, heads * d_k, bias=bias)
        self.heads, self.d_k = heads, d_k

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H D"]:
        return self.linear(x).unflatten(-1, (self.heads, self.d_k))


class KVCache:
    r"""
    ## KV cache

    * `keys`, `values` are those of the positions before, `[S, B, H, D]`; `None` at the
      beginning
    * `positions` are the positions of the new tokens, `[T, B|1]`, for attention that
      depends on them; `None` counts on from `S`
    """

    def __init__(self, keys=None, values=None, positions=None):
        self.keys, self.values, self.positions = keys, values, positions

    def append(self, keys, values):
        if self.keys is not None:
            keys = torch.cat([self.keys, keys])
            values = torch.cat([self.values, values])
        self.keys, self.values = keys, values
        return keys, values


class MultiHeadAttention(nn.Module):
    r"""
    ## Multi-head attention

    * `heads` is the number of heads, $H$
    * `d_model` is the number of features of a position, $C$; a multiple of `heads`
    * `dropout_prob` is the dropout probability of the attention weights
    * `bias` is whether queries and keys have a bias; values and the output always do
    """

    def __init__(self, heads: int, d_model: int, dropout_prob: float = 0.1, bias: bool = True):
        super().__init__()
        assert d_model % heads == 0, f"d_model ({d_model}) must be divisible by heads ({heads})"
        self.heads, self.d_k = heads, d_model // heads
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias=True)
        self.output = nn.Linear(d_model, d_model)
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout_prob)

        # Why divide by $\sqrt{d_k}$: if the components of a query and a key are independent with mean 0
        # and variance 1, their dot product has variance $d_k$. With large $d_k$ the scores would be
        # large, the softmax would put almost all weight on one key, and its gradients would be close to
        # zero. The division brings the variance back to 1 (§3.2.1, footnote 4).
        self.scale = 1 / math.sqrt(self.d_k)
        self.attn = None

    def get_scores(
        self, query: Float[Tensor, "T B H D"], key: Float[Tensor, "S B H D"]
    ) -> Float[Tensor, "T S B H"]:
        r"""
        ### Scores

        $e_{tsh} = q_{th} \cdot k_{sh}$, for every query $t$, key $s$ and head $h$. The table is quadratic
        in the length: $H T S$ numbers per sequence, and $2\, T S C$ multiplications for scores and
        average together. Override this method for other scores.
        """
        return torch.einsum("tbhd,sbhd->tsbh", query, key)

    def prepare_mask(self, mask, query_shape, key_shape):
        "The mask `[T|1, S, B|1]` is `True` where a query may attend to a key; all heads share it."
        assert mask.shape[0] in (1, query_shape[0]) and mask.shape[2] in (1, query_shape[1])
        assert mask.shape[1] == key_shape[0]
        return mask.unsqueeze(-1)

    # This is the definition. A [kernel](kernels_attention.py) returns the same with PyTorch's fused
    # attention, which usually avoids storing the table of weights (`attn` is then not recorded).
    @reference
    def attend(
        self,
        query: Float[Tensor, "T B H D"],
        key: Float[Tensor, "S B H D"],
        value: Float[Tensor, "S B H D"],
        mask: Bool[Tensor, "#T S #B 1"] | None = None,
    ) -> Float[Tensor, "T B H D"]:
        r"""
        ### Weighted average

        $$A = \operatorname{softmax}\!\left(e / \sqrt{d_k}\right), \qquad o_{th} = \sum_s A_{tsh}\, v_{sh}$$
        """
        scores = self.get_scores(query, key) * self.scale

        # A masked key gets a score of $-\infty$ *before* the softmax, so its weight is exactly 0 and the
        # others still sum to 1. Zeroing weights *after* the softmax would leave rows that sum to less
        # than 1, and would let the masked keys' scores change everybody else's weight. A query whose
        # keys are all masked would be 0/0: in the softmax it sees all keys, and then its weights are set
        # to 0, so that its average is 0.
        if mask is not None:
            fully_masked = ~mask.any(dim=1, keepdim=True)
            scores = scores.masked_fill(~(mask | fully_masked), -math.inf)
        attn = self.softmax(scores)
        if mask is not None:
            attn = attn.masked_fill(fully_masked, 0.0)
        self.attn = attn.detach()

        # In training only, dropout sets some weights to 0 and multiplies the others by $1 / (1 - p)$. On
        # the scores it would not remove anything: a score of 0 means $e^0 = 1$ before normalisation.
        return torch.einsum("tsbh,sbhd->tbhd", self.dropout(attn), value)

    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        mask: Bool[Tensor, "#T S #B"] | None = None,
        cache: "KVCache | None" = None,
    ) -> Float[Tensor, "T B C"]:
        """
        ### All together

        In self-attention `query`, `key` and `value` are the same sequence; in cross-attention queries
        come from the target, keys and values from the source.
        """
        query, key, value = self.query(query), self.key(key), self.value(value)

        # A language model is trained with a *causal* mask, a lower triangle: all positions are queries at
        # once, and each may attend to itself and to earlier ones. So nothing depends on later positions,
        # and keys and values stay valid as a text grows. In generation they are kept in the
        # [cache](gpt.py): the newest token is the only query, against $S$ keys, and needs no mask, for
        # nothing comes after it.
        if cache is not None:
            key, value = cache.append(key, value)
        if mask is not None:
            mask = self.prepare_mask(mask.bool(), query.shape, key.shape)
        x = self.attend(query, key, value, mask)

        # The heads side by side are $C$ features again. $W^O$ lets each output feature combine what
        # different heads found; without it head $h$ could only ever write to its own $D$ features.
        return self.output(x.flatten(-2))


# ## Pseudo-code
#
# $$\begin{array}{l}
# \textbf{procedure } \text{MultiHeadAttention}(X, Y, Z, M) \\
# \quad \textbf{for } h = 1, \dots, H \\
# \quad\quad q, k, v \gets X W_h^Q + b_h^Q,\; Y W_h^K + b_h^K,\; Z W_h^V + b_h^V \\
# \quad\quad e \gets q k^\top / \sqrt{d_k}, \quad e_{ts} \gets -\infty \text{ where not } M_{ts} \\
# \quad\quad o_h \gets \text{dropout}(\text{softmax}(e))\, v \\
# \quad \textbf{return } [o_1, \dots, o_H]\, W^O + b^O
# \end{array}$$
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | `query.linear`, `key.linear`, `value.linear` | `[H D, C]`, `[H D]` | | $q$, $k$, $v$ | `[T, B, H, D]`, `[S, B, H, D]` |
# | `output` | `[C, H D]`, `[C]` | | $e$, $A$ | `[T, S, B, H]` |
#
# ## Cost
#
# For $T$ queries and $S = T$ keys: $O(T C^2)$ for the projections, $O(T^2 C)$ time and $O(H T^2)$ memory
# for scores and weights, and a constant number of sequential steps. A recurrent layer takes $O(T C^2)$
# time but $T$ steps one after the other (Table 1 of the paper).
#
# ## Differences from the paper
#
# * **Biases** in the projections; the paper writes none.
# * **Dropout on the attention weights**, as in the authors' code; the paper does not mention it.
