r"""
---
title: A feedback transformer in one launch
summary: >
  On a GPU, the loop of a feedback transformer as a program for each text, which runs
  from the first step to the last without going back to the processor.
---

[On a GPU](../index.html) a step of the loop is some hundred operations, and each is
launched by the processor: a few microseconds, for work that takes less than one.
Recording launches makes them cheaper. Here there is *one*.

A launch starts many programs at a time. What they cannot do well is to wait for one
another, and a loop in which every layer waits for the one below seems to be made of
waiting. But who has to wait for whom? A text for itself, and never for its neighbour.
So each text gets a program of its own, which goes through all steps and layers, and no
program waits for any other. Within a program there is one place to wait, [at the end of
a step](forward.py).

**What bounds it.** A program has no room for the weights, and reads them anew at each
step, from the cache that all programs share. With $C = 128$, $F = 512$ and $L = 4$
they are 2.8 MB. One of the 132 multiprocessors of an H100 gets some 110 GB a second
from that cache. So a step takes at least 25 microseconds, and 128 steps 3.2
milliseconds, however many texts there are, up to 132. What they wait for one another
within a program comes on top of that.

**The way back** is [the form by hand](../../by_hand/backward.py) with its loop taken
out. What need not go step by step is done for a span of steps in large products, by
PyTorch, and the walk is one more launch. A training step of 128 steps is 5 launches of
ours and 560 calls of PyTorch, in the place of 18,300.

> [!NOTE]
> All of this was checked without a GPU. Triton can run its programs on a processor, one
> operation after the other, and tests hold them equal to the form by hand in double
> precision. It also compiles for GPUs that are not there. For an H100 and the sizes
> above a thread has 251 registers on the way there and 221 on the way back, of 255, and
> nothing that does not fit into them. What the interpreter cannot see is a thread that
> reads before another has written, so the pages say of each place where that could
> happen why it does not. And nothing was timed. The milliseconds of this page are an
> estimate, and they are the least that it can take.

**What it leaves.** Sixteen texts keep 16 multiprocessors busy, and 116 do nothing. To
share a text among several of them, each with a part of the weights, would divide the
3.2 milliseconds. But then they would have to wait for one another some twenty times a
step.

| Page | What it holds |
|:--|:--|
| [Programs and blocks](blocks.py) | how to read such a program |
| [A text in one program](forward.py) | the way there |
| [And back](backward.py) | the walk |
| [Launched](launch.py) | from tensors to addresses |
| [The walk, launched](walk.py) | a span of the way back |
"""

from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.transformers.feedback.by_hand.backward import Total
from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.forward import Read
from labml_nn.transformers.feedback.by_hand.operation import Ways, go
from labml_nn.transformers.feedback.by_hand.products import run_backward
from labml_nn.transformers.feedback.by_hand.weights import Weights

# ## Names of nonlinearities {#NAMES}
#
# Those that the programs [know](blocks.py), as modules and as functions.
NAMES: dict[object, str] = {
    nn.ReLU: "relu",
    torch.relu: "relu",
    F.relu: "relu",
    nn.GELU: "gelu",
    F.gelu: "gelu",
    nn.SiLU: "silu",
    F.silu: "silu",
    nn.Sigmoid: "sigmoid",
    torch.sigmoid: "sigmoid",
    F.sigmoid: "sigmoid",
    nn.Identity: "identity",
}

#: The oldest Triton with which this was tried.
OLDEST = (3, 7)

#: The largest piece of a matrix that a program can have in hand. All features have to
#: meet one head: 512 features a head of 64, or more of one and less of the other.
LARGEST = 2**15


def name_of(form: Form) -> str | None:
    r"""
    ## The name of $f$

    `None` if it has none here. Of the GELU there is a form that is only nearly one.
    """
    activation: Any = form.activation
    if getattr(activation, "approximate", "none") != "none":
        return None
    if isinstance(activation, nn.Module):
        return NAMES.get(type(activation))
    return NAMES.get(activation)


