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

import io
import json
import platform
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, cast
from unittest.mock import Mock, patch
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from uuid import NAMESPACE_DNS, uuid5

from tqdm import tqdm

from labml_nn.experiments.checkpoint import RunFolder, write_json

__all__ = ["LabmlRecord", "Progress", "Reporter", "Result", "RunFiles"]

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
    * `accuracy` is the share of right answers of the last model, where the task asks
      questions
    """

    step: int
    train_loss: float | None
    validation_loss: float | None
    best_validation_loss: float | None
    seconds: float
    process_seconds: float
    tokens: int
    stopped: Stopped
    accuracy: float | None = None


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
def curve_svg(curve: Mapping[str, Any], title: str) -> str:
    """
    The curves of a run, from its `result.json`, as an `<svg>` element drawn by
    matplotlib. The training loss is thin and pale.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    picture = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "labml_nn"}):
        figure = Figure(figsize=(7.2, 4), layout="constrained")
        axes = figure.subplots()
        for kind, width, alpha in (("train", 1, 0.5), ("validation", 2, 1)):
            points = [point[:2] for point in curve[kind] if point[1] is not None]
            if points:
                label = "_" if kind == "train" else f"{kind} {points[-1][1]:.3f}"
                (line,) = axes.plot(*zip(*points, strict=True), "C0", label=label)
                line.set(linewidth=width, alpha=alpha)
        axes.set(title=title, xlabel="updates", ylabel="nats per token")
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
        title = f"{title} on {trainer.task.corpus.name}"
        drawn = curve_svg(curve, title)
        self.folder.curve.write_text(drawn, encoding="utf-8", newline="\n")


def _rounded(value: Any) -> Any:
    # A loss has at most seven significant digits. JSON has no infinity.
    return json.loads(
        json.dumps(value),
        parse_float=lambda digits: float(f"{float(digits):.7g}"),
        parse_constant=lambda _: None,
    )


