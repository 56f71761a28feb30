"""The limits of a run: of CPU time, and of time by the clock."""

import subprocess
import sys

import pytest

PROGRAM = """
import time
from pylit.runs import child as limits

try:
    with limits.limits(0.02, 2**30):
        {work}
except limits.TimeLimitExceeded as error:
    print(error)
else:
    print("done")
"""
SLEEP = "time.sleep(0.6)"
WORK = "end = time.process_time() + 5\n        while time.process_time() < end: pass"


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (SLEEP, "waits for what does not come"),
        (WORK, "took more than 0.02 s of processor time"),
        ("pass", "done"),
    ],
)
def test_what_ends_a_run(work: str, expected: str):
    code = PROGRAM.format(work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (expected, "")
