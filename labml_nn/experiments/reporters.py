r"""
---
title: "Reporters: progress bar, run files, loss curves, labml"
summary: >
  Callbacks of the training loop, for the terminal, for files and for notebooks.
---

The training loop calls its reporters at every event and does not know what they do. A
**reporter** overrides the callbacks it needs:

```python
from labml_nn.experiments.reporters import Reporter

class LargestLoss(Reporter):
    def begin(self, trainer):
        self.loss = 0.0

    def update(self, step, loss, **more):
        self.loss = max(self.loss, loss)
```

With several processes only the first one has reporters.
"""

import copy
import io
import math
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from unittest.mock import patch

from tqdm import tqdm

from labml_nn.experiments.checkpoint import RunFolder, write_json

__all__ = ["LabmlRecord", "LiveCurve", "Progress", "Reporter", "Result", "RunFiles"]

Stopped = Literal["finished", "interrupted", "not finite"]


class Result(NamedTuple):
    """
    ## Result of a training

    * `step` is the number of updates
    * `train_loss` is the last mean training loss, in nats per token
    * `validation_loss` is the last one on the whole validation split, and
      `best_validation_loss` the lowest, that of the model that was kept
    * `seconds` and `process_seconds` are the time in updates, wall clock and CPU
    * `tokens` is the number of targets
    * `stopped` says why the training ended
    """

    step: int
    train_loss: float | None
    validation_loss: float | None
    best_validation_loss: float | None
    seconds: float
    process_seconds: float
    tokens: int
    stopped: Stopped


class Reporter:
    """
    ## Callbacks

    `begin` comes first, then the others as often as they happen, then `end` and
    `close`. An error in one of them ends the training.
    """

    def begin(self, trainer: Any) -> None:
        """The training starts or resumes; `trainer` is the [trainer](trainer.py)."""

    def update(self, step: int, loss: float, **more: float) -> None:
        """
        At most 200 times in a run: the mean training loss since the last call, and in
        `more` the `learning_rate`, `tokens_per_second` and `gradient_norm` now, and
        `tokens`, `seconds` and `process_seconds` so far.
        """

    def validated(self, step: int, loss: float) -> None:
        """The loss on the whole validation split, in nats per token."""

    def sampled(self, step: int, text: str) -> None:
        """The model generated `text`, prompt included."""

    def saved(self, step: int) -> None:
        """A checkpoint was saved."""

    def warned(self, text: str) -> None:
        """Something went wrong, and the training continues."""

    def end(self, result: Result) -> None:
        """The last update was made."""

    def close(self) -> None:
        """The training is over, in order or not; always the last call."""


# ## Loss curves
#
# The training loss is measured on the batches of the updates, with dropout, and is
# noisy. The validation loss is measured on held-out text. Where the first falls and the
# second rises, the model overfits.
class Line(NamedTuple):
    """Name, pairs of x and y, number of the colour, and whether it is thin and pale."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    faint: bool = False


def lines_of(curve: Mapping[str, Any], name: str = "", colour: int = 0) -> list[Line]:
    """
    Training and validation loss of a run, from its `history` or `result.json`. Lines of
    a run with a `name` share its colour, and only the validation loss is named.
    """
    points = {
        kind: [(point[0], point[1]) for point in curve[kind] if point[1] is not None]
        for kind in ("train", "validation")
    }
    train = Line("" if name else "training", points["train"], colour, True)
    return [train, Line(name or "validation", points["validation"], colour)]


def curve_svg(lines: Sequence[Line], title: str) -> str:
    """The lines as an `<svg>` element, drawn by matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    picture = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "labml_nn"}):
        figure = Figure(figsize=(7.2, 4), layout="constrained")
        axes = figure.subplots()
        for name, points, colour, faint in lines:
            if points:
                label = f"{name} {points[-1][1]:.3f}" if name else "_"
                weight = {"linewidth": 1, "alpha": 0.5} if faint else {"linewidth": 2}
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, color=f"C{colour}", label=label, **weight)
        axes.set(title=title, xlabel="updates", ylabel="nats per character")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
        figure.savefig(picture, format="svg", metadata={"Date": None})
    drawn = picture.getvalue()
    return drawn[drawn.index("<svg") :]


