r"""
---
title: To stop in order
summary: >
  Ctrl-C ends a training after its current update, with everything saved; pressed twice,
  at once.
---

A signal comes in the middle of anything: half of the parameters have been moved, half
of a file is written. So a training takes note, finishes what it is doing, saves and
ends. Whoever cannot wait presses again.

`SIGINT` is Ctrl-C, and the stop button of a notebook. `SIGTERM` is how machines are
told that somebody else needs them.
"""

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Stop"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """
    ## Whether somebody wants to stop

    `with Stop() as stop:` looks after both signals, and `stop.asked` is whether one of
    them came. With the first one the old handlers come back, so that the second does
    what it always does.

    Only the main thread of a program may handle signals. In others nobody can ask.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for name in SIGNALS:
                self._before[name] = signal.signal(name, self._take_note)
        return self

    def __exit__(self, *error: object) -> None:
        self._put_back()

    def _take_note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._put_back()

    def _put_back(self) -> None:
        while self._before:
            name, handler = self._before.popitem()
            signal.signal(name, signal.SIG_DFL if handler is None else handler)
