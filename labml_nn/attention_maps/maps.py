r"""
---
title: A map of attention
summary: >
  Weights of one attention over one text, with axes that are asked for by name and
  labels that say which token is meant.
---

The weights of an attention have four axes: who asks, who answers, in which text, in
which head. As a bare tensor of shape `[T, S, B, H]` they invite mistakes that nobody
sees. `weights[0, 1]` is a matrix, and it looks as plausible if it is not the one that
was meant. So an `AttentionMap` is asked by name:

```python
import torch
from labml_nn.attention_maps import AttentionMap

weights = torch.rand(5, 7, 2, 3).softmax(dim=1)
attention = AttentionMap("decoder.layers.1.src_attn", weights)
one = attention.pick(batch=0, head=2)
assert one.axes == ("query", "key")
assert torch.equal(one.weights, weights[:, :, 0, 2])
```

PyTorch has names for axes of tensors too, since 2019, "experimental" ever since, and
most operations don't take such tensors. Here the names belong to the map, and what it
holds is an ordinary tensor.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $A_{tsbh}$ | `weights` | `[T, S, B, H]` | how much query $t$ takes from key $s$ |
| $t$ | axis `"query"` | `T` | the position that asks |
| $s$ | axis `"key"` | `S` | the position that answers |
| $b$ | axis `"batch"` | `B` | the text |
| $h$ | axis `"head"` | `H` | the head |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

#: One row of labels for each text of the batch.
Labels = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    r"""
    ## The map

    A value: methods return other maps and leave this one as it is.

    * `name` is where the attention stands in its model: the name of its module
    * `weights` holds $A$, without gradients. In each head the weights of a query sum to
      one, or to zero if there was nothing it could see
    * `axes` names the axes of `weights`, in their order
    * `title` says the same as `name` in words
    * `call` counts the calls of this attention while it was watched, from 0
    * `queries` and `keys` are labels, one row of them for each text; `None` if nobody
      knows them

    Raises `ValueError` for names or labels that do not fit the weights.
    """

    name: str
    weights: Float[Tensor, "..."]
    axes: tuple[str, ...] = ("query", "key", "batch", "head")
    title: str = "attention"
    call: int = 0
    queries: Labels | None = None
    keys: Labels | None = None

    def __post_init__(self) -> None:
        if len(self.axes) != self.weights.dim() or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"`axes` {self.axes} must give each axis of {list(self.weights.shape)} "
                "a name of its own"
            )
        for axis, labels in (("query", self.queries), ("key", self.keys)):
            if labels is None or axis not in self.axes:
                continue
            texts = self.sizes.get("batch", 1)
            if [len(row) for row in labels] != [self.sizes[axis]] * texts:
                raise ValueError(
                    f"labels of the {axis} axis come in rows of "
                    f"{[len(row) for row in labels]}; expected {self.sizes[axis]} in "
                    f"each of {texts}, one row for each text"
                )

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis, by name."""
        return dict(zip(self.axes, self.weights.shape, strict=True))

    def __repr__(self) -> str:
        """What and how large; the numbers are in `weights`."""
        sizes = ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())
        return f"<AttentionMap {self.name!r} ({self.title}): {sizes}>"

    def pick(self, **where: int) -> "AttentionMap":
        r"""
        ### One of an axis, or of several

        `pick(batch=0, head=2)` leaves a map of queries and keys. Negative numbers count
        from the end. Raises `ValueError` for an axis that is not there, and
        `IndexError` for a number beyond its end.
        """
        picked = self
        for axis, index in where.items():
            picked = picked._pick_one(axis, index)
        return picked

    def _pick_one(self, axis: str, index: int) -> "AttentionMap":
        place, size = self._place(axis), self.sizes[axis]
        if not -size <= index < size:
            raise IndexError(
                f"there is no {axis} {index}: the axis has {size}, from 0 to {size - 1}"
            )
        queries, keys = self.queries, self.keys
        if axis == "batch":
            queries = queries and (queries[index],)
            keys = keys and (keys[index],)
        return replace(
            self,
            weights=self.weights.select(place, index),
            axes=self.axes[:place] + self.axes[place + 1 :],
            queries=queries,
            keys=keys,
        )

    def mean(self, axis: str) -> "AttentionMap":
        """
        ### All of an axis at once

        `mean("head")` is what the heads do on average. Heads specialise, so look at
        some of them before you believe a mean. Raises `ValueError` for an axis that is
        not there, and for the batch, whose texts have nothing in common but their
        length.
        """
        place = self._place(axis)
        if axis == "batch":
            raise ValueError(
                "a mean over the batch mixes texts; pick one of them: pick(batch=0)"
            )
        axes = self.axes[:place] + self.axes[place + 1 :]
        return replace(self, weights=self.weights.mean(place), axes=axes)

    def tensor(self, *axes: str) -> Float[Tensor, "..."]:
        """
        ### The weights in an order of your own

        `tensor("batch", "head", "query", "key")` is the order in which other libraries
        have them. Raises `ValueError` if these are not the names of all axes.
        """
        if sorted(axes) != sorted(self.axes):
            raise ValueError(f"{axes} is not an order of the axes {self.axes}")
        return self.weights.permute([self.axes.index(axis) for axis in axes])

    def _place(self, axis: str) -> int:
        if axis not in self.axes:
            raise ValueError(
                f"there is no axis {axis!r}; this map has {', '.join(self.axes)}"
            )
        return self.axes.index(axis)

    # In a notebook a map shows itself as [a picture](picture.py), if it can.
    _repr_svg_: ClassVar[Callable[["AttentionMap"], str | None]]
    _repr_html_: ClassVar[Callable[["AttentionMap"], str | None]]


