r"""
---
title: Running the Elman kernel
summary: >
  What Python and C++ share, and the two calls: all steps forwards, all steps back.
---

The [kernel](index.html) is two functions of C++. Each gets one structure with sizes and
pointers; the memory behind the pointers are tensors that are made here. How a kernel is
called in general has [a page of its own](../../../kernels/call.py).

Rows of inputs and states lie as PyTorch has them, without padding: a vector that
reaches beyond the end of a row is loaded and stored in part. So nothing is copied on
the way in or out. Only weights are, when they are
[packed](../../../kernels/call.py#Call.pack).
"""

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from labml_nn.kernels.build import Library
from labml_nn.kernels.call import Call, fields, up_to


class Task(ctypes.Structure):
    r"""
    ## What is to be done

    In the order of `task.h`, where each field is explained.
    """

    _fields_ = fields(
        "threads workers steps batch width units bend block scratch_size",
        "",
        """
        input bias recurrent x first mask states
        of_states deltas of_first of_x of_recurrent of_input of_bias scratch
        """,
    )


class Given(NamedTuple):
    r"""
    ## What a layer gives

    * `x` are the inputs, `[T, B, C]`; or what they bring, $W x_t + b$, `[T, B, N]`, and
      then `input` and `bias` are `None`
    * `h_0` is the state before the first step, `[B, N]`
    * `recurrent` is $U$, `[N, N]`
    * `input`, `bias` are $W$, `[N, C]`, and $b$, `[N]`, or `None`
    * `mask` is `False` where the state shall wait, `[T, B]`
    """

    x: Tensor
    h_0: Tensor
    recurrent: Tensor
    input: Tensor | None
    bias: Tensor | None
    mask: Tensor | None


class Gradients(NamedTuple):
    r"""
    ## What it gets back

    The gradients of all but the mask, in the same order; `None` for what was not asked.
    """

    x: Tensor | None
    h_0: Tensor
    recurrent: Tensor | None
    input: Tensor | None
    bias: Tensor | None


BENDS = ("tanh", "sigmoid", "relu")

# ## Two sizes
#
# `ROWS`: with so many rows a product pays for reading the weights. What inputs bring is
# worked out for as many steps together as give that many.
#
# `WORTH`: a thread takes some 20 µs to begin. It is not asked for less work than this,
# in multiplications.
ROWS = 64
WORTH = 2**22


