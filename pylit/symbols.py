r"""Symbols of a table found in formulas, and marked there with classes.

A formula is marked in its TeX, ``\class{y1}{Q}_{tbhk}``, and typeset like that; so what is cached
is what is shown. The mark is around the nucleus alone, which leaves every glyph where it was.

What is the same symbol? The table's ``Q`` is also ``Q_{tbhk}`` and ``Q^\top``, for an index or a
transpose makes no other thing of it. It is not ``Q'``, ``\hat{Q}``, ``W^Q`` or ``Q^K``, for those
are names. An index that the table writes stands for any: ``x_t^l`` is also ``x^{l-1}_{t+1}``, but
never ``x_t``.

Only what is surely mathematics is read. Names of operators, words, and the arguments of commands
that nobody here knows are left out, and a formula that defines commands of its own is not read at
all: a letter that is taken for a symbol by mistake would light up the wrong variable.
"""

import ast
import html
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Formula, Module, NoteHtml
from pylit.names import Resolver
from pylit.scopes import Position, Scope, name_of, place
from pylit.syntax import math_inline
from pylit.tex import Rendered

Typeset = Callable[[str, bool], Rendered]

_TOKEN = re.compile(r"(?:\s|%[^\n]*\n?)+|(\\[A-Za-z]+|\\.|[0-9]+|.)", re.DOTALL)


