"""Runs notebooks without Jupyter: each in a fork of this process, which has imported PyTorch.

Each line of standard input is the code of a notebook. What came of it is a line of the output: what
it printed, how many pictures it showed, and the traceback of a failure.
"""

import io
import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

import matplotlib
import torch
from matplotlib import pyplot

matplotlib.use("agg")
IMPORTED = torch


def run(code: str) -> dict[str, object]:
    shown: list[int] = []
    pyplot.show = lambda: shown.extend(pyplot.get_fignums()) or pyplot.close("all")
    error, names = "", sys.modules["__main__"].__dict__
    with redirect_stdout(io.StringIO()) as stdout, redirect_stderr(io.StringIO()) as stderr:
        try:
            exec(compile(code, "notebook", "exec"), names)
        except Exception:
            error = traceback.format_exc()
    said = {"stdout": stdout.getvalue(), "stderr": stderr.getvalue()}
    return {**said, "pictures": len(shown), "error": error}


for line in sys.stdin:
    if child := os.fork():
        if status := os.waitpid(child, 0)[1]:
            sys.exit(f"a notebook ended its process with {status}")
        continue
    print(json.dumps(run(json.loads(line))), flush=True)
    os._exit(0)
