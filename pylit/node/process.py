"""A script that Node.js runs, and what is said to it and heard of it."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pylit.node.packages import NodeError, find_node


class NodeProcess:
    """A script that answers one line of JSON for each line of JSON it is given, in their order.

    It answers into a file, so that it never waits for us to read.

    Raises:
        NodeError: Node is missing, or cannot be started.
    """

    def __init__(self, script: Path, *, memory: int = 1024) -> None:
        """`memory`: megabytes that the script's objects may take before Node ends it."""
        self._script = script
        #: When it was last given something, or answered.
        self.since = time.monotonic()
        command = [str(find_node()), f"--max-old-space-size={memory}", str(script)]
        # Files without names, where a system lets us delete what is open.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            said, error = Path(folder, "said"), Path(folder, "error")
            with said.open("w") as out, error.open("w") as err:
                try:
                    self._process = subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=out, stderr=err, encoding="utf-8"
                    )
                except OSError as fault:
                    raise NodeError(f"{script} cannot be started: {fault}") from fault
            # What has been written may end in the middle of a letter.
            self._said = said.open("rb")
            self._error = error.open(encoding="utf-8", errors="replace")
        self._begun = b""

    def send(self, message: Any) -> None:
        """Ask for something. Should the process have ended, `answers` says so."""
        assert self._process.stdin is not None
        self.since = time.monotonic()
        with suppress(OSError):
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def answers(self) -> Iterator[dict[str, Any]]:
        """The answers that have come since the last time.

        Raises:
            NodeError: The process has ended, or says something else.
        """
        status = self._process.poll()
        *lines, self._begun = (self._begun + self._said.read()).split(b"\n")
        for line in lines:
            self.since = time.monotonic()
            try:
                yield json.loads(line)
            except ValueError:
                said = line[:200].decode(errors="replace")
                raise NodeError(f"{self._script.name} answered `{said}`") from None
        if status is not None:
            words = self._error.read()[-2000:].strip()
            raise NodeError(f"{self._script.name} ended (exit status {status}): {words}")

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        with suppress(OSError):  # What could not be written any more fails again.
            self._process.communicate()
        self._said.close()
        self._error.close()
