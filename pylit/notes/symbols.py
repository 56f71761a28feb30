r"""Symbols of a table found in formulas, and marked there with classes.

A formula is marked in its TeX, ``\class{y1}{Q}_{tbhk}``, and typeset like that; so what is cached
is what is shown. The mark is around the nucleus alone, which leaves every glyph where it was.

What is the same symbol? The table's ``Q`` is also ``Q_{tbhk}`` and ``Q^\top``, for an index or a
transpose makes no other thing of it. It is not ``Q'``, ``\hat{Q}``, ``W^Q`` or ``Q^K``, for those
are names. An index that the table writes stands for any: ``x_t^l`` is also ``x^{l-1}_{t+1}``, but
never ``x_t``.

Only what is certainly mathematics is read. Names of operators, words, and the arguments of unknown
commands are left out, and a formula that defines commands of its own is not read at all: a letter
that is taken for a symbol by mistake would light up the wrong variable. See decision 013.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from markdown_it import MarkdownIt

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, Note, NoteHtml
from pylit.notes.tones import read_tones
from pylit.source.names import Resolver, Variables
from pylit.source.scopes import Position
from pylit.words import NO_WORDS

Tokens = tuple[str, ...]

_TOKEN = re.compile(r"(?:\s|%[^\n]*\n?)+|(\\[A-Za-z]+|\\.|[0-9]+|.)", re.DOTALL)
_SPACE = r"(?:\s|%[^\n]*+\n?+)*+"
#: Groups inside each other, six deep.
_GROUP = r"\{(?:\\.|[^{}\\])*+\}"
for _ in range(5):
    _GROUP = rf"\{{(?:\\.|[^{{}}\\]|{_GROUP})*+\}}"
#: Braces that match and are not too deep, and no script without an argument.
_READABLE = re.compile(rf"(?:\\.|[^{{}}\\]|{_GROUP})*+(?<![_^])", re.DOTALL)
#: With one argument they are a nucleus of their own: accents, typefaces, words.
_WRAPPER = (
    r"\\(?:(?:wide)?(?:hat|tilde)|bar|vec|d?dot|check|breve|acute|grave|boldsymbol|bm|pmb|[hm]box"
    r"|math(?:ring|bf|rm|it|sf|tt|cal|bbm?|ds|frak|scr|op|ord)|text(?:bf|it|rm|sf|tt|normal)?"
    r"|operatorname|(?:over|under)line|over(?:left|right)arrow)(?![A-Za-z])\*?"
)
#: Their arguments are mathematics like any other if they are groups, and are left out if not.
_TRANSPARENT = (
    r"\\(?:sqrt|boxed|substack|(?:over|under)brace|[bx]?cancel|mathrel|[cdt]?frac|[dt]?binom"
    r"|(?:over|under)set|stackrel)(?![A-Za-z])"
)
_ARGUMENT = rf"(?:{_GROUP}|{_WRAPPER}{_SPACE}{_GROUP}|\\[A-Za-z]+|\\.|[^\s{{}}])"
# These two are compiled when they are first used, for few packages have tables of symbols.
_ATOM = rf"""{_SPACE}(?P<core>{_WRAPPER}{_SPACE}(?P<argument>{_ARGUMENT})
    |{_TRANSPARENT}(?:{_SPACE}\[[^]]*\])?(?:{_SPACE}[^\s{{}}\\]){{0,2}}
    |\\\\(?:{_SPACE}\[[^]]*\])?
    |\\[A-Za-z]+(?:{_SPACE}{_GROUP})*|\\.|[0-9]+|.)
    (?P<scripts>(?:{_SPACE}(?:'|[_^]{_SPACE}{_ARGUMENT}))*)""".replace("\n    ", "")
_SCRIPT = rf"'|([_^]){_SPACE}({_ARGUMENT})"


#: Operators have space around them; formulas above and below them are read as well.
_OPERATOR = re.compile(
    r"\\(?:(?:arg)?(?:max|min)|sup|inf|lim|log|ln|exp|sin|cos|tanh?|det|Pr|ker|sum|prod|o?int"
    r"|operatorname)"
)
#: A formula with one of these is not read: it can redefine anything. `@` makes arrows of letters.
_REFUSED = re.compile(
    r"\\(?:def|let|(?:re)?newcommand|newenvironment|DeclareMathOperator|verb|m?kern|[hm]skip|class"
    r"|cssId|style|begingroup|char|mathchoice|unicode|genfrac|bbox|raise|lower|move(?:left|right)"
    r"|rule|above(?:withdelims)?)(?![A-Za-z])|@"
)

#: What an index is made of: small letters, numbers, and how they are put together.
_INDEX = re.compile(
    r"[a-z]|[0-9]+|[-+,<>=:.'()_{}]|\\(?:top|le|leq|ge|geq|lt|gt|ne|neq|cdot|dots|ldots|tau|alpha"
    r"|beta|gamma|delta|mu|nu|rho|prime|,|;)"
)
_ARITHMETIC = re.compile(r"[-+,<>=:]|\\(?:le|leq|ge|geq|lt|gt|cdot)")
#: Atoms of a symbol.
_MAX_ATOMS = 10
_NUCLEUS = re.compile(r"[A-Za-z]|\\[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Atom:
    """A nucleus such as ``Q`` or ``\\hat{x}``, with its primes and its scripts without braces."""

    core: Tokens
    primes: int
    sub: Tokens
    sup: Tokens
    #: Position of the nucleus in the TeX.
    start: int = field(compare=False)
    stop: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a table."""

    #: The class of its marks.
    name: str
    atoms: tuple[Atom, ...]
    #: Whether it is written like its variable: ``d_k`` for `d_k`. Then its scripts are a name.
    literal: bool = False
    #: The class of its role.
    tone: str = ""

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
    atoms = tuple(_atoms(tex))
    if not atoms or not all(_NUCLEUS.fullmatch(atom.core[0]) for atom in atoms):
        return None
    first = atoms[0]
    written = "_".join("".join(part) for part in (first.core, first.sub) if part)
    literal = len(atoms) == 1 and not first.sup and written in variables and bool(first.sub)
    return Symbol(name, atoms, literal)


def marked(tex: str, symbols: Sequence[Symbol], toned: bool = False) -> str:
    """A formula with the classes of the symbols in it; empty if there are none."""
    marks: list[tuple[int, int, str]] = []
    atoms, index = _atoms(tex), 0
    while index < len(atoms):
        symbol = _best(atoms[index : index + _MAX_ATOMS], symbols)
        found = atoms[index : index + len(symbol.atoms)] if symbol else []
        index += len(found) or 1
        # A mark would take the space after an operator, `\log x`.
        names = (atom for atom in found if not _OPERATOR.fullmatch(atom.core[0]))
        classes = (
            f"{symbol.name} {symbol.tone}".strip() if symbol and toned else symbol and symbol.name
        )
        marks += [(atom.start, atom.stop, classes) for atom in names if classes]
    for start, stop, name in sorted(marks, reverse=True):
        tex = rf"{tex[:start]}\class{{{name}}}{{{tex[start:stop]}}}{tex[stop:]}"
    return tex if marks else ""


def _best(atoms: Sequence[Atom], symbols: Sequence[Symbol]) -> Symbol | None:
    """The symbol that fits best; None where two fit equally well."""
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
    reckoned = any(_ARITHMETIC.fullmatch(token) for token in script)
    return known and (reckoned or all(token.lower() in wanted for token in capitals))


def _atoms(tex: str) -> list[Atom]:
    """The atoms of a formula, braces among them; nothing if it is not certain what they are."""
    readable = _READABLE.fullmatch(tex) and not _REFUSED.search(tex)
    return list(_read(tex, 0, len(tex))) if readable else []


def _read(tex: str, start: int, stop: int) -> Iterator[Atom]:
    an_atom, a_script = re.compile(_ATOM, re.DOTALL), re.compile(_SCRIPT, re.DOTALL)
    for match in an_atom.finditer(tex, start, stop):
        core = _tokens(match["core"])
        if match["argument"]:
            core = core[0], *_tokens(match["argument"])
        primes = 0
        scripts: dict[str, Tokens] = {"_": (), "^": ()}
        for script in a_script.finditer(tex, *match.span("scripts")):
            mark, argument = script.groups()
            if not mark:
                primes += 1
                continue
            scripts[mark] = _tokens(argument)
            power = mark == "^" and (core == ("e",) or core[0].isdigit())
            if argument[0] == "{" and (power or _OPERATOR.fullmatch(core[0])):
                yield from _read(tex, *script.span(2))
        yield Atom(core, primes, scripts["_"], scripts["^"], *match.span("core"))


def _tokens(text: str) -> Tokens:
    """The tokens of an argument, without the braces around it."""
    tokens = tuple(filter(None, _TOKEN.findall(text)))
    return tokens[1:-1] if tokens[:1] == ("{",) and len(tokens) > 1 else tokens


_CELL = re.compile(r"\|((?:[^|\\]|\\.)*)(?=\|)")
_FORMULA = re.compile(r"\$([^$]+)\$")
#: Code in a cell, and a preposition or conjunction before it.
_CODE = re.compile(r"[^`]*?(?:\b(of|and)\s+|(?<=\s)(的)\s+)?`([^`]*)`")
_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:\[[^`]*\]|\([^`]*\))*")


class Name(NamedTuple):
    """A name in the column "Code", and its position in the source."""

    path: tuple[str, ...]
    line: int
    column: int
    text: str
    #: The function or class that it belongs to, if the row names one.
    within: str = ""


@dataclass(frozen=True, slots=True)
class PageSymbols:
    """The symbols of a page; of a page without a table there are none, and nothing is marked."""

    symbols: tuple[Symbol, ...] = ()
    #: Position in the code -> classes.
    code: Mapping[Position, str] = field(default_factory=dict)
    #: Line and text of a name in the table -> classes.
    names: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def mark(self, note: NoteHtml, toned: bool = False) -> NoteHtml:
        """A note whose formulas have their symbols marked, and coloured if it is `toned`."""
        if not self.symbols or not note.formulas:
            return note
        found = (replace(f, marked=marked(f.tex, self.symbols, toned)) for f in note.formulas)
        return replace(note, formulas=tuple(found))


def page_symbols(
    module: Module, resolver: Resolver, report: Report, words: Mapping[str, str] = NO_WORDS
) -> PageSymbols:
    """The symbols of a module's page. Own tables may only name what the code has.

    `words` are those of the language of its notes.
    """
    rows = list(symbol_rows(module, words))
    if not rows:
        return PageSymbols()

    def fault(code: str, message: str, hint: str, name: Name) -> None:
        if module.source.own:  # The tables of other packages were written for readers only.
            file = module.written
            line = "".join(file.lines[name.line - 1 : name.line])
            place = file.display, name.line, name.column
            report.add(Diagnostic(*place, code, message, hint, line))

    variables, roles = Variables(resolver), read_tones(module.front_matter.get("tones", ""))
    symbols: dict[tuple[Atom, ...], Symbol] = {}
    # A name without an owner belongs to all places that no other row names.
    owned: dict[Position, set[str]] = defaultdict(set)
    free: dict[Position, set[str]] = defaultdict(set)
    names: dict[tuple[int, str], set[str]] = defaultdict(set)
    for texs, written in rows:
        found = [(name, variables.find(name.path, name.within)) for name in written]
        for name, variable in found:
            if variable.fault:
                fault("symbol-unknown", variable.fault, variable.hint, name)
        groups = [found] * len(texs) if 1 in (len(texs), len(found)) else [[one] for one in found]
        if texs and found and len(texs) != len(groups):
            message = f"{len(texs)} symbols and {len(found)} names do not pair up"
            hint = "give each symbol a name, or all of them one, or a row to each"
            fault("symbol-pairs", message, hint, written[0])
            continue
        for tex, group in zip(texs, groups, strict=False):
            known = [(name, variable) for name, variable in group if variable.places]
            last = {name.path[-1] for name, _ in known}
            symbol = read_symbol(tex, f"y{len(symbols) + 1}", last)
            if not known or symbol is None:
                continue
            tones = {tone for name, _ in known if (tone := roles.of(name.path[-1])) is not None}
            symbol = replace(symbol, tone=f"t{tones.pop()}" if len(tones) == 1 else "")
            # One that an earlier row had keeps its class.
            symbol = symbols.setdefault(symbol.atoms, symbol)
            for name, variable in known:
                names[name.line, name.text].add(symbol.name)
                for position in variable.places:
                    (owned if name.within else free)[position].add(symbol.name)
    code = {position: " ".join(sorted(classes)) for position, classes in (free | owned).items()}
    table = {place: " ".join(sorted(classes)) for place, classes in names.items()}
    return PageSymbols(tuple(symbols.values()), code, table)


def symbol_rows(
    module: Module, words: Mapping[str, str] = NO_WORDS
) -> Iterator[tuple[list[str], list[Name]]]:
    """The rows of the tables in a module's notes: TeX of the symbols, and names."""
    for note in (note for section in module.sections for note in section.notes):
        for row, names in table_rows(note, words):
            if "symbol" in row:
                written = row["symbol"].replace(r"\|", "|")
                yield [tex.strip() for tex in _FORMULA.findall(written)], names


def table_rows(
    note: Note, words: Mapping[str, str] = NO_WORDS
) -> Iterator[tuple[dict[str, str], list[Name]]]:
    """The rows of a note's tables with a column "Code": cells by their columns, and names."""
    lines = note.text.split("\n")
    parser = MarkdownIt("commonmark").enable("table")
    known = {words.get(name, name).lower(): name.lower() for name in ("Code", "Symbol")}
    begins = any(
        re.search(rf"\|\s*{name}\s*\|", note.text, re.IGNORECASE) for name in ("code", *known)
    )
    for token in parser.parse(note.text) if begins else ():
        start, stop = token.map if token.type == "table_open" and token.map else (0, 0)
        columns = [cell[1].strip().lower() for cell in _CELL.finditer(lines[start])]
        columns = [known.get(column, column) for column in columns]
        for line in range(start + 2, stop) if "code" in columns else ():
            row = dict(zip(columns, _CELL.finditer(lines[line]), strict=False))
            if "code" in row:
                names = _names(row["code"], note.first_line + line, note.column + 1)
                yield {column: cell[1] for column, cell in row.items()}, list(names)


def _names(cell: re.Match[str], line: int, indent: int) -> Iterator[Name]:
    waiting: list[Name] = []
    owned: list[Name] = []
    owner = ""
    for match in _CODE.finditer(cell.string, *cell.span(1)):
        word, text = match[1] or match[2], match[3]
        if word == "的" and waiting:  # In Chinese the owner comes first.
            owner, word = waiting.pop().text, ""
        if word and (waiting if word == "of" else owned and not waiting):
            owned, waiting = waiting or owned, []
            yield from (name._replace(within=text) for name in owned)
            continue
        path = text
        if text.startswith(".") and waiting:
            path = ".".join([*waiting[-1].path[:-1], text[1:]])
        if name := _NAME.fullmatch(path):
            parts = tuple(name[1].removeprefix("self.").split("."))
            waiting.append(Name(parts, line, indent + match.start(3), text, owner))
    yield from waiting
