r"""
---
title: A feedback memory of a fixed size
summary: >
  Keys and values of the last rows, in two tensors that never grow. A step writes one
  row, and once in a while the rows move to the front.
---

The [memory](../memory.py) of a feedback transformer is a value: a step takes one and
makes another. Who writes a text to its end needs none of the old ones. So a
[writer](index.html) has a place of its own, and writes over it.

A step sees the last $\tau$ rows and writes one. So the rows that it sees move on by one
place each time. To move them back each time would be to copy $\tau$ rows for a step. So
there is room for $2 \tau$: when the end is reached, after $\tau$ steps, the last
$\tau$ rows are copied to the front, and it goes on from there. That is one row copied
for a row written, however long the text is.

```text
 τ = 4    a  b  c  d  e  .  .  .      sees b c d e
          a  b  c  d  e  f  g  h      sees e f g h; full
          e  f  g  h  .  .  .  .      the same, at the front
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $k_j$ | `keys` | `[H, B, K, places]` | time last |
| $v_j$ | `values` | `[H, B, places, K']` | time first, lines padded with zeros |
| $\tau$ | `horizon` | | rows that a step sees at most |
| $n_b$ | `own` | `[B]` | rows that a step sees of text $b$, if not all alike |
"""

import math

import torch
from torch import Tensor

from labml_nn.kernels.call import up_to
from labml_nn.transformers.feedback.memory import FeedbackMemory
from labml_nn.transformers.feedback.stack import PersistentStack

#: Numbers in a line of the cache. No vector of a processor has more of them.
LINE = 16


class RollingMemory:
    r"""
    ## Rows in place

    * `first`, `end` are where the rows begin that the next step sees, and where its own
      will be
    """

    def __init__(self, memory: FeedbackMemory, horizon: int) -> None:
        r"""
        * `memory` is what was read, in a model with shared keys and values; of each
          text one row at least
        * `horizon` is $\tau$
        """
        rows = memory.keys.rows
        self.n_layers, self.horizon = memory.n_layers, horizon
        self.end, batch, heads, self.head = rows.shape

        # A line more than needed. With $\tau = 512$ neighbouring features would lie 4
        # KiB apart, and compete for the same few places of a cache. With 128 rows in
        # memory the call of C++ took 41 microseconds then, and takes 38.
        places = up_to(2 * horizon, LINE) + LINE

        # Behind the last line there is room for vectors that begin in it and end
        # outside.
        def space(*shape: int) -> Tensor:
            size = math.prod(shape)
            return rows.new_zeros(size + 4 * LINE)[:size].view(shape)

        self.keys = space(heads, batch, self.head, places)
        self.values = space(heads, batch, places, up_to(self.head, LINE))
        self.keys[..., : self.end] = rows.permute(2, 1, 3, 0)
        self.values[:, :, : self.end, : self.head] = memory.values.rows.permute(
            2, 1, 0, 3
        )
        self.own: Tensor | None = None
        if memory.lengths is not None:
            self.own = memory.lengths.clamp(max=self.end)

    @property
    def first(self) -> int:
        """Where the rows begin that the next step sees."""
        return max(0, self.end - self.horizon)

    def make_room(self) -> None:
        r"""
        ### Before a step

        There must be a place for its row.
        """
        if self.end < self.keys.shape[-1]:
            return
        seen = slice(self.first, self.end)
        self.keys[..., : self.horizon] = self.keys[..., seen]
        self.values[:, :, : self.horizon] = self.values[:, :, seen]
        self.end = self.horizon

    def go_on(self) -> None:
        r"""
        ### After a step

        Its row is there, and the next one sees it.
        """
        self.end += 1
        if self.own is not None:
            self.own = (self.own + 1).clamp(max=self.horizon)
            if bool((self.own == self.end - self.first).all()):
                self.own = None

    def blank(self) -> Tensor | None:
        r"""
        What is not a text's own, of the rows that a step sees, `[B, S]`; `None` if all
        are.
        """
        if self.own is None:
            return None
        seen = self.end - self.first
        distance = torch.arange(seen, 0, -1, device=self.own.device)
        return distance > self.own[:, None]

    def value(self) -> FeedbackMemory:
        r"""
        ### As a value

        A copy, which nobody will write over.
        """
        seen = slice(self.first, self.end)
        keys = self.keys[..., seen].permute(3, 1, 0, 2)
        values = self.values[:, :, seen, : self.head].permute(2, 1, 0, 3)
        return FeedbackMemory(
            PersistentStack.of(keys.contiguous()),
            PersistentStack.of(values.contiguous()),
            self.n_layers,
            None if self.own is None else self.own.clone(),
        )
