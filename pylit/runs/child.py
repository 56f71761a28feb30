"""The child process: code of a package is imported and run there, each run within limits.

One process serves all builds of a site. It imports large libraries, once, and runs nothing. A fork
of it executes an order: it imports the packages, and runs each task in a fork of its own. So no run
sees the state that another has left, and a run that crashes harms no other. See decision 042.
"""

import gc
import importlib
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import IO, Any

#: A run may take this many times its limit of CPU time, by the clock.
WAITING = 20
#: Characters of the message of an exception.
_MESSAGE = 300
_NO_MEMORY = "can't allocate memory|not enough memory"
_GENERATOR = str(Path(__file__).resolve().parents[1])

Order = dict[str, Any]
#: A context in which a function runs within limits.
Within = Callable[[], AbstractContextManager["Watch"]]
Run = Callable[[Callable[..., object], dict[str, Any], Within], dict[str, Any]]


class TimeLimitExceeded(BaseException):
    """The time of a run is over. Not an `Exception`, which the code that runs might catch."""


class Watch:
    """Records what a run depends on: code it executes, files it opens, folders it lists."""

    def __init__(self) -> None:
        #: Code that ran, by its identity: to compare two takes longer than to call them.
        self.codes: dict[int, CodeType] = {}
        #: Code that ran when packages were imported, for this run or for an earlier one.
        self.imported: dict[int, CodeType] = {}
        #: Files and folders.
        self.paths: set[str] = set()

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Record the code that runs in this context."""
        before = sys.getprofile()
        sys.setprofile(self._call)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _call(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.codes[id(frame.f_code)] = frame.f_code

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """For `sys.addaudithook`."""
        events = ("open", "os.listdir", "os.scandir")
        if event not in events or isinstance(arguments[0], int | None):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        # The frame above this one is the caller of `open`: an import does not read a file as text.
        importing = sys._getframe(1).f_code.co_filename.startswith("<frozen importlib")
        # `os.open` has no mode; it is recorded in any case.
        mode = arguments[1] if event == "open" and isinstance(arguments[1], str) else "r"
        if set(mode) & set("r+") and not (importing and path.endswith(".py")):
            self.paths.add(path)

    def read(self, roots: tuple[str, ...]) -> dict[str, Any]:
        """Return the paths, and the functions that ran, by their files in `roots`."""
        found: dict[str, Any] = {"paths": sorted(self.paths)}
        for kind, codes in (("ran", self.codes), ("imported", self.imported)):
            names: dict[str, set[str]] = {}
            for code in codes.values():
                if code.co_filename.startswith(roots):
                    name = code.co_qualname.partition(".<locals>")[0]
                    names.setdefault(code.co_filename, set()).add(name)
            found[kind] = {file: sorted(names[file]) for file in sorted(names)}
        return found


def serve() -> None:
    """Execute orders until standard input ends.

    Each line of it names libraries to import, and the file of an order or none. Answers are added
    to that file, a line each: the number of a task and JSON, or the number alone when a file is
    about to be loaded for it; in the end -1, and the status of the fork that executed the order.
    The file has no name any more by then, so that a build which is killed leaves none behind.
    """
    parent = os.getppid()
    for line in sys.stdin:
        given = json.loads(line)
        for name in given["libraries"]:
            with suppress(ImportError):
                importlib.import_module(name)
        if not given["order"]:
            continue
        # The order may be gone with the build that gave it.
        with suppress(FileNotFoundError), Path(given["order"]).open("a+b", buffering=0) as answers:
            Path(given["order"]).unlink()
            answers.seek(0)
            process = _fork(partial(_execute, json.loads(answers.read()), answers))
            while not (ended := os.waitpid(process, os.WNOHANG))[0]:
                if os.getppid() != parent:
                    return  # Nobody waits for answers, which the fork sees by the end of this one.
                time.sleep(0.002)
            answers.write(b"-1 %d\n" % os.waitstatus_to_exitcode(ended[1]))


def _fork(work: Callable[[], object]) -> int:
    """Let a fork of this process do some work, and end."""
    # A collection would touch all that is there, and so copy it.
    gc.freeze()
    if process := os.fork():
        return process
    status = 1
    try:
        work()
        status = 0
    finally:
        # The usual end, with everything freed, takes a large part of a second.
        os._exit(status)


def _kill(process: int) -> None:
    """End a fork and whatever it has started."""
    with suppress(OSError):
        os.killpg(process, signal.SIGKILL)


def _execute(order: Order, answers: IO[bytes]) -> None:
    """Execute an order; what comes of it is added to a file."""
    parent = os.getppid()
    run: Run = importlib.import_module(order["program"]).run
    os.environ.update(order["environment"])
    # A run that reads must not get the next order.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Packages are compiled from their sources: compiled files may be a second old.
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.devnull
    sys.path[:0] = order["roots"]
    watch = Watch()
    sys.addaudithook(watch.audit)
    modules: dict[str, ModuleType | bytes] = {}
    running: dict[int, tuple[int, IO[bytes], float]] = {}

    def reap(most: int) -> None:
        """Take answers until no more than so many forks run; one that takes too long is killed."""
        while len(running) > most:
            time.sleep(0.002)
            late = os.getppid() != parent  # Nobody waits for the answers.
            for process, (number, made, end) in tuple(running.items()):
                if late or time.monotonic() > end:
                    _kill(process)
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    _kill(process)
                    made.seek(0)
                    line = made.read()
                    line = line if line.endswith(b"\n") else _ended(status)
                    answers.write(b"%d %s" % (number, line))
                    made.close()
                    del running[process]
            if late:
                os._exit(1)

    for number, task in enumerate(order["tasks"]):
        if (file := task["file"]) not in modules:
            answers.write(b"%d \n" % number)
            with watch.calls():
                modules[file] = _load(Path(file), order)
            watch.imported |= watch.codes
            watch.codes = {}
        module = modules[file]
        if isinstance(module, bytes):
            answers.write(b"%d %s" % (number, module))
            continue
        reap(order["jobs"] - 1)
        made = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        process = _fork(partial(_answer, order, task, run, module, watch, made))
        running[process] = number, made, time.monotonic() + 2 * WAITING * order["seconds"] + 30
    reap(0)


def _load(path: Path, order: Order) -> ModuleType | bytes:
    """A file outside of all packages, as a module, or the answer to each of its tasks."""
    try:
        with limits(order["seconds"], order["bytes"]):
            name = f"runs_{path.stem.replace('.', '_')}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except BaseException as error:
        return _line({"error": _failure(error, path, order)})


def _ended(status: int) -> bytes:
    """The answer of a fork that gave none."""
    message = f"failed: the process ended with status {os.waitstatus_to_exitcode(status)}"
    return _line({"error": {"kind": "failed", "message": message, "line": 0}})


def _answer(
    order: Order, task: dict[str, Any], run: Run, module: ModuleType, watch: Watch, made: IO[bytes]
) -> None:
    """Write the result of a run and its dependencies, or its error."""

    @contextmanager
    def within() -> Iterator[Watch]:
        # Random numbers, and sums over threads, are the same in every run.
        if torch := sys.modules.get("torch"):
            torch.manual_seed(0)
            torch.set_num_threads(1)
        with limits(order["seconds"], order["bytes"]):
            yield watch

    own = os.getpid()
    os.setpgid(0, 0)
    try:
        found = run(getattr(module, task["function"]), task, within)
        line = _line(found | watch.read(tuple(f"{root}{os.sep}" for root in order["roots"])))
    except BaseException as error:
        line = _line({"error": _failure(error, Path(task["file"]), order)})
    # Processes that the run has forked return to this line as well.
    if os.getpid() == own:
        made.write(line)


def _line(answer: dict[str, Any]) -> bytes:
    """A line of JSON. Half of a surrogate pair raises here, where the run is known."""
    return f"{json.dumps(answer, ensure_ascii=False)}\n".encode()


@contextmanager
def limits(seconds: float, size: int) -> Iterator[None]:
    """Limit the CPU time, the time by the clock, and the memory of what runs inside."""
    working = signal.ITIMER_PROF, seconds, f"took more than {seconds:g} s of processor time"
    waiting = signal.ITIMER_REAL, seconds * WAITING, "waits for what does not come"
    timers = {signal.SIGPROF: working, signal.SIGALRM: waiting}

    def stop(number: int, _: FrameType | None) -> None:
        raise TimeLimitExceeded(timers[signal.Signals(number)][2])

    for number, (timer, limit, _) in timers.items():
        signal.signal(number, stop)
        # It repeats, for an exception in a destructor is lost.
        signal.setitimer(timer, limit, 0.1)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError):  # Only Linux has the file, and only there is a limit of memory.
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
        limit = int(pages) * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        for number, (timer, _, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _failure(error: BaseException, file: Path, order: Order) -> dict[str, Any]:
    """Fields of `pylit.runs.tasks.Failure`."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines.append(error.lineno or 0)
    try:
        words = str(error).encode(errors="replace").decode()
    except Exception:  # The class of the exception may belong to the package.
        words = ""
    if isinstance(error, TimeLimitExceeded):
        kind, message = "slow", words
    elif isinstance(error, MemoryError) or re.search(_NO_MEMORY, words):
        kind, message = "memory", f"asked for more than {order['bytes'] / 2**30:g} GiB of memory"
    else:
        kind = "failed"
        words = f"{type(error).__name__}: {words}".splitlines()[0].removesuffix(": ")
        message = f"failed: {words[:_MESSAGE]}"
        # The generator may be in the same folder as the site.
        inner = [f for f in frames if f.filename.startswith(tuple(order["roots"]))]
        inner = [f for f in inner if not f.filename.startswith((_GENERATOR, str(file)))]
        if inner:
            place = os.path.relpath(inner[-1].filename, order["root"])
            message += f", at {place}:{inner[-1].lineno}"
    return {"kind": kind, "message": message, "line": lines[-1] if lines else 0}
