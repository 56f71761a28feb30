r"""
---
title: Layer normalisation
summary: >
  Give every vector mean zero and variance one, whatever went in. Written out step by
  step, and equal to PyTorch's own; with what it does to gradients.
paper: https://arxiv.org/abs/1607.06450
---

A layer learns from what the layer below hands up, and the layer below keeps changing,
because it learns too. If its vectors grow to twice their size, everything above meets
numbers that it was not trained for. Layer normalisation takes that worry away: it moves
and scales each vector so that its features have mean 0 and variance 1. What is left is
the *pattern* of a vector, which features are high and which are low; how large it was
as a whole is forgotten.

Batch normalisation does the same with each feature over all the examples of a batch.
Then the result for one text depends on its neighbours in the batch, padding has to be
left out, and a batch of one has nothing to compare. A layer norm looks at one vector
alone, so none of this can happen, and it computes the same in training and in use.

For a vector $x$ of $C$ features ([@ba2016layer, eq. 3], with $\epsilon$ besides):

\begin{align}
\mu &= \frac{1}{C} \sum_{i=1}^{C} x_i \\
\sigma^2 &= \frac{1}{C} \sum_{i=1}^{C} (x_i - \mu)^2 \\
\hat{x} &= \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \\
\operatorname{LayerNorm}(x) &= g \otimes \hat{x} + b
\end{align}

The gain $g$ and the bias $b$ are learned, one number each per feature. They start at 1
and 0, and give the layer above a scale of its own choice, which no longer depends on
the vector.

In a transformer each part of a layer has one. *Where* it stands, before the part or
after the sum, decides how gradients flow; [the transformer layer](layer.py) has both.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the vectors, each of which is normalised alone |
| $\mu$ | `mean` | `[T, B, 1]` | their means |
| $\sigma^2$ | `variance` | `[T, B, 1]` | their variances |
| $\hat{x}$ | `normalised` | `[T, B, C]` | mean 0, variance 1 |
| $g$, $b$ | `weight`, `bias` | `[C]` | learned gain and bias |
| $\epsilon$ | `eps` | | keeps the denominator away from zero |
"""

import math
from collections.abc import Sequence
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import autocast_is_on, check_sizes


