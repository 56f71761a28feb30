r"""
---
title: "Training loop"
summary: >
  Batches, updates, validation, samples and checkpoints until all steps are made, Ctrl-C
  is pressed, or the loss is not finite.
---

Training is a loop of [updates](update.py). Now and then the trainer evaluates the model
on the whole validation split, generates a sample and writes a
[checkpoint](checkpoint.py); [reporters](reporters.py) show and record what happens. All
of it depends on the number of the step only and never on the clock, so that two runs
with one seed do the same at the same steps.

```python
from labml_nn.experiments.config import TrainingConfig
from labml_nn.experiments.data import Corpus
from labml_nn.experiments.tasks import TextTask
from labml_nn.experiments.trainer import Trainer
import labml_nn

text = "to be, or not to be, that is the question: " * 20
task = TextTask(Corpus.of("a line", text), batch_size=4, seq_len=8, seed=1)
model = labml_nn.create("elman", **task.model_fields, d_hidden=16)
config = TrainingConfig(
    steps=20, batch_size=4, seq_len=8, learning_rate=0.01, sample_tokens=10
)
result = Trainer(model, task, config).train()
assert result.stopped == "finished" and result.validation_loss < 3
```
"""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from types import FrameType
from typing import Any

import torch

from labml_nn.experiments.checkpoint import (
    Saver,
    check_belongs,
    describe,
    fields_of,
    intact,
    read_checkpoint,
)
from labml_nn.experiments.config import (
    TrainingConfig,
    learning_rate_share,
    seq_len_at,
)
from labml_nn.experiments.distributed import World
from labml_nn.experiments.files import RunError, read_json
from labml_nn.experiments.reporters import (
    Log,
    Outcome,
    Reporter,
    Result,
    Samples,
    Stopped,
)
from labml_nn.experiments.tasks import Task
from labml_nn.experiments.update import (
    Computing,
    NotFiniteError,
    Update,
    memory_advice,
    pick_device,
)
from labml_nn.language_model import LanguageModel, evaluating
from labml_nn.sampling import Temperature, generate

__all__ = ["History", "Trainer", "validation_loss"]

# A curve has at most this many points.
POINTS = 200
# Samples are drawn a little below the temperature of training: over hundreds of
# characters every improbable one gets its chance.
SAMPLER = Temperature(0.8)


