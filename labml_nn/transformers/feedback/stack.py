r"""
---
title: Stack of slots
summary: >
  A container for the keys and values of a Feedback Transformer, for code that manages
  memory itself.
---

The [Feedback Transformer](__init__.py) returns its memory as a value and does not need
this class. It serves code that was written for the interface of `labml-nn`.
"""

import torch
from torch import Tensor


class Stack:
    r"""
    ## Stack

    * `max_len`: the number of slots that you expect; there may be more
    """

    def __init__(self, max_len: int) -> None:
        self.max_len = max_len
        self.slots: list[Tensor] = []

    def append(self, n: int, value: Tensor) -> None:
        """Adds `value` as slot `n`; `n = 0` starts a new stack."""
        self.slots = [*self.slots[:n], value]

    def get(self) -> Tensor:
        """All slots, `[n, ...]`."""
        return torch.stack(self.slots)

    def free(self) -> None:
        """Removes all slots."""
        self.slots = []
