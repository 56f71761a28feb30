"""Running a notebook from its first cell to its last, as Colab's "Run all" does."""

import datetime
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode, v4

from pylit.notebooks import OWN, NotebookError
from pylit.notebooks.document import code_cells

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
_MAX_TRACEBACK_LINES = 30
#: Seconds in which a kernel must answer; on a busy machine a minute was too short.
_BEGIN_WITHIN = 300


def execute(document: NotebookNode) -> NotebookNode:
    """A copy of a notebook with the outputs of a run, and where and when that was.

    Raises `NotebookError` with the cell and the end of its traceback, if a cell fails.
    """
    ran, name = deepcopy(document), document.metadata[OWN].notebook
    ran.cells.append(v4.new_code_cell(_WHERE))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            ran,
            timeout=None,
            kernel_name="python3",
            record_timing=False,
            store_widget_state=False,
            # Of a progress bar the last state is left.
            coalesce_streams=True,
            startup_timeout=_BEGIN_WITHIN,
        )
        start = time.perf_counter()
        try:
            # What cells print comes as messages; on the stream itself Jupyter talks to itself.
            client.execute(cwd=folder, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            lines = _ESCAPE.sub("", str(error)).strip().split("\n")[-_MAX_TRACEBACK_LINES:]
            raise NotebookError("\n".join([f"{name}: a cell failed", *lines])) from error
        except RuntimeError as error:
            ended = "ended; it may have run out of memory"
            what = ended if isinstance(error, DeadKernelError) else "did not begin"
            raise NotebookError(f"{name}: the process of the notebook {what}") from error
        seconds = time.perf_counter() - start
    where = json.loads(ran.cells.pop().outputs[0].text)
    for cell in code_cells(ran):
        cell.outputs = [*cleaned_outputs(cell.outputs)]
    gpu, threads = where.pop("gpu"), where.pop("threads")
    cores = f"{threads} threads" if threads > 1 else "one thread"
    hardware = f"one {gpu}" if gpu else f"{cores} of {_processor()}"
    # A day in the time zone of nobody in particular.
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    ran.metadata[OWN].run = {
        "date": date,
        "hardware": hardware,
        "seconds": round(seconds, 1),
    } | where
    return ran


def _processor() -> str:
    """The name of the processor."""
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8") if about.is_file() else ""
    match = re.search(r"^model name\s*: ([^@\n]+)", text, re.MULTILINE)
    return "an " + match[1].strip().replace("(R)", "") if match else "a processor"


def cleaned_outputs(outputs: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """The outputs of a cell as a notebook keeps them."""
    for output in outputs:
        if output.output_type == "stream":
            output.text = _ESCAPE.sub("", output.text)
            if output.text.strip():
                yield output
        elif kept := [kind for kind in KEPT if kind in output.get("data", ())]:
            output.data, output.metadata = {kept[0]: output.data[kept[0]]}, {}
            yield output
