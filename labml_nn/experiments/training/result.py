r"""
---
title: What came out
summary: The few numbers that are left of a training when it is over.
---

A run ends in one of three ways: all its updates were made, somebody interrupted it, or
the numbers stopped being numbers. In each case there is a model, and it was as good as
it was.
"""

from typing import Literal, NamedTuple

Stopped = Literal["finished", "interrupted", "not finite"]

__all__ = ["Result", "Stopped"]


class Result(NamedTuple):
    """
    ## The end of a training

    * `step` is the number of updates that were made
    * `train_loss` is the mean loss of the last of them, in nats per token; `None`
      before the first
    * `validation_loss` is the last one on the whole validation split, and
      `best_validation_loss` the lowest, that of the model that was kept; `None` if
      nobody looked
    * `seconds` is the time that the updates took, by the clock on the wall, and
      `process_seconds` by that of the processor, all threads together
    * `tokens` is the number of targets that were learned from
    * `stopped` says why it ended
    """

    step: int
    train_loss: float | None
    validation_loss: float | None
    best_validation_loss: float | None
    seconds: float
    process_seconds: float
    tokens: int
    stopped: Stopped
