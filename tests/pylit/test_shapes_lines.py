"""Lines of a page: a whole module with its chips, and runs that move with the lines of code."""

from pathlib import Path

import pytest
from shape_tools import AXES, module_of, plain
from shape_tools import run as run_traces

from pylit.shapes.check import check
from pylit.shapes.lines import Run, Traced, code_lines, module_lines, moved
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
    assert code_lines(TEXT).numbers == (3, 7, 11, 13, 14, 16)


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
    assert code_lines(edited).content == code_lines(TEXT).content
    where = code_lines(edited).numbers
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
    assert code_lines(TEXT.replace(old, new)).content != code_lines(TEXT).content


def run(line: int) -> Run:
    values = {(line, "set", "y"): ((("T",),),)}
    return Run({"T": 5}, values, {7: ({},)}, {}, frozenset({7, 8, line}))  # type: ignore


def test_runs_move_with_their_lines():
    edited = code_lines("# One more.\n" + TEXT.replace("        # between\n", ""))
    traced = [Traced("here:1", (run(14), run(11)))]
    (found,) = moved(traced, code_lines(TEXT), edited) or ()
    first, second = found.runs
    assert list(first.values) == [(14, "set", "y")]
    assert list(second.values) == [(12, "set", "y")]
    assert first.calls == {8: ({},)}
    # Line 8 was a docstring.
    assert first.lines == {8, 14}
    assert found.place == "here:1"


def test_runs_of_other_code_or_other_lines_do_not():
    lines = code_lines(TEXT)
    assert moved([Traced("here:1", (run(14), run(14)))], lines, code_lines("x = 1\n")) is None
    assert moved([Traced("here:1", (run(14), run(12)))], lines, lines) is None
