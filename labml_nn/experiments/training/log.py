r"""
---
title: A log
summary: >
  Everything that happens, a line of JSON each, in a file that is right at every moment.
---

A picture shows what somebody thought of drawing. A log has all of it, and whoever has a
question later can ask:

```text
{"event": "update", "step": 250, "loss": 2.51, "learning_rate": 0.001, ...}
{"event": "validated", "step": 250, "loss": 2.47}
```

Each line is written to the disk before the next thing happens, so that a run that dies
has told everything up to then. A run that goes on from a checkpoint has perhaps told
more than the checkpoint knows. It will tell that again; those lines are taken out
before.
"""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result
from labml_nn.saving import replace

__all__ = ["Log", "read_log"]


class Log(Reporter):
    """
    ## To a file

    A line that the disk refuses, because it is full, waits for the next one: a log is
    no reason to end a training.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the file; lines that are in it stay, see `begin`."""
        self.path = path
        self.waiting = ""

    def begin(self, trainer: Any) -> None:
        """Forget what was told after the step from which the training goes on."""
        step = trainer.history.step
        kept = [line for line in read_log(self.path) if line.get("step", 0) <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        if self.path.exists():
            with suppress(OSError):  # then some of it is told twice
                replace({self.path: text.encode()})
        self._tell("begin", step, world_size=trainer.world.size)

    def update(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        tokens_per_second: float,
        **more: float,
    ) -> None:
        """All numbers of some updates."""
        self._tell(
            "update",
            step,
            loss=loss,
            learning_rate=learning_rate,
            tokens_per_second=round(tokens_per_second, 1),
            **{**more, "tokens": round(more["tokens"])},
        )

    def validated(self, step: int, loss: float) -> None:
        """A look at the validation split."""
        self._tell("validated", step, loss=loss)

    def sampled(self, step: int, text: str) -> None:
        """A text."""
        self._tell("sampled", step, text=text)

    def saved(self, step: int) -> None:
        """A checkpoint."""
        self._tell("saved", step)

    def warned(self, text: str) -> None:
        """Trouble."""
        self._tell("warned", None, text=text)

    def end(self, result: Result) -> None:
        """The end."""
        self._tell("end", **result._asdict())

    def _tell(self, event: str, step: int | None = None, **fields: Any) -> None:
        line: dict[str, Any] = {"event": event, "time": round(time.time(), 3)}
        if step is not None:
            line["step"] = step
        self.waiting += json.dumps(line | fields) + "\n"
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(self.waiting)
        except OSError:
            if self.path.exists():
                with self.path.open("r+b") as file:  # no half lines
                    file.truncate(size)
        else:
            self.waiting = ""


def read_log(path: Path) -> list[dict[str, Any]]:
    """
    ## And back

    Returns the lines of a log as values. The last one may be half, if the program died
    while it wrote; it is left out, and so is what is no line of a log.
    """
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines
