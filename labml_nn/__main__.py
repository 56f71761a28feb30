r"""
---
title: The library as a program
summary: "`python -m labml_nn` is the command line."
---

What can be typed is explained [elsewhere](experiments/command_line/__init__.py). This
file is the one that Python looks for.
"""

import sys

from labml_nn.experiments.command_line import main

if __name__ == "__main__":
    sys.exit(main())
