"""The child process that draws, seen from outside."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pylit.model import FigureKind
from pylit.runs.process import (
    NO_READS,
    ChildProcess,
    Failure,
    Limits,
    Reads,
    read_failure,
    read_reads,
)


@dataclass(frozen=True, slots=True)
class Task:
    """A figure to draw."""

    #: The name of its file, and of its function.
    file: str
    function: str
    path: Path
    #: Where the function begins.
    line: int
    #: Libraries that are imported before any run, and count for none.
    heavy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a task."""

    task: Task
    failure: Failure | None = None
    kind: FigureKind = "figure"
    picture: str = ""
    below: str = ""
    alt: str = ""
    #: Sources that ran, other files that were opened, and folders that were listed.
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    reads: Reads = NO_READS


class Child(ChildProcess):
    """A child process that draws; it starts at once, and `answers` waits for it."""

    def __init__(self, tasks: Sequence[Task], roots: Sequence[Path], limits: Limits) -> None:
        self._tasks = list(tasks)
        self._limits = limits
        order = {
            "roots": [str(root) for root in roots],
            "seconds": limits.seconds,
            "bytes": limits.bytes,
            "heavy": list(dict.fromkeys(name for task in tasks for name in task.heavy)),
            "work": [{"file": str(task.path), "function": task.function} for task in tasks],
        }
        super().__init__("pylit.figures.child", order)

    def answers(self) -> tuple[list[Answer], list[Task]]:
        """Everything that the child told, and the tasks that are left if something ended it."""
        told, status = self.wait(120 + 13 * len(self._tasks) * self._limits.seconds)
        found = [_answer(task, data) for task, data in zip(self._tasks, told, strict=False)]
        left = self._tasks[len(told) :]
        if left:
            failure = Failure("died", f"the process ended with status {status}", left[0].line)
            found.append(Answer(left[0], failure))
        return found, left[1:]


def _answer(task: Task, data: dict[str, Any]) -> Answer:
    if (error := data.get("error")) is not None:
        return Answer(task, read_failure(error, task.line))
    seen = (tuple(data[name]) for name in ("sources", "files", "folders"))
    sources, files, folders = seen
    shown = (data["kind"], data["picture"], data["below"], data["alt"])
    return Answer(task, None, *shown, sources, files, folders, read_reads(data))
