"""The finished page of the glossary: what links to its terms show, and what search finds."""

import html
import re
from collections.abc import Iterator

from pylit.prose.glossary import GLOSSARY, definitions
from pylit.site.drafts import Draft
from pylit.tex.maths import fill
from pylit.tex.symbols import Typeset, typeset_formula

_TAG = re.compile(r"<[^>]*>|\ue000\d+\ue001")
_LINK = re.compile(r"</?a\b[^>]*>")


def term_previews(page: Draft, typeset: Typeset) -> dict[str, list[str]]:
    """What a link to a term shows before it is followed, by anchor."""
    previews = {}
    for section in page.sections:
        for note in section.notes:
            formulas = [typeset_formula(formula, typeset) for formula in note.formulas]
            for anchor, (name, definition) in definitions(note).items():
                said = fill(_LINK.sub("", definition), formulas)
                previews[anchor] = ["", f"<b>{name}</b><p>{said}</p>"]
    return previews


def search_terms(page: Draft) -> Iterator[tuple[str, str, str]]:
    """The terms of the glossary as parts of its page; another page has none."""
    notes = [note for section in page.sections for note in section.notes]
    for note in notes if page.url == GLOSSARY else ():
        for anchor, shown in definitions(note).items():
            name, text = (html.unescape(_TAG.sub("", part)) for part in shown)
            yield anchor, name, text
