r"""
---
title: Position-wise feed-forward network
summary: >
  Two linear layers with an activation function between them, applied to each position
  alone; plain as in the first transformer, or gated (GLU, SwiGLU).
paper: https://arxiv.org/abs/1706.03762
---

Attention moves information between positions; the feed-forward network transforms it
*within* each position, independently of all others. A linear layer expands the $C$
features to $F$ hidden features, an activation function $f$ is applied, and a second
linear layer projects back to $C$ ([@vaswani2017attention, §3.3, eq. 2], with the ReLU
$f(z) = \max(0, z)$ and $F = 4C$):

$$\operatorname{FFN}(x) = f(x W_1 + b_1) \, W_2 + b_2$$

Without $f$, both layers together would be a single linear map. With $F = 4C$ there are
$8 C^2$ weights, beside the $4 C^2$ of `MultiHeadAttention`: two thirds of a layer's
parameters are here.

The network can be read as a **key–value memory**. Column $i$ of $W_1$ is a pattern, a
*key* with which $x$ is compared, and row $i$ of $W_2$ is the *value* that is added in
proportion to the match:

$$\operatorname{FFN}(x) = \sum_{i=1}^{F} f\big(x \cdot w^{(1)}_i + b_{1,i}\big) \,
    w^{(2)}_i + b_2$$

That resembles attention over $F$ learned keys and values; without a softmax, any number
of patterns can be active. Geva et al. ([-@geva2021transformer]) found many readable
patterns in trained models.

An activation function decides from a hidden feature alone how much of it passes. In a
**gated** network a second projection of $x$ takes part in the decision:

$$\operatorname{FFN}_{\text{gated}}(x)
    = \big(f(x W_1 + b_1) \otimes (x V + c)\big) \, W_2 + b_2$$

where $\otimes$ multiplies feature by feature. Shazeer ([-@shazeer2020glu, §2, eq. 4 to
6]) compared the five gated networks of the table below, without biases, and found lower
perplexities than with ReLU or GELU at an equal number of parameters.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, each transformed alone |
| $W_1$, $b_1$ | `layer1.weight`, `.bias` | `[F, C]`, `[F]` | first layer (transposed) |
| $V$, $c$ | `linear_v.weight`, `.bias` | `[F, C]`, `[F]` | gate |
| $W_2$, $b_2$ | `layer2.weight`, `.bias` | `[C, F]`, `[C]` | second layer |
| $f$ | `activation` | | activation function |
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_bool, check_probability, check_sizes


class FeedForward(nn.Module):
    """
    ## Feed-forward network
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | None = None,
        is_gated: bool = False,
        bias1: bool = True,
        bias2: bool = True,
        bias_gate: bool = True,
    ) -> None:
        r"""
        * `d_model` is the number of features of a position, $C$
        * `d_ff` is the number of hidden features, $F$
        * `dropout` is the dropout probability of the hidden features
        * `activation` is the activation function $f$, a module or a function; `None` is
          `nn.ReLU()`
        * `is_gated` adds the gate
        * `bias1`, `bias2` and `bias_gate` are whether there are $b_1$, $b_2$ and $c$
        """
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        check_probability(dropout=dropout)
        check_bool(is_gated=is_gated, bias1=bias1, bias2=bias2, bias_gate=bias_gate)

        # A class can be called, too, but its result would be a module.
        activation = nn.ReLU() if activation is None else activation
        if isinstance(activation, type) or not callable(activation):
            raise TypeError(
                f"`activation` ({activation!r}) must be a function or a module, such "
                "as nn.GELU(), or None for nn.ReLU()"
            )

        # The names are those of checkpoints of version 0.5.1; `linear_v` exists only
        # with a gate.
        self.layer1 = nn.Linear(d_model, d_ff, bias=bias1)
        self.layer2 = nn.Linear(d_ff, d_model, bias=bias2)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.is_gated = is_gated
        if is_gated:
            self.linear_v = nn.Linear(d_model, d_ff, bias=bias_gate)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        "`x` has shape `[T, B, C]`, or any other that ends in $C$; so has the result."
        # Hidden features, `[T, B, F]`. All positions share the weights.
        hidden = self.activation(self.layer1(x))
        if self.is_gated:
            hidden = hidden * self.linear_v(x)

        # Dropout of hidden features is dropout of whole patterns.
        output: Tensor = self.layer2(self.dropout(hidden))
        return output


class SquaredReLU(nn.Module):
    r"""
    ## Squared ReLU

    $f(z) = \max(0, z)^2$. So et al. ([-@so2021primer]) searched for better transformers
    automatically, and this was the simplest modification that helped at every size they
    tried.
    """

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        return F.relu(x).square()


# ## Variants
#
# | Name | Function $f(z)$ | `activation` | `is_gated` |
# |:--|:--|:--|:--|
# | ReLU, the default | $\max(0, z)$ | `nn.ReLU()` | `False` |
# | GELU | $z \, \Phi(z)$ | `nn.GELU()` | `False` |
# | Squared ReLU | $\max(0, z)^2$ | `SquaredReLU()` | `False` |
# | GLU | $\sigma(z)$ | `nn.Sigmoid()` | `True` |
# | Bilinear | $z$ | `nn.Identity()` | `True` |
# | ReGLU | $\max(0, z)$ | `nn.ReLU()` | `True` |
# | GEGLU | $z \, \Phi(z)$ | `nn.GELU()` | `True` |
# | SwiGLU | $z \, \sigma(z)$ | `nn.SiLU()` | `True` |
#
# $\sigma$ is the logistic function, and $\Phi$ the distribution function of the
# standard normal distribution. A gated network has three matrices: to have as many
# parameters as a plain one with $F = 4C$, it gets two thirds of the hidden features.
#
# ```python
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
#
# no_bias = {"bias1": False, "bias2": False, "bias_gate": False}
# plain = FeedForward(384, d_ff=1536, **no_bias)
# swiglu = FeedForward(384, 1024, activation=nn.SiLU(), is_gated=True, **no_bias)
# for ffn in (plain, swiglu):
#     assert sum(p.numel() for p in ffn.parameters()) == 8 * 384**2
# ```
#
# ## Differences from the papers
#
# * **Dropout of hidden features.** Vaswani et al. apply dropout to the output of the
#   network (§5.4), and here `TransformerLayer` does that. Dropout of the hidden
#   features is added by version 0.5.1.
# * **Biases of gates.** Shazeer's networks have none. Here they are optional.
#
# ## Exercises
#
# **1.** What remains of the plain network, and of the gated one, if $f$ is the
# identity?
#
# <details><summary>Answer</summary>
#
# The plain network is one linear map, $x \, W_1 W_2 + (b_1 W_2 + b_2)$. The gated one
# multiplies two: without biases it is a polynomial of degree two, which can still
# detect two features that occur *together*.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
#
# x = torch.randn(5, 2, 12)
# plain = FeedForward(12, 28, activation=nn.Identity()).eval()
# matrix = plain.layer2.weight @ plain.layer1.weight  # [C, C]
# bias = plain.layer2.weight @ plain.layer1.bias + plain.layer2.bias
# torch.testing.assert_close(plain(x), x @ matrix.T + bias, rtol=1e-4, atol=1e-5)
#
# no_bias = {"bias1": False, "bias2": False, "bias_gate": False}
# gated = FeedForward(12, 28, activation=nn.Identity(), is_gated=True, **no_bias).eval()
# torch.testing.assert_close(gated(3 * x), 9 * gated(x))  # degree two
# ```
#
# </details>
