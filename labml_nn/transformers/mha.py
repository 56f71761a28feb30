r"""
---
title: Multi-head attention
summary: >
  Every position of a sequence asks a question, every position offers an answer, and
  several heads listen at once. It is the part that all transformers share.
paper: https://arxiv.org/abs/1706.03762
notebook: notebooks/mha.ipynb
---

*But, soft! what light through yonder window breaks? It is the east, and Juliet is the
sun.* To understand *it* we look back at *light*, and to understand *sun* we look back
at *Juliet*. Attention lets a network do the same: each position of a sequence looks at
all positions, decides how much each of them matters, and takes over what it finds.

Each position has a **query**, which says what it wants to know, a **key**, which says
what there is to be found, and a **value**, which is what is found. How values are
weighed by how well their keys fit a query is
[scaled dot-product attention](scaled_dot_product.py)
([@vaswani2017attention, §3.2.1, eq. 1]):

$$\operatorname{Attention}(Q, K, V)
    = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

One set of weights makes one mean, and a mean blurs what it mixes. A word that needs its
subject *and* its verb would get something halfway between the two. So attention runs
$H$ times side by side, in **heads** (§3.2.2). Each head has matrices of its own, makes
small queries, keys and values with them, and learns to look for something of its own:

\begin{align}
\operatorname{MultiHead}(X^Q, X^K, X^V)
    &= \operatorname{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_H) \, W^O \\
\mathrm{head}_h
    &= \operatorname{Attention}(X^Q W^Q_h, \; X^K W^K_h, \; X^V W^V_h)
\end{align}

![Three heads set by hand, to look back by 0, 1 and 4
places.](figure:heads.by_hand)

Heads are narrow: with $d_k = d_v = C / H$ features each, all of them together cost as
many multiplications as a single head of full width.

When queries, keys and values are made from the same sequence, this is
*self-attention*. When a decoder asks about the sentence that it translates, its queries
come from one sequence and keys and values from another: *cross-attention*. Both are the
same code. [Shapes and symbols](../../notation.md) explains the letters of the shapes.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $X^Q$ | `query` of `forward` and `attend_to` | `[T, B, C]` | the vectors that ask |
| $X^K$ | `key` of `forward` and `project` | `[S, B, C]` | the vectors that answer |
| $X^V$ | `value` of `forward` and `project` | `[S, B, C]` | what they hand out |
| $Q$ | `query` of `attend`, `queries` of `_answer` | `[T, B, H, K]` | the queries |
| $K$ | `key` of `attend`, `keys` of `KeysValues` | `[S, B, H, K]` | the keys |
| $V$ | `value` of `attend`, `values` of `KeysValues` | `[S, B, H, D]` | the values |
| $M$ | `mask` | `[T\|1, S, B\|1]` | which keys a query may see |
| $E$ | `scores` of `attend` | `[T, S, B, H]` | how well each key fits each query |
| $A$ | `attn` | `[T, S, B, H]` | the weights, $\sum_s A_{tsbh} = 1$ |
| $W^Q$ | `query.linear.weight` | `[H·K, C]` | the map of all heads |
| $W^K$ | `key.linear.weight` | `[H·K, C]` | the same for keys |
| $W^V$ | `value.linear.weight` | `[H·D, C]` | the same for values |
| $W^O$ | `output.weight` | `[C, H·D]` | the map that joins the heads |
"""

import math
from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import (
    check_attention_heads,
    check_heads,
    check_probability,
    check_sequence,
    check_sizes,
)
from labml_nn.transformers.heads import (
    PrepareForMultiHeadAttention,
    as_written,
    map_together,
)
from labml_nn.transformers.keys_values import KeysValues, check_values
from labml_nn.transformers.rotary import Rotation, rotate
from labml_nn.transformers.scaled_dot_product import (
    attention_weights,
    dot_products,
    fused_attention,
    weighted_mean,
)
from labml_nn.transformers.utils import check_mask, share_among_heads

