"""The limit of a run by the clock; `test_shapes_build` has one that computes for too long."""

import subprocess
import sys

PROGRAM = """
import time
from pylit.runs.child import TimeLimitExceeded, limits

try:
    with limits(0.02, 2**30):
        time.sleep(0.6)
except TimeLimitExceeded as error:
    print(error)
"""


def test_a_run_that_only_waits_is_ended():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("waits for what does not come\n", "")