# ## Exercises
#
# **1.** Along which axis do weights sum to one? Check it by name.
#
# <details><summary>Answer</summary>
#
# Along the keys: each query hands out a total of one.
#
# ```python
# import torch
# from labml_nn.attention_maps import AttentionMap
#
# attention = AttentionMap("attn", torch.randn(5, 7, 2, 3).softmax(dim=1))
# total = attention.weights.sum(attention.axes.index("key"))
# assert torch.allclose(total, torch.ones(5, 2, 3))
# ```
#
# </details>
#
# **2.** How evenly does each head look around? Measure the entropy of its weights,
# $-\sum_s A_s \ln A_s$, and compare with that of one who looks at everything alike.
#
# <details><summary>Answer</summary>
#
# $S$ equal weights have an entropy of $\ln S$, the largest there is; a head that looks
# at one key alone has zero.
#
# ```python
# import math
# import torch
# from labml_nn.attention_maps import AttentionMap
#
# scores = torch.randn(5, 7, 2, 3) * torch.tensor([0.0, 1.0, 100.0])  # three heads
# attention = AttentionMap("attn", scores.softmax(dim=1))
# weights = attention.tensor("head", "batch", "query", "key")
# entropy = torch.special.entr(weights).sum(-1).mean((1, 2))
# assert torch.isclose(entropy[0], torch.tensor(math.log(7)))
# assert entropy[0] > entropy[1] > entropy[2]
# ```
#
# </details>
#
# **3.** Two layers on top of each other, with residual connections between: how much
# of what comes out at $t$ began at $s$, if a layer's output is half what it attended to
# and half what it had?
#
# <details><summary>Answer</summary>
#
# A path may stay or move in each layer, so the matrices $\frac12 (A + I)$ multiply.
# This is "attention rollout" ([@abnar2020quantifying]). It takes "half" on trust, and
# leaves out what values, other heads and feed-forward networks do to what travels.
#
# ```python
# import torch
# from labml_nn.attention_maps import AttentionMap
#
# def rollout(*maps):
#     moved = torch.eye(maps[0].sizes["key"])
#     for attention in maps:
#         weights = attention.mean("head").pick(batch=0).tensor("query", "key")
#         moved = (weights + torch.eye(len(weights))) / 2 @ moved
#     return moved
#
# layers = [AttentionMap("", torch.randn(5, 5, 1, 3).softmax(dim=1)) for _ in range(2)]
# assert torch.allclose(rollout(*layers).sum(-1), torch.ones(5))
# ```
#
# </details>
