r"""TeX read as atoms: a nucleus such as ``Q`` or ``\hat{x}``, with its primes and scripts.

Only what is surely mathematics is read. Names of operators, words, and the arguments of commands
that nobody here knows are left out, and a formula that defines commands of its own is not read at
all: a letter that is taken for a symbol by mistake would light up the wrong variable.
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"(?:\s|%[^\n]*\n?)+|(\\[A-Za-z]+|\\.|[0-9]+|.)", re.DOTALL)


def _commands(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: With one argument they are a nucleus of their own: accents, typefaces, words.
_WRAPS = _commands(
    r"\hat \bar \tilde \vec \dot \ddot \check \breve \acute \grave \mathring \widehat \widetilde"
    r" \overline \underline \overrightarrow \overleftarrow \mathbf \mathrm \mathit \mathsf \mathtt"
    r" \mathcal \mathbb \mathfrak \mathscr \boldsymbol \bm \pmb \mathbbm \mathds \operatorname"
    r" \text \textbf \textit \textrm \textsf \texttt \textnormal \mbox \hbox \mathop \mathord"
)
#: How many arguments of these are mathematics like any other.
_TRANSPARENT = {
    name: count
    for count, names in (
        (
            1,
            r"\sqrt \boxed \substack \overbrace \underbrace \cancel \bcancel \xcancel \mathrel",
        ),
        (2, r"\frac \dfrac \tfrac \cfrac \binom \dbinom \tbinom \overset \underset \stackrel"),
    )
    for name in names.split()
}
#: Names of functions; space stands around them.
FUNCTIONS = _commands(
    r"\max \min \sup \inf \lim \argmax \argmin \log \ln \exp \sin \cos \tan \tanh \det \Pr \ker"
)
#: Commands without arguments that may stand right before a group.
_PLAIN = FUNCTIONS | _commands(
    r"\sum \prod \int \oint \cdot \times \odot \otimes \oplus \circ \pm \in \to \mapsto \le \leq"
    r" \ge \geq \lt \gt \ne \neq \sim \approx \equiv \propto \mid \quad \qquad \dots \ldots \cdots"
    r" \left \right \big \Big \bigl \bigr \Bigl \Bigr \top \partial \nabla \infty"
)
#: What stands above and below these is read as well.
_OPERATORS = _commands(
    r"\sum \prod \int \oint \max \min \sup \inf \lim \argmax \argmin \operatorname"
)
#: A formula with one of these means what only TeX knows.
_REFUSED = _commands(
    r"\def \let \newcommand \renewcommand \newenvironment \DeclareMathOperator \verb \kern \hskip"
    r" \mkern \mskip \class \cssId \style \begingroup \char \mathchoice \unicode \genfrac \bbox"
    r" \raise \lower \moveleft \moveright \rule \above \abovewithdelims"
)
_ENVIRONMENT = re.compile(r"array|alignat\*?|alignedat|tabular|subarray")

Tokens = tuple[str, ...]
#: The nucleus of what is no symbol but may hold some: a group, a fraction.
_NOTHING: Tokens = ("{",)


@dataclass(frozen=True, slots=True)
class Atom:
    """A nucleus and what is attached to it; scripts without the braces around them."""

    core: Tokens
    primes: int
    sub: Tokens
    sup: Tokens
    #: Where the nucleus stands in the TeX.
    start: int
    stop: int
    #: Whether it is an argument without braces, which a mark must bring.
    bare: bool = False


def runs(tex: str) -> list[list[Atom]]:
    """The atoms of a formula, those of each group apart, the outermost last.

    Nothing where the braces do not match.
    """
    try:
        return _Reader(tex).read()
    except (IndexError, KeyError):
        return []


class _Reader:
    def __init__(self, tex: str) -> None:
        found = [match for match in _TOKEN.finditer(tex) if match[1]]
        self._tokens = [match[1] for match in found]
        self._spans = [match.span(1) for match in found]
        #: Index of each opening brace -> that of its closing one.
        self._closing: dict[int, int] = {}
        self._runs: list[list[Atom]] = []

    def read(self) -> list[list[Atom]]:
        if not _REFUSED.isdisjoint(self._tokens):
            return []
        opened: list[int] = []
        for index, token in enumerate(self._tokens):
            if token == "{":
                opened.append(index)
            elif token == "}":
                self._closing[opened.pop()] = index
        if opened:
            return []
        self._run(0, len(self._tokens))
        return self._runs

    def _run(self, index: int, stop: int, *, bare: bool = False) -> None:
        atoms: list[Atom] = []
        while index < stop:
            index, atom = self._atom(index, stop, bare=bare)
            atoms.append(atom)
        self._runs.append(atoms)

    def _atom(self, index: int, stop: int, *, bare: bool) -> tuple[int, Atom]:
        first = index
        index, core = self._nucleus(index, stop)
        last = index - 1
        while self._at(index, stop) in (r"\limits", r"\nolimits"):
            index += 1
        primes = 0
        scripts: dict[str, Tokens] = {"_": (), "^": ()}
        while (token := self._at(index, stop)) in ("_", "^", "'"):
            index += 1
            if token == "'":
                primes += 1
                continue
            braced = self._at(index, stop) == "{"
            end = self._argument(index, stop)
            inside = (index + 1, end - 1) if braced else (index, end)
            scripts[token] = tuple(self._tokens[slice(*inside)])
            if core[0] in _OPERATORS or (token == "^" and (core == ("e",) or core[0].isdigit())):
                self._run(*inside, bare=not braced)
            index = end
        start, end = self._spans[first][0], self._spans[last][1]
        return index, Atom(core, primes, scripts["_"], scripts["^"], start, end, bare)

    def _at(self, index: int, stop: int) -> str:
        return self._tokens[index] if index < stop else ""

    def _nucleus(self, index: int, stop: int) -> tuple[int, Tokens]:
        """The index after a nucleus, and the tokens that name it; groups are read on the way."""
        token = self._tokens[index]
        if token == "{":
            self._run(index + 1, self._closing[index])
            return self._closing[index] + 1, _NOTHING
        if token in (r"\begin", r"\end"):
            return self._environment(index, stop), _NOTHING
        if token == r"\\":
            return self._optional(index + 1, stop), _NOTHING
        if token in _WRAPS:
            inner = index + 2 if self._at(index + 1, stop) == "*" else index + 1
            end = self._argument(inner, stop)
            return end, (token, *self._plain(inner, end))
        if token in _TRANSPARENT:
            return self._transparent(index + 1, stop, _TRANSPARENT[token]), _NOTHING
        if re.fullmatch(r"\\[A-Za-z]+", token) and token not in _PLAIN:
            end = index + 1
            while self._at(end, stop) == "{":
                end = self._closing[end] + 1
            return end, tuple(self._tokens[index:end])
        return index + 1, (token,)

    def _plain(self, index: int, end: int) -> Tokens:
        """The tokens of an argument without the braces around it."""
        if self._tokens[index] == "{":
            index, end = index + 1, end - 1
        return tuple(self._tokens[index:end])

    def _argument(self, index: int, stop: int) -> int:
        """The index after an argument: a group, a command with its own, or one token."""
        token = self._tokens[index]
        if index >= stop or token == "}":
            raise IndexError(index)
        if token == "{":
            return self._closing[index] + 1
        if token in _WRAPS:
            return self._argument(index + 1, stop)
        return index + 1

    def _transparent(self, index: int, stop: int, count: int) -> int:
        index = self._optional(index, stop)
        for _ in range(count):
            if self._at(index, stop) == "{":
                self._run(index + 1, self._closing[index])
            index = self._argument(index, stop) if index < stop else index
        return index

    def _environment(self, index: int, stop: int) -> int:
        """The index after ``\\begin{name}`` and what belongs to it, or after ``\\end{name}``."""
        end = self._closing[index + 1] + 1
        if self._tokens[index] == r"\begin":
            end = self._optional(end, stop)
            name = "".join(self._tokens[index + 2 : self._closing[index + 1]])
            if name == "CD":  # there, a letter may be an arrow
                raise KeyError(name)
            if _ENVIRONMENT.fullmatch(name):
                end = self._closing[end] + 1
        return end

    def _optional(self, index: int, stop: int) -> int:
        """The index after ``[…]``, if that is what stands there."""
        if self._at(index, stop) != "[" or "]" not in self._tokens[index:stop]:
            return index
        return self._tokens.index("]", index) + 1
