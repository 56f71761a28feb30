"""Inside a child process: how code of a package is imported and run, each run within limits.

The parts of the generator that run code of a package begin with `ordered`, run everything under
`limits`, and say with `told` what went wrong.
"""

import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

#: A run that waits instead of working ends after so many times its limit. To wait for a processor
#: that others use is no such waiting.
_PATIENCE = 12
#: Characters of the words of an error.
_MESSAGE = 300
_GENERATOR = str(Path(__file__).resolve().parents[1])

Order = dict[str, Any]


class TooSlow(BaseException):
    """The time of a run is over. Not an `Exception`, which the code that runs might catch."""


class TooLong(TooSlow):
    """The time was spent waiting, not working."""


def ordered() -> tuple[Order, Callable[[dict[str, Any]], None]]:
    """The order, and how to answer. From here on packages are found in the order's roots."""
    order = json.loads(sys.stdin.buffer.read())
    # The answers go where standard output went; what a run prints goes nowhere.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    for name in order["heavy"]:
        with suppress(ImportError):
            importlib.import_module(name)
    # What is read from here on is read from its source: compiled files may be a second old.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.devnull
    sys.path[:0] = order["roots"]

    process = os.getpid()

    def answer(data: dict[str, Any]) -> None:
        # What a run has forked off comes by here as well.
        if os.getpid() != process:
            leave()
        json.dump(data, out)
        out.write("\n")
        out.flush()

    return order, answer


def leave() -> NoReturn:
    """End at once: what runs have left behind, such as threads, keeps nobody waiting."""
    os._exit(0)


def load(path: Path, prefix: str) -> ModuleType:
    """A file that belongs to no package, as a module."""
    name = prefix + path.stem.replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same_every_time() -> None:
    """Make what is random, or depends on how many threads there are, the same in every run."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(1)


@contextmanager
def limits(seconds: float, size: int) -> Iterator[None]:
    """Processor time and memory for what runs inside. Time of the other kind has an end too."""
    timers = (signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM)
    patience = seconds * _PATIENCE
    end = time.monotonic() - _queued() + patience

    def over(number: int, _: FrameType | None) -> None:
        if number == signal.SIGPROF:
            raise TooSlow
        if time.monotonic() - _queued() >= end:
            raise TooLong

    for (timer, number), limit in zip(timers, (seconds, patience), strict=True):
        signal.signal(number, over)
        # Once more and again: an exception in a destructor is lost.
        signal.setitimer(timer, limit, 0.1)
    used = _data()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if used:
        resource.setrlimit(resource.RLIMIT_DATA, (used + size, hard))
    try:
        yield
        # Where the system does not hold a process to its memory, it is asked afterwards.
        unit = 1 if sys.platform == "darwin" else 1024
        if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit > size:
            raise MemoryError
    finally:
        for timer, number in timers:
            signal.setitimer(timer, 0)
            signal.signal(number, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _queued() -> float:
    """Seconds that this thread was ready to work and had no processor; 0 where nobody knows."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _data() -> int:
    """Bytes of private memory that this process has asked for; 0 where nobody knows."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmData:")), "")
    return int(line.split()[1]) * 1024 if line else 0


def told(error: BaseException, file: Path, order: Order) -> dict[str, Any]:
    """What went wrong, where in the file that declares the run, and where below it."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [f.lineno or 0 for f in frames if f.filename == str(file)]
    roots = tuple(order["roots"])
    inner = [f for f in frames if f.filename.startswith(roots) and f.filename != str(file)]
    # The generator may lie in the same folder as what it renders.
    inner = [f for f in inner if not f.filename.startswith(_GENERATOR)]
    line = here[-1] if here else 0
    if isinstance(error, SyntaxError) and error.filename == str(file):
        line = error.lineno or 0
    message = f"{type(error).__name__}: {_words(error)}"
    return {
        "kind": _kind(error),
        "message": message.splitlines()[0].removesuffix(": ")[:_MESSAGE],
        "line": line,
        "file": inner[-1].filename if inner else "",
        "file_line": (inner[-1].lineno or 0) if inner else 0,
        "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
    }


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Code of the package makes the words of its errors.
        return ""


def _kind(error: BaseException) -> str:
    if isinstance(error, TooSlow):
        return "waited" if isinstance(error, TooLong) else "slow"
    words = _words(error)
    full = "can't allocate memory" in words or "not enough memory" in words
    return "hungry" if isinstance(error, MemoryError) or full else "failed"
