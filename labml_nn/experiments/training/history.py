r"""
---
title: What has happened so far
summary: >
  Everything that a training knows about its own past, as plain numbers: they go into
  checkpoints, results and pictures.
---

A training that is interrupted and goes on must not forget how it came here: its curve
has to be whole, and the best model must still be the best. So all of it is one value of
plain numbers, which a checkpoint can hold.

It may not grow with the number of updates either. A mean is noted some two hundred
times in a run, however long it is.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Clock", "History", "Point"]

# Step, loss, seconds, seconds of the processor, and targets that were learned from.
Point = list[int | float]


@dataclass
class Clock:
    """
    ## A clock that can be stopped

    Only updates count. While the model is judged, writes or is saved, it stands.
    """

    seconds: float = 0.0
    process_seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time inside is added."""
        wall, process = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - wall
            self.process_seconds += time.process_time() - process


@dataclass
class History:
    """
    ## The past

    * `step` is the number of updates, `tokens` that of the targets in them
    * `clock` is how long they took
    * `train` and `validation` are the two curves, a list of points
    * `samples` are steps, and what the model wrote after them
    * `loss_sum`, `loss_count` are of updates since the last point of `train`
    """

    step: int = 0
    tokens: int = 0
    clock: Clock = field(default_factory=Clock)
    train: list[Point] = field(default_factory=list)
    validation: list[Point] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_count: int = 0

    def point(self, loss: float) -> Point:
        """`loss`, here and now. Times are rounded to milliseconds."""
        clock = self.clock
        seconds = round(clock.seconds, 3), round(clock.process_seconds, 3)
        return [self.step, loss, *seconds, self.tokens]

    @property
    def train_loss(self) -> float | None:
        """The last mean loss in training."""
        return self.train[-1][1] if self.train else None

    @property
    def validation_loss(self) -> float | None:
        """The last loss on the whole validation split."""
        return self.validation[-1][1] if self.validation else None

    @property
    def best(self) -> float | None:
        """The lowest loss on the validation split. What is not a number is not low."""
        losses = [point[1] for point in self.validation if not math.isnan(point[1])]
        return min(losses, default=None)

    def values(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "History":
        """And back."""
        return cls(**{**values, "clock": Clock(**values["clock"])})
