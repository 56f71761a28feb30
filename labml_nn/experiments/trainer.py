r"""
---
title: "Training loop, and one update"
summary: >
  Loss, gradient, step: AdamW and Muon, clipping, accumulation, mixed precision; and the
  loop of updates, validation, samples and checkpoints around it.
---

An **update** has three parts: compute the loss $\mathcal{L}$ of a batch, compute its
gradient $g$ by backpropagation, and move the parameters against it. Training repeats
it. Now and then the trainer evaluates the model on the whole validation split,
generates a sample and writes a [checkpoint](checkpoint.py);
[reporters](reporters.py) show and record what happens. All of it depends on the number
of the step only and never on the clock, so that two runs with one seed do the same at
the same steps.

```python
from labml_nn.experiments.data import Corpus, TextTask
from labml_nn.experiments.presets import TrainingConfig
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

**AdamW** [@kingma2014adam] [@loshchilov2017decoupled] divides each step by the root
mean square of the past gradients, so that every parameter moves by about the learning
rate $\eta$ whatever the scale of its gradients. With bias-corrected means $\hat{m}$ of
the gradients and $\hat{v}$ of their squares,

$$\theta \leftarrow \theta - \eta \Bigl( \frac{\hat{m}}{\sqrt{\hat{v}} + \epsilon}
    + \lambda \, \theta \Bigr)$$

**[Muon](../optimizers/muon.py)** orthogonalises the mean gradient of a matrix, so that
all its singular values are equal. It is for the matrices inside the model, which map
vectors to vectors; embedding tables, the output layer and vectors stay with AdamW.

**Weight decay** $\lambda$ shrinks matrices and tables. Biases and the scales of layer
norms do not decay: a scale is centred on one, and a bias adds no complexity.

**Gradient accumulation** splits a batch of $n$ targets into micro-batches of $n_i$, to
save memory. The gradient of the batch is their weighted sum, $\nabla \mathcal{L} =
\sum_i \frac{n_i}{n} \nabla \mathcal{L}_i$.

**Gradient clipping** scales a gradient longer than $c$ down to $c$
[@pascanu2013difficulty], $g \leftarrow g \min (1, c / \lVert g \rVert)$, so that one
odd batch cannot undo the training.

**Mixed precision.** Under autocast matrix products take bfloat16 (8 significant bits,
the range of float32), which modern GPUs compute several times as fast; parameters, sums
and softmax stay in float32 [@micikevicius2017mixed]. Older GPUs only have float16, in
which small gradients underflow, so the loss is scaled up before the backward pass and
the gradients down after it.
"""

import math
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from os import PathLike
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from labml_nn.experiments.checkpoint import (
    RunFolder,
    Saver,
    check_belongs,
    describe,
    intact,
    read_checkpoint,
    read_json,
)
from labml_nn.experiments.data import Examples, Task
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import (
    TrainingConfig,
    learning_rate_share,
    seq_len_at,
)
from labml_nn.experiments.reporters import Reporter, Result, RunFiles, Stopped
from labml_nn.language_model import LanguageModel, evaluating
from labml_nn.optimizers.muon import Muon
from labml_nn.sampling import Temperature, generate

__all__ = [
    "History",
    "NotFiniteError",
    "Trainer",
    "Update",
    "pick_device",
    "roles",
    "validation_loss",
]

# A curve has at most this many points.
POINTS = 200
# Samples are drawn a little below the temperature of training: over hundreds of
# characters every improbable one gets its chance.
SAMPLER = Temperature(0.8)
# The output layer, at the top of a model or in its generator.
OUTPUT = re.compile(r"^(output|head)$|(^|\.)generator\.projection$")


class Roles(NamedTuple):
    """
    ## Parameter groups

    * `matrices` map vectors to vectors inside the model
    * `tables` have a row for each token or position: embeddings and the output layer
    * `vectors` are biases and the scales of norms
    """

    matrices: list[nn.Parameter]
    tables: list[nn.Parameter]
    vectors: list[nn.Parameter]


