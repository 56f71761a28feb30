r"""
---
title: A step in one call
summary: >
  The step of a feedback language model as a function of C++, from a token to logits.
---

The [lean step](step.py) calls PyTorch a dozen times a layer, and each call costs some
microseconds before it computes anything. For one text with $C = 128$ there is not much
to compute: 0.8 million multiplications, as many as there are parameters. So the whole
step is [compiled](../../../kernels/build.py), with what comes before and behind it,
the table of embeddings and the bets.

One thing is done in another order than in PyTorch. Scores have a part that depends on
what a row says, and one that depends on its distance:

$$q^\top k_j + q^\top E_d = q^\top (k_j + E_d)$$

On the right there is one product instead of two. PyTorch would have to write all the
sums $k_j + E_d$ to memory first, for each layer anew. Here a sum is made in a register,
multiplied, and forgotten.

Parameters are [packed](../../../kernels/call.py) once for a text.
"""

import ctypes
from pathlib import Path

from torch import Tensor
from torch.nn import functional as F

from labml_nn.kernels.build import Kernel, Library, Source
from labml_nn.kernels.call import Call, fields, up_to
from labml_nn.transformers.feedback.kernel import unsuited
from labml_nn.transformers.feedback.writing.memory import RollingMemory
from labml_nn.transformers.feedback.writing.step import Parts

KERNEL = Kernel(
    Source("feedback_step", Path(__file__).parent, ("run",)),
    "step of the feedback language model",
    "The lean step",
)

# ## Fields
#
# In the order of `feedback_step.cpp`, where each is explained.
SIZES = """
    batch layers width wide hidden hidden_wide memory_wide vocab vocab_wide
    heads head head_wide places first end distances distance_room norm_memory
"""
POINTERS = """
    embed query query_bias output output_bias up up_bias down down_bias
    memory memory_bias bets bets_bias shares table table_bias keys values own tokens
    logits x norm heads_of features mix scores
"""


class Task(ctypes.Structure):
    r"""
    ## What is to be done
    """

    _fields_ = fields(SIZES, "eps scale", POINTERS)


def library_for(parts: Parts, backend: str) -> Library | None:
    r"""
    ## Whether it runs

    * `parts` are those of the model, and `backend` is what the model asks for

    Returns the kernel, built if need be, or `None`. Of what it does not know it speaks
    only if `backend` is `kernel`.
    """
    if backend == "by_hand":
        return None
    reason = unsuited(parts.form, parts.embed)
    if reason is not None:
        if backend == "kernel":
            KERNEL.tell(reason)
        return None
    return KERNEL.find()


class CompiledStep:
    r"""
    ## The step
    """

    def __init__(self, library: Library, parts: Parts, memory: RollingMemory) -> None:
        r"""
        The arguments are those of the [lean step](step.py), and the kernel.
        """
        self.rows, self.n_vocab = memory, len(parts.bets)
        self.call = call = Call(library, Task(), parts.embed)
        heads, batch, head, places = memory.keys.shape
        w, task = parts.weights, call.task
        task.layers, task.width, _ = w.query.shape
        task.hidden, task.vocab = w.down.shape[1], self.n_vocab
        sizes = (task.width, task.hidden, 2 * task.width, task.vocab)
        task.wide, task.hidden_wide, task.memory_wide, task.vocab_wide = (
            up_to(size, call.panel) for size in sizes
        )
        task.batch, task.heads, task.head = batch, heads, head
        task.head_wide, task.places = memory.values.shape[3], places
        task.distances = w.distance.shape[2]
        task.distance_room = task.distances + 4 * call.lanes
        task.norm_memory, task.eps = parts.form.norm_memory, parts.form.eps
        task.scale = parts.scale
        self._point(parts, memory)

    # What a step reads, and what it writes over.
    def _point(self, parts: Parts, memory: RollingMemory) -> None:
        call, task, w = self.call, self.call.task, parts.weights
        maps = {name: getattr(w, name).mT for name in ("query", "output", "up")}
        maps.update(down=w.down, memory=w.memory.T, bets=parts.bets.T)
        biases = {f"{name}_bias": getattr(w, f"{name}_bias") for name in [*maps][:-1]}
        biases["bets_bias"] = parts.bets_bias
        call.point(**{name: call.pack(matrix) for name, matrix in maps.items()})
        call.point(**{name: call.wide(bias) for name, bias in biases.items()})
        room = (0, task.distance_room - task.distances)
        call.point(
            embed=parts.embed,
            shares=w.shares,
            table=F.pad(w.distance.mT, room),
            table_bias=F.pad(w.distance_bias, room),
            keys=memory.keys,
            values=memory.values,
            x=call.zeros(task.batch, task.wide),
            norm=call.zeros(task.batch, task.wide),
            heads_of=call.zeros(task.batch, task.wide),
            mix=call.zeros(task.batch, task.wide),
            features=call.zeros(task.batch, max(task.hidden_wide, task.memory_wide)),
            scores=call.zeros(task.places),
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        r"""
        * `tokens` are `[B]`, and in the vocabulary

        Returns logits, `[B, V]`, and leaves a row in memory.
        """
        call, task, rows = self.call, self.call.task, self.rows
        tokens = tokens.long().contiguous()
        logits = call.like.new_empty(len(tokens), self.n_vocab)
        task.first, task.end = rows.first, rows.end
        task.own = None if rows.own is None else rows.own.data_ptr()
        task.tokens, task.logits = tokens.data_ptr(), logits.data_ptr()
        call.run("run")
        return logits
