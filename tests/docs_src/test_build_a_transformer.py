"""Exercises from a blank: stubs fail their checks, answers pass, and mistakes are found."""

import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import torch
from matplotlib import pyplot

PAGE = Path(__file__).parents[2] / "docs_src/pages/build_a_transformer.md"
EXERCISES = re.split(r"(?m)^## \d+\. ", PAGE.read_text(encoding="utf-8"))[1:]
MISTAKE = re.compile(r"(?m)^\| `([^`]+)` \| `([^`]+)` \|")


def passes(names: dict[str, Any], *programs: str) -> bool:
    """Whether programs run one after the other, in a copy of what is defined already."""
    names = dict(names)
    try:
        for program in programs:
            exec(compile(program, "exercise", "exec"), names)
    except (
        AssertionError,
        NotImplementedError,
        AttributeError,
        RuntimeError,
        TypeError,
        IndexError,
    ):
        return False
    return True


@pytest.fixture
def plots():
    matplotlib.use("agg")
    torch.manual_seed(0)
    yield
    pyplot.close("all")


@pytest.mark.usefixtures("plots")
@pytest.mark.filterwarnings("ignore:__array__")
def test_stubs_fail_answers_pass_and_mistakes_are_found():
    names: dict[str, Any] = {"__name__": "exercise"}
    for number, text in enumerate(EXERCISES, 1):
        stub, check, answer = re.findall(r"(?s)```python\n(.*?)```", text)
        assert check.startswith(f"# Check {number}\n")
        assert not passes(names, stub, check), f"the stub of exercise {number} passes"
        assert MISTAKE.search(text)
        for right, wrong in MISTAKE.findall(text):
            assert right in answer, f"exercise {number}: {right} is not in the answer"
            changed = answer.replace(right, wrong)
            assert not passes(names, stub, changed, check), f"exercise {number}: {wrong} passes"
        exec(compile(stub + answer + check, f"exercise {number}", "exec"), names)
