r"""
---
title: What Python and C++ share
summary: >
  The structure of the kernel of a feedback transformer, and what it keeps for the way
  back.
---

The [kernel](index.html) is [called](../../../kernels/call.py) with one structure,
declared here and in `task.h`. Rows of features are padded, weights are packed, and
attention has time along its rows: this page says which tensor goes where.
"""

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from labml_nn.kernels.build import Library
from labml_nn.kernels.call import Call, fields, up_to
from labml_nn.transformers.feedback.by_hand.form import Form, Span, draw
from labml_nn.transformers.feedback.by_hand.weights import Weights

# ## Fields
#
# In the order of `task.h`, where each is explained.
SIZES = """
    threads workers layers batch width wide hidden hidden_wide heads head head_wide
    room longest weights_room table_room before stored horizon norm_memory memory_wide
    start stop drop_low low piece row_room scratch_size drop_rows
"""
READ = """
    query query_bias output output_bias up up_bias down down_bias
    memory memory_bias shares table table_rows table_bias blank
    outputs queries between features keys values keys_rows values_rows text
"""
WRITTEN = """
    top new_keys new_values
    drop_attended drop_concluded drop_hidden drop_weights
    of_top of_text of_keys of_values
    text_norm between_norm of_attended of_concluded of_query found of_up
    attn of_scores asked of_found vectors of_vectors of_rows
    sum_query sum_query_bias sum_output sum_output_bias sum_up sum_up_bias
    sum_down sum_down_bias sum_memory sum_memory_bias sum_shares
    sum_table sum_table_bias scratch
"""


class Task(ctypes.Structure):
    r"""
    ## What is to be done
    """

    _fields_ = fields(SIZES, "eps", READ + WRITTEN)


class Kept(NamedTuple):
    r"""
    ## What the way back needs

    The form by hand keeps `outputs`, `keys` and `values` alone and has the rest again,
    in products that are as large as those of the weights. Here such a product would
    take as long as the loop's own, so what the layers had in hand is kept, $6 C$
    numbers for each token and layer. Attention weights, $H S$ numbers, and what the
    heads found, are had again: attention is a small part of the work, and for many
    steps at once a quick one.

    * `outputs` is $x_t^l$, `[T, L + 1, B, C']`
    * `keys` are packed, with time along their rows, `[H, B, S' / panel, K, panel]`
    * `values` has features along them, `[H, B, S', K']`
    * `queries`, `between` are $q$ and $z$, `[L, T, B, C']`
    * `features` is $h$, `[L, T, B, F']`
    """

    outputs: Tensor
    keys: Tensor
    values: Tensor
    queries: Tensor
    between: Tensor
    features: Tensor


class Caller(Call):
    r"""
    ## One call
    """

    task: Task

    def __init__(
        self, library: Library, length: int, batch: int, before: int, like: Tensor
    ) -> None:
        r"""
        * `library` is the kernel
        * `length`, `batch`, `before` are $T$, $B$ and the rows of before
        * `like` is a tensor of the type and on the device that all will have
        """
        task = Task()
        super().__init__(library, task, like)
        task.workers = torch.get_num_threads()
        task.threads = min(task.workers, batch)
        task.batch, task.before = batch, before
        task.room = up_to(before + length, self.panel)

    def rows(self, x: Tensor) -> Tensor:
        r"""
        Rows of one head, padded.
        """
        space = self.zeros(*x.shape[:-1], self.task.head_wide)
        space[..., : x.shape[-1]] = x
        return space

    def weights(self, weights: Weights, form: Form, *, backwards: bool) -> None:
        r"""
        ### Weights

        There $x W^\top$ adds up over columns of $W$, and on the way back
        $\delta W$ over its rows. Each way has them packed as it goes.
        """
        w, task = weights, self.task
        task.layers, task.width, _ = w.query.shape
        task.hidden = w.down.shape[1]
        task.wide, task.hidden_wide, task.memory_wide = (
            up_to(size, self.panel) for size in (task.width, task.hidden, len(w.memory))
        )
        task.heads, task.head = form.heads, task.width // form.heads
        task.head_wide = up_to(task.head, self.lanes)
        task.eps, task.norm_memory = form.eps, form.norm_memory
        task.horizon = form.horizon or 0
        task.longest = w.distance.shape[2]
        task.weights_room = up_to(task.longest, self.panel) + 2 * self.panel
        task.table_room = task.longest + self.panel

        maps = {name: getattr(w, name) for name in ("query", "output", "up", "memory")}
        maps = {n: m if backwards else m.mT for n, m in maps.items()}
        self.point_packed(**maps, down=w.down.mT if backwards else w.down)
        for name in ("query_bias", "output_bias", "up_bias", "down_bias"):
            self.point(**{name: self.wide(getattr(w, name))})
        self.point(
            memory_bias=self.wide(w.memory_bias),
            shares=w.shares,
            table=F.pad(w.distance.mT, (0, self.panel)),
            table_bias=F.pad(w.distance_bias, (0, self.panel)),
        )
        if backwards:
            self.point(table_rows=self.rows(w.distance))

    def keep(self, kept: Kept) -> None:
        r"""
        Point to what has been, or will be, written down.
        """
        self.task.stored = kept.queries.shape[1]
        named = {name: self.roomy(tensor) for name, tensor in kept._asdict().items()}
        self.point(values_rows=named.pop("values"), **named)

    def scratch(self, size: int) -> None:
        r"""
        ### Paper to scribble on

        * `size` is how much each text needs
        """
        task = self.task
        task.scratch_size = size
        self.point(scratch=self.borrow(task.batch, size))

    def begin(self, span: Span, form: Form, blank: Tensor | None) -> None:
        r"""
        ### A span

        With the dropout that the form by hand has in it.
        """
        task = self.task
        task.start, task.stop, task.drop_low = span.start, span.stop, span.low
        task.low = span.low - span.low % self.panel
        task.drop_rows = span.rows
        like = self.like.new_empty(0, task.width)
        masks = draw(form, span, like, task.layers, task.batch, task.hidden)
        for name in ("attended", "concluded", "hidden"):
            mask = getattr(masks, name)
            self.point(**{f"drop_{name}": None if mask is None else self.wide(mask)})
        self.point(drop_weights=masks.attention, blank=blank)
