"""Sections as rows of a page: which note is beside which code, and which needs the whole width.

The rules of `pylit.parse` say which note belongs to which code. Laid out as they are,
they leave holes: a docstring is taller than the one line of its class. Here the code that follows
without a note of its own comes under that line, and what is then still too long for its code goes
above both columns.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from pylit.model import CodeLine

#: Letters of a note from which on an introduction takes the whole width, although it has code.
LONG = 700
#: Notes of the whole width with so many letters are set in two columns where there is room: a
#: shorter one needs none, and with a longer one the second column would begin out of sight.
COLUMNS = range(450, 1900)
#: A note of so few letters may stay in sight while its code, if it is longer than `SCREENFUL`,
#: passes by.
BRIEF = 600
#: Lines of code that fit on a screen.
SCREENFUL = 18
#: Pixels by which a note may be taller than its code.
HOLE = 60

# Measures of a window of 1440 px: letters in a line of a note, and pixels.
_LETTERS, _LINE, _GAP, _CODE_LINE, _CODE_GAP = 62, 27, 14, 21, 20
_HEIGHTS = {"h2": 50, "h3": 44, "figure": 280, "details": 44, "hr": 60}

_TAG = re.compile(r"<[^>]*>")
_ASSISTIVE = re.compile(r"<mjx-assistive-mml>.*?</mjx-assistive-mml>", re.DOTALL)
_TALL = ("<table", "<pre", "<details", "<img", "<figure", ' display="true"')
_ENDS = re.compile(r"<(/?)([a-zA-Z][\w-]*)[^>]*?(/?)>")
_VOID = {"br", "hr", "img", "input", "col", "wbr"}
_ACROSS = re.compile(r"<(table|pre|figure|h[23])\b")
#: Lines of imports, which are folded.
_IMPORTS = re.compile(r"(import |from |__all__|#include|[\s)\]}]|$)")
_NAMES = re.compile(r"(?:import|from) ([\w.]+)")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of code without a gap, and the anchor of the definition that begins with them."""

    anchor: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A note and the blocks of code beside it, from top to bottom."""

    anchor: str
    note: str
    blocks: tuple[Block, ...] = ()
    #: Summary of folded code.
    folded: str = ""
    opening: bool = False

    @property
    def lines(self) -> int:
        """How many lines of code it shows."""
        return sum(len(block.lines) for block in self.blocks)

    @property
    def classes(self) -> str:
        """How the style sheet is to lay it out."""
        if self.note and self.blocks:
            brief = letters(self.note) <= BRIEF and not any(tag in self.note for tag in _TALL)
            return "brief" if self.tall and brief else ""
        if self.blocks:
            return "wide" if self.folded else "bare"
        # An introduction is read in one column.
        columns = letters(self.note) in COLUMNS and not _ACROSS.search(self.note, 1)
        return "wide columns" if columns and not self.opening else "wide"

    @property
    def tall(self) -> bool:
        """Whether its code may be taller than a window, so that its end must come into sight."""
        return bool(self.note) and self.lines > SCREENFUL


def rows(sections: Iterable[Row]) -> tuple[Row, ...]:
    """The rows of a page, in order, from those of its sections; every line of code is in one."""
    result: list[Row] = []
    # Code whose note is above it: it comes before the code of the next note.
    waiting: tuple[Block, ...] = ()
    owner = ""
    for row in _joined(sections):
        if waiting and not (row.note and row.blocks and _belongs(row.anchor, owner)):
            result.append(Row("", "", waiting))
            waiting = ()
        if not (row.note and row.blocks):
            result.append(row)
        elif not result and ("<table" in row.note or letters(row.note) > LONG):
            result.append(Row(row.anchor, row.note, opening=True))
            result.append(_imports(row.blocks))
        else:
            code = (*waiting, *row.blocks)
            above, beside = split(row.note, sum(len(block.lines) for block in code))
            waiting = () if beside else code
            owner = row.anchor or owner
            anchor = row.anchor
            if above:
                result.append(Row(anchor, above))
                anchor = ""
            if beside:
                result.append(Row(anchor, beside, code))
    return (*result, Row("", "", waiting)) if waiting else tuple(result)


def _joined(sections: Iterable[Row]) -> list[Row]:
    """Notes with their code, and with the code after it that has no note and the same owner."""
    found = [Row("", "")]
    for section in sections:
        last = found[-1]
        joins = last.anchor and last.blocks and not section.note
        if joins and _belongs(section.anchor, last.anchor):
            found[-1] = replace(last, blocks=(*last.blocks, *section.blocks))
        else:
            # The row has the anchor, and its first block needs none.
            blocks = tuple(Block("", block.lines) for block in section.blocks)
            found.append(replace(section, blocks=blocks))
    return found[1:]


def _belongs(anchor: str, owner: str) -> bool:
    """Whether code is of the body of a definition."""
    return not anchor or anchor.startswith(f"{owner}.")


def _imports(blocks: tuple[Block, ...]) -> Row:
    """The code of an introduction, folded if it only imports."""
    lines = [_TAG.sub("", line.html) for block in blocks for line in block.lines]
    if len(lines) < 3 or not all(map(_IMPORTS.match, lines)):
        return Row("", "", blocks)
    names = dict.fromkeys(match[1] for match in map(_NAMES.match, lines) if match)
    return Row("", "", blocks, folded=", ".join(names) or lines[0])


def split(note: str, lines: int) -> tuple[str, str]:
    """The parts of a note above both columns, and beside so many lines of code."""
    parts = list(_elements(note))
    room = lines * _CODE_LINE + _CODE_GAP + HOLE
    # How tall the rest of the note is from each of its elements on.
    rest = [*accumulate(map(_height, reversed(parts)))][::-1]
    if not parts or rest[0] <= room:
        return "", note
    for number in range(1, len(parts)):
        if rest[number] <= room and not _announces(parts[number - 1], parts[number]):
            return "".join(parts[:number]), "".join(parts[number:])
    return note, ""


def _announces(part: str, following: str) -> bool:
    """Whether an element is nothing without the next one."""
    text = _TAG.sub("", _ASSISTIVE.sub("", part)).rstrip()
    return part.lstrip().startswith("<h") or text.endswith(":") or following.startswith("<mjx")


def _elements(note: str) -> Iterator[str]:
    """The elements of a note, each with the text behind it."""
    depth = start = 0
    for tag in _ENDS.finditer(note):
        if depth == 0 and note[start : tag.start()].strip():
            yield note[start : tag.start()]
            start = tag.start()
        if not (tag[3] or tag[2] in _VOID):
            depth += -1 if tag[1] else 1
    yield note[start:]


def _height(part: str) -> float:
    """About how tall an element of a note is beside code."""
    name = part.lstrip()[1:8]
    for tag, height in _HEIGHTS.items():
        if name.startswith(tag):
            return height
    if name.startswith("mjx-con"):
        return 46 + 32 * max(part.count("<mjx-mtr"), part.count("<mjx-break size"))
    if name.startswith("div"):
        return _GAP + 38 * part.count("<tr") + _CODE_LINE * part.count("\n")
    items = [letters(item) for item in re.split(r"<li\b|<p\b", part)[1:]]
    return _GAP + _LINE * sum(math.ceil(item / _LETTERS) for item in items)


def letters(note: str) -> int:
    """About how many letters a reader sees; formulas count as little as they take."""
    return len(_TAG.sub("", _ASSISTIVE.sub("", note)))
