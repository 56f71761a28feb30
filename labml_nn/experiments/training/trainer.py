r"""
---
title: The trainer
summary: >
  A loop around updates, and what happens now and then: look how good the model is, let
  it write, save it, and stop when somebody asks.
---

All that a training needs stands on pages of its own. Here it is put together:

1. take the batch of this step, and make an [update](update.py), at the rate that the
   [schedule](schedule.py) says
2. now and then, tell the [reporters](reporters.py), read the whole
   [validation split](validation.py), write a [sample](samples.py), save a
   [checkpoint](checkpoint.py)
3. until all steps are made, or somebody [asks to stop](stopping.py), or the numbers
   are none

What is told, judged and saved depends on the number of the step only, never on the
clock. So two runs with one seed do the same at the same steps, on a busy machine too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any

import torch

from labml_nn.experiments.distributed import World
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.checkpoint import (
    check_belongs,
    read_checkpoint,
    whole,
)
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.devices import (
    Computing,
    memory_advice,
    pick_device,
)
from labml_nn.experiments.training.folder import RunFolder, read_json
from labml_nn.experiments.training.history import History
from labml_nn.experiments.training.keeping import Keeper
from labml_nn.experiments.training.log import Log
from labml_nn.experiments.training.outcome import Outcome
from labml_nn.experiments.training.record import describe, fields_of
from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result, Stopped
from labml_nn.experiments.training.samples import Samples, sample
from labml_nn.experiments.training.schedule import seq_len_at, share_at
from labml_nn.experiments.training.stopping import Stop
from labml_nn.experiments.training.task import Task
from labml_nn.experiments.training.update import NotFiniteError, Update, trouble
from labml_nn.experiments.training.validation import validation_loss
from labml_nn.language_model import LanguageModel

__all__ = ["Trainer"]

# A curve has at most so many points, however long the run is.
POINTS = 200


class Trainer:
    """
    ## A training

    ```python
    from labml_nn.experiments.data.corpus import Corpus
    from labml_nn.experiments.training.config import TrainingConfig
    from labml_nn.experiments.training.task import TextTask
    from labml_nn.experiments.training.trainer import Trainer
    from labml_nn.recurrent.elman.language_model import ElmanLanguageModel

    text = "to be, or not to be, that is the question: " * 20
    task = TextTask(Corpus.of("a line", text), batch_size=4, seq_len=8, seed=1)
    model = ElmanLanguageModel.from_config({**task.model_fields, "d_hidden": 16})
    config = TrainingConfig(
        steps=20, batch_size=4, seq_len=8, learning_rate=0.01, sample_tokens=10
    )
    result = Trainer(model, task, config).train()
    assert result.stopped == "finished" and result.validation_loss < 3
    ```
    """

    def __init__(
        self,
        model: LanguageModel[Any],
        task: Task,
        config: TrainingConfig,
        folder: str | PathLike[str] | None = None,
        *,
        world: World | None = None,
        reporters: Sequence[Reporter] = (),
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """
        * `model` is trained where it is, and moved to the device first
        * `task` says what to learn from, and what judges
        * `config` says how
        * `folder` is where the [run](folder.py) is kept; without one nothing is written
        * `world` are the processes that train together; `None`: this one
        * `reporters` want to know what happens
        * `about` says what `run.json` cannot know by itself: `experiment`, `variant`
          and `preset`

        Raises `ValueError` for a device that is not there, and for a batch that the
        processes cannot share.
        """
        self.world = World() if world is None else world
        self.world.share(config.batch_size, config.accumulate)
        self.device = self.world.device(pick_device(config.device))
        self.model = model.to(self.device)
        self.task, self.config = task, config
        self.computing = Computing(config, self.device, model.name)
        self.history = History()
        self.keeper = Keeper(folder, self.world.main, self._warn)
        self.folder = self.keeper.folder
        self.about = describe(model, task, config, self.device, self.world, about or {})
        self.reporters = self._all(reporters)
        self.trouble: str | None = None
        self._update = Update(model, config, self.computing, self.world)
        self._begun = False

    def _all(self, reporters: Sequence[Reporter]) -> list[Reporter]:
        # One process writes and talks, or all would do it at once.
        if not self.world.main:
            return []
        files: list[Reporter] = []
        if self.folder is not None:
            files = [
                Log(self.folder.log),
                Samples(self.folder.samples),
                Outcome(self.folder),
            ]
        return [*files, *reporters]

    def train(self) -> Result:
        """
        ### Train

        From where it stands to the last step. Returns what came out, also if somebody
        interrupted, or if the numbers were none; then `trouble` says what to do. Called
        again it goes on, or returns the same if there is nothing left to do.

        Raises `RunError` for what only you can change: a folder that is there already,
        or memory or a disk that is full.
        """
        stopped: Stopped = "finished"
        with self._surrounded() as stop:
            self._begin()
            try:
                while self.history.step < self.config.steps:
                    self._learn()
                    self._now_and_then()
                    if self._is_stopped(stop):
                        self._save()
                        stopped = "interrupted"
                        break
            except NotFiniteError as error:
                stopped = "not finite"
                self._explain(error)
            return self._end(stopped)

    def _learn(self) -> None:
        """
        ### One update, on the clock
        """
        history, config = self.history, self.config
        with history.clock.running():
            batch = self.task.batch(history.step, seq_len_at(history.step, config))
            self._update(history.step, batch, share_at(history.step, config))
            history.step += 1
            history.tokens += batch.count
            history.loss_count += 1
            if self._is_reported or any(map(self._is_due, self._intervals)):
                self.computing.wait()

    def _now_and_then(self) -> None:
        """
        ### What is not done at every step

        The checkpoint comes last, so that it knows of all the rest.
        """
        config = self.config
        if self._is_reported:
            self._report()
        if self._is_due(config.evaluate_every):
            self._judge()
        if self._is_due(config.sample_every):
            self._write()
        if self._is_due(config.save_every):
            self._save()

    @property
    def _intervals(self) -> tuple[int, int, int]:
        config = self.config
        return config.evaluate_every, config.sample_every, config.save_every

    def _is_due(self, every: int) -> bool:
        step = self.history.step
        return step == self.config.steps or (every > 0 and step % every == 0)

    @property
    def _is_reported(self) -> bool:
        return self._is_due(math.ceil(self.config.steps / POINTS))

    def _report(self) -> None:
        """
        ### Tell how it goes

        Here a GPU is asked for its losses, and whether all updates could be made.
        """
        history = self.history
        before = history.train[-1] if history.train else [0, 0.0, 0.0, 0.0, 0]
        loss = self._update.look() / history.loss_count
        history.train.append(history.point(loss))
        self._update.clear()
        history.loss_count = 0
        passed = max(history.clock.seconds - before[2], 1e-9)
        for reporter in self.reporters:
            reporter.update(
                history.step,
                loss,
                self._update.optimizers.learning_rate,
                (history.tokens - before[4]) / passed,
                gradient_norm=float(self._update.norm),
                tokens=float(history.tokens),
                seconds=round(history.clock.seconds, 3),
                process_seconds=round(history.clock.process_seconds, 3),
            )

    def validate(self) -> float:
        """
        ### How good is it now?

        Returns nats per token on the whole validation split. Changes nothing.
        """
        return validation_loss(self.model, self.task, self.device, self.world)

    def _judge(self) -> None:
        """
        ### Keep the best

        Only a model that was never as good before replaces the one in the folder. The
        look before it makes sure that all updates were made which it counts.
        """
        self._update.look()
        best, loss = self.history.best, self.validate()
        if not math.isfinite(loss):
            raise NotFiniteError(self.history.loss_count, "the loss on new text")
        self.history.validation.append(self.history.point(loss))
        if best is None or loss < best:
            self.keeper.keep(self.model, self.history.step)
        for reporter in self.reporters:
            reporter.validated(self.history.step, loss)

    def _write(self) -> None:
        """
        ### Let it write

        Only the first process does; the others wait for it at the next update.
        """
        if not self.world.main:
            return
        step, config = self.history.step, self.config
        seed = config.seed + step
        text = sample(self.model, self.task, config.sample_tokens, seed, self.device)
        self.history.samples.append({"step": step, "text": text})
        for reporter in self.reporters:
            reporter.sampled(step, text)

    def _save(self) -> None:
        """
        ### Save

        Everything that decides how it goes on. The look before it makes sure that what
        is saved is made of numbers.
        """
        history = self.history
        history.loss_sum = self._update.look()
        if self.keeper.save(history.step, self._state):
            for reporter in self.reporters:
                reporter.saved(history.step)

    def _state(self) -> dict[str, Any]:
        return {
            "about": self._identity(),
            "model": self.model.state_dict(),
            "update": self._update.state(),
            "history": self.history.values(),
        }

    def _identity(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "model_config": fields_of(self.model.config),
            "training": self.config.values(),
            "corpus": self.task.corpus.sha256,
        }

    def resume(self) -> None:
        """
        ### Go on

        Takes everything from the checkpoint in `folder`, so that `train` goes on where
        it was written. Raises `RunError` if there is none, if it is damaged, or if it
        belongs to another model, text or configuration.
        """
        if self.folder is None:
            raise RunError("there is no folder to go on from; give one to Trainer(...)")
        folder = RunFolder.open(self.folder.path)
        state = read_checkpoint(folder.checkpoint)
        self.about = read_json(folder.run_file)
        with whole(folder.checkpoint):
            check_belongs(folder.checkpoint, state["about"], self._identity())
            self.model.load_state_dict(state["model"])
            self._update.restore(state["update"])
            self.history = History.of(state["history"])
        self._update.clear(self.history.loss_sum, self.history.loss_count)
        self._begun, self.keeper.saved_at = True, self.history.step

    # ### Before, around and after
    #
    # A new run gets its folder, and a checkpoint at once: whatever happens, there is
    # something to go on from.
    def _begin(self) -> None:
        if not self._begun:
            self.keeper.create(self.about, self.task.vocabulary)
            self.world.barrier()
        for reporter in self.reporters:
            reporter.begin(self)
        if not self._begun:
            self._save()
        self._begun = True

    @contextmanager
    def _surrounded(self) -> Iterator[Stop]:
        gpus = [self.device] if self.device.type == "cuda" else []
        try:
            with (
                Stop() as stop,
                torch.random.fork_rng(gpus),
                self.world.together(),
                memory_advice(self.config),
            ):
                yield stop
        finally:
            with ExitStack() as stack:  # all of them, whatever one of them does
                for reporter in reversed(self.reporters):
                    stack.callback(reporter.close)

    def _is_stopped(self, stop: Stop) -> bool:
        # Processes hear of a signal at different moments, and stop at the same step.
        if self.history.step == self.config.steps:
            return False
        if self.world.size == 1:
            return stop.asked
        return self._is_reported and self.world.sum(float(stop.asked))[0] > 0

    def _end(self, stopped: Stopped) -> Result:
        history = self.history
        if not self.keeper.has_model:
            self.keeper.keep(self.model, history.step)
        result = Result(
            history.step,
            history.train_loss,
            history.validation_loss,
            history.best,
            round(history.clock.seconds, 3),
            round(history.clock.process_seconds, 3),
            history.tokens,
            stopped,
        )
        for part, reporter in enumerate(self.reporters):
            with self.keeper.disk("the result", history.step, part):
                reporter.end(result)
        self.keeper.check()
        return result

    def _warn(self, text: str) -> None:
        for reporter in self.reporters:
            reporter.warned(text)

    def _explain(self, error: NotFiniteError) -> None:
        history = self.history
        history.step += error.made - history.loss_count
        self.trouble = trouble(
            error.what,
            history.step,
            self.config,
            self._update.optimizers.learning_rate,
            self.keeper.saved_at,
            self.computing.dtype != torch.float32,
        )
        self._warn(self.trouble)
