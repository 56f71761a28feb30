"""The finished page of the glossary, and what links to its terms show."""

import re

from pylit.prose.glossary import definitions
from pylit.site.drafts import Draft
from pylit.tex.maths import fill
from pylit.tex.symbols import Typeset, typeset_formula

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
