r"""
---
title: "Reporters: progress bar, log, live curve, labml"
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

import io
import json
import math
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from tqdm import tqdm

from labml_nn.experiments.curve import Line, curve_svg, lines_of
from labml_nn.experiments.files import write_files, write_json

__all__ = ["LabmlRecord", "LiveCurve", "Log", "Progress", "Reporter", "Result"]

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


class Log(Reporter):
    """
    ## Log file

    One JSON object a line, written at once. On resuming, the events after the
    checkpoint are removed: they will happen again. Lines that a full disk refuses wait
    for the next one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.waiting = path, ""

    def begin(self, trainer: Any) -> None:
        step = trainer.history.step
        if self.path.exists():
            kept = [line for line in read_log(self.path) if line.get("step", 0) <= step]
            with suppress(OSError):
                text = "".join(json.dumps(line) + "\n" for line in kept)
                write_files({self.path: text.encode()})
        self._write("begin", step=step, world_size=trainer.world.size)

    def update(self, step: int, loss: float, **more: float) -> None:
        more["tokens_per_second"] = round(more["tokens_per_second"], 1)
        more["tokens"] = round(more["tokens"])
        self._write("update", step=step, loss=loss, **more)

    def validated(self, step: int, loss: float) -> None:
        self._write("validated", step=step, loss=loss)

    def sampled(self, step: int, text: str) -> None:
        self._write("sampled", step=step, text=text)

    def saved(self, step: int) -> None:
        self._write("saved", step=step)

    def warned(self, text: str) -> None:
        self._write("warned", text=text)

    def end(self, result: Result) -> None:
        self._write("end", **result._asdict())

    def _write(self, event: str, **fields: Any) -> None:
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self.waiting += json.dumps(line) + "\n"
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(self.waiting)
            self.waiting = ""
        except OSError:
            if self.path.exists():  # no partial lines
                os.truncate(self.path, size)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a log. A partial last line, of a killed process, is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            if isinstance(line := json.loads(text), dict):
                lines.append(line)
    return lines


class Samples(Reporter):
    """
    ## Samples in a file

    They are in the checkpoint too, so that a full disk costs nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.trainer = path, cast(Any, None)

    def begin(self, trainer: Any) -> None:
        self.trainer = trainer
        if self.path.exists() or trainer.history.samples:
            self.sampled(0, "")

    def sampled(self, step: int, text: str) -> None:
        texts = [
            f"--- after {each['step']} updates\n{each['text']}\n\n"
            for each in self.trainer.history.samples
        ]
        with suppress(OSError):
            self.path.write_text("".join(texts), encoding="utf-8", newline="\n")


class Outcome(Reporter):
    """
    ## `result.json` and `curve.svg`

    Written at the end: what the run was, its losses and times, both curves, samples.
    """

    def __init__(self, folder: Any) -> None:
        """`folder` is the `RunFolder`."""
        self.folder, self.trainer = folder, cast(Any, None)

    def begin(self, trainer: Any) -> None:
        self.trainer = trainer

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
        lines = lines_of(outcome)
        if any(line.points for line in lines):
            title = trainer.about["experiment"] or trainer.model.name
            drawn = curve_svg(lines, title=f"{title} on {trainer.task.corpus.name}")
            self.folder.curve.write_text(drawn + "\n", encoding="utf-8", newline="\n")


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

    def __init__(self, file: Any = None, *, texts: bool = True) -> None:
        """`file` defaults to the standard error; `texts` shows samples."""
        self.file = sys.stderr if file is None else file
        self.texts, self.shown = texts, dict.fromkeys(("loss", "val", "speed"), "")
        self.best: float | None = None
        self.bar: Any = None
        self.in_place, self.written = False, time.monotonic()

    def begin(self, trainer: Any) -> None:
        self.best = trainer.history.best
        self.in_place = self.file.isatty() or "ipykernel" in sys.modules
        self.bar = tqdm(
            total=trainer.config.steps,
            initial=trainer.history.step,
            file=self.file if self.in_place else io.StringIO(),
            dynamic_ncols=self.file.isatty(),
            ascii=self._encodable("█▍") != "█▍",
            bar_format="{l_bar}{bar:10}| {n_fmt}/{total_fmt} "
            "[{elapsed}<{remaining}{postfix}]",
        )

    def update(self, step: int, loss: float, **more: float) -> None:
        self.shown["loss"] = f"loss {loss:.3f}"
        speed = more["tokens_per_second"]
        short = f"{speed / 1e3:.3g}k" if speed >= 1e3 else f"{speed:.0f}"
        self.shown["speed"] = f"{short} tokens/s"
        self._advance(step)

    def validated(self, step: int, loss: float) -> None:
        better = self.best is None or loss < self.best
        self.best = loss if better else self.best
        self.shown["val"] = f"val {loss:.3f}"
        mark = ", the best so far" if better else ""
        self._say(f"step {step}: validation loss {loss:.4f}{mark}")
        self._advance(step)

    def sampled(self, step: int, text: str) -> None:
        if self.texts:
            indented = textwrap.indent(text.strip("\n"), "    ")
            self._say(f"step {step}, a sample:\n{indented}")

    def warned(self, text: str) -> None:
        self._say(f"warning: {text}")

    def end(self, result: Result) -> None:
        self._advance(result.step)

    def close(self) -> None:
        """Leave the line of the terminal."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _advance(self, step: int) -> None:
        shown = ", ".join(filter(None, self.shown.values()))
        self.bar.set_postfix_str(shown, refresh=False)
        self.bar.update(step - self.bar.n)
        if not self.in_place and time.monotonic() - self.written > self.PAUSE:
            self._say(str(self.bar))

    def _say(self, text: str) -> None:
        self.written = time.monotonic()
        if self.in_place:
            tqdm.write(self._encodable(text), file=self.file)
        else:
            print(self._encodable(text), file=self.file, flush=True)

    def _encodable(self, text: str) -> str:
        encoding = getattr(self.file, "encoding", None) or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)