def _begin(library: Library, given: Given, nonlinearity: str) -> Call:
    call = Call(library, Task(), given.x)
    task = call.task
    task.steps, task.batch, _ = given.x.shape
    task.units = len(given.recurrent)
    task.width = 0 if given.input is None else given.x.shape[2]
    task.bend = BENDS.index(nonlinearity)
    work = task.steps * task.batch * task.units * (task.units + task.width)
    task.workers = max(1, min(torch.get_num_threads(), work // WORTH))
    task.threads = min(task.workers, task.batch)
    call.point(x=given.x, first=given.h_0, mask=given.mask)
    return call


# The most that a thread has to do with.
def _texts(call: Call) -> int:
    texts: int = -(-call.task.batch // call.task.threads)
    return texts


def _scratch(call: Call, size: int) -> None:
    call.task.scratch_size = up_to(size, call.panel)
    call.point(scratch=call.space(call.task.workers, call.task.scratch_size))


def run_forward(library: Library, given: Given, nonlinearity: str) -> Tensor:
    r"""
    ## The way there

    * `library` is the kernel
    * `given` is all in single precision
    * `nonlinearity` is the name of $f$

    Returns the states, `[T, B, N]`. Nothing else is kept: what the inputs bring lives
    for a few steps, on a thread's scratch paper.
    """
    call = _begin(library, given, nonlinearity)
    task = call.task
    states = given.x.new_empty(task.steps, task.batch, task.units)
    call.point(recurrent=call.pack(given.recurrent.mT), states=states)
    if given.input is not None:
        call.point(input=call.pack(given.input.mT), bias=given.bias)
    task.block = -(-ROWS // _texts(call))
    _scratch(call, task.block * _texts(call) * (task.units + task.width))
    call.run("forward")
    return states


def run_backward(
    library: Library,
    gradients: Tensor,
    states: Tensor,
    given: Given,
    nonlinearity: str,
    needed: tuple[bool, ...],
) -> Gradients:
    r"""
    ## The way back

    * `gradients` are those of the states, from outside, `[T, B, N]`
    * `states` is what `run_forward` returned
    * `needed` says of each part of `given` whether its gradient is wanted

    The others are as above.
    """
    call = _begin(library, given, nonlinearity)
    task = call.task
    deltas, of_first = torch.empty_like(states), torch.empty_like(states[0])
    call.point(
        of_states=gradients,
        states=states,
        deltas=deltas,
        of_first=of_first,
        recurrent=call.pack(given.recurrent),
    )
    _scratch(call, max(_texts(call), ROWS) * task.units)
    want = Given._make(needed)
    of_recurrent = _sum(call, "of_recurrent", task.units, task.units, want.recurrent)
    of_x, of_input, of_bias = deltas, None, None
    if given.input is not None:
        of_input = _sum(call, "of_input", task.units, task.width, want.input)
        of_bias = _sum(call, "of_bias", 1, task.units, want.bias)

        # The gradient of the inputs is worked out last, row by row from the deltas,
        # which nobody needs any more. If it is as large, it takes their place.
        if want.x:
            if task.width != task.units:
                of_x = given.x.new_empty(given.x.shape)
            call.point(of_x=of_x, input=call.pack(given.input))
    call.run("backward")
    return Gradients(
        of_x if want.x else None,
        of_first,
        of_recurrent,
        of_input,
        None if of_bias is None else of_bias[0],
    )


# A matrix to add to, with rows that are whole vectors.
def _sum(
    call: Call, name: str, rows: int, columns: int, is_wanted: object
) -> Tensor | None:
    if not is_wanted:
        return None
    total = call.zeros(rows, up_to(columns, call.lanes))
    call.point(**{name: total})
    return total[:, :columns]


# ## Exercises
#
# **1.** What the inputs bring is worked out for a block of steps. How many steps are
# that with 5 texts and one thread? What is gained over one step at a time, and what
# over all steps at once?
#
# <details><summary>Answer</summary>
#
# 13 steps are 65 rows. For 100 steps that is 8 products with many rows instead of 100
# with five, and each reads the weights anew. All at once would be one product, but its
# result, as large as the states, would have left the near caches before it is used.
#
# ```python
# from labml_nn.recurrent.elman.kernel.run import ROWS
#
# steps, texts, units = 100, 5, 256
# block = -(-ROWS // texts)
# assert (block, -(-steps // block)) == (13, 8)
# assert block * texts * units * 4 == 66_560  # bytes; of all steps, 512,000
# ```
#
# </details>
#
# **2.** The gradient of the inputs, $W^\top \delta_t$, is written where $\delta_t$ was.
# `gather.h` copies some rows of $\delta$ first. Why is it wrong without the copy?
#
# <details><summary>Answer</summary>
#
# A product is made some columns at a time, and all of them are sums over the whole
# row. The second ones would read what the first ones have written.
#
# ```python
# import torch
#
# def gradient(delta, weight, read_from):
#     for columns in (slice(0, 4), slice(4, 8)):
#         delta[:, columns] = read_from @ weight[:, columns]
#     return delta
#
# delta, weight = torch.randn(3, 8), torch.randn(8, 8)
# right = delta @ weight
# in_place = delta.clone()
# assert torch.allclose(gradient(delta.clone(), weight, delta), right, atol=1e-5)
# assert not torch.allclose(gradient(in_place, weight, in_place), right, atol=1e-5)
# ```
#
# </details>
#
# **3.** Somebody adds a field to `task.h` and forgets it in `Task`. A `Library` knows
# the size of its structure, so that is noticed. And if two fields change places?
#
# <details><summary>Answer</summary>
#
# Then the sizes agree, and C++ takes one tensor for the other. Nothing in `ctypes` can
# see that; a test reads the names out of the header and compares.
#
# ```python
# import ctypes
# from labml_nn.recurrent.elman.kernel.run import Task
#
# swapped = list(Task._fields_)
# swapped[0], swapped[1] = swapped[1], swapped[0]
# Other = type("Other", (ctypes.Structure,), {"_fields_": swapped})
# assert ctypes.sizeof(Other) == ctypes.sizeof(Task)
# assert Other.threads.offset == Task.workers.offset
# ```
#
# </details>
