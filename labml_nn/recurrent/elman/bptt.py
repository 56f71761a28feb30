r"""
---
title: Backpropagation through time
summary: >
  The gradient of a recurrent network, derived by hand: unrolling, the backward
  recurrence, vanishing and exploding gradients, truncation.
paper: https://doi.org/10.1109/5.58337
---

The hidden state of an [Elman network](__init__.py) depends on itself, one step before:

$$h_t = f(z_t), \qquad z_t = W x_t + U h_{t-1} + b$$

Backpropagation needs a graph without cycles. So we **unroll** the network: one copy of
the cell for each step, where the hidden state of one copy is an input of the next. The
result is a feed-forward network of $T$ layers that all share $W$, $U$ and $b$, and its
ordinary gradient is called backpropagation through time (Werbos 1990).

![An Elman network unrolled over seven steps. The darker a state, the more of the
gradient of the last state arrives there.](figure:elman.unrolled)

Let $\mathcal{L}$ be the loss, $g_t$ the part of $\partial \mathcal{L} / \partial h_t$
that does not pass through $h_{t+1}$ (it comes from the prediction at step $t$, or from
a layer above), and $\delta_t = \partial \mathcal{L} / \partial z_t$. By the chain
rule, from the last step to the first and with $\delta_{T+1} = 0$,

\begin{align}
\frac{\partial \mathcal{L}}{\partial h_t} &= g_t + U^\top \delta_{t+1} \\
\delta_t &= f'(z_t) \odot \frac{\partial \mathcal{L}}{\partial h_t}
\end{align}

So the error at a state has two sources: the prediction made from it, and everything
that goes wrong later because of it. Each parameter is used at all steps, and its
gradient is the sum over them:

$$\frac{\partial \mathcal{L}}{\partial U} = \sum_{t=1}^{T} \delta_t \, h_{t-1}^\top,
  \quad
  \frac{\partial \mathcal{L}}{\partial W} = \sum_{t=1}^{T} \delta_t \, x_t^\top, \quad
  \frac{\partial \mathcal{L}}{\partial b} = \sum_{t=1}^{T} \delta_t$$

Autograd finds the same if the layer is a loop. By hand, only the two lines of the
recurrence run step by step. The products $W x_t$ and the sums over $t$ are single large
products over all $T B$ rows, where autograd makes $T$ small ones and adds them. The
[kernels](../../kernels/elman.py) of the layer use these functions.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W x_t + b$ | `inputs` | `[T, B, N]` | contribution of the inputs to $z_t$ |
| $h_0$ | `h_0` | `[B, N]` | hidden state before the first step |
| $U$ | `recurrent` | `[N, N]` | recurrent weights |
| $h_t$ | `states` | `[T, B, N]` | hidden states |
| $g_t$ | `grad_states` | `[T, B, N]` | gradients of the states from outside |
| $\delta_t$ | `deltas` | `[T, B, N]` | gradients of $z_t$ |
| | `mask` | `[T, B, 1]` | `True` for a token, `False` for padding |
"""

from collections.abc import Callable

import torch
from torch import Tensor

from labml_nn.recurrent.elman import ACTIVATIONS

# ## Derivatives
#
# Each $f'(z)$ can be computed from the *output* $h = f(z)$, so the forward pass has to
# store the states only:
#
# \begin{align}
# \tanh'(z) &= 1 - h^2 \\
# \sigma'(z) &= h \, (1 - h) \\
# \operatorname{relu}'(z) &= 1 \text{ if } h > 0, \text{ else } 0
# \end{align}
DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda h: 1 - h * h,
    "sigmoid": lambda h: h * (1 - h),
    "relu": lambda h: (h > 0).to(h.dtype),
}


def run_forward(
    inputs: Tensor,
    h_0: Tensor,
    recurrent: Tensor,
    mask: Tensor | None = None,
    nonlinearity: str = "tanh",
) -> Tensor:
    r"""
    ## Forward pass

    The `inputs` $W x_t + b$ were computed before, for all steps in one product. What
    depends on the previous state is left for the loop. At padding
    $h_t = h_{t-1}$.

    Returns $h_1, \dots, h_T$, `[T, B, N]`.
    """
    f, transposed, h, states = ACTIVATIONS[nonlinearity], recurrent.t(), h_0, []
    for t, inputs_t in enumerate(inputs):
        new = f(torch.addmm(inputs_t, h, transposed))
        h = new if mask is None else torch.where(mask[t], new, h)
        states.append(h)
    return torch.stack(states)


