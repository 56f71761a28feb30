"""How far a build is: one line in a terminal, gone when the build is done."""

import sys
import time
from typing import TextIO


class Progress:
    """The line; where nobody sees it, there is none."""

    def __init__(self, out: TextIO | None = None) -> None:
        """`out` is a terminal, or None to say nothing."""
        self._out = out
        self._title, self._total, self._done = "", 0, 0
        self._shown = 0.0

    def stage(self, title: str, total: int = 0) -> None:
        """A new stage begins, of `total` steps if that is known."""
        self._title, self._total, self._done = title, total, 0
        self._show()

    def step(self) -> None:
        """One step of the stage is done."""
        self._done += 1
        if time.monotonic() - self._shown > 0.05:
            self._show()

    def end(self) -> None:
        """Remove the line."""
        self._write("")

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._write(f"{self._title} {self._done}" + f"/{self._total}" * bool(self._total))

    def _write(self, text: str) -> None:
        if self._out is not None:
            # Back to the first column, and clear what stands to the right.
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()


def progress() -> Progress:
    """The line on standard error, if that is a terminal."""
    return Progress(sys.stderr if sys.stderr.isatty() else None)