__all__ = ["KeysValues", "MultiHeadAttention", "PrepareForMultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    r"""
    ## Multi-head attention

    The computation exists twice. `attend` is the equation line by line, and it is what
    you came to read. `attend_fast` is the same in one call of PyTorch. The module takes
    the fast form unless you ask for something that only the other one has: set
    `store_attn` and find the weights of the last call in `attn`, or override
    `get_scores`.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        *,
        output_bias: bool | None = None,
        store_attn: bool = False,
        d_k: int | None = None,
        d_v: int | None = None,
    ) -> None:
        r"""
        * `heads` is the number of heads, $H$
        * `d_model` is the number of features of a position, $C$
        * `dropout_prob` is the probability of dropping a weight during training
        * `bias` is whether the four linear maps have biases
        * `output_bias` decides it for values and output alone; `None` follows `bias`
        * `store_attn` is whether each call keeps its weights in `attn`
        * `d_k` and `d_v` are the number of features that one head has for a query or a
          key, and for a value; `d_model / heads` if not given

        Raises `ValueError` if `heads` has to divide `d_model` and does not, and
        `ValueError` or `TypeError` for a size or a probability that cannot be.
        """
        super().__init__()
        check_probability(dropout_prob=dropout_prob)
        check_sizes(heads=heads, d_model=d_model)

        # The heads share the width of the model, unless they are told their own.
        if d_k is None or d_v is None:
            check_heads(heads, d_model)
        self.heads = heads
        self.d_model = d_model
        self.d_k = d_model // heads if d_k is None else d_k
        self.d_v = d_model // heads if d_v is None else d_v
        check_sizes(d_k=self.d_k, d_v=self.d_v)

        # One map for each role. With `bias=False` none has a bias; in version 0.5.1
        # values and output kept theirs. For its checkpoints add `output_bias=True`.
        if output_bias is None:
            output_bias = bias
        self.query = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.key = PrepareForMultiHeadAttention(d_model, heads, self.d_k, bias)
        self.value = PrepareForMultiHeadAttention(d_model, heads, self.d_v, output_bias)
        self.output = nn.Linear(heads * self.d_v, d_model, bias=output_bias)

        # Scores are divided by the root of the width that a dot product sums over.
        #
        # > [!WARNING]
        # > Some code divides by $\sqrt{C}$, which looks alike and is $\sqrt{H}$ times
        # > too much. With $C = 512$, 8 heads and 32 random keys, the largest weight is
        # > 0.06 on average instead of 0.16. Each query weighs 30 of the 32 keys as if
        # > they were the same, instead of 21 ($e$ to the entropy of its weights), and
        # > it has to learn larger numbers to say what it means. Found by
        # > `test_scores_have_variance_one`; [five more faults](../../faults.md).
        #
        # Scores are `[T, S, B, H]`, so the weights of one query lie along axis 1. They
        # are the largest tensor of the computation, and not kept unless asked for.
        self.scale = 1 / math.sqrt(self.d_k)
        self.softmax = nn.Softmax(dim=1)
        self.dropout = nn.Dropout(dropout_prob)
        self.store_attn = store_attn
        self.attn: Tensor | None = None

    def get_scores(
        self, query: Float[Tensor, "T B H K"], key: Float[Tensor, "S B H K"]
    ) -> Float[Tensor, "T S B H"]:
        """
        ### How well does each key fit each query?

        Override this to let something else count, such as the distance of $t$ and $s$.
        Scaling and masking come after it.
        """
        return dot_products(query, key)

    def prepare_mask(
        self,
        mask: Bool[Tensor, "#T S #B"],
        query_shape: Sequence[int],
        key_shape: Sequence[int],
    ) -> Bool[Tensor, "#T S #B 1"]:
        """
        ### All heads share the mask

        `query_shape` and `key_shape` begin with `[T, B]` and `[S, B]`. Raises what
        `check_mask` raises.
        """
        (length, batch, *_), key_length = query_shape, key_shape[0]
        return share_among_heads(check_mask(mask, length, key_length, batch))

    def attend(
        self,
        query: Float[Tensor, "T B H K"],
        key: Float[Tensor, "S B H K"],
        value: Float[Tensor, "S B H D"],
        mask: Bool[Tensor, "#T S #B #H"] | None = None,
    ) -> Float[Tensor, "T B H D"]:
        """
        ### Attention, line by line

        The lines of `einsum_attention`, each of which can be replaced here: the scores
        by another method, softmax and dropout by another module.
        """
        scores = self.get_scores(query, key) * self.scale
        attn = attention_weights(scores, mask, softmax=self.softmax)

        # Before dropout each row sums to one; these are the weights to look at. Then
        # some are dropped in training, so that none becomes indispensable.
        if self.store_attn:
            self.attn = attn.detach()
        return weighted_mean(self.dropout(attn), value)

    def attend_fast(
        self,
        query: Float[Tensor, "T B H K"],
        key: Float[Tensor, "S B H K"],
        value: Float[Tensor, "S B H D"],
        mask: Bool[Tensor, "#T S #B #H"] | None = None,
    ) -> Float[Tensor, "T B H D"]:
        """
        ### The same in one call

        [Attention in three forms](scaled_dot_product.py) has what that saves.
        """
        drop = self.dropout.p if self.dropout.training else 0.0
        return fused_attention(
            query, key, value, mask, scale=self.scale, dropout_prob=drop, checked=True
        )

    def project(
        self,
        *,
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        rotation: Rotation | None = None,
    ) -> KeysValues:
        r"""
        ### Half of the work: keys and values

        * `key` and `value` have shape `[S, B, C]`
        * `rotation` turns keys by [where they stand](rotary.py); `None` does not

        Returns keys and values of all heads for `attend_to`, as often as it is called.
        Those of a longer sequence are these with more rows: join them with `torch.cat`.
        """
        check_sequence("key", key, self.d_model)
        check_sequence("value", value, self.d_model)
        (keys,) = map_together(key, (self.key,), name="key")
        (values,) = map_together(value, (self.value,), name="value")
        return KeysValues(rotate(keys, rotation), values)

    def attend_to(
        self,
        *,
        query: Float[Tensor, "T B C"],
        past: KeysValues,
        mask: Bool[Tensor, "#T S #B"] | None = None,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### The other half: queries

        * `query` has shape `[T, B, C]`
        * `past` are keys and values of $S$ positions, from `project`
        * `mask` is boolean, `[T|1, S, B|1]`; `True` where the query may see the
          key. [Masks](utils.py) makes them; integers will do, with 0 for `False`
        * `rotation` turns queries, as it did keys

        Returns vectors of shape `[T, B, C]`. For a query that may see nothing the heads
        return zeros, and what is left is the bias of the output. Raises `ValueError`
        for shapes that do not fit or an empty sequence, `TypeError` for a dtype other
        than that of the parameters or a mask of floating-point numbers.
        """
        check_sequence("query", query, self.d_model)
        (queries,) = map_together(query, (self.query,), name="query")
        check_attention_heads(queries, *past)
        check_values(past.values, self.d_v)
        return self._answer((rotate(queries, rotation), *past), mask)

    def _answer(self, heads: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        queries, keys, values = heads
        if mask is not None:
            mask = self.prepare_mask(mask, queries.shape, keys.shape)

        # The readable form runs when its weights are wanted, or when anything between
        # scores and mean was replaced; what the kernels compute cannot be changed.
        if self.attn is not None:
            self.attn = None
        fast = as_written(self, MultiHeadAttention, "get_scores")
        fast &= type(self.softmax) is nn.Softmax and type(self.dropout) is nn.Dropout
        attend = self.attend_fast if fast and not self.store_attn else self.attend

        # Flattening lays the heads end to end, the $\operatorname{Concat}$ above. Where
        # it copies, the last map finds the memory of the original free, and warm.
        output: Tensor = self.output(attend(queries, keys, values, mask).flatten(-2))
        return output

    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "S B C"],
        value: Float[Tensor, "S B C"],
        mask: Bool[Tensor, "#T S #B"] | None = None,
    ) -> Float[Tensor, "T B C"]:
        r"""
        ### From vectors to vectors

        Both halves at once, with the arguments, the result and the errors of both.
        """
        # A sequence that attends to itself is [mapped at once](heads.py), unless
        # somebody has changed what the halves do.
        halves = as_written(self, MultiHeadAttention, "project", "attend_to")
        if query is key and key is value and halves:
            check_sequence("query", query, self.d_model)
            maps = (self.query, self.key, self.value)
            return self._answer(map_together(query, maps, name="query"), mask)
        past = self.project(key=key, value=value)
        return self.attend_to(query=query, past=past, mask=mask)


# ## Differences from the paper
#
# * **Biases.** The projections of §3.2.2 are matrices alone. Here they have biases,
#   as in the checkpoints of version 0.5.1; `bias=False` is the paper.
# * **Dropout of weights.** §5.4 drops outputs of sublayers and embeddings, and does not
#   name weights. Here they are dropped too, as in version 0.5.1.
# * **Blind queries** get zero here, where the equation has $0 / 0$.
#
# ## Exercises
#
# **1.** Shuffle a sequence that attends to itself without a mask. What happens?
#
# <details><summary>Answer</summary>
#
# The output is shuffled in the same way, and that is all. A sum over $s$ has no order:
# a sequence is a bag, until [positions](positional_encoding.py) are added.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=4, d_model=64).eval()
# x, order = torch.randn(10, 2, 64), torch.randperm(10)
# shuffled = attention(query=x[order], key=x[order], value=x[order])
# torch.testing.assert_close(shuffled, attention(query=x, key=x, value=x)[order])
# ```
#
# </details>
#
# **2.** One of the four biases never changes anything. Which one, and why?
#
# <details><summary>Answer</summary>
#
# That of the keys. It adds $\sum_k Q_{tbhk} \, b_{hk}$ to the score of every key, and
# a softmax ignores what is added to all of its inputs.
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
# **3.** Make an attention that prefers what is near: subtract half the distance of
# query and key from each score ([@press2021train] have a slope for each head).
#
# <details><summary>Answer</summary>
#
# The scale comes after `get_scores`, so divide by it first.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
#
# class NearbyAttention(MultiHeadAttention):
#     def get_scores(self, query, key):
#         t, s = torch.arange(len(query)), torch.arange(len(key))
#         penalty = 0.5 * (t[:, None] - s[None, :]).abs()
#         return super().get_scores(query, key) - penalty[..., None, None] / self.scale
#
# attention = NearbyAttention(heads=4, d_model=64, store_attn=True)
# x = torch.zeros(10, 2, 64)  # where all keys fit equally, the nearest one wins
# attention(query=x, key=x, value=x)
# assert (attention.attn.argmax(dim=1) == torch.arange(10)[:, None, None]).all()
# ```
#
# </details>
