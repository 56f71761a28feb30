"""The child process, seen from outside: what it is given, and what its answers mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pylit.runs.process import (
    NO_READS,
    ChildProcess,
    Failure,
    Limits,
    Reads,
    read_failure,
    read_reads,
)
from pylit.shapes.model import Run, TraceFunction, read_value


@dataclass(frozen=True, slots=True)
class Work:
    """The traces of one module."""

    #: Its name, for the answers.
    module: str
    source: Path
    text: str
    trace: Path
    functions: tuple[TraceFunction, ...]
    #: Libraries that are imported before any run, and count for none.
    heavy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one trace function, or of a whole file if it could not be loaded."""

    module: str
    function: str
    runs: tuple[Run, ...]
    failure: Failure | None = None
    reads: Reads = NO_READS


class Child(ChildProcess):
    """A child process at work on traces; it starts at once, and `answers` waits for it."""

    def __init__(
        self,
        work: Sequence[Work],
        roots: Sequence[Path],
        limits: Limits,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._work = work
        self._limits = limits
        super().__init__("pylit.shapes.child", self._order(roots), environment or {})

    def _order(self, roots: Sequence[Path]) -> dict[str, Any]:
        return {
            "roots": [str(root) for root in roots],
            "seconds": self._limits.seconds,
            "bytes": self._limits.bytes,
            "heavy": list(dict.fromkeys(name for work in self._work for name in work.heavy)),
            "work": [
                {
                    "module": work.module,
                    "source": str(work.source),
                    "text": work.text,
                    "trace": str(work.trace),
                    "functions": [
                        {"name": f.name, "sizes": [dict(sizes) for sizes in f.sizes]}
                        for f in work.functions
                    ],
                }
                for work in self._work
            ],
        }

    def answers(self) -> tuple[list[Answer], list[Work]]:
        """Everything that the child told, and the work that is left if something ended it."""
        count = sum(len(work.functions) + 1 for work in self._work)
        lines, status = self.wait(120 + 25 * count * self._limits.seconds)
        found = [_answer(line, self._functions()) for line in lines]
        told = {(answer.module, answer.function) for answer in found}
        left = []
        for work in self._work:
            if (work.module, "") not in told:
                functions = [f for f in work.functions if (work.module, f.name) not in told]
                left += [replace(work, functions=tuple(functions))] if functions else []
        if left:
            work, *others = left
            culprit, *rest = work.functions
            failure = Failure("died", f"the process ended with status {status}", culprit.line)
            found.append(Answer(work.module, culprit.name, (), failure))
            left = [replace(work, functions=tuple(rest)), *others] if rest else others
        return found, left

    def _functions(self) -> dict[tuple[str, str], TraceFunction]:
        return {(work.module, f.name): f for work in self._work for f in work.functions}


def _answer(data: dict[str, Any], functions: dict[tuple[str, str], TraceFunction]) -> Answer:
    function = functions.get((data["module"], data["function"]))
    error = data.get("error")
    if error is not None:
        failure = read_failure(error, function.line if function else 0)
        return Answer(data["module"], data["function"], (), failure)
    assert function is not None
    runs = zip(data["runs"], function.sizes, strict=True)
    found = tuple(_run(run, sizes) for run, sizes in runs)
    return Answer(data["module"], data["function"], found, None, read_reads(data))


def _run(data: dict[str, Any], sizes: Any) -> Run:
    return Run(
        sizes,
        {
            (line, kind, name): tuple(map(read_value, values))
            for line, kind, name, values in data["values"]
        },
        {
            line: tuple({name: read_value(v) for name, v in call.items()} for call in calls)
            for line, calls in data["calls"]
        },
        {(name, part): tuple(map(read_value, seen)) for name, part, seen in data["fields"]},
        frozenset(data["lines"]),
        frozenset(data["files"]),
    )
