"""Lines of a page: a whole module with its chips, and runs that move with the lines of code."""

from pathlib import Path

import pytest
from shape_tools import AXES, module_of, plain
from shape_tools import run as run_traces

from pylit.runs import read_source
from pylit.shapes.check import check
from pylit.shapes.lines import module_lines, read_run
from pylit.shapes.plan import read_plan

GOLDEN = Path(__file__).with_name("golden") / "shapes"


def test_a_run_becomes_the_golden_listing(tmp_path: Path):
    source = (GOLDEN / "memory.py").read_text(encoding="utf-8")
    module = module_of(source, tmp_path)
    plan = read_plan(source)
    traced = run_traces(module, (GOLDEN / "memory.trace.py").read_text(encoding="utf-8"))
    shapes = module_lines(source, plan, traced)
    listing = []
    for number, line in enumerate(source.split("\n"), start=1):
        rail = ":" if number in shapes.unreached else " "
        chip = plain(shapes.chips.get(number, ""))
        listing.append(f"{rail}{line:92}{chip}".rstrip())
    assert "\n".join(listing).rstrip() + "\n" == (GOLDEN / "memory.txt").read_text(encoding="utf-8")
    assert check(module, plan, traced, AXES) == ()


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
    assert read_source(TEXT).numbers == (3, 7, 11, 13, 14, 16)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A note."""', '"""A note\nof two lines."""'),
        ("# What it does.", "\n\n# What\n# it does.\n"),
        ("    of two paragraphs.", ""),
        ("        # between\n", ""),
        ("  # which is used", ""),
        ('"a text that nobody reads"', "# a comment"),
        ('"""A note."""', '"A" " note."'),
    ],
)
def test_notes_are_none_of_it(old: str, new: str):
    assert old in TEXT
    edited = TEXT.replace(old, new)
    assert read_source(edited).content == read_source(TEXT).content
    where = read_source(edited).numbers
    assert edited.split("\n")[where[-1] - 1] == "    return y"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return y", "return x"),
        ("        x,\n    )", "        x)"),
        ("(x):", '(x, y="""\n"""):'),
        ("import numpy", "import numpy as n"),
    ],
)
def test_code_is(old: str, new: str):
    assert old in TEXT
    assert read_source(TEXT.replace(old, new)).content != read_source(TEXT).content


def test_what_ran_moves_with_its_lines():
    edited = read_source("# One more.\n" + TEXT.replace("        # between\n", ""))
    now = dict(zip(read_source(TEXT).numbers, edited.numbers, strict=True))
    value = [["", [5], "float32", None]]
    told = {
        "values": [[14, "set", "y", [value]], [11, "set", "x", [value]]],
        "calls": [[7, [{"x": value}]]],
        "lines": [7, 8, 14],
    }
    found = read_run(told, {"T": 5}, now)
    assert list(found.values) == [(14, "set", "y"), (12, "set", "x")]
    assert list(found.calls) == [8]
    # Line 8 was a docstring.
    assert found.lines == {8, 14}
