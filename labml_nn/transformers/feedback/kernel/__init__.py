r"""
---
title: A feedback transformer, compiled
summary: >
  The loop by hand once more, as one operator in C++ for each way: what a processor can
  do when nobody interrupts it.
---

The [form by hand](../by_hand/index.html) has done away with all that need not go step
by step. What is left are a dozen small operations for each step and layer, each of them
a call into PyTorch. A call takes some microseconds before it begins to compute. With
$B = 16$ and $C = 128$ the product of a query takes two or three.

So here the loop itself is compiled. The equations are those of
[there](../by_hand/forward.py) and [back](../by_hand/backward.py), term for term, in
about 850 lines of C++: `forward.h`, `backward.h` and `gather.h`, beside this file, read
like those pages. This page says what makes them fast.

**As all kernels.** [Compiled loops](../../../kernels/build.py) tells of vectors,
of products of few rows, and of weights that lie in the order in which they are read.
All of it is used here. What follows is this kernel's own.

**Attention along time.** A score is a sum over the $K$ features of a head, and a vector
of the processor adds up across its numbers badly. So keys are packed as weights are,
with time along the columns of a panel: a vector holds one feature of 16 rows of memory,
and 16 scores grow at once. Values are kept the other way round, because what is found
is a sum over time. Both lie in one piece for each head of each text. They are read from
beginning to end at each step of each layer, and are too many for the nearest caches.

**Back in pieces.** The way back goes through some steps, and then gathers what they
have to say. A piece is as long as its tables fit into the cache: about 200 rows of
steps and texts. For each piece there are three turns.

1. *Again.* Attention weights were not kept; queries and keys were. For all steps and
   layers of a piece, scores are one product per head and text, and each key that is
   loaded serves eight queries.
2. *Back.* The walk, step by step. Rows of memory that this piece has written are due
   soon, and hear of each step at once.
3. *Gather.* Older rows hear of all steps of the piece in one product, and so do
   weights. There blocks of $6 \times 4$ vectors fit: a large sum that grows in memory
   is loaded and stored once for a hundred terms.

**From the first token on.** It sees no row, so attention adds nothing, and on the way
back hears nothing. All else is as at any other step. The form by hand leaves that token
to the plain form, whose gradients then have to be added to its own, weight by weight.

**Ahead of time.** Hidden features of a thousand steps ago have long left the caches.
While the attention of a layer is gone back through, each head asks for its share of
what the next network will need, and nobody waits for it.

**Texts are shared among threads**, and no text has anything to do with another. On the
way there a thread goes through all steps with its own texts and waits for nobody. On
the way back threads meet twice in a piece, before and after they gather.

**What it costs.** Milliseconds on two threads of an AMD EPYC with AVX-512, $C = 128$,
$H = 4$, $L = 4$, 128 steps of 16 texts, medians of runs in turn. Training is
forward, backward and a step of AdamW; more is [measured](../../../../performance.md) at
other sizes:

| | forward | training |
|:--|--:|--:|
| version 0.5.1 | 254 | 1238 |
| plain | 181 | 839 |
| by hand | 85 | 306 |
| **compiled** | **17** | **65** |

Peak memory of forward and backward: 60, 102 and 174 MiB at 128, 256 and 512 steps. What
grows with the square of $T$ is never kept.

| Page | What it holds |
|:--|:--|
| [Memory](task.py) | what Python and C++ share |
| [The two ways](run.py) | forward and backward, as seen from Python |
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.kernels.build import Kernel, Library, Source, is_switched_off
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.by_hand.form import Form
from labml_nn.transformers.feedback.by_hand.weights import Weights
from labml_nn.transformers.feedback.kernel.run import run_backward, run_forward
from labml_nn.transformers.feedback.kernel.task import Kept


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        library: Library,
        form: Form,
        blank: Tensor | None,
        x_seq: Tensor,
        keys: Tensor,
        values: Tensor,
        *tensors: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        weights = Weights(*tensors)
        kept, results = run_forward(
            library, x_seq, keys, values, blank, weights, form, keep=True
        )
        ctx.library, ctx.form, ctx.before = library, form, len(keys)
        ctx.save_for_backward(blank, *kept, *tensors)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(
        ctx: Any,
        of_top: Tensor | None,
        of_keys: Tensor | None,
        of_values: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "gradients of gradients are not known to the kernel of the feedback "
                "transformer; set `backend = 'plain'` on the transformer"
            )
        blank, *tensors = ctx.saved_tensors
        number = len(Kept._fields)
        kept, weights = Kept(*tensors[:number]), Weights(*tensors[number:])
        if of_top is None:
            width = weights.query.shape[-1]
            of_top = torch.zeros_like(kept.outputs[:, 0, :, :width])
        text, keys, values, totals = run_backward(
            ctx.library,
            of_top,
            of_keys,
            of_values,
            kept,
            ctx.before,
            blank,
            weights,
            ctx.form,
        )
        return None, None, None, text, keys, values, *totals


def recur(
    library: Library,
    form: Form,
    blank: Tensor | None,
    x_seq: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""
    ## The recurrence

    * `library` is the kernel

    The others are those of the [loop by hand](../by_hand/forward.py). Returns the
    outputs of the last layer, `[T, B, C]`, and keys and values of the new rows,
    `[T, B, H, K]`.
    """
    if torch.is_grad_enabled():
        read: tuple[Tensor, Tensor, Tensor] = _Compiled.apply(  # type: ignore[no-untyped-call]
            library, form, blank, x_seq, keys, values, *weights
        )
        return read
    _, results = run_forward(
        library, x_seq, keys, values, blank, weights, form, keep=False
    )
    return results


