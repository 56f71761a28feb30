r"""
---
title: Queries and keys of one length
summary: >
  Normalise every query and every key before they are compared, and no score can run
  away.
paper: https://arxiv.org/abs/2010.04245
---

The score of a query and a key is a dot product,

$$q \cdot k = |q| \, |k| \cos \angle(q, k)$$

and three things go into it: how well the two fit, which is the angle, and how long each
of them is. Nothing holds the lengths. A step of training that makes both maps a tenth
larger makes all scores a fifth larger. A softmax of large scores puts all weight on one
key, and then hardly any gradient comes back that could change its mind. The division by
$\sqrt{d_k}$ is right for vectors with features of variance 1, and the maps do not stay
like that. Large learning rates make it worse.

Henry et al. ([-@henry2020query]) take the lengths away. Each head's queries and keys
are normalised, and what is compared is their direction:

$$E_{ts} = \alpha \; \frac{q_t}{|q_t|} \cdot \frac{k_s}{|k_s|}$$

A cosine is between −1 and 1. How sharply a head may choose is left to $\alpha$, one
learned number. Here it is written with [RMSNorm](rms_norm.py), which gives a vector of
$K$ features the length $\sqrt{K}$ and each feature a gain:

\begin{align}
\hat{q} &= g^q \otimes \frac{q}{\operatorname{RMS}(q)} \\
\hat{k} &= g^k \otimes \frac{k}{\operatorname{RMS}(k)} \\
E_{ts} &= \frac{\hat{q}_t \cdot \hat{k}_s}{\sqrt{K}}
\end{align}

With all gains 1 that is the equation above with $\alpha = \sqrt{K}$: where the features
are independent the scores have variance 1, as the division by $\sqrt{K}$ wants it, and
no training can move them beyond $\pm \sqrt{K}$ but through the gains.

![The largest of 32 weights, as the maps of queries and keys
grow.](figure:qk_norm.growth)

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $q$, $k$ | what `super().cut` returns | `[T, B, H, K]` | queries, or keys |
| $\hat{q}$, $\hat{k}$ | `normalised` | `[T, B, H, K]` | of length $\sqrt{K}$ |
| $g$ | `norm.weight` | `[K]` | gains, shared by the heads |
"""

from jaxtyping import Float
from torch import Tensor

from labml_nn.transformers.heads import PrepareForMultiHeadAttention
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.rms_norm import RMSNorm


class NormalisedHeads(PrepareForMultiHeadAttention):
    """
    ## One map for all heads, and one length

    Each head's vector is normalised by itself, along its own $K$ features. Were the
    whole row normalised before it is cut, a loud head could still drown the others.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        """Arguments are those of `PrepareForMultiHeadAttention`."""
        super().__init__(d_model, heads, d_k, bias)
        self.norm = RMSNorm(d_k)

    def cut(self, mapped: Float[Tensor, "*axes HK"]) -> Float[Tensor, "*axes H K"]:
        r"""
        Takes `[T, B, H·K]`, returns `[T, B, H, K]`: vectors of length $\sqrt{K}$, times
        the gains.
        """
        normalised: Tensor = self.norm(super().cut(mapped))
        return normalised


class QKNormAttention(MultiHeadAttention):
    r"""
    ## Attention that compares directions

    A `MultiHeadAttention` in which two of the four maps have been replaced; everything
    else is as it was. Keys are kept normalised, since their lengths will not be asked
    for again. [Rotations](rotary.py) come after it, and change no lengths. Values keep
    theirs: how much there is to say is for them to decide.
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
        """Arguments and errors are those of `MultiHeadAttention`."""
        super().__init__(
            heads,
            d_model,
            dropout_prob,
            bias,
            output_bias=output_bias,
            store_attn=store_attn,
            d_k=d_k,
            d_v=d_v,
        )
        self.query = NormalisedHeads(d_model, heads, self.d_k, bias)
        self.key = NormalisedHeads(d_model, heads, self.d_k, bias)


# ## Differences from the paper
#
# * **Gains** for each feature instead of one number $\alpha$ for each attention. With
#   all gains equal the two are the same; see the second exercise.
# * **Where it begins.** The paper starts $\alpha$ at a number that depends on the
#   length of its texts. Here it is $\sqrt{K}$, whatever the text.
#
# ## Exercises
#
# **1.** Multiply the map of the queries by 100. What does that do to a
# `MultiHeadAttention`, and what to this one?
#
# <details><summary>Answer</summary>
#
# The first is left with one key for each query. The second does not notice.
#
# ```python
# import torch
# from labml_nn.transformers.mha import MultiHeadAttention
# from labml_nn.transformers.qk_norm import QKNormAttention
#
# x = torch.randn(32, 2, 64)
#
# def largest_weights(kind, factor):
#     torch.manual_seed(0)
#     attention = kind(4, 64, bias=False, store_attn=True)
#     with torch.no_grad():
#         attention.query.linear.weight.mul_(factor)
#     attention(query=x, key=x, value=x)
#     return attention.attn.amax(dim=1)  # [T, B, H]
#
# assert largest_weights(MultiHeadAttention, 100.0).mean() > 0.9
# before, after = (largest_weights(QKNormAttention, f) for f in (1.0, 100.0))
# assert torch.allclose(before, after, atol=1e-2) and after.mean() < 0.5
# ```
#
# </details>
#
# **2.** Set the gains so that scores are those of the paper with $\alpha = 10$, and
# check it.
#
# <details><summary>Answer</summary>
#
# The score is $g^2 K / \sqrt{K} = g^2 \sqrt{K}$ times the cosine, if all gains are $g$.
#
# ```python
# import torch
# from torch.nn import functional as F
# from labml_nn.transformers.qk_norm import QKNormAttention
#
# attention, x = QKNormAttention(3, 12, bias=False), torch.randn(7, 2, 12)
# for part in (attention.query, attention.key):
#     torch.nn.init.constant_(part.norm.weight, (10 / attention.d_k**0.5) ** 0.5)
#
# q, k = (part.linear(x).view(7, 2, 3, 4) for part in (attention.query, attention.key))
# cosine = torch.einsum(
#     "tbhk,sbhk->tsbh", F.normalize(q, dim=-1), F.normalize(k, dim=-1)
# )
# scores = attention.get_scores(attention.query(x), attention.key(x)) * attention.scale
# assert torch.allclose(scores, 10 * cosine, atol=1e-2)
# ```
#
# </details>
#
# **3.** How sure can a head be? Let one of $S$ keys point exactly along the query and
# all others against it. What is the largest weight for $K = 4$ and $K = 64$, with all
# gains 1?
#
# <details><summary>Answer</summary>
#
# The scores are $\sqrt{K}$ and $-\sqrt{K}$, so that the weight is
# $1 / (1 + (S - 1) \, e^{-2 \sqrt{K}})$. With $K = 4$ and 256 keys that is 0.18, and a
# narrow head needs larger gains to choose. With $K = 64$ it is 0.99997. Keys that are
# merely orthogonal count $e^{-\sqrt{K}}$ each: 0.92 at most.
#
# ```python
# import torch
#
# def largest(K, S, others):
#     scores = torch.full((S,), others * K**0.5)
#     scores[0] = K**0.5
#     return scores.softmax(0)[0].item()
#
# assert round(largest(4, 256, -1.0), 2) == 0.18
# assert round(largest(64, 256, -1.0), 5) == 0.99997
# assert round(largest(64, 256, 0.0), 2) == 0.92
# ```
#
# </details>
