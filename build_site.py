"""Build the site, or render any Python package: ``python build_site.py --help``."""

import sys
from pathlib import Path

from pylit.__main__ import main

if __name__ == "__main__":
    sys.exit(main(home=Path(__file__).resolve().parent))
