r"""
---
title: The Elman layer
summary: >
  All steps of a recurrent network are a loop around one line of mathematics. Here is
  the loop in four forms: to read, unrolled, compiled, and in PyTorch's own kernel.
---

A recurrent layer is a loop around one equation, that of [the cell](cell.py):

$$h_t = f(W x_t + U h_{t-1} + b)$$

[The network](__init__.py) explains what it is for. This page has the loop, and what
else a layer needs: a state to begin with, padding that leaves no trace, and speed.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $x_t$ | `x` | `[T, B, C]` | the inputs |
| $h_t$ | `states` | `[T, B, N]` | the states after each step |
| $h_0$ | `h_0` | `[N]` | the state before the first step |
| $W$ | `cell.input.weight` | `[N, C]` | for the input |
| $b$ | `cell.input.bias` | `[N]` | always added |
| $U$ | `cell.recurrent` | `[N, N]` | for the state before |
| $f$ | `cell.nonlinearity` | | tanh, sigmoid or relu |
| $m_t$ | `mask` | `[T, B]` | `True` for a token, `False` for padding |
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labml_nn.checks import autocast_is_on, check_known, check_sequence
from labml_nn.recurrent.elman import kernel as compiled
from labml_nn.recurrent.elman.bptt import unroll
from labml_nn.recurrent.elman.cell import ElmanCell
from labml_nn.recurrent.elman.checks import check_mask, check_state

# ## Names
#
# Of `backend`: the forms below, and `auto`, which picks one.
BACKENDS = ("auto", "loop", "unrolled", "kernel", "torch")


class ElmanLayer(nn.Module):
    r"""
    ## All steps

    The computation exists four times. `loop` is what you came to read. The others are
    the same, faster:

    | `backend` | What runs |
    |:--|:--|
    | `loop` | [step by step](#ElmanLayer.loop), each a call of `cell` |
    | `unrolled` | [all inputs at once](#ElmanLayer.unrolled), gradients by hand |
    | `kernel` | [compiled](kernel/__init__.py), all steps in one call of C++ |
    | `torch` | [what `nn.RNN` calls](#ElmanLayer.torch_kernel), cuDNN on a GPU |

    `layer.backend = "auto"`, with which a layer begins, takes `torch` on a GPU when
    there is no mask, `kernel` on a processor, in single precision, and `unrolled`
    otherwise. When `cell` is not an `ElmanCell` any more but something of yours, it is
    `loop` whatever the name. `readable = True` is another way to say `loop`.
    """

    h_0: Tensor
    _backend: str = "auto"

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
        self.backend = "auto"

        # Before the first step nothing has been read, and $h_0 = 0$. It is a buffer, so
        # it is saved with the parameters and moves to the GPU with them. As a parameter
        # it can say in which mood texts begin.
        h_0 = torch.zeros(d_hidden)
        if learn_h_0:
            self.h_0 = nn.Parameter(h_0)
        else:
            self.register_buffer("h_0", h_0)

    @property
    def backend(self) -> str:
        """
        ### Which form runs

        Raises `ValueError` for a name that is none of `BACKENDS`.
        """
        return self._backend

    @backend.setter
    def backend(self, name: str) -> None:
        check_known("backend", name, BACKENDS)
        self._backend = name

    @property
    def readable(self) -> bool:
        """Whether it is the loop."""
        return self.backend == "loop"

    @readable.setter
    def readable(self, is_readable: bool) -> None:
        self.backend = "loop" if is_readable else "auto"

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
        elif self.backend == "torch" or (
            self.backend == "auto" and mask is None and self._has_kernel(x)
        ):
            states = self.torch_kernel(x, state, mask)
        elif self.backend == "unrolled":
            states = self.unrolled(x, state, mask)
        else:
            states = self.kernel(x, state, mask)
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
        self,
        x: Float[Tensor, "T B C"],
        h: Float[Tensor, "B N"],
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B N"]:
        r"""
        ### Compiled

        The products of a step are small, and a call of PyTorch for each costs as much
        as some of them. [In C++](kernel/__init__.py) all steps are one call. Where that
        cannot be, for want of a compiler or in double precision, `unrolled` runs.
        """
        library = compiled.find(self.backend, x, self.cell.recurrent.weight)
        if library is None:
            return self.unrolled(x, h, mask)

        # Whatever was done to `cell.input`, the kernel gets what comes out of it. If
        # nothing was, it does that product as well.
        linear = self.cell.input
        weights = (linear.weight, linear.bias) if _is_plain(linear) else (None, None)
        brought = linear(x) if weights[0] is None else x
        with torch.autocast("cpu", enabled=False):
            states = compiled.recur(
                library,
                self.cell.nonlinearity,
                compiled.Given(
                    x=brought.float(),
                    h_0=h.float(),
                    recurrent=self.cell.recurrent.weight,
                    input=weights[0],
                    bias=weights[1],
                    mask=mask,
                ),
            )
        return states.to(h.dtype)

    def torch_kernel(
        self,
        x: Float[Tensor, "T B C"],
        h: Float[Tensor, "B N"],
        mask: Bool[Tensor, "T B"] | None = None,
    ) -> Float[Tensor, "T B N"]:
        r"""
        ### In a kernel of PyTorch

        What `nn.RNN` calls. On a GPU it is cuDNN, where all steps are one call; a loop
        in Python would ask the GPU for two small things per step, and most of the time
        it would wait for the next. It knows `tanh` and `relu`, no mask, and no
        gradients of gradients. Raises `ValueError` for what it does not know.
        """
        if mask is not None or self.cell.nonlinearity == "sigmoid":
            raise ValueError(
                "backend = 'torch' knows tanh and relu and no mask; here are "
                f"{self.cell.nonlinearity} and {'no' if mask is None else 'a'} mask: "
                "with 'auto' another form runs"
            )

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


# Hooks, a forward of its own, a subclass: then it is asked, as any module.
def _is_plain(linear: nn.Linear) -> bool:
    return type(linear) is nn.Linear and not (
        linear._forward_hooks
        or linear._forward_pre_hooks
        or linear._backward_hooks
        or linear._backward_pre_hooks
        or "forward" in vars(linear)
    )


# ## What the forms cost
#
# Processor time in milliseconds of one core of an AMD EPYC with AVX-512, which others
# used too: 256 steps, with as many features going in as there are units. What one
# writes with two `nn.Linear` is the last column. `python -m benchmarks.elman` measures
# all of it on your machine.
#
# | Sequences × units | `loop` | `unrolled` | `kernel` | `nn.RNN` | loop of linears |
# |:--|--:|--:|--:|--:|--:|
# | 32 × 256, forward | 41 | 36 | 12 | 35 | 45 |
# | with backward | 127 | 105 | 39 | 108 | 130 |
# | 8 × 128, forward | 8.8 | 4.9 | 1.6 | 4.8 | 8.7 |
# | with backward | 29 | 13 | 4.5 | 20 | 31 |
# | 1 × 64, forward | 6.1 | 1.4 | 0.5 | 2.0 | 5.4 |
# | with backward | 21 | 6.7 | 1.2 | 13 | 22 |
#
# In PyTorch a wide layer is all arithmetic, and even the loop is not far behind. In a
# narrow one it counts how many operations there are, and `unrolled` trains up to twice
# as fast as `nn.RNN`. The [kernel](kernel/__init__.py) saves both: it has better
# products of few rows, and nothing between them.
#
# ## Exercises
#
# **1.** Two texts of a batch are of different lengths, and somebody has filled up the
# short one at the end with zeros, and given no mask. Which states are wrong?
#
# <details><summary>Answer</summary>
#
# Those behind its end, and only those: a state depends on nothing that comes later. But
# the last of all is among them, and a piece that goes on from it goes on from a state
# in which zeros were read. With a mask it is the state of the last token.
#
# ```python
# import torch
# from labml_nn.recurrent.elman import ElmanLayer
#
# layer = ElmanLayer(4, 6)
# x = torch.randn(9, 2, 4)
# x[5:, 0] = 0
# mask = torch.ones(9, 2, dtype=torch.bool)
# mask[5:, 0] = False
# without, end = layer(x)
# masked, waited = layer(x, None, mask)
# torch.testing.assert_close(without[:5], masked[:5])
# assert not torch.allclose(end[0], masked[4, 0])
# torch.testing.assert_close(waited[0], masked[4, 0])
# ```
#
# </details>
