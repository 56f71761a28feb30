"""Small modules of one's own, run under the tracer in this process."""

import json
import math
import re
import sys
from base64 import b64decode
from pathlib import Path
from types import ModuleType

import torch

from pylit.diagnostics import Report
from pylit.model import Module, SourceFile
from pylit.runs.shapes.lines import Axes, ModuleShapes, Run, Traced, module_lines, read_run
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.recorder import LEVELS
from pylit.runs.shapes.trace import read_traces
from pylit.runs.shapes.tracer import Tracer
from pylit.source.parse import parse_module

AXES = Axes(
    words={"seq_len": "T", "batch_size": "B", "d_model": "C"},
    derived={"C": "H*K"},
    lengths=frozenset({"T", "S"}),
)
HEAD = "import torch\nfrom jaxtyping import Bool, Float, Int\nfrom torch import Tensor, nn\n\n\n"


def module_of(text: str, folder: Path) -> Module:
    """A module ``m`` in a folder; line 6 is the first after the imports."""
    path = folder / "m.py"
    path.write_text(text, encoding="utf-8")
    report = Report()
    module = parse_module(SourceFile(path, "m", "m.py", False, True, text, "digest"), report)
    assert not len(report), [str(d) for d in report]
    return module


def run(module: Module, trace: str) -> list[Traced]:
    """Every trace function of a text, run twice."""
    path = str(module.source.path)
    plan = read_plan(module.source.text)
    module_type = ModuleType("m")
    sys.modules["m"] = module_type
    exec(compile(module.source.text, path, "exec"), vars(module_type))
    names = dict(vars(module_type))
    exec(compile(trace, "traces/m.py", "exec"), names)
    functions, report = read_traces(trace, "traces/m.py", AXES)
    assert not len(report), [str(d) for d in report]
    found = []
    for function in functions:
        runs = [_one(names[function.name], sizes, plan, path) for sizes in function.sizes]
        found.append(Traced(f"traces/m.py:{function.line}", (runs[0], runs[1])))
    return found


def _one(function, sizes, plan, path) -> Run:
    tracer = Tracer(plan, lambda name: name == path)
    sys.settrace(tracer)
    try:
        function(**sizes)
    finally:
        sys.settrace(None)
    still = {line: line for line in range(1000)}
    return read_run(json.loads(json.dumps(tracer.results())), sizes, still)


def shapes_of(code: str, trace: str, folder: Path) -> ModuleShapes:
    """What the page of a module would show."""
    module = module_of(HEAD + code, folder)
    return module_lines(module.source.text, read_plan(module.source.text), run(module, trace))


def plain(chip: str) -> str:
    """The text of a chip."""
    return re.sub(r"<[^>]*>", "", chip).replace("&lt;", "<")


def unpack(packed):
    """The values of a tensor, as the panel reads them."""
    shape, data = packed["shape"], packed["data"]
    if isinstance(data, list):
        dtype = torch.int64 if packed["kind"] == "int" else torch.float64
        return torch.tensor(data, dtype=dtype).reshape(shape)
    values = list(b64decode(data))
    if packed["kind"] == "bool":
        return torch.tensor(values).bool().reshape(shape)
    odd = {LEVELS + 1: -math.inf, LEVELS + 2: math.inf, LEVELS + 3: math.nan}
    low, high = packed["low"], packed["high"]
    reals = [odd.get(n, low + (high / LEVELS - low / LEVELS) * n) for n in values]
    return torch.tensor(reals, dtype=torch.float64).reshape(shape)
