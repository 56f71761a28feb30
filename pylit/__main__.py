"""``python -m pylit`` is ``pylit``."""

import sys

from pylit.cli import main

if __name__ == "__main__":
    sys.exit(main())
