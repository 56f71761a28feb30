r"""
---
title: Position-wise feed-forward network
summary: >
  Two linear maps with a nonlinearity between them, applied to every position alone.
  Plain as in the first transformer, or gated as in many later ones.
paper: https://arxiv.org/abs/1706.03762
---

Attention gathers: it brings each position a mean of what other positions hold. To draw
conclusions from what was gathered is the work of the feed-forward network. Each
position goes through it alone, all with the same weights: up into $F$ hidden features,
through a nonlinearity $f$, and back down to $C$.

$$\operatorname{FFN}(x) = f(x W_1 + b_1) \, W_2 + b_2$$

This is [@vaswani2017attention, §3.3, eq. 2], where $f(z) = \max(0, z)$ is the ReLU and
$F = 4C$.

One can read it as a memory. Column $i$ of $W_1$ is a pattern, a *key* to which $x$ is
compared, and row $i$ of $W_2$ is what the network has to say where the pattern is
found, a *value*:

$$\operatorname{FFN}(x) = \sum_{i=1}^{F} f\big(x \cdot w^{(1)}_i + b_{1,i}\big) \,
    w^{(2)}_i + b_2$$

That looks like attention, over keys and values that are learned once and stay the same
for every text, and without the softmax, so that any number of patterns may be found.
Geva et al. ([-@geva2021transformer]) looked for such patterns in trained models and
could read many of them. A memory has to be large: with $F = 4C$ it takes $8 C^2$
weights where `MultiHeadAttention` takes $4 C^2$.

### Gates

A nonlinearity decides how much of a feature passes by looking at that feature. A
**gate** lets a second linear map of $x$ take part in the decision:

$$\operatorname{FFN}_{\text{gated}}(x)
    = \big(f(x W_1 + b_1) \otimes (x V + c)\big) \, W_2 + b_2$$

where $\otimes$ multiplies feature by feature. Shazeer
([-@shazeer2020glu, §2, eq. 4 to 6]) tried the five gated networks
of the table, without biases, and measured lower perplexities at the same number of
parameters.

| Name | as $f(z)$ | `activation` | `is_gated` |
|:--|:--|:--|:--|
| ReLU, the default | $\max(0, z)$ | `nn.ReLU()` | `False` |
| GELU | $z \, \Phi(z)$ | `nn.GELU()` | `False` |
| Squared ReLU | $\max(0, z)^2$ | `SquaredReLU()` | `False` |
| GLU | $\sigma(z)$ | `nn.Sigmoid()` | `True` |
| Bilinear | $z$ | `nn.Identity()` | `True` |
| ReGLU | $\max(0, z)$ | `nn.ReLU()` | `True` |
| GEGLU | $z \, \Phi(z)$ | `nn.GELU()` | `True` |
| SwiGLU | $z \, \sigma(z)$ | `nn.SiLU()` | `True` |

$\sigma$ is the logistic function, and $\Phi(z)$ the probability that a standard normal
variable is below $z$.

A gated network has three matrices. To be as large as a plain one with $F = 4C$, it gets
two thirds of the hidden features:

```python
from torch import nn
from labml_nn.transformers.feed_forward import FeedForward

plain = FeedForward(d_model=384, d_ff=1536, bias1=False, bias2=False)
swiglu = FeedForward(
    d_model=384,
    d_ff=1024,
    activation=nn.SiLU(),
    is_gated=True,
    bias1=False,
    bias2=False,
    bias_gate=False,
)
for ffn in (plain, swiglu):
    assert sum(p.numel() for p in ffn.parameters()) == 8 * 384**2
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x$ | `x` | `[T, B, C]` | vectors, each of which is worked on alone |
| $W_1$, $b_1$ | `layer1.weight`, `.bias` | `[F, C]`, `[F]` | the map up |
| $V$, $c$ | `linear_v.weight`, `.bias` | `[F, C]`, `[F]` | the map of the gate |
| $W_2$, $b_2$ | `layer2.weight`, `.bias` | `[C, F]`, `[C]` | the map down |
| $f$ | `activation` | | the nonlinearity |
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_features, check_probability, check_sizes


class SquaredReLU(nn.Module):
    r"""
    ## ReLU, squared

    $f(z) = \max(0, z)^2$. So et al. ([-@so2021primer]) let a search change the program
    of a transformer, and this was the simplest of the changes that helped at every size
    they tried. A pattern that fits twice as well says four times as much.
    """

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """`x` has any shape, and so has what is returned."""
        return F.relu(x).square()


class FeedForward(nn.Module):
    r"""
    ## Feed-forward network

    There is no second, faster form of this one. Two or three large matrix products are
    what a processor does best.
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
        * `dropout` is the probability of dropping a hidden feature during training
        * `activation` is $f$: a module or a function; `nn.ReLU()` if not given
        * `is_gated` is whether there is a gate
        * `bias1`, `bias2` and `bias_gate` are whether there are $b_1$, $b_2$ and $c$

        Raises `ValueError` or `TypeError` for a size or a probability that cannot be,
        and `TypeError` for an activation that cannot be called.
        """
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        check_probability(dropout=dropout)
        _check_activation(activation)

        # The names are those of the checkpoints of version 0.5.1. Without a gate there
        # is no `linear_v`.
        self.layer1 = nn.Linear(d_model, d_ff, bias=bias1)
        self.layer2 = nn.Linear(d_ff, d_model, bias=bias2)
        self.dropout = nn.Dropout(dropout)
        self.activation = nn.ReLU() if activation is None else activation
        self.is_gated = is_gated
        if is_gated:
            self.linear_v = nn.Linear(d_model, d_ff, bias=bias_gate)

    def forward(self, x: Float[Tensor, "*axes C"]) -> Float[Tensor, "*axes C"]:
        """
        * `x` has shape `[T, B, C]`, or any other that ends in $C$

        Returns the same shape. Raises `ValueError` if the last axis is not `d_model`
        long, and `TypeError` for a dtype other than that of the parameters.
        """
        parameter = next(self.parameters(), None)
        check_features("x", x, self.layer1.in_features, parameter)

        # The hidden features, `[T, B, F]`. With a gate each of them is multiplied by a
        # number of its own, which $x$ has a say in.
        hidden = self.activation(self.layer1(x))
        if self.is_gated:
            hidden = hidden * self.linear_v(x)

        # In training a part of the hidden features is missing: the memory must not
        # keep a thing in one place only.
        output: Tensor = self.layer2(self.dropout(hidden))
        return output


# A class is callable too, and would make modules of hidden features: name it here, not
# there.
def _check_activation(activation: object) -> None:
    if isinstance(activation, type):
        raise TypeError(
            f"`activation` is the class {activation.__name__}; give a module, such as "
            f"{activation.__name__}(), or a function"
        )
    if activation is not None and not callable(activation):
        raise TypeError(
            f"`activation` ({activation!r}) must be a module or a function, such as "
            "nn.GELU(), or None for nn.ReLU()"
        )


# ## Differences from the paper
#
# * **Dropout of hidden features.** Vaswani et al. drop the output of the network (§5.4;
#   here `TransformerLayer` does that). Dropping hidden features too came with version
#   0.5.1.
# * **Biases of gates.** Shazeer's networks have none. Here they have, as in version
#   0.5.1, unless you leave them out.
#
# ## Exercises
#
# **1.** The paper says that the network is "two convolutions with kernel size 1". Write
# it so.
#
# <details><summary>Answer</summary>
#
# A convolution of width one looks at one position, all of its features, and moves on.
# PyTorch's takes `[B, C, T]`.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
#
# ffn = FeedForward(d_model=12, d_ff=28).eval()
# up, down = nn.Conv1d(12, 28, kernel_size=1), nn.Conv1d(28, 12, kernel_size=1)
# for conv, layer in ((up, ffn.layer1), (down, ffn.layer2)):
#     conv.weight.data, conv.bias.data = layer.weight.data[..., None], layer.bias.data
#
# x = torch.randn(5, 2, 12)
# y = down(up(x.permute(1, 2, 0)).relu()).permute(2, 0, 1)
# assert torch.allclose(y, ffn(x), atol=1e-6)
# ```
#
# </details>
#
# **2.** What is left of the plain network when $f$ is the identity? And of the gated?
#
# <details><summary>Answer</summary>
#
# The plain network becomes a single linear map, $x \, W_1 W_2 + (b_1 W_2 + b_2)$, and
# its hidden layer is of no use. The gated one multiplies two linear maps of $x$: each
# output is a polynomial of degree two in the features, and can still tell whether two
# features appear *together*. It is the bilinear variant of the table.
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
# torch.testing.assert_close(gated(3 * x), 9 * gated(x))  # of degree two
# a, b = torch.eye(12)[:2]
# assert not torch.allclose(gated(a + b), gated(a) + gated(b))  # together is more
# ```
#
# </details>
#
# **3.** Write the network as the memory of the introduction, a sum over keys and
# values, and count how many of the patterns a text of random vectors finds.
#
# <details><summary>Answer</summary>
#
# Half of them, at the start: a random key points towards a random vector as often as
# away from it. In trained models with ReLU it is a few percent ([@li2022lazy]): they
# learn to be silent about most things.
#
# ```python
# import torch
# from labml_nn.transformers.feed_forward import FeedForward
#
# ffn = FeedForward(d_model=64, d_ff=256, bias1=False).eval()
# x = torch.randn(50, 2, 64)
# keys, values = ffn.layer1.weight, ffn.layer2.weight.T  # [F, C] each
#
# output, found = ffn.layer2.bias, 0.0
# for key, value in zip(keys, values, strict=True):
#     match = (x @ key).relu()  # [T, B]: how well it fits at every position
#     output = output + match[..., None] * value
#     found += (match > 0).float().mean() / len(keys)
#
# torch.testing.assert_close(ffn(x), output, rtol=1e-4, atol=1e-5)
# assert abs(found - 0.5) < 0.05
# ```
#
# </details>
#
# **4.** LLaMA ([@touvron2023llama]) uses SwiGLU without biases. Its models of
# $C = 4096$ and $C = 5120$ have 11,008 and 13,824 hidden features. Where do these
# numbers come from?
#
# <details><summary>Answer</summary>
#
# Two thirds of $4C$, for as many weights as a plain network has, rounded up to a
# multiple of 256, which suits matrix units.
#
# ```python
# import math
# import torch
# from torch import nn
# from labml_nn.transformers.feed_forward import FeedForward
#
# def hidden(C):
#     return 256 * math.ceil(8 * C / 3 / 256)
#
# assert (hidden(4096), hidden(5120)) == (11_008, 13_824)
#
# biases = {"bias1": False, "bias2": False, "bias_gate": False}
# with torch.device("meta"):
#     ffn = FeedForward(4096, hidden(4096), 0.0, nn.SiLU(), is_gated=True, **biases)
# size = sum(p.numel() for p in ffn.parameters())
# assert 1 <= size / (8 * 4096**2) < 1.01
# ```
#
# </details>