def roles(model: LanguageModel[Any]) -> Roles:
    """
    Each trainable parameter once: weights that are tied have two names and one role.
    """
    n_vocab = model.config.n_vocab
    linear = {
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and not (module.out_features == n_vocab and OUTPUT.search(name))
    }
    found = Roles([], [], [])
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dim() < 2 or "bias" in name.rpartition(".")[2]:
            found.vectors.append(parameter)
        else:
            (found.matrices if parameter in linear else found.tables).append(parameter)
    return found


class NotFiniteError(Exception):
    """A loss or a gradient is infinite or NaN, and the update was not made."""


class Update:
    """
    ## Update

    Called with one batch after the other. `loss_sum` is the sum of the losses since the
    last `clear`, of this process, and `norm` the last norm of the gradient.
    """

    def __init__(
        self,
        model: LanguageModel[Any],
        config: TrainingConfig,
        device: torch.device,
        world: World,
    ) -> None:
        """`model` is on `device` already; `world` are the processes."""
        self.config, self.device, self.world = config, device, world
        self.dtype = dtype_of(config, device)
        self.wrapped = world.wrap(model)
        compiled = is_compiled(config, device, model.name)
        self.loss = torch.compile(self.wrapped) if compiled else self.wrapped
        matrices, tables, vectors = roles(model)
        self.optimizers: list[torch.optim.Optimizer] = []
        decay = config.weight_decay
        if config.optimizer == "muon" and matrices:
            muon = Muon(matrices, lr=config.muon_learning_rate, weight_decay=decay)
            self.optimizers.append(muon)
            matrices = []
        groups = [
            {"params": [*matrices, *tables], "weight_decay": decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizers.append(
            AdamW(
                [group for group in groups if group["params"]],
                lr=config.learning_rate,
                betas=(config.beta1, config.beta2),
                fused=device.type in ("cpu", "cuda", "mps"),
            )
        )
        self.highest = [group["lr"] for group in self.groups]
        self.parameters = [one for group in self.groups for one in group["params"]]
        half = self.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=half)
        self.norm = self.loss_sum = 0.0

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Parameters with their learning rates; a checkpoint replaces them."""
        return [group for one in self.optimizers for group in one.param_groups]

    @property
    def learning_rate(self) -> float:
        return float(self.groups[-1]["lr"])

    def __call__(self, step: int, batch: Examples, share: float) -> None:
        """
        * `step` is the number of the update, from 0
        * `batch` is the batch of all processes
        * `share` is the [share](presets.py) of the learning rates

        Raises `NotFiniteError` if loss or gradient is not finite; then the parameters
        are as they were.
        """
        _seed_all(self.config.seed, step, self.world.rank, self.device)
        for group, highest in zip(self.groups, self.highest, strict=True):
            group["lr"] = highest * share
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

        # Gradients are exchanged with those of the last micro-batch.
        *others, last = self._micro_batches(batch)
        loss = torch.zeros((), device=self.device)
        for micro_batch in others:
            with self.world.no_sync(self.wrapped):
                loss = loss + self._backward(micro_batch, batch.count)
        self._step(loss + self._backward(last, batch.count))

    def _micro_batches(self, batch: Examples) -> list[Examples]:
        accumulate, size = self.config.accumulate, batch.targets.shape[1]
        start, stop = self.world.share(size, accumulate)
        width = (stop - start) // accumulate
        if width == size:
            return [batch]
        return [batch.columns(i, i + width) for i in range(start, stop, width)]

    def _backward(self, piece: Examples, count: int) -> Tensor:
        # The loss weighted by its targets. DistributedDataParallel averages gradients
        # over processes, which the factor of their number turns into a sum.
        piece, mixed = piece.to(self.device), self.dtype != torch.float32
        with torch.autocast(self.device.type, self.dtype, enabled=mixed):
            loss = self.loss(piece.tokens, piece.targets)
        part: Tensor = loss * (piece.count / count)
        self.scaler.scale(part * self.world.size).backward()  # type: ignore[no-untyped-call]
        return part.detach()

    def _step(self, loss: Tensor) -> None:
        """
        ### Step

        One infinite loss would make all parameters NaN, so the norm of the gradient is
        checked first. In float16 the gradient may be infinite because the scale of the
        loss is too large; then the scaler skips the step and lowers the scale.
        """
        scaled = self.scaler.is_enabled()
        for optimizer in self.optimizers:
            if scaled:
                self.scaler.unscale_(optimizer)
        norm = clip_grad_norm_(self.parameters, self.config.clip_norm or math.inf)
        self.norm, value = norm.item(), loss.item()

        # Processes share the gradient but not the loss, and must decide alike.
        alone = self.world.size == 1
        finite = (scaled or math.isfinite(self.norm)) and (
            not alone or math.isfinite(value)
        )
        if not finite or (scaled and self.scaler.get_scale() < 2**-10):
            raise NotFiniteError("the loss or the gradient")
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.loss_sum += value

    def total_loss(self) -> float:
        """The sum of the losses since `clear`, over all processes."""
        total = self.world.sum(self.loss_sum)[0]
        if not math.isfinite(total):
            raise NotFiniteError("the loss")
        return total

    def clear(self, loss_sum: float = 0.0) -> None:
        """Start a new sum, or continue with that of a checkpoint."""
        self.loss_sum = loss_sum if self.world.main else 0.0

    def state(self) -> dict[str, Any]:
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        return {"optimizers": optimizers, "scaler": self.scaler.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        for optimizer, values in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        self.scaler.load_state_dict(state["scaler"])


def _seed_all(seed: int, step: int, rank: int, device: torch.device) -> None:
    """
    ### Random numbers of dropout

    Each update seeds the generators from the run's seed, its step and its process, so
    that no generator state has to be saved. A hash makes neighbouring steps and seeds
    independent.
    """
    digest = blake2b(f"{seed} {step} {rank}".encode(), digest_size=8).digest()
    value = int.from_bytes(digest, "little", signed=True)
    torch.default_generator.manual_seed(value)
    if device.type != "cpu":
        torch.manual_seed(value)


# ## Device and precision
#
def pick_device(name: str) -> torch.device:
    """
    ### Device

    `auto` is a GPU if there is one, else the CPU. Raises `ValueError` for a device that
    this machine lacks, with those that it has.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = torch.device(("cuda" if gpus else "cpu") if name == "auto" else name)
    missing = device.type == "cuda" and (device.index or 0) >= gpus
    if missing or (device.type == "mps" and not torch.backends.mps.is_available()):
        there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(gpus))])
        raise ValueError(
            f"there is no device {name!r} here; this machine has {there}: choose one "
            "of them, or auto"
        )
    return device