def _commands(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: With one argument they are a nucleus of their own: accents, typefaces, words.
_WRAPS = _commands(
    r"""
    \hat \bar \tilde \vec \dot \ddot \check \breve \acute \grave \mathring \widehat \widetilde
    \overline \underline \overrightarrow \overleftarrow \mathbf \mathrm \mathit \mathsf \mathtt
    \mathcal \mathbb \mathfrak \mathscr \boldsymbol \bm \pmb \mathbbm \mathds \operatorname
    \text \textbf \textit \textrm \textsf \texttt \textnormal \mbox \hbox \mathop \mathord
    """
)
#: How many arguments of these are mathematics like any other.
_READ = {r"\\": 0} | {
    name: count
    for count, names in (
        (1, r"\sqrt \boxed \substack \overbrace \underbrace \cancel \bcancel \xcancel \mathrel"),
        (2, r"\frac \dfrac \tfrac \cfrac \binom \dbinom \tbinom \overset \underset \stackrel"),
    )
    for name in names.split()
}
#: Names of functions; space stands around them.
_FUNCTIONS = _commands(
    r"\max \min \sup \inf \lim \argmax \argmin \log \ln \exp \sin \cos \tan \tanh \det \Pr \ker"
)
#: What stands above and below these is read as well.
_OPERATORS = _FUNCTIONS | _commands(r"\sum \prod \int \oint \operatorname")
#: A formula with one of these means what only TeX knows; `@` makes arrows of letters.
_REFUSED = _commands(
    r"""
    \def \let \newcommand \renewcommand \newenvironment \DeclareMathOperator \verb \kern \hskip
    \mkern \mskip \class \cssId \style \begingroup \char \mathchoice \unicode \genfrac \bbox
    \raise \lower \moveleft \moveright \rule \above \abovewithdelims @
    """
)

Tokens = tuple[str, ...]
#: The nucleus of what is no symbol but may hold some: a group, a fraction.
_NOTHING: Tokens = ("{",)

#: What an index is made of: small letters, numbers, and how they are put together.
_INDEX = re.compile(
    r"[a-z]|[0-9]+|[-+,<>=:.'()_{}]|\\(?:top|le|leq|ge|geq|lt|gt|ne|neq|cdot|dots|ldots|tau|alpha"
    r"|beta|gamma|delta|mu|nu|rho|prime|,|;)"
)
_RECKONING = re.compile(r"[-+,<>=:]|\\(?:le|leq|ge|geq|lt|gt|cdot)")
_NUCLEUS = re.compile(r"[A-Za-z]|\\[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Atom:
    """A nucleus such as ``Q`` or ``\\hat{x}``, with its primes and its scripts without braces."""

    core: Tokens
    primes: int
    sub: Tokens
    sup: Tokens
    #: Where the nucleus stands in the TeX.
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a table."""

    #: The class of its marks.
    name: str
    atoms: tuple[Atom, ...]
    #: Whether it is written like its variable: ``d_k`` for `d_k`. Then its scripts are a name.
    literal: bool = False

    def fits(self, atoms: Sequence[Atom]) -> tuple[int, int, int] | None:
        """How well it fits what a formula has, from the first of some atoms on: how many atoms,
        equal scripts and indices, the more the better.
        """
        if len(atoms) < len(self.atoms):
            return None
        equal = index = 0
        for own, other in zip(self.atoms, atoms, strict=False):
            if own.core != other.core or own.primes != other.primes:
                return None
            for wanted, seen in ((own.sub, other.sub), (own.sup, other.sup)):
                if wanted == seen:
                    equal += bool(wanted)
                    continue
                # What a table writes with small letters, ``t`` or ``tsbh``, is any index.
                if wanted and (self.literal or not re.fullmatch("[a-z]+", "".join(wanted))):
                    return None
                if not _is_index(seen, wanted):
                    return None
                index += bool(wanted)
        return len(self.atoms), equal, index


def read_symbol(tex: str, name: str, variables: Iterable[str] = ()) -> Symbol | None:
    """A symbol as a table writes it; None for what is an expression and no symbol."""
    found = _runs(tex)
    atoms = tuple(found[-1]) if found else ()
    if not atoms or not all(_NUCLEUS.fullmatch(atom.core[0]) for atom in atoms):
        return None
    first = atoms[0]
    written = "_".join("".join(part) for part in (first.core, first.sub) if part)
    literal = len(atoms) == 1 and not first.sup and written in variables and bool(first.sub)
    return Symbol(name, atoms, literal)


def marked(tex: str, symbols: Sequence[Symbol]) -> str:
    """A formula with the classes of the symbols in it; empty if there are none."""
    places: list[tuple[int, int, str]] = []
    for atoms in _runs(tex):
        index = 0
        while index < len(atoms):
            symbol = _best(atoms[index:], symbols)
            found = atoms[index : index + len(symbol.atoms)] if symbol else []
            places += [
                (atom.start, atom.stop, symbol.name)
                for atom in found
                # A mark would take the space after the name of a function, `\log x`.
                if symbol and atom.core[0] not in _FUNCTIONS
            ]
            index += len(found) or 1
    for start, stop, name in sorted(places, reverse=True):
        mark = rf"\class{{{name}}}{{{tex[start:stop]}}}"
        tex = tex[:start] + mark + tex[stop:]
    return tex if places else ""


def _best(atoms: Sequence[Atom], symbols: Sequence[Symbol]) -> Symbol | None:
    """The symbol that fits best; None where two fit equally well, for then nobody knows."""
    fits = [(fit, symbol) for symbol in symbols if (fit := symbol.fits(atoms)) is not None]
    best = max((fit for fit, _ in fits), default=None)
    found = [symbol for fit, symbol in fits if fit == best]
    return found[0] if len(found) == 1 else None


def _is_index(script: Tokens, wanted: Tokens) -> bool:
    """Whether a script is an index, or an exponent that leaves its base what it is.

    A capital alone is a name, as in ``W^Q``, unless the table writes an index there of which it is
    the last: ``x_t^L`` for ``x_t^l``. Reckoned with, it is a number: ``Q_{T-1}``.
    """
    if (wanted and not script) or script[:1] == ("(",):
        return False
    capitals = [token for token in script if re.fullmatch("[A-Z]", token)]
    known = all(_INDEX.fullmatch(token) for token in script if token not in capitals)
    reckoned = any(_RECKONING.fullmatch(token) for token in script)
    return known and (reckoned or all(token.lower() in wanted for token in capitals))


def typeset_formula(formula: Formula, typeset: Typeset) -> Rendered:
    """A formula with its marks, and with the TeX of its author for those who copy it.

    Should a mark be where TeX does not allow one, the formula goes without any; and what is wrong
    with a formula is told of the TeX that its author wrote.
    """
    if formula.marked:
        rendered = typeset(formula.marked, formula.display)
        if not rendered.error:
            ours, theirs = (f'data-tex="{_escape(t)}"' for t in (formula.marked, formula.tex))
            return replace(rendered, html=rendered.html.replace(ours, theirs, 1))
    return typeset(formula.tex, formula.display)


def _escape(text: str) -> str:
    return html.escape(text, quote=False).replace('"', "&quot;")


def _runs(tex: str) -> list[list[Atom]]:
    """The atoms of a formula, those of each group apart, the outermost last.

    Nothing where the braces do not match.
    """
    try:
        return _Reader(tex).runs
    except (IndexError, KeyError, RecursionError):
        return []


class _Reader:
    def __init__(self, tex: str) -> None:
        found = [match for match in _TOKEN.finditer(tex) if match[1]]
        #: The whole ends as each group does.
        self._tokens = [*(match[1] for match in found), "}"]
        self._spans = [match.span(1) for match in found]
        #: Index of each opening brace -> that of its closing one.
        self._closing: dict[int, int] = {}
        self.runs: list[list[Atom]] = []
        opened = [-1]
        for index, token in enumerate(self._tokens):
            if token == "{":
                opened.append(index)
            elif token == "}":
                self._closing[opened.pop()] = index
        if not opened and _REFUSED.isdisjoint(self._tokens):
            self._run(0)

    def _run(self, index: int) -> None:
        """Read a group, from its first token to its end."""
        atoms: list[Atom] = []
        while self._tokens[index] != "}":
            index, atom = self._atom(index)
            atoms.append(atom)
        self.runs.append(atoms)

    def _atom(self, first: int) -> tuple[int, Atom]:
        index, core = self._nucleus(first)
        start, stop = self._spans[first][0], self._spans[index - 1][1]
        primes = 0
        scripts: dict[str, Tokens] = {"_": (), "^": ()}
        while (token := self._tokens[index]) in ("_", "^", "'"):
            index += 1
            if token == "'":
                primes += 1
                continue
            end = self._argument(index)
            scripts[token] = self._inside(index, end)
            power = token == "^" and (core == ("e",) or core[0].isdigit())
            if (power or core[0] in _OPERATORS) and self._tokens[index] == "{":
                self._run(index + 1)
            index = end
        return index, Atom(core, primes, scripts["_"], scripts["^"], start, stop)

    def _nucleus(self, index: int) -> tuple[int, Tokens]:
        """The index after a nucleus, and the tokens that name it; groups are read on the way."""
        token, after = self._tokens[index], index + 1
        if token == "{":
            self._run(after)
            return self._closing[index] + 1, _NOTHING
        if token in _WRAPS:
            after += self._tokens[after] == "*"
            end = self._argument(after)
            return end, (token, *self._inside(after, end))
        if token in _READ:
            after = self._optional(after)
            for _ in range(_READ[token] if self._tokens[after] != "}" else 0):
                if self._tokens[after] == "{":
                    self._run(after + 1)
                after = self._argument(after)
            return after, _NOTHING
        if re.fullmatch(r"\\[A-Za-z]+", token):
            while self._tokens[after] == "{":
                after = self._closing[after] + 1
        return after, tuple(self._tokens[index:after])

    def _argument(self, index: int) -> int:
        """The index after an argument: a group, a command with its own, or one token."""
        token = self._tokens[index]
        if token == "}":
            raise IndexError(index)
        if token == "{":
            return self._closing[index] + 1
        return self._argument(index + 1) if token in _WRAPS else index + 1

    def _inside(self, index: int, end: int) -> Tokens:
        """The tokens of an argument without the braces around it."""
        braces = self._tokens[index] == "{"
        return tuple(self._tokens[index + braces : end - braces])

    def _optional(self, index: int) -> int:
        """The index after ``[…]``, if that is what stands there."""
        for end in range(index, len(self._tokens) if self._tokens[index] == "[" else index):
            if self._tokens[end] in ("]", "}"):
                return end + 1 if self._tokens[end] == "]" else index
        return index


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name stands; or, without places, why it does not."""

    places: frozenset[Position] = frozenset()
    fault: str = ""
    #: The nearest name that there is, or nothing.
    near: str = ""


class _Written(NamedTuple):
    """A name as the code writes it."""

    #: The name, and the attributes after it.
    chain: list[ast.AST]
    #: The function or module that binds the variable, or the class that the attribute is of.
    owner: str
    is_attribute: bool
    is_definition: bool


class Variables:
    """The names in the code of one module, which parses."""

    def __init__(self, resolver: Resolver) -> None:
        self._name = resolver.module.source.name
        self._lines = resolver.module.source.lines
        self._scopes, self._values = resolver.scopes, resolver.values
        self._above: dict[ast.AST, ast.AST] = {}
        self._uses: dict[str, list[tuple[ast.AST, Scope]]] = {}
        for node, scope in self._scopes.names:
            self._uses.setdefault(name_of(node), []).append((node, scope))
            if isinstance(node, ast.Attribute):
                self._above[node.value] = node

    def find(self, path: tuple[str, ...], within: str = "") -> Found:
        """The places of a name, of a function or class if `within` names one."""
        defined = [*self._scopes.returns, *self._scopes.classes]
        owners = {name for name in defined if within and name.endswith(f".{within}")}
        value = self._values.named(within, self._scopes.module) if within else None
        owners |= {value.name} if value and self._values.kind(value.name) == "class" else set()
        if within and not owners:
            names = {name.removeprefix(f"{self._name}.") for name in defined}
            names |= {name.rpartition(".")[2] for name in names}
            near = "".join(get_close_matches(within, sorted(names), n=1))
            return Found(fault=f"`{self._name}` has no function or class `{within}`", near=near)
        known = self._meant(path[0], owners)
        if known:
            return Found(self._places(path, known))
        similar = get_close_matches(path[0], sorted(self._uses), n=len(self._uses) or 1)
        first = next((name for name in similar if self._meant(name, owners)), "")
        near = ".".join([first, *path[1:]]) if first else ""
        return Found(fault=f"`{within or self._name}` has no `{path[0]}`", near=near)

    def _meant(self, name: str, owners: set[str]) -> list[_Written]:
        """Where the code writes a name, of one of `owners` if there are any."""
        found = list(self._written(name))
        if owners:
            order = self._values.order
            of = ((e, order(e.owner) if e.is_attribute else [e.owner]) for e in found)
            return [each for each, classes in of if not owners.isdisjoint(classes)]
        # Of other modules' classes only what is defined here is meant without their names.
        found = [
            each for each in found if not each.is_attribute or each.owner in self._scopes.classes
        ]
        return [each for each in found if not each.is_definition] or found

    def _written(self, name: str) -> Iterator[_Written]:
        """Every place where the code writes a name, and whose it is there."""
        for node, scope in self._uses.get(name, ()):
            chain = [node]
            while chain[-1] in self._above:
                chain.append(self._above[chain[-1]])
            if not isinstance(node, ast.Attribute):
                home = scope.find(name)
                if home and not scope.receiver(name):
                    yield _Written(
                        chain, home.dotted, home.kind == "class", _is_defined(name, home)
                    )
            elif (value := self._values.value(node.value, scope)) and value.of:
                bodies = filter(None, map(self._scopes.classes.get, self._values.order(value.of)))
                body = next((body for body in bodies if name in body.bindings), None)
                yield _Written(chain, value.of, True, body is not None and _is_defined(name, body))

    def _places(self, path: tuple[str, ...], known: Sequence[_Written]) -> frozenset[Position]:
        """The places of a path, of whose first name `known` has all.

        A parameter is used where the module is that holds it; a part of a variable is the part.
        """
        whole: set[Position | None] = set()
        parts: set[Position | None] = set()
        for chain, _, is_attribute, _ in known:
            length = min(len(path), len(chain))
            if tuple(map(name_of, chain[:length])) == path[:length]:
                holds = length == len(path) or is_attribute
                (whole if holds else parts).add(place(chain[length - 1], self._lines))
        return frozenset(where for where in whole or parts if where)


def _is_defined(name: str, home: Scope) -> bool:
    return any(each.how in ("definition", "import") for each in home.bindings[name])


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
                for position in variable.places:
                    (owned if name.within else free)[position].add(symbol.name)

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
