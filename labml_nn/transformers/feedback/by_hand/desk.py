r"""
---
title: A desk for the loop
summary: >
  In a loop of small operations it costs as much to look at a tensor in another shape as
  to compute with it. So what steps write on is cut to shape once, before the first.
---

`x.view(4, 16, 32)` moves no number. But Python has to call PyTorch, and PyTorch has to
make a tensor, a small object with sizes, strides and a reference to the numbers. On the
processor where we measured, with one thread and vectors so small that arithmetic counts
for nothing, in microseconds:

| view | transpose | slice | copy | add | product |
|--:|--:|--:|--:|--:|--:|
| 0.9 | 1.0 | 1.7 | 0.7 | 1.0 | 1.2 |

A step of [the loop](forward.py) does little more than that in each layer. Heads make it
look at the same vectors in two ways, `[B, C]` for maps and `[H, B, K]` for attention,
again and again. Here is a desk instead: a few tensors that every layer of every step
writes on, and each of them in all shapes in which it is needed.

It takes one thing for granted: that what was written is used up before the next layer
writes. In a loop by hand this can be seen. Autograd would want to keep it.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $q$ | `maps`, `maps_by_head` | `[B, C]`, `[H, B, K]` | side by side, for maps |
| $q$ | `heads`, `rows` | `[H, B, K]`, `[H·B, 1, K]` | heads first, for attention |
"""

from typing import NamedTuple

from torch import Tensor


class Desk(NamedTuple):
    r"""
    ## Two tensors

    * `maps` has the heads of a text side by side, `[B, C]`, and `maps_by_head` is the
      same, `[H, B, K]`
    * `heads` has the texts of a head one after the other, `[H, B, K]`, and `rows` is
      the same, `[H·B, 1, K]`: one row for each head and text

    To bring numbers from one to the other is one copy between two tensors that are
    there.
    """

    maps: Tensor
    maps_by_head: Tensor
    heads: Tensor
    rows: Tensor

    @staticmethod
    def of(like: Tensor, batch: int, heads: int, d_k: int) -> "Desk":
        """Set it up, with tensors of the type and on the device of `like`."""
        maps = like.new_empty(batch, heads * d_k)
        by_head = like.new_empty(heads, batch, d_k)
        return Desk(
            maps,
            maps.view(batch, heads, d_k).transpose(0, 1),
            by_head,
            by_head.view(-1, 1, d_k),
        )

    def by_head(self) -> Tensor:
        """What is on `maps`, brought to `heads`."""
        return self.heads.copy_(self.maps_by_head)

    def side_by_side(self) -> Tensor:
        """What is on `heads`, brought to `maps`."""
        self.maps_by_head.copy_(self.heads)
        return self.maps
