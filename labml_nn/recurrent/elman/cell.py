r"""
---
title: The Elman cell
summary: >
  One step of a recurrent network is one line of mathematics: what an input does to the
  state, what the state does to the next, and a bend.
paper: https://doi.org/10.1207/s15516709cog1402_1
---

What an [Elman network](__init__.py) makes of one word is one equation,

$$h_t = f(W x_t + U h_{t-1} + b)$$

with the input $x_t$, and the state before it, $h_{t-1}$. The [layer](layer.py) is a
loop around it.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[B, C]` | the input of one step |
| $h_{t-1}$ | `h` | `[B, N]` | the state before it |
| $W$ | `self.input.weight` | `[N, C]` | for the input |
| $b$ | `self.input.bias` | `[N]` | always added |
| $U$ | `self.recurrent.weight` | `[N, N]` | for the state before |
| $f$ | `self.nonlinearity` | | tanh, sigmoid or relu |
"""

from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.checks import check_known, check_sizes
from labml_nn.recurrent.elman.bptt import ACTIVATIONS


class ElmanCell(nn.Module):
    r"""
    ## One step

    $$h_t = f(W x_t + U h_{t-1} + b)$$

    The equation has one bias. `torch.nn.RNN` has two, one beside $W$ and one beside
    $U$, because cuDNN wants it so. Only their sum counts.
    [Weights of `nn.RNN`](torch_rnn.py) come in and go out all the same.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        nonlinearity: str = "tanh",
        bias: bool = True,
    ) -> None:
        r"""
        * `d_model` is the number of features of an input, $C$
        * `d_hidden` is the number of hidden units, $N$
        * `nonlinearity` names $f$: `tanh`; `sigmoid`, which is the paper's; or `relu`
        * `bias` is whether there is a $b$

        Raises `ValueError` for a size below one or another name, `TypeError` for a size
        that is not a whole number.
        """
        super().__init__()
        check_sizes(d_model=d_model, d_hidden=d_hidden)
        check_known("nonlinearity", nonlinearity, ACTIVATIONS)
        self.nonlinearity = nonlinearity
        self.input = nn.Linear(d_model, d_hidden, bias=bias)
        self.recurrent = nn.Linear(d_hidden, d_hidden, bias=False)

        # $W$ and $b$ begin as those of any linear map in PyTorch: evenly drawn from
        # $\pm 1 / \sqrt{C}$.
        #
        # $U$ is used again and again, so what counts is what it does to a vector in the
        # long run. It begins as a random *orthogonal* matrix, a rotation: it makes no
        # vector longer or shorter, and no gradient either ([@saxe2014exact]). `nn.RNN`
        # draws it evenly from $\pm 1 / \sqrt{N}$. That matrix has a spectral radius of
        # about $1 / \sqrt{3}$, and after ten steps without input a state is down to
        # half a percent.
        nn.init.orthogonal_(self.recurrent.weight)

    def forward(
        self, x: Float[Tensor, "B C"], h: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        r"""
        * `x` is one step of each sequence, $x_t$, `[B, C]`
        * `h` is the state before it, $h_{t-1}$, `[B, N]`

        Returns the state after it, $h_t$, `[B, N]`.
        """
        return ACTIVATIONS[self.nonlinearity](self.input(x) + self.recurrent(h))


# ## Exercises
#
# **1.** Work out by hand: one unit, $W = 2$, $U = 1$, $b = -1$, relu, and the inputs
# 1, 0, 1, 1. What does it count?
#
# <details><summary>Answer</summary>
#
# A one adds $2 - 1 = 1$, and a zero takes 1 away, but never below zero: like brackets
# that open and close. A single unit can count, and without a limit, because relu has
# none. Tanh would saturate.
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanLayer
#
# layer = ElmanLayer(1, 1, nonlinearity="relu")
# with torch.no_grad():
#     layer.cell.input.weight.fill_(2)
#     layer.cell.recurrent.weight.fill_(1)
#     layer.cell.input.bias.fill_(-1)
# states, _ = layer(torch.tensor([1.0, 0, 1, 1]).view(4, 1, 1))
# assert states.flatten().tolist() == [1, 0, 1, 2]
# ```
#
# </details>
#
# **2.** You are given a network with sigmoid units. Build one with tanh units that
# computes the same.
#
# <details><summary>Answer</summary>
#
# $\sigma(z) = (1 + \tanh(z / 2)) / 2$: a sigmoid is a tanh, stretched and shifted. With
# states $s = (1 + h) / 2$,
#
# $$\begin{aligned} h_t &= \tanh\!\left(\frac{W x_t + U s_{t-1} + b}{2}\right) \\
#     &= \tanh\!\left(\frac{W}{2} x_t + \frac{U}{4} h_{t-1}
#         + \frac{b + \frac{1}{2} U \mathbf{1}}{2}\right) \end{aligned}$$
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanLayer
#
# theirs = ElmanLayer(4, 6, nonlinearity="sigmoid")
# ours = ElmanLayer(4, 6)
# U = theirs.cell.recurrent.weight
# with torch.no_grad():
#     ours.cell.input.weight.copy_(theirs.cell.input.weight / 2)
#     ours.cell.recurrent.weight.copy_(U / 4)
#     ours.cell.input.bias.copy_((theirs.cell.input.bias + U.sum(1) / 2) / 2)
#     ours.h_0.fill_(-1)  # s = 0
# x = torch.randn(9, 2, 4)
# torch.testing.assert_close((1 + ours(x)[0]) / 2, theirs(x)[0])
# ```
#
# A state of zero means "off" for a sigmoid and "undecided" for tanh; undecided is
# $s = 1/2$.
#
# </details>
#
# **3.** A cell that changes slowly: of the new state it takes a tenth, and keeps nine
# tenths of the old one. How does it get into a layer?
#
# <details><summary>Answer</summary>
#
# Put it in the place of `cell`. The layer sees that it is not an `ElmanCell` and takes
# the loop. Such units are called leaky; their state remembers for about ten steps,
# whatever $U$ does.
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanCell, ElmanLayer
#
# class LeakyCell(ElmanCell):
#     def forward(self, x, h):
#         return 0.9 * h + 0.1 * super().forward(x, h)
#
# layer = ElmanLayer(4, 6)
# layer.cell = LeakyCell(4, 6)
# states, _ = layer(torch.randn(9, 2, 4))
# assert states.abs().max() < 1 - 0.9**9  # so far it can have come, and no farther
# ```
#
# </details>
