"""A generator of annotated source: notes on the left, code on the right, as static pages.

Frozen values (`model`) flow through plain functions, in the order of `build`, which is where to
start reading. Each folder has one job, which its first lines say; `pyproject.toml` has the order in
which they import each other. See decision 047.
"""

__version__ = "1.0.0"
