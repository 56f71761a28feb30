r"""
---
title: Layer normalisation
summary: >
  Scales every vector to mean zero and variance one. Computed step by step, equal to
  PyTorch's module, with its gradient derived.
paper: https://arxiv.org/abs/1607.06450
---

A layer is trained on the outputs of the layer below, whose scale changes as that layer
learns. **Layer normalisation** ([@ba2016layer]) removes this dependence: it shifts and
scales each vector so that its features have mean 0 and variance 1. Batch normalisation
uses the examples of a batch for that, so the output for one sequence depends on the
others, and training and inference differ. Here each vector is normalised alone (eq. 3,
and $\epsilon$):

\begin{align}
\mu &= \frac{1}{C} \sum_{i=1}^{C} x_i \\
\sigma^2 &= \frac{1}{C} \sum_{i=1}^{C} (x_i - \mu)^2 \\
\hat{x} &= \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \\
\operatorname{LayerNorm}(x) &= g \otimes \hat{x} + b
\end{align}

The gain $g$ and the bias $b$ are learned, one number each per feature, and start at 1
and 0. In a transformer there is one normalisation for each sub-layer. Its position,
before the sub-layer (pre-norm) or after the residual sum (post-norm), decides how
gradients flow; [the models](models.py) have both. [RMSNorm](modern.py) omits the mean.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, each normalised alone |
| $\mu$ | `mean` | `[T, B, 1]` | their means |
| $\sigma^2$ | `variance` | `[T, B, 1]` | their variances |
| $\hat{x}$ | `normalised` | `[T, B, C]` | mean 0, variance 1 |
| $g$, $b$ | `weight`, `bias` | `[C]` | learned gain and bias |
| $\epsilon$ | `eps` | | keeps the denominator away from zero |
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_bool, check_last_axes, check_number, check_sizes


class LayerNorm(nn.Module):
    r"""
    ## Layer normalisation

    Arguments, parameter names and results are those of `torch.nn.LayerNorm`, so that
    checkpoints can be exchanged. The models use PyTorch's fused module: on one CPU core
    its forward and backward pass took a tenth of the time of this one (1,024 vectors of
    512 features). This one is for reading and modifying.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        r"""
        * `normalized_shape` is the number of features, $C$, or the sizes of the last
          axes if mean and variance are those of several
        * `eps` is $\epsilon$, 0 or more
        * `elementwise_affine` is whether there are $g$ and $b$
        * `bias` is whether there is $b$ beside $g$
        """
        super().__init__()
        if not isinstance(normalized_shape, Sequence):
            normalized_shape = [normalized_shape]
        sizes = tuple(normalized_shape)
        if not sizes:
            raise ValueError("`normalized_shape` is empty; expected sizes, such as 512")
        for size in sizes:
            check_sizes(normalized_shape=size)
        check_bool(elementwise_affine=elementwise_affine, bias=bias)
        check_number("eps", eps)
        if not 0 <= eps < math.inf:
            raise ValueError(f"`eps` ({eps}) must be 0 or more, and finite; try 1e-5")
        self.normalized_shape = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        # One gain and one bias per feature, for all positions and all sequences.
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if elementwise_affine:
            self.weight = nn.Parameter(torch.empty(sizes))
            self.bias = nn.Parameter(torch.empty(sizes)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        r"""
        `x` has shape `[T, B, C]`, or any other that ends in `normalized_shape`. Returns
        the same shape and dtype.
        """
        check_last_axes(x, *self.normalized_shape)
        axes = tuple(range(-len(self.normalized_shape), 0))

        # 16 bits are not enough for a sum of squares: in float16 the square of 256 is
        # infinite, and bfloat16 has 8 bits of precision.
        wide = x if x.dtype == torch.float64 else x.float()

        # $\mu$, one number per vector, `[T, B, 1]`.
        mean = wide.mean(axes, keepdim=True)
        centred = wide - mean

        # $\sigma^2$, `[T, B, 1]`, divided by $C$: the $C - 1$ of statistics estimates
        # the variance of a population from a sample, but here the $C$ features *are*
        # the population.
        variance = centred.square().mean(axes, keepdim=True)

        # $\hat{x}$. With $\epsilon$ under the root, a vector of equal features becomes
        # zero, and its gradient is finite: the derivative of $\sqrt{z}$ is infinite at
        # zero, so that $\sqrt{\sigma^2} + \epsilon$ would give a nan there.
        normalised = centred / torch.sqrt(variance + self.eps)

        if self.weight is not None:
            normalised = normalised * self.weight
        if self.bias is not None:
            normalised = normalised + self.bias
        return normalised.to(x.dtype)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )


# ## Gradient
#
# Let $\gamma = \partial \mathcal{L} / \partial \hat{x}$, and let $\overline{a}$ be the
# mean of $a$ over the features. The gradient of the input is
#
# $$\frac{\partial \mathcal{L}}{\partial x} = \frac{1}{\sqrt{\sigma^2 + \epsilon}}
#     \left( \gamma - \overline{\gamma} - \hat{x} \, \overline{\gamma \otimes \hat{x}}
#     \right)$$
#
# Adding a constant to all features, or multiplying them by one, does not change the
# output, so the mean and the component along $\hat{x}$ are removed from $\gamma$. If
# $x$ is twice as large, its gradient is half as large.
#
# ## Differences from the paper
#
# * **Position.** The paper normalises the summed inputs of a layer's units before the
#   activation function, and treats recurrent networks above all (eq. 4). Transformers
#   normalise the vectors of the residual stream.
# * **$\epsilon$** is not in the paper's equations.
