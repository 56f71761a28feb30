"""Mathematics and code that light up together: the table of symbols of one page, put to use.

A table with the columns "Symbol" and "Code" in the docstring of a module is one. In a row, symbols
and names pair up one to one; a single symbol has all the names, and a single name is that of all
the symbols. ``of `f` and `g` `` says whose the names before it are. Other words are for readers.

Each symbol gets a class, ``y1``, ``y2``, …; marks with that class go around the symbol in every
formula of the page, around its variables in the code, and on the table's own names. What happens
with the marks is the script's business.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pylit.code.resolve import Resolver
from pylit.code.variables import Variables
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, NoteHtml
from pylit.prose.syntax import math_inline
from pylit.source.scopes import Position
from pylit.tex.symbols import Symbol, marked, read_symbol

_TABLE = re.compile(r"\|\s*symbol\s*\|", re.IGNORECASE)
_OWNED = re.compile(r"\b(of|and)\s+$")
_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:\[[^`]*\]|\([^`]*\))*")


class Name(NamedTuple):
    """A name in the column "Code", as written in some column of its line."""

    path: tuple[str, ...]
    column: int
    text: str
    #: The function or class that it is of, if the row says so.
    within: str = ""


@dataclass(frozen=True, slots=True)
class PageSymbols:
    """The symbols of a page; of a page without a table there are none, and nothing is marked."""

    symbols: tuple[Symbol, ...] = ()
    #: Position in the code -> classes.
    code: Mapping[Position, str] = field(default_factory=dict)
    #: Line and text of a name in the table -> classes.
    names: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def mark(self, note: NoteHtml) -> NoteHtml:
        """A note whose formulas have their symbols marked."""
        if not self.symbols or not note.formulas:
            return note
        found = (replace(f, marked=marked(f.tex, self.symbols)) for f in note.formulas)
        return replace(note, formulas=tuple(found))


def page_symbols(module: Module, resolver: Resolver, report: Report) -> PageSymbols:
    """The symbols of a module's page. A name that the code does not have is a fault of our own."""

    def fault(code: str, message: str, hint: str, line: int, name: Name) -> None:
        if module.source.own:  # Another's table was written for readers only.
            text = module.source.lines[line - 1]
            place = module.source.display, line, name.column
            report.add(Diagnostic(*place, code, message, hint, text))

    rows = list(symbol_rows(module))
    variables = Variables(resolver) if rows else None
    symbols: dict[object, Symbol] = {}
    # A name without an owner stands wherever no row has said otherwise.
    owned: dict[Position, set[str]] = defaultdict(set)
    free: dict[Position, set[str]] = defaultdict(set)
    told: dict[tuple[int, str], set[str]] = defaultdict(set)
    for line, texs, written in rows:
        assert variables is not None
        found = [(name, variables.find(name.path, name.within)) for name in written]
        for name, variable in found:
            if variable.fault:
                near = variable.near
                hint = f"did you mean `{near}`?" if near else "name what the code has"
                fault("symbol-unknown", variable.fault, hint, line, name)
        pairs = [(tex, [one]) for tex, one in zip(texs, found, strict=False)]
        if 1 in (len(texs), len(found)):
            pairs = [(tex, found) for tex in texs]
        elif texs and found and len(texs) != len(found):
            message = f"{len(texs)} symbols and {len(found)} names do not pair up"
            hint = "give each symbol a name, or all of them one, or a row to each"
            fault("symbol-pairs", message, hint, line, written[0])
            continue
        for tex, all_named in pairs:
            named = [(name, variable) for name, variable in all_named if not variable.fault]
            last = {name.path[-1] for name, _ in named}
            symbol = read_symbol(tex, f"y{len(symbols) + 1}", last) if named else None
            if symbol is None:
                continue
            # One that an earlier row had keeps its class.
            key = tuple((atom.core, atom.primes, atom.sub, atom.sup) for atom in symbol.atoms)
            symbol = symbols.setdefault(key, symbol)
            for name, variable in named:
                if variable.places:
                    told[line, name.text].add(symbol.name)
                for place in variable.places:
                    (owned if name.within else free)[place].add(symbol.name)

    def joined(classes: set[str]) -> str:
        return " ".join(sorted(classes, key=lambda name: int(name[1:])))

    code = {place: joined(classes) for place, classes in (free | owned).items()}
    names = {place: joined(classes) for place, classes in told.items()}
    return PageSymbols(tuple(symbols.values()), code, names)


def symbol_rows(module: Module) -> Iterator[tuple[int, list[str], list[Name]]]:
    """The rows of the tables in a module's docstring: lines, TeX of the symbols, and names."""
    first = module.sections[0] if module.sections else None
    notes = first.notes if first and not first.definition else ()
    note = next((note for note in notes if note.kind == "docstring"), None)
    if note is None or not _TABLE.search(note.text):
        return
    parser = MarkdownIt("commonmark").enable("table")
    parser.inline.ruler.before("escape", "math_inline", math_inline)
    lines = note.text.split("\n")
    columns: list[str] = []
    cells: list[Token] = []
    for token in parser.parse(note.text):
        if token.type == "table_open":
            columns = []
        elif token.type == "tr_open":
            cells = []
        elif token.type == "inline":
            cells.append(token)
        elif token.type == "thead_close":
            columns = [cell.content.strip().lower() for cell in cells]
        elif token.type == "tr_close" and {"symbol", "code"} <= set(columns):
            symbol, code = (cells[columns.index(column)] for column in ("symbol", "code"))
            line, _ = code.map or (0, 0)
            texs = [t.content for t in symbol.children or () if t.type == "math_inline"]
            yield note.first_line + line, texs, list(_names(code, lines[line], note.column + 1))


def _names(cell: Token, written: str, indent: int) -> Iterator[Name]:
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
            yield from (name._replace(within=text) for name in owned)
            continue
        path = text
        if text.startswith(".") and waiting:
            path = ".".join([*waiting[-1].path[:-1], text[1:]])
        if match := _NAME.fullmatch(path):
            parts = tuple(match[1].removeprefix("self.").split("."))
            waiting.append(Name(parts, indent + at, text))
    yield from waiting