class Progress(Reporter):
    """
    ## Progress bar

    In a terminal and in a notebook the bar is redrawn in place; a file gets a line
    every ten seconds. Evaluations, samples and warnings stand on lines of their own:

    ```text
     64%|██████▍   | 1280/2000 [00:41<00:23, loss 1.710, 98.2k tokens/s]
    ```
    """

    PAUSE = 10.0

    def __init__(self, file: Any = None) -> None:
        """`file` defaults to the standard error."""
        self.file = sys.stderr if file is None else file
        self.in_place = self.file.isatty() or "ipykernel" in sys.modules
        self.bar: Any = None
        self.written = time.monotonic()

    def begin(self, trainer: Any) -> None:
        self.bar = tqdm(
            total=trainer.config.steps,
            initial=trainer.history.step,
            file=self.file,
            disable=not self.in_place,
            dynamic_ncols=self.file.isatty(),
            bar_format="{l_bar}{bar:10}| {n_fmt}/{total_fmt} "
            "[{elapsed}<{remaining}{postfix}]",
        )

    def update(self, step: int, loss: float, **more: float) -> None:
        speed = tqdm.format_sizeof(more["tokens_per_second"])
        shown = f"loss {loss:.3f}, {speed} tokens/s"
        self.bar.set_postfix_str(shown, refresh=False)
        self.bar.update(step - self.bar.n)
        if not self.in_place and time.monotonic() - self.written > self.PAUSE:
            self._say(f"step {step}: {shown}")

    def validated(self, step: int, loss: float) -> None:
        self._say(f"step {step}: validation loss {loss:.4f}")

    def sampled(self, step: int, text: str) -> None:
        indented = textwrap.indent(text.strip("\n"), "    ")
        self._say(f"step {step}, a sample:\n{indented}")

    def warned(self, text: str) -> None:
        self._say(f"warning: {text}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def _say(self, text: str) -> None:
        # A terminal of another encoding shows a question mark for what it lacks.
        self.written = time.monotonic()
        encoding = getattr(self.file, "encoding", None) or "utf-8"
        tqdm.write(text.encode(encoding, "replace").decode(encoding), file=self.file)


class LabmlRecord(Reporter):
    """
    ## Experiment tracking with labml

    [labml](https://github.com/labmlai/labml) writes the numbers in its own format, to
    files below the run folder: no server, no network, and nothing in the home
    directory. Where it is not installed or fails, one line says so and the training
    continues.

    * `path` is the folder of the files
    * `server` is the address of a labml server, which receives the numbers too
    """

    def __init__(self, path: Path | str, server: str | None = None) -> None:
        self.path, self.server = Path(path), server
        self._tracker: Any = None
        self._watcher: Any = None

    def begin(self, trainer: Any) -> None:
        about = trainer.about
        fields = {**about["training"], "model": about["model"]["name"]}
        fields |= {f"model.{k}": v for k, v in about["model"]["config"].items()}
        name = about["experiment"] or about["model"]["name"]
        with self._reported("there is no record of this run"):
            self._tracker, self._watcher = _start(self.path, self.server, name, fields)

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
        End the threads that write and send. labml's own only ends after a last line,
        which a full disk refuses, and would keep the process alive.
        """
        if self._watcher is not None:
            with self._reported("the record of this run is incomplete"):
                self._watcher.__exit__(None, None, None)
            self._tracker = self._watcher = None
            for thread in threading.enumerate():
                if type(thread).__module__.startswith(("labml.", __name__)):
                    cast(Any, thread).push("done")
                    thread.join(PATIENCE)

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever happens in labml
            self._tracker = None
            missing = isinstance(error, ImportError)
            why = "pip install labml" if missing else repr(error)
            tqdm.write(f"labml: {what} ({why})", file=sys.stderr)


def _start(path: Path, server: str | None, name: str, fields: dict[str, Any]) -> Any:
    # labml prints what it does not find, keeps a list of projects in the home
    # directory, and captures the output of the program for its server. Each goes
    # through one object, replaced while it starts.
    app: Any = import_module("labml.internal.app")
    computer: Any = import_module("labml.internal.computer.configs")
    logger: Any = import_module("labml.internal.logger")
    experiment, lab, tracker = (
        import_module(f"labml.{part}") for part in ("experiment", "lab", "tracker")
    )
    path.mkdir(parents=True, exist_ok=True)
    folders = {"path": str(path), "experiments_path": ".", "data_path": "data"}
    machine = uuid5(NAMESPACE_DNS, platform.node()).hex
    with ExitStack() as replaced:
        for stream in (sys.stdout, sys.stderr):
            replaced.enter_context(patch.object(stream, "write", stream.write))
        replaced.enter_context(patch.object(logger, "_internal"))
        replaced.enter_context(patch.object(computer, "_internal", Mock(uuid=machine)))
        replaced.enter_context(patch.object(app, "AppTracker", Sender))
        lab.configure({**folders, "check_repo_dirty": False, "app_url": server})
        experiment.create(
            uuid=experiment.generate_uuid(),
            name=name,
            python_file=str(path / "train.py"),
            writers={"file", "app"} if server else {"file"},
        )
        experiment.configs(fields)
        return tracker, experiment.start()


# Seconds for an answer of the server, and for the last words at the end of a run.
PATIENCE = 5.0


class Sender(threading.Thread):
    """
    ### Sending to a server

    Takes the place of labml's own thread, which tries for ever, and keeps the process
    alive meanwhile. What the server did not receive is sent again with the next
    numbers; at the end of the run once more, and the training waits for no answer.
    """

    def __init__(
        self, address: str, parameters: Mapping[str, object], **_: Any
    ) -> None:
        super().__init__(daemon=True)
        self.address = address + urlencode(parameters)
        self.server = address.removesuffix("track?")
        self.sources: SimpleQueue[Any] = SimpleQueue()
        self.unsent: list[Any] = []
        self.told: set[str] = set()
        self.start()

    def push(self, source: Any) -> None:
        """Send what this source has; "done" ends the thread."""
        self.sources.put(source)

    has_data = push

    def add_handler(self, handler: object) -> None:
        """labml's handlers open a browser and change hyperparameters: not here."""

    def stop(self) -> None:
        """Called by labml at the end of the run."""
        self.push("done")

    def run(self) -> None:
        """Send as much as there is at a time."""
        source = None
        while source != "done":
            source = self.sources.get()
            try:
                if source != "done":
                    self.unsent.append(source.get_data_packet().data)
                if self.unsent and (source == "done" or self.sources.empty()):
                    self._send()
            except Exception as error:  # whatever is wrong with the network
                why = getattr(error, "reason", error)
                self._tell(
                    f"{self.server} does not take this run ({why}); the training "
                    "continues, and its record is in the run folder"
                )

    def _send(self) -> None:
        data, kind = json.dumps(self.unsent).encode(), "application/json; charset=utf-8"
        request = Request(self.address, data, {"Content-Type": kind})
        with urlopen(request, timeout=PATIENCE) as response:
            answer = json.load(response)
        if answer.get("errors"):
            raise ValueError(answer["errors"])
        self.unsent = []
        self._tell(f"this run is shown at {answer.get('url', self.server)}")

    def _tell(self, text: str) -> None:
        if text not in self.told:
            self.told.add(text)
            tqdm.write(f"labml: {text}", file=sys.stderr)
