"""Fair timings, peak memory, and the record of both.

A machine is never quite idle, and its clock rate changes with its temperature. Timing one program
after the other measures that as well. So candidates take turns: every round runs each of them once,
and whatever disturbs a round disturbs all. Reported are the median time over the rounds, and the
median of the ratios *within* a round, which is steadier than a ratio of medians.
"""

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler prints otherwise

import torch
from torch import Tensor
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import (
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    RecordScope,
    _ExperimentalConfig,
)

Run = Callable[[], object]
Rows = list[dict[str, Any]]
#: A benchmark's tables: a name, and rows.
Tables = Iterator[tuple[str, Rows]]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs_src" / "results" / "performance"
SOURCES = ("labml_nn", "pylit", "benchmarks")
#: No new round begins after so many seconds, once there are a few.
LONGEST, FEW = 40.0, 3


def compare(runs: Mapping[str, Run], *, rounds: int = 7, **about: Any) -> Rows:
    """Time all runs in turns; ratios are speed-ups over the first of them.

    Returns a row for each: `form`, milliseconds (`ms` median, `low` and `high` quartile),
    `cpu_ms` over all threads, `ratio`, `rounds`, and what is given as `about`.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    begun = time.perf_counter()
    with _garbage_collector_paused():
        for number in range(rounds):
            if number >= FEW and time.perf_counter() - begun > LONGEST:
                break
            gc.collect()
            for name, run in runs.items():
                wall, cpu = time.perf_counter(), time.process_time()
                run()
                ended = time.perf_counter(), time.process_time()
                taken[name].append((1000 * (ended[0] - wall), 1000 * (ended[1] - cpu)))
    first = next(iter(taken.values()))
    rows = []
    for name, times in taken.items():
        walls = sorted(wall for wall, _ in times)
        low, middle, high = (
            statistics.quantiles(walls, n=4, method="inclusive") if len(walls) > 1 else walls * 3
        )
        ratios = [one[0] / own[0] for one, own in zip(first, times, strict=True)]
        measured = {"ms": middle, "low": low, "high": high}
        measured["cpu_ms"] = statistics.median(cpu for _, cpu in times)
        measured["ratio"] = statistics.median(ratios)
        rows.append({**about, "form": name, **measured, "rounds": len(times)})
    return rows


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def check_equal(results: Mapping[str, Sequence[Tensor]], tolerance: float = 1e-3) -> None:
    """Stop unless all candidates computed the same, by the norm of the difference."""
    first, *others = results
    for name in others:
        for own, expected in zip(results[name], results[first], strict=True):
            apart = ((own - expected).norm() / expected.norm().clamp_min(1e-12)).item()
            if not apart <= tolerance:
                raise SystemExit(f"{name} and {first} differ by {apart:.1e}; nothing was timed")


def peak_memory(run: Run) -> float:
    """The most MiB that tensors take at any moment of a run, beyond what was there before.

    PyTorch's profiler reports each block that its allocator hands out or takes back. Unlike the
    size of the process, the sum does not depend on what ran before.
    """
    run()
    gc.collect()
    # `torch.profiler.profile` would also record every operation, and takes minutes to sort those
    # of a loop over tokens; here no scope of operations is recorded, only memory.
    config = ProfilerConfig(
        ProfilerState.KINETO, False, True, False, False, False, _ExperimentalConfig()
    )
    activities = {ProfilerActivity.CPU}
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities, {RecordScope.USER_SCOPE})  # type: ignore[call-arg]
    try:
        run()
    finally:
        results = _disable_profiler()
    changes = [
        (event.start_ns(), event.nbytes())  # type: ignore[attr-defined]
        for event in results.events()
        if event.name() == "[memory]"
    ]
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most / 2**20


# The record.


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {
        "processor": name,
        "cores": os.cpu_count() or 1,
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


@cache
def matmul_gflops(size: int = 2048, rounds: int = 8) -> float:
    """Billions of float32 operations per second of a large matrix product, the best of some.

    About the most that a CPU reaches in practice: $2 n^3$ operations on $3 n^2$ numbers.
    """
    a, b = torch.randn(2, size, size)
    out, best = torch.empty(size, size), float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def record(name: str, table: str, rows: Rows, threads: int, folder: Path = RESULTS) -> Path:
    """Write a table to ``<name>.json``; it replaces an earlier one of the same name and threads."""
    path = folder / f"{name}.json"
    made = {
        "table": table,
        "threads": threads,
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "rows": [
            {
                key: float(f"{value:.5g}") if isinstance(value, float) else value
                for key, value in row.items()
            }
            for row in rows
        ],
    }
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else []
    kept = [old for old in tables if (old["table"], old["threads"]) != (table, threads)]
    every = sorted([*kept, made], key=lambda one: (one["table"], one["threads"]))
    folder.mkdir(parents=True, exist_ok=True)
    written = {"about": f"python -m benchmarks {name}", "tables": every}
    aside = path.with_name(path.name + ".part")
    aside.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.replace(path)
    return path


def _commit() -> str | None:
    """Of the checkout, with `-dirty` where sources differ; `None` without git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + "-dirty" * bool(git("status", "-s", "--", *SOURCES))
    except (OSError, subprocess.SubprocessError):
        return None


def show(title: str, rows: Rows) -> None:
    """Print a table in Markdown."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    print(f"\n{title}\n\n| {' | '.join(keys)} |\n|{'|'.join('--' for _ in keys)}|")
    for row in rows:
        print(f"| {' | '.join(_cell(row.get(key)) for key in keys)} |", flush=True)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
