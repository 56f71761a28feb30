"""
---
title: Entry point
summary: "`python -m labml_nn` runs the command line."
---

See [the command line](experiments/command_line.py).
"""

import sys

from labml_nn.experiments.command_line import main

if __name__ == "__main__":
    sys.exit(main())