@dataclass
class History:
    """
    ## History

    Everything a training knows of its past, as plain numbers for the checkpoint. A
    point of a curve is step, loss, seconds, CPU seconds and targets so far.

    * `step` and `tokens` are the updates and targets so far
    * `seconds` and `process_seconds` are the time in updates, wall clock and CPU
    * `train` and `validation` are the curves
    * `samples` are steps and the texts generated after them
    * `loss_sum` and `loss_count` are of the updates since the last point of `train`
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    process_seconds: float = 0.0
    train: list[list[int | float]] = field(default_factory=list)
    validation: list[list[int | float]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_count: int = 0

    def point(self, loss: float) -> list[int | float]:
        """`loss` at the current step."""
        seconds = round(self.seconds, 3), round(self.process_seconds, 3)
        return [self.step, loss, *seconds, self.tokens]

    @property
    def best(self) -> float | None:
        """The lowest validation loss so far."""
        return min((point[1] for point in self.validation), default=None)


class Trainer:
    """
    ## Trainer
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
        * `model` is trained in place, and moved to the device first
        * `task` has the data
        * `config` has the hyperparameters
        * `folder` is the run folder; without one nothing is written
        * `world` are the processes that train together; `None`: this one
        * `reporters` are told what happens
        * `about` names `experiment`, `variant` and `preset` for `run.json`

        Raises `ValueError` for a device that is missing, and for a batch that the
        processes cannot share.
        """
        self.world = World() if world is None else world
        self.world.share(config.batch_size, config.accumulate)
        self.device = self.world.device(pick_device(config.device))
        self.model = model.to(self.device)
        self.task, self.config = task, config
        self.computing = Computing(config, self.device, model.name)
        self.history = History()
        self.saver = Saver(folder, self.world.main, self._warn)
        self.folder = self.saver.folder
        self.about = describe(model, task, config, self.device, self.world, about or {})
        self.trouble: str | None = None
        self.reporters: list[Reporter] = []
        if self.world.main:
            if self.folder is not None:
                log, samples = Log(self.folder.log), Samples(self.folder.samples)
                self.reporters = [log, samples, Outcome(self.folder)]
            self.reporters += reporters
        self.update = Update(model, config, self.computing, self.world)
        self._begun = False

    def train(self) -> Result:
        """
        ### Train to the last step

        Returns the result, also after an interruption or a loss that is not finite;
        then `trouble` says what to do. Called again it continues. Raises `RunError` for
        a folder that is taken, and for memory or a disk that is full.
        """
        stopped: Stopped = "finished"
        with self._surrounded() as stop:
            self._begin()
            try:
                while self.history.step < self.config.steps:
                    self._train_step()
                    self._periodic()
                    if self._should_stop(stop):
                        self._save()
                        stopped = "interrupted"
                        break
            except NotFiniteError as error:
                stopped = "not finite"
                self._explain(error)
            return self._end(stopped)

    def _train_step(self) -> None:
        history, config = self.history, self.config
        wall, process = time.perf_counter(), time.process_time()
        batch = self.task.batch(history.step, seq_len_at(history.step, config))
        share = learning_rate_share(history.step, config)
        try:
            self.update(history.step, batch, share)
            history.step += 1
            history.tokens += batch.count
            history.loss_count += 1
        finally:
            history.seconds += time.perf_counter() - wall
            history.process_seconds += time.process_time() - process

    def _periodic(self) -> None:
        # The checkpoint comes last, so that it includes all the rest.
        config = self.config
        if self._is_due(math.ceil(config.steps / POINTS)):
            self._report()
        if self._is_due(config.evaluate_every):
            self._validate()
        if self._is_due(config.sample_every):
            self._sample()
        if self._is_due(config.save_every):
            self._save()

    def _is_due(self, every: int) -> bool:
        step = self.history.step
        return step == self.config.steps or (every > 0 and step % every == 0)

    def _report(self) -> None:
        history = self.history
        before = history.train[-1] if history.train else [0, 0.0, 0.0, 0.0, 0]
        loss = self.update.total_loss() / history.loss_count
        history.train.append(history.point(loss))
        self.update.clear()
        history.loss_count = 0
        passed = max(history.seconds - before[2], 1e-9)
        for reporter in self.reporters:
            reporter.update(
                history.step,
                loss,
                learning_rate=self.update.optimizers.learning_rate,
                tokens_per_second=(history.tokens - before[4]) / passed,
                gradient_norm=self.update.norm,
                tokens=float(history.tokens),
                seconds=round(history.seconds, 3),
                process_seconds=round(history.process_seconds, 3),
            )

    def validate(self) -> float:
        """The loss on the whole validation split, in nats per target."""
        return validation_loss(self.model, self.task, self.device, self.world)

    def _validate(self) -> None:
        # The best model so far is kept.
        best, loss = self.history.best, self.validate()
        if not math.isfinite(loss):
            raise NotFiniteError("the validation loss")
        self.history.validation.append(self.history.point(loss))
        if best is None or loss < best:
            self.saver.keep(self.model, self.history.step)
        for reporter in self.reporters:
            reporter.validated(self.history.step, loss)

    def _sample(self) -> None:
        if not self.world.main:
            return
        step, task, seed = self.history.step, self.task, self.config.seed
        prompt = task.prompt(task.sample_prompt).to(self.device)
        n = self.config.sample_tokens
        tokens = generate(self.model, prompt, n, SAMPLER, seed=seed + step)
        text = task.sample_prompt + task.separator + task.decode(tokens[:, 0].cpu())
        self.history.samples.append({"step": step, "text": text})
        for reporter in self.reporters:
            reporter.sampled(step, text)

    def _save(self) -> None:
        self.history.loss_sum = self.update.total_loss()
        if self.saver.save(self.history.step, self._state):
            for reporter in self.reporters:
                reporter.saved(self.history.step)

    def _state(self) -> dict[str, Any]:
        return {
            "about": self._identity(),
            "model": self.model.state_dict(),
            "update": self.update.state(),
            "history": asdict(self.history),
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
        ### Resume

        From the checkpoint in `folder`. Raises `RunError` if there is none, if it is
        damaged, or if it belongs to another model, text or configuration.
        """
        if self.folder is None:
            raise RunError(
                "there is no folder to resume from; pass one to Trainer(...)"
            )
        self.folder.check_run()
        path = self.folder.checkpoint
        state = read_checkpoint(path)
        self.about = read_json(self.folder.run_file)
        with intact(path):
            check_belongs(path, state["about"], self._identity())
            self.model.load_state_dict(state["model"])
            self.update.restore(state["update"])
            past = state["history"]
            self.history = History(**{f.name: past[f.name] for f in fields(History)})
        self.update.clear(self.history.loss_sum)
        self._begun, self.saver.saved_at = True, self.history.step

    def _begin(self) -> None:
        # A new run gets a checkpoint at once.
        if self._begun:
            self.saver.lock()
        else:
            self.saver.create(self.about, self.task.vocabulary)
            self.world.barrier()
        for reporter in self.reporters:
            reporter.begin(self)
        if not self._begun:
            self._save()
        self._begun = True

    @contextmanager
    def _surrounded(self) -> Iterator["Stop"]:
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
            with ExitStack() as stack:  # all of them, even if one fails
                stack.callback(self.saver.unlock)
                for reporter in reversed(self.reporters):
                    stack.callback(reporter.close)

    def _should_stop(self, stop: "Stop") -> bool:
        # Signals reach processes at different moments; all stop at the same step.
        if self.history.step == self.config.steps:
            return False
        if self.world.size == 1:
            return stop.requested
        reported = self._is_due(math.ceil(self.config.steps / POINTS))
        return reported and self.world.sum(float(stop.requested))[0] > 0

    def _end(self, stopped: Stopped) -> Result:
        history = self.history
        if not self.saver.has_model:
            self.saver.keep(self.model, history.step)
        result = Result(
            history.step,
            history.train[-1][1] if history.train else None,
            history.validation[-1][1] if history.validation else None,
            history.best,
            round(history.seconds, 3),
            round(history.process_seconds, 3),
            history.tokens,
            stopped,
        )
        for part, reporter in enumerate(self.reporters):
            with self.saver.disk("the result", history.step, part):
                reporter.end(result)
        self.saver.check()
        return result

    def _warn(self, text: str) -> None:
        for reporter in self.reporters:
            reporter.warned(text)

    def _explain(self, error: NotFiniteError) -> None:
        """
        ### Loss that is not finite

        Almost always the steps were too long.
        """
        config, optimizers = self.config, self.update.optimizers
        ways = [f"a lower `learning_rate` than {config.learning_rate:g}"]
        if config.optimizer == "muon":
            highest = config.muon_learning_rate
            ways.append(f"a lower `muon_learning_rate` than {highest:g}")
        if config.clip_norm != 1:
            ways.append(f"`clip_norm` 1.0 instead of {config.clip_norm:g}")
        if self.computing.dtype != torch.float32:
            ways.append("`precision` float32")
        saved = self.saver.saved_at
        last = f" The checkpoint of step {saved} is intact." if saved >= 0 else ""
        self.trouble = (
            f"{error} was not finite after {self.history.step} updates, at a learning "
            f"rate of {optimizers.learning_rate:.3g}; the parameters are as they were "
            f"before.{last} Try {', or '.join(ways)}"
        )
        self._warn(self.trouble)


