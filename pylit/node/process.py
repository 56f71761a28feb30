"""A script that Node.js runs, and what is said to it and heard of it."""

import json
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pylit.node.packages import NodeError, find_node


class NodeProcess:
    """A script that answers one line of JSON for each line of JSON it is given, in their order.

    Raises:
        NodeError: Node is missing, or cannot be started.
    """

    def __init__(self, script: Path, *, memory: int = 1024) -> None:
        """`memory`: megabytes that the script's objects may take before Node ends it."""
        self._script = script
        #: Since when an answer is waited for.
        self.since = time.monotonic()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        command = [str(find_node()), f"--max-old-space-size={memory}", str(script)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._stderr, encoding="utf-8"
            )
        except OSError as error:
            self._stderr.close()
            raise NodeError(f"{script} cannot be started: {error}") from error

    def send(self, message: Any) -> None:
        """Ask for something. Should the process have ended, `receive` says so."""
        assert self._process.stdin is not None
        with suppress(OSError):
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def receive(self) -> dict[str, Any]:
        """The answer to the first message that has none yet.

        Raises:
            NodeError: The process ended, or was killed, or said something else.
        """
        assert self._process.stdout is not None
        self.since = time.monotonic()
        line = self._process.stdout.readline()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.kill()
            status = self._process.wait()
            self._stderr.seek(0)
            words = self._stderr.read()[-2000:].decode("utf-8", "replace").strip()
            said = f"answered `{line.strip()[:200]}`, which is not JSON" if line else "ended"
            raise NodeError(f"{self._script.name} {said} (exit status {status}): {words}") from None
        return answer

    def kill(self) -> None:
        """End the process, from any thread; who waits for an answer is told that it ended."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self.kill()
        with suppress(OSError):  # What could not be written any more fails again.
            self._process.communicate()
        self._stderr.close()
