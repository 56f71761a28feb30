r"""
---
title: A bar that fills
summary: How far a training has come, how well, and how long it will take.
---

Somebody waits. A line says at a glance whether it is worth it:

```text
 64%|██████▍   | 1280/2000 [00:41<00:23, loss 1.71, val 1.83, 98.2k tokens/s]
```

What came so far, what is left, the loss on the text that was just learned from, that on
new text, and the speed. In a terminal and in a notebook the line is drawn over and over
again. In a file, where nothing can be drawn over, it is written every ten seconds.
"""

import io
import sys
import time
from typing import Any

from tqdm import tqdm

from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result

__all__ = ["Progress"]


PAUSE = 10.0  # seconds between lines of a file


class Progress(Reporter):
    """
    ## On the screen

    Looks at the validation split and what else is worth a line of its own stand above
    the bar.
    """

    def __init__(self, file: Any = None, *, texts: bool = True) -> None:
        """
        * `file` is a text file to draw on; `None` is where errors are shown, so that
          the bar stays out of what is piped on
        * `texts` is whether to show what the model writes
        """
        self.file = sys.stderr if file is None else file
        self.texts = texts
        self.shown: dict[str, str] = {}
        self.best: float | None = None
        self.bar: Any = None
        self.drawn_over = False
        self.written = time.monotonic()

    def begin(self, trainer: Any) -> None:
        """A bar that is as full as the training has come."""
        self.best = trainer.history.best
        self.drawn_over = self.file.isatty() or "ipykernel" in sys.modules
        self.bar = tqdm(
            total=trainer.config.steps,
            initial=trainer.history.step,
            file=self.file if self.drawn_over else io.StringIO(),
            dynamic_ncols=self.file.isatty(),
            ascii=not _can_show("█▍", self.file),
            bar_format="{l_bar}{bar:10}| {n_fmt}/{total_fmt} "
            "[{elapsed}<{remaining}{postfix}]",
        )

    def update(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        tokens_per_second: float,
        **more: float,
    ) -> None:
        """A little fuller."""
        self.shown["loss"] = f"loss {loss:.3f}"
        self.shown["speed"] = f"{_short(tokens_per_second)} tokens/s"
        self._fill(step)

    def validated(self, step: int, loss: float) -> None:
        """A line of its own."""
        better = self.best is None or loss < self.best
        self.best = loss if better else self.best
        self.shown["val"] = f"val {loss:.3f}"
        mark = ", the best so far" if better else ""
        self._say(f"step {step}: loss on new text {loss:.4f}{mark}")
        self._fill(step)

    def sampled(self, step: int, text: str) -> None:
        """What it can write by now, indented."""
        if self.texts:
            indented = "\n".join(
                f"    {line}".rstrip() for line in text.strip("\n").split("\n")
            )
            self._say(f"step {step} writes:\n{indented}")

    def warned(self, text: str) -> None:
        """Trouble."""
        self._say(f"warning: {text}")

    def end(self, result: Result) -> None:
        """As full as it will be."""
        self._fill(result.step)

    def close(self) -> None:
        """The next line of the terminal is free again."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _fill(self, step: int) -> None:
        order = [
            self.shown[key] for key in ("loss", "val", "speed") if key in self.shown
        ]
        self.bar.set_postfix_str(", ".join(order), refresh=False)
        self.bar.update(step - self.bar.n)
        if not self.drawn_over and time.monotonic() - self.written > PAUSE:
            self._say(str(self.bar))

    def _say(self, text: str) -> None:
        self.written = time.monotonic()
        text = _showable(text, self.file)
        if self.drawn_over:
            tqdm.write(text, file=self.file)
        else:
            print(text, file=self.file, flush=True)


# ## Small pieces
#
# Speeds in three digits; and signs that a terminal of another time cannot show.
def _short(speed: float) -> str:
    for size, name in ((1e6, "M"), (1e3, "k")):
        if speed >= size:
            return f"{speed / size:.3g}{name}"
    return f"{speed:.0f}"


def _can_show(text: str, file: Any) -> bool:
    return _showable(text, file) == text


def _showable(text: str, file: Any) -> str:
    encoding = getattr(file, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
