r"""
---
title: Backpropagation through time
summary: >
  How a network that runs in a circle learns: unrolled, differentiated by hand, and cut.
  With measurements of what becomes of a gradient on a long way back.
paper: https://doi.org/10.1109/5.58337
---

*Was it the butler? … It was not the butler.* If a detective is wrong in the last
chapter, something was overlooked in the first. To do better next time, the blame has to
travel back, chapter by chapter, to where it belongs.

A recurrent network has the same problem. Its state goes round in a circle,
$h_t = f(W x_t + U h_{t-1} + b)$, and backpropagation knows no circles. The way out is
to **unroll** it: write down a copy of the network for each step of the text, the state
of one copy being the input of the next. What was a circle is now a chain, a network of
$T$ layers that all share the same $W$, $U$ and $b$:

```text
       h₀ ──U──► h₁ ──U──► h₂ ──U──► h₃   …  state of each step
                 ▲         ▲         ▲
                 W         W         W
                 x₁        x₂        x₃   …  one token after the other
```

A chain has ordinary derivatives. They are **backpropagation through time** (Werbos
1990). Let $z_t = W x_t + U h_{t-1} + b$ be what enters $f$, and $g_t$ the part of
$\partial L / \partial h_t$ that comes from outside: from the prediction at step $t$, or
from a layer above. Then, from the last step to the first,

\begin{align}
\frac{\partial L}{\partial h_t} &= g_t + U^\top \delta_{t+1} \\
\delta_t = \frac{\partial L}{\partial z_t}
    &= f'(z_t) \odot \frac{\partial L}{\partial h_t}
\end{align}

with $\delta_{T+1} = 0$: blame for $h_t$ is what is wrong at $t$ itself, and what
went wrong later because of it. All steps share their parameters, so each parameter
gets the sum of what every step has to say:

$$\frac{\partial L}{\partial U} = \sum_{t=1}^{T} \delta_t \, h_{t-1}^\top, \quad
  \frac{\partial L}{\partial W} = \sum_{t=1}^{T} \delta_t \, x_t^\top, \quad
  \frac{\partial L}{\partial b} = \sum_{t=1}^{T} \delta_t$$

PyTorch finds all of it by itself if the [layer](layer.py) is a loop. This page does
it by hand, for two reasons. One is to see it. The other is speed: only the first two
lines must go step by step. The sums are one large matrix product each, where a loop
that is differentiated automatically makes $T$ small ones and adds them up.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W x_t + b$ | `z` | `[T, B, N]` | what the inputs bring, for all steps at once |
| $h_0$ | `h_0` | `[B, N]` | the state before the first step |
| $U$ | `weight` | `[N, N]` | how a state enters the next |
| $h_t$ | `states` | `[T, B, N]` | the states |
| $g_t$ | `gradients` | `[T, B, N]` | gradients of the states that come from outside |
| $\delta_t$ | `deltas` | `[T, B, N]` | gradients of what enters $f$ |
| $m_t$ | `mask` | `[T, B, 1]` | `True` where there is a token, not padding |
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# ## Bends
#
# Without something bent between the steps, all of them together would be one linear
# map. Three bends, with their slopes $f'(z)$. Each slope can be read off the *output*
# $h = f(z)$, so that nothing but the states has to be kept for the way back:
#
# \begin{align}
# \tanh'(z) &= 1 - h^2 \\
# \sigma'(z) &= h \, (1 - h) \\
# \operatorname{relu}'(z) &= 1 \text{ if } h > 0, \text{ else } 0
# \end{align}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}
SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda h: 1 - h * h,
    "sigmoid": lambda h: h * (1 - h),
    "relu": lambda h: (h > 0).to(h.dtype),
}


def run_forward(
    z: Tensor, h_0: Tensor, weight: Tensor, mask: Tensor | None, nonlinearity: str
) -> Tensor:
    r"""
    ## Forward

    $$h_t = f(z_t + U h_{t-1})$$

    What the inputs bring, `z`, was worked out before, for all steps in one product.
    Only what depends on the state before it is left for the loop. Where there is
    padding, the state waits: $h_t = h_{t-1}$.

    Returns $h_1, \dots, h_T$, `[T, B, N]`.
    """
    f, transposed, h, states = ACTIVATIONS[nonlinearity], weight.t(), h_0, []
    for t, z_t in enumerate(z.unbind(0)):
        new = f(torch.addmm(z_t, h, transposed))
        h = new if mask is None else torch.where(mask[t], new, h)
        states.append(h)
    return torch.stack(states)


def run_backward(
    gradients: Tensor,
    states: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    nonlinearity: str,
) -> tuple[Tensor, Tensor]:
    r"""
    ## Backward

    The first two equations above. At padding the state waited, so its gradient waits
    too: it skips the step, and $\delta_t = 0$.

    Returns $\delta_1, \dots, \delta_T$, `[T, B, N]`, and the gradient of $h_0$,
    `[B, N]`.
    """
    slopes = SLOPES[nonlinearity](states)
    if mask is not None:
        slopes = slopes.masked_fill(~mask, 0.0)

    # `blame` is what later steps send back, $U^\top \delta_{t+1}$. The states are rows
    # here, and $U^\top \delta$ is `delta @ weight`.
    blame, deltas = torch.zeros_like(gradients[0]), []
    for t in reversed(range(len(states))):
        total = gradients[t] + blame
        delta = total * slopes[t]
        blame = delta @ weight
        if mask is not None:
            blame = blame + total.masked_fill(mask[t], 0.0)
        deltas.append(delta)
    return torch.stack(deltas[::-1]), blame


# ## For the compiler, one step
#
# `torch.compile` and `torch.export` follow Python line by line, and a loop of 256 steps
# becomes 256 copies of its body. That takes long (15 s for 64 steps of 64 units,
# forward and backward, on two processor cores) and fits one length only. As operators
# of their own the two loops are opaque: a compiler sees one call each, of which it
# knows the shapes. It takes as long for any number of steps (6 s there), and an
# exported model reads texts of any length.
Operator = Callable[..., Any]
Backward = Callable[..., tuple[Tensor, Tensor]]

_forward_op = torch.library.custom_op(
    "labml_nn::elman_forward", run_forward, mutates_args=()
)
_forward_op.register_fake(lambda z, *_: torch.empty_like(z))
_backward_op = torch.library.custom_op(
    "labml_nn::elman_backward", run_backward, mutates_args=()
)
_backward_op.register_fake(
    lambda gradients, *_: (torch.empty_like(gradients), torch.empty_like(gradients[0]))
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, h_0, weight, mask, ctx.nonlinearity = inputs
    ctx.save_for_backward(output, h_0, weight, mask)


def _differentiate(
    ctx: Any, gradients: Tensor, backward: Backward
) -> tuple[Tensor, Tensor, Tensor, None, None]:
    r"""
    ## The gradients

    $\delta_t$ is the gradient of $z_t$, from which PyTorch goes on to $W$, $b$ and the
    inputs. What is left for us is $U$: all steps and all sequences, in one product.
    """
    states, h_0, weight, mask = ctx.saved_tensors
    deltas, blame = backward(gradients, states, weight, mask, ctx.nonlinearity)
    before = torch.cat([h_0[None], states[:-1]])
    product = deltas.flatten(0, 1).t() @ before.flatten(0, 1)
    return deltas, blame, product, None, None


def _differentiate_compiled(
    ctx: Any, gradients: Tensor
) -> tuple[Tensor, Tensor, Tensor, None, None]:
    # Who wants to differentiate the gradient again needs it step by step.
    backward = run_backward if torch.is_grad_enabled() else _backward_op
    return _differentiate(ctx, gradients, backward)


_forward_op.register_autograd(_differentiate_compiled, setup_context=_keep)


class _Unrolled(torch.autograd.Function):
    # The same outside a compiler, where an operator of our own would only be slower.
    # What runs on the way back is differentiable, so gradients of gradients work, and
    # so do the transformations of `torch.func`.
    generate_vmap_rule = True
    forward = staticmethod(run_forward)
    setup_context = staticmethod(_keep)

    @staticmethod
    def backward(
        ctx: Any, gradients: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None]:
        return _differentiate(ctx, gradients, run_backward)


def unroll(
    z: Tensor,
    h_0: Tensor,
    weight: Tensor,
    mask: Tensor | None = None,
    nonlinearity: str = "tanh",
) -> Tensor:
    r"""
    ## All steps, with gradients

    * `z` is what the inputs bring, $W x_t + b$, `[T, B, N]`
    * `h_0` is the state before the first of them, `[B, N]`
    * `weight` is $U$, `[N, N]`
    * `mask` is boolean, `[T, B]`, `False` where the state shall wait; `None` never
    * `nonlinearity` is the name of $f$: `tanh`, `sigmoid` or `relu`

    Returns the states $h_1, \dots, h_T$, `[T, B, N]`. All tensors of numbers have one
    dtype. The [layer](layer.py) calls it, and has looked at what it gives.
    """
    run: Operator = _Unrolled.apply if torch.is_grad_enabled() else run_forward
    if torch.compiler.is_compiling():
        run = _forward_op
    wait = None if mask is None else mask.unsqueeze(-1)
    states: Tensor = run(z, h_0, weight, wait, nonlinearity)
    return states


# ## What is left of a gradient on a long way
#
# Follow one gradient back from step $t$ to the beginning. At every step it is
# multiplied with the same kind of thing, the Jacobian of one step:
#
# $$\frac{\partial h_t}{\partial h_0} = \prod_{s=t}^{1} J_s, \qquad
#   J_s = \operatorname{diag}(1 - h_s^2) \; U$$
#
# A product of a hundred factors is hardly ever of moderate size. If the factors shrink
# a vector by a tenth each, $0.9^{100}$ leaves three hundred-thousandths of it. If they
# stretch it by a tenth, it is 14,000 times as long. Bengio, Simard and Frasconi
# ([-@bengio1994learning]) showed that it is no accident: a network that keeps something
# in mind *reliably*, so that small disturbances die out, is one in which gradients die
# out as well.
#
# Here is how long a gradient of length 1 at $h_t$ is when it arrives at $h_0$, for 128
# units and $U = \rho \cdot{}$(a rotation), whose eigenvalues all have the absolute
# value $\rho$. At every step a random input, one for all units, comes in through
# weights of standard deviation 0.5 (medians of 25 networks; after 30 steps two of them
# may differ threefold):
#
# | radius $\rho$ | 1 step | 10 steps | 30 | 100 |
# |--:|--:|--:|--:|--:|
# | 0.5 | 0.44 | 0.0002 | 2e-11 | 3e-37 |
# | 0.9 | 0.81 | 0.05 | 0.0001 | 2e-14 |
# | 1.0 | 0.89 | 0.12 | 0.001 | 1e-10 |
# | 1.1 | 0.97 | 0.24 | 0.007 | 6e-08 |
# | 1.5 | 1.3 | 1.9 | 1.6 | 1.0 |
# | 2.0 | 1.8 | 10 | 110 | 400,000 |
#
# ![One such network: the length of a gradient on its way back.](figure:elman.vanishing)
#
# Without inputs the states would stay at zero, where tanh has slope 1, and the columns
# would be $\rho^t$: a rotation would lose nothing. Inputs push the states up the
# shoulders of tanh, where it is flat, and each of them takes its toll. With
# $\rho = 1.5$ the two are in balance, but only for inputs of just this size. Exercise 2
# measures it.
#
# Clipping the norm of the gradients cures those that explode
# ([@pascanu2013difficulty]). Nothing brings back what has vanished. Gated networks add
# to their state instead of multiplying it, and a transformer has a path of length one
# from any step to any other.
#
# ## Cut off
#
# A novel has a million letters, and unrolled it would be a million layers. So texts are
# read in pieces. The *state* goes on from piece to piece, the *gradient* ends where the
# piece begins: `state.detach()`. This is truncated backpropagation through time. The
# network can still carry something through many pieces, but it is never told that what
# it failed to write down in one was needed in another. As the table shows, what is cut
# off is mostly nothing: after 30 steps little would have arrived.
#
# ## Exercises
#
# **1.** One unit, no inputs, no bias: $h_1 = \tanh(u h_0)$, $h_2 = \tanh(u h_1)$. Write
# down $\partial h_2 / \partial u$, and check it.
#
# <details><summary>Answer</summary>
#
# With $L = h_2$: $\delta_2 = 1 - h_2^2$ and $\delta_1 = (1 - h_1^2) \, u \, \delta_2$.
# Both steps have a say:
#
# $$\frac{\partial h_2}{\partial u} = \delta_2 h_1 + \delta_1 h_0$$
#
# ```python
# import torch
# from labml_nn.recurrent.elman.bptt import unroll
#
# u, h_0 = torch.tensor([[0.7]], requires_grad=True), torch.tensor([[0.5]])
# states = unroll(torch.zeros(2, 1, 1), h_0, u)
# (got,) = torch.autograd.grad(states[-1].sum(), u)
#
# h_1, h_2 = states.detach().flatten()
# delta_2 = 1 - h_2**2
# delta_1 = (1 - h_1**2) * 0.7 * delta_2
# torch.testing.assert_close(got.squeeze(), delta_2 * h_1 + delta_1 * 0.5)
# ```
#
# </details>
#
# **2.** Measure the table.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman.bptt import unroll
#
# def arriving(radius, steps, units=128, batch_size=16):
#     weight = radius * nn.init.orthogonal_(torch.empty(units, units))
#     inputs = torch.randn(steps, batch_size, 1)
#     z = inputs * (0.5 * torch.randn(units))
#     h_0 = torch.zeros(batch_size, units, requires_grad=True)
#     last = unroll(z, h_0, weight)[-1]
#     sent = torch.randn_like(last)
#     (arrived,) = torch.autograd.grad(last, h_0, sent)
#     return (arrived.norm(dim=1) / sent.norm(dim=1)).mean().item()
#
# for radius in (0.5, 0.9, 1.0, 1.1, 1.5, 2.0):
#     print(radius, *(f"{arriving(radius, t):.2g}" for t in (1, 10, 30, 100)))
# assert arriving(1.0, 1) > 0.8
# assert 0.05 < arriving(1.0, 10) < 0.3
# assert arriving(1.0, 100) < 1e-7
# assert arriving(2.0, 100) > 1000
# ```
#
# </details>
#
# **3.** How much of the gradient of $U$ is lost when a text of 40 steps is cut into
# pieces of 10?
#
# <details><summary>Answer</summary>
#
# In the network of the table, with $\rho = 1$ and a loss at each step, the two
# gradients point in nearly the same direction. Most of what a step can be blamed for
# shows within a few steps.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman.bptt import unroll
#
# weight = nn.init.orthogonal_(torch.empty(128, 128)).requires_grad_()
# z = torch.randn(40, 16, 1) * (0.5 * torch.randn(128))
# wanted = torch.randn(40, 16, 128)
#
# def gradient(length):
#     total, h = 0, torch.zeros(16, 128)
#     for piece, target in zip(z.split(length), wanted.split(length), strict=True):
#         states = unroll(piece, h.detach(), weight)
#         total = total + (states * target).sum()
#         h = states[-1]
#     return torch.autograd.grad(total, weight)[0].flatten()
#
# whole, pieces = gradient(40), gradient(10)
# similarity = torch.cosine_similarity(whole, pieces, dim=0)
# print(similarity.item())
# assert 0.8 < similarity < 1
# ```
#
# </details>