def unsuited(form: Form | FeedForward, x_seq: Tensor) -> str | None:
    r"""
    ## What the kernel does not know

    * `form` is that of the model, or the network in its layers
    * `x_seq` is what it shall read, in the type that it computes in

    Returns what is in the way, or `None`.
    """
    if x_seq.device.type != "cpu":
        return f"it runs on the CPU, and the text is on {x_seq.device}"
    if x_seq.dtype != torch.float32:
        return f"it computes in float32, and the model in {x_seq.dtype}"
    if x_seq.numel() == 0:
        return "there is nothing to read"
    is_relu = isinstance(form.activation, nn.ReLU) or form.activation in RELUS
    if not is_relu or form.is_gated:
        return "its networks have a ReLU and no gate"
    if is_switched_off():
        return "`LABML_NN_KERNEL` is 0"
    return None


RELUS: tuple[object, ...] = (torch.relu, nn.functional.relu)

SOURCE = Source("feedback", Path(__file__).parent, ("forward", "turn", "backward"))
KERNEL = Kernel(SOURCE, "feedback transformer", "The form by hand")


def find(backend: str, form: Form | FeedForward, x_seq: Tensor) -> Library | None:
    r"""
    ## Whether it runs

    * `backend` is what the model asks for: `auto`, `by_hand` or `kernel`
    * `form`, `x_seq` are as above

    Returns the kernel, built if need be, or `None` if the form by hand shall run.

    A model that is in double precision, or on a GPU, is no fault of anybody's, and
    `auto` says nothing. It does when the kernel could run and cannot be had, and
    `kernel` always does. Once: a training run of many steps hears it on the first.
    """
    if backend == "by_hand":
        return None
    reason = unsuited(form, x_seq)
    if reason is not None:
        if backend == "kernel":
            KERNEL.tell(reason)
        return None
    return KERNEL.find()


def begins(backend: str, network: FeedForward, x_seq: Tensor) -> bool:
    r"""
    ## The first token

    It has nothing to attend to, and its row is the first of a memory. Under autocast
    the type of that row is decided by a map that the kernel does not call.

    * `backend` is what the model asks for
    * `network` is that of its layers
    * `x_seq` is what it shall read, from the first token on

    Returns whether the kernel does it.
    """
    return (
        backend in ("auto", "kernel")
        and len(x_seq) > 1
        and not torch.is_autocast_enabled(x_seq.device.type)
        and find(backend, network, x_seq) is not None
    )


# ## Exercises
#
# **1.** Why may attention weights be had again for all steps at once, although they had
# to be found step after step?
#
# <details><summary>Answer</summary>
#
# Step $t$ had to wait for row $t - 1$. Now all rows are known. What a step must not see
# is wiped out after the product, which costs less than to leave it out.
#
# ```python
# import torch
#
# n, S, K = 4, 7, 3  # the last four of seven steps
# queries, keys = torch.randn(n, K), torch.randn(S, K)
# first = S - n
# each = [torch.softmax(queries[i] @ keys[: first + i].T, -1) for i in range(n)]
#
# scores = queries @ keys.T
# unseen = torch.arange(S) >= first + torch.arange(n)[:, None]
# weights = scores.masked_fill(unseen, -torch.inf).softmax(-1)
# for i, row in enumerate(each):
#     torch.testing.assert_close(weights[i, : first + i], row)
# ```
#
# </details>
#
# **2.** A distance is met at each step by another row. How is its gradient one product
# all the same?
#
# <details><summary>Answer</summary>
#
# In a table with a row per step, row $j$ of memory at step $t$ and row $j + 1$ at step
# $t + 1$ are equally far. Read with rows that are one number longer than they are, the
# table has distances in its columns. It needs zeros behind each row, or the neighbour
# would be taken for an older row.
#
# ```python
# import torch
#
# steps, old, room = 3, 4, 8  # the first step sees 4 rows
# table = torch.zeros(steps, room)
# for t in range(steps):
#     table[t, : old + t] = torch.arange(old + t, 0.0, -1)  # the distance itself
# skewed = torch.as_strided(table, (steps, old), (room + 1, 1))
# assert skewed.tolist() == [[4, 3, 2, 1]] * 3
# ```
#
# </details>
#
# **3.** How many bytes does a step of a layer read, with 16 texts, 64 rows of memory,
# $C = 128$ and $F = 512$? Which part of it grows with the batch?
#
# <details><summary>Answer</summary>
#
# Weights serve all texts; keys and values are those of one text. Here memory takes the
# larger share of what is read, and less than a tenth of the arithmetic.
#
# ```python
# from math import prod
#
# B, S, C, F = 16, 64, 128, 512
# weights, memory = 2 * C * C + 2 * C * F, 2 * prod((B, S, C))
# assert (4 * weights, 4 * memory) == (655_360, 1_048_576)
# operations = 2 * B * weights, 2 * memory
# assert operations[1] * 10 < sum(operations)
# ```
#
# </details>
