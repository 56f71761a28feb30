"""The published labml-nn 0.5.1 as an oracle: run it in a child process, compare with ours.

A test file keeps its cases as source text, run once in a child that sees the published package
under the same import name; `torch` is imported and seeded there. There, `record(name, module,
*args, **kwargs)` runs the module in eval mode, goes backward with a fixed cotangent, and keeps
parameters, arguments, outputs and gradients.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / ".cache" / "oracle"
#: Outputs and gradients agree to this, absolutely and relatively.
TOLERANCE = 1e-5

Record = dict[str, Any]

#: What the child runs before the cases. The published package imports `labml`, an experiment
#: tracker, and calls it while it computes: a stub with any name will do. Its configurations build
#: on labml's in earnest, and are no part of what we compare.
PREAMBLE = """
import sys
from unittest.mock import MagicMock

import torch

sys.path[:0] = [{here!r}, {published!r}]
for name in ("labml", "labml.logger", "labml.utils", "labml_nn.transformers.configs"):
    sys.modules[name] = MagicMock(name=name)

import labml_nn

assert labml_nn.__file__.startswith({published!r}), labml_nn.__file__

from oracle import observe

records = {{}}


def record(name, module, *args, **kwargs):
    assert name not in records, name
    state = {{key: value.clone() for key, value in module.state_dict().items()}}
    records[name] = {{"state": state, "args": args, "kwargs": kwargs}}
    records[name].update(observe(module, args, kwargs))


torch.manual_seed(0)
"""


def published(cases: str) -> dict[str, Record]:
    """What the published package computes for `cases`, by the names they were recorded under."""
    if not (PUBLISHED / "labml_nn").is_dir():
        raise FileNotFoundError(f"labml-nn 0.5.1 is not in {PUBLISHED}; run `make install`")
    preamble = PREAMBLE.format(here=str(Path(__file__).parent), published=str(PUBLISHED))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.pt"
        script = preamble + textwrap.dedent(cases) + f"\ntorch.save(records, {str(file)!r})\n"
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", script]
        child = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        assert child.returncode == 0, f"the published package failed:\n{child.stderr}"
        records: dict[str, Record] = torch.load(file)
        return records


def observe(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Record:
    """Run forward and backward, and return outputs and gradients of inputs and parameters.

    Every floating-point output is multiplied by fixed numbers, all different, before it is summed:
    a plain sum would not notice two outputs that changed places.
    """
    module.eval()
    module.zero_grad(set_to_none=True)
    args = tuple(_leaf(value) for value in args)
    kwargs = {name: _leaf(value) for name, value in kwargs.items()}
    outputs = tensors(module(*args, **kwargs))
    loss = sum(
        (output.double() * torch.arange(1, output.numel() + 1).view_as(output).cos()).sum()
        for output in outputs
        if output.requires_grad
    )
    assert isinstance(loss, Tensor), "no output depends on a parameter or an input"
    loss.backward()
    return {
        "outputs": [output.detach().clone() for output in outputs],
        "input gradients": [_gradient(x) for x in tensors([args, kwargs]) if x.requires_grad],
        "parameter gradients": {name: _gradient(p) for name, p in module.named_parameters()},
    }


def assert_same(record: Record, module: nn.Module) -> None:
    """Load the recorded parameters into `module`, strictly, and compare everything it computes."""
    module.load_state_dict(record["state"], strict=True)
    ours = observe(module, record["args"], record["kwargs"])
    assert len(ours["outputs"]) == len(record["outputs"])
    for kind in ("outputs", "input gradients", "parameter gradients"):
        torch.testing.assert_close(
            ours[kind],
            record[kind],
            rtol=TOLERANCE,
            atol=TOLERANCE,
            msg=lambda message, kind=kind: f"{kind}: {message}",
        )


def tensors(value: Any) -> list[Tensor]:
    """The tensors inside nested tuples, lists and dictionaries, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def _leaf(value: Any) -> Any:
    """A copy of an argument whose floating-point tensors collect gradients."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.is_floating_point())
    if isinstance(value, list | tuple):
        return type(value)(_leaf(item) for item in value)
    return value


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad
