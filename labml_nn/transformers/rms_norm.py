r"""
---
title: RMS normalisation
summary: >
  Layer normalisation without the mean: divide every vector by its own size, and let
  each feature have a gain.
paper: https://arxiv.org/abs/1910.07467
---

[Layer normalisation](layer_norm.py) does two things to a vector. It moves the features
until their mean is 0, and it scales them until their variance is 1. Zhang and Sennrich
([-@zhang2019root]) asked which of the two is needed, left the first one out, and found
models that learn as well. What remains is a division by the **root mean square**, the
size of a typical feature:

\begin{align}
\operatorname{RMS}(x) &= \sqrt{\frac{1}{C} \sum_{i=1}^{C} x_i^2} \\
\operatorname{RMSNorm}(x) &= g \otimes \frac{x}{\operatorname{RMS}(x)}
\end{align}

There is one sum over the features instead of two, and no bias. The vector keeps its
direction and gets the length $\sqrt{C}$. A layer norm first takes away the component
along $(1, \dots, 1)$, which is nothing special among the directions of a space that was
learned.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | the vectors, each of which is normalised alone |
| $r$ | `scale` | `[T, B, 1]` | $1 / \operatorname{RMS}(x)$ |
| $\hat{x}$ | `normalised` | `[T, B, C]` | vectors of length $\sqrt{C}$ |
| $g$ | `weight` | `[C]` | learned gain, one for each feature |
| $\epsilon$ | `eps` | | keeps the denominator away from zero |
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from labml_nn.checks import check_features, check_sizes


class RMSNorm(nn.Module):
    r"""
    ## RMS normalisation

    Names and results are those of `torch.nn.RMSNorm`, and a checkpoint of one loads
    into the other. The computation exists three times: to read, in one kernel of
    PyTorch's for GPUs, and with the backward pass by hand for processors.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        r"""
        * `d_model` is the number of features, $C$
        * `eps` is $\epsilon$, more than 0

        Raises `ValueError` or `TypeError` for a size or an $\epsilon$ that cannot be.
        """
        super().__init__()
        check_sizes(d_model=d_model)
        if not eps > 0:
            raise ValueError(f"`eps` ({eps}) must be more than 0; 1e-5 is usual")
        self.d_model = d_model
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin with $g = 1$: nothing but the division."""
        nn.init.ones_(self.weight)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        """
        * `x` has shape `[T, B, C]`, or any other that ends in $C$

        Returns the same shape and dtype. Raises `ValueError` if the last axis is not
        `d_model` long, and `TypeError` for a dtype other than that of the parameters.
        """
        check_features("x", x, self.d_model, self.weight)

        # A compiler joins the lines of the readable form by itself, and 16 bits need
        # its care.
        if x.dtype != self.weight.dtype or torch.compiler.is_compiling():
            return self.read(x)
        if x.is_cuda:
            return F.rms_norm(x, (self.d_model,), self.weight, self.eps)
        if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
            return _by_hand(x, self.weight, self.eps)
        return self.read(x)

    def read(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        r"""
        ### Line by line

        Squares of 16-bit numbers overflow, or lose their digits. So the vector is
        worked on in at least 32 bits; [layer normalisation](layer_norm.py) says more.
        $\epsilon$ is added under the root: a vector of zeros stays zero, and its
        gradient finite.
        """
        wide = x if x.dtype == torch.float64 else x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        normalised = wide * scale
        return (normalised * self.weight).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.d_model}, eps={self.eps}"


