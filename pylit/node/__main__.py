"""``python -m pylit.node`` sets up what comes from npm; ``--tests``, also what only tests need."""

import sys

from pylit.node.process import NodeError, set_up

try:
    set_up(tests="--tests" in sys.argv)
except NodeError as error:
    sys.exit(f"error: {error}")
