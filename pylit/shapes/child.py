"""The child process: imports the annotated package and runs its traces, each within limits.

``python -P -m pylit.shapes.child`` reads one `Order` as JSON from its standard input and writes a
line of JSON for each trace function, as it is done. It is the only part of the generator that runs
code of a package.
"""

import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pylit.shapes.plan import Plan, read_plan
from pylit.shapes.tracer import Tracer

#: A run that waits instead of working ends after so many times its limit.
_PATIENCE = 12


class TooSlow(BaseException):
    """The time of a run is over. Not an `Exception`, which the code that runs might catch."""


def main() -> None:
    """Run what is ordered."""
    order = json.loads(sys.stdin.buffer.read())
    # The answers go where standard output went; what a trace prints goes nowhere.
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
    for work in order["work"]:
        for answer in _work(work, order):
            json.dump(answer | {"module": work["module"]}, out)
            out.write("\n")
            out.flush()


def _work(work: dict[str, Any], order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answers for one file of traces."""
    path = Path(work["trace"])
    try:
        with _limits(order["seconds"], order["bytes"]):
            traces = _load(path)
            plan = read_plan(Path(work["source"]).read_text(encoding="utf-8"))
    except BaseException as error:
        yield {"function": "", "error": _told(error, path, order)}
        return
    for function in work["functions"]:
        answer: dict[str, Any] = {"function": function["name"], "runs": []}
        for sizes in function["sizes"]:
            answer["runs"].append(None)
            try:
                run = getattr(traces, function["name"])
                answer["runs"][-1] = _run(run, sizes, plan, work["source"], order)
            except BaseException as error:
                answer["error"] = _told(error, path, order)
                break
        yield answer


def _load(path: Path) -> ModuleType:
    name = "traces_" + path.stem.replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(
    function: Callable[..., object],
    sizes: dict[str, int],
    plan: Plan,
    source: str,
    order: dict[str, Any],
) -> dict[str, Any]:
    """One run, and what it made of each line."""
    real = os.path.realpath(source)

    @cache
    def is_source(name: str) -> bool:
        return os.path.realpath(name) == real

    tracer = Tracer(plan, is_source)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(1)
    with _limits(order["seconds"], order["bytes"]):
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            function(**sizes)
        finally:
            sys.settrace(before)
    return {
        "values": [[*key, list(found)] for key, found in tracer.values.items()],
        "calls": [[line, calls] for line, calls in tracer.calls.items()],
        "fields": [
            [name, part, list(seen)]
            for name, parts in tracer.fields.items()
            for part, seen in parts.items()
        ],
        "lines": sorted(tracer.lines),
        "files": sorted(tracer.files),
    }


@contextmanager
def _limits(seconds: float, size: int) -> Iterator[None]:
    """Processor time and memory for what runs inside. Time of the other kind has an end too."""
    timers = (signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM)
    for (timer, number), limit in zip(timers, (seconds, seconds * _PATIENCE), strict=True):
        signal.signal(number, _over)
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


def _over(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _data() -> int:
    """Bytes of private memory that this process has asked for; 0 where nobody knows."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmData:")), "")
    return int(line.split()[1]) * 1024 if line else 0


def _told(error: BaseException, trace: Path, order: dict[str, Any]) -> dict[str, Any]:
    """What went wrong, where in the file of traces, and where below it."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [f.lineno or 0 for f in frames if f.filename == str(trace)]
    roots = tuple(order["roots"])
    inner = [f for f in frames if f.filename.startswith(roots) and f.filename != str(trace)]
    # The generator may lie in the same folder as what it renders.
    inner = [f for f in inner if not f.filename.startswith(str(Path(__file__).parent))]
    line = here[-1] if here else 0
    if isinstance(error, SyntaxError) and error.filename == str(trace):
        line = error.lineno or 0
    return {
        "kind": _kind(error),
        "message": f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": "),
        "line": line,
        "file": inner[-1].filename if inner else "",
        "file_line": (inner[-1].lineno or 0) if inner else 0,
        "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
    }


def _kind(error: BaseException) -> str:
    if isinstance(error, TooSlow):
        return "slow"
    full = "can't allocate memory" in str(error) or "not enough memory" in str(error)
    return "hungry" if isinstance(error, MemoryError) or full else "failed"


if __name__ == "__main__":
    main()
