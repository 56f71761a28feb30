r"""
---
title: Many processes, one model
summary: >
  The same training on two cores, eight GPUs or four machines: who reads which texts,
  whose gradients count how much, and what happens when one of them dies.
---

One processor takes an hour for a run. Do two take half an hour? They do if they share
the work of each step and then agree on what to learn from it. That is **data
parallelism**: every process has the whole model, and reads its own part of the batch.

```text
             batch of 8 texts
        ┌───────────┴───────────┐
   texts 0–3                texts 4–7
   process 0                process 1
   forward, backward        forward, backward
        └── mean of gradients ──┘
   the same update          the same update
```

Nothing else ever has to be exchanged. Both begin with the same parameters and make the
same updates, so that they stay the same to the last bit.

**What has to be averaged?** The loss of a batch is a mean over its $n$ targets.
Process $p$ has $n_p$ of them, and the mean over those is $L_p$. Then

$$L = \frac{1}{n} \sum_p n_p L_p
\qquad
\nabla L = \frac{1}{P} \sum_p \nabla \Bigl( \frac{P \, n_p}{n} \, L_p \Bigr)$$

On the right is the form in which `DistributedDataParallel` takes it: it averages over
the $P$ processes, whatever they computed. So each multiplies its loss by $P n_p / n$.
With texts of one length all $n_p$ are equal, the factor is one, and it is easily
forgotten. With replies, short and long, a process with few words would otherwise weigh
as much as one with many, and two processes would learn something else than one.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $P$ | `size` | how many processes there are |
| $p$ | `rank` | which one this is, from 0 to $P - 1$ |
| | `local_rank` | which one it is on its machine, and so which GPU it takes |

Somebody has to start the processes and tell each of them its number. PyTorch's
[torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html) does, for one machine
or many:

```text
torchrun --nproc-per-node 2 -m labml_nn train autoregressive
```
"""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.torchrun import first_line, is_silence, read_announcement
from labml_nn.language_model import LanguageModel

# How long a process waits for the others before it gives up. Longer than the slowest
# thing that one of them does alone, such as writing a sample with a large model.
PATIENCE = 600.0


