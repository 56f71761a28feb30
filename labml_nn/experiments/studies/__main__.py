"""
---
title: The command for comparisons
summary: What python -m labml_nn.experiments.studies begins with.
---

All that there is to see is [on the page of the runner](runner.py).
"""

import sys

from labml_nn.experiments.studies.runner import main

if __name__ == "__main__":
    sys.exit(main())
