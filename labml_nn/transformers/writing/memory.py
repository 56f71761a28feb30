r"""
---
title: Memory of a fixed size
summary: >
  Keys and values of a whole window, in tensors that are there from the start. A step
  writes one column and one row, and copies nothing.
---

The [state](../window.py) of a decoder is a value. To go on, it is copied and gets one
row more, in each layer, for keys and for values. That is what makes it safe: you can go
on from the same state twice. It is also work that grows with the text, and who writes a
text to its end needs none of the old states.

So a writer has a place of its own. The longest window is known, and memory for it is
taken once, $2 L W C$ numbers for each text. Step $t$ writes what it offers to place
$t$, and reads places $0$ to $t$.

**Which way round?** A query is compared with all keys, and a mean is taken of all
values. Both run over time, but not alike:

$$E_s = \sum_k q_k \, K_{ks}, \qquad x_d = \sum_s A_s \, V_{sd}$$

A processor adds one vector of numbers to another in one stroke. It is slow at adding up
the numbers *within* a vector. So the sum should go from vector to vector, and what is
left, $s$ here and $d$ there, lie side by side in memory: keys `[K, W]`, with time last,
and values `[W, D]`, with time first.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $K^l$ | `keys` | `[B, H, K, W]` | of layer $l$, time last |
| $V^l$ | `values` | `[B, H, W, D]` | time first |
| $W$ | `max_len` | | places |
| $t$ | `used` | | places that are taken |
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.kernels.call import up_to
from labml_nn.transformers.keys_values import KeysValues
from labml_nn.transformers.window import Window

LINE = 16


@dataclass
class Kept:
    r"""
    ## Of one layer

    * `keys` are `[B, H, K, W]`, `values` are `[B, H, W, D]`
    """

    keys: Float[Tensor, "B H K W"]
    values: Float[Tensor, "B H W D"]


def arrange(pair: KeysValues, places: int) -> Kept:
    r"""
    ## Put in place

    * `pair` are keys and values as attention makes them, `[S, B, H, K]`
    * `places` is how many there shall be room for, at least $S$

    Places that are not taken hold zeros. There are some more than asked for: a row of
    places ends where a cache line does, and a vector of the processor that begins in
    the last place ends in memory that is ours.
    """
    length, batch, heads, d_k = pair.keys.shape
    places = up_to(places, LINE) + LINE
    keys = pair.keys.new_zeros(batch, heads, d_k, places)
    values = pair.values.new_zeros(batch, heads, places, pair.values.shape[3])
    keys[..., :length] = pair.keys.permute(1, 2, 3, 0)
    values[:, :, :length] = pair.values.permute(1, 2, 0, 3)
    return Kept(keys, values)


class Memory:
    r"""
    ## Of all layers

    * `tokens` are those of the window, `[W, B]`: when it slides, some are read again
    """

    def __init__(self, window: Window, max_len: int) -> None:
        """
        * `window` is a state without padding, with at most `max_len` tokens
        """
        self.max_len = max_len
        self.used = len(window.tokens)
        self.tokens = window.tokens.new_zeros(max_len, window.tokens.shape[1])
        self.tokens[: self.used] = window.tokens
        self.layers = [arrange(pair, max_len) for pair in window.layers]

    def replace(self, window: Window) -> None:
        """
        ### Begin again with another window

        In the same memory.
        """
        self.used = length = len(window.tokens)
        self.tokens[:length] = window.tokens
        for kept, pair in zip(self.layers, window.layers, strict=True):
            kept.keys[..., :length] = pair.keys.permute(1, 2, 3, 0)
            kept.values[:, :, :length] = pair.values.permute(1, 2, 0, 3)

    def window(self) -> Window:
        """
        ### As a state

        A copy, which nobody will write to.
        """
        tokens: Int[Tensor, "S B"] = self.tokens[: self.used].clone()
        layers = tuple(
            KeysValues(
                kept.keys[..., : self.used].permute(3, 0, 1, 2).contiguous(),
                kept.values[:, :, : self.used].permute(2, 0, 1, 3).contiguous(),
            )
            for kept in self.layers
        )
        return Window(tokens, torch.ones_like(tokens, dtype=torch.bool), layers)
