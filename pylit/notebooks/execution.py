"""Running a notebook from its first cell to its last, as Colab's "Run all" does."""

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

from pylit.notebooks.document import OWN, Document, code_cells
from pylit.notebooks.recipe import NotebookError

#: Of one output, the first of these that it has is kept.
KEPT = ("image/png", "text/plain")

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: The last cell that runs, and is not kept: what only the process of the notebook knows. When the
#: kernel ends after it, it may warn as it likes.
_WHERE = """
import json, platform, sys, warnings
warnings.simplefilter("ignore")
torch = sys.modules.get("torch")
print(json.dumps({
    "gpu": torch.cuda.get_device_name() if torch and torch.cuda.is_available() else "",
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
    from nbformat import v4

    name = document["metadata"][OWN]["notebook"]
    notebook: Any = v4.reads(json.dumps(document))  # type: ignore[no-untyped-call]
    first = 'import warnings\nwarnings.simplefilter("error")' if strict else "pass"
    around = [v4.new_code_cell(text) for text in (first, _WHERE)]  # type: ignore[no-untyped-call]
    notebook["cells"] = [around[0], *notebook["cells"], around[1]]
    for cell in code_cells(notebook):
        cell["outputs"] = []
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
            startup_timeout=_BEGIN_WITHIN,
        )
        start = time.perf_counter()
        try:
            # What cells print comes as messages; on the stream itself Jupyter talks to itself.
            client.execute(
                env={**os.environ, **(environment or {})}, cwd=folder, stderr=subprocess.DEVNULL
            )
        except CellExecutionError as error:
            lines = as_seen(str(error)).strip().split("\n")[-_LONGEST_TRACEBACK:]
            raise NotebookError("\n".join([f"{name}: a cell failed", *lines])) from error
        except RuntimeError as error:
            ended = "ended; it may have run out of memory"
            what = ended if isinstance(error, DeadKernelError) else "did not begin"
            raise NotebookError(f"{name}: the process of the notebook {what}") from error
        seconds = time.perf_counter() - start
    where = json.loads(around[1]["outputs"][0]["text"])
    result: Document = json.loads(v4.writes(notebook))  # type: ignore[no-untyped-call]
    result["cells"] = result["cells"][1:-1]
    # They are counted from one, whatever ran before them.
    for count, cell in enumerate(code_cells(result), 1):
        cell["outputs"] = [*tidied(cell["outputs"])]
        for counted in (cell, *cell["outputs"]):
            if "execution_count" in counted:
                counted["execution_count"] = count
    own = {**document["metadata"][OWN], "run": _run(seconds, where)}
    return {**result, "metadata": {**document["metadata"], OWN: own}}


def _run(seconds: float, where: dict[str, Any]) -> dict[str, Any]:
    gpu, threads = where.pop("gpu"), where.pop("threads")
    cores = f"{threads} threads" if threads > 1 else "one thread"
    hardware = f"one {gpu}" if gpu else f"{cores} of {_processor()}"
    # A day in the time zone of nobody in particular.
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"date": date, "hardware": hardware, "seconds": round(seconds, 1), **where}


def _processor() -> str:
    """The name of the processor."""
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8") if about.is_file() else ""
    match = re.search(r"^model name\s*: ([^@\n]+)", text, re.MULTILINE)
    return "an " + match[1].strip().replace("(R)", "") if match else "a processor"


def tidied(outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The outputs of a cell as a notebook keeps them."""
    for output in outputs:
        if output["output_type"] == "stream":
            text = as_seen("".join(output["text"]))
            if text.strip():
                yield {**output, "text": text.splitlines(keepends=True)}
        elif "data" in output:
            kept = [kind for kind in KEPT if kind in output["data"]][:1]
            if kept:
                data = {kind: output["data"][kind] for kind in kept}
                yield {**output, "data": data, "metadata": {}}
        else:
            yield output


def as_seen(text: str) -> str:
    """Text as a terminal shows it in the end: of what was written over, the last."""
    lines = []
    for line in _ESCAPE.sub("", text).split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        lines.append(states[-1].rstrip() if states else "")
    return "\n".join(lines)
