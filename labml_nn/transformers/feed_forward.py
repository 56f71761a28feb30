r"""
---
title: Position-wise feed-forward network
summary: >
  Two linear layers with an activation function between them, applied to each position
  alone; plain as in the first transformer, or gated (GLU, SwiGLU).
paper: https://arxiv.org/abs/1706.03762
---

[Attention](mha.py) lets the token *dog* find out that *the* stands before it. But what
does it make of that? To draw a conclusion from what was collected is the work of the
**feed-forward network**. It looks at each token alone.

Let us give *dog* four features: (1, 0, 1, 0). They say that it is a noun, that it is no
verb, that *the* stands before it, and that it is not known to be a subject. Our network
compares them with **patterns**. Each has weights, a bias, and something to add if it
fits:

| pattern | weights | bias | adds |
|:--|:--|--:|:--|
| a noun after *the* | (1, 0, 1, 0) | −1 | (0, 0, 0, 1), "may be a subject" |
| a verb after *the* | (0, 1, 1, 0) | −1 | (0, −1, 0, 0), "rather not a verb" |

The first pattern gives 1 + 1 − 1 = 1. The second gives 0 + 1 − 1 = 0. So the network
adds once the first vector and zero times the second, and *dog* goes on with (1, 0, 1,
1). What about a noun without *the*? It gives 1 + 0 − 1 = 0, so nothing is added. And a
token that is neither, with no *the* before it, gives −1. But you do not want to add
something a negative number of times, only because its pattern does not fit. So an
**activation function** $f$ follows, here the ReLU, $f(z) = \max(0, z)$.

In a real network nobody writes down the patterns. They are the columns of a matrix
$W_1$, what they add are the rows of a matrix $W_2$, and both are learned. There are
$F$ of them, usually four times as many as features ([@vaswani2017attention, §3.3, eq.
2]):

$$\operatorname{FFN}(x) = f(x W_1 + b_1) \, W_2 + b_2
    = \sum_{i=1}^{F} f\big(x \cdot w^{(1)}_i + b_{1,i}\big) \, w^{(2)}_i + b_2$$

**Why the activation function?** Try to do without it. Then you can multiply the two
matrices and have a single one, and nothing can depend on two conditions *together*.

**A memory.** The right side looks like attention: a pattern is a *key*, and what it
adds is a *value*. But keys and values are learned here, and without a softmax any
number of patterns can fit at once. Geva et al. ([-@geva2021transformer]) found many
readable patterns in trained models. For example, some answer to texts about a certain
subject. Much of what a Transformer knows is stored here: with $F = 4C$ the network has
$8 C^2$ weights, and attention $4 C^2$, so two thirds of a layer are here.

**Gates.** So far a hidden feature decides alone how much of it passes. We can let a
second projection decide, too. In a **gated** network both are multiplied, feature by
feature ($\odot$):

$$\operatorname{FFN}_{\text{gated}}(x)
    = \big(f(x W_1 + b_1) \odot (x V + c)\big) \, W_2 + b_2$$

Shazeer ([-@shazeer2020glu, §2, eq. 4 to 6]) compared the five gated networks of the
[table below](#variants), without biases. At an equal number of parameters all of them
did better than ReLU or GELU. You find them in most models of today.

<details><summary>Symbols, their code and shapes</summary>

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, each transformed alone |
| $W_1$, $b_1$ | `layer1.weight`, `.bias` | `[F, C]`, `[F]` | patterns, transposed |
| $V$, $c$ | `linear_v.weight`, `.bias` | `[F, C]`, `[F]` | gate |
| $W_2$, $b_2$ | `layer2.weight`, `.bias` | `[C, F]`, `[C]` | what they add |
| $f$ | `activation` | | activation function |

</details>
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
        * `d_model`: features of a token, $C$
        * `d_ff`: hidden features, or patterns, $F$
        * `dropout`: probability that a hidden feature is dropped in training
        * `activation`: the function $f$, a module or a function; `None` is `nn.ReLU()`
        * `is_gated`: whether there is a gate
        * `bias1`, `bias2`, `bias_gate`: whether there are $b_1$, $b_2$ and $c$
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

        # From features to patterns, and back to features.
        self.layer1 = nn.Linear(d_model, d_ff, bias=bias1)
        self.layer2 = nn.Linear(d_ff, d_model, bias=bias2)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.is_gated = is_gated
        if is_gated:
            self.linear_v = nn.Linear(d_model, d_ff, bias=bias_gate)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        "`x` has shape `[T, B, C]`, or any other that ends in $C$; so has the result."
        # How well does each pattern fit? `[T, B, F]`. All tokens share the weights, so
        # what the network learns at one position serves at all others.
        hidden = self.activation(self.layer1(x))
        if self.is_gated:
            hidden = hidden * self.linear_v(x)

        # Add up what the patterns say. Dropout leaves out whole patterns.
        output: Tensor = self.layer2(self.dropout(hidden))
        return output


class SquaredReLU(nn.Module):
    r"""
    ## Squared ReLU

    $f(z) = \max(0, z)^2$. So et al. ([-@so2021primer]) let a program search for better
    Transformers. Of all that it found, this was the simplest change that helped at
    every size.
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
# standard normal distribution. A gated network has three matrices instead of two. So if
# you want as many parameters, give it two thirds of the hidden features:
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
