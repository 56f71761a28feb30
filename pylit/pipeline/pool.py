"""Work on many items in other processes, on every core, and here where that is quicker.

What all items need is handed to each process once, when it starts; with `fork` that costs nothing.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Fewer items than this are done before other processes would have started.
FEW = 6


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's collector of circles away: what a build makes it needs until its end.

    The collector would look through all of it again and again, and find next to nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def run(
    make: Callable[[], Callable[[Item], Result]], items: Sequence[Item], jobs: int
) -> Iterator[tuple[int, Result]]:
    """Call ``make()`` once in each process and its result with every item.

    Results come as they are ready, each with the index of its item. `make` and the items cross
    between processes, so they can be pickled. Leaving early, by Ctrl-C too, ends the processes.
    """
    jobs = min(jobs, len(items))
    if jobs <= 1 or len(items) < FEW:
        work = make()
        yield from ((index, work(item)) for index, item in enumerate(items))
        return
    context = multiprocessing.get_context("fork" if _may_fork() else "spawn")
    executor = ProcessPoolExecutor(jobs, context, initializer=_start, initargs=(make,))
    finished = False
    try:
        futures: dict[Future[Result], int] = {
            executor.submit(_call, item): index for index, item in enumerate(items)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
        finished = True
    finally:
        if not finished:
            for child in multiprocessing.active_children():
                child.terminate()
        executor.shutdown(cancel_futures=True)


_work: Callable[[Any], Any] | None = None


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    # Ctrl-C reaches every process of a terminal; the one that started these ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # These processes live for one stage of a build: see `collector_at_rest`.
    gc.disable()
    _work = make()


def _call(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def _may_fork() -> bool:
    """Whether this process has a single thread: a lock held by another would stay held for ever."""
    if sys.platform != "linux":
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return threading.active_count() == 1
