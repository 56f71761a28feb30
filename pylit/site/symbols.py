"""Mathematics and code that light up together: the table of symbols of one page, put to use.

The table says which names a symbol stands for. Each symbol gets a class, ``y1``, ``y2``, …; marks
with that class go around the symbol in every formula of the page, around its variables in the
code, and on the table's own names. What happens with the marks is the script's business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pylit.code.resolve import Resolver
from pylit.code.variables import Found, Variables
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, Note, NoteHtml
from pylit.prose.symboltable import Name, Row, symbol_note, symbol_rows
from pylit.source.scopes import Position
from pylit.tex.symbols import Symbol, marked, read_symbol


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
    note = symbol_note(module)
    if note is None:
        return PageSymbols()
    return _Reading(module, Variables(resolver), report).read(note)


class _Reading:
    """What is gathered while the rows of a table are read."""

    def __init__(self, module: Module, variables: Variables, report: Report) -> None:
        self._module = module
        self._variables = variables
        self._report = report
        #: Names without an owner, which stand wherever no other row has said otherwise.
        self._free: list[tuple[Found, str]] = []
        self._places: dict[Position, set[str]] = {}
        self._names: dict[tuple[int, str], set[str]] = {}
        self._symbols: dict[str, Symbol] = {}

    def read(self, note: Note) -> PageSymbols:
        for row in symbol_rows(note):
            self._row(row)
        owned = set(self._places)
        for found, name in self._free:
            for place in found.places - owned:
                self._places.setdefault(place, set()).add(name)
        code = {place: _joined(names) for place, names in self._places.items()}
        names = {place: _joined(names) for place, names in self._names.items()}
        return PageSymbols(tuple(self._symbols.values()), code, names)

    def _row(self, row: Row) -> None:
        found = {name: self._find(name) for name in row.names}
        pairs = row.pairs()
        if pairs is None:
            self._miscounted(row)
        for tex, names in pairs or ():
            known = [name for name in names if not found[name].fault]
            symbol = self._symbol(tex, known)
            for name in known if symbol else ():
                assert symbol is not None
                if found[name].places:
                    self._names.setdefault((row.line, name.text), set()).add(symbol.name)
                if name.within:
                    for place in found[name].places:
                        self._places.setdefault(place, set()).add(symbol.name)
                else:
                    self._free.append((found[name], symbol.name))

    def _symbol(self, tex: str, names: Sequence[Name]) -> Symbol | None:
        """The symbol of a row; one that an earlier row had keeps its class."""
        if not names:
            return None
        known = {name.path[-1] for name in names}
        symbol = read_symbol(tex, f"y{len(self._symbols) + 1}", known)
        if symbol is None:
            return None
        key = repr([(a.core, a.primes, a.sub, a.sup) for a in symbol.atoms])
        return self._symbols.setdefault(key, symbol)

    def _find(self, name: Name) -> Found:
        found = self._variables.find(name.path, name.within)
        if found.fault:
            hint = f"did you mean `{found.near}`?" if found.near else "name what the code has"
            self._fault("symbol-unknown", found.fault, hint, name.line, name.column)
        return found

    def _miscounted(self, row: Row) -> None:
        message = f"{len(row.symbols)} symbols and {len(row.names)} names do not pair up"
        hint = "give each symbol a name, or all of them one, or a row to each"
        self._fault("symbol-pairs", message, hint, row.line, row.names[0].column)

    def _fault(self, code: str, message: str, hint: str, line: int, column: int) -> None:
        source = self._module.source
        # Another's table was written for readers only.
        if source.own:
            text = source.lines[line - 1]
            self._report.add(Diagnostic(source.display, line, column, code, message, hint, text))


def _joined(names: set[str]) -> str:
    return " ".join(sorted(names, key=lambda name: int(name[1:])))
