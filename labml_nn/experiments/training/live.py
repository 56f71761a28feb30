r"""
---
title: The curve while it falls
summary: >
  In a notebook, the picture of the losses grows under the cell that trains, and says
  how long it will take.
---

A notebook can show a picture and change it later. So the [curve](curve.py) need not
wait for the end of the training: whoever looks on sees a loss that does not fall, or
that rises, while there is still time to stop.

To draw takes some milliseconds, and the browser has to be sent the whole picture each
time. Once a second is often enough for the eye. The last picture is the whole curve,
and it is all that a saved notebook keeps.

```python
from labml_nn.experiments.training.live import LiveCurve

pictures = []  # in a notebook, leave `show` out
curve = LiveCurve(show=pictures.append)
curve.update(1, loss=4.2, learning_rate=1e-3, tokens_per_second=9e3, seconds=0.1)
curve.validated(1, 4.1)
curve.update(2, loss=4.0, learning_rate=1e-3, tokens_per_second=9e3, seconds=0.2)
curve.draw()
assert pictures[-1].startswith("<svg") and "validation" in pictures[-1]
```
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labml_nn.experiments.training.curve import Line, curve_svg
from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result

__all__ = ["LiveCurve"]

Show = Callable[[str], object]


class NotebookPicture:
    """
    ## A picture that changes in its place

    The first call shows a drawing under the cell that runs, each later one puts another
    in its place. Notebooks take the HTML, whose colours follow their theme; GitHub,
    which shows saved notebooks, takes the drawing alone.
    """

    def __init__(self) -> None:
        """Raises `ImportError` where there is no IPython, and says what else to do."""
        try:
            from IPython.display import display
        except ImportError as error:
            raise ImportError(
                "LiveCurve() draws in a notebook, and IPython is not installed; leave "
                "it out, or give it a function: LiveCurve(show=...)"
            ) from error
        self._display: Callable[..., Any] = display
        self._handle: Any = None

    def __call__(self, svg: str) -> None:
        """Show `svg`, here or where the one before was."""
        data = {"image/svg+xml": svg, "text/html": svg}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


@dataclass
class _Run:
    """What is drawn of one training."""

    name: str
    train: list[tuple[float, float]] = field(default_factory=list)
    validation: list[tuple[float, float]] = field(default_factory=list)

    def lines(self, colour: int) -> list[Line]:
        """Training pale, validation strong."""
        train = "" if self.name else "training"
        return [
            Line(train, self.train, colour, faint=True),
            Line(self.name or "validation", self.validation, colour),
        ]


class LiveCurve(Reporter):
    """
    ## The reporter

    One for each training. To compare several in one picture, take `curve.named("one
    head")`, `curve.named("two heads")` and so on.
    """

    def __init__(self, *, seconds: float = 1.0, show: Show | None = None) -> None:
        """
        * `seconds` is how often it is drawn, at most
        * `show` is called with each drawing; `None` shows it in the notebook
        """
        self._seconds = seconds
        self._show = NotebookPicture() if show is None else show
        self._runs = [_Run("")]
        self._run = self._runs[0]
        self._title = ""
        self._steps = 0
        self._drawn_at = -seconds

    def named(self, name: str) -> "LiveCurve":
        """Another training in the same picture, called `name`."""
        other = LiveCurve(seconds=self._seconds, show=self._show)
        other._runs, other._run = self._runs, _Run(name)
        self._runs.append(other._run)
        return other

    def begin(self, trainer: Any) -> None:
        """With what was before, if it goes on."""
        history = trainer.history
        self._steps = trainer.config.steps
        self._run.train = [(float(p[0]), float(p[1])) for p in history.train]
        self._run.validation = [(float(p[0]), float(p[1])) for p in history.validation]

    def update(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        tokens_per_second: float,
        **more: float,
    ) -> None:
        """One more point, and how long it will take from here."""
        self._run.train.append((float(step), loss))
        left = more.get("seconds", 0.0) / step * max(self._steps - step, 0)
        self._title = (
            f"{self._named()}{step:,} of {self._steps:,} updates, "
            f"{tokens_per_second:,.0f} tokens a second, {left:,.0f} s left"
        )
        if time.monotonic() - self._drawn_at >= self._seconds:
            self.draw()

    def validated(self, step: int, loss: float) -> None:
        """One more point of the line that counts."""
        self._run.validation.append((float(step), loss))

    def warned(self, text: str) -> None:
        """What went wrong stands under the picture."""
        print(text)

    def end(self, result: Result) -> None:
        """The whole curve."""
        self._title = (
            f"{self._named()}{result.step:,} updates in {result.seconds:,.0f} s"
        )
        self.draw()

    def draw(self) -> None:
        """The picture as it is now; nothing, as long as there is no point."""
        begun = (run for run in self._runs if run.train or run.validation)
        lines = [
            line
            for colour, run in enumerate(begun)
            for line in run.lines(colour)
            if line.points
        ]
        if lines:
            self._show(curve_svg(lines, title=self._title))
        self._drawn_at = time.monotonic()

    def _named(self) -> str:
        return f"{self._run.name}: " if self._run.name else ""
