r"""
---
title: The Elman layer, compiled
summary: >
  Two products wait for each other, and four do not. All steps as one call of C++, with
  a tanh of its own, and where the time of nn.RNN goes.
paper: https://doi.org/10.1207/s15516709cog1402_1
---

An Elman layer does little else than multiply matrices. Forwards there are two products,
and on the [way back](../bptt.py) four:

$$\begin{alignedat}{2}
z_t &= W x_t + b &\quad
h_t &= f(z_t + U h_{t-1}) \\
\delta_t &= f'(z_t) \odot (g_t + U^\top \delta_{t+1}) &\quad
\frac{\partial L}{\partial x_t} &= W^\top \delta_t \\
\frac{\partial L}{\partial U} &= \sum_t \delta_t h_{t-1}^\top &\quad
\frac{\partial L}{\partial W} &= \sum_t \delta_t x_t^\top
\end{alignedat}$$

Each takes $T B N^2$ multiplications, if $C = N$. Only those with $h_{t-1}$ and
$\delta_{t+1}$ on the right have to go step by step. So a processor that multiplies at a
certain rate should train the layer in $6 \, T B N^2$ by that rate. Take $T = 256$ steps
of $B = 32$ texts and $N = 256$ units, and one core of an AMD EPYC with AVX-512. One
training step is 6.4 billion additions and multiplications. The best large product on
this core runs at 200 billion a second, so 32 ms should do. `torch.nn.RNN` takes 108.

**Where they go.** PyTorch's usual product of matrices makes 90 billion operations a
second on this processor, however large it is: that alone is 70 ms. Then $f$, 5 ms for
the 2 million numbers of `torch.tanh`. And then what happens between steps: 256 products
of 32 rows each, which start slowly; as many products for the gradient of $U$, each
added to a sum that is read and written each time; several calls for each step, with
memory for their results.

**What is done here.** The loop is C++, about 300 lines in `forward.h`, `backward.h` and
`gather.h` beside this file, and the equations in it are those above. The rest is that
of [all kernels](../../../kernels/build.py): products of few rows that stay in
registers, 215 billion operations a second here, and weights packed in the order in
which they are read. Four things are this kernel's own:

* **$z$ is never stored.** What the inputs bring is worked out for 64 rows at a time,
  and used while it lies in a near cache.
* **$f$ where the sum is.** A vector of sums is bent while it is in a register, and so
  is $\delta$ multiplied with its slope. Tanh costs a thirtieth of the way forward.
* **What the step before needs is asked for.** On the way back, $g$ and $h$ come from
  far away. Each time a vector of them is used, the same vector of the step before is
  prefetched. That took a fifth off the loop.
* **$\partial L / \partial x$ takes the place of $\delta$** when nobody needs $\delta$
  any more. So the way back sets aside one tensor as large as the text, not two.

**Tanh.** The exponential function is not needed. Tanh is odd, so $\tanh x = x \,
r(x^2)$, and for $r$ a quotient of two polynomials of degree 4 is enough:

$$\tanh x \approx x \cdot
  \frac{p_0 + p_1 x^2 + p_2 x^4 + p_3 x^6 + p_4 x^8}
       {1 + q_1 x^2 + q_2 x^4 + q_3 x^6 + q_4 x^8}, \; |x| \le 8$$

Beyond 8 it stays where it is, $3 \cdot 10^{-7}$ from 1. A test holds the relative error
below $4 \cdot 10^{-7}$ for numbers of any size, some seven times the rounding of a
float.

**What it costs.** Processor time in milliseconds on that core, which others used too,
256 steps, as many features as units. Training is forward and backward:

| Texts × units | | `nn.RNN` | unrolled | **compiled** |
|:--|:--|--:|--:|--:|
| 32 × 256 | forward | 35 | 36 | **12** |
| | training | 108 | 105 | **39** |
| 8 × 128 | forward | 4.8 | 4.9 | **1.6** |
| | training | 20 | 13 | **4.5** |
| 1 × 64 | forward | 2.0 | 1.4 | **0.5** |
| | training | 13 | 6.7 | **1.2** |

With 32 × 256 the six products run at 165 billion operations a second. What they fall
short of 215 is tanh and slopes, packing, and waiting for what comes from far away:
states, their gradients and $\delta$ are 8 MiB each. Memory of a training step, beyond
parameters and inputs, is 17 MiB there, 24 with `nn.RNN`.

**What it does not help.** With one text a product has one row. Then each step has to
read all of $U$ and does two operations for each number of it, and a processor reads
more slowly than it multiplies. Texts are shared among threads, so one text has one
thread. And half of what is won is won by vectors of 16 numbers: with those of 8, on the
same core, training with 32 × 256 takes 72 where `nn.RNN` takes 101. With vectors of 4
it is behind, and runs only if `backend = "kernel"` asks for it.

| Page | What it holds |
|:--|:--|
| [The two calls](run.py) | what Python and C++ share |
| [One token more](write.py) | a model that writes, compiled |
| [Compiled loops](../../../kernels/build.py) | what all kernels have in common |
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.kernels.build import VECTORS, Kernel, Library, Source, is_switched_off
from labml_nn.recurrent.elman.bptt import run_backward as run_backward_by_steps
from labml_nn.recurrent.elman.kernel.run import (
    Given,
    Gradients,
    run_backward,
    run_forward,
)

__all__ = ["Given", "find", "recur"]


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, library: Library, nonlinearity: str, *tensors: Any) -> Tensor:
        states = run_forward(library, Given._make(tensors), nonlinearity)
        ctx.library, ctx.nonlinearity = library, nonlinearity
        ctx.save_for_backward(states, *tensors)
        return states

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, *tensors = ctx.saved_tensors
        given = Given._make(tensors)
        if torch.is_grad_enabled():
            found = differentiable(gradients, states, given, ctx.nonlinearity)
        else:
            needed = ctx.needs_input_grad[2:]
            found = run_backward(
                ctx.library, gradients, states, given, ctx.nonlinearity, needed
            )
        return None, None, *found, None


def differentiable(
    gradients: Tensor, states: Tensor, given: Given, nonlinearity: str
) -> Gradients:
    r"""
    ## Gradients of gradients

    Who asks for them gets the way back in operations of PyTorch, the
    [two loops by hand](../bptt.py), whose gradients it knows. Arguments and results are
    those of `run_backward`.
    """
    mask = None if given.mask is None else given.mask.unsqueeze(-1)
    deltas, of_first = run_backward_by_steps(
        gradients, states, given.recurrent, mask, nonlinearity
    )
    rows = deltas.flatten(0, 1)
    before = torch.cat([given.h_0[None], states[:-1]]).flatten(0, 1)
    of_recurrent = rows.t() @ before
    if given.input is None:
        return Gradients(deltas, of_first, of_recurrent, None, None)
    of_input = rows.t() @ given.x.flatten(0, 1)
    of_bias = None if given.bias is None else rows.sum(0)
    return Gradients(deltas @ given.input, of_first, of_recurrent, of_input, of_bias)


def recur(library: Library, nonlinearity: str, given: Given) -> Tensor:
    r"""
    ## All steps

    * `library` is the kernel
    * `nonlinearity` is the name of $f$
    * `given` is what the layer has, in single precision

    Returns the states, `[T, B, N]`.
    """
    if not torch.is_grad_enabled():
        return run_forward(library, given, nonlinearity)
    states: Tensor = _Compiled.apply(library, nonlinearity, *given)  # type: ignore[no-untyped-call]
    return states


#: With fewer tokens than one for so many units, packing the weights costs more than it
#: saves.
UNITS_FOR_A_TOKEN = 16


def find(backend: str, x: Tensor, weight: Tensor) -> Library | None:
    r"""
    ## Whether it runs

    * `backend` is what the layer asks for
    * `x` is what it shall read
    * `weight` is its $U$

    Returns the kernel, built if need be, or `None` if the unrolled form shall run.

    A layer in double precision is no fault of anybody's, and `auto` says nothing. It
    does when the kernel could run and cannot be had, and `kernel` always does. Once: a
    training run of many steps hears it on the first.
    """
    if _is_traced(x):
        return None
    is_little = UNITS_FOR_A_TOKEN * len(x) * x.shape[1] < len(weight)
    if backend == "auto" and (is_little or not _has_wide_vectors()):
        return None
    return have(x, weight, is_asked_for=backend == "kernel")


def have(x: Tensor, weight: Tensor, *, is_asked_for: bool = False) -> Library | None:
    r"""
    ### However little there is to do

    * `is_asked_for` is whether somebody should be told that it cannot be

    The others are those of `find`.
    """
    reason = unsuited(x, weight)
    if reason is not None:
        if is_asked_for:
            KERNEL.tell(reason)
        return None
    return KERNEL.find()


def unsuited(x: Tensor, weight: Tensor) -> str | None:
    r"""
    ## What it does not know

    Returns what is in the way, or `None`.
    """
    if x.device.type != "cpu":
        return f"it runs on the CPU, and the sequence is on {x.device}"
    if weight.dtype != torch.float32:
        return f"it computes in float32, and the layer in {weight.dtype}"
    if x.numel() == 0:
        return "there is nothing to read"
    if is_switched_off():
        return "`LABML_NN_KERNEL` is 0"
    return None


# With vectors of 4 numbers `nn.RNN` was faster, where it was tried.
def _has_wide_vectors() -> bool:
    return torch.backends.cpu.get_cpu_capability() in VECTORS


# Compilers and `torch.func` follow the operations of PyTorch, and make of them what
# they need.
def _is_traced(x: Tensor) -> bool:
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or type(x) not in (Tensor, nn.Parameter)
    )


SOURCE = Source("elman", Path(__file__).parent, ("forward", "backward", "write"))
KERNEL = Kernel(SOURCE, "Elman layer", "The unrolled form")

# ## Exercises
#
# **1.** Lambert found in 1768 that
#
# $$\tanh x = \cfrac{x}{1 + \cfrac{x^2}{3 + \cfrac{x^2}{5 + \cfrac{x^2}{7 + \dots}}}}$$
#
# Cut off after 17, this is a quotient like the one above. How good is it at 2, at 4 and
# at 8, and why are the fitted coefficients better?
#
# <details><summary>Answer</summary>
#
# Near zero it is better than any float can show. At 8 it is off by 7 parts in 100,000:
# it spends all its accuracy where $x$ is small. The fitted quotient is about as good
# everywhere, and its error is below the rounding of a float, $6 \cdot 10^{-8}$.
#
# ```python
# import math
#
# def lambert(x, last=17):
#     result = last
#     for odd in range(last - 2, 0, -2):
#         result = odd + x * x / result
#     return x / result
#
# def fitted(x):
#     p = (1.0, 1.34444964e-1, 3.57159617e-3, 2.18946314e-5, 1.52303751e-8)
#     q = (1.0, 4.67778237e-1, 2.61644359e-2, 3.41128898e-4, 8.52242924e-7)
#     above, below = (sum(a * x ** (2 * i) for i, a in enumerate(c)) for c in (p, q))
#     return x * above / below
#
# def error(f, x):
#     return abs(f(x) / math.tanh(x) - 1)
#
# for x in (0.5, 2, 4, 8):
#     print(x, error(lambert, x), error(fitted, x))
# assert error(lambert, 2) < 1e-11 and error(lambert, 8) > 6e-5
# assert max(error(fitted, i / 1000) for i in range(1, 8001)) < 2e-8
# ```
#
# </details>
#
# **2.** A core multiplies and adds 32 pairs of numbers in one turn, and reads 16 of the
# numbers of $U$, which lie in its second cache. From how many texts on does a step take
# as long as its arithmetic, and not as long as its reading?
#
# <details><summary>Answer</summary>
#
# $B N^2 / 32$ turns against $N^2 / 16$, whatever $N$ is: two texts. With one text half
# of the arithmetic is left over. So reading two texts costs hardly more than reading
# one, which is what a batch is for.
#
# ```python
# from math import ceil
#
# def turns(texts, units):
#     return ceil(max(texts * units**2 / 32, units**2 / 16))
#
# for units in (128, 256):
#     assert turns(2, units) == turns(1, units)
#     assert turns(4, units) == 2 * turns(2, units)
# ```
#
# </details>
#
# **3.** How much faster is it on your machine, for a layer of your size? Make sure
# first that both compute the same.
#
# <details><summary>Answer</summary>
#
# Take the best of several rounds, in turns: whatever else the machine does only ever
# makes something slower.
#
# ```python
# import time
# import torch
# from labml_nn.recurrent.elman import ElmanLayer
#
# layer = ElmanLayer(48, 64)
# x = torch.randn(40, 8, 48)
# forms, best = ("unrolled", "kernel"), {}
# states = []
# for form in forms * 5:
#     layer.backend = form
#     start = time.perf_counter()
#     h, _ = layer(x)
#     h.square().mean().backward()
#     taken = time.perf_counter() - start
#     best[form] = min(taken, best.get(form, taken))
#     states.append(h.detach())
# print(f"{best['unrolled'] / best['kernel']:.1f} times as fast")
# torch.testing.assert_close(states[1], states[0], rtol=1e-5, atol=1e-5)
# ```
#
# </details>
