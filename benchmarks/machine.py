"""What the numbers were measured on, and how fast that machine can be at all."""

import functools
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import torch


class Machine(TypedDict):
    """As a table of results names it."""

    processor: str
    cores: int
    #: What PyTorch uses of the processor: ``AVX2``, ``AVX512``, …
    vectors: str
    memory_gib: float
    system: str
    python: str
    torch: str


def machine() -> Machine:
    """This one."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        vectors=torch.backends.cpu.get_cpu_capability(),
        memory_gib=round(_memory() / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=str(torch.__version__),
    )


@functools.cache
def matmul_gflops(threads: int, size: int = 2048, rounds: int = 5) -> float:
    """Billions of float32 operations per second in a large matrix product, the best of some.

    It is the most that this machine does in practice: a product of two n x n matrices is $2 n^3$
    operations on $3 n^2$ numbers, so memory is no limit, and its kernel is the work of years. Other
    work is measured against this rate, not against what the maker of the processor promises.

    PyTorch has two libraries for it, and which is faster depends on the processor: that of
    `torch.mm` may make half of one that its maker does not sell. The better one counts.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    a, b = torch.randn(2, size, size)
    out = torch.empty(size, size)
    products: list[Callable[[], object]] = [lambda: torch.mm(a, b, out=out)]
    other: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if other is not None:
        products.append(lambda: other(a, b, None, "none", [], ""))
    best = float("inf")
    try:
        for product in products * (rounds + 1):
            start = time.perf_counter()
            product()
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    return 2 * size**3 / best / 1e9


def _processor() -> str:
    """Its name: Linux keeps it in a file, others tell Python."""
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    """Bytes, or 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
