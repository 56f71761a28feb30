"""Build the site, or render any Python package: ``python build_site.py --help``."""

import sys

from pylit.cli import main

if __name__ == "__main__":
    sys.exit(main())
