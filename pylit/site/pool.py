"""Work on many items in other processes, on every core, and here where that is quicker.

What all items need is handed to each process once, when it starts; with `fork` that costs nothing.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from multiprocessing import connection
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Fewer items than this are done before other processes would have started.
FEW = 6
#: Items of each process that are on their way: enough that none waits for a long one.
_AHEAD = 16


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def run(work: Callable[[Item], Result], items: Iterable[Item], jobs: int) -> Iterator[Result]:
    """The results of `work` for every item, in order, made in `jobs` processes.

    Items are taken a few at a time, so that neither they nor results pile up. `work` and the items
    cross between processes, so they can be pickled. Leaving early, by Ctrl-C too, ends the
    processes.
    """
    items = iter(items)
    first = list(islice(items, FEW))
    if jobs <= 1 or len(first) < FEW:
        yield from map(work, chain(first, items))
        return
    # In a fork, a lock that another thread held would stay held for ever.
    lone = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if lone else "spawn")
    executor = ProcessPoolExecutor(jobs, context, initializer=_start, initargs=(work,))
    futures: deque[Future[Result]] = deque()
    try:
        for item in chain(first, items):
            # Ctrl-C waits while processes start: what is raised in the hooks of a fork is lost.
            old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                futures.append(executor.submit(_call, item))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, old)
            if len(futures) == _AHEAD * jobs:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


_work: Callable[[Any], Any]


def _start(work: Callable[[Any], Any]) -> None:
    global _work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ctrl-C reaches every process of a terminal; the one that started these ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is there already stays, so it need not be looked through.
    gc.freeze()
    _work = work


def _end_with_parent() -> None:
    """A killed build must leave no processes behind that wait for work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _call(item: Any) -> Any:
    return _work(item)
