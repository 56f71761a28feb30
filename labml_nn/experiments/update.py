r"""
---
title: "One update: optimizers, gradient clipping, mixed precision"
summary: >
  Loss, gradient, step: AdamW and Muon, which parameters decay, gradient accumulation,
  clipping, and bfloat16 where the device has it.
---

An update has three parts: compute the loss $\mathcal{L}$ of a batch, compute its
gradient $g$ by backpropagation, and move the parameters against it.

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

**Gradient accumulation** splits a batch of $n$ targets into micro-batches of $n_i$. The
gradient of the batch is their weighted sum, $\nabla \mathcal{L} = \sum_i \frac{n_i}{n}
\nabla \mathcal{L}_i$. [Processes](distributed.py) that share a batch weigh in the same
way.

**Gradient clipping** scales a gradient longer than $c$ down to $c$
[@pascanu2013difficulty], $g \leftarrow g \min (1, c / \lVert g \rVert)$, so that one
odd batch cannot undo the training.

**Mixed precision.** Under autocast matrix products take bfloat16 (8 significant bits,
the range of float32), which modern GPUs compute several times as fast; parameters, sums
and softmax stay in float32 [@micikevicius2017mixed]. Older GPUs only have float16, in
which small gradients underflow, so the loss is scaled up before the backward pass and
the gradients down after it.

**Reproducibility.** Dropout draws random numbers. Each update seeds the generators from
the run's seed, its step and its process, so no generator state has to be saved.
"""

import math
import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from labml_nn.experiments.config import TrainingConfig
from labml_nn.experiments.data import Examples
from labml_nn.experiments.distributed import World
from labml_nn.experiments.files import RunError
from labml_nn.language_model import LanguageModel
from labml_nn.optimizers.muon import Muon

__all__ = ["Computing", "NotFiniteError", "Update", "pick_device", "roles"]

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
    The weight of a linear layer is a matrix, unless the layer is the output, which has
    a row for each token.

    ```python
    import labml_nn
    from labml_nn.experiments.update import roles

    matrices, tables, vectors = roles(labml_nn.create("autoregressive", n_vocab=65))
    assert len(matrices) == 6 * 4  # four of attention, two feed-forward, in each layer
    assert len(tables) == 1  # the embedding, tied with the output layer
    ```
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


