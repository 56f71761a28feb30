"""What the child process (`pylit.runs.child`) does with a trace or a replay."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pylit.runs.child import Watch, Within
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.recorder import Recorder
from pylit.runs.shapes.tracer import Tracer


def run(function: Callable[..., Any], task: dict[str, Any], within: Within) -> dict[str, Any]:
    """What each line made: the shapes of two runs, or the values of one."""
    source = os.path.realpath(task["source"])
    is_source = cache(lambda name: os.path.realpath(name) == source)
    plan = read_plan(task["text"])
    if task["replay"]:
        recorder = Recorder(plan, is_source)
        if torch := sys.modules.get("torch"):
            # Memory that was never written is not a number then, and not what lay there. As
            # `use_deterministic_algorithms`, which imports the compiler for a second in every run.
            torch.set_deterministic_debug_mode("warn")
        with within() as watch:
            steps = function()
            # What stands before the `yield` prepares, what stands after it is recorded.
            texts = next(steps)
            with _tracing(recorder, watch):
                next(steps, None)
        return {"texts": texts, **recorder.recorded()}
    runs = []
    for sizes in task["sizes"]:
        tracer = Tracer(plan, is_source)
        with within() as watch, _tracing(tracer, watch):
            function(**sizes)
        runs.append(tracer.results())
    return {"runs": runs}


@contextmanager
def _tracing(tracer: Tracer, watch: Watch) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)
        watch.codes |= tracer.codes
