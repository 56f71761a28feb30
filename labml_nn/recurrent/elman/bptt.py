r"""
---
title: Backpropagation through time
summary: >
  The gradient of a recurrent network, first for one number and then for matrices:
  unrolling, the backward recurrence, vanishing and exploding gradients, truncation.
paper: https://doi.org/10.1109/5.58337
---

An [Elman network](__init__.py) reads *hell* and predicts an *l* instead of the *o*.
Which weights should change? The prediction came from the last state. But this state was
computed from the one before it, and that one from an earlier one, by the same weights
each time. So the error has to be traced back through all four letters. On this page we
do that by hand, and you will see why it gets harder with every step.

**One number first.** Suppose that the state is a single number, that there are no
inputs, and that the activation function is left out. We start from $h_0 = 0.5$ with the
weight $u = 0.9$:

$$h_1 = u h_0 = 0.45, \qquad h_2 = u h_1 = 0.405$$

How does $h_2$ change with $u$? The weight was used twice, so there are two
contributions. In the second step $u$ multiplies $h_1$, which gives $h_1 = 0.45$. In the
first step it multiplies $h_0$, and the second step multiplies the result by $u$, which
gives $u h_0 = 0.45$. The gradient is their *sum*, 0.90. To
check this, note that $h_2 = u^2 h_0$, and its derivative is $2 u h_0 = 0.90$.

And how does $h_t$ change with a state long ago? Each step in between multiplies by $u$,
so the answer is $u^t$. After 50 steps that is 0.005 for $u = 0.9$, but 117 for
$u = 1.1$. You have just seen a gradient vanish, and another one explode.

**Unrolling.** In the network itself the state is a vector, and each step has an
activation function $f$:

$$h_t = f(a_t), \qquad a_t = W x_t + U h_{t-1} + b$$

Backpropagation needs a graph without cycles, but $h$ depends on itself. So we
**unroll** the network. We draw one copy of the cell for each step, and the state of one
copy is an input to the next. The result is a feed-forward network of $T$ layers that
all share $W$, $U$ and $b$. Its ordinary gradient is called backpropagation through time
([@werbos1990backpropagation]).

![An Elman network unrolled over seven steps. The stronger the colour of a state, the
more of the gradient of the last state arrives there.](figure:elman.unrolled)

**The backward recurrence.** We need three names:

* $\mathcal{L}$ is the loss of the whole sequence
* $g_t$ says how much the loss would change with $h_t$ through the prediction at step
  $t$ alone (or through a layer above), but not through $h_{t+1}$
* $\delta_t = \partial \mathcal{L} / \partial a_t$ says how much it would change with
  the sum $a_t$, through everything that follows

A state matters for two reasons: the prediction made from it, and everything that goes
wrong later because of it. The first is $g_t$, the second comes back through $U$. From
the last step to the first, and with $\delta_{T+1} = 0$, the chain rule says

\begin{align}
\frac{\partial \mathcal{L}}{\partial h_t} &= g_t + U^\top \delta_{t+1} \\
\delta_t &= f'(a_t) \odot \frac{\partial \mathcal{L}}{\partial h_t}
\end{align}

Each parameter is used at all steps. As with our single number $u$, its gradient is the
sum of what the steps contribute:

$$\frac{\partial \mathcal{L}}{\partial U} = \sum_{t=1}^{T} \delta_t \, h_{t-1}^\top,
  \quad
  \frac{\partial \mathcal{L}}{\partial W} = \sum_{t=1}^{T} \delta_t \, x_t^\top, \quad
  \frac{\partial \mathcal{L}}{\partial b} = \sum_{t=1}^{T} \delta_t$$

Autograd computes exactly this when it differentiates a loop. Why do it by hand, then?
Because we can do better. Only the two lines of the recurrence must run step by step.
The products $W x_t$ and the sums over $t$ are single large products over all $T B$
rows, whereas autograd makes $T$ small ones and adds them up. The
[kernels](../../kernels/elman.py) of the layer use the functions on this page.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $W x_t + b$ | `inputs` | `[T, B, N]` | contribution of the inputs to $a_t$ |
| $h_0$ | `h_0` | `[B, N]` | hidden state before the first step |
| $U$ | `recurrent` | `[N, N]` | recurrent weights |
| $h_t$ | `states` | `[T, B, N]` | hidden states |
| $g_t$ | `grad_states` | `[T, B, N]` | gradients of the states from outside |
| $\delta_t$ | `deltas` | `[T, B, N]` | gradients of $a_t$ |
| | `mask` | `[T, B, 1]` | `True` for a token, `False` for padding |
"""

from collections.abc import Callable

import torch
from torch import Tensor

from labml_nn.recurrent.elman import ACTIVATIONS

