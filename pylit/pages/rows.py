"""Sections as rows of a page: which note is beside which code, which words beside which picture.

A note begins at the top of the code that it explains, always. The shorter one of the two stays in
sight while the longer one passes. A note without code, and a long introduction, stands beside its
own pictures: it is split where words follow a figure, a listing, a table or an answer. Two rows
with one small drawing each share the width. What has neither code nor pictures takes all of it.
See decisions 037 and 048.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pylit.model import CodeLine, Span, figure_slot

#: Letters of a note from which on an introduction takes the whole width, although it has code.
LONG = 700
#: A note of so few letters may stay in sight while its code, if it is longer than `SCREENFUL`,
#: passes by.
BRIEF = 600
#: Lines of code that fit on a screen.
SCREENFUL = 18

#: Pixels that a letter adds to the height of a note; 52 of them are a line of 27.
HEIGHT_OF_LETTER = 27 / 52
#: The words of two rows may be so much taller than the taller one of their drawings: by its
#: caption, and by what may well be empty.
WORDS_BELOW = 130

_TAG = re.compile(r"<[^>]*>")
#: A tag, whose attributes may hold ``>``.
_ELEMENT = re.compile(r"""<(/?)([A-Za-z][\w-]*)(?:"[^"]*"|'[^']*'|[^>"'])*>""")
_SPACE = re.compile(r"\s*")
_VOID = frozenset({"br", "col", "hr", "img", "input", "source", "track", "wbr"})
#: How a block begins that stands beside the words before it.
_PICTURE = re.compile(r'\s*<(?:figure|pre|details|div class="table-scroll")')
#: A figure and nothing else; its name.
_FIGURE = re.compile(
    rf'\s*<figure class="fig"[^>]*>{figure_slot("([^<]*)", "picture")}'
    r"(?:(?!<figure).)*</figure>\s*",
    re.DOTALL,
)
_HEADING = re.compile(r'\s*(?:<div class="original"[^>]*>\s*)?<h2')
#: Passages that are not translated, with their language.
_ORIGINAL = re.compile(r'\s*<div class="original"( lang="[^"]*")>\n(.*)</div>\s*', re.DOTALL)
#: Where one of them ends and the next begins.
_SEAM = re.compile(r'</div>\n<div class="original" lang="[^"]*">\n')
_HEARD = re.compile(r"<math\b.*?</math>", re.DOTALL)
_TALL = ("<table", "<pre", "<details", "<img", "<figure", ' display="true"')
#: Lines of imports, which are folded.
_IMPORTS = re.compile(r"(import |from |__all__|#include|[\s)\]}]|$)")
_NAMES = re.compile(r"(?:import|from) ([\w.]+)")
_NO_DRAWINGS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of code without a gap, and the anchor of the definition that begins with them."""

    anchor: str
    lines: tuple[CodeLine, ...]
    #: What the lines are, if they are folded. Which they are in the code of others, of which a page
    #: does not have too many.
    folded: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A note and the blocks of code beside it, from top to bottom."""

    anchor: str
    note: str
    blocks: tuple[Block, ...] = ()
    #: What stands beside the note, and words below it that stand beside the same.
    picture: str = ""
    after: str = ""
    #: The words below, whose picture stands beside that of this row where there is room.
    second: "Row | None" = None

    @property
    def lines(self) -> int:
        """How many lines of code it shows."""
        return sum(len(block.lines) for block in self.blocks if not block.folded)

    @property
    def groups(self) -> list[tuple[Block, ...]]:
        """Its blocks, those together that are shown, or folded, as one."""
        found: list[tuple[Block, ...]] = []
        for block in self.blocks:
            if found and block.folded == found[-1][0].folded and not block.span:
                found[-1] += (block,)
            else:
                found.append((block,))
        return found

    @property
    def classes(self) -> str:
        """How the style sheet is to lay it out."""
        if self.note and self.blocks:
            brief = letters(self.note) <= BRIEF and not any(tag in self.note for tag in _TALL)
            return "brief" if self.tall and brief else ""
        if self.second:
            return "pic pair"
        if self.picture:
            return "pic two" if self.after else "pic"
        return "bare" if any(not block.folded for block in self.blocks) else "wide"

    @property
    def tall(self) -> bool:
        """Whether its code may be taller than a window, so that its end must come into sight."""
        return bool(self.note) and self.lines > SCREENFUL


