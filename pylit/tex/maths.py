"""Mathematics: TeX in, HTML and style rules out, by MathJax in a Node process, with a cache.

Node is started for the first formula that the cache does not hold, so that a build that changes no
formula does not wait for it. A formula's result depends on its TeX and on versions only, so builds
that run side by side may share results.
"""

import re
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.node.packages import MODULES, SCRIPTS, NodeError, staged
from pylit.node.process import NodeProcess

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
    cutter = (Path(__file__).parents[1] / "fontcut.py").read_bytes()
    for name, source in files.items():
        if len(source) >= LARGE:
            key = digest(cutter, source, repr(characters))
            files[name] = kept.get(name, key, partial(_cut, source, characters))
    return files


def _cut(source: bytes, characters: list[int]) -> bytes:
    from pylit import fontcut  # Slow to import, and rarely needed.

    return fontcut.cut(source, characters, drop_tables=["FFTM", "ltag"])
