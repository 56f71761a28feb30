r"""
---
title: Feedback transformer layer
summary: >
  A transformer layer that reads one token and a memory: attention, then a feed-forward
  network, each added to what comes in.
paper: https://arxiv.org/abs/2002.09402
---

Nothing about the layer itself is new: it is the layer of any transformer, with a single
query. What is new is where its `key` and `value` come from. An ordinary layer gets the
outputs of the layer *below* it; this one gets a memory that holds something of *all*
layers, and the [transformer around it](index.html) is in charge of that.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import check_probability, check_sizes
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.positions import RelativePositions


class FeedbackTransformerLayer(nn.Module):
    r"""
    ## Feedback transformer layer

    \begin{align}
    z^l &= x^{l-1} + \operatorname{Attn}(\operatorname{LN}(x^{l-1}), m) \\
    x^l &= z^l + \operatorname{FF}(\operatorname{LN}(z^l))
    \end{align}

    with dropout on both branches. The normalisation stands *before* attention and
    feed-forward, so that a path of plain additions leads from the top of a stack to its
    bottom, and gradients need not pass through anything on their way. The authors'
    code can normalise before or after; their published experiments normalise before.
    """

    def __init__(
        self,
        *,
        d_model: int,
        attn: FeedbackAttention,
        feed_forward: FeedForward,
        dropout_prob: float,
    ) -> None:
        r"""
        * `d_model` is the number of features $C$
        * `attn` attends to the memory
        * `feed_forward` maps `[..., C]` to `[..., C]`
        * `dropout_prob` is the probability to drop a feature of either branch

        Raises `ValueError` if `attn` has another width.
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_probability(dropout_prob=dropout_prob)
        if attn.d_model != d_model:
            raise ValueError(
                f"`attn` was built for d_model = {attn.d_model}, the layer for "
                f"d_model = {d_model}; build both with the same width"
            )
        self.size = d_model
        self.attn = attn
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout_prob)
        self.norm_self_attn = nn.LayerNorm([d_model])
        self.norm_ff = nn.LayerNorm([d_model])

    def forward(
        self,
        *,
        x: Float[Tensor, "B C"],
        key: Float[Tensor, "S B *row"] | None,
        value: Float[Tensor, "S B *row"] | None,
        positions: RelativePositions | None = None,
        mask: Bool[Tensor, "S #B"] | None = None,
    ) -> Float[Tensor, "B C"]:
        r"""
        * `x` is one token of each sequence, `[B, C]`
        * `key`, `value` are the memory as `FeedbackAttention.forward` takes it, or
          `None` if there is none yet
        * `positions` and `mask` are passed on to the attention

        Returns `[B, C]`. Raises `ValueError` if only one of `key` and `value` is given,
        and what the attention raises.
        """
        if (key is None) != (value is None):
            raise ValueError(
                "give both `key` and `value`, or neither on the first step"
            )

        # The first token has no past. Attention has nothing to add then, and the token
        # passes by. In a batch some may have no past while others have one: what
        # attention says of nothing, a bias, is not added to theirs.
        if key is not None:
            z = self.norm_self_attn(x)
            attended: Tensor = self.attn(
                query=z, key=key, value=value, positions=positions, mask=mask
            )
            if mask is not None:
                attended = attended.masked_fill(~mask.any(0).unsqueeze(1), 0.0)
            x = x + self.dropout(attended)

        output: Tensor = x + self.dropout(self.feed_forward(self.norm_ff(x)))
        return output


# ## Exercises
#
# **1.** Build the same layer out of an ordinary `MultiHeadAttention`: one query, the
# memory as keys and values, and no distances.
#
# <details><summary>Answer</summary>
#
# While the tables of distances are zero, as at the start, nothing else is left of
# feedback attention. Queries and keys have no bias here, so theirs have to be zero.
#
# ```python
# import torch
# from labml_nn.transformers import MultiHeadAttention
# from labml_nn.transformers.feedback import (
#     FeedbackAttention,
#     FeedbackTransformerLayer,
#     FeedForward,
# )
#
# ours = FeedbackAttention(heads=3, d_model=12, dropout_prob=0.0)
# network = FeedForward(12, 28, dropout=0.0)
# layer = FeedbackTransformerLayer(
#     d_model=12, attn=ours, feed_forward=network, dropout_prob=0.0
# )
# ordinary = MultiHeadAttention(heads=3, d_model=12, dropout_prob=0.0)
# shared = {k: v for k, v in ours.state_dict().items() if "pos" not in k}
# ordinary.load_state_dict(shared, strict=False)
# for part in (ordinary.query, ordinary.key):
#     torch.nn.init.zeros_(part.linear.bias)
#
# x, memory = torch.randn(2, 12), torch.randn(5, 2, 12)
# z = layer.norm_self_attn(x)
# z = x + ordinary(query=z[None], key=memory, value=memory)[0]
# by_hand = z + network(layer.norm_ff(z))
# torch.testing.assert_close(layer(x=x, key=memory, value=memory), by_hand)
# ```
#
# </details>
#
# **2.** The authors' code begins with a memory full of zeros, and the first token
# attends to it. What does attention tell it?
#
# <details><summary>Answer</summary>
#
# The value of a zero row is $b_V$, so attention says $W_O b_V + b_O$, to every token
# the same. Their maps have no biases, and there it says zero: the token passes by, as
# it does here.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import FeedbackAttention
#
# attention = FeedbackAttention(heads=3, d_model=12, dropout_prob=0.0)
# zeros = torch.zeros(5, 2, 12)
# told = attention(query=torch.randn(2, 12), key=zeros, value=zeros)
# expected = attention.output(attention.value.linear.bias)
# torch.testing.assert_close(told, expected.expand(2, 12))
#
# for bias in (attention.value.linear.bias, attention.output.bias):
#     torch.nn.init.zeros_(bias)
# assert (attention(query=torch.randn(2, 12), key=zeros, value=zeros) == 0).all()
# ```
#
# </details>
#
# **3.** How many parameters has the layer with $F = 4C$, without the tables of
# distances? How many less if keys and values come projected?
#
# <details><summary>Answer</summary>
#
# Four maps, biases for values and output, $H K = C$ numbers $u$, a network of
# $8 C^2 + 5 C$ and two norms: $12 C^2 + 12 C$. Without $W_K$, $W_V$ and $b_V$ it is
# $10 C^2 + 11 C$, a sixth less. `FeedbackTransformerKV` has the two maps once, for all
# of its layers.
#
# ```python
# import torch
# from labml_nn.transformers.feedback import (
#     FeedbackAttention,
#     FeedbackTransformerLayer,
#     FeedForward,
# )
#
# def parameters(C, shared):
#     attention = FeedbackAttention(8, C, is_kv_precomputed=shared, max_distance=1)
#     parts = {"attn": attention, "feed_forward": FeedForward(C, 4 * C)}
#     layer = FeedbackTransformerLayer(d_model=C, dropout_prob=0.1, **parts)
#     tables = C + 8  # E and b of one distance
#     return sum(p.numel() for p in layer.parameters()) - tables
#
# with torch.device("meta"):
#     for C in (128, 512):
#         assert parameters(C, shared=False) == 12 * C**2 + 12 * C
#         assert parameters(C, shared=True) == 10 * C**2 + 11 * C
# ```
#
# </details>
