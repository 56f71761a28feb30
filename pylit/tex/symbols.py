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

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pylit.model import Formula
from pylit.tex.maths import Rendered

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
