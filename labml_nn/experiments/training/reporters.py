r"""
---
title: Who wants to know
summary: >
  A training tells what happens and does not ask who listens: a bar in the terminal, a
  log, a curve, or something of yours.
---

Progress bars, logs and pictures are no part of learning. If the loop that trains knew
about each of them, one could no longer see the loop. So it tells what happens to
whoever is there, and does not care what they do with it.

A **reporter** has a method for each kind of news, all of them empty. It overrides those
that it wants to hear. Here is one that draws nothing and writes nothing:

```python
from labml_nn.experiments.training.reporters import Reporter

class Worst(Reporter):
    "Remembers the largest loss."

    def begin(self, trainer):
        self.loss = 0.0

    def update(self, step, loss, learning_rate, tokens_per_second, **more):
        self.loss = max(self.loss, loss)
```

News that cost something are not told at every step. A loss lives on the GPU, and to
fetch it makes the program wait until all that was ordered before is done. So `update`
comes some two hundred times in a run, with the mean since the last time.

In a run of many processes only the first one has reporters.
"""

from typing import Any

from labml_nn.experiments.training.result import Result

__all__ = ["Reporter"]


class Reporter:
    """
    ## A reporter that ignores everything

    Methods are called in the order of events: `begin`; then `update`, `validated`,
    `sampled` and `saved` as often as they happen; then `end`, and `close`. An error in
    one of them ends the training like any other error.
    """

    def begin(self, trainer: Any) -> None:
        """
        The first update comes next, or the first after a checkpoint. `trainer` is the
        [`Trainer`](trainer.py), with its model, task, configuration and folder.
        """

    def update(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        tokens_per_second: float,
        **more: float,
    ) -> None:
        """
        Some updates were made.

        * `step` is how many there were since the training began
        * `loss` is their mean loss since the last news, in nats per token
        * `learning_rate` is AdamW's, in the last of them
        * `tokens_per_second` is how many targets were learned from in a second

        And `more`, by name: `gradient_norm` is how long the last gradient was before it
        was clipped, `tokens` how many targets there were so far, `seconds` how long the
        training has taken and `process_seconds` how much processor time. Looking at the
        validation split and writing do not count as training.
        """

    def validated(self, step: int, loss: float) -> None:
        """The whole validation split was read: `loss` is in nats per token."""

    def sampled(self, step: int, text: str) -> None:
        """The model wrote `text`, its prompt included."""

    def saved(self, step: int) -> None:
        """There is a checkpoint of this step."""

    def warned(self, text: str) -> None:
        """Something went wrong, and the training goes on."""

    def end(self, result: Result) -> None:
        """That was the last update, or the last before somebody interrupted."""

    def close(self) -> None:
        """The training is over, in order or not; the last call of all."""
