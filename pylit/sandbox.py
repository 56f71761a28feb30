"""Inside a child process: how code of a package is imported and run, each run within limits.

Traced shapes and figures both call `serve` with what they do of one function. The process imports
libraries that take long, and waits for orders. Each order is worked off by a process that it forks,
so that packages are imported anew; and each task by one more, which begins with what was imported
and nothing else: no run knows what another has done, and one that crashes harms no other.
"""

import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
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
Run = Callable[[Callable[..., object], dict[str, Any], Within], dict[str, Any]]


class TooSlow(BaseException):
    """The time of a run is over. Not an `Exception`, which the code that runs might catch."""


class TooLong(TooSlow):
    """The time was spent waiting, not working."""


class Watch:
    """What a run reads: code by running it, other files by opening them, folders by listing."""

    def __init__(self) -> None:
        #: Code that ran, by its identity: to compare two takes longer than to call them.
        self.codes: dict[int, CodeType] = {}
        #: That which ran when packages were imported, for this run or for an earlier one.
        self.imported: dict[int, CodeType] = {}
        self.files: set[str] = set()
        #: One more file in them may change what a run shows.
        self.folders: set[str] = set()
        self._on = False

    @contextmanager
    def watching(self) -> Iterator["Watch"]:
        """Watch which files and folders are read inside. Of code `call` is told."""
        self._on = True
        try:
            yield self
        finally:
            self._on = False

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Watch which code runs inside."""
        before = sys.getprofile()
        sys.setprofile(self._call)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _call(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.codes[id(frame.f_code)] = frame.f_code

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
            # The frame above this one is the caller of `open`. A source that was read as a text,
            # at whatever time, may be kept by a module and reach a run from there.
            if not sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                self.files.add(path)
        # Without a mode it is a file descriptor of `os.open`; read or not, it counts.
        elif self._on and (not isinstance(arguments[1], str) or set(arguments[1]) & set("r+")):
            self.files.add(path)

    def told(self, roots: tuple[str, ...]) -> dict[str, Any]:
        """For an answer; of code in `roots` the files, and the functions of each."""
        found: dict[str, Any] = {"files": sorted(self.files), "folders": sorted(self.folders)}
        for kind, codes in (("ran", self.codes), ("imported", self.imported)):
            names: dict[str, set[str]] = {}
            for code in codes.values():
                if code.co_filename.startswith(roots):
                    name = code.co_qualname.partition(".<locals>")[0]
                    names.setdefault(code.co_filename, set()).add(name)
            found[kind] = {file: sorted(names[file]) for file in sorted(names)}
        return found


def serve(run: Run) -> None:
    """Work off orders, whose files are named on lines of standard input, until it ends.

    Args:
        run: Gets a function, its task, and the context in which to call the function.
    """
    ends = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What a run prints goes nowhere.
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        order = json.loads(path.read_bytes())
        for name in order["heavy"]:
            with suppress(ImportError):
                importlib.import_module(name)
        # A signal to end comes through when the process has its group, which then ends with it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        process = os.fork()
        if not process:
            # A group of its own: what a run leaves behind, a fork that never ends, goes with it.
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            _work(order, run, path)
            os._exit(0)
        with suppress(OSError):
            os.setpgid(process, process)
        signal.signal(signal.SIGTERM, partial(_end, process))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        _, status = os.waitpid(process, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with suppress(OSError):
            os.killpg(process, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(status), file=ends, flush=True)


def _end(group: int, *_: object) -> None:
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    os._exit(1)


def _work(order: Order, run: Run, file: Path) -> None:
    """Answer every task of an order, on a line of the file each."""
    # What is read from here on is read from its source: compiled files may be a second old.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.devnull
    sys.path[:0] = order["roots"]
    watch = Watch()
    sys.addaudithook(watch.event)
    modules: dict[Path, ModuleType | dict[str, Any]] = {}
    with file.open("wb", buffering=0) as answers:
        for task in order["tasks"]:
            path = Path(task["file"])
            if path not in modules:
                with watch.calls(), watch.watching():
                    modules[path] = _load(path, order)
                watch.imported |= watch.codes
                watch.codes = {}
            module = modules[path]
            if isinstance(module, dict):
                answers.write(f"{json.dumps(module)}\n".encode())
            else:
                work = partial(_answer, order, task, run, module, watch)
                answers.write(_apart(work, 2 * _PATIENCE * order["seconds"] + 30))


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


def _answer(
    order: Order, task: dict[str, Any], run: Run, module: ModuleType, watch: Watch
) -> dict[str, Any]:
    """What a run told and read, or what went wrong."""

    @contextmanager
    def within() -> Iterator[Watch]:
        # What is random, or depends on how many threads there are, is the same in every run.
        if torch := sys.modules.get("torch"):
            torch.manual_seed(0)
            torch.set_num_threads(1)
        with limits(order["seconds"], order["bytes"]), watch.watching():
            yield watch

    try:
        found = run(getattr(module, task["function"]), task, within)
        return found | watch.told(tuple(f"{root}{os.sep}" for root in order["roots"]))
    except BaseException as error:
        return {"error": told(error, Path(task["file"]), order)}


def _apart(work: Callable[[], dict[str, Any]], seconds: float) -> bytes:
    """The answer of a process of its own, as a line."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        own = os.getpid()
        line = f"{json.dumps(work())}\n".encode()
        # What a run has forked off comes by here as well.
        if os.getpid() == own:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(line)
        os._exit(0)
    os.close(writer)
    line, part, end = b"", b" ", time.monotonic() + seconds
    while part and not line.endswith(b"\n"):
        if not select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            os.kill(process, signal.SIGKILL)
            break
        part = os.read(reader, 2**20)
        line += part
    os.close(reader)
    _, status = os.waitpid(process, 0)
    if line.endswith(b"\n"):
        return line
    message = f"failed: the process ended with status {os.waitstatus_to_exitcode(status)}"
    return f"{json.dumps({'error': failure('failed', message)})}\n".encode()


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
    kind, message = _said(error, order)
    frames = traceback.extract_tb(error.__traceback__)
    here = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        here.append(error.lineno or 0)
    found = failure(kind, message, here[-1] if here else 0)
    # The generator may lie in the same folder as what it renders.
    inner = [f for f in frames if f.filename.startswith(tuple(order["roots"]))]
    inner = [f for f in inner if not f.filename.startswith((_GENERATOR, str(file)))]
    if inner and kind == "failed":
        found |= {"file": inner[-1].filename, "file_line": inner[-1].lineno or 0}
    if isinstance(error, ModuleNotFoundError):
        found["missing"] = error.name or ""
    return found


def failure(kind: str, message: str, line: int = 0) -> dict[str, Any]:
    """Fields of `pylit.runs.Failure`."""
    return {"kind": kind, "message": message, "line": line}


def _said(error: BaseException, order: Order) -> tuple[str, str]:
    """The kind of a failure, and how a sentence about the run goes on."""
    try:
        words = str(error)
    except Exception:  # Code of the package makes the words of its errors.
        words = ""
    full = "can't allocate memory" in words or "not enough memory" in words
    if isinstance(error, TooLong):
        return "slow", "waits for what does not come"
    if isinstance(error, TooSlow):
        return "slow", f"took more than {order['seconds']:g} s of processor time"
    if isinstance(error, MemoryError) or full:
        return "hungry", f"asked for more than {order['bytes'] / 2**30:g} GiB of memory"
    message = f"{type(error).__name__}: {words}".splitlines()[0].removesuffix(": ")
    return "failed", f"failed: {message[:_MESSAGE]}"
