"""The limits of a run: its own time counts, and that for which it waits, not that of others."""

import subprocess
import sys

import pytest

PROGRAM = """
import time
from pylit import sandbox

if {busy}:
    # Another program has the processor all the time.
    sandbox._queued = time.monotonic
try:
    with sandbox.limits(0.02, 2**30):
        {work}
except sandbox.TooSlow as error:
    print(type(error).__name__)
else:
    print("done")
"""
SLEEP = "time.sleep(0.6)"
WORK = "end = time.process_time() + 5\n        while time.process_time() < end: pass"


@pytest.mark.parametrize(
    ("busy", "work", "expected"),
    [
        (False, SLEEP, "TooLong"),
        (True, SLEEP, "done"),
        (False, WORK, "TooSlow"),
        (True, WORK, "TooSlow"),
        (False, "pass", "done"),
    ],
)
def test_what_ends_a_run(busy: bool, work: str, expected: str):
    code = PROGRAM.format(busy=busy, work=work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (expected, "")
