"""A progress bar in a terminal."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn


class Bar:
    """A line at the foot of a terminal, gone when the build is done."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            # Refreshing by itself takes a thread, and a process with threads cannot be forked.
            auto_refresh=False,
        )
        self._shown = 0.0
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def stage(self, title: str, total: int) -> None:
        """Start the bar again under a new title."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(title, total=total)
        self._progress.refresh()

    def step(self) -> None:
        """Move it on."""
        if self._task is not None:
            self._progress.advance(self._task)
        if time.monotonic() - self._shown > 0.05:
            self._shown = time.monotonic()
            self._progress.refresh()