def unsuited(form: Form, x_seq: Tensor) -> str | None:
    r"""
    ## What the programs do not know

    * `form` is that of the model
    * `x_seq` is what it shall read, in the type that it computes in

    Returns what is in the way, or `None`.
    """
    if x_seq.device.type != "cuda" or torch.version.hip:
        return f"it runs on NVIDIA's GPUs, and the text is on {x_seq.device}"
    if x_seq.dtype not in (torch.float32, torch.float64):
        return f"it computes in float32 or float64, and the model in {x_seq.dtype}"
    if x_seq.numel() == 0:
        return "there is nothing to read"
    if name_of(form) is None:
        return f"its networks do not know the activation {form.activation!r}"
    width = x_seq.shape[-1]
    if _up(width) * _up(width // form.heads) > LARGEST:
        return f"it has no room for {width} features in {form.heads} heads"
    return _without_triton(x_seq.device)


# The next power of two.
def _up(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _without_triton(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "Triton is not installed; `pip install triton` would"
    import triton

    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST:
        return f"Triton {triton.__version__} is too old"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"it needs compute capability 8.0, and the device has {major}.{minor}"
    from labml_nn.transformers.feedback.gpu.kernel.launch import cannot_launch

    return cannot_launch(device)


# ## Both ways
#
# The modules that launch programs are imported when there is something to launch:
# nobody else needs Triton. Large products of the way back are those by hand.
def _there(*given: Any) -> Read:
    from labml_nn.transformers.feedback.gpu.kernel.launch import run_forward

    return run_forward(*given)


def _back(*given: Any) -> Total:
    from labml_nn.transformers.feedback.gpu.kernel.walk import Launched

    return partial(run_backward, walk=Launched)(*given)


PROGRAMS = Ways("the programs of the feedback transformer", _there, _back)


def recur(
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    ## The recurrence

    All are those of the [loop by hand](../../by_hand/forward.py). Returns the outputs
    of the last layer, `[T, B, C]`, and keys and values of the new rows,
    `[T, B, H, K]`.
    """
    return go(PROGRAMS, form, blank, x_seq, keys, values, weights)


# ## Exercises
#
# **1.** Where do the 25 microseconds come from? How long does the arithmetic of a step
# take, for one text, on a multiprocessor with 128 units?
#
# <details><summary>Answer</summary>
#
# Each weight is read once and used once: 4 bytes, and one multiplication and addition,
# of which a unit does one at each tick of a clock of 1.7 GHz. Reading takes eight times
# as long.
#
# ```python
# from math import isclose
#
# C, F, L = 128, 512, 4
# weights = L * (2 * C * C + 2 * C * F) + 2 * C * C
# reading = 4 * weights / 110e9
# arithmetic = weights / (128 * 1.7e9)
# assert isclose(reading, 25e-6, rel_tol=0.05)
# assert isclose(reading / arithmetic, 8, rel_tol=0.05)
# ```
#
# </details>
#
# **2.** The second matrix of a network needs *all* hidden features. Compute its result
# without ever having more than eight of them.
#
# <details><summary>Answer</summary>
#
# ```python
# import torch
#
# C, F = 12, 40
# z, up, down = torch.randn(C), torch.randn(F, C), torch.randn(F, C)
# result = torch.zeros(C)
# for piece in torch.arange(F).split(8):
#     result += (up[piece] @ z).relu() @ down[piece]
# torch.testing.assert_close(result, (up @ z).relu() @ down)
# ```
#
# </details>
#
# **3.** A program reads a row that it has written. Which of its threads have to wait
# for which, and what would go wrong if there were no barrier? Let four workers fill a
# list, and each read what its neighbour has written.
#
# <details><summary>Answer</summary>
#
# Any thread may read what any other has written, so all wait for all. Without it, a
# thread that is ahead finds what was there before. Most often nobody is ahead, and
# nothing is wrong: this is what makes such a mistake hard to find.
#
# ```python
# import time
# from threading import Barrier, Thread
#
# def run(wait):
#     numbers, found = [0] * 4, [0] * 4
#     def work(i):
#         time.sleep(0.02 * i)  # some are slower
#         numbers[i] = 1
#         wait()
#         found[i] = numbers[(i + 1) % 4]
#     threads = [Thread(target=work, args=(i,)) for i in range(4)]
#     for thread in threads:
#         thread.start()
#     for thread in threads:
#         thread.join()
#     return sum(found)
#
# print(run(lambda: None))  # 1, as a rule: only the last one finds what it looks for
# assert run(Barrier(4).wait) == 4
# ```
#
# </details>
