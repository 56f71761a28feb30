"""Where a benchmark runs: the processor, or a GPU, which has to be waited for.

A call to a GPU returns when the work is asked for, not when it is done. So what is clocked there
ends with waiting, see `Place.waiting`. What is counted besides, launches and tokens per second, is
a column of the tables of a GPU only.
"""

import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch._C._autograd import DeviceType

from benchmarks.contest import Run
from benchmarks.machine import Machine, machine, matmul_gflops
from benchmarks.memory import peak

Kind = TypeVar("Kind")
#: Calls of CUDA that start something on the device. A graph is one, whatever is in it.
STARTS = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset")


class Event(Protocol):
    """Something that the profiler saw."""

    name: str
    device_type: DeviceType


@dataclass(frozen=True)
class Place:
    """A device; how many threads feed it; and whether its float32 products have all their digits.

    With TF32 a GPU multiplies numbers of which it keeps the first ten bits, many times as fast.
    """

    device: torch.device
    threads: int
    tf32: bool = False

    @property
    def suffix(self) -> str:
        """Of the name of the file that keeps what was measured here."""
        return f"-{self.device.type}{'-tf32' * self.tf32}" if self.is_gpu else ""

    @property
    def is_gpu(self) -> bool:
        """Whether somebody has to wait for it."""
        return self.device.type != "cpu"

    def waiting(self, run: Run) -> Run:
        """The run, and then until it is done. It begins when all before it is."""
        if not self.is_gpu:
            return run

        def both() -> None:
            run()
            torch.cuda.synchronize(self.device)

        return both

    def all_waiting(self, runs: Mapping[str, Run]) -> dict[str, Run]:
        """Each of them. On a GPU all have run once: the second time, graphs are recorded."""
        waiting = {name: self.waiting(run) for name, run in runs.items()}
        if self.is_gpu:
            for run in waiting.values():
                run()
        return waiting

    def check(self, function: Callable[[], object]) -> None:
        """Call what finds forms equal. Products have all their digits meanwhile."""
        if self.tf32:
            _with_tf32(False, function)
        else:
            function()

    def gflops(self) -> float:
        """The rate of a large float32 product, in the best library, with as many digits."""
        if not self.is_gpu:
            return matmul_gflops(self.threads)
        return matmul_rate(self.device, torch.float32)

    def peak(self, run: Run) -> float:
        """The most MiB that tensors take at any moment, beyond what was there before.

        On a GPU PyTorch counts that itself. What a captured graph holds for its replays counts
        where it is captured, in the first run.
        """
        if not self.is_gpu:
            return peak(run)
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        self.waiting(run)()
        return (torch.cuda.max_memory_allocated(self.device) - before) / 2**20

    def counted(self, run: Run, ms: float, tokens: int) -> dict[str, float]:
        """For the row of a run: tokens per second, what it launches, and what runs then."""
        if not self.is_gpu:
            return {}
        return {"tokens_s": 1000 * tokens / ms, **launches(seen(self.waiting(run)))}

    def machine(self) -> Machine:
        """What a table says of it. A GPU is named where the processor is."""
        told = machine()
        if self.is_gpu:
            about = torch.cuda.get_device_properties(self.device)
            told["processor"] = f"{about.name}, {about.total_memory / 2**30:.0f} GiB"
            told["cores"] = about.multi_processor_count
            told["vectors"] = f"CUDA {torch.version.cuda}"
        return told

    def rates(self) -> list[dict[str, Any]]:
        """A table: the device's rates of large products, by type, of half precision too."""
        kinds = {"float32": (torch.float32, False), "tf32": (torch.float32, True)}
        rates = {
            name: _with_tf32(tf32, functools.partial(matmul_rate, self.device, dtype))
            for name, (dtype, tf32) in kinds.items()
        }
        rates["bfloat16"] = matmul_rate(self.device, torch.bfloat16)
        return [{"type": name, "gflops": rate} for name, rate in rates.items()]


def place_of(device: str, *, threads: int = 1, tf32: bool = False) -> Place:
    """The place of this name. Ends the program, with a reason, where there is none."""
    if device != "cpu":
        if not torch.cuda.is_available():
            built = "is built for CUDA, and finds no GPU" if torch.version.cuda else "has no CUDA"
            raise SystemExit(
                f"--device {device}: PyTorch {torch.__version__} {built}; leave the flag out for "
                "the processor, or look at https://pytorch.org/get-started"
            )
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
    elif tf32:
        raise SystemExit("--tf32 is for products on a GPU; say --device cuda too")
    return Place(torch.device(device), threads, tf32)


CPU = Place(torch.device("cpu"), os.cpu_count() or 1)


def matmul_rate(
    device: torch.device, dtype: torch.dtype, size: int = 8192, rounds: int = 10
) -> float:
    """Billions of operations per second in a large product on a GPU, the best of some."""
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(rounds + 1):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        torch.mm(a, b)
        torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def _with_tf32(tf32: bool, function: Callable[[], Kind]) -> Kind:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        return function()
    finally:
        torch.set_float32_matmul_precision(before)


def seen(run: Run) -> Iterable[Any]:
    """What the profiler sees of a GPU in a run. Large: some hundred thousand events."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
    return profile.events() or ()


def launches(events: Iterable[Event]) -> dict[str, float]:
    """How often the program started something, and how many kernels ran.

    Without graphs that is about the same number. With them a start runs thousands.
    """
    events = list(events)
    on_device = [event for event in events if event.device_type == DeviceType.CUDA]
    kernels = [e for e in on_device if not e.name.startswith(("Memcpy", "Memset"))]
    starts = [e for e in events if e.device_type == DeviceType.CPU and e.name.startswith(STARTS)]
    return {"launches": float(len(starts)), "kernels": float(len(kernels))}