class RunFiles(Reporter):
    """
    ## Files of a run

    `samples.txt` grows with the samples; `result.json` and `curve.svg` are written at
    the end. Whatever is in them is in the checkpoint too, so that a full disk costs
    nothing.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.trainer = folder, cast(Any, None)

    def begin(self, trainer: Any) -> None:
        self.trainer = trainer

    def sampled(self, step: int, text: str) -> None:
        texts = [
            f"--- after {each['step']} updates\n{each['text']}\n\n"
            for each in self.trainer.history.samples
        ]
        with suppress(OSError):
            self.folder.samples.write_text("".join(texts), "utf-8", newline="\n")

    def end(self, result: Result) -> None:
        trainer, history = self.trainer, self.trainer.history
        curve = {"train": history.train, "validation": history.validation}
        outcome = {
            "run": trainer.about,
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
            "result": _rounded(result._asdict()),
            "curve": _rounded(curve),
            "samples": history.samples,
        }
        write_json(self.folder.result, outcome)
        title = trainer.about["experiment"] or trainer.model.name
        drawn = curve_svg(lines_of(curve), f"{title} on {trainer.task.corpus.name}")
        self.folder.curve.write_text(drawn, encoding="utf-8", newline="\n")


def _rounded(value: Any) -> Any:
    # A loss has at most seven significant digits. JSON has no infinity.
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


class Progress(Reporter):
    """
    ## Progress bar

    In a terminal and in a notebook the bar is redrawn in place; in a file it is written
    every ten seconds. Losses, samples and warnings stand on lines of their own:

    ```text
     64%|██████▍   | 1280/2000 [00:41<00:23, loss 1.71, val 1.83, 98.2k tokens/s]
    ```
    """

    PAUSE = 10.0

    def __init__(self, file: Any = None) -> None:
        """`file` defaults to the standard error."""
        self.file = sys.stderr if file is None else file
        self.shown = dict.fromkeys(("loss", "val", "speed"), "")
        self.bar: Any = None
        self.in_place, self.written = False, time.monotonic()

    def begin(self, trainer: Any) -> None:
        self.in_place = self.file.isatty() or "ipykernel" in sys.modules
        self.bar = tqdm(
            total=trainer.config.steps,
            initial=trainer.history.step,
            file=self.file if self.in_place else io.StringIO(),
            dynamic_ncols=self.file.isatty(),
            ascii=None if self.in_place else True,
            bar_format="{l_bar}{bar:10}| {n_fmt}/{total_fmt} "
            "[{elapsed}<{remaining}{postfix}]",
        )

    def update(self, step: int, loss: float, **more: float) -> None:
        self.shown["loss"] = f"loss {loss:.3f}"
        speed = tqdm.format_sizeof(more["tokens_per_second"])
        self.shown["speed"] = f"{speed} tokens/s"
        self._advance(step)

    def validated(self, step: int, loss: float) -> None:
        self.shown["val"] = f"val {loss:.3f}"
        self._say(f"step {step}: validation loss {loss:.4f}")
        self._advance(step)

    def sampled(self, step: int, text: str) -> None:
        indented = textwrap.indent(text.strip("\n"), "    ")
        self._say(f"step {step}, a sample:\n{indented}")

    def warned(self, text: str) -> None:
        self._say(f"warning: {text}")

    def close(self) -> None:
        """Leave the line of the terminal."""
        if self.bar is not None:
            self.bar.close()

    def _advance(self, step: int) -> None:
        shown = ", ".join(filter(None, self.shown.values()))
        self.bar.set_postfix_str(shown, refresh=False)
        self.bar.update(step - self.bar.n)
        if not self.in_place and time.monotonic() - self.written > self.PAUSE:
            self._say(str(self.bar))

    def _say(self, text: str) -> None:
        self.written = time.monotonic()
        encoding = getattr(self.file, "encoding", None) or "utf-8"
        text = text.encode(encoding, "replace").decode(encoding)
        if self.in_place:
            tqdm.write(text, file=self.file)
        else:
            print(text, file=self.file, flush=True)


class LiveCurve(Reporter):
    """
    ## Live curve in a notebook

    The loss curve is redrawn at most once in `seconds`. For several trainings in one
    picture use `curve.named("one head")`, `curve.named("two heads")` and so on. `show`
    is called with each SVG; `None` shows it below the running cell, in place of the one
    before.
    """

    def __init__(
        self, *, seconds: float = 1.0, show: Callable[[str], object] | None = None
    ) -> None:
        self._seconds, self._name = seconds, ""
        self._show = _notebook_picture() if show is None else show
        self._drawn_at = -seconds
        self._trainers: dict[str, Any] = {}  # shared by all names

    def named(self, name: str) -> "LiveCurve":
        """Another training in the same picture."""
        other = copy.copy(self)
        other._name = name
        return other

    def begin(self, trainer: Any) -> None:
        self._trainers[self._name] = trainer

    def update(self, step: int, loss: float, **more: float) -> None:
        if time.monotonic() - self._drawn_at >= self._seconds:
            steps = self._trainers[self._name].config.steps
            left = more["seconds"] / step * max(steps - step, 0)
            speed = more["tokens_per_second"]
            self._draw(
                f"{step:,} of {steps:,} updates, {speed:,.0f} tokens a second, "
                f"{left:,.0f} s left"
            )

    def warned(self, text: str) -> None:
        print(text)

    def end(self, result: Result) -> None:
        self._draw(f"{result.step:,} updates in {result.seconds:,.0f} s")

    def _draw(self, title: str) -> None:
        lines = [
            line
            for colour, (name, trainer) in enumerate(self._trainers.items())
            for line in lines_of(vars(trainer.history), name, colour)
        ]
        self._show(curve_svg(lines, f"{self._name}: {title}" if self._name else title))
        self._drawn_at = time.monotonic()


def _notebook_picture() -> Callable[[str], object]:
    display, handles = import_module("IPython.display").display, list[Any]()

    def show(svg: str) -> None:
        data = {"image/svg+xml": svg}
        if handles:
            handles[0].update(data, raw=True)
        else:
            handles.append(display(data, raw=True, display_id=True))

    return show


class LabmlRecord(Reporter):
    """
    ## Experiment tracking with labml

    [labml](https://github.com/labmlai/labml) writes the numbers in its own format, to
    files below the run folder: no server, no network, and nothing in the home
    directory. Where it is not installed or fails, one line says so and the training
    continues.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._tracker: Any = None
        self._watcher: Any = None

    def begin(self, trainer: Any) -> None:
        about = trainer.about
        fields = {**about["training"], "model": about["model"]["name"]}
        fields |= {f"model.{k}": v for k, v in about["model"]["config"].items()}
        name = about["experiment"] or about["model"]["name"]
        with self._reported("there is no record of this run"):
            self._tracker, self._watcher = _start(self.path, name, fields)

    def update(self, step: int, loss: float, **more: float) -> None:
        optim = {f"optim.{n}": more[n] for n in ("learning_rate", "gradient_norm")}
        speed = more["tokens_per_second"]
        self._save(step, {"loss.train": loss, "tokens_per_second": speed, **optim})

    def validated(self, step: int, loss: float) -> None:
        self._save(step, {"loss.validation": loss})

    def _save(self, step: int, values: dict[str, float]) -> None:
        if self._tracker is not None:
            with self._reported("the record of this run ends here"):
                self._tracker.save(step, values)

    def close(self) -> None:
        """
        End labml's writer thread, which would keep the process alive: it only ends
        after a last line, and a full disk refuses that.
        """
        if self._watcher is not None:
            with self._reported("the record of this run is incomplete"):
                self._watcher.__exit__(None, None, None)
            self._tracker = self._watcher = None
            for thread in threading.enumerate():
                if type(thread).__module__.startswith("labml."):
                    cast(Any, thread).push("done")
                    thread.join(timeout=5)

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever happens in labml
            self._tracker = None
            missing = isinstance(error, ImportError)
            why = "pip install labml" if missing else repr(error)
            print(f"labml: {what} ({why})", file=sys.stderr)


def _start(path: Path, name: str, fields: dict[str, Any]) -> Any:
    # labml prints what it does not find and keeps a list of projects in the home
    # directory. Both go through one object each, replaced while it starts.
    computer: Any = import_module("labml.internal.computer.configs")
    logger: Any = import_module("labml.internal.logger")
    experiment, lab, tracker = (
        import_module(f"labml.{part}") for part in ("experiment", "lab", "tracker")
    )
    path.mkdir(parents=True, exist_ok=True)
    folders = {"path": str(path), "experiments_path": ".", "data_path": "data"}
    with patch.object(computer, "_internal"), patch.object(logger, "_internal"):
        lab.configure({**folders, "check_repo_dirty": False, "app_url": None})
        experiment.create(
            uuid=experiment.generate_uuid(),
            name=name,
            python_file=str(path / "train.py"),
            writers={"file"},
        )
        experiment.configs(fields)
        return tracker, experiment.start()
