"""Exercises: what stands under a heading "Exercises", numbered ``**1.**``, ``**2.**``, and so on.

A question may have a hint and has an answer, both folded away:
``<details><summary>Hint</summary>``, ``<details><summary>Answer</summary>``.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from pylit.model import NoteHtml

HEADING = "Exercises"

#: How a question begins.
NUMBER = re.compile(r"\*\*(\d+)\.\*\*")
_BEGIN = re.compile(r'<p id="(exercise-\d+)">')
_DETAILS = re.compile(r"<details>\s*<summary>(Hint|Answer)</summary>.*?</details>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise, as HTML of its page, with the slots of its note's formulas."""

    anchor: str
    question: str
    #: With the element that folds it away; empty if there is none.
    hint: str
    answered: bool


def exercises(note: NoteHtml) -> list[Exercise]:
    """The exercises of a note."""
    found = []
    begins = [(match.start(), match[1]) for match in _BEGIN.finditer(note.html)]
    for (start, anchor), (end, _) in pairwise([*begins, (len(note.html), "")]):
        html = note.html[start:end]
        folded = {match[1]: match for match in _DETAILS.finditer(html)}
        # What comes after the last answer is no part of the question.
        question = html[: min((match.start() for match in folded.values()), default=None)].strip()
        hint = folded["Hint"][0] if "Hint" in folded else ""
        found.append(Exercise(anchor, question, hint, "Answer" in folded))
    return found
