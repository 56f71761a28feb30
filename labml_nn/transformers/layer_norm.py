r"""
---
title: Layer normalisation
summary: >
  Scales every vector to mean zero and variance one. Computed step by step, equal to
  PyTorch's module, with its gradient derived.
paper: https://arxiv.org/abs/1607.06450
---

A layer learns to work with the outputs of the layer below. But that one learns too, and
its outputs change their size while it does. How can we build on such ground? **Layer
normalisation** ([@ba2016layer]) gives every vector the same size, whatever comes.

Take a token with the features (2, 0, 4, 2) and do it by hand. The mean is 2. Subtract
it and get (0, −2, 2, 0). The mean of the squares is 2, the variance. Divide by its
root, 1.414, and get (0, −1.414, 1.414, 0). Now take a vector a hundred times as large,
(200, 0, 400, 200). You get the same result, because mean and root grow by the same
factor. Only the *pattern* of the features is left, and its mean is 0 and its variance
1.

Is that too strict? A layer may need, for example, one feature that is larger than the
others. So each feature has a learned **gain** $g$ and a learned **bias** $b$, which
start at 1 and 0. With the gains (1, 1, 2, 1) and the biases (0, 0, 0, 1) our example
becomes (0, −1.414, 2.828, 1). In formulas (eq. 3 of the paper, and a small $\epsilon$
that avoids a division by zero):

\begin{align}
\mu &= \frac{1}{C} \sum_{i=1}^{C} x_i \\
\sigma^2 &= \frac{1}{C} \sum_{i=1}^{C} (x_i - \mu)^2 \\
\hat{x} &= \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \\
\operatorname{LayerNorm}(x) &= g \odot \hat{x} + b
\end{align}

**Why each vector alone?** You may know *batch* normalisation, which takes mean and
variance over the examples of a batch. Then the output for one text depends on the other
texts of the batch, and a model that writes has no batch at all. Here you need nothing
but the vector itself, so training and writing are the same.

In a Transformer each sub-layer has a normalisation of its own. Does it stand before the
sub-layer (pre-norm) or after the sum (post-norm)? That decides how gradients flow, and
[the models](models.py#TransformerLayer.residual) have both. [RMSNorm](modern.py) leaves
the mean out.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, each normalised alone |
| $\mu$ | `mean` | `[T, B, 1]` | their means |
| $\sigma^2$ | `variance` | `[T, B, 1]` | their variances |
| $\hat{x}$ | `normalised` | `[T, B, C]` | mean 0, variance 1 |
| $g$, $b$ | `weight`, `bias` | `[C]` | learned gain and bias |
| $\epsilon$ | `eps` | | keeps the denominator away from zero |

</details>
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

    Arguments, parameter names and results are those of `torch.nn.LayerNorm`, so you can
    exchange checkpoints. Our models use PyTorch's module, which computes all of this in
    one go. On one CPU core its forward and backward pass took a tenth of the time of
    this one (1,024 vectors of 512 features). This one is for reading and changing.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        r"""
        * `normalized_shape`: the number of features, $C$, or the sizes of the last
          axes if mean and variance are those of several
        * `eps`: $\epsilon$, 0 or more
        * `elementwise_affine`: whether there are $g$ and $b$
        * `bias`: whether there is $b$ beside $g$
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

        # Why 32 bits at least? In float16 the square of 256 is infinite already, and
        # bfloat16 has only 8 bits of precision.
        wide = x if x.dtype == torch.float64 else x.float()

        # One mean for each vector, 2 in the example. `[T, B, 1]`.
        mean = wide.mean(axes, keepdim=True)
        centred = wide - mean

        # The mean of the squares, 2 again, `[T, B, 1]`. Statistics often divides by $C
        # - 1$, to estimate the variance of a population from a sample. But here the $C$
        # features *are* the population.
        variance = centred.square().mean(axes, keepdim=True)

        # What if all features are equal? Then the variance is 0, and with $\epsilon$
        # *under* the root the result is 0, with a finite gradient. Beside the root it
        # would not do: the slope of $\sqrt{z}$ is infinite at zero, and you would get
        # NaN.
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
#     \left( \gamma - \overline{\gamma} - \hat{x} \, \overline{\gamma \odot \hat{x}}
#     \right)$$
#
# Why two terms that are taken off? If you add a constant to all features, or multiply
# them by one, the output stays the same. So the gradient has nothing to say in these
# two directions: its mean and its part along $\hat{x}$ are removed. And if $x$ is
# twice as large, its gradient is half as large.
#
# ## Differences from the paper
#
# * **Position.** The paper normalises the summed inputs of a layer's units before the
#   activation function, and treats recurrent networks above all (eq. 4). Transformers
#   normalise the vectors of the residual stream.
# * **$\epsilon$** is not in the paper's equations.
# * **Dense connections** would append the output of a sub-layer to its input, where a
#   residual connection adds it. Then each sub-layer is wider than the one before, so
#   Transformers add.
