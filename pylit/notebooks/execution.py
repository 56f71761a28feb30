"""Running a notebook from its first cell to its last, as Colab's "Run all" does."""

import copy
import datetime
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pylit.notebooks.model import OWN, Document, NotebookError, code_cells

#: Of one output, the first of these that it has is kept. A drawing comes as HTML as well, which
#: follows the theme of a live notebook; of a saved one GitHub shows the drawing alone.
KEPT = ("image/svg+xml", "image/png", "text/html", "text/plain")
#: Lines of a text that are kept, from its beginning and from its end.
FIRST, LAST = 60, 20

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: The last cell that runs, and is not kept: what only the process of the notebook knows.
_WHERE = """
import json, platform, sys
torch = sys.modules.get("torch")
print(json.dumps({
    "gpu": torch.cuda.get_device_name() if torch and torch.cuda.is_available() else "",
    "preset": str(globals().get("preset", "")),
    "python": platform.python_version(),
    "threads": torch.get_num_threads() if torch else 1,
    "torch": torch.__version__.partition("+")[0] if torch else "",
}))
"""
_LONGEST_TRACEBACK = 30
#: Seconds in which a kernel must answer; on a busy machine a minute was too short.
_BEGIN_WITHIN = 300


def executed(
    document: Document, environment: Mapping[str, str] | None = None, *, strict: bool = False
) -> Document:
    """A copy of a notebook with the outputs of a run, and where and when that was.

    * `environment` are variables for the run, beside those of this process
    * `strict` makes warnings errors

    Raises `NotebookError` with the cell and the end of its traceback, if a cell fails.
    """
    # Only here: who builds the site needs none of them.
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    variables = {**os.environ, **(environment or {})}
    result = copy.deepcopy(document)
    notebook = _to_run(result, strict=strict)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            record_timing=False,
            store_widget_state=False,
            resources={"metadata": {"path": folder}},
            startup_timeout=_BEGIN_WITHIN,
        )
        start = time.perf_counter()
        try:
            # What cells print comes as messages; on the stream itself Jupyter talks to itself.
            client.execute(env=variables, cwd=folder, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            raise NotebookError(_told(document, str(error))) from error
        except RuntimeError as error:
            ended = "ended; it may have run out of memory"
            what = ended if isinstance(error, DeadKernelError) else "did not begin"
            name = document["metadata"][OWN]["notebook"]
            raise NotebookError(f"{name}: the process of the notebook {what}") from error
        seconds = time.perf_counter() - start
    _, *ran, last = notebook["cells"]
    _take(result, ran)
    result["metadata"][OWN]["run"] = _run(seconds, json.loads(last["outputs"][0]["text"]))
    return result


def _to_run(document: Document, *, strict: bool) -> Any:
    """The notebook as nbclient wants it, without outputs, between two cells more.

    The first decides what a warning is; the last lets the kernel warn as it likes when it ends, and
    tells where it ran.
    """
    import nbformat
    from nbformat.v4 import new_code_cell

    notebook = nbformat.reads(json.dumps(document), as_version=4)  # type: ignore[no-untyped-call]
    for cell in code_cells(notebook):
        cell["outputs"] = []
    first = 'import warnings\nwarnings.simplefilter("error")' if strict else "pass"
    last = 'import warnings\nwarnings.simplefilter("ignore")' + _WHERE
    notebook["cells"] = [new_code_cell(first), *notebook["cells"], new_code_cell(last)]  # type: ignore[no-untyped-call]
    return notebook


def _take(result: Document, ran: list[Any]) -> None:
    """Outputs of the cells that ran; they are counted from one, whatever ran before them."""
    sources = [cell for cell in ran if cell["cell_type"] == "code"]
    for count, (cell, source) in enumerate(zip(code_cells(result), sources, strict=True), 1):
        cell["outputs"] = tidied(source["outputs"])
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = count


def _told(document: Document, error: str) -> str:
    lines = as_seen(error).strip().split("\n")
    shown = "\n".join(lines[-_LONGEST_TRACEBACK:])
    return f"{document['metadata'][OWN]['notebook']}: a cell failed\n{shown}"


def _run(seconds: float, where: dict[str, Any]) -> dict[str, Any]:
    gpu, threads = where.pop("gpu"), where.pop("threads")
    cores = f"{threads} threads" if threads > 1 else "one thread"
    hardware = f"one {gpu}" if gpu else f"{cores} of {_processor()}"
    # A day in the time zone of nobody in particular.
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": date, "hardware": hardware, "seconds": round(seconds, 1), **where}


def _processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return "an " + line.partition(":")[2].strip().replace("(R)", "").split(" @")[0]
    except OSError:
        pass
    return "a processor"


def tidied(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell as a notebook keeps them."""
    result: list[dict[str, Any]] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            text = "".join(output["text"])
            if result and result[-1].get("name") == output["name"]:
                text = "".join(result.pop()["text"]) + text
            result.append({"name": output["name"], "output_type": "stream", "text": text})
        elif kind in ("display_data", "execute_result"):
            shown = _shown(output)
            if shown["data"]:
                result.append(shown)
        else:
            result.append(dict(output))
    return [output for output in map(_with_lines, result) if output is not None]


def as_seen(text: str) -> str:
    """Text as a terminal shows it in the end: of what was written over, the last."""
    return "\n".join(_overwritten(_ESCAPE.sub("", text)))


def _overwritten(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        yield states[-1].rstrip() if states else ""


def _with_lines(output: dict[str, Any]) -> dict[str, Any] | None:
    if output["output_type"] != "stream":
        return output
    text = as_seen(output["text"])
    lines = text.splitlines(keepends=True)
    if len(lines) > FIRST + LAST + 1:
        left_out = f"… {len(lines) - FIRST - LAST} lines …\n"
        lines = [*lines[:FIRST], left_out, *lines[-LAST:]]
    return {**output, "text": lines} if text.strip() else None


def _shown(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = [kind for kind in KEPT if kind in output["data"]][:1]
    data = {kind: _lines(output["data"][kind]) for kind in kept}
    shown = {"data": data, "metadata": {}, "output_type": output["output_type"]}
    if "execution_count" in output:
        shown["execution_count"] = output["execution_count"]
    return shown


def _lines(value: Any) -> Any:
    return value.strip("\n").splitlines(keepends=True) if isinstance(value, str) else value
