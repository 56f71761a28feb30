"""``python -m pylit.notebooks``: make the notebooks anew, and run those whose code has changed."""

import sys

from pylit.notebooks.command import main

sys.exit(main())