def validation_loss(
    model: LanguageModel[Any],
    task: Task,
    device: torch.device | str | None = None,
    world: World | None = None,
) -> float:
    r"""
    ## Validation loss

    The mean over all targets of the split, $\mathcal{L} = \sum_i n_i \mathcal{L}_i /
    \sum_i n_i$, without dropout and in full precision. Batches differ in their number
    of targets, so a plain mean of their losses would be wrong. With `world`, each
    process evaluates its share of the batches.
    """
    world = World() if world is None else world
    if device is None:
        device = next(model.parameters()).device
    total, count = torch.zeros((), dtype=torch.float64), 0
    with evaluating(model), torch.no_grad():
        for i, batch in enumerate(task.validation()):
            if i % world.size != world.rank:
                continue
            batch = batch.to(device)
            loss = model.loss(batch.tokens, batch.targets)
            total = total.to(loss.device) + loss.double() * batch.count
            count += batch.count
    total_, count_ = world.sum(float(total), float(count))
    return total_ / max(count_, 1.0)


class Stop:
    """
    ## Ctrl-C

    The first `SIGINT` or `SIGTERM` sets `requested`, and the training stops after the
    current update with everything saved; the second one acts as usual. Only the main
    thread can handle signals.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for name in (signal.SIGINT, signal.SIGTERM):
                self._before[name] = signal.signal(name, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            name, handler = self._before.popitem()
            signal.signal(name, signal.SIG_DFL if handler is None else handler)
