"""Mathematics: TeX in, HTML and style rules out, by MathJax in a Node process, with a cache.

Node is started for the first formula that the cache does not hold, so that a build that changes no
formula does not wait for it. A formula's result depends on its TeX and on versions only; results
may be made in any order, by any number of processes, and shared by builds that run side by side.
"""

import hashlib
import html as html_escape
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pylit.cache import Cache
from pylit.node.executable import NodeError
from pylit.node.packages import MODULES, SCRIPTS, staged
from pylit.node.process import NodeProcess

FONTS = MODULES / "@mathjax" / "mathjax-newcm-font" / "chtml" / "woff2"

SLOT = re.compile("\ue000([0-9]+)\ue001")


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
    """Renders formulas in Node processes. Close it, or use it in a ``with`` statement.

    Args:
        cache: Folder for the cache; None for a cache in memory.
        processes: How many Node processes may work side by side.
        macros: Name -> TeX, for the whole site: ``{"R": r"\\mathbb{R}"}``. A macro with arguments
            is a pair, ``{"norm": (r"\\lVert #1 \\rVert", 1)}``.
        script: What to run in Node; None for MathJax.
        plain: Whether formulas stay TeX, because there is no Node.
        patience: Seconds for one formula after which Node is started anew without it.
    """

    def __init__(
        self,
        cache: Path | None,
        processes: int = 1,
        *,
        macros: Mapping[str, str | tuple[str, int]] | None = None,
        script: Path | None = None,
        plain: bool = False,
        patience: float = 30.0,
    ) -> None:
        if processes < 1:
            raise ValueError(f"`processes` ({processes}) must be at least 1")
        self._macros = dict(macros or {})
        self._script = script
        self._plain = plain
        self._patience = patience
        self._wanted = processes
        self._cache, self._version = Cache(cache), versions(self._macros)
        #: What Node has answered, here or in an earlier process; read when it is first needed.
        self._answers: dict[tuple[str, bool], Mapping[str, Any]] | None = None
        self._answered = 0
        self._nodes: list[NodeProcess] = []
        self._next = 0
        self._pending: dict[tuple[str, bool], tuple[NodeProcess, Future[dict[str, Any]]]] = {}
        self._done: dict[tuple[str, bool], Rendered] = {}

    def submit(self, formulas: Iterable[tuple[str, bool]]) -> None:
        """Begin with formulas, each ``(tex, display)``; returns at once.

        Raises:
            NodeError: Node is missing, or MathJax is not installed.
        """
        new = [f for f in dict.fromkeys(formulas) if f not in self._done and f not in self._pending]
        if self._plain:
            shown = {f: f'<code class="tex">{html_escape.escape(f[0])}</code>' for f in new}
            self._done |= {formula: Rendered(html) for formula, html in shown.items()}
            return
        if new and self._answers is None:
            self._answers = self._cache.load("formulas", self._version) or {}
            self._answered = len(self._answers)
        for formula in new:
            if self._answers and formula in self._answers:
                self._done[formula] = self._finish(formula[0], self._answers[formula])
            else:
                self._request(self._node(), formula)

    def result(self, tex: str, display: bool) -> Rendered:
        """The result for one formula, submitted before or not; waits for it.

        Raises:
            NodeError: Node ended or does not answer.
        """
        formula = (tex, display)
        if formula not in self._done:
            self.submit([formula])
        while formula in self._pending:
            self._await(formula)
        return self._done[formula]

    def close(self) -> None:
        """End the Node processes; results not asked for are lost."""
        for node in self._nodes:
            node.close()
        self._nodes.clear()
        self.keep()

    def keep(self) -> None:
        """Store what Node has answered since it was last stored."""
        if self._answers and len(self._answers) > self._answered:
            self._cache.store("formulas", self._version, self._answers)
            self._answered = len(self._answers)

    def __enter__(self) -> "MathRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await(self, formula: tuple[str, bool]) -> None:
        """Wait for a formula, or for the end of the process that has it."""
        node, future = self._pending[formula]
        try:
            answer = node.wait(future)
        except NodeError as error:
            self._replace(node, error)
        else:
            del self._pending[formula]
            if self._answers is not None:
                self._answers[formula] = answer
            self._done[formula] = self._finish(formula[0], answer)

    def _replace(self, ended: NodeProcess, error: NodeError) -> None:
        """Start another process for one that ended; the formula that it ended at gets the blame.

        A process answers in the order of its requests, so that is the first one without an answer.
        """
        self._nodes.remove(ended)
        ended.close()
        lost = [
            formula
            for formula, (node, future) in self._pending.items()
            if node is ended and not (future.done() and future.exception() is None)
        ]
        culprit, *innocent = lost
        node = self._start()
        try:
            # A new process that cannot set this either has another fault than the formula.
            node.wait(node.request({"tex": "x", "display": False}))
        except NodeError:
            raise NodeError(f"mathematics failed at or before `{culprit[0]}`: {error}") from error
        del self._pending[culprit]
        said = f"MathJax ran out of memory on it, or took more than {self._patience:g} s"
        self._done[culprit] = self._finish(culprit[0], {"error": said, "offset": 0})
        for formula in innocent:
            self._request(node, formula)

    def _request(self, node: NodeProcess, formula: tuple[str, bool]) -> None:
        message = {"tex": formula[0], "display": formula[1]}
        self._pending[formula] = (node, node.request(message))

    def _finish(self, tex: str, answer: Mapping[str, Any]) -> Rendered:
        if "error" in answer:
            shown = f'<code class="math-error">{html_escape.escape(tex)}</code>'
            return Rendered(shown, error=answer["error"], offset=answer["offset"])
        return Rendered(answer["html"], tuple(answer["css"]))

    def _node(self) -> NodeProcess:
        if len(self._nodes) < self._wanted:
            self._start()
        self._next += 1
        return self._nodes[self._next % len(self._nodes)]

    def _start(self) -> NodeProcess:
        if not FONTS.is_dir():
            raise NodeError(f"MathJax is not installed in {MODULES}; run `python -m pylit.node`")
        script = self._script or staged("serve.mjs")
        node = NodeProcess(script, {"macros": self._macros}, patience=self._patience)
        self._nodes.append(node)
        return node


