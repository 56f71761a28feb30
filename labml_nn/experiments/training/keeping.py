r"""
---
title: What is kept on the way
summary: >
  The checkpoint and the best model, on a disk that may be full: what cannot be written
  is told, tried again, and never costs what is there.
---

Two things are written again and again while a model learns: the
[checkpoint](checkpoint.py), to go on from, and the best model so far. Both are for the
day on which something goes wrong, and writing them may be what goes wrong.

A full disk is no reason to throw away an hour of training that is in memory. So the
training goes on, says what happened, and tries again at the next occasion: somebody may
have made room. Only if the *last* thing could not be written either, it is an error.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.checkpoint import write_checkpoint
from labml_nn.experiments.training.folder import RunFolder
from labml_nn.language_model import LanguageModel

__all__ = ["Keeper"]


class Keeper:
    """
    ## Who writes

    Without a folder, or in a process that is not the first, it writes nothing.

    * `saved_at` is the step of the last checkpoint that is whole; -1: there is none
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None,
        main: bool,
        warn: Callable[[str], object],
    ) -> None:
        """
        * `folder` is that of the run
        * `main` is whether this is the first process
        * `warn` is called with what the disk refused
        """
        self.folder = None if folder is None else RunFolder(folder)
        self.writes = main and self.folder is not None
        self.saved_at = -1
        self._warn = warn
        self._refused: dict[tuple[str, int], str] = {}
        self._waiting: tuple[LanguageModel[Any], int] | None = None

    def create(self, about: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        """A new run. Raises `RunError` for a folder that is not empty."""
        if self.writes and self.folder is not None:
            RunFolder.create(self.folder.path, about, vocabulary)

    def save(self, step: int, state: Callable[[], Mapping[str, Any]]) -> bool:
        """
        ### A checkpoint

        * `step` is the number of updates so far
        * `state` makes what is to be saved, if it is

        Returns whether there is a new one. There is no need for two of one step.
        """
        self._try_again()
        if not self.writes or self.folder is None or self.saved_at == step:
            return False
        with self.disk("the checkpoint", step):
            write_checkpoint(self.folder.checkpoint, state())
            self.saved_at = step
        return self.saved_at == step

    def keep(self, model: LanguageModel[Any], step: int) -> None:
        """
        ### The best model

        * `model` has never been as good as after `step` updates

        The next update will change it. So if the disk refuses it, a copy waits for the
        next occasion.
        """
        if self.writes and self.folder is not None:
            self._waiting = model, step
            with self.disk("the best model", step):
                model.save(self.folder.model)
                self._waiting = None
            if self._waiting is not None:
                self._waiting = copy.deepcopy(model), step

    def _try_again(self) -> None:
        if self._waiting is not None:
            self.keep(*self._waiting)

    @property
    def has_model(self) -> bool:
        """Whether there is one that could be used, or waits for the disk."""
        there = self.folder is not None and self.folder.model.exists()
        return there or self._waiting is not None

    @contextmanager
    def disk(self, what: str, step: int, part: int = 0) -> Iterator[None]:
        """
        ### What the disk refuses

        is told, and kept in mind until it could be written.

        * `what` may have several parts, of which this is number `part`
        """
        try:
            yield
        except OSError as error:
            last = f"the checkpoint of step {self.saved_at} is in order"
            self._refused[what, part] = (
                f"the disk refused {what} after {step} updates "
                f"({error.strerror or error}); "
                f"{last if self.saved_at >= 0 else 'there is no checkpoint'}"
            )
            self._warn(self._refused[what, part])
        else:
            self._refused.pop((what, part), None)

    def check(self) -> None:
        """Raises `RunError` if something is still not written."""
        self._try_again()
        if self._refused:
            faults = "; ".join(self._refused.values())
            raise RunError(f"{faults}. Free some space, and go on with --resume")
