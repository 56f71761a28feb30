"""Whatever is changed of a module, a kernel computes what the reference computes, or both raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("random_changes.py")


@pytest.mark.parametrize("first", [0, 30])
def test_random_changes(first):
    """Each in a process of its own, since a kernel that reads out of bounds may end it."""
    given = {"PYTHONPATH": str(PROGRAM.parents[2]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(first), "30"],
        capture_output=True,
        text=True,
        env=os.environ | given,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert sum(int(part.split()[0]) for part in done.stdout.split(", ")) == 30
    assert "equal" in done.stdout and "raised" in done.stdout
