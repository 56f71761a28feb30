r"""
---
title: "Distributed data-parallel training"
summary: >
  The same training on two cores, eight GPUs or four machines: each process computes the
  gradient of its share of the batch, and the mean of the gradients updates all copies.
---

In **data parallelism** every process holds the whole model and computes the gradient of
its own columns of the batch. `DistributedDataParallel` averages the gradients, so all
copies make the same update and stay equal, bit for bit.

The loss of a batch is a mean over its $n$ targets. Process $p$ of $P$ has $n_p$ of
them, with the mean $\mathcal{L}_p$, so it multiplies its loss by $P n_p / n$:

$$\nabla \mathcal{L} = \frac{1}{P} \sum_p
    \nabla \Bigl( \frac{P \, n_p}{n} \, \mathcal{L}_p \Bigr)$$

For windows of equal length the factor is one. For replies it is not: without it a
process with few targets would count as much as one with many.

PyTorch's [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html) starts the
processes, on one machine or many, and describes them in environment variables:

```text
torchrun --nproc-per-node 2 -m labml_nn train autoregressive
```
"""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from labml_nn.experiments.checkpoint import RunError
from labml_nn.language_model import LanguageModel

__all__ = ["Loss", "World"]

# Seconds to wait for another process; longer than what one of them does alone.
PATIENCE = 600.0
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
# Gloo's errors are plain `RuntimeError`s, so their words have to do.
CONNECTION = re.compile(r"connection (closed|reset|refused)|broken pipe|time(d )?-?out")


@dataclass(frozen=True)
class World:
    """
    ## Processes

    * `size` is their number, $P$, and `rank` that of this one, from 0 to $P - 1$
    * `local_rank` is its number on this machine, which selects its GPU

    Without arguments, a world of one process, in which all methods cost nothing.

    ```python
    from labml_nn.experiments.distributed import World

    assert World().main and World().share(12) == (0, 12)
    assert World(rank=1, size=3).share(12) == (4, 8)
    ```
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def main(self) -> bool:
        return self.rank == 0

    @classmethod
    def announced(cls) -> "World":
        """
        The world that `torchrun` describes in the environment, without joining it.
        Raises `ValueError` for variables that are missing or invalid.
        """
        size = os.environ.get("WORLD_SIZE", "1")
        if size == "1":
            return cls()
        for name in (*VARIABLES, "MASTER_ADDR", "MASTER_PORT"):
            text = os.environ.get(name, "")
            if not (text.isdecimal() if name in VARIABLES else text):
                raise ValueError(
                    f"the environment announces {size} processes (WORLD_SIZE), but "
                    f"{name} is {text!r}; start with torchrun, or `unset WORLD_SIZE` "
                    "to train with one process"
                )
        return cls(*(int(os.environ[name]) for name in VARIABLES))

    @classmethod
    def join(cls, device: torch.device, *, patience: float = PATIENCE) -> "World":
        """
        ### Join the process group

        With NCCL between GPUs, with Gloo between CPUs; `patience` is the time-out in
        seconds, here and later. Raises `ValueError` for an invalid environment or a
        missing GPU, `RunError` if the others cannot be reached.
        """
        world = cls.announced()
        if world.size == 1 or dist.is_initialized():
            return world
        on_gpu = device.type == "cuda"
        place = world.device(device)
        if on_gpu:
            torch.cuda.set_device(place)
        try:
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                timeout=timedelta(seconds=patience),
                device_id=place if on_gpu else None,
            )
        except dist.DistError as error:
            raise RunError(
                f"process {world.rank} of {world.size} did not reach the others at "
                f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} "
                f"({_first_line(error)}); start all of them with torchrun, and check "
                "whether another run uses that port (--master-port)"
            ) from error
        return world

    def device(self, device: torch.device) -> torch.device:
        """One GPU for each process. Raises `ValueError` if there are too few."""
        if self.size == 1 or device.type != "cuda":
            return device
        count = torch.cuda.device_count()
        if device.index is not None or self.local_rank >= count:
            raise ValueError(
                f"each process needs a GPU of its own, this one number "
                f"{self.local_rank} of {count}; use the device 'cuda', and start at "
                f"most {count} processes (--nproc-per-node {count})"
            )
        return torch.device("cuda", self.local_rank)

    def share(self, batch_size: int, accumulate: int = 1) -> tuple[int, int]:
        """
        ### Columns of this process

        Returns the first column and the one after the last. Every process draws the
        whole batch, which is cheap, and takes its columns, so no data is sent and all
        know the number of targets. Raises `ValueError` if the shares are unequal.
        """
        parts = self.size * accumulate
        if batch_size % parts:
            raise ValueError(
                f"`batch_size` ({batch_size}) must be divisible by {parts}, the number "
                f"of processes ({self.size}) times `accumulate` ({accumulate}); try "
                f"{-(-batch_size // parts) * parts}"
            )
        mine = batch_size // self.size
        return self.rank * mine, (self.rank + 1) * mine

    def wrap(self, model: LanguageModel[Any]) -> nn.Module:
        """
        ### The loss, with gradients averaged over processes

        All processes start with the parameters of process 0. Gradients are exchanged
        during the backward pass, while those of lower layers are still computed.
        """
        loss = Loss(model)
        return loss if self.size == 1 else DistributedDataParallel(loss)

    def no_sync(self, wrapped: nn.Module) -> AbstractContextManager[None]:
        """Accumulate the gradients of a micro-batch without exchanging them."""
        if isinstance(wrapped, DistributedDataParallel):
            return wrapped.no_sync()
        return nullcontext()

    def sum(self, *numbers: float) -> tuple[float, ...]:
        """
        ### All-reduce

        Sums over all processes, the same for each. Decisions are made in this way too:
        all stop if the sum of the wishes to stop is above zero.
        """
        if self.size == 1:
            return numbers
        on_gpu = dist.get_backend() == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
        table = torch.tensor(numbers, dtype=torch.float64, device=device)
        with self.together():
            dist.all_reduce(table)
        return tuple(table.tolist())

    def barrier(self) -> None:
        self.sum(0.0)

    def leave(self) -> None:
        """
        Leave the process group, at the end of a program. The wrapped model's threads
        must end before the interpreter does, so reference cycles are collected here.
        """
        if self.size > 1 and dist.is_initialized():
            self.barrier()
            gc.collect()
            dist.destroy_process_group()

    @contextmanager
    def together(self) -> Iterator[None]:
        """A lost connection to another process becomes a `RunError`."""
        try:
            yield
        except RuntimeError as error:
            lost = isinstance(error, dist.DistError) or CONNECTION.search(
                str(error).lower()
            )
            if self.size == 1 or not lost:
                raise
            raise RunError(
                f"process {self.rank} of {self.size} lost the others: one of them has "
                f"ended, and its message says why ({_first_line(error)}); the last "
                "checkpoint is intact, continue from it with --resume"
            ) from error


class Loss(nn.Module):
    """
    ## The loss as a module

    `DistributedDataParallel` and `torch.compile` wrap the `forward` of a module, and
    what training calls is `loss`.
    """

    def __init__(self, model: LanguageModel[Any]) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int[Tensor, "S B"], targets: Int[Tensor, "T B"]
    ) -> Float[Tensor, ""]:
        return self.model.loss(tokens, targets)


def _first_line(error: Exception) -> str:
    # Gloo's messages begin with a place in its source and end in advice to authors.
    said = re.sub(r"^(\[\S+:\d+\] )+", "", str(error).strip())
    return said.split("\n")[0].split(". ")[0].rstrip(".")
