"""Runs notebooks without Jupyter: each in a fork of this process, which has imported PyTorch.

Each line of standard input is the cells of a notebook. What came of them is a line of the output:
what they printed, the kinds of what they displayed, and the traceback of a cell that failed.
"""

import json
import os
import sys
from typing import Any

import matplotlib.pyplot
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

IMPORTED = matplotlib.pyplot, torch


class Shell(InteractiveShell):
    def enable_gui(self, gui: object = None) -> None:
        """There is no window, and nothing to wait for."""


def run(cells: list[str]) -> dict[str, Any]:
    shell = Shell.instance(history_length=0)
    shell.run_line_magic("matplotlib", "inline")
    found: dict[str, Any] = {"stdout": "", "stderr": "", "kinds": [], "error": ""}
    for cell in cells:
        with capture_output() as said:
            success = shell.run_cell(cell, store_history=False).success
        found["stdout"] += said.stdout
        found["stderr"] += said.stderr
        found["kinds"] += [kind for output in said.outputs for kind in output.data]
        if not success:
            found["error"] = f"{cell}\n{said.stdout[-4000:]}"
            break
    return found


def main() -> None:
    for line in sys.stdin:
        if child := os.fork():
            if status := os.waitpid(child, 0)[1]:
                sys.exit(f"a notebook ended its process with {status}")
            continue
        print(json.dumps(run(json.loads(line))), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
