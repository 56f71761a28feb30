"""Shapes that notes declare: ``* `x` has shape `[T, B, C]` ``, and tables of symbols.

Only what is surely meant is read: a name and a shape in the same breath. A text that says it in
another way is left alone, for a wrong complaint is worse than none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pylit.model import Module, Note, Section
from pylit.shapes.expressions import parse

#: One axis: the texts that it may be, ``("T", "1")`` for ``[T|1]``.
Axis = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a note says that a name's shape is; one of several, where it gives several."""

    #: ``""`` is what a function returns.
    name: str
    shapes: tuple[tuple[Axis, ...], ...]
    line: int
    #: The qualified name of a function or class; empty if it has to be found by the line.
    scope: str
    #: As written, for messages.
    text: str
    #: Whether it stands in a table of symbols, and speaks of the whole module; then `scope` is the
    #: bare name of a function, or empty.
    table: bool = False


_SHAPE = re.compile(r"`\[([^\]`\n]+)\]`")
_CODE = re.compile(r"`([^`\n]+)`")
_NAME = r"`[A-Za-z_][\w.]*(?:\[\w+\])?`"
_ITEM = re.compile(rf"[*-] +({_NAME}(?:(?:, and |, | and ){_NAME})*)(.*)", re.DOTALL)
_LINK = r",?(?: (?:is|are|has|have))?(?: of| the)?(?: shapes?)?:? *"
# "The rows of `tokens`" are not `tokens`.
_PLAIN = re.compile(rf"(?<!of )({_NAME}){_LINK}(`\[[^\]`\n]+\]`)")
#: What stands right before the shape of something.
_SAID = re.compile(r"(?:[,:(]|\b(?:is|are|Returns?|shapes?|tensor|vectors|mask))\s*$")
_RETURNS = re.compile(r"(?:^|(?<=\s))Returns?\b(.*?)(?:\bRaises\b|\.\s+[A-Z`]|\Z)", re.DOTALL)
_CELL = re.compile(r"(?<!\\)\|")
_OF = re.compile(r"\bof `(\w+)`")


def claims(module: Module, words: Mapping[str, str]) -> Iterator[Claim]:
    """All claims of a module's notes; `words` maps what notes call an axis to its letter."""
    for index, section in enumerate(module.sections):
        for note in section.notes:
            if index == 0 and note.kind == "docstring" and not section.definition:
                yield from _tables(note, words)
            else:
                yield from _prose(note, section, words)


def _prose(note: Note, section: Section, words: Mapping[str, str]) -> Iterator[Claim]:
    # A comment inside a function is of that function, which its line tells.
    scope = section.definition
    for begin, text in _paragraphs(note.text):
        for offset, claim in _claims_of(text, scope, words):
            line = note.first_line + begin + text[:offset].count("\n")
            yield replace(claim, line=line)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items, with the line they begin on; not what is fenced."""
    fenced = False
    current: list[str] = []
    begin = 0
    for number, line in enumerate([*text.split("\n"), ""]):
        stripped = line.strip()
        opens = stripped.startswith(("* ", "- "))
        if (not stripped or opens or stripped.startswith("```")) and current:
            yield begin, "\n".join(current)
            current = []
        if stripped.startswith("```"):
            fenced = not fenced
        elif stripped and not fenced:
            begin = begin if current else number
            current.append(stripped)


def _claims_of(text: str, scope: str, words: Mapping[str, str]) -> Iterator[tuple[int, Claim]]:
    """Claims of one paragraph, each with its offset in it."""
    item = _ITEM.match(text)
    if item:
        first = _SHAPE.search(item[2])
        before = item[2][: first.start()] if first else ""
        if first and _SAID.search(before) and not _CODE.search(before):
            shapes = _shapes(item[2], words)
            offset = item.start(2) + first.start()
            if shapes:
                for name in _CODE.findall(item[1]):
                    yield offset, Claim(name, shapes, 0, scope, first[0].strip("`"))
        return
    for match in _PLAIN.finditer(text):
        shapes = _shapes(match[2], words)
        if shapes:
            name = match[1].strip("`")
            yield match.start(), Claim(name, shapes, 0, scope, match[2].strip("`"))
    returns = _RETURNS.search(text) if scope else None
    first = _SHAPE.search(text, returns.start()) if returns else None
    if returns and first and _SAID.search(text[: first.start()]):
        shapes = _shapes(returns[1], words)
        if shapes:
            yield first.start(), Claim("", shapes, 0, scope, first[0].strip("`"))


def _tables(note: Note, words: Mapping[str, str]) -> Iterator[Claim]:
    """Rows of tables with a column "Code" and a column "Shape"."""
    columns: list[str] = []
    for number, row in enumerate(note.text.split("\n"), start=note.first_line):
        if not row.strip().startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in _CELL.split(row.strip().strip("|"))]
        if not columns:
            columns = [cell.lower() for cell in cells]
        elif {"code", "shape"} <= set(columns) and len(cells) == len(columns):
            code, shape = cells[columns.index("code")], cells[columns.index("shape")]
            yield from _row(code, shape, number, words)


def _row(code: str, shape: str, line: int, words: Mapping[str, str]) -> Iterator[Claim]:
    of = _OF.search(code)
    named = _OF.sub("", code)
    # Other words beside the names say which of several things is meant; who knows.
    if re.sub(r"`[^`]*`|[,…\s]|\band\b", "", named):
        return
    names: list[str] = []
    for name in _CODE.findall(named):
        owner = names[-1].rpartition(".")[0] if names else ""
        names.append(owner + name if name.startswith(".") else name)
    texts = [match[0] for match in _SHAPE.finditer(shape)]
    if len(texts) == 1:
        texts *= len(names)
    if not texts or len(texts) != len(names):
        return
    for name, text in zip(names, texts, strict=True):
        if shapes := _shapes(text, words):
            yield Claim(name, shapes, line, of[1] if of else "", text.strip("`"), table=True)


def _shapes(text: str, words: Mapping[str, str]) -> tuple[tuple[Axis, ...], ...]:
    """The shapes in a text; none at all if one of them cannot be read."""
    found = []
    for match in _SHAPE.finditer(text):
        axes = tuple(_axis(part, words) for part in match[1].split(","))
        if not all(axes):
            return ()
        found.append(axes)
    return tuple(found)


def _axis(text: str, words: Mapping[str, str]) -> Axis:
    """What an axis may be; empty for what is none."""
    options = []
    for option in re.split(r"\\?\||\bor\b", text):
        name = option.strip()
        if name not in ("...", "…"):
            name = re.sub(r"\w+", lambda word: words.get(word[0], word[0]), name)
            if parse(name) is None:
                return ()
        options.append("..." if name == "…" else name)
    return tuple(options)
