"""Whatever is changed of a module, a kernel computes what the reference computes, or both raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("random_changes.py")
GIVEN = {"PYTHONPATH": str(PROGRAM.parents[2]), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("first", [0, 30])
def test_random_changes(first):
    """Each in a process of its own, since a kernel that reads out of bounds may end it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(first), "30"],
        capture_output=True,
        text=True,
        env=os.environ | GIVEN,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert sum(int(part.split()[0]) for part in done.stdout.split(", ")) == 30
    assert "equal" in done.stdout and "raised" in done.stdout


COMPLEX = """
import torch
from labml_nn import kernels
from labml_nn.recurrent.elman import Elman

layer = Elman(4, 5, 1).to(torch.complex128)
x = torch.randn(6, 2, 4, dtype=torch.complex128, requires_grad=True)
gradient = lambda: torch.autograd.grad(layer(x)[0].abs().square().sum(), x)[0]
with kernels.disabled():
    expected = gradient()
torch.testing.assert_close(gradient(), expected)
"""


def test_complex_numbers():
    """In a process of its own: in the tests, annotations refuse them."""
    command = [sys.executable, "-W", "ignore", "-c", COMPLEX]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | GIVEN)
    assert done.returncode == 0, done.stderr
