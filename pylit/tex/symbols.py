r"""Symbols of a table found in formulas, and marked there with classes.

A formula is marked in its TeX, ``\class{y1}{Q}_{tbhk}``, and typeset like that; so what is cached
is what is shown. The mark is around the nucleus alone, which leaves every glyph where it was.

What is the same symbol? The table's ``Q`` is also ``Q_{tbhk}`` and ``Q^\top``, for an index or a
transpose makes no other thing of it. It is not ``Q'``, ``\hat{Q}``, ``W^Q`` or ``Q^K``, for those
are names. An index that the table writes stands for any: ``x_t^l`` is also ``x^{l-1}_{t+1}``, but
never ``x_t``.
"""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pylit.model import Formula
from pylit.tex.atoms import FUNCTIONS, Atom, Tokens, runs
from pylit.tex.maths import Rendered

Typeset = Callable[[str, bool], Rendered]

#: What an index is made of: small letters, numbers, and how they are put together.
_INDEX = re.compile(
    r"[a-z]|[0-9]+|[-+,<>=:.'()_{}]|\\(?:top|le|leq|ge|geq|lt|gt|ne|neq|cdot|dots|ldots|tau|alpha"
    r"|beta|gamma|delta|mu|nu|rho|prime|,|;)"
)
_RECKONING = re.compile(r"[-+,<>=:]|\\(?:le|leq|ge|geq|lt|gt|cdot)")
_LETTER = re.compile(r"[a-z]")
_CAPITAL = re.compile(r"[A-Z]")
_NUCLEUS = re.compile(r"[A-Za-z]|\\[A-Za-z]+")

#: How well a symbol fits, the greater the better: atoms, scripts that are equal, indices.
_Fit = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a table."""

    #: The class of its marks.
    name: str
    atoms: tuple[Atom, ...]
    #: Whether it is written like its variable: ``d_k`` for `d_k`. Then its scripts are a name.
    literal: bool = False

    def fits(self, atoms: Sequence[Atom]) -> _Fit | None:
        """How well it fits what a formula has, from the first of some atoms on."""
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
                if wanted and (self.literal or not _is_running(wanted)):
                    return None
                if not _is_index(seen, wanted):
                    return None
                index += bool(wanted)
        return len(self.atoms), equal, index


def read_symbol(tex: str, name: str, variables: Iterable[str] = ()) -> Symbol | None:
    """A symbol as a table writes it; None for what is an expression and no symbol."""
    found = runs(tex)
    atoms = tuple(found[-1]) if found else ()
    if not atoms or not all(_NUCLEUS.fullmatch(atom.core[0]) for atom in atoms):
        return None
    first = atoms[0]
    written = "_".join("".join(part) for part in (first.core, first.sub) if part)
    literal = len(atoms) == 1 and not first.sup and written in variables and bool(first.sub)
    return Symbol(name, atoms, literal)


def marked(tex: str, symbols: Sequence[Symbol]) -> str:
    """A formula with the classes of the symbols in it; empty if there are none."""
    places: list[tuple[int, int, str, bool]] = []
    for atoms in runs(tex):
        index = 0
        while index < len(atoms):
            symbol = _best(atoms[index:], symbols)
            found = atoms[index : index + len(symbol.atoms)] if symbol else []
            if symbol:
                # A mark would take the space after the name of a function, `\log x`.
                places += [
                    (atom.start, atom.stop, symbol.name, atom.bare)
                    for atom in found
                    if atom.core[0] not in FUNCTIONS
                ]
            index += len(found) or 1
    result, end = [], 0
    for start, stop, name, bare in sorted(places):
        mark = rf"\class{{{name}}}{{{tex[start:stop]}}}"
        result += [tex[end:start], f"{{{mark}}}" if bare else mark]
        end = stop
    return "".join([*result, tex[end:]]) if places else ""


def _best(atoms: Sequence[Atom], symbols: Sequence[Symbol]) -> Symbol | None:
    """The symbol that fits best; None where two fit equally well, for then nobody knows."""
    fits = [(fit, symbol) for symbol in symbols if (fit := symbol.fits(atoms)) is not None]
    if not fits:
        return None
    best = max(fit for fit, _ in fits)
    found = [symbol for fit, symbol in fits if fit == best]
    return found[0] if len(found) == 1 else None


def _is_running(script: Tokens) -> bool:
    """Whether the script of a table's symbol stands for any index: ``t``, or ``tsbh``."""
    return all(_LETTER.fullmatch(token) for token in script)


def _is_index(script: Tokens, wanted: Tokens) -> bool:
    """Whether a script is an index, or an exponent that leaves its base what it is.

    A capital alone is a name, as in ``W^Q``, unless the table writes an index there of which it is
    the last: ``x_t^L`` for ``x_t^l``. Reckoned with, it is a number: ``Q_{T-1}``.
    """
    if (wanted and not script) or script[:1] == ("(",):
        return False
    capitals = [token for token in script if _CAPITAL.fullmatch(token)]
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