def run_backward(
    grad_states: Tensor,
    states: Tensor,
    recurrent: Tensor,
    mask: Tensor | None = None,
    nonlinearity: str = "tanh",
) -> tuple[Tensor, Tensor]:
    r"""
    ## Backward pass

    The recurrence from the last step to the first. States are rows here, so
    $U^\top \delta$ is `delta @ recurrent`. At padding the state was copied: its
    gradient is passed on unchanged, and $\delta_t = 0$.

    Returns $\delta_1, \dots, \delta_T$, `[T, B, N]`, and the gradient of $h_0$,
    `[B, N]`.
    """
    slopes = DERIVATIVES[nonlinearity](states)
    if mask is not None:
        slopes = slopes.masked_fill(~mask, 0.0)
    later, deltas = torch.zeros_like(grad_states[0]), []
    for t in reversed(range(len(states))):
        total = grad_states[t] + later
        deltas.append(total * slopes[t])
        later = deltas[-1] @ recurrent
        if mask is not None:
            later = later + total.masked_fill(mask[t], 0.0)
    return torch.stack(deltas[::-1]), later


def recurrent_grad(deltas: Tensor, states: Tensor, h_0: Tensor) -> Tensor:
    r"""
    ## Gradient of the recurrent weights

    $\sum_t \delta_t h_{t-1}^\top$ over all steps and sequences is one product. The
    previous states are the states, shifted by one step.
    """
    previous = torch.cat([h_0[None], states[:-1]])
    return deltas.flatten(0, 1).t() @ previous.flatten(0, 1)


# ## Vanishing and exploding gradients
#
# On its way from $h_t$ to $h_0$ a gradient is multiplied by the Jacobians of all steps:
#
# $$\frac{\partial h_t}{\partial h_0} = \prod_{s=t}^{1} J_s, \qquad
#   J_s = \operatorname{diag}(1 - h_s^2) \; U$$
#
# If each of a hundred factors shrinks a vector by a tenth, $0.9^{100} = 0.00003$ of it
# is left; if each stretches it by a tenth, it grows 14,000-fold. Bengio, Simard and
# Frasconi ([-@bengio1994learning]) show that this is no accident: in a network that
# stores information *robustly*, so that small disturbances die out, gradients die out
# as well.
#
# The table shows how long a gradient of length 1 at $h_t$ is when it arrives at $h_0$,
# for 128 units and $U = \rho \cdot{}$(a random orthogonal matrix), whose eigenvalues
# all have absolute value $\rho$. At each step a random input, the same for all units,
# enters with weights of standard deviation 0.5. (Medians of 25 networks. After 30 steps
# two networks may differ by a factor of three.)
#
# | Radius $\rho$ | 1 step | 10 steps | 30 | 100 |
# |--:|--:|--:|--:|--:|
# | 0.5 | 0.44 | 0.0002 | 2e-11 | 3e-37 |
# | 0.9 | 0.81 | 0.05 | 0.0001 | 2e-14 |
# | 1.0 | 0.89 | 0.12 | 0.001 | 1e-10 |
# | 1.1 | 0.97 | 0.24 | 0.007 | 6e-08 |
# | 1.5 | 1.3 | 1.9 | 1.6 | 1.0 |
# | 2.0 | 1.8 | 10 | 110 | 400,000 |
#
# ![One such network: the length of a gradient against the number of steps
# back.](figure:elman.vanishing)
#
# Without inputs the states would stay at zero, where tanh has slope 1, and the columns
# would be $\rho^t$: an orthogonal matrix would lose nothing. Inputs move the states to
# where tanh is flatter, and each step loses a part of the gradient. At $\rho = 1.5$
# growth and loss cancel, but only for inputs of this size.
#
# Clipping the norm of the gradient is a remedy against explosion
# ([@pascanu2013difficulty]); nothing restores what has vanished.
#
# ## Truncation
#
# A novel has a million characters, and its unrolled network a million layers. So texts
# are trained in chunks: the *state* is passed from chunk to chunk, the *gradient* stops
# where a chunk begins (`state.detach()`). This is **truncated** backpropagation through
# time. The network still uses information from earlier chunks, but it is not taught to
# store what only a later chunk needs. The table says what is lost: after 30 steps, at
# $\rho = 1$, a thousandth of the gradient.
#
# ## Exercises
#
# **1.** One unit, no inputs, no bias: $h_1 = \tanh(u h_0)$, $h_2 = \tanh(u h_1)$. Write
# down $\partial h_2 / \partial u$, and check it.
#
# <details><summary>Answer</summary>
#
# With $\mathcal{L} = h_2$: $\delta_2 = 1 - h_2^2$ and
# $\delta_1 = (1 - h_1^2) \, u \, \delta_2$. Both steps contribute:
#
# $$\frac{\partial h_2}{\partial u} = \delta_2 h_1 + \delta_1 h_0$$
#
# ```python
# import torch
# from labml_nn.recurrent.elman.bptt import run_forward
#
# u, h_0 = torch.tensor([[0.7]], requires_grad=True), torch.tensor([[0.5]])
# states = run_forward(torch.zeros(2, 1, 1), h_0, u)
# (gradient,) = torch.autograd.grad(states[-1].sum(), u)
#
# h_1, h_2 = states.detach().flatten()
# delta_2 = 1 - h_2**2
# delta_1 = (1 - h_1**2) * 0.7 * delta_2
# torch.testing.assert_close(gradient.squeeze(), delta_2 * h_1 + delta_1 * 0.5)
# ```
#
# </details>
