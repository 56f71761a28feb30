r"""
---
title: "Modern components: RoPE, RMSNorm, QK-norm, gated networks"
summary: >
  Four changes to the original transformer that many current language models share:
  rotary positions, normalisation without the mean, normalised queries and keys, and
  feed-forward networks with a gate.
paper: https://arxiv.org/abs/2104.09864
---

If you open the code of a language model of today, you find the Transformer of 2017. But
nearly every part in it has been exchanged. Four of the new parts are in most models,
and you can use each without the others. They are small changes of parts that you know:
[positional encoding](positional_encoding.py), [layer normalisation](layer_norm.py),
[multi-head attention](mha.py) and the [feed-forward network](feed_forward.py).

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $p$ | `positions` | `[T, B\|1]` | positions of queries or keys, from 0 |
| $\omega_i$ | `frequencies` | `[D/2]` | radians per position of feature pair $i$ |
| $\alpha$ | `angles` | `[T, B\|1, 1, D/2]` | $p \, \omega_i$, the same for all heads |
| $x$ | `x` of `RMSNorm.forward` | `[T, B, C]` | vectors, each normalised alone |
| $\hat{x}$ | `normalised` | `[T, B, C]` | vectors of length $\sqrt{C}$ |
| $g$ | `weight` | `[C]` | learned gains |
| $\epsilon$ | `eps` | | keeps the denominator away from zero |
| $d_k$ | `d_k` | | features of a head, the axis $D$ |

</details>
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_last_axes, check_number, check_sizes
from labml_nn.transformers.checks import check_attention_inputs
from labml_nn.transformers.mha import (
    KVCache,
    MultiHeadAttention,
    PrepareForMultiHeadAttention,
)

# ## Rotary positions (RoPE)
#
# The sinusoids are added once, at the bottom, and each layer has to find out the
# distance of two tokens for itself. Could we tell attention the distance directly?
# *Rotary position embeddings* ([@su2021roformer]) do it with a trick that needs no
# parameters.
#
# Take a query and a key with two features each, both (1, 0). Two features are a point
# in the plane. Now turn each by its position in radians. The query at position 3
# becomes $(\cos 3, \sin 3) = (-0.99, 0.14)$, and the key at position 1 becomes $(\cos
# 1, \sin 1) = (0.54, 0.84)$. Their dot product is −0.42. Now move both by four, to
# positions 7 and 5. You get $(0.75, 0.66)$ and $(0.28, -0.96)$, and the dot product is
# −0.42 again. In fact it is $\cos 2$, because the positions differ by 2. If you turn
# two vectors by the same angle, their dot product stays the same. So only the
# *difference* of the angles counts (§3.2.2, eq. 16). With $R_p$ for the rotation by $p$
# positions,
#
# $$(R_p \, q) \cdot (R_s \, k) = q \cdot R_{s - p} \, k$$
#
# One angle is not enough, since it comes round after six positions. So there is one
# frequency for each pair of features, as there is one clock hand in the sinusoids (eq.
# 15, where the paper writes $\theta_i$):
#
# $$\omega_i = 10000^{-2 i / d_k}, \qquad i = 0, \dots, d_k / 2 - 1$$
#
# ![What two of the eight pairs contribute to the score of two equal vectors, and the
# mean of all.](figure:modern.distances)
#
# The fast pairs tell neighbours apart. The slow ones hardly turn within a text, so they
# compare what the tokens *are*, at any distance. Do we turn the values, too? No. Their
# average should tell what was found, and not where. And a turned key never changes
# again, so it stays valid in the KV cache.


def rotate(
    x: Float[Tensor, "T B H D"], positions: Int[Tensor, "T #B"], base: float = 10_000.0
) -> Float[Tensor, "T B H D"]:
    r"""
    ### Rotation

    Which two features make a point? Here it is feature $i$ and feature $i + d_k/2$:

    \begin{align}
    x'_i &= x_i \cos \alpha_i - x_{i + d_k/2} \sin \alpha_i \\
    x'_{i + d_k/2} &= x_i \sin \alpha_i + x_{i + d_k/2} \cos \alpha_i
    \end{align}

    It is the product with a block-diagonal matrix, without its zeros (eq. 34).

    * `x`: queries or keys, `[T, B, H, D]`
    * `positions`: those of `x`, `[T, B]`, or `[T, 1]` for all sequences
    * `base`: the 10,000 of the formula

    Returns the shape and dtype of `x`.
    """
    # An angle may be thousands of radians. In 32 bits it would not be exact, so we take
    # 64 (which Apple's GPUs do not have). For sine and cosine 32 bits are enough.
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    even = torch.arange(0, x.shape[-1], 2, dtype=wide, device=x.device)
    frequencies = torch.exp(-even * math.log(base) / x.shape[-1])
    angles = positions[..., None, None] * frequencies
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    first, second = x.chunk(2, dim=-1)
    rotated = [first * cos - second * sin, first * sin + second * cos]
    return torch.cat(rotated, dim=-1).to(x.dtype)


class RotaryMultiHeadAttention(MultiHeadAttention):
    r"""
    ### Self-attention with rotary positions

    A `MultiHeadAttention` that turns its queries and keys. Parameters, arguments
    (`sizes` are the other keyword arguments) and errors are the same, and

    * `base`: the 10,000 in the frequencies, more than 1. Models with long contexts use
      a larger one, so that the slow pairs stay slow

    An odd $d_k$ is a `ValueError`, too.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        *,
        base: float = 10_000.0,
        **sizes: Any,
    ) -> None:
        super().__init__(heads, d_model, dropout_prob, bias, **sizes)
        check_pairs(self.d_k)
        check_number("base", base)
        if not base > 1:
            raise ValueError(f"`base` ({base}) must be more than 1; 10000.0 is usual")
        self.base = base

    def forward(
        self,
        *,
        query: Float[Tensor, "T B C"],
        key: Float[Tensor, "T B C"],
        value: Float[Tensor, "T B C"],
        mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "T B C"]:
        """
        Arguments and result are those of `MultiHeadAttention.forward`; `query`, `key`
        and `value` are the same positions. `cache.positions` says which, `[T, B|1]`, if
        the sequences of a batch count differently (padding on the left). Without it
        they continue after the cached ones, or begin at 0.
        """
        check_attention_inputs(query, key, value)
        query, key, value = self.query(query), self.key(key), self.value(value)

        if cache is not None and cache.positions is not None:
            positions = cache.positions
        else:
            first = 0 if cache is None or cache.keys is None else len(cache.keys)
            positions = torch.arange(first, first + len(query), device=query.device)
            positions = positions.unsqueeze(1)
        query = rotate(query, positions, self.base)
        key = rotate(key, positions, self.base)

        # From here on it is `MultiHeadAttention`. The cache keeps turned keys.
        if cache is not None:
            key, value = cache.append(key, value)
        if mask is not None:
            mask = self.prepare_mask(mask, query.shape, key.shape)
        x = self.attend(query, key, value, mask)
        output: Tensor = self.output(x.flatten(-2))
        return output


