r"""
---
title: On what to compute
summary: >
  Which device, in which precision, compiled or not; what this machine is; and what to
  say when its memory is full.
---

The same model computes on a laptop and on a GPU a hundred times as fast. What is best
differs, and most people should not have to know. So each choice has an `auto`.

**Precision.** A matrix product of bfloat16 numbers takes a modern GPU a fraction of the
time that float32 takes. They have 8 significant bits, and the range of float32.
*Autocast* uses them for products only: parameters stay in float32, where small updates
are not rounded away, and so do sums and softmax ([@micikevicius2017mixed]). float16
has 11 significant bits, but ends at 65,504 and has nothing below $6 \cdot 10^{-8}$. Old
GPUs, such as the T4, have no other. Gradients would vanish in it, so the loss is
multiplied by a large number before, and the gradients are divided by it after: that is
what a *scaler* does.

On a processor bfloat16 saves nothing: without instructions for it, it is far slower.

**Compilation** turns many small operations into few large ones. It takes a while first,
and pays where the same shapes come again and again.
"""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.config import TrainingConfig

__all__ = ["Computing", "hardware", "is_memory", "memory_advice", "pick_device"]

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

# Models whose batches all have one shape, and which spend their time in small steps
# between large products.
GAIN = {"autoregressive"}


def pick_device(name: str) -> torch.device:
    """
    ## Which device

    * `name` is that of the configuration; `auto` is a GPU of NVIDIA's if there is one,
      and the processor otherwise

    Raises `ValueError` for a device that this machine does not have, with those that it
    has.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise ValueError(_no_device(name, count))
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(_no_device(name, 0))
    return device


def _no_device(name: str, gpus: int) -> str:
    there = ["cpu", *(f"cuda:{i}" for i in range(gpus))]
    why = ""
    if name.startswith("cuda") and torch.version.cuda is None:
        why = f" (PyTorch {torch.__version__} was built without CUDA)"
    return (
        f"there is no device {name!r} here{why}; this machine has "
        f"{', '.join(there)}: choose one of them, or auto"
    )


class Computing:
    """
    ## How to compute

    What `auto` means for this device and this model, decided once.

    * `device` and `dtype` are those of matrix products
    * `compiled` is whether the loss is compiled
    """

    def __init__(
        self, config: TrainingConfig, device: torch.device, model: str
    ) -> None:
        """`model` is the name of the model that will be trained."""
        self.device = device
        on_gpu = device.type == "cuda"
        precision = config.precision
        if precision == "auto":
            # Without its hardware PyTorch only pretends, and is slow.
            able = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
            precision = "bfloat16" if able else "float32"
        self.dtype = DTYPES[precision]
        steady = config.initial_seq_len is None
        gains = on_gpu and model in GAIN and steady
        self.compiled = config.compile == "yes" or (config.compile == "auto" and gains)

    def autocast(self) -> AbstractContextManager[Any]:
        """Where matrix products of a loss take the faster numbers."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """What keeps small gradients from vanishing; it does nothing but in float16."""
        scaled = self.dtype == torch.float16
        return torch.amp.GradScaler(self.device.type, enabled=scaled)

    def prepare(self, loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        """The loss, compiled if that pays."""
        return torch.compile(loss) if self.compiled else loss

    def wait(self) -> None:
        """Until the device has done all that it was told. Clocks need it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@contextmanager
def memory_advice(config: TrainingConfig) -> Iterator[None]:
    """
    ## When memory is full

    PyTorch tells how many bytes it did not get. What is wanted is what to lower: a
    `RunError` says it. Other errors pass.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        raise RunError(_advice(config)) from error


def is_memory(error: BaseException) -> bool:
    """
    Whether `error` means that memory is full. The allocator of the processor has no
    error class of its own, nor have libraries that ask for memory by themselves.
    """
    kinds = (torch.OutOfMemoryError, MemoryError)
    said = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
    return isinstance(error, kinds) or any(text in str(error) for text in said)


def _advice(config: TrainingConfig) -> str:
    pieces = config.accumulate
    while pieces < config.batch_size and (
        pieces == config.accumulate or config.batch_size % pieces
    ):
        pieces += 1
    ways = [f"lower `seq_len` ({config.seq_len})"]
    if pieces > config.accumulate:
        ways[:0] = [
            f"read each batch in more pieces, which changes nothing else: `accumulate` "
            f"{pieces} instead of {config.accumulate}",
            f"lower `batch_size` ({config.batch_size})",
        ]
    if config.precision in ("auto", "float32"):
        ways.append("compute in `precision` bfloat16, if the device has it")
    return (
        "there is not enough memory for an update; "
        f"{'; or '.join(ways)}; or choose a smaller model. What was saved is in order"
    )


def hardware(device: torch.device) -> dict[str, Any]:
    """
    ## What this machine is

    For the records: a time means nothing without it.
    """
    on_gpu = device.type == "cuda"
    limited = hasattr(os, "sched_getaffinity")  # to some of the cores
    return {
        "device": str(device),
        "name": torch.cuda.get_device_name(device) if on_gpu else _processor(),
        "cores": len(os.sched_getaffinity(0)) if limited else os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    # Linux knows its processor by name; elsewhere the architecture has to do.
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
