"""The child process, seen from outside: what it is given, and when it has answered."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GENERATOR = Path(__file__).resolve().parents[2]
#: Libraries that take long to import: before any run, so that they count for none.
HEAVY = ("torch", "numpy", "jaxtyping")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may take."""

    #: Of processor time.
    seconds: float = 5.0
    bytes: int = 2**30


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no run."""

    #: "failed", "slow", "waited", "hungry" or "died".
    kind: str
    message: str
    #: In the file that declares the run; 0 if it is not known.
    line: int = 0
    #: Where below it.
    file: str = ""
    file_line: int = 0
    #: The module that could not be found.
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a run, or one before it in the same process, read besides code."""

    #: Files whose code asked for docstrings.
    asked: tuple[str, ...] = ()
    #: Sources that were opened to be read.
    read: tuple[str, ...] = ()

    def __or__(self, other: "Reads") -> "Reads":
        return Reads(self.asked + other.asked, self.read + other.read)


#: Of a run that computes, and asks for no words.
NO_READS = Reads()


class ChildProcess:
    """A child process at work on an order; it starts at once, and `wait` waits for its answers.

    Args:
        module: Of the generator, for ``python -m``.
        order: As JSON; its ``roots`` are where packages are found.
        environment: Variables for the process, beside those of this one.
    """

    def __init__(
        self, module: str, order: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> None:
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # The folder of the generator is for itself; packages come from their own roots.
        # Sets come in the same order every time, or pages would differ from build to build.
        fixed = {"PYTHONPATH": str(_GENERATOR), "PYTHONHASHSEED": "0"}
        fixed |= dict.fromkeys(_THREADS, "1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {}), **fixed},
            # A group of its own: what a run leaves behind, a fork that never ends, goes with it.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(json.dumps(order).encode())

    def wait(self, seconds: float) -> tuple[list[dict[str, Any]], int]:
        """Everything that the child told, and how it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._kill()
        self._out.seek(0)
        lines = self._out.read().decode("utf-8").splitlines()
        return [json.loads(line) for line in lines], self._process.returncode

    def close(self) -> None:
        """End it, if it is still there."""
        self._kill()
        self._out.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def read_reads(data: Mapping[str, Any]) -> Reads:
    """What was read, as the child tells it."""
    return Reads(tuple(data["asked"]), tuple(data["read"]))


def read_failure(data: Mapping[str, Any], line: int) -> Failure:
    """A failure as the child tells it; `line` is that of the run, if nothing nearer is known."""
    return Failure(
        data["kind"],
        data["message"],
        data["line"] or line,
        data["file"],
        data["file_line"],
        data["missing"] or "",
    )
