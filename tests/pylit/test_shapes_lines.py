"""Runs that move with the lines of code."""

import pytest

from pylit.runs.shapes.lines import read_run
from pylit.runs.tasks import read_code

TEXT = '''\
"""A note."""

import numpy  # which is used


# What it does.
def f(x):
    """Its note,

    of two paragraphs."""
    y = g(
        # between
        x,
    )
    "a text that nobody reads"
    return y
'''


def test_lines_that_hold_code():
    assert read_code(TEXT).lines == (3, 7, 11, 13, 16)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""A note."""', '"""A note\nof two lines."""', True),
        ("# What it does.", "\n\n# What\n# it does.\n", True),
        ("    of two paragraphs.", "", True),
        ("        # between\n", "", True),
        ("  # which is used", "", True),
        ('"a text that nobody reads"', "# a comment", True),
        ('"""A note."""', '"A" " note."', True),
        ("return y", "return x", False),
        ("        x,\n    )", "        x)", True),
        ("(\n        # between\n        x", "(x", False),
        ("(x):", '(x, y="""\n"""):', False),
        ("import numpy", "import numpy as n", False),
    ],
)
def test_notes_are_no_code(old, new, same):
    assert old in TEXT
    source, edited = read_code(TEXT), read_code(TEXT.replace(old, new))
    assert (edited.content == source.content) is same
    if same:
        assert TEXT.replace(old, new).split("\n")[edited.lines[-1] - 1] == "    return y"


def test_what_ran_moves_with_its_lines():
    edited = read_code("# One more.\n" + TEXT.replace("        # between\n", ""))
    now = dict(zip(read_code(TEXT).lines, edited.lines, strict=True))
    value = [["", [5], "float32", None]]
    told = {
        "values": [[13, "set", "y", [value]], [11, "set", "x", [value]]],
        "lines": [7, 8, 13],
    }
    found = read_run(told, {"T": 5}, now)
    assert list(found.values) == [(13, "set", "y"), (12, "set", "x")]
    # Line 8 was a docstring.
    assert found.lines == {8, 13}
