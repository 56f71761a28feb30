"""A script that Node.js runs, and what is said to it and heard of it."""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from pylit.node.executable import NodeError, find_node


class NodeProcess:
    """A script run by Node that answers one line of JSON for each line it is given.

    Requests are objects; an ``id`` is added to each and comes back with its answer. A reader and a
    writer thread keep both pipes moving, so neither side ever waits for the other to read.

    Args:
        script: The script.
        first: A line to send before all requests, without an answer.
        memory: Megabytes that the script's objects may take before Node ends it.
        patience: Seconds without any answer, while some are due, after which the process is
            taken for dead.

    Raises:
        NodeError: The script cannot be started.
    """

    def __init__(
        self,
        script: Path,
        first: Mapping[str, Any] | None = None,
        *,
        memory: int = 1024,
        patience: float = 60.0,
    ) -> None:
        self._script = script
        self._patience = patience
        self._due: dict[int, Future[dict[str, Any]]] = {}
        self._asked = 0
        self._lock = threading.Lock()
        self._heard = time.monotonic()
        self._outbox: SimpleQueue[str | None] = SimpleQueue()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                [find_node(), f"--max-old-space-size={memory}", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                encoding="utf-8",
            )
        except OSError as error:
            self._stderr.close()
            raise NodeError(f"{script} cannot be started: {error}") from error
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise AssertionError("the process was started with pipes")
        self._stdin, self._stdout = pipes[0], pipes[1]
        self._threads = [
            threading.Thread(target=self._write, daemon=True),
            threading.Thread(target=self._read, daemon=True),
        ]
        if first is not None:
            self._outbox.put(json.dumps(first))
        for thread in self._threads:
            thread.start()

    def request(self, message: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Send a message; the future holds its answer. Use `wait` to get it."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if not self._due:
                self._heard = time.monotonic()
            self._asked += 1
            self._due[self._asked] = future
            line = json.dumps({"id": self._asked, **message})
        self._outbox.put(line)
        if self._process.poll() is not None:
            self._fail("ended")
        return future

    def wait(self, future: Future[dict[str, Any]]) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            NodeError: The process ended, or has not answered anything for too long.
        """
        while True:
            try:
                return future.result(timeout=min(1.0, self._patience))
            except FutureTimeoutError:
                if time.monotonic() - self._heard > self._patience:
                    self._process.kill()
                    self._fail(f"has not answered for {self._patience:g} s and was stopped")

    def close(self) -> None:
        """End the process and wait for it. Answers still due are given up."""
        self._outbox.put(None)
        with self._lock:
            busy = bool(self._due)
        if busy:
            self._process.kill()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._stdin, self._stdout):
            # What could not be written any more is tried again here, and fails again.
            with contextlib.suppress(OSError):
                pipe.close()
        self._stderr.close()

    def __enter__(self) -> "NodeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self) -> None:
        # When writing fails the process has ended; the reader sees that too and says so.
        with contextlib.suppress(OSError):
            while (line := self._outbox.get()) is not None:
                self._stdin.write(line + "\n")
                if self._outbox.empty():
                    self._stdin.flush()
            self._stdin.close()

    def _read(self) -> None:
        for line in self._stdout:
            try:
                answer: dict[str, Any] = json.loads(line)
            except ValueError:
                self._process.kill()
                self._fail(f"answered `{line.strip()[:200]}`, which is not JSON")
                break
            with self._lock:
                future = self._due.pop(answer.pop("id"), None)
                self._heard = time.monotonic()
            if future is not None:
                future.set_result(answer)
        self._process.wait()
        self._fail("ended")

    def _fail(self, what: str) -> None:
        """Fail everything that is due."""
        with self._lock:
            due, self._due = self._due, {}
        if not due:
            return
        error = NodeError(f"{self._script.name} {what}{self._last_words()}")
        for future in due.values():
            future.set_exception(error)

    def _last_words(self) -> str:
        self._stderr.flush()
        self._stderr.seek(0)
        words = self._stderr.read().decode("utf-8", "replace").strip()
        code = self._process.poll()
        status = f" (exit status {code})" if code else ""
        return f"{status}: {words[-2000:]}" if words else status
