r"""
---
title: Kernels
summary: >
  Lessons define what is computed; kernels compute the same faster. A kernel is attached
  to a lesson's reference method from outside.
---

A lesson is written to be read. Its loops are Python loops, its attention stores every
weight, and each line is one step of the idea. A **kernel** is a second implementation
of one of its methods, written to be fast: one call of a fused operation, a backward
pass by hand, or a loop in C++. It is attached from outside:

```python
import torch
from torch import nn
from labml_nn import kernels

class Square(nn.Module):                     # the lesson
    @kernels.reference
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * row for row in x])

@kernels.kernel_for(Square.forward, owner=Square)
def square_at_once(module: Square, x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2:
        return NotImplemented                # the reference runs
    return x.square()

x = torch.randn(5, 3)
with kernels.disabled():
    expected = Square()(x)
torch.testing.assert_close(Square()(x), expected)
```

**What you read defines the result.** A test drives every registered kernel against its
reference, values and gradients, over a table of sizes, masks and dtypes.

**What you do to a module has its effect.** As soon as a module differs from its class,
the reference runs: for a subclass, a hook, a replaced method or submodule, a
parametrization (weight norm, spectral norm, pruning, an adapter), a parameter of
another tensor type, and under `torch.func`, `torch.compile`, `torch.export` and
dispatch modes. [One function](../reference.py#objection) decides that, for all kernels.

**One switch.** `with labml_nn.kernels.disabled():` turns all kernels off inside the
block, and the environment variable `LABML_NN_KERNELS=0` for a whole process.

**Why did a kernel not run?** [`explain`](../reference.py#explain) answers for a method
and the arguments of a call:

```python
import torch
from torch import nn
from labml_nn import kernels
from labml_nn.transformers.mha import MultiHeadAttention

attention, x = MultiHeadAttention(heads=2, d_model=8), torch.randn(5, 3, 8)
attention.query.linear.register_forward_hook(lambda module, args, output: None)
print(kernels.explain(attention.forward, query=x, key=x, value=x))
# The reference runs. `kernels.attention.forward`: `query.linear` has a forward hook.
```

Lessons and kernels share these names through a [module below both](../reference.py).
"""

from labml_nn.reference import (
    Declined,
    Kernel,
    Recorded,
    disabled,
    explain,
    is_unmodified,
    kernel_for,
    reference,
    registered,
)

__all__ = [
    "Declined",
    "Kernel",
    "Recorded",
    "disabled",
    "explain",
    "is_unmodified",
    "kernel_for",
    "reference",
    "registered",
]