class NotebookPicture:
    """A picture under the running cell, replaced by each later one."""

    def __init__(self) -> None:
        """Raises `ImportError` outside of notebooks."""
        self._display = import_module("IPython.display").display
        self._handle: Any = None

    def __call__(self, svg: str) -> None:
        """Notebooks take the HTML, whose colours follow their theme; GitHub the SVG."""
        data = {"image/svg+xml": svg, "text/html": svg}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class LiveCurve(Reporter):
    """
    ## Live curve in a notebook

    The loss curve is redrawn at most once in `seconds`. For several trainings in one
    picture use `curve.named("one head")`, `curve.named("two heads")` and so on. `show`
    is called with each SVG; `None` shows it in the notebook.
    """

    def __init__(
        self, *, seconds: float = 1.0, show: Callable[[str], object] | None = None
    ) -> None:
        self._seconds = seconds
        self._show = NotebookPicture() if show is None else show
        self._name, self._title, self._steps = "", "", 0
        self._drawn_at = -seconds
        self._train: list[tuple[float, float]] = []
        self._validation: list[tuple[float, float]] = []
        self._all = [self]

    def named(self, name: str) -> "LiveCurve":
        """Another training in the same picture."""
        other = LiveCurve(seconds=self._seconds, show=self._show)
        other._all, other._name = self._all, name
        self._all.append(other)
        return other

    def begin(self, trainer: Any) -> None:
        history, self._steps = trainer.history, trainer.config.steps
        self._train = [(float(p[0]), float(p[1])) for p in history.train]
        self._validation = [(float(p[0]), float(p[1])) for p in history.validation]

    def update(self, step: int, loss: float, **more: float) -> None:
        self._train.append((float(step), loss))
        left = more.get("seconds", 0.0) / step * max(self._steps - step, 0)
        prefix = f"{self._name}: " if self._name else ""
        self._title = (
            f"{prefix}{step:,} of {self._steps:,} updates, "
            f"{more['tokens_per_second']:,.0f} tokens a second, {left:,.0f} s left"
        )
        if time.monotonic() - self._drawn_at >= self._seconds:
            self.draw()

    def validated(self, step: int, loss: float) -> None:
        self._validation.append((float(step), loss))

    def warned(self, text: str) -> None:
        print(text)

    def end(self, result: Result) -> None:
        prefix = f"{self._name}: " if self._name else ""
        self._title = f"{prefix}{result.step:,} updates in {result.seconds:,.0f} s"
        self.draw()

    def draw(self) -> None:
        """The picture as it is now; none before the first point."""
        lines = []
        begun = (run for run in self._all if run._train or run._validation)
        for colour, run in enumerate(begun):
            train = "" if run._name else "training"
            lines.append(Line(train, run._train, colour, faint=True))
            lines.append(Line(run._name or "validation", run._validation, colour))
        if drawn := [line for line in lines if line.points]:
            self._show(curve_svg(drawn, title=self._title))
        self._drawn_at = time.monotonic()


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
        try:
            self._tracker, self._watcher = _start(self.path, name, fields)
        except ImportError:
            self._report("there is no record in its format (pip install labml)")
        except Exception as error:  # the training continues, whatever happens in labml
            self._report(f"there is no record of this run: {error!r}")

    def update(self, step: int, loss: float, **more: float) -> None:
        names = ("learning_rate", "gradient_norm")
        values = {f"optim.{name}": more[name] for name in names}
        speed = more["tokens_per_second"]
        self._save(step, {"loss.train": loss, "tokens_per_second": speed, **values})

    def validated(self, step: int, loss: float) -> None:
        self._save(step, {"loss.validation": loss})

    def _save(self, step: int, values: dict[str, float]) -> None:
        if self._tracker is None:
            return
        try:
            self._tracker.save(step, values)
        except Exception as error:
            self._tracker = None
            self._report(f"the record of this run ends here: {error!r}")

    def close(self) -> None:
        """
        End labml's writer thread, which would keep the process alive: it only ends
        after a last line, and a full disk refuses that.
        """
        if self._watcher is None:
            return
        try:
            self._watcher.__exit__(None, None, None)
        except Exception as error:
            self._report(f"the record of this run is incomplete: {error!r}")
        self._tracker = self._watcher = None
        for thread in threading.enumerate():
            if type(thread).__module__.startswith("labml."):
                cast(Any, thread).push("done")
                thread.join(timeout=5)

    def _report(self, text: str) -> None:
        print(f"labml: {text}", file=sys.stderr)


def _start(path: Path, name: str, fields: dict[str, Any]) -> Any:
    # labml prints what it does not find and keeps a list of projects in the home
    # directory. Both go through one object each, replaced while it starts.
    computer: Any = import_module("labml.internal.computer.configs")
    logger: Any = import_module("labml.internal.logger")
    experiment, lab, tracker = (
        import_module(f"labml.{part}") for part in ("experiment", "lab", "tracker")
    )
    path.mkdir(parents=True, exist_ok=True)
    before = computer._internal, logger._internal
    computer._internal, logger._internal = _Silent(), _Silent()
    try:
        lab.configure(
            {
                "path": str(path),
                "experiments_path": ".",
                "data_path": "data",
                "check_repo_dirty": False,
                "app_url": None,
            }
        )
        experiment.create(
            uuid=experiment.generate_uuid(),
            name=name,
            python_file=str(path / "train.py"),
            writers={"file"},
        )
        experiment.configs(fields)
        watcher = experiment.start()
    finally:
        computer._internal, logger._internal = before
    return tracker, watcher


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None
