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

from docs_src.notebooks import OWN, NotebookError
from docs_src.notebooks.document import code_cells

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A last cell, removed after the run, which prints the hardware and the versions of the kernel.
#: Warnings are ignored because the kernel may emit some when it ends.
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
#: Seconds for the start of a kernel; on a busy machine a minute was too short.
_STARTUP_TIMEOUT = 300


def execute(document: NotebookNode) -> NotebookNode:
    """A copy of a notebook with the outputs of a run, its date and its hardware.

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
            # Only the last state of a progress bar is kept.
            coalesce_streams=True,
            startup_timeout=_STARTUP_TIMEOUT,
        )
        start = time.perf_counter()
        try:
            # Cells print through messages; stderr itself has only messages of Jupyter.
            client.execute(cwd=folder, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            lines = _ESCAPE.sub("", str(error)).strip().split("\n")[-_MAX_TRACEBACK_LINES:]
            raise NotebookError("\n".join([f"{name}: a cell failed", *lines])) from error
        except RuntimeError as error:
            ended = "ended; it may have run out of memory"
            what = ended if isinstance(error, DeadKernelError) else "did not start"
            raise NotebookError(f"{name}: the kernel of the notebook {what}") from error
        seconds = time.perf_counter() - start
    printed = json.loads(ran.cells.pop().outputs[0].text)
    for cell in code_cells(ran):
        cell.outputs = [*cleaned_outputs(cell.outputs)]
    gpu, threads = printed.pop("gpu"), printed.pop("threads")
    cores = f"{threads} threads" if threads > 1 else "one thread"
    ran.metadata[OWN].run = printed | {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": f"one {gpu}" if gpu else f"{cores} of {_processor()}",
        "seconds": round(seconds, 1),
    }
    return ran


def _processor() -> str:
    """The name of the processor, where Linux knows it."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    match = re.search(r"^model name\s*: ([^@\n]+)", text, re.MULTILINE)
    return "an " + match[1].strip().replace("(R)", "") if match else "a processor"


def cleaned_outputs(outputs: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """The outputs of a cell: text without escape sequences, and one format of each result."""
    for output in outputs:
        if output.output_type == "stream":
            output.text = _ESCAPE.sub("", output.text)
            if output.text.strip():
                yield output
        elif kept := [
            kind for kind in ("image/png", "text/plain") if kind in output.get("data", {})
        ]:
            output.data, output.metadata = {kept[0]: output.data[kept[0]]}, {}
            yield output
