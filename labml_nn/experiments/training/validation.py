r"""
---
title: How good is it?
summary: >
  The loss on text that was not learned from, all of it, each letter once. Why a handful
  of random pieces will not do.
---

A model that learned its text by heart would have a loss of nearly zero on it, and could
do nothing else. What counts is the loss on text that it has not learned from: the last
tenth, which was put aside. It is called the *validation split*.

Many programs judge by a few random pieces of it, since that is quick. Such a number is
a draw. A small model (2 layers, 64 features, 900 updates) has a loss of 2.118 on the
whole split. Judged five times by 20 batches of 32 pieces of 64 letters, 41,000 letters
each time, it had 2.106, 2.119, 2.111, 2.119 and 2.108. The differences that one wants
to see, between two models or two learning rates, are as small. And whoever keeps the
best of many looks keeps a lucky one.

The whole split has an answer, and it is the same answer for everyone. It is read in
pieces of `seq_len` letters, one behind the other, the last a little shorter. So the
first letters of a piece are judged with nothing before them. A model that is allowed to
look back further does better; that is the model's merit, and another number.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $L_i$ | `loss` | mean loss of a batch, in nats |
| $n_i$ | `examples.count` | how many targets it has |
"""

from typing import Any

import torch

from labml_nn.evaluation import evaluating
from labml_nn.experiments.distributed import World
from labml_nn.experiments.training.task import Task
from labml_nn.language_model import LanguageModel

__all__ = ["validation_loss"]

ALONE = World()


def validation_loss(
    model: LanguageModel[Any],
    task: Task,
    device: torch.device | str | None = None,
    world: World = ALONE,
) -> float:
    r"""
    ## The loss on the whole split

    $$L = \frac{\sum_i n_i L_i}{\sum_i n_i}$$

    * `model` is judged, without dropout, in full precision
    * `task` knows what to ask
    * `device` is where the model lives; `None` means that of its first parameter
    * `world` shares the work: with three processes each reads every third batch

    Returns nats per target. The last batch is smaller than the others, and so are
    replies of few words: a plain mean of the $L_i$ would be wrong.
    """
    if device is None:
        device = next(model.parameters()).device
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    with evaluating(model), torch.no_grad():
        for i, examples in enumerate(task.validation()):
            if i % world.size != world.rank:
                continue
            examples = examples.to(device)
            loss = model.loss(examples.tokens, examples.targets)
            total = total.to(loss.device) + loss.double() * examples.count
            count += examples.count
    total_, count_ = world.sum(float(total), float(count))
    return total_ / max(count_, 1.0)
