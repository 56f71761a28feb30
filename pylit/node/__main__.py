"""``python -m pylit.node`` sets up Node.js and what comes from npm; ``--tests``, also for tests."""

import subprocess
import sys
from pathlib import Path

from pylit.node.packages import OLDEST, WHEEL, NodeError, find_node, set_up

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


def main(arguments: list[str]) -> int:
    """Set up what is missing; the result is the exit status."""
    try:
        try:
            find_node()
        except NodeError:
            print(f"No Node.js {OLDEST} or newer found; installing {WHEEL}", file=sys.stderr)
            pinned = ["--constraint", str(CONSTRAINTS)] if CONSTRAINTS.is_file() else []
            command = [sys.executable, "-m", "pip", "install", "--quiet", WHEEL, *pinned]
            subprocess.run(command, check=False)
            find_node.cache_clear()
        set_up(tests="--tests" in arguments)
    except NodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
