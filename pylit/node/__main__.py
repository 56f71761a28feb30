"""``python -m pylit.node`` sets up Node.js and what comes from npm; ``--tests``, also for tests."""

import sys

from pylit.node.executable import NodeError, find_node, install
from pylit.node.packages import set_up


def main(arguments: list[str]) -> int:
    """Set up what is missing; the result is the exit status."""
    try:
        try:
            find_node()
        except NodeError:
            install()
        set_up(tests="--tests" in arguments)
    except NodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