def check_pairs(d_k: int) -> None:
    "Raises `ValueError` if `d_k` is odd: rotations need pairs of features."
    if d_k % 2:
        raise ValueError(
            f"`d_k` ({d_k}) must be even, because rotary positions rotate pairs of "
            f"features; try {d_k + 1}"
        )


# ## RMSNorm
#
# [Layer normalisation](layer_norm.py) does two things. It subtracts the mean of the
# features, and it divides by their standard deviation. Do we need both? Zhang and
# Sennrich ([-@zhang2019root]) left the first one out, and their models learned as well.
# What is left is a division by the **root mean square**. For example, the squares of
# (2, 0, 4, 2) have the mean 6, whose root is 2.449. So you get (0.816, 0, 1.633,
# 0.816). In formulas,
#
# \begin{align}
# \operatorname{RMS}(x) &= \sqrt{\frac{1}{C} \sum_{i=1}^{C} x_i^2 + \epsilon} \\
# \operatorname{RMSNorm}(x) &= g \odot \frac{x}{\operatorname{RMS}(x)}
# \end{align}
#
# The result points in the direction of $x$ and has the length $\sqrt{C}$, before the
# gains $g$. Layer normalisation removes the direction $(1, \dots, 1)$ first. But in
# features that are learned this is a direction like any other.


