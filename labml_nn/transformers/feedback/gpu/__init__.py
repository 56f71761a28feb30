r"""
---
title: A feedback transformer on a GPU
summary: >
  What a recurrence of small steps costs where calls are dear and numbers are cheap, and
  two ways out: record the calls once, or make a single one.
---

A GPU is made for the opposite of a [feedback transformer](../index.html). It can do a
hundred thousand multiplications at the same time, and here comes one vector a text, and
the next has to wait for it. What bounds such a loop?

**Calls.** [By hand](../by_hand/index.html) a training step of 128 steps and four layers
makes 18,300 calls that compute something: 8,200 there and 10,100 back. The loop that
one reads makes 33,000. (They were counted, at 16 texts of 128 features.) For each of
them PyTorch takes some microseconds on the processor until the GPU has been told. The
arithmetic of all of them together are ten billion operations. A GPU that does fifty
thousand billion a second would need a fifth of a millisecond for them. So it waits for
the processor nearly all the time.

**The time that a kernel takes, however small.** A kernel starts, reads, computes,
writes, and the next one begins when its last thread has ended. Nobody needs to be told
for that, and yet it takes its time to start and to end, while a few vectors leave most
of the device idle.

**Weights.** Every step reads all of them, 2.8 MB for four layers of 128 features. They
stay in the cache that all multiprocessors share, which has tens of megabytes, but it is
not next to the units that multiply.

**Digits.** Tensor cores multiply numbers of 10 bits (TF32) many times as fast as those
of 23. Products of few rows have little of it, since they wait for weights, and errors
are fed back from step to step. So nothing here chooses fewer digits; who has told
PyTorch to, gets them.

## Two ways out

| | launches | what it does about it |
|:--|--:|:--|
| by hand | 18,300 | nothing |
| [graphs](graphs.py) | 2 | the same kernels, launched at once |
| [Triton](kernel/index.html) | 565 | 5 of ours for both loops, PyTorch for the rest |

A **graph** does away with the calls, and with nothing else: there are as many kernels
as before. It is the readable code itself, and works for every size, type and
nonlinearity.

A **kernel of its own** does away with what is between the kernels too. It has to be
written anew, and knows less.

| Page | What it holds |
|:--|:--|
| [Recording](recording.py) | what may become a graph |
| [Places](tape.py) | what goes in and out |
| [Graphs](graphs.py) | the two ways, and which shapes of them are recorded |
| [One launch](kernel/index.html) | the loop as a program for each text |

## How it is chosen

`backend="graphs"` and `backend="triton"` of
[`FeedbackTransformerKV`](../shared.py) ask for one of them. Where it cannot run, on a
processor say, one warning tells why, and the form by hand runs.

`backend="auto"` takes neither. On a GPU it stays with the form by hand, until somebody
has measured that another is faster, and of what size. The benchmark is there:

```text
python -m benchmarks.feedback --device cuda
```

It lets all forms take turns with the published models and writes down times, tokens per
second, launches, and the share of the device's own rate.

> [!NOTE]
> No GPU was at hand where this was written. What can be checked without one was
> checked: that results and gradients are those of the form by hand, in double
> precision, and that bookkeeping is right. How fast it is, nobody knows yet.
"""

import torch
from torch import Tensor

from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.gpu import graphs, kernel

#: Of `backend=`.
BACKENDS = ("graphs", "triton")

Results = tuple[Tensor, Tensor, Tensor]

# Sizes for which no kernel could be made.
BROKEN: set[object] = set()


def unsuited(backend: str, form: Form, x_seq: Tensor) -> str | None:
    r"""
    ## What is in the way

    * `backend` is a name out of `BACKENDS`
    * `form` is that of the model
    * `x_seq` is what it shall read, in the type that it computes in

    Returns why the form cannot run, or `None`.
    """
    if backend == "graphs":
        return graphs.unsuited(form, x_seq)
    return kernel.unsuited(form, x_seq)


def recur(
    backend: str,
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> Results | None:
    r"""
    ## The recurrence

    * `backend` is a name out of `BACKENDS`

    The others are those of the [loop by hand](../by_hand/forward.py). Returns the
    outputs of the last layer, `[T, B, C]`, and keys and values of the new rows, `[T, B,
    H, K]`; or `None` if the form by hand shall run, after a word why.
    """
    reason = unsuited(backend, form, x_seq)
    if reason is not None:
        graphs.tell(backend, reason)
        return None
    if backend == "graphs":
        return graphs.recur(form, blank, x_seq, keys, values, weights)
    sizes = x_seq.dtype, form.heads, weights.up.shape
    if sizes in BROKEN:
        return None
    try:
        return kernel.recur(form, blank, x_seq, keys, values, weights)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        # Whatever a compiler may say. It is not asked again for these sizes.
        BROKEN.add(sizes)
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        graphs.tell(backend, f"it could not be launched: {why}")
        return None


# ## Exercises
#
# **1.** How many calls does a forward pass by hand make for each step of each layer?
# Count them.
#
# <details><summary>Answer</summary>
#
# A mode of PyTorch sees every operation that is called. Some only look at a tensor
# differently, and compute nothing; they are left out.
#
# ```python
# import torch
# from torch.utils._python_dispatch import TorchDispatchMode
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# LOOKS = {"view", "transpose", "expand", "slice", "select", "unbind", "permute"}
# LOOKS |= {"unsqueeze", "split", "alias", "detach", "_unsafe_view", "new_empty", "t"}
#
# class Count(TorchDispatchMode):
#     calls = 0
#     def __torch_dispatch__(self, function, types, args=(), kwargs=None):
#         self.calls += function.overloadpacket.__name__ not in LOOKS
#         return function(*args, **(kwargs or {}))
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 2, "dropout_prob": 0.0}
# model = FeedbackLanguageModel.from_config(config).transformer
# model.backend = "by_hand"
#
# def calls(length):
#     with torch.no_grad(), Count() as count:
#         model(torch.randn(length, 2, 12))
#     return count.calls
#
# of_a_layer = (calls(30) - calls(20)) / 10 / 2
# print(of_a_layer)
# assert 12 < of_a_layer < 20
# ```
#
# </details>
#
# **2.** A loop has 18,000 kernels, each of which takes two microseconds on the device
# and six to launch. How long does it take, launched one after the other, and as a
# graph? And if it were one kernel that does nothing but the arithmetic?
#
# <details><summary>Answer</summary>
#
# Launching and computing overlap, and the slower of the two counts. So a graph is three
# times as fast, and still two hundred times from what the arithmetic takes.
#
# ```python
# from math import isclose
#
# kernels, run, launch = 18_000, 2e-6, 6e-6
# one_by_one, graph = kernels * max(run, launch), kernels * run
# assert isclose(one_by_one / graph, 3)
# arithmetic = 10e9 / 50e12
# assert 150 < graph / arithmetic < 200
# ```
#
# </details>
