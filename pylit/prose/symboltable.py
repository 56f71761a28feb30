"""Tables of symbols in the introduction of a module: which variable a symbol stands for.

A table with the columns "Symbol" and "Code" in the docstring of a module is one. In a row, symbols
and names pair up one to one; a single symbol has all the names, and a single name is that of all
the symbols. ``of `f` and `g` `` says whose the names before it are. Other words are for readers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pylit.model import Module, Note

_CELL = re.compile(r"(?<!\\)\|")
_TEX = re.compile(r"\$([^$]+)\$")
_CODE = re.compile(r"(?:\b(of|and)\s+)?`([^`\n]+)`")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SUFFIX = re.compile(r"(?:\[[^`]*\]|\([^`]*\))*")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_HTML_CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)


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
    columns: list[str] = []
    for number, line in enumerate(note.text.split("\n"), start=note.first_line):
        if not line.strip().startswith("|"):
            columns = []
            continue
        spans = _cells(line)
        cells = [line[start:stop] for start, stop in spans]
        if not columns:
            columns = [cell.strip().lower() for cell in cells]
        elif _is_table(columns) and len(cells) == len(columns) and not _is_rule(cells):
            start, stop = spans[columns.index("code")]
            symbols = tuple(t.strip() for t in _TEX.findall(cells[columns.index("symbol")]))
            names = tuple(_names(line, start, stop, number, note.column))
            yield Row(number, symbols, names)


def mark_codes(html: str, rows: list[dict[str, str]]) -> str:
    """The HTML of the note with classes on the names in its tables.

    `rows` are those of `symbol_rows`, each with the text of its names and their classes.
    """
    remaining = iter(rows)

    def table(match: re.Match[str]) -> str:
        head, *body = _ROW.findall(match[0])
        columns = [
            re.sub(r"<[^>]*>", "", cell).strip().lower() for cell in _HTML_CELL.findall(head)
        ]
        if not _is_table(columns):
            return match[0]
        result = match[0]
        for row in body:
            result = result.replace(
                row, _marked_row(row, columns.index("code"), next(remaining, {})), 1
            )
        return result

    return _TABLE.sub(table, html)


def _marked_row(row: str, column: int, classes: dict[str, str]) -> str:
    cells = list(_HTML_CELL.finditer(row))
    if column >= len(cells):
        return row
    start, stop = cells[column].span(1)
    cell = row[start:stop]
    for text, name in classes.items():
        cell = cell.replace(f"<code>{text}</code>", f'<code class="{name}">{text}</code>')
    return row[:start] + cell + row[stop:]


def _is_table(columns: list[str]) -> bool:
    return {"symbol", "code"} <= set(columns)


def _is_rule(cells: list[str]) -> bool:
    return all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells)


def _cells(line: str) -> list[tuple[int, int]]:
    """Where the cells of a row begin and end."""
    bars = [match.start() for match in _CELL.finditer(line)]
    end = len(line.rstrip())
    stops = [*bars[1:], *([end] if bars[-1] + 1 < end else [])]
    return [(start + 1, stop) for start, stop in zip(bars, stops, strict=False)]


def _names(line: str, start: int, stop: int, number: int, indent: int) -> Iterator[Name]:
    waiting: list[Name] = []
    owned: list[Name] = []
    for match in _CODE.finditer(line, start, stop):
        word, text = match[1], match[2]
        if word == "of" and waiting:
            owned, waiting = waiting, []
            yield from (replace(name, within=text) for name in owned)
            continue
        if word == "and" and owned and not waiting:
            yield from (replace(name, within=text) for name in owned)
            continue
        if text.startswith(".") and waiting:
            text = ".".join([*waiting[-1].path[:-1], text[1:]])
        written = _NAME.match(text)
        if written and _SUFFIX.fullmatch(text, written.end()):
            path = tuple(written[0].removeprefix("self.").split("."))
            waiting.append(Name(path, "", number, indent + match.start(2) + 1, match[2]))
    yield from waiting
