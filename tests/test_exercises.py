"""A lesson sets at least three exercises, answered with programs; other pages may set some.

That the programs run is the business of `test_examples`; here they are counted.
"""

import ast
import re
from pathlib import Path

import pytest
from shown_programs import blocks, is_program

from docs_src.lessons import LESSONS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "labml_nn").rglob("*.py"))
EXERCISE = re.compile(r"(?m)^\*\*(\d+)\.\*\*")
ANSWER = re.compile(r"(?s)<details><summary>Answer</summary>\n(.*?)</details>")


def exercises(text):
    """What stands under the last heading "Exercises", without the prefix of its comment."""
    heading = re.search(r"(?m)^# ## Exercises$", text)
    if heading is None:
        return None
    return re.sub(r"(?m)^# ?", "", text[heading.end() :])


def ends_in_a_check(code):
    """A program that asserts nothing shows nothing: it would pass whatever it computes."""
    last = ast.unparse(ast.parse(code).body[-1])
    return re.search(r"\bassert |\.assert_", last)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_sets_enough_exercises_with_programs(lesson):
    text = exercises(LESSONS[lesson].read_text(encoding="utf-8"))
    assert text is not None, 'this page must end in "## Exercises"'
    answers = ANSWER.findall(text)
    whole = [a for a in answers if any(is_program(code) for _, code in blocks(a))]
    assert len(whole) >= 3, f"{len(whole)} of {len(answers)} answers hold a program that runs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_exercises_are_numbered_and_answered_and_programs_are_whole(path):
    """On every page that sets exercises."""
    text = exercises(path.read_text(encoding="utf-8")) or ""
    numbers, answers = EXERCISE.findall(text), ANSWER.findall(text)
    assert numbers == [str(i + 1) for i in range(len(answers))]
    for answer in answers:
        for line, code in blocks(answer):
            assert is_program(code), f"block at line {line} of an answer lacks its imports"
            assert ends_in_a_check(code), f"block at line {line} of an answer checks nothing"
