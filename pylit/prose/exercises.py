"""Exercises: what stands under a heading "Exercises", numbered ``**1.**``, ``**2.**``, and so on.

A question may have a hint and has an answer, both folded away:
``<details><summary>Hint</summary>``, ``<details><summary>Answer</summary>``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from pylit.model import NoteHtml
from pylit.prose.slugs import Slugs

HEADING = "Exercises"

_NUMBER = re.compile(r"\*\*(\d+)\.\*\*")
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


def mark_exercises(tokens: Sequence[Token], slugs: Slugs) -> None:
    """Give each exercise an anchor, so that other pages can lead to it."""
    inside = ""
    folded = 0
    for opening, inline in pairwise(tokens):
        if opening.type == "html_block":
            folded += opening.content.count("<details") - opening.content.count("</details")
        elif opening.type == "heading_open":
            if inline.content.strip() == HEADING:
                inside = opening.tag
            elif opening.tag <= inside:
                inside = ""
        elif inside and not folded and opening.type == "paragraph_open" and not opening.level:
            number = _NUMBER.match(inline.content)
            if number and slugs.claim(f"exercise-{number[1]}"):
                opening.attrs = {"id": f"exercise-{number[1]}"}


def exercises(note: NoteHtml) -> list[Exercise]:
    """The exercises of a note."""
    begins = [(match.start(), match[1]) for match in _BEGIN.finditer(note.html)]
    return [
        _exercise(anchor, note.html[start:end])
        for (start, anchor), (end, _) in pairwise([*begins, (len(note.html), "")])
    ]


def _exercise(anchor: str, html: str) -> Exercise:
    folded = {match[1]: match for match in _DETAILS.finditer(html)}
    ends = [match.start() for match in folded.values()]
    # What comes after the last answer is no part of the question.
    question = html[: min(ends)] if ends else html
    hint = folded["Hint"][0] if "Hint" in folded else ""
    return Exercise(anchor, question.strip(), hint, "Answer" in folded)
