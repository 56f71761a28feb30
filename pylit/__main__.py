"""``python -m pylit`` is the command ``pylit``."""

import sys

from pylit.cli import main

if __name__ == "__main__":
    sys.exit(main())
