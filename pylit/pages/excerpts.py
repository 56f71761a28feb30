"""An excerpt of a lesson for the home page: lines with their shapes, and the note of one.

See decision 049.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pylit.config import Excerpt, SiteConfig
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Draft
from pylit.notes.tex import Typeset
from pylit.pages.previews import on_any_page, part_html
from pylit.runs.shapes.lines import ModuleShapes


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code as HTML, and the shapes that its run made."""

    code: str
    shape: str
    lit: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """An excerpt as the home page shows it."""

    title: str
    #: The lit line on its page; where the page has a replay, that opens there.
    url: str
    replay: bool
    note: str
    lines: Sequence[Line]


def find_lines(
    wanted: Excerpt, source: Sequence[str], config: SiteConfig, report: Report
) -> list[int]:
    """The numbers of the lines that an excerpt names by their code; one that is none is a fault."""
    found = []
    for code in (*wanted.lines, wanted.lit):
        number = next((n for n, line in enumerate(source, 1) if code in line), 0)
        if number:
            found.append(number)
        else:
            message = f"`{wanted.page}` has no line with `{code}`"
            hint = "write a piece of one of its lines"
            report.add(Diagnostic(config.display, 0, 0, "navigation", message, hint))
    return found


def excerpt(draft: Draft, numbers: Sequence[int], shapes: ModuleShapes, typeset: Typeset) -> Shown:
    """The lines of a page by their numbers, the last of which is that of the lit one."""
    *some, lit = numbers
    lines = {line.number: (line, section) for section in draft.sections for line in section.code}
    _, beside = lines[lit]
    made = [
        Line(on_any_page(lines[number][0].html), shapes.chips.get(number, ""), number == lit)
        for number in some
    ]
    note = "".join(part_html(note.html, note, typeset) for note in beside.notes)
    step = "?step" if shapes.replay else ""
    return Shown(draft.title, f"{draft.url}{step}#L{lit}", bool(step), note, made)