class _ByHand(torch.autograd.Function):
    r"""
    ## Backward by hand

    Autograd takes the lines above one by one and keeps what each of them needs. One who
    sees all of them keeps less. Let $\gamma = g \otimes \partial L / \partial y$ be the
    gradient at $\hat{x}$. With $\hat{x} = r x$, a step $dx$ makes

    $$d\hat{x} = r \, dx + x \, dr, \qquad
        dr = -r^3 \, \overline{x \otimes dx} = -r^2 \, \overline{\hat{x} \otimes dx}$$

    where $\overline{a}$ is the mean over the features. The map from $dx$ to $d\hat{x}$
    is symmetric, so the gradient passes through the same one:

    $$\frac{\partial L}{\partial x} = r \left( \gamma
        - \hat{x} \, \overline{\hat{x} \otimes \gamma} \right)$$

    The component along $\hat{x}$ is missing: to make a vector longer changes nothing.
    That of a layer norm lacks the mean besides. And the step is divided by the size of
    the vector: small ones turn fast, large ones slowly.

    For 2,048 vectors of 128 features, forward and backward on one processor core, the
    lines above took 2.7 ms, PyTorch's `rms_norm` 2.6 ms and this 0.8 ms (medians of
    160, in turn; `layer_norm` has a kernel of its own and took 0.5 ms).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        normalised = x * scale
        ctx.save_for_backward(normalised, scale, weight)
        normed: Tensor = normalised * weight
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        # The gradient of the gain is a sum over all vectors. Multiplied with $g$, the
        # same products have the mean that the gradient of $x$ needs: it is a product of
        # a matrix and a vector.
        normalised, scale, weight = ctx.saved_tensors
        size = weight.shape[0]
        products = gradient * normalised
        along = (products @ weight).unsqueeze(-1) / size
        to_x = (gradient * weight).addcmul_(normalised, along, value=-1).mul_(scale)
        return to_x, products.reshape(-1, size).sum(0), None


def _by_hand(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    normed: Tensor = _ByHand.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return normed


# ## Differences from the paper
#
# * **$\epsilon$** is not in the paper's equations.
# * **Place.** The paper normalises the summed inputs of a layer's units, as Ba et al.
#   do. Here the rows of a transformer are normalised before each part.
# * **Partial sums.** The paper also tries to measure the size on a part of the features
#   (*p*RMSNorm). We measure all of them.
#
# ## Exercises
#
# **1.** Check the gradient against autograd, and that the component along the vector is
# missing.
#
# <details><summary>Answer</summary>
#
# In 64 bits, so that only a mistake could make a difference. With $\epsilon$ the
# component is not quite zero: a vector as short as $\sqrt{\epsilon}$ does get longer.
#
# ```python
# import torch
# from labml_nn.transformers.rms_norm import RMSNorm
#
# norm = RMSNorm(12, eps=1e-12).double()
# torch.nn.init.normal_(norm.weight)
# x = torch.randn(5, 2, 12, dtype=torch.float64, requires_grad=True)
# gradient = torch.randn(5, 2, 12, dtype=torch.float64)
# by_hand = torch.autograd.grad(norm(x), (x, norm.weight), gradient)
# plain = torch.autograd.grad(norm.read(x), (x, norm.weight), gradient)
# torch.testing.assert_close(by_hand, plain)
# assert (by_hand[0] * x).sum(-1).abs().max() < 1e-9
# ```
#
# </details>
#
# **2.** Turn all vectors by the same rotation of the $C$ dimensions. What happens to
# the result of RMSNorm, with all gains 1, and what to that of a layer norm?
#
# <details><summary>Answer</summary>
#
# RMSNorm turns with them, since a rotation changes no lengths. Layer norm does not: the
# direction that it takes away stays where it is. Gains break the symmetry in both.
#
# ```python
# import torch
# from torch.nn import functional as F
# from labml_nn.transformers.rms_norm import RMSNorm
#
# x, norm = torch.randn(5, 2, 12), RMSNorm(12)
# turn, _ = torch.linalg.qr(torch.randn(12, 12))
# torch.testing.assert_close(norm(x @ turn), norm(x) @ turn, rtol=1e-4, atol=1e-5)
# around, after = F.layer_norm(x @ turn, (12,)), F.layer_norm(x, (12,)) @ turn
# assert not torch.allclose(around, after, atol=0.05)
# ```
#
# </details>
#
# **3.** When a matrix follows, gains are not needed: they can be multiplied into its
# columns. Do it, for the two maps that read a normalised row in the feed-forward
# network with a gate. Why keep them all the same?
#
# <details><summary>Answer</summary>
#
# $W (g \otimes \hat{x}) = (W \operatorname{diag} g) \, \hat{x}$. After training one
# does this to save a pass. In training a gain is one number with which a feature can be
# turned up for everybody who reads it, where the matrices would have to move a whole
# column each; and weight decay, which pulls on matrices, leaves it alone.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
# from labml_nn.transformers.rms_norm import RMSNorm
#
# norm, x = RMSNorm(12), torch.randn(5, 2, 12)
# network = FeedForward(12, 28, activation=nn.SiLU(), is_gated=True).eval()
# nn.init.uniform_(norm.weight, 0.5, 2.0)
# expected = network(norm(x))
#
# with torch.no_grad():
#     network.layer1.weight.mul_(norm.weight)
#     network.linear_v.weight.mul_(norm.weight)
#     norm.weight.fill_(1.0)
# torch.testing.assert_close(network(norm(x)), expected)
# ```
#
# </details>