class Optimizers:
    """
    ## Optimizers

    AdamW alone, or Muon for the matrices and AdamW for the rest, as one.
    """

    def __init__(
        self, model: LanguageModel[Any], config: TrainingConfig, device: torch.device
    ) -> None:
        matrices, tables, vectors = roles(model)
        self.all: list[torch.optim.Optimizer] = []
        decay = config.weight_decay
        if config.optimizer == "muon" and matrices:
            self.all.append(
                Muon(matrices, lr=config.muon_learning_rate, weight_decay=decay)
            )
            matrices = []
        groups = [
            {"params": [*matrices, *tables], "weight_decay": decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.all.append(
            AdamW(
                [group for group in groups if group["params"]],
                lr=config.learning_rate,
                betas=(config.beta1, config.beta2),
                fused=device.type in ("cpu", "cuda", "mps"),
            )
        )
        self.highest = [group["lr"] for group in self._groups()]

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.all:
            yield from optimizer.param_groups

    @property
    def parameters(self) -> Iterator[Tensor]:
        """All trainable parameters."""
        for group in self._groups():
            yield from group["params"]

    @property
    def learning_rate(self) -> float:
        """The current learning rate of AdamW."""
        return float(self.all[-1].param_groups[0]["lr"])

    def set_share(self, share: float) -> None:
        """All learning rates to this share of their highest."""
        for group, highest in zip(self._groups(), self.highest, strict=True):
            group["lr"] = highest * share


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
        computing: "Computing",
        world: World,
    ) -> None:
        """`model` is on its device already; `world` are the processes."""
        self.config, self.computing, self.world = config, computing, world
        self.wrapped = world.wrap(model)
        self.loss = computing.prepare(self.wrapped)
        self.optimizers = Optimizers(model, config, computing.device)
        self.parameters = list(self.optimizers.parameters)
        half = computing.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(computing.device.type, enabled=half)
        self.norm = self.loss_sum = 0.0

    def __call__(self, step: int, batch: Examples, share: float) -> None:
        """
        * `step` is the number of the update, from 0
        * `batch` is the batch of all processes
        * `share` is the [share](config.py) of the learning rates

        Raises `NotFiniteError` if loss or gradient is not finite; then the parameters
        are as they were.
        """
        _seed_all(self.config.seed, step, self.world.rank, self.computing.device)
        self.optimizers.set_share(share)
        for optimizer in self.optimizers.all:
            optimizer.zero_grad(set_to_none=True)

        # Gradients are exchanged with those of the last micro-batch.
        *others, last = self._micro_batches(batch)
        loss = torch.zeros((), device=self.computing.device)
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
        piece = piece.to(self.computing.device)
        with self.computing.autocast():
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
        for optimizer in self.optimizers.all:
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
        for optimizer in self.optimizers.all:
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
        """The state for a checkpoint."""
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers.all]
        return {"optimizers": optimizers, "scaler": self.scaler.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """From the state of a checkpoint."""
        for optimizer, values in zip(
            self.optimizers.all, state["optimizers"], strict=True
        ):
            optimizer.load_state_dict(values)
        self.scaler.load_state_dict(state["scaler"])


def _seed_all(seed: int, step: int, rank: int, device: torch.device) -> None:
    # A hash, so that neighbouring steps and seeds are independent.
    digest = blake2b(f"{seed} {step} {rank}".encode(), digest_size=8).digest()
    value = int.from_bytes(digest, "little", signed=True)
    torch.default_generator.manual_seed(value)
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    elif device.type != "cpu":
        torch.manual_seed(value)


# ## Device and precision
#
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
# Models that `compile="auto"` compiles on a GPU: their batches have one shape, and they
# compute whole sequences in parallel.
COMPILED = {"autoregressive"}


def pick_device(name: str) -> torch.device:
    """
    ### Device

    `auto` is a GPU if there is one, else the CPU. Raises `ValueError` for a device that
    this machine lacks, with those that it has.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if gpus else "cpu")
    device = torch.device(name)
    missing = device.type == "cuda" and (device.index or 0) >= gpus
    if missing or (device.type == "mps" and not torch.backends.mps.is_available()):
        there = ["cpu", *(f"cuda:{i}" for i in range(gpus))]
        without = device.type == "cuda" and torch.version.cuda is None
        why = f" (PyTorch {torch.__version__} has no CUDA)" if without else ""
        raise ValueError(
            f"there is no device {name!r} here{why}; this machine has "
            f"{', '.join(there)}: choose one of them, or auto"
        )
    return device


class Computing:
    """
    ### Precision and compilation

    What `auto` means for this device and model: `dtype` is that of matrix products, and
    `compiled` whether `torch.compile` is used.
    """

    def __init__(
        self, config: TrainingConfig, device: torch.device, model: str
    ) -> None:
        """`model` is the name of the model."""
        self.device = device
        on_gpu = device.type == "cuda"
        precision = config.precision
        if precision == "auto":
            able = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
            precision = "bfloat16" if able else "float32"
        self.dtype = DTYPES[precision]
        gains = on_gpu and model in COMPILED and not config.grows
        self.compiled = config.compile == "yes" or (config.compile == "auto" and gains)

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which the loss is computed."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def prepare(self, loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        """The loss, compiled if that was chosen."""
        return torch.compile(loss) if self.compiled else loss


def is_memory(error: BaseException) -> bool:
    """Whether `error` means that memory is full."""
    said = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or any(text in str(error) for text in said)


@contextmanager
def memory_advice(config: TrainingConfig) -> Iterator[None]:
    """
    ### Out of memory

    Becomes a `RunError` that says which hyperparameters to lower.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        larger = range(config.accumulate + 1, config.batch_size + 1)
        pieces = next((n for n in larger if config.batch_size % n == 0), None)
        ways = [f"lower `seq_len` ({config.seq_len})"]
        if pieces is not None:
            ways[:0] = [
                "split each batch into more micro-batches, which changes nothing else: "
                f"`accumulate` {pieces} instead of {config.accumulate}",
                f"lower `batch_size` ({config.batch_size})",
            ]
        raise RunError(
            f"there is not enough memory for an update; {'; or '.join(ways)}; or "
            "choose a smaller model. The last checkpoint is intact"
        ) from error


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine, for the record: a time means nothing without it."""
    on_gpu = device.type == "cuda"
    limited = hasattr(os, "sched_getaffinity")
    return {
        "device": str(device),
        "name": torch.cuda.get_device_name(device) if on_gpu else _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if limited else os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()
