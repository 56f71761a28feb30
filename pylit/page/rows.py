"""Sections as rows of a page: what stands beside what, and what needs the whole width.

The rules of `pylit.source.sections` say which note belongs to which code. Laid out as they are,
they leave holes: a docstring is taller than the signature it stands beside, and pushes the body
down by a screen. Here the rows are chosen so that a page is read without holes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pylit.model import CodeLine, SectionView

#: Letters of a note from which on an introduction takes the whole width, although it has code.
LONG = 700
#: Notes of the whole width with so many letters are set in two columns where there is room: a
#: shorter one needs none, and the columns of a longer one would not fit on a screen.
COLUMNS = range(900, 3800)
#: What goes across both columns. Several of them would chop the text, unless most of it comes
#: before the first; then they go to the right of a single column.
_ACROSS = re.compile(r"<(table|pre|figure|h[23])\b.*?</\1>", re.DOTALL)
_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_FOLDED = re.compile(r"<details.*?</details>", re.DOTALL)
#: A note of so few letters may stay in sight while its code, if it is longer than `SCREENFUL`,
#: passes by.
BRIEF = 600
#: Lines of code that surely fit on a screen.
SCREENFUL = 18

_TAG = re.compile(r"<[^>]*>")
_HEARD = re.compile(r"<mjx-assistive-mml>.*?</mjx-assistive-mml>", re.DOTALL)
_TALL = ("<table", "<pre", "<details", "<img", "<figure", ' display="true"')


@dataclass(frozen=True, slots=True)
class Row:
    """A note and the code beside it. Several blocks of code stand under each other."""

    anchor: str
    note: str
    blocks: tuple[tuple[CodeLine, ...], ...]

    @property
    def lines(self) -> int:
        """How many lines of code it shows."""
        return sum(map(len, self.blocks))

    @property
    def classes(self) -> str:
        """How the style sheet is to lay it out."""
        if self.note and self.blocks:
            return "brief" if self.lines > SCREENFUL and _is_brief(self.note) else ""
        if self.blocks:
            return "bare"
        return " ".join(["wide", *_columns(self.note)])

    @property
    def parts(self) -> tuple[str, ...]:
        """The note, or its two halves where they stand side by side."""
        if "pair" not in self.classes:
            return (self.note,)
        hidden = _FOLDED.sub(lambda folded: " " * len(folded[0]), self.note)
        second = hidden.index("<h2", 1)
        return (self.note[:second], self.note[second:])

    @property
    def tall(self) -> bool:
        """Whether its code may be taller than a window, so that its end must come into sight."""
        return bool(self.note) and self.lines > SCREENFUL


def rows(sections: Iterable[SectionView]) -> tuple[Row, ...]:
    """The rows of a page, in order; every line of code is in one of them."""
    result: list[Row] = []
    for section in sections:
        last = result[-1] if result else None
        if last is not None and last.anchor and last.blocks and _is_body(section):
            result[-1] = Row(last.anchor, last.note, (*last.blocks, section.code))
        elif last is None:
            result.extend(_opening(section))
        else:
            result.append(_row(section))
    return tuple(result)


def _row(section: SectionView) -> Row:
    return Row(section.anchor, section.note, (section.code,) if section.code else ())


def _is_body(section: SectionView) -> bool:
    """Whether it is what follows a signature and has nothing to say of its own."""
    return not section.note and not section.anchor


def _opening(section: SectionView) -> Iterator[Row]:
    """An introduction is an essay, and its code only imports: one after the other."""
    long = "<table" in section.note or letters(section.note) > LONG
    if section.code and long:
        yield Row(section.anchor, section.note, ())
        yield Row("", "", (section.code,))
    else:
        yield _row(section)


def letters(note: str) -> int:
    """About how many letters a reader sees; formulas count as little as they take."""
    return len(_TAG.sub("", _HEARD.sub("", note)))


def _columns(note: str) -> tuple[str, ...]:
    """Classes of a note alone: how it makes use of the width, where there is any."""
    shown = _FOLDED.sub("", note)
    across = [match[1] for match in _ACROSS.finditer(shown)]
    opens = note.startswith(("<h2", "<h3"))
    length = letters(shown)
    # Every other piece is the name of what stands between two texts.
    before, *after = [letters(piece) for piece in _ACROSS.split(shown)[2 * opens :: 2]]
    if before in COLUMNS and sum(after) < before:
        return ("columns",)
    if length >= COLUMNS.stop:
        return ("single",)
    if across == ["table"] and letters(_TABLE.sub("", shown)) < COLUMNS.start:
        return ("beside",)
    if across == ["h2", "h2"] and opens:
        return ("pair",)
    return ("columns",) if len(across) - opens <= 1 and length in COLUMNS else ("single",)


def _is_brief(note: str) -> bool:
    return letters(note) <= BRIEF and not any(sign in note for sign in _TALL)
