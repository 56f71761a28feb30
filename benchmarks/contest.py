"""Who is faster: runs that take turns.

A machine is never quite idle, and its clock rate changes with the heat. Whoever measures first one
program and then the other measures that as well. So the runs take turns: every round runs each of
them once, and whatever disturbs a round meets all. What is reported is the median over the rounds,
and the median of the ratios *within* a round, which is steadier than a ratio of medians.
"""

import gc
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypedDict

Run = Callable[[], object]
#: Where a round takes long, no new one begins after so many seconds, once there are a few.
PATIENCE, FEW = 40.0, 3


class Row(TypedDict):
    """What a run took, in milliseconds, and how many times as fast as the first it is."""

    name: str
    #: By the clock: median, lower and upper quartile.
    ms: float
    low: float
    high: float
    #: Of the processor, over all threads: other programs disturb this less.
    processor_ms: float
    #: The first's time by this one's, median over the rounds.
    ratio: float
    processor_ratio: float
    rounds: int


@dataclass(frozen=True)
class Taken:
    """One run, once."""

    wall: float
    processor: float


def contest(runs: Mapping[str, Run], *, first: str, rounds: int = 7, warm_up: int = 1) -> list[Row]:
    """Let the runs take turns. Ratios are those to the run called `first`.

    There are `rounds` rounds, or fewer if each takes long. Each row says how many it has seen.
    """
    if first not in runs:
        raise ValueError(f"`first` ({first!r}) must be one of the runs: {', '.join(runs)}")
    if rounds < 1:
        raise ValueError(f"`rounds` ({rounds}) must be at least 1")
    taken: dict[str, list[Taken]] = {name: [] for name in runs}
    begun = time.perf_counter()
    with _collector_at_rest():
        for number in range(warm_up + rounds):
            if number >= warm_up + FEW and time.perf_counter() - begun > PATIENCE:
                break
            gc.collect()
            for name, run in runs.items():
                once = clock(run)
                if number >= warm_up:
                    taken[name].append(once)
    return [_row(name, taken[name], taken[first]) for name in runs]


def clock(run: Run) -> Taken:
    """Milliseconds by the clock, and of the processor."""
    wall, processor = time.perf_counter(), _processor()
    run()
    return Taken(1000 * (time.perf_counter() - wall), 1000 * (_processor() - processor))


def _processor() -> float:
    """Seconds that this process and those that it has waited for have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """The collector would come when it likes, and one run would pay for all.

    What is there already is set aside, so that collecting between rounds is quick.
    """
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def _row(name: str, own: list[Taken], first: list[Taken]) -> Row:
    walls = sorted(once.wall for once in own)
    low, middle, high = (
        statistics.quantiles(walls, n=4, method="inclusive") if len(walls) > 1 else walls * 3
    )
    pairs = list(zip(first, own, strict=True))
    return Row(
        name=name,
        ms=middle,
        low=low,
        high=high,
        processor_ms=statistics.median(once.processor for once in own),
        ratio=statistics.median(a.wall / b.wall for a, b in pairs),
        # A very short run may take less than the processor's clock can tell.
        processor_ratio=statistics.median(a.processor / max(b.processor, 1e-6) for a, b in pairs),
        rounds=len(own),
    )