class RMSNorm(nn.Module):
    r"""
    ### Root mean square normalisation

    Arguments, parameter names and results are those of `torch.nn.RMSNorm`, so you can
    exchange checkpoints.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        r"""
        * `d_model`: number of features, $C$
        * `eps`: $\epsilon$, more than 0
        """
        super().__init__()
        check_sizes(d_model=d_model)
        check_number("eps", eps)
        if not eps > 0:
            raise ValueError(f"`eps` ({eps}) must be more than 0; 1e-5 is usual")
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.empty(d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        r"""
        Returns the shape and dtype of `x`. Squares of 16-bit numbers overflow or lose
        digits, so the computation takes at least 32 bits.
        """
        check_last_axes(x, self.d_model)
        wide = x if x.dtype == torch.float64 else x.float()
        inverse_rms = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        normalised = wide * inverse_rms
        return (normalised * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.d_model}, eps={self.eps}"


# ## QK-norm
#
# Take the query (3, 4) and the key (4, 3). Their dot product is 24. If you double both,
# it is 96. But do they fit four times as well? No, they point in the same directions as
# before. A score mixes two things, how well two vectors fit and how long they are: $q
# \cdot k = |q| \, |k| \cos \angle(q, k)$. Here the lengths are 5 and 5, and the cosine
# is 0.96.
#
# That is a problem, because nothing bounds the lengths. When they grow in training, the
# softmax gives nearly all weight to one key, its gradients vanish, and with a large
# learning rate training breaks down. Dividing by $\sqrt{d_k}$ helps only as long as the
# features have variance 1. So Henry et al. ([-@henry2020query]) normalise the queries
# and keys of each head. How sharp the weights are is left to one learned number
# $\alpha$:
#
# $$e_{ts} = \alpha \; \frac{q_t}{|q_t|} \cdot \frac{k_s}{|k_s|}$$
#
# We take RMSNorm over the $d_k$ features of a head, with gains that all heads share.
# While the gains are 1, each vector has the length $\sqrt{d_k}$, and the product is
# divided by $\sqrt{d_k}$ as always. So it is the equation with $\alpha = \sqrt{d_k}$.
# All scores lie within $\pm \sqrt{d_k}$, and only the gains can change that.
#
# ![The largest of 32 attention weights, as the projections of queries and keys
# grow.](figure:modern.growth)


class NormalisedHeads(PrepareForMultiHeadAttention):
    """
    ### Normalised projection

    A `PrepareForMultiHeadAttention` that normalises the features of each head. Why not
    all heads together? Then one large head would make all others small.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, bias: bool) -> None:
        super().__init__(d_model, heads, d_k, bias)
        self.norm = RMSNorm(d_k)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes H D"]:
        normalised: Tensor = self.norm(super().forward(x))
        return normalised


class QKNormAttention(MultiHeadAttention):
    r"""
    ### Attention with normalised queries and keys

    A `MultiHeadAttention` with two of its four projections replaced. Arguments and
    errors are the same. Values keep their lengths, which say how much a token hands
    over.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        dropout_prob: float = 0.1,
        bias: bool = True,
        **sizes: Any,
    ) -> None:
        super().__init__(heads, d_model, dropout_prob, bias, **sizes)
        self.query = NormalisedHeads(d_model, heads, self.d_k, bias)
        self.key = NormalisedHeads(d_model, heads, self.d_k, bias)


class RotaryQKNormAttention(RotaryMultiHeadAttention, QKNormAttention):
    r"""
    ### Rotary positions and normalised queries and keys

    We normalise first and turn then. Gains behind the rotation would stretch the two
    coordinates of a point differently, and scores would depend on absolute positions.
    """


# ## Gated networks
#
# In a feed-forward network each hidden feature decides alone how much of it passes. A
# gate lets a second projection of the input decide, too, $\operatorname{SwiGLU}(x) =
# (\operatorname{SiLU}(x W_1) \odot x V) \, W_2$ ([@shazeer2020glu]). The
# [feed-forward network](feed_forward.py) has this and four other variants. If you put
# all the parts of this page together, you have a layer of a language model of today:
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers import TransformerLayer
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.modern import RMSNorm, RotaryQKNormAttention
# from labml_nn.transformers.utils import subsequent_mask
#
# no_bias = {"bias1": False, "bias2": False, "bias_gate": False}
# layer = TransformerLayer(
#     d_model=384,
#     self_attn=RotaryQKNormAttention(6, 384, bias=False),
#     feed_forward=FeedForward(384, 1024, 0.1, nn.SiLU(), is_gated=True, **no_bias),
#     dropout_prob=0.1,
#     norm=RMSNorm,
# )
# y = layer(x=torch.randn(5, 2, 384), mask=subsequent_mask(5))
# assert y.shape == (5, 2, 384)
# assert not any(name.endswith("bias") for name, _ in layer.named_parameters())
# ```
#
# | Parameter | Shape | | Activation | Shape |
# |:--|:--|:--|:--|:--|
# | `RMSNorm.weight` | `[C]` | | $x$, $\hat{x}$ | `[T, B, C]` |
# | `query.norm.weight`, `key.norm.weight` | `[D]` | | $q$, $k$ | `[T, B, H, D]` |
# | (RoPE has none) | | | $\alpha$ | `[T, B\|1, 1, D/2]` |
#
# ## Differences from the papers
#
# * **Pairs of RoPE.** The paper pairs the neighbours $2i$ and $2i + 1$. Here the first
#   half of the features is paired with the second, as in GPT-NeoX. This is a
#   permutation of the projections' rows, but a checkpoint fixes one of the two.
# * **Positions of RoPE.** The paper counts on. With a [sliding-window
#   context](sliding_window.py) the window is computed anew, and its positions begin
#   again.
# * **RMSNorm** has an $\epsilon$, and normalises the residual stream, not the summed
#   inputs of each layer's units. The partial variant (*p*RMSNorm) is left out.
# * **QK-norm** has a gain for each feature in place of the one number $\alpha$, and
#   starts at $\alpha = \sqrt{d_k}$ where the paper derives a start from the length of
#   the sequences.
