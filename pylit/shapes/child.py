"""The child process: imports the annotated package and runs its traces, each within limits.

``python -P -m pylit.shapes.child`` reads one `Order` as JSON from its standard input and writes a
line of JSON for each trace function, as it is done.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pylit.runs.confined import Order, leave, limits, load, ordered, same_every_time, told
from pylit.runs.curiosity import Curiosity
from pylit.shapes.plan import Plan, read_plan
from pylit.shapes.tracer import Tracer


def main() -> None:
    """Run what is ordered."""
    order, answer = ordered()
    curiosity = Curiosity(
        [*order["roots"], *{str(Path(work["trace"]).parent) for work in order["work"]}]
    )
    for work in order["work"]:
        for found in _work(work, order, curiosity):
            answer(found | curiosity.told() | {"module": work["module"]})


def _work(work: dict[str, Any], order: Order, curiosity: Curiosity) -> Iterator[dict[str, Any]]:
    """The answers for one file of traces."""
    path = Path(work["trace"])
    try:
        plan = read_plan(work["text"])
        with limits(order["seconds"], order["bytes"]), curiosity.watching():
            traces = load(path, "traces_")
    except BaseException as error:
        yield {"function": "", "error": told(error, path, order)}
        return
    for function in work["functions"]:
        answer: dict[str, Any] = {"function": function["name"], "runs": []}
        for sizes in function["sizes"]:
            answer["runs"].append(None)
            try:
                run = getattr(traces, function["name"])
                tracer = _tracer(plan, work["source"], curiosity)
                answer["runs"][-1] = _run(run, sizes, tracer, order)
            except BaseException as error:
                answer["error"] = told(error, path, order)
                break
        yield answer


def _tracer(plan: Plan, source: str, curiosity: Curiosity) -> Tracer:
    real = os.path.realpath(source)

    @cache
    def is_source(name: str) -> bool:
        return os.path.realpath(name) == real

    return Tracer(plan, is_source, curiosity.ran)


def _run(
    function: Callable[..., object], sizes: dict[str, int], tracer: Tracer, order: Order
) -> dict[str, Any]:
    """One run, and what it made of each line."""
    same_every_time()
    with limits(order["seconds"], order["bytes"]):
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            function(**sizes)
        finally:
            sys.settrace(before)
    return {
        "values": [[*key, list(found)] for key, found in tracer.values.items()],
        "calls": [[line, calls] for line, calls in tracer.calls.items()],
        "fields": [
            [name, part, list(seen)]
            for name, parts in tracer.fields.items()
            for part, seen in parts.items()
        ],
        "lines": sorted(tracer.lines),
        "files": sorted(tracer.files),
    }


if __name__ == "__main__":
    main()
    leave()
