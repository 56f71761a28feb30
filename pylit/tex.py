"""Mathematics: TeX in, HTML and style rules out, by MathJax in a Node process, with a cache.

Node is started for the first formula that the cache does not hold, so that a build that changes no
formula does not wait for it. A formula's result depends on its TeX and on versions only, so builds
that run side by side may share results.
"""

import re
import time
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.fonts import CODE, cut
from pylit.node.process import MODULES, SCRIPTS, NodeError, NodeProcess, staged

FONTS = MODULES / "@mathjax" / "mathjax-newcm-font" / "chtml" / "woff2"
#: Characters of a formula, and of those that Node is given before it answers: what we write must
#: fit into the pipe to it, or we would wait for it.
LONGEST = 20_000
AHEAD = 10_000
#: Seconds after which we look again whether Node has answered.
_NAP = 0.002
#: MathJax's text font holds every letter of mathematics, 94 KB for a site that uses two hundred of
#: them; cut down, it has about 20 KB. Smaller fonts stay as they are.
LARGE = 32_000

_SLOT = re.compile("\ue000([0-9]+)\ue001")
#: TeX, and whether it stands on a line of its own.
_Formula = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A formula after MathJax; for one that is not valid TeX, what to say about it."""

    html: str
    #: Rules of the site's style sheet. The first character of each is its rank in there; what
    #: follows a 0 is no rule but a character that the fonts must hold.
    css: tuple[str, ...] = ()
    #: What is wrong with the TeX; empty when nothing is.
    error: str = ""
    #: Where in the TeX, from 0, as far as it is known.
    offset: int = 0


class MathRenderer:
    """Renders formulas in a Node process. Close it, or use it in a ``with`` statement.

    Args:
        cache: Folder for the cache; None for a cache in memory.
        script: What to run in Node; None for MathJax.
        plain: Whether formulas stay TeX, because there is no Node.
        patience: Seconds for one formula after which Node is started anew without it.
    """

    def __init__(
        self,
        cache: Path | None,
        *,
        script: Path | None = None,
        plain: bool = False,
        patience: float = 30.0,
    ) -> None:
        self._cache = Cache(cache)
        self._script = script
        self._plain = plain
        self._patience = patience
        #: Results; the cache is read when one is first needed.
        self._done: dict[_Formula, Rendered] | None = None
        #: How many of them the cache holds, and those that it shall not hold.
        self._kept = 0
        self._stuck: set[_Formula] = set()
        self._node: NodeProcess | None = None
        #: What Node will be asked for, and what it has been asked for.
        self._waiting: dict[_Formula, None] = {}
        self._sent: deque[_Formula] = deque()

    def submit(self, formulas: Iterable[_Formula]) -> None:
        """Begin with formulas, each ``(tex, display)``; returns at once.

        Raises:
            NodeError: Node is missing, or fails whatever it is given.
        """
        if self._done is None:
            known = None if self._plain else self._cache.load("formulas", versions())
            self._done = known or {}
            self._kept = len(self._done)
        for formula in dict.fromkeys(formulas):
            if formula in self._done or formula in self._sent or formula in self._waiting:
                continue
            if self._plain:
                self._done[formula] = Rendered(f'<code class="tex">{escape(formula[0])}</code>')
            elif len(formula[0]) > LONGEST:
                self._failed(formula, f"a formula of more than {LONGEST:,} characters")
            else:
                self._waiting[formula] = None
        self._go_on()

    def result(self, tex: str, display: bool) -> Rendered:
        """The result for one formula, submitted before or not; waits for it.

        Raises:
            NodeError: Node is missing, or fails whatever it is given.
        """
        self.submit([(tex, display)])
        assert self._done is not None
        while (tex, display) not in self._done:
            time.sleep(_NAP)
            self._go_on()
        return self._done[tex, display]

    def keep(self) -> None:
        """Store what Node has answered since it was last stored."""
        lasting = {f: done for f, done in (self._done or {}).items() if f not in self._stuck}
        if len(lasting) > self._kept and not self._plain:
            self._cache.store("formulas", versions(), lasting)
            self._kept = len(lasting)

    def close(self) -> None:
        """End Node; results not asked for are lost."""
        self._end()
        self._sent.clear()
        self._waiting.clear()
        self.keep()

    def __enter__(self) -> "MathRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _go_on(self) -> None:
        """Take what Node has answered, and ask it for more."""
        try:
            if self._node is None and self._waiting:
                self._node = self._start()
            if self._node is not None:
                self._take(self._node)
        except NodeError as error:
            self._start_anew(error)

    def _take(self, node: NodeProcess) -> None:
        assert self._done is not None
        for answer in node.answers():
            formula = self._sent.popleft()
            if "error" in answer:
                self._failed(formula, answer["error"], answer["offset"])
            else:
                self._done[formula] = Rendered(answer["html"], tuple(answer["css"]))
        if self._sent and time.monotonic() - node.since > self._patience:
            raise NodeError(f"Node has not answered for {self._patience:g} s")
        while self._waiting and sum(len(tex) for tex, _ in self._sent) < AHEAD:
            formula = next(iter(self._waiting))
            del self._waiting[formula]
            self._sent.append(formula)
            node.send(formula)

    def _failed(self, formula: _Formula, error: str, offset: int = 0) -> None:
        assert self._done is not None
        shown = f'<code class="math-error">{escape(formula[0])}</code>'
        self._done[formula] = Rendered(shown, error=error, offset=offset)

    def _start_anew(self, error: NodeError) -> None:
        """Start another process for one that ended; the formula that it ended at gets the blame.

        A process answers in the order of its requests, so that is the first one without an answer.
        """
        self._end()
        culprits = [self._sent.popleft()] if self._sent else []
        self._waiting = dict.fromkeys([*self._sent, *self._waiting])
        self._sent.clear()
        try:
            # A new process that cannot set this either has another fault than the formula.
            with closing(self._start()) as node:
                node.send(("x", False))
                while not list(node.answers()):
                    if time.monotonic() - node.since > self._patience:
                        raise error
                    time.sleep(_NAP)
        except NodeError:
            self._waiting.clear()
            place = f" at or before `{culprits[0][0]}`" if culprits else ""
            raise NodeError(f"mathematics failed{place}: {error}") from error
        for culprit in culprits:
            limit = f"{self._patience:g} s"
            self._failed(culprit, f"MathJax ran out of memory on it, or took more than {limit}")
            self._stuck.add(culprit)
        self._go_on()

    def _end(self) -> None:
        if self._node is not None:
            self._node.close()
            self._node = None

    def _start(self) -> NodeProcess:
        if not FONTS.is_dir():
            raise NodeError(f"MathJax is not installed in {MODULES}; run `python -m pylit.node`")
        return NodeProcess(self._script or staged("serve.mjs"))


def versions() -> str:
    """Digest of everything besides the TeX that a result depends on."""
    files = [*sorted(SCRIPTS.glob("*.mjs")), *sorted(MODULES.glob("@mathjax/*/package.json"))]
    return digest(*(file.read_bytes() for file in files))


def fill(html: str, rendered: Sequence[Rendered]) -> str:
    """Put formulas where `pylit.model.formula_slot` left their places."""
    return _SLOT.sub(lambda match: rendered[int(match[1])].html, html)


def stylesheet(rendered: Iterable[Rendered]) -> tuple[str, frozenset[str]]:
    """The style sheet for a set of formulas, and the names of the font files that it refers to.

    The same formulas in any order give the same text. The fonts are addressed as ``fonts/NAME``
    beside the sheet, and lie in `FONTS`. Without formulas the sheet is empty.
    """
    rules = {rule for one in rendered for rule in one.css if rule[0] != "0"}
    if not rules:
        return "", frozenset()
    css = re.sub(r"/\*.*?\*/", "", (SCRIPTS / "base.css").read_text("utf-8"), flags=re.DOTALL)
    css = re.sub(r" ?([{};,>]) ?", r"\1", re.sub(r"\s+", " ", css))
    css = css.replace(": ", ":").replace(";}", "}").strip()
    css += "".join(rule[1:] for rule in sorted(rules))
    return css + "\n", frozenset(re.findall(r"url\(fonts/([a-z0-9-]+\.woff2)\)", css))


def math_fonts(
    names: Iterable[str], rendered: Iterable[Rendered], cache: Path | None
) -> dict[str, bytes]:
    """The font files that `stylesheet` named, by name, with what the same formulas need of them.

    Fonts are kept in `cache` once they are cut.
    """
    written = {rule[1:] for one in rendered for rule in one.css if rule[0] == "0"}
    characters = sorted({ord(character) for text in written for character in text})
    kept = Cache(cache)
    files = {name: (FONTS / name).read_bytes() for name in sorted(names)}
    for name, source in files.items():
        if len(source) >= LARGE:
            key = digest(CODE, source, repr(characters))
            files[name] = kept.get(
                name, key, partial(cut, source, characters, drop_tables=["FFTM", "ltag"])
            )
    return files


_TOKEN = re.compile(r"\\([A-Za-z]+)|\\.|\s+|(.)", re.DOTALL)
#: Commands and their signs, in turns.
_PAIRS = r"""
cdot · times × odot ⊙ otimes ⊗ oplus ⊕ circ ∘ pm ± sum ∑ prod ∏ int ∫ partial ∂ nabla ∇ infty ∞ in ∈
le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ sim ∼ equiv ≡ ll ≪ gg ≫ propto ∝ to → mapsto ↦ gets ←
leftarrow ← rightarrow → Rightarrow ⇒ mid | dots … ldots … cdots … vdots … top ᵀ prime ′ ell ℓ
lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩ lVert ‖ rVert ‖ Vert ‖ vert | varepsilon ε
"""
_SIGNS = dict(zip(_PAIRS.split()[::2], _PAIRS.split()[1::2], strict=True))
#: They say how their argument looks.
_LOOKS = """
text textbf textit textrm texttt mathrm mathbf mathit mathsf mathtt mathcal mathbb boldsymbol bm
operatorname mathop left right big Big bigl bigr Bigl Bigr displaystyle textstyle hat bar tilde vec
overline underline underbrace overbrace limits nolimits
"""
_MUTE = frozenset(_LOOKS.split())
_SUPERSCRIPTS = dict(zip("0123456789+-n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", strict=True))
_SPACED = frozenset("=<>+←→⇒≤≥≠≈∼∈∝")


def plain_tex(tex: str) -> str:
    """A formula as a line of text."""
    tokens = iter(_TOKEN.finditer(re.sub(r"\\(?:begin|end)\{[^}]*\}|\\q?quad", " ", tex)))
    try:
        text = "".join(_words(tokens)).replace("&", "")
    except RecursionError:  # Hundreds of groups inside each other, which nobody would read out.
        return "…"
    return " ".join(re.sub(r"\s+([,.;)])|(?<=[a-z])\s+(?=\()", r"\1", text).split())


def _words(tokens: Iterator[re.Match[str]]) -> Iterator[str]:
    """What stands before the end of a group, piece by piece."""
    for token in tokens:
        command, sign = token[1], token[2]
        if sign == "}":
            return
        if sign == "^":
            yield _raised(_argument(tokens))
        elif sign == "_":
            yield f"_{_grouped(_argument(tokens))}"
        elif sign == "{":
            yield "".join(_words(tokens))
        elif sign in _SPACED:
            yield f" {sign} "
        elif sign:
            yield "−" if sign == "-" else sign
        elif command in ("frac", "tfrac", "dfrac"):
            yield f"{_grouped(_argument(tokens))}/{_grouped(_argument(tokens))}"
        elif command == "sqrt":
            yield f"√{_grouped(_argument(tokens))}"
        elif command in _SIGNS:
            found = _SIGNS[command]
            yield f" {found} " if found in _SPACED else found
        elif command:
            yield "" if command in _MUTE else _greek(command)
        elif token[0][1:] in ("{", "}", "%", "_", "#", "$", "&"):
            yield token[0][1:]
        else:
            yield " "


def _argument(tokens: Iterator[re.Match[str]]) -> str:
    """The group, the command or the sign that comes next."""
    for token in tokens:
        if token[2] == "{":
            return "".join(_words(tokens)).strip()
        if not token[0].isspace():
            return "".join(_words(iter([token]))).strip() or _argument(tokens)
    return ""


def _grouped(text: str) -> str:
    """An argument in brackets, unless it is one word."""
    return text if re.fullmatch(r"√?[\w.,′ᵀ]*", text) else f"({text.replace(' ', '')})"


def _raised(text: str) -> str:
    if text in ("ᵀ", "′"):
        return text
    plain = text.replace("−", "-")
    if all(character in _SUPERSCRIPTS for character in plain):
        return "".join(_SUPERSCRIPTS[character] for character in plain)
    return f"^{_grouped(text)}"


def _greek(command: str) -> str:
    size = "SMALL" if command.islower() else "CAPITAL"
    name = command.upper().replace("LAMBDA", "LAMDA")  # As Unicode spells it.
    with suppress(KeyError):
        return unicodedata.lookup(f"GREEK {size} LETTER {name}")
    return f" {command} "