def versions(macros: Mapping[str, Any]) -> str:
    """Digest of everything besides the TeX that a result depends on."""
    digest = hashlib.sha256()
    files = [*sorted(SCRIPTS.glob("*.mjs")), *sorted(MODULES.glob("@mathjax/*/package.json"))]
    for file in files:
        digest.update(file.read_bytes())
    digest.update(json.dumps(macros, sort_keys=True).encode())
    return digest.hexdigest()


def fill(html: str, rendered: Sequence[Rendered]) -> str:
    """Put formulas where `pylit.model.formula_slot` left their places."""
    return SLOT.sub(lambda match: rendered[int(match[1])].html, html)


def stylesheet(rendered: Iterable[Rendered]) -> tuple[str, frozenset[str]]:
    """The style sheet for a set of formulas, and the names of the font files that it refers to.

    The same formulas in any order give the same text. The fonts are addressed as ``fonts/NAME``
    beside the sheet; `font_file` says where each comes from. Without formulas the sheet is empty.
    """
    rules = {rule for one in rendered for rule in one.css if rule[0] != "0"}
    if not rules:
        return "", frozenset()
    css = minified((SCRIPTS / "base.css").read_text(encoding="utf-8"))
    css += "".join(rule[1:] for rule in sorted(rules))
    return css + "\n", frozenset(re.findall(r"url\(fonts/([a-z0-9-]+\.woff2)\)", css))


def font_file(name: str) -> Path:
    """Where a font file named by `stylesheet` lies."""
    return FONTS / name


def minified(css: str) -> str:
    """A style sheet of our own without comments and needless white space."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    css = re.sub(r"\s+", " ", css)
    return re.sub(r" ?([{};,>]) ?", r"\1", css).replace(": ", ":").replace(";}", "}").strip()