def rows(sections: Iterable[Row], small: Mapping[str, int] = _NO_DRAWINGS) -> tuple[Row, ...]:
    """The rows of a page, in order, from those of its sections; every line of code is in one.

    Args:
        sections: Notes, each with its code.
        small: Heights of the figures that are one small drawing, by their names.
    """
    found = _joined(sections)
    first = found[0] if found else Row("", "")
    if first.note and first.blocks and (_shows(first.note) or letters(first.note) > LONG):
        found[:1] = [replace(first, blocks=()), _imports(first.blocks)]
    parts = [part for row in found for part in ([row] if row.blocks else _split(row))]
    # The first picture stands beside the title, alone.
    return (*parts[:1], *_paired(parts[1:], small))


def _paired(parts: Iterable[Row], small: Mapping[str, int]) -> Iterator[Row]:
    """Rows of which two that follow each other, with one small drawing each, are one."""
    waiting: Row | None = None
    for part in parts:
        height = _drawing(part, small)
        if waiting and height and not (part.anchor or _HEADING.match(part.note)):
            words = letters(waiting.note + part.note + part.after) * HEIGHT_OF_LETTER
            if words <= max(height, _drawing(waiting, small)) + WORDS_BELOW:
                yield replace(waiting, second=part)
                waiting = None
                continue
        if waiting:
            yield waiting
        waiting = part if height and not part.after else None
        if not waiting:
            yield part
    if waiting:
        yield waiting


def _drawing(row: Row, small: Mapping[str, int]) -> int:
    """The height of what stands beside a row, if that is one small drawing, in pixels."""
    name = _FIGURE.fullmatch(row.picture)
    return small.get(name[1], 0) if name else 0


def _shows(note: str) -> bool:
    """Whether a note has something to look at that needs its own place."""
    return "<table" in note or "<figure" in note


def illustrated(found: Iterable[Row]) -> bool:
    """Whether most words of a page of prose would stand beside a picture."""
    total = shown = 0
    for row in (part for each in found for part in (each, each.second) if part):
        count = letters(row.note + row.after)
        total, shown = total + count, shown + (count if row.picture else 0)
    return shown >= 0.6 * total > 0


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
            blocks = tuple(replace(block, anchor="") for block in section.blocks)
            found.append(replace(section, blocks=blocks))
    return found[1:]


def _split(row: Row) -> list[Row]:
    """A note as rows, in the order of its source.

    A row ends where words follow a picture, and where a section begins. The last words of a section
    stand beside its last picture.
    """
    found = [Row(row.anchor, "")]
    for block in _blocks(row.note):
        last = found[-1]
        if _PICTURE.match(block):
            found[-1] = replace(last, picture=last.picture + block)
        elif last.picture or (_HEADING.match(block) and last.note):
            found.append(Row("", block))
        else:
            found[-1] = replace(last, note=_SEAM.sub("", last.note + block))
    joined = found[:1]
    for part in found[1:]:
        if joined[-1].picture and not part.picture and not _HEADING.match(part.note):
            joined[-1] = replace(joined[-1], after=part.note)
        else:
            joined.append(part)
    return joined


def _blocks(note: str) -> list[str]:
    """The outermost elements of a note, with the text around them; one if tags do not match."""
    found, depth, start = [], 0, 0
    for tag in _ELEMENT.finditer(note):
        if tag[2].lower() in _VOID or tag[0].endswith("/>"):
            continue
        depth += -1 if tag[1] else 1
        if depth <= 0:
            end = _SPACE.match(note, tag.end()).end()  # type: ignore[union-attr]
            found.append(note[start:end])
            start = end
    rest = [note[start:]] if start < len(note) else []
    return [note] if depth else [part for block in (*found, *rest) for part in _passages(block)]


def _passages(block: str) -> list[str]:
    """The elements of what is not translated, each in its language; any other block as it is."""
    original = _ORIGINAL.fullmatch(block)
    if not original:
        return [block]
    language, inner = original.groups()
    return [
        _ELEMENT.sub(lambda tag: f"{tag[0][:-1]}{language}>", one, count=1)
        if _PICTURE.match(one)
        else f'<div class="original"{language}>\n{one}</div>\n'
        for one in _blocks(inner)
    ]


def _belongs(anchor: str, owner: str) -> bool:
    """Whether code is of the body of a definition."""
    return not anchor or anchor.startswith(f"{owner}.")


def _imports(blocks: tuple[Block, ...]) -> Row:
    """The code of an introduction, folded if it only imports."""
    lines = [_TAG.sub("", line.html) for block in blocks for line in block.lines]
    if len(lines) < 3 or not all(map(_IMPORTS.match, lines)):
        return Row("", "", blocks)
    names = dict.fromkeys(match[1] for match in map(_NAMES.match, lines) if match)
    folded = ", ".join(names) or lines[0]
    return Row("", "", tuple(replace(block, folded=folded) for block in blocks))


def letters(note: str) -> int:
    """About how many letters a reader sees; formulas count as little as they take."""
    return len(_TAG.sub("", _HEARD.sub("", note)))
