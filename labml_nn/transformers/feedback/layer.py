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
