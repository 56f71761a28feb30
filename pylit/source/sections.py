"""A module as sections: notes, and the code they stand beside.

The rules that authors of this style rely on:

1. A leading module docstring is the first note. Code after it joins it.
2. ``class`` and ``def`` open a section together with their decorators; a comment block directly
   above them is their note.
3. A docstring under a header becomes the header's note, the whole signature its code; the body
   opens a new section.
4. A comment block on lines of its own opens a section; a blank line separates two blocks. Comments
   split expressions too.
5. A lone ``#`` opens a section with no note: "unannotated from here".
6. Trailing comments stay in the code. Blank lines around a section are trimmed.
7. Nothing is lost: notes and code, put together, are the file, line by line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pylit.model import Note, Section, Span

#: Line on which a class or function begins -> the name its section carries, and the first line of
#: the docstring that the header waits for, if there is one: notes up to it are the header's.
Openings = Mapping[int, tuple[str, int]]


@dataclass(slots=True)
class _Draft:
    """A section while its lines arrive: notes, then code, then perhaps the notes of a header."""

    notes: list[Note] = field(default_factory=list)
    first: int = 0
    last: int = 0
    definition: str = ""
    closed: bool = False

    def empty(self) -> bool:
        """Whether it holds nothing yet, or only lone ``#``."""
        return not self.first and not any(n.text or n.kind == "docstring" for n in self.notes)

    def finish(self) -> Section:
        """The section; a lone ``#`` that nothing follows is shown as the code it is."""
        lone = self.empty()
        first = self.notes[0].span.first if lone else self.first
        last = self.notes[-1].span.last if lone else self.last
        notes = () if lone else tuple(self.notes)
        return Section(notes, Span(first, last) if first else None, self.definition)


def build_sections(
    lines: Sequence[str], notes: Iterable[Note], openings: Openings
) -> tuple[Section, ...]:
    """Pair the notes of a module with its code, line after line."""
    note_at = {note.span.first: note for note in notes}
    drafts = [draft := _Draft()]
    waiting_for = number = ends = 0
    while number < len(lines):
        number += 1
        note, opening = note_at.get(number), openings.get(number)
        if note is not None:
            if number > waiting_for and not draft.empty():
                drafts.append(draft := _Draft())
            draft.notes.append(note)
            draft.closed = bool(draft.first)
            number = note.span.last
            ends = number if note.kind == "comment" and not draft.first else 0
        elif lines[number - 1].strip():
            # A comment block directly above a header is its note.
            apart = opening and not draft.empty() and ends != number - 1
            if draft.closed or apart:
                drafts.append(draft := _Draft())
            if opening:
                draft.definition, waiting_for = opening
            draft.first, draft.last, ends = draft.first or number, number, 0
    return tuple(draft.finish() for draft in drafts if draft.notes or draft.first)
