r"""
---
title: Evaluation
summary: >
  To ask a model something without changing it: dropout off for a while, and sums in
  enough precision.
---

In training a model is handicapped on purpose: dropout takes away parts of it at random.
To be judged, or to write, it should have all of them. PyTorch keeps the difference as a
switch in every module, and a switch that is turned has to be turned back. Here are the
two things that whoever asks a model has to think of.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """
    ## Dropout off, for a while

    ```python
    with evaluating(model):
        loss = model.loss(tokens, targets)
    ```

    On the way out every part of the model gets its own mode back, whatever happened
    inside: an exception, or Ctrl-C in the middle of a long text. `model.train()` would
    not do, because it also wakes the parts that somebody had switched off on purpose.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def at_least_single(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """
    ## Probabilities need more than half precision

    A number in bfloat16 has 8 significant bits. The sum of 10,000 losses would move in
    steps of 256, and in float16, which ends at 65,504, soon be infinite.
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