@dataclass(frozen=True)
class World:
    """
    ## Who else is there

    Without arguments this is a world of one process. All methods work there too and
    cost nothing, so that a trainer is written once.

    * `rank`, `size` and `local_rank` are those of the table above

    ```python
    from labml_nn.experiments.distributed import World

    alone = World()
    assert alone.main and alone.share(12) == (0, 12)
    second = World(rank=1, size=3)
    assert not second.main and second.share(12) == (4, 8)
    ```
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def main(self) -> bool:
        """Whether this process is the one that writes files and talks to you."""
        return self.rank == 0

    @classmethod
    def join(cls, device: torch.device, *, patience: float = PATIENCE) -> "World":
        """
        ### Meet the others

        * `device` is where the model will live; gradients travel by NCCL between GPUs,
          and by Gloo between processors
        * `patience` is how many seconds to wait, here and later, for a process from
          which nothing is heard

        Returns the world that `torchrun` describes in the environment, and a world of
        one if it says nothing. Who has joined before gets the same again. Raises
        `ValueError` for an environment that is incomplete or for a GPU that is not
        there, `RunError` if the others cannot be reached.
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
                f"process {world.rank} of {world.size} did not meet the others at "
                f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} "
                f"({first_line(error)}); start all of them with torchrun, and look "
                "whether another run uses that port (--master-port)"
            ) from error
        return world

    @classmethod
    def announced(cls, environment: Mapping[str, str] | None = None) -> "World":
        """
        ### What torchrun said

        * `environment` holds variables by name; `None` means those of the process

        Returns the world without having joined it: enough to know who may print.
        """
        given = os.environ if environment is None else environment
        return cls(*read_announcement(given))

    def device(self, device: torch.device) -> torch.device:
        """
        ### A GPU for each process

        With `cuda`, a process takes the GPU of its own number on its machine. Raises
        `ValueError` if the machine has fewer, or if all were told to take the same.
        """
        if self.size == 1 or device.type != "cuda":
            return device
        if device.index is not None:
            raise ValueError(
                f"{self.size} processes cannot share the device {str(device)!r}; say "
                "'cuda', and each takes a GPU of its own"
            )
        if self.local_rank >= (count := torch.cuda.device_count()):
            raise ValueError(
                f"process {self.rank} needs a GPU of its own, number "
                f"{self.local_rank}, and this machine has {count}; start at most "
                f"{count} processes (--nproc-per-node {count})"
            )
        return torch.device("cuda", self.local_rank)

    def share(self, batch_size: int, accumulate: int = 1) -> tuple[int, int]:
        """
        ### Which texts are mine

        * `batch_size` is the number of texts in the whole batch
        * `accumulate` is the number of pieces in which a process reads its share

        Returns the first column of this process and the one after its last. Every
        process makes the whole batch, which costs next to nothing, and reads its
        columns of it: so nobody has to send texts around, and everybody knows how many
        targets the others have. Raises `ValueError` if the shares would be unequal.
        """
        parts = self.size * accumulate
        if batch_size % parts:
            below = batch_size - batch_size % parts
            sizes = f"{below} or {below + parts}" if below else f"{parts}"
            raise ValueError(
                f"`batch_size` ({batch_size}) must be divisible by {parts}, for "
                f"{_count(self.size, 'process', 'processes')} and "
                f"{_count(accumulate, 'piece', 'pieces')} of `accumulate`; try {sizes}"
            )
        mine = batch_size // self.size
        return self.rank * mine, (self.rank + 1) * mine

    def wrap(self, model: LanguageModel[Any]) -> nn.Module:
        """
        ### A model that learns with the others

        * `model` is on its device already; all processes take the parameters that
          process 0 has

        Returns a module that is called with tokens and targets and returns the loss.
        Its `backward` exchanges gradients while it still computes those of lower
        layers, which hides most of the time that sending takes.

        Every parameter must take part in every loss, or the others would wait for its
        gradient. (`find_unused_parameters` would search the graph of each step for
        those that don't. All models here use all they have, so nobody needs to search.)
        Buffers are constants in this library and are not sent around.
        """
        loss = Loss(model)
        if self.size == 1:
            return loss
        return DistributedDataParallel(loss, **WITHOUT_BUFFERS)

    @contextmanager
    def alone(self, wrapped: nn.Module) -> Iterator[None]:
        """
        ### Not yet

        Gradients of a piece of a batch stay at home, and are sent with those of the
        last piece: `with world.alone(wrapped): loss.backward()`, for all but the last.
        The forward pass belongs inside, too.
        """
        several = isinstance(wrapped, DistributedDataParallel)
        wait = cast(DistributedDataParallel, wrapped).no_sync() if several else None
        with wait or nullcontext():
            yield

    def sum(self, *numbers: float) -> tuple[float, ...]:
        """
        ### Add up

        * `numbers` are added to those of all other processes, each to its own kind:
          losses to losses, counts to counts

        Returns the sums, the same on all processes. A decision goes the same way: if
        any process wants to stop, the sum of wishes is above zero for all of them.
        """
        if self.size == 1:
            return numbers
        table = torch.tensor(numbers, dtype=torch.float64, device=_meeting_place())
        with self.together():
            dist.all_reduce(table)
        return tuple(table.tolist())

    def barrier(self) -> None:
        """
        ### Wait until all are here

        A sum of nothing cannot be known before everyone has asked for it.
        """
        self.sum(0.0)

    def leave(self) -> None:
        """
        ### Go home

        At the end of a program, together with the others. A world of one has nothing to
        leave.

        The threads that carry gradients end with the last object that knows of them. A
        wrapped model does, and as its hooks point back at it, it goes only when Python
        next looks for such circles, which may be while the program is being torn down:
        too late to end a thread in order. So we have it look now.
        """
        if self.size > 1 and dist.is_initialized():
            self.barrier()
            gc.collect()
            dist.destroy_process_group()

    @contextmanager
    def together(self) -> Iterator[None]:
        """
        ### When one of them dies

        A process that is killed takes its connections with it, and the others notice
        as soon as they want its gradients. PyTorch reports what the network said. What
        happened is that the run is over, for all of them: inside of this, it is a
        `RunError` that says so. Other errors pass.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not is_silence(error):
                raise
            raise RunError(
                f"process {self.rank} of {self.size} lost the others: one of them has "
                f"ended, and its message says why ({first_line(error)}); the last "
                "checkpoint is in order, go on from it with --resume"
            ) from error


class Loss(nn.Module):
    """
    ## The loss as a module

    `DistributedDataParallel` looks after calls of a module, and so does
    `torch.compile`. What training calls is not a model's `forward` but its `loss`, so
    here is a module whose `forward` is that.
    """

    def __init__(self, model: LanguageModel[Any]) -> None:
        """* `model` is any language model of the library"""
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int[Tensor, "S B"], targets: Int[Tensor, "T B"]
    ) -> Float[Tensor, ""]:
        """Nats per target, as [`loss`](../language_model.py) of the model says."""
        return self.model.loss(tokens, targets)


# ## Small pieces
#
# PyTorch gave the switch for buffers another name, and warns of the old one.
_NAMES = signature(DistributedDataParallel).parameters
_SWITCH = "forward_sync_buffers"
WITHOUT_BUFFERS: dict[str, Any] = {
    _SWITCH if _SWITCH in _NAMES else "broadcast_buffers": False
}


# NCCL adds up what is on GPUs, Gloo what is in memory.
def _meeting_place() -> torch.device:
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else CPU


CPU = torch.device("cpu")


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


# ## Exercises
#
# **1.** Two processes reply to one batch. Show without any processes that weighed
# gradients give that of the whole batch, and plain ones don't.
#
# <details><summary>Answer</summary>
#
# A process is a slice of the batch. What `DistributedDataParallel` does to gradients is
# a mean.
#
# ```python
# import torch
# import labml_nn
#
# model = labml_nn.create("encoder_decoder", n_vocab=9, d_model=8, heads=2, n_layers=1)
# model.double().eval()
# said, reply = torch.randint(3, 9, (2, 6, 4))
# reply[2:, :3] = 0  # three short replies, and a long one
#
# def gradient(share, weight=1.0):
#     model.zero_grad()
#     (weight * model.loss(said[:, share], reply[:, share])).backward()
#     return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
#
# def targets(share):
#     return int((reply[:, share] != 0).sum()) + reply[:, share].shape[1]  # and ends
#
# both, shares = slice(0, 4), (slice(0, 2), slice(2, 4))
# weights = [2 * targets(share) / targets(both) for share in shares]
# weighed = sum(map(gradient, shares, weights)) / 2
# assert torch.allclose(weighed, gradient(both))
# assert not torch.allclose(sum(map(gradient, shares)) / 2, gradient(both))
# ```
#
# </details>
#
# **2.** Processes hear of Ctrl-C at different moments. Why may a process not simply
# stop when it does? How do they agree, with what is on this page?
#
# <details><summary>Answer</summary>
#
# It would be missing in the next exchange, and the others would wait for it. So each
# says at every step, or at every few, whether it wants to stop. The sum of wishes is
# the same for all, and they stop at the same step. A world of one asks itself.
#
# ```python
# from labml_nn.experiments.distributed import World
#
# def all_stop(world, wanted):
#     (wishes,) = world.sum(float(wanted))
#     return wishes > 0
#
# assert all_stop(World(), True) and not all_stop(World(), False)
# ```
#
# </details>
