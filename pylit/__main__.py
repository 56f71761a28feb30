"""The command ``pylit``, and ``python -m pylit``."""

import sys
from pathlib import Path


def main(home: Path | None = None) -> int:
    """Run ``pylit``, or ``build_site.py`` of a repository `home`; returns the exit status."""
    if sys.platform == "win32":
        # Its locks and the limits of what it runs are those of Unix.
        print("pylit runs on Linux and macOS; on Windows, run it inside of WSL.", file=sys.stderr)
        return 2
    from pylit import cli

    return cli.main(home=home)


if __name__ == "__main__":
    sys.exit(main())
