r"""
---
title: A record for labml
summary: The numbers of a training for labml's own tools, in files and without a server.
---

[labml](https://github.com/labmlai/labml) is the library of experiments from which this
one has its name. Its screen and its tools understand a format of their own, and here a
training is written in it as well.

labml can also send everything to a server. A server that is configured and cannot be
reached keeps a program from ending, and what is private should not leave a machine by
default. So only its writers for screen and file are used: no server, no network, no
question. And it keeps notes of its own in the home directory; a training has no
business there. What it would write is written below the folder of the run.
"""

import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result

__all__ = ["LabmlRecord"]


class LabmlRecord(Reporter):
    """
    ## Numbers in labml's format

    Where labml is not installed, or does not work here, a line says so, and the
    training goes on without.
    """

    def __init__(self, path: Path | str, *, screen: bool = False) -> None:
        """
        * `path` is a folder, such as `labml` in that of the run
        * `screen` is whether labml prints the numbers as well
        """
        self.path, self.screen = Path(path), screen
        self._tracker: Any = None
        self._watcher: Any = None

    def begin(self, trainer: Any) -> None:
        """Begin a run of labml's, with all fields of model and training."""
        about = trainer.about
        fields = {**about["training"], "model": about["model"]["name"]}
        fields |= {f"model.{k}": v for k, v in about["model"]["config"].items()}
        name = about["experiment"] or about["model"]["name"]
        try:
            self._tracker, self._watcher = _start(self.path, name, fields, self.screen)
        except ImportError:
            print(
                "labml is not installed, and there will be no record of it: "
                "pip install labml",
                file=sys.stderr,
            )
        except Exception as error:  # whatever goes wrong in it, training goes on
            print(f"labml keeps no record of this run: {error!r}", file=sys.stderr)

    def update(
        self,
        step: int,
        loss: float,
        learning_rate: float,
        tokens_per_second: float,
        **more: float,
    ) -> None:
        """Loss, rate and speed."""
        self._note(
            step,
            {
                "loss.train": loss,
                "optim.learning_rate": learning_rate,
                "optim.gradient_norm": more["gradient_norm"],
                "tokens_per_second": tokens_per_second,
            },
        )

    def validated(self, step: int, loss: float) -> None:
        """The loss on new text."""
        self._note(step, {"loss.validation": loss})

    def _note(self, step: int, values: dict[str, float]) -> None:
        if self._tracker is None:
            return
        try:
            self._tracker.save(step, values)
        except Exception as error:  # and here as well
            self._tracker = None
            print(f"labml keeps no more of this run: {error!r}", file=sys.stderr)

    def end(self, result: Result) -> None:
        """Nothing of its own: see `close`."""

    def close(self) -> None:
        """
        Its writer is a thread, and would keep the program from ending. labml tells it
        to end only after it has written a last line, which a full disk refuses; so it
        is told here again.
        """
        if self._watcher is None:
            return
        try:
            self._watcher.__exit__(None, None, None)
        except Exception as error:  # and here as well
            print(f"labml's record of this run has no end: {error!r}", file=sys.stderr)
        self._tracker = self._watcher = None
        for thread in threading.enumerate():
            if type(thread).__module__.startswith("labml."):
                cast(Any, thread).push("done")
                thread.join(timeout=5)


def _start(path: Path, name: str, fields: dict[str, Any], screen: bool) -> Any:
    """
    ### Keep labml where it belongs

    labml announces what it could not find, and writes a list of projects into the home
    directory. Both go through one object each, which is another one for this moment.
    """
    computer: Any = import_module("labml.internal.computer.configs")
    logger: Any = import_module("labml.internal.logger")
    experiment, lab, tracker = (
        import_module(f"labml.{part}") for part in ("experiment", "lab", "tracker")
    )
    path.mkdir(parents=True, exist_ok=True)
    before = computer._internal, logger._internal
    computer._internal = _Nobody()
    logger._internal = _Nobody()
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
            writers={"file", "screen"} if screen else {"file"},
        )
        experiment.configs(fields)
        watcher = experiment.start()
    finally:
        computer._internal, logger._internal = before
    return tracker, watcher


class _Nobody:
    # Hears everything and does nothing.
    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None
