"""Shapes that docstrings, notes and tables declare, held against a run."""

import pytest
from pylit_sources import golden_cases
from shape_tools import AXES, module_of, run

from pylit.runs.shapes.check import check
from pylit.runs.shapes.plan import read_plan


@pytest.mark.parametrize(("text", "expected"), golden_cases("shape_notes"))
def test_what_is_said_of_notes(text, expected, tmp_path):
    """The text ends with the run of its code; each wrong line is listed with its fault."""
    code, start, trace = text.partition("def trace")
    module = module_of(code, tmp_path)
    found = check(module, read_plan(code), run(module, start + trace), AXES)
    assert {d.code for d in found} <= {"shape-note"}
    lines = code.splitlines()
    assert "".join(f"{lines[d.line - 1].strip()}\n  {d.message}\n" for d in found) == expected
