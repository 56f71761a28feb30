"""Programs for a GPU without a GPU: run by Triton's interpreter, or compiled for one elsewhere."""

import importlib
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from feedback_tools import build, tokens

from labml_nn.transformers.feedback.by_hand import form_of
from labml_nn.transformers.feedback.by_hand.weights import Weights, fold

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime.interpreter import InterpretedFunction  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from labml_nn.transformers.feedback.gpu.kernel import backward, blocks, forward, launch  # noqa: E402

PROGRAMS = (blocks, forward, backward)


@contextmanager
def interpret(monkeypatch):
    """Run programs on the CPU: those of ours, and those that Triton has written in itself.

    An environment variable does that for a whole process, and only before Triton is imported.
    """
    importlib.import_module("triton.experimental.gluon")  # looks at what changes here
    for module in (tl, tl.standard, *PROGRAMS):
        for name, function in list(vars(module).items()):
            if isinstance(function, JITFunction):
                monkeypatch.setattr(module, name, InterpretedFunction(function.fn))

    # The interpreter puts its own operations into the language, and does not take all out again.
    places = [tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base]
    before = [dict(vars(place)) for place in places]
    yield
    for place, members in zip(places, before, strict=True):
        for name, value in list(vars(place).items()):
            if name not in members:
                delattr(place, name)
            elif value is not members[name]:
                setattr(place, name, members[name])


class _Elsewhere:
    """A driver of a GPU that is not there: enough to compile for it."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_device(self):
        return self.target.arch

    def get_current_stream(self, _):
        return 0

    def get_current_target(self):
        return self.target


def compile_only(monkeypatch, tmp_path, capability):
    """Launches compile, and leave their kernels in the list that is returned."""
    compiled = []
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(triton.runtime.driver, "_active", _Elsewhere(capability))

    def launch_nothing(program, text, *arguments):
        compiled.append(program.warmup(*arguments, grid=(1,), num_warps=launch.WARPS))

    monkeypatch.setattr(launch, "launch", launch_nothing)
    return compiled


def resources(kernel, tmp_path):
    """Registers of a thread, bytes that did not fit into them, bytes of shared memory."""
    path = tmp_path / "kernel.cubin"
    path.write_bytes(kernel.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    command = [tool, "--dump-resource-usage", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    registers, stack = (int(re.search(rf"{name}:(\d+)", text)[1]) for name in ("REG", "STACK"))
    return registers, stack, kernel.metadata.shared


def recurrence(dtype=torch.float64, length=4, batch=2, before=2, blank=None, **options):
    """What `recur` is called with: `(form, blank, x_seq, keys, values, weights)`."""
    model = build(True, **options).to(dtype)
    width = model.key.linear.in_features
    longest = before + length - 1
    if model.horizon is not None:
        longest = min(longest, model.horizon)
    weights = Weights(*(x.detach().requires_grad_() for x in fold(model, longest, dtype)))
    rows = (before, batch, model.heads, width // model.heads)
    return (
        form_of(model),
        blank,
        tokens(length, batch, width, dtype=dtype).requires_grad_(),
        tokens(*rows, seed=1, dtype=dtype).requires_grad_(),
        tokens(*rows, seed=2, dtype=dtype).requires_grad_(),
        weights,
    )
