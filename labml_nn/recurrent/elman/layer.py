r"""
---
title: The Elman layer
summary: >
  One step of a recurrent network is one line of mathematics. All steps are a loop, and
  here is the loop in three forms: to read, fast, and in PyTorch's own kernel.
paper: https://doi.org/10.1207/s15516709cog1402_1
---

A recurrent layer is a loop around one equation,

$$h_t = f(W x_t + U h_{t-1} + b)$$

[The network](__init__.py) explains what it is for. This page has the equation, the
loop, and what else a layer needs: a state to begin with, padding that leaves no trace,
and speed.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[T, B, C]` | the inputs |
| $h_t$ | `states` | `[T, B, N]` | the states after each step |
| $h_0$ | `h_0` | `[N]` | the state before the first step |
| $W$ | `input.weight` of `ElmanCell`, `cell.input.weight` | `[N, C]` | for the input |
| $b$ | `input.bias` of `ElmanCell`, `cell.input.bias` | `[N]` | always added |
| $U$ | `recurrent` of `ElmanCell`, `cell.recurrent` | `[N, N]` | for the state before |
| $f$ | `cell.nonlinearity` | | tanh, sigmoid or relu |
| $m_t$ | `mask` | `[T, B]` | `True` for a token, `False` for padding |
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import (
    autocast_is_on,
    check_known,
    check_sequence,
    check_sizes,
)
from labml_nn.recurrent.elman.bptt import ACTIVATIONS, unroll
from labml_nn.recurrent.elman.checks import check_mask, check_state


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


class ElmanLayer(nn.Module):
    r"""
    ## All steps

    The computation exists three times. `loop` is what you came to read. `unrolled` and
    `kernel` are the same, faster. The layer picks one by itself: `kernel` on a GPU when
    there is no mask, `unrolled` otherwise, and `loop` when `cell` is not an `ElmanCell`
    any more but something of yours, or when `readable` is set to `True`.
    """

    h_0: Tensor

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        nonlinearity: str = "tanh",
        bias: bool = True,
        learn_h_0: bool = False,
    ) -> None:
        r"""
        * `d_model`, `d_hidden`, `nonlinearity` and `bias` are those of `ElmanCell`
        * `learn_h_0` is whether $h_0$ is trained

        Raises what `ElmanCell` does.
        """
        super().__init__()
        self.cell = ElmanCell(d_model, d_hidden, nonlinearity=nonlinearity, bias=bias)
        self.d_model = d_model
        self.d_hidden = d_hidden
        self.readable = False

        # Before the first step nothing has been read, and $h_0 = 0$. It is a buffer, so
        # it is saved with the parameters and moves to the GPU with them. As a parameter
        # it can say in which mood texts begin.
        h_0 = torch.zeros(d_hidden)
        if learn_h_0:
            self.h_0 = nn.Parameter(h_0)
        else:
            self.register_buffer("h_0", h_0)

    def initial(self, batch_size: int) -> Float[Tensor, "B N"]:
        """
        ### Before the first step

        Returns $h_0$, once for each of `batch_size` sequences, `[B, N]`.
        """
        return self.h_0.expand(batch_size, -1)

    def forward(
        self,
        x: Float[Tensor, "T B C"],
        state: Float[Tensor, "B N"] | None = None,
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> tuple[Float[Tensor, "T B N"], Float[Tensor, "B N"]]:
        r"""
        * `x` is a batch of sequences, `[T, B, C]`
        * `state` is the state before the first of these steps, `[B, N]`; `None` is
          $h_0$
        * `mask` is boolean, `[T, B]`: `True` for what is to be read, `False` for
          padding, wherever it stands

        Returns the states after each step, `[T, B, N]`, and the one after the last,
        `[B, N]`, to go on from. At padding the state is that of the token before it.

        The last state carries its gradients, so that a loss on the next piece of a text
        reaches into this one. To train piece by piece, cut them with
        `state = state.detach()`. Raises `ValueError` for shapes that do not fit or an
        empty sequence, `TypeError` for dtypes.
        """
        check_sequence("x", x, self.d_model, self.h_0)
        if state is None:
            state = self.initial(x.shape[1])
        check_state(state, x, (x.shape[1], self.d_hidden))
        if mask is not None:
            check_mask(mask, x)

        # Under autocast the state has the type of what the linear maps return, from the
        # first step on.
        if autocast_is_on(x):
            state = state.to(torch.get_autocast_dtype(x.device.type))

        if self.readable or type(self.cell) is not ElmanCell:
            states = self.loop(x, state, mask)
        elif mask is None and self._has_kernel(x):
            states = self.kernel(x, state)
        else:
            states = self.unrolled(x, state, mask)
        return states, states[-1]

    def loop(
        self,
        x: Float[Tensor, "T B C"],
        h: Float[Tensor, "B N"],
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B N"]:
        r"""
        ### Step by step

        Sequences of a batch are rarely equally long, and short ones are filled up with
        padding, at the end or at the beginning. It must not leave a trace in the state,
        so at padding the state waits:

        $$h_t = \begin{cases}
            f(W x_t + U h_{t-1} + b) & \text{if } m_t \\
            h_{t-1} & \text{otherwise}
        \end{cases}$$

        Then padding at the beginning leaves $h_0$ as it is, and after padding at the
        end the state is still that of the last token.
        """
        states = []
        for t, x_t in enumerate(x.unbind(0)):
            new = self.cell(x_t, h)
            h = new if mask is None else torch.where(mask[t, :, None], new, h)
            states.append(h)
        return torch.stack(states)

    def unrolled(
        self,
        x: Float[Tensor, "T B C"],
        h: Float[Tensor, "B N"],
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B N"]:
        r"""
        ### All inputs at once

        $W x_t + b$ does not depend on the state. For all steps together it is one
        product, of $T \cdot B$ rows; only $U h_{t-1}$ has to wait for its turn. The way
        back is written [by hand](bptt.py), where one product for all steps replaces
        $T$ small ones as well.
        """
        z = self.cell.input(x)
        weight = self.cell.recurrent.weight.to(z.dtype)
        return unroll(z, h, weight, mask, self.cell.nonlinearity)

    def kernel(
        self, x: Float[Tensor, "T B C"], h: Float[Tensor, "B N"]
    ) -> Float[Tensor, "T B N"]:
        r"""
        ### In a kernel of PyTorch

        What `nn.RNN` calls. On a GPU it is cuDNN, where all steps are one call; a loop
        in Python would ask the GPU for two small things per step, and most of the time
        it would wait for the next. It knows `tanh` and `relu`, no mask, and no
        gradients of gradients.
        """
        # cuDNN wants both biases, and all parameters in one piece of memory, in this
        # order.
        linear, bias = self.cell.input, self.cell.input.bias
        parts = [linear.weight, self.cell.recurrent.weight]
        parts += [] if bias is None else [bias, torch.zeros_like(bias)]
        flat = torch.cat([part.flatten() for part in parts]).to(h.dtype)
        pieces = torch.split(flat, [part.numel() for part in parts])
        weights = [p.view_as(part) for p, part in zip(pieces, parts, strict=True)]

        run = torch.rnn_tanh if self.cell.nonlinearity == "tanh" else torch.rnn_relu
        with torch.autocast(x.device.type, enabled=False):
            states, _ = run(
                x.to(h.dtype),
                h.unsqueeze(0).contiguous(),
                weights,
                has_biases=bias is not None,
                num_layers=1,
                dropout=0.0,
                train=torch.is_grad_enabled(),
                bidirectional=False,
                batch_first=False,
            )
        return states

    def _has_kernel(self, x: Tensor) -> bool:
        # A compiler would take the kernel apart into its steps.
        known = self.cell.nonlinearity in ("tanh", "relu")
        return x.is_cuda and known and not torch.compiler.is_compiling()


# ## What the forms cost
#
# Milliseconds of one processor core for 256 steps, with as many features going in as
# there are units (`benchmarks/elman_forms.py`):
#
# | Sequences × units | `loop` | `unrolled` | `kernel` | `nn.RNN` |
# |:--|--:|--:|--:|--:|
# | 32 × 256, forward | 40 | 33 | 33 | 34 |
# | with backward | 118 | 105 | 107 | 106 |
# | 8 × 128, forward | 7.7 | 4.4 | 4.3 | 4.2 |
# | with backward | 24 | 11 | 16 | 16 |
# | 1 × 64, forward | 4.5 | 1.6 | 1.4 | 1.3 |
# | with backward | 15 | 3.9 | 8.1 | 7.7 |
#
# A wide layer is all arithmetic, and even the loop is not far behind. In a narrow one
# it counts how many operations there are, and `unrolled` trains up to twice as fast
# as `nn.RNN`.
#
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
# $$h_t = \tanh\!\left(\frac{W x_t + U s_{t-1} + b}{2}\right)
#     = \tanh\!\left(\frac{W}{2} x_t + \frac{U}{4} h_{t-1}
#         + \frac{b + \frac{1}{2} U \mathbf{1}}{2}\right)$$
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