# ## Derivatives
#
# The backward pass needs the slope of $f$ at each step. For all three activation
# functions you can compute it from the *output* $h = f(a)$. So the forward pass has to
# store only the states:
#
# \begin{align}
# \tanh'(a) &= 1 - h^2 \\
# \sigma'(a) &= h \, (1 - h) \\
# \operatorname{relu}'(a) &= 1 \text{ if } h > 0, \text{ else } 0
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

    The `inputs` $W x_t + b$ were computed before, for all steps in one product. Only
    what depends on the previous state is left in the loop.

    Returns $h_1, \dots, h_T$, `[T, B, N]`.
    """
    f, transposed, h, states = ACTIVATIONS[nonlinearity], recurrent.t(), h_0, []
    for t, inputs_t in enumerate(inputs):
        # The sum $a_t$ and its activation. States are rows here, so $U h$ is
        # `h @ recurrent.T`; `addmm` multiplies and adds in one operation.
        new = f(torch.addmm(inputs_t, h, transposed))

        # At padding the state is kept, $h_t = h_{t-1}$.
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

    The recurrence runs from the last step to the first.

    Returns $\delta_1, \dots, \delta_T$, `[T, B, N]`, and the gradient of $h_0$,
    `[B, N]`.
    """
    # The slopes $f'(a_t)$ of all steps at once. Padding has no sum $a_t$, so its
    # $\delta_t$ is zero.
    slopes = DERIVATIVES[nonlinearity](states)
    if mask is not None:
        slopes = slopes.masked_fill(~mask, 0.0)

    # `later` is what the later steps contribute to the gradient of a state. After the
    # last step there is nothing.
    later, deltas = torch.zeros_like(grad_states[0]), []
    for t in reversed(range(len(states))):
        # Two sources: the prediction made from $h_t$, and all later steps.
        total = grad_states[t] + later

        # Through $f$, and then through $U$ to the state before. With rows,
        # $U^\top \delta$ is `delta @ recurrent`.
        deltas.append(total * slopes[t])
        later = deltas[-1] @ recurrent

        # At padding the state was copied, so its gradient is passed on unchanged.
        if mask is not None:
            later = later + total.masked_fill(mask[t], 0.0)
    return torch.stack(deltas[::-1]), later


def recurrent_grad(deltas: Tensor, states: Tensor, h_0: Tensor) -> Tensor:
    r"""
    ## Gradient of the recurrent weights

    The sum $\sum_t \delta_t h_{t-1}^\top$ over all steps and sequences is one product.
    """
    # The previous states are the states, shifted by one step, with $h_0$ in front.
    previous = torch.cat([h_0[None], states[:-1]])
    return deltas.flatten(0, 1).t() @ previous.flatten(0, 1)


# ## Vanishing and exploding gradients
#
# What takes the place of $u^t$ in a real network? On its way from $h_t$ to $h_0$ a
# gradient is multiplied by the Jacobians of all steps:
#
# $$\frac{\partial h_t}{\partial h_0} = J_t \, J_{t-1} \cdots J_1, \qquad
#   J_s = \operatorname{diag}(1 - h_s^2) \; U$$
#
# If each of a hundred factors shrinks a vector by a tenth, $0.9^{100} = 0.00003$ of it
# is left. If each stretches it by a tenth, it grows 14,000-fold. Bengio, Simard and
# Frasconi ([-@bengio1994learning]) show that this is no accident. In a network that
# stores information *robustly*, so that small disturbances die out, gradients die out
# as well.
#
# Let us measure it. We take 128 units and $U = \rho \cdot{}$(a random orthogonal
# matrix). Its eigenvalues all have the absolute value $\rho$, its spectral radius, and
# its singular values are all $\rho$, too. At each step we draw a random number, which
# reaches each unit through a weight of standard deviation 0.5. After 200 steps we send
# a gradient of length 1 back. How long is it when it arrives?
#
# | Radius $\rho$ | 1 step back | 10 steps | 30 | 100 |
# |--:|--:|--:|--:|--:|
# | 0.5 | 0.44 | 0.0002 | 1e-11 | 5e-37 |
# | 0.9 | 0.73 | 0.04 | 7e-05 | 2e-14 |
# | 1.0 | 0.79 | 0.1 | 0.0009 | 7e-11 |
# | 1.1 | 0.83 | 0.17 | 0.005 | 2e-08 |
# | 1.5 | 0.99 | 0.96 | 0.8 | 0.5 |
# | 2.0 | 1.1 | 3.3 | 34 | 160,000 |
# | trained | 0.55 | 0.004 | 5e-06 | 4e-17 |
#
# (Medians of 25 networks for each $\rho$. After 30 steps two of them may differ by a
# factor of ten.)
#
# ![The same lengths, step by step, for one new network of each kind and for the trained
# one.](figure:elman.vanishing)
#
# Why does an orthogonal matrix, $\rho = 1$, lose anything? Without inputs it would not.
# The states would stay at zero, where tanh has slope 1, and the columns would be
# $\rho^t$. But inputs move the states to where tanh is flatter, and each step loses a
# part of the gradient. At the very first steps, close to $h_0 = 0$, it loses a little
# less than in the middle of a text. At $\rho = 1.5$ growth and loss nearly cancel,
# but only for inputs of this size.
#
# **The last row** is the network of two layers that you can [try](__init__.py#try-it),
# on the 201 characters that it wrote itself. Its matrices $U$ have spectral radii of
# 3.2 and 2.7. From the rows above you would expect an explosion, but its gradient
# vanishes faster than that of an orthogonal matrix. The reason is in the slopes.
# Training drove two thirds of its units beyond ±0.95, where tanh is nearly flat. So you
# cannot tell from $U$ alone what happens to a gradient. You have to look at the states
# as well.
#
# Against explosion we clip the norm of the gradient ([@pascanu2013difficulty];
# [the rule](__init__.py#the-gradient)). Nothing restores what has vanished.
#
# ## Truncation
#
# A novel has a million characters, and its unrolled network a million layers. So we
# train on chunks. The *state* is passed from chunk to chunk, but the *gradient* stops
# where a chunk begins (`state.detach()`). This is **truncated** backpropagation through
# time. The network still uses information from earlier chunks, but it is not taught to
# store what only a later chunk needs.
#
# How much does that cost? Truncating after 30 steps loses little, because little is
# left to lose: a thousandth of the gradient for $\rho = 1$, and in the trained network
# five millionths. This is no comfort. It means that longer chunks would hardly help,
# either.
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
