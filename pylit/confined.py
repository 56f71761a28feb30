"""Inside a child process: how code of a package is imported and run, each run within limits.

Traced shapes and figures both call `serve` with what they do of one function. It imports the files
that declare runs, watches what each run reads, and answers a line of JSON for each task: what came
of it, or what went wrong.
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
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

#: A run that waits instead of working ends after so many times its limit. To wait for a processor
#: that others use is no such waiting.
_PATIENCE = 12
#: Characters of the words of an error.
_MESSAGE = 300
_GENERATOR = str(Path(__file__).resolve().parent)

Order = dict[str, Any]
#: A context in which a function may run: within limits, and watched.
Within = Callable[[], AbstractContextManager["Watch"]]


class TooSlow(BaseException):
    """The time of a run is over. Not an `Exception`, which the code that runs might catch."""


class TooLong(TooSlow):
    """The time was spent waiting, not working."""


class Watch:
    """What runs read: sources by running them, other files by opening them, folders by listing."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.files: set[str] = set()
        #: One more file in them may change what a run shows.
        self.folders: set[str] = set()
        #: Sources that were opened as texts. What one run has read may be kept by a module and
        #: reach the next from there, so this set only grows.
        self.texts: set[str] = set()
        self._on = False

    @contextmanager
    def watching(self) -> Iterator["Watch"]:
        """Watch what runs inside."""
        self.sources, self.files, self.folders, self._on = set(), set(), set(), True
        try:
            yield self
        finally:
            self._on = False

    def call(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        if event == "call":
            self.sources.add(frame.f_code.co_filename)

    def event(self, name: str, arguments: tuple[Any, ...]) -> None:
        """For `sys.addaudithook`."""
        if name not in ("open", "os.listdir", "os.scandir"):
            return
        if not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if name != "open":
            if self._on:
                self.folders.add(path)
        elif path.endswith(".py"):
            # The frame above this one is the caller of `open`.
            if not sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                self.texts.add(path)
        # Without a mode it is a file descriptor of `os.open`; read or not, it counts.
        elif self._on and (not isinstance(arguments[1], str) or set(arguments[1]) & set("r+")):
            self.files.add(path)

    def told(self) -> dict[str, list[str]]:
        """For an answer."""
        return {
            "sources": sorted(self.sources),
            "files": sorted(self.files | self.texts),
            "folders": sorted(self.folders),
        }


def serve(run: Callable[[Callable[..., object], dict[str, Any], Within], dict[str, Any]]) -> None:
    """Answer every task of the order on standard input, and end the process.

    Args:
        run: Gets a function, its task, and the context in which to call the function.
    """
    order, answer = _ordered()
    watch = Watch()
    sys.addaudithook(watch.event)

    @contextmanager
    def within() -> Iterator[Watch]:
        same_every_time()
        with limits(order["seconds"], order["bytes"]), watch.watching():
            yield watch

    modules: dict[Path, ModuleType | dict[str, Any]] = {}
    for task in order["tasks"]:
        path = Path(task["file"])
        if path not in modules:
            modules[path] = _load(path, order)
        module = modules[path]
        if isinstance(module, dict):
            answer(module)
            continue
        try:
            answer(run(getattr(module, task["function"]), task, within) | watch.told())
        except BaseException as error:
            answer({"error": told(error, path, order)})
    _leave()


def _ordered() -> tuple[Order, Callable[[dict[str, Any]], None]]:
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
            _leave()
        out.write(f"{json.dumps(data)}\n")
        out.flush()

    return order, answer


def _leave() -> None:
    """End at once: what runs have left behind, such as threads, keeps nobody waiting."""
    os._exit(0)


def _load(path: Path, order: Order) -> ModuleType | dict[str, Any]:
    """A file that belongs to no package, as a module; or an answer that says why there is none."""
    try:
        with limits(order["seconds"], order["bytes"]):
            name = f"runs_{path.stem.replace('.', '_')}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except BaseException as error:
        return {"error": told(error, path, order)}


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
    # The generator may lie in the same folder as what it renders.
    inner = [f for f in frames if f.filename.startswith(tuple(order["roots"]))]
    inner = [f for f in inner if not f.filename.startswith((_GENERATOR, str(file)))]
    line = here[-1] if here else 0
    if isinstance(error, SyntaxError) and error.filename == str(file):
        line = error.lineno or 0
    kind, message = _said(error, order)
    below = inner[-1] if inner and kind == "failed" else None
    return {
        "kind": kind,
        "message": message,
        "line": line,
        "file": below.filename if below else "",
        "file_line": (below.lineno or 0) if below else 0,
        "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
    }


def _said(error: BaseException, order: Order) -> tuple[str, str]:
    """The kind of a failure, and how a sentence about the run goes on."""
    try:
        words = str(error)
    except Exception:  # Code of the package makes the words of its errors.
        words = ""
    if isinstance(error, TooLong):
        return "slow", "waits for what does not come"
    if isinstance(error, TooSlow):
        return "slow", f"took more than {order['seconds']:g} s of processor time"
    full = "can't allocate memory" in words or "not enough memory" in words
    if isinstance(error, MemoryError) or full:
        return "hungry", f"asked for more than {order['bytes'] / 2**30:g} GiB of memory"
    message = f"{type(error).__name__}: {words}".splitlines()[0].removesuffix(": ")
    return "failed", f"failed: {message[:_MESSAGE]}"