def dtype_of(config: TrainingConfig, device: torch.device) -> torch.dtype:
    """
    ### Precision

    The type of matrix products: `auto` is bfloat16 on a GPU that supports it.
    """
    precision = config.precision
    if precision == "auto":
        on_gpu = device.type == "cuda"
        able = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        precision = "bfloat16" if able else "float32"
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def is_compiled(config: TrainingConfig, device: torch.device, model: str) -> bool:
    """
    ### Compilation

    `auto` uses `torch.compile` on a GPU, for the model whose batches have one shape and
    that computes whole sequences in parallel.
    """
    gains = device.type == "cuda" and model == "autoregressive" and not config.grows
    return config.compile == "yes" or (config.compile == "auto" and gains)


def is_memory(error: BaseException) -> bool:
    said = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or any(text in str(error) for text in said)


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
        seconds = round(self.seconds, 3), round(self.process_seconds, 3)
        return [self.step, loss, *seconds, self.tokens]

    @property
    def best(self) -> float | None:
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
        * `about` names `experiment` and `preset` for `run.json`

        Raises `ValueError` for a device that is missing, and for a batch that the
        processes cannot share.
        """
        self.world = World() if world is None else world
        self.world.share(config.batch_size, config.accumulate)
        self.device = self.world.device(pick_device(config.device))
        self.model = model.to(self.device)
        self.task, self.config = task, config
        self.history = History()
        task.batch(0)  # a text that is too short is refused here
        self.folder = None if folder is None else RunFolder(folder)
        written = self.folder if self.world.main else None
        self.saver = Saver(written, self._warn)
        size = self.world.size
        self.about = describe(model, task, config, self.device, size, about or {})
        self.trouble: str | None = None
        self.reporters = list(reporters) if self.world.main else []
        if written is not None:
            self.reporters.append(RunFiles(written))
        self.update = Update(model, config, self.device, self.world)
        self._begun = False

    def train(self) -> Result:
        """
        ### Train to the last step

        Returns the result, also after an interruption or a loss that is not finite;
        then `trouble` says what to do. Called again it continues. Raises `RunError` for
        a folder that is taken, and for a disk that is full.
        """
        stopped: Stopped = "finished"
        with ExitStack() as stack:  # all are closed, even if closing one fails
            stack.callback(self.saver.unlock)
            for reporter in reversed(self.reporters):
                stack.callback(reporter.close)
            stop = stack.enter_context(Stop())
            gpus = [self.device] if self.device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(gpus))
            stack.enter_context(self.world.together())
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
        self.update(history.step, batch, learning_rate_share(history.step, config))
        history.step += 1
        history.tokens += batch.count
        history.loss_count += 1
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
                learning_rate=self.update.learning_rate,
                tokens_per_second=(history.tokens - before[4]) / passed,
                gradient_norm=self.update.norm,
                tokens=float(history.tokens),
                seconds=round(history.seconds, 3),
                process_seconds=round(history.process_seconds, 3),
            )

    def validate(self) -> float:
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
            "model_config": asdict(self.model.config),
            "training": self.config.values(),
            "corpus": self.task.corpus.sha256,
        }

    def resume(self) -> None:
        """
        ### Resume

        From the checkpoint in `folder`. Raises `RunError` if there is none, if it is
        damaged, or if it belongs to another model, text or configuration.
        """
        assert self.folder is not None, "pass a folder to Trainer(...)"
        self.folder.check_run()
        path = self.folder.checkpoint
        state = read_checkpoint(path)
        self.about = read_json(self.folder.run_file)
        with intact(path):
            check_belongs(path, state["about"], self._identity())
            self.model.load_state_dict(state["model"])
            self.update.restore(state["update"])
            past = state["history"]
            self.history = History(**{name: past[name] for name in vars(History())})
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
        if history.best is None:
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
            self.task.accuracy(self.model, self.device) if self.world.main else None,
        )
        with self.saver.disk("the result", history.step):
            for reporter in self.reporters:
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
        config, saved = self.config, self.saver.saved_at
        names = ["learning_rate", "muon_learning_rate"][: len(self.update.optimizers)]
        lower = " and ".join(f"`{n}` than {getattr(config, n):g}" for n in names)
        last = f" The checkpoint of step {saved} is intact." if saved >= 0 else ""
        self.trouble = (
            f"{error} was not finite after {self.history.step} updates; the parameters "
            f"are as they were before.{last} Try a lower {lower}, `clip_norm` 1.0, or "
            "`precision` float32"
        )
        self._warn(self.trouble)


def validation_loss(
    model: LanguageModel[Any],
    task: Task,
    device: torch.device | str,
    world: World | None = None,
) -> float:
    r"""
    ## Validation loss

    The mean over all targets of the split, $\mathcal{L} = \sum_i n_i \mathcal{L}_i /
    \sum_i n_i$, without dropout and in full precision. Batches differ in their number
    of targets, so a plain mean of their losses would be wrong. With `world`, each
    process evaluates its share of the batches.
    """
    world = world or World()
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
        while self._before:
            signal.signal(*self._before.popitem())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.__exit__()