class LayerNorm(nn.Module):
    r"""
    ## Layer normalisation

    Arguments, names of parameters and results are those of `torch.nn.LayerNorm`, so a
    checkpoint of one loads into the other. The models of this library use PyTorch's,
    which goes through memory once where each line below goes through it again. For
    1,024 vectors of 512 features, on one processor core, the lines below took twice as
    long, and ten times as long forward and backward. They are for reading, and for
    changing.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        r"""
        * `normalized_shape` is the number of features, $C$; or the sizes of the last
          axes, if mean and variance run over several
        * `eps` is $\epsilon$, 0 or more
        * `elementwise_affine` is whether there are $g$ and $b$
        * `bias` is whether there is $b$ beside $g$

        Raises `ValueError` or `TypeError` for sizes or an $\epsilon$ that cannot be.
        """
        super().__init__()
        if isinstance(normalized_shape, Sequence):
            sizes = tuple(normalized_shape)
        else:
            sizes = (normalized_shape,)
        _check_arguments(sizes, eps)
        self.normalized_shape = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        # One gain and one bias per feature, for all positions and all texts.
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if elementwise_affine:
            self.weight = nn.Parameter(torch.empty(sizes))
            self.bias = nn.Parameter(torch.empty(sizes)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """
        Begin with $g = 1$ and $b = 0$: nothing but the normalisation.
        """
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        r"""
        * `x` has shape `[T, B, C]`, or any other that ends in `normalized_shape`

        Returns the same shape and dtype. Raises `ValueError` for another shape, and
        `TypeError` for a dtype other than that of the parameters.
        """
        self._check_input(x)
        axes = tuple(range(-len(self.normalized_shape), 0))

        # A sum of squares needs room. In 16 bits, numbers end at 65,504, so the square
        # of 256 is infinite already (float16), or there are eight bits to count with
        # (bfloat16). So the vector is worked on in at least 32 bits.
        wide = x if x.dtype == torch.float64 else x.float()

        # $\mu$, one number per vector, `[T, B, 1]`. The axis of length 1 stays, so that
        # it meets all $C$ features of its vector, and the difference is `[T, B, C]`.
        mean = wide.mean(axes, keepdim=True)
        centred = wide - mean

        # $\sigma^2$, `[T, B, 1]`: the mean of the squares, divided by $C$. The $C - 1$
        # of statistics corrects a guess about a population of which one has seen a
        # sample. Here the $C$ features *are* the population, and what we want is that
        # exactly these have variance 1.
        #
        # $E[x^2] - \mu^2$ would be the same number on paper and save a pass. In
        # floating point it is the difference of two large numbers; see the exercises.
        variance = centred.square().mean(axes, keepdim=True)

        # $\hat{x}$. Under the root $\epsilon$ does two things. A vector whose features
        # are all equal has $\sigma = 0$ and becomes zero, not $0 / 0$. And its gradient
        # is finite: the derivative of $\sqrt{z}$ is $1 / (2 \sqrt{z})$, infinite at
        # zero, and $\sqrt{\sigma^2} + \epsilon$ would turn that into $0 \cdot \infty$,
        # a nan, in the backward pass.
        normalised = centred / torch.sqrt(variance + self.eps)

        # $g \otimes \hat{x} + b$, feature by feature.
        if self.weight is not None:
            normalised = normalised * self.weight
        if self.bias is not None:
            normalised = normalised + self.bias
        return normalised.to(x.dtype)

    def _check_input(self, x: Tensor) -> None:
        sizes = self.normalized_shape
        if tuple(x.shape[-len(sizes) :]) != sizes:
            raise ValueError(
                f"`x` has shape {list(x.shape)}; expected its last axes to be "
                f"normalized_shape = {list(sizes)}"
            )
        if not x.is_floating_point():
            raise TypeError(
                f"`x` has dtype {x.dtype}; expected floating-point vectors: embed "
                "tokens first (nn.Embedding)"
            )
        weight = self.weight
        if weight is not None and x.dtype != weight.dtype and not autocast_is_on(x):
            raise TypeError(
                f"`x` has dtype {x.dtype} but the parameters have {weight.dtype}; "
                f"convert one: x.to({weight.dtype}) or module.to({x.dtype})"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


def _check_arguments(sizes: tuple[int, ...], eps: float) -> None:
    if not sizes:
        raise ValueError(
            "`normalized_shape` is empty; expected the number of features, such as 512"
        )
    for size in sizes:
        check_sizes(normalized_shape=size)
    if isinstance(eps, bool) or not isinstance(eps, Real):
        raise TypeError(
            f"`eps` ({eps!r}) must be a number, not a {type(eps).__name__}; 1e-5 is "
            "usual"
        )
    if not 0 <= eps < math.inf:
        raise ValueError(f"`eps` ({eps}) must be 0 or more, and finite; 1e-5 is usual")


# ## What it does to gradients
#
# Let $\gamma = \partial L / \partial \hat{x}$ be the gradient that comes back, and
# write $\overline{a}$ for the mean of $a$ over the features. What goes on down is
#
# $$\frac{\partial L}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \epsilon}}
#     \left( \gamma - \overline{\gamma} - \hat{x} \, \overline{\gamma \otimes \hat{x}}
#     \right)$$
#
# Two directions are missing in it: the mean, and the component along $\hat{x}$ itself.
# They have to be. To add a constant to all features, or to make the whole vector
# larger, changes nothing that leaves the norm, so no gradient may ask for it.
#
# And the step is divided by the size of the vector. A vector of twice the size gets
# half the gradient: large vectors turn slowly, small ones fast. In a deep post-norm
# stack these factors multiply, one for each norm on the way down.
#
# ## Differences from the paper
#
# * **Place.** The paper normalises the summed inputs of a layer's units, before their
#   nonlinearity, and has recurrent networks in mind (eq. 4). Transformers normalise the
#   rows that run from layer to layer.
# * **$\epsilon$** is not in the paper's equations.
# * **16 bits.** Under autocast on a GPU PyTorch's module returns 32 bits whatever comes
#   in; this one returns the dtype that came in, as PyTorch's does on a CPU.
#
# ## Exercises
#
# **1.** Zhang and Sennrich ([-@zhang2019root]) leave the mean alone and divide by the
# root of the mean square: *RMSNorm*, which many of today's language models use. Write
# it. What does it forget of a vector, and what does it keep that `LayerNorm` does not?
#
# <details><summary>Answer</summary>
#
# Both forget the size. Only `LayerNorm` forgets a constant added to all features. For
# vectors of mean zero they are one and the same, and a linear map before the norm can
# learn to make such vectors.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.layer_norm import LayerNorm
#
# class RMSNorm(nn.Module):
#     def __init__(self, d_model, eps=1e-5):
#         super().__init__()
#         self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))
#
#     def forward(self, x):
#         mean_square = x.square().mean(-1, keepdim=True)
#         return x / torch.sqrt(mean_square + self.eps) * self.weight
#
# x, rms, layer_norm = torch.randn(5, 2, 12), RMSNorm(12), LayerNorm(12)
# torch.testing.assert_close(rms(x), nn.RMSNorm(12, eps=1e-5)(x))
# assert torch.allclose(rms(8 * x), rms(x), atol=1e-3)
# assert torch.allclose(layer_norm(x + 3), layer_norm(x), atol=1e-5)
# assert not torch.allclose(rms(x + 3), rms(x), atol=0.1)
# centred = x - x.mean(-1, keepdim=True)
# torch.testing.assert_close(rms(centred), layer_norm(x))
# ```
#
# </details>
#
# **2.** Derive the gradient above, and write the backward pass by hand. Check that the
# two directions are missing.
#
# <details><summary>Answer</summary>
#
# Write $\hat{x} = c / s$ with $c = x - \mu$ and $s = \sqrt{\sigma^2 + \epsilon}$.
# From $\sigma^2 = \overline{c^2}$ follows $ds = \overline{c \, dc} / s$, so that
# $d\hat{x} = (dc - \hat{x} \, \overline{\hat{x} \, dc}) / s$, and $dc = dx - d\mu$
# takes the mean away. Both maps are symmetric, so the gradient passes through the same
# two, in the opposite order.
#
# ```python
# import torch
# from labml_nn.transformers.layer_norm import LayerNorm
#
# norm = LayerNorm(12, eps=0.0).double()
# torch.nn.init.normal_(norm.weight)
# x = torch.randn(5, 2, 12, dtype=torch.float64, requires_grad=True)
# gradient = torch.randn(5, 2, 12, dtype=torch.float64)
# norm(x).backward(gradient)
#
# def mean(a):
#     return a.mean(-1, keepdim=True)
#
# centred = (x - mean(x)).detach()
# s = mean(centred**2).sqrt()
# x_hat, gamma = centred / s, gradient * norm.weight.detach()
# by_hand = (gamma - mean(gamma) - x_hat * mean(gamma * x_hat)) / s
# torch.testing.assert_close(x.grad, by_hand)
# assert mean(x.grad).abs().max() < 1e-12
# assert mean(x.grad * x_hat).abs().max() < 1e-12
# ```
#
# </details>
#
# **3.** Compute the variance in one pass, as $E[x^2] - \mu^2$, and normalise a vector
# whose features lie around 10,000. What comes out?
#
# <details><summary>Answer</summary>
#
# A number of 32 bits has 24 of them for its digits. Near $10^8$, where $x^2$ and
# $\mu^2$ are, neighbours lie 8 apart, so a variance of 1 is lost between them: the
# difference may be 0, or 8, or negative. Subtract the mean first, and all that is
# squared is small.
#
# ```python
# import torch
# from labml_nn.transformers.layer_norm import LayerNorm
#
# x = 10_000 + torch.randn(200, 512)
# one_pass = x.square().mean(-1) - x.mean(-1).square()
# two_passes = (x - x.mean(-1, keepdim=True)).square().mean(-1)
# exact = x.double().var(-1, unbiased=False)
# assert (two_passes - exact).abs().max() < 1e-4
# assert (one_pass - exact).abs().max() > 3
# assert (one_pass < 0).any()  # no root to take of these
# sizes = LayerNorm(512)(x).square().mean(-1)
# assert torch.allclose(sizes, torch.ones(200), atol=1e-3)
# ```
#
# </details>
#
# **4.** What is left of a vector of two features? Of one?
#
# <details><summary>Answer</summary>
#
# Mean 0 and variance 1 leave $(1, -1)$ or $(-1, 1)$: which of the two was larger, one
# bit. Of a single feature nothing is left. In general two of $C$ numbers are lost, and
# the vectors lie on a sphere of radius $\sqrt{C}$ in the $C - 1$ dimensions of mean 0.
#
# ```python
# import torch
# from labml_nn.transformers.layer_norm import LayerNorm
#
# x = torch.tensor([[0.3, 0.1], [-200.0, 500.0]])
# expected = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
# assert torch.allclose(LayerNorm(2)(x), expected, atol=1e-3)
# assert (LayerNorm(1)(torch.randn(5, 2, 1)) == 0).all()
# radius = LayerNorm(512)(torch.randn(5, 2, 512)).norm(dim=-1)
# assert torch.allclose(radius, torch.tensor(512**0.5), atol=1e-2)
# ```
#
# </details>
