"""Tables of symbols in the introduction of a module: which variable a symbol stands for.

A table with the columns "Symbol" and "Code" in the docstring of a module is one. In a row, symbols
and names pair up one to one; a single symbol has all the names, and a single name is that of all
the symbols. ``of `f` and `g` `` says whose the names before it are. Other words are for readers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pylit.model import Module, Note
from pylit.prose.syntax import math_inline

_OWNED = re.compile(r"\b(of|and)\s+$")
_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:\[[^`]*\]|\([^`]*\))*")


@dataclass(frozen=True, slots=True)
class Name:
    """A name in the column "Code"."""

    path: tuple[str, ...]
    #: The function or class that it is of, if the row says so.
    within: str
    #: Where it is written: line and column from 1.
    line: int
    column: int
    #: As written, and without what follows the name, for messages.
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the TeX of its symbols, and its names."""

    line: int
    symbols: tuple[str, ...]
    names: tuple[Name, ...]

    def pairs(self) -> list[tuple[str, tuple[Name, ...]]] | None:
        """Each symbol with its names; None if there are several of both, and not equally many."""
        if len(self.symbols) == 1:
            return [(self.symbols[0], self.names)]
        if len(self.names) == 1:
            return [(symbol, self.names) for symbol in self.symbols]
        if len(self.names) not in (0, len(self.symbols)) and self.symbols:
            return None
        return [(s, (name,)) for s, name in zip(self.symbols, self.names, strict=False)]


def symbol_note(module: Module) -> Note | None:
    """The docstring of a module, if there is one and it has a table of symbols."""
    for note in module.sections[0].notes if module.sections else ():
        if note.kind == "docstring" and not module.sections[0].definition:
            return note if next(symbol_rows(note), None) is not None else None
    return None


def symbol_rows(note: Note) -> Iterator[Row]:
    """The rows of the tables of symbols in a note."""
    if not re.search(r"\|\s*symbol\s*\|", note.text, re.IGNORECASE):
        return
    parser = MarkdownIt("commonmark").enable("table")
    parser.inline.ruler.before("escape", "math_inline", math_inline)
    lines, tokens = note.text.split("\n"), parser.parse(note.text)
    columns: list[str] = []
    cells: list[Token] = []
    for opening, cell in pairwise(tokens):
        if opening.type == "tr_open":
            cells = []
        if opening.type in ("th_open", "td_open"):
            cells.append(cell)
        if cell.type != "tr_close":
            continue
        if opening.type == "th_close":
            columns = [token.content.strip().lower() for token in cells]
        elif {"symbol", "code"} <= set(columns):
            symbol, code = (cells[columns.index(column)] for column in ("symbol", "code"))
            line, _ = code.map or (0, 0)
            found = [t.content for t in symbol.children or () if t.type == "math_inline"]
            names = tuple(_names(code, lines[line], note.first_line + line, note.column))
            yield Row(note.first_line + line, tuple(found), names)


def _names(cell: Token, written: str, line: int, indent: int) -> Iterator[Name]:
    waiting: list[Name] = []
    owned: list[Name] = []
    at, before = max(written.find(cell.content), 0), ""
    for token in cell.children or ():
        text, word = token.content, _OWNED.search(before)
        before = text
        if token.type != "code_inline":
            continue
        at = max(written.find(text, at), at)
        if word and (waiting if word[1] == "of" else owned and not waiting):
            owned, waiting = waiting or owned, []
            yield from (replace(name, within=text) for name in owned)
            continue
        path = text
        if text.startswith(".") and waiting:
            path = ".".join([*waiting[-1].path[:-1], text[1:]])
        if match := _NAME.fullmatch(path):
            parts = tuple(match[1].removeprefix("self.").split("."))
            waiting.append(Name(parts, "", line, indent + at + 1, text))
    yield from waiting
