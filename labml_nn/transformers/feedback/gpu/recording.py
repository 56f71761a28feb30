r"""
---
title: Recorded once, played again
summary: >
  A CUDA graph is a list of kernels with the addresses that they read and write. What
  has to be true of a function that is recorded, and what has to be done around it.
---

A GPU works off what it is told, and to tell it takes the processor some microseconds a
time. Where the same thousand kernels come in the same order on the same tensors again
and again, it can be told once. The driver writes down what would have been launched, a
**graph**, and from then on launches all of it with one call.

What is written down are kernels and *addresses*. From this everything follows:

* What goes in has to be put where it was when the function was recorded. What comes out
  is found where it was then, and the next replay writes over it.
* Every number that Python has looked at is a constant of the graph. So a recorded
  function must not ask the device for one, and must not draw random numbers with a seed
  of Python's.
* The memory that was used on the way belongs to the graph. Here all graphs of a device
  share it, in a **pool**: each needs it only while it runs, and two never run at the
  same time.

Nothing of this is about the feedback transformer. And little of it is about CUDA. So
the few lines that are stand behind a `Recording`, and tests put another in its place,
which calls the function again, and writes the results where the first ones were. With
it all that can go wrong with places goes wrong on a processor too.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import Tensor

Function = Callable[[], tuple[Tensor, ...]]


class Recording(Protocol):
    r"""
    ## A function that was recorded

    * `results` are what it returned: always the same tensors, with other numbers in
      them after each replay
    """

    results: tuple[Tensor, ...]

    def replay(self) -> None:
        """Do it again, with what lies in its places now."""


Record = Callable[[Function, torch.device], Recording]


_POOLS: dict[torch.device, Any] = {}
_ALIVE: WeakSet["Graph"] = WeakSet()


# The library of products has a piece of memory for each stream, whose address becomes a
# part of the graph. When a graph goes, so may that of its stream. So no two graphs are
# recorded on one.
def _free_stream(device: torch.device) -> Any:
    taken = {graph.stream.cuda_stream for graph in _ALIVE}
    for _ in range(64):  # PyTorch has 32, and hands them out in turn
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        if stream.cuda_stream not in taken:
            return stream
    raise RuntimeError("there is a graph on every stream")


class Graph:
    r"""
    ## On a GPU

    Before anything can be recorded, it has to have run: libraries set themselves up at
    the first call, and that must not become a part of the graph. Recording is done on
    another stream, as CUDA wants it; only this thread is watched meanwhile, and others
    may go on.

    The function is *not* done while it is recorded. Its results are there after the
    first replay.
    """

    def __init__(self, function: Function, device: torch.device) -> None:
        """Record the function. Raises `RuntimeError` if it cannot be."""
        pool = _POOLS.setdefault(device, torch.cuda.graph_pool_handle())
        here, aside = torch.cuda.current_stream(device), _free_stream(device)
        aside.wait_stream(here)
        self.graph, self.stream = torch.cuda.CUDAGraph(), aside
        _ALIVE.add(self)
        told = {"pool": pool, "stream": aside, "capture_error_mode": "thread_local"}
        # Where recording fails, PyTorch does not come back from its stream; we do.
        with torch.cuda.stream(aside):
            function()
            with torch.cuda.graph(self.graph, **told):
                self.results = function()
        here.wait_stream(aside)

    def replay(self) -> None:
        """One launch."""
        self.graph.replay()


def recorder(device: torch.device) -> Record | None:
    r"""
    ## Who records

    For devices that PyTorch calls `cuda`; that includes AMD's.
    """
    return Graph if device.type == "cuda" else None


def is_recording(device: torch.device) -> bool:
    r"""
    Whether somebody records what this thread launches. A recording in a recording is
    not possible.
    """
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


# ## Taking turns
#
# A graph and its places can be used by one at a time: by one thread, and, since a
# thread goes on before the device is done, by one stream. The next one waits for the
# last one's end. On one stream that is no waiting at all.
_LOCK = threading.Lock()
_ENDS: dict[torch.device, torch.cuda.Event] = {}


@contextmanager
def turn(device: torch.device) -> Iterator[None]:
    r"""
    * `device` is where graphs are played

    Between two turns, nobody knows what lies in the places.
    """
    with _LOCK:
        if device.type != "cuda":
            yield
            return
        with torch.cuda.device(device):
            stream = torch.cuda.current_stream(device)
            if device in _ENDS:
                stream.wait_event(_ENDS[device])
            try:
                yield
            finally:
                _ENDS[device] = stream.record_event()


# ## Exercises
#
# **1.** A function that asks for a number records without complaint on a processor. Why
# would a graph of it be wrong, even if the device could be asked?
#
# <details><summary>Answer</summary>
#
# Python decides by the number what comes next, and the decision is not in the graph,
# only what came of it. Replayed, it does what was right for other numbers.
#
# ```python
# import torch
#
# place = torch.tensor([3.0])
#
# def halve_large():
#     return place / 2 if place.item() > 1 else place
#
# class Replayed:
#     """What a graph does: the operations, without the question."""
#     def __call__(self):
#         return place / 2
#
# graph = Replayed()
# assert graph() == halve_large()
# place.fill_(0.5)
# assert graph() != halve_large()
#
# def halve_any():  # what may be recorded: both, and a choice among the results
#     return torch.where(place > 1, place / 2, place)
#
# assert halve_any() == halve_large()
# ```
#
# </details>
