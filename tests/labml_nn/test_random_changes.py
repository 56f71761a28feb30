"""Whatever is changed of a module, a kernel computes what the reference computes, or both raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).with_name("random_changes.py")
GIVEN = {"PYTHONPATH": str(PROGRAM.parents[2]), "OMP_NUM_THREADS": "1"}


def test_random_changes():
    """In a process of its own, since a kernel that reads out of bounds may end it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), "0", "40"],
        capture_output=True,
        text=True,
        env=os.environ | GIVEN,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert sum(int(part.split()[0]) for part in done.stdout.split(", ")) == 40
    assert "equal" in done.stdout and "raised" in done.stdout


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_complex_numbers(unhooked):
    """The checks of shapes would refuse them."""
    layer = unhooked("labml_nn.recurrent.elman").Elman(4, 5, 1).to(torch.complex128)
    x = torch.randn(6, 2, 4, dtype=torch.complex128, requires_grad=True)

    def gradient():
        return torch.autograd.grad(layer(x)[0].abs().square().sum(), x)[0]

    with unhooked("labml_nn.kernels").disabled():
        expected = gradient()
    torch.testing.assert_close(gradient(), expected)
