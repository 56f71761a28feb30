"""Formulas: TeX in, HTML and style rules out, by MathJax in a Node process, with a cache.

Node is started for the first formula that the cache does not hold, so that a build that changes no
formula does not wait for it. A formula's result depends on its TeX and on versions only, so builds
that run side by side may share results. See decision 005.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from html.entities import html5
from pathlib import Path
from select import select
from typing import Any

from pylit.cache import Cache, digest
from pylit.diagnostics import Report
from pylit.model import Draft, Formula, SourceFile
from pylit.node.process import MODULES, SCRIPTS, NodeError, find_node, linked

FONT_PACKAGE = "@mathjax/mathjax-newcm-font/chtml/woff2"
FONT_FOLDER = MODULES / FONT_PACKAGE

_SLOT = re.compile("\ue000([0-9]+)\ue001")
#: TeX, and whether it is a display formula.
_Formula = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A formula after MathJax; for one that is not valid TeX, the error."""

    html: str
    #: Rules of the site's style sheet. The first character of each is its rank in there; what
    #: follows a 0 is no rule but a character that the fonts must hold.
    css: tuple[str, ...] = ()
    #: What is wrong with the TeX; empty when nothing is.
    error: str = ""
    #: Where in the TeX, from 0, as far as it is known.
    offset: int = 0


Typeset = Callable[[str, bool], Rendered]


class MathRenderer:
    """Renders formulas in a Node process: a thread sends one after the other. Close it.

    Args:
        cache: Folder for the cache; None for a cache in memory.
        script: What to run in Node; None for MathJax.
        plain: Whether formulas stay TeX, because there is no Node.
        timeout: Seconds for one formula after which Node is started anew without it.
    """

    def __init__(
        self,
        cache: Path | None,
        *,
        script: Path | None = None,
        plain: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self._cache = Cache(cache)
        self._script, self._plain, self._timeout = script, plain, timeout
        self._node: subprocess.Popen[str] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._futures: dict[_Formula, Future[Rendered]] = {}
        #: Whether there are results that the cache does not hold.
        self._changed = False

    @cached_property
    def _results(self) -> dict[_Formula, Rendered]:
        return self._cache.load("formulas", versions()) or {}

    def submit(self, formulas: Iterable[_Formula]) -> None:
        """Begin with formulas, each ``(tex, display)``; returns at once."""
        for formula in () if self._plain else formulas:
            if formula not in self._results and formula not in self._futures:
                self._futures[formula] = self._thread.submit(self._render, formula)

    def result(self, tex: str, display: bool) -> Rendered:
        """The result for one formula, submitted before or not; waits for it.

        Raises:
            NodeError: Node is missing, or fails for any formula.
        """
        if self._plain:
            return Rendered(f'<code class="tex">{escape(tex)}</code>')
        self.submit([(tex, display)])
        try:
            return self._results.get((tex, display)) or self._futures[tex, display].result()
        except NodeError:
            # The next build tries again.
            self._cancel()
            raise

    def save(self) -> None:
        """Store new results in the cache."""
        if self._changed:
            self._changed = False
            self._cache.store("formulas", versions(), dict(self._results))

    def close(self) -> None:
        """End Node; unused results are lost."""
        self._cancel()
        self._thread.shutdown()
        self._end()
        self.save()

    def _cancel(self) -> None:
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()

    # What follows runs in the thread.

    def _render(self, formula: _Formula) -> Rendered:
        failed = f'<code class="math-error">{escape(formula[0])}</code>'
        try:
            answer = self._ask(formula)
        except NodeError as error:
            try:
                # If even this formula fails, the fault is not in the TeX.
                self._ask(("x", False))
            except NodeError:
                raise NodeError(
                    f"mathematics failed at or before `{formula[0]}`: {error}"
                ) from error
            # Not cached: another machine may have the time or the memory.
            limit = f"MathJax ran out of memory on it, or took more than {self._timeout:g} s"
            return Rendered(failed, error=limit)
        result = Rendered(**{"html": failed, **answer, "css": tuple(answer.get("css", ()))})
        self._results[formula] = result
        self._changed = True
        return result

    def _ask(self, formula: _Formula) -> dict[str, Any]:
        """The answer of Node: one line of JSON for one line of JSON."""
        if self._node is None or self._node.poll() is not None:
            self._end()
            self._node = self._start()
        node = self._node
        assert node.stdin and node.stdout
        with suppress(OSError):  # If Node has ended, there is no answer either.
            print(json.dumps(formula), file=node.stdin, flush=True)
        in_time, _, _ = select([node.stdout], [], [], self._timeout)
        line = node.stdout.readline() if in_time else ""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            if not in_time:
                self._end()
                raise NodeError(f"Node has not answered for {self._timeout:g} s") from None
            with suppress(subprocess.TimeoutExpired):
                node.wait(1)
            raise NodeError(self._end()) from None
        return answer

    def _start(self) -> subprocess.Popen[str]:
        if not FONT_FOLDER.is_dir():
            raise NodeError(f"MathJax is not installed in {MODULES}; run `python -m pylit.node`")
        script = self._script or linked("serve.mjs")
        options = "--max-old-space-size=1024 --preserve-symlinks --preserve-symlinks-main"
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [find_node(), *options.split(), script],
            stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace",
        )  # fmt: skip

    def _end(self) -> str:
        """End Node; returns what it printed to standard error."""
        if self._node is None:
            return ""
        self._node.kill()
        _, error = self._node.communicate()
        status, self._node = self._node.returncode, None
        return f"Node ended (exit status {status}): {error[-2000:].strip()}"


def versions() -> str:
    """Digest of everything besides the TeX that a result depends on."""
    files = [*sorted(SCRIPTS.glob("*.mjs")), *sorted(MODULES.glob("@mathjax/*/package.json"))]
    return digest(*(file.read_bytes() for file in files))


def fill(html: str, formulas: Sequence[Formula], typeset: Callable[[Formula], Rendered]) -> str:
    """Put formulas where `pylit.model.formula_slot` left their places."""
    return _SLOT.sub(lambda match: typeset(formulas[int(match[1])]).html, html)


#: Commands that HTML has no entity for, or another one.
_SIGNS = {
    "cdot": "·", "circ": "∘", "partial": "∂", "infty": "∞", "neq": "≠", "ll": "≪", "gg": "≫",
    "to": "→", "gets": "←", "mid": "|", "vert": "|", "Vert": "‖", "lVert": "‖", "rVert": "‖",
    "dots": "…", "ldots": "…", "cdots": "…", "vdots": "…", "top": "ᵀ", "varepsilon": "ε",
    "sup": " sup ", "Pr": " Pr ",
}  # fmt: skip
#: Commands for the appearance of their argument.
_APPEARANCE = re.compile(
    r"(?:text|math)[a-z]{0,4}|boldsymbol|bm|operatorname|left|right|[bB]igg?[lr]?|hat|bar|tilde|vec"
    r"|(?:display|text)style|(?:over|under)(?:line|brace)|(?:no)?limits"
)
_LAYOUT = re.compile(r"\\(?:begin|end)\{[^}]*\}|\\q?quad")
_COMMAND = re.compile(r"\\(?:[cdt]?(frac)|([A-Za-z]+)|([{}%_#$])|.)", re.DOTALL)
_RELATION = re.compile("[=<>+←→⇒≤≥≠≈∼∈∝]")
_SHORT_FRACTION = re.compile(r"\\frac\s*([^\s{}\\])\s*([^\s{}\\])")
_SHORT_ARGUMENT = re.compile(r"([√_^])\s*([^\s{}\\])")
_GROUP = re.compile(r"\{([^{}]*)\}")
#: What applies to groups that have been read: these are in double brackets.
_FRACTION = re.compile(r"\\frac\s*⟦([^⟧]*)⟧\s*⟦([^⟧]*)⟧")
_ARGUMENT = re.compile(r"([√_^])\s*⟦([^⟧]*)⟧")
_SUPERSCRIPTS = str.maketrans("0123456789+−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ")
#: Levels of groups; deeper ones lose their brackets.
_DEEPEST = 50
_BRACES = str.maketrans("\ue002\ue003", "{}", "{}\\&")


def tex_to_text(tex: str) -> str:
    """A formula as a line of text."""
    text = _COMMAND.sub(_command, _LAYOUT.sub(" ", tex)).replace("-", "−")
    text = _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _RELATION.sub(r" \g<0> ", text))
    text = _SHORT_ARGUMENT.sub(r"\1{\2}", text)
    for _ in range(_DEEPEST):
        text, found = _GROUP.subn(lambda match: f"⟦{_flat(match[1])}⟧", text)
        if not found:
            break
    text = _flat(text).translate(_BRACES)
    return " ".join(re.sub(r"\s+([,.;)])|(?<=[a-z])\s+(?=\()", r"\1", text).split())


def _command(match: re.Match[str]) -> str:
    fraction, name, sign = match.groups()
    if fraction or name == "sqrt":
        return r"\frac" if fraction else "√"
    if sign:
        # Braces that are shown, while others still mean groups.
        return {"{": "\ue002", "}": "\ue003"}.get(sign, sign)
    if name and _APPEARANCE.fullmatch(name):
        return ""
    return _SIGNS.get(name) or html5.get(f"{name};") or (f" {{{name}}} " if name else " ")


def _flat(text: str) -> str:
    """Text whose groups have all been read, without the brackets around them."""
    text = _FRACTION.sub(lambda match: f"{_word(match[1])}/{_word(match[2])}", text)
    return _ARGUMENT.sub(_argument, text).replace("⟦", "").replace("⟧", "")


def _argument(match: re.Match[str]) -> str:
    mark, text = match.groups()
    if mark == "^" and re.fullmatch("[0-9+−n]+|[ᵀ′]", text.strip()):
        return text.strip().translate(_SUPERSCRIPTS)
    return mark + _word(text)


def _word(text: str) -> str:
    """An argument in brackets, unless it is one word."""
    text = text.strip()
    return text if re.fullmatch(r"√?[\w.,′ᵀ]*", text) else f"({''.join(text.split())})"


def typeset_formula(formula: Formula, typeset: Typeset) -> Rendered:
    """A formula with its marks, and with the TeX of its author for those who copy it.

    A formula with a mark where TeX does not allow one has no marks at all, and errors of a formula
    refer to the TeX of its author.
    """
    if formula.marked:
        rendered = typeset(formula.marked, formula.display)
        if not rendered.error:
            tex = escape(formula.tex, quote=False).replace('"', "&quot;")
            text = re.sub('(?<=data-tex=")[^"]*', lambda _: tex, rendered.html, count=1)
            return replace(rendered, html=text)
    return typeset(formula.tex, formula.display)


def formula_faults(draft: Draft, file: SourceFile, typeset: Typeset, report: Report) -> None:
    """Report the formulas of a page that are not valid TeX, each at its place in the source."""
    lines = file.lines
    for formula in (formula for note in draft.notes() for formula in note.formulas):
        rendered = typeset_formula(formula, typeset)
        if not rendered.error:
            continue
        before, rest = formula.tex[: rendered.offset], formula.tex[rendered.offset :]
        line = formula.line + before.count("\n")
        source = lines[line - 1] if line <= len(lines) else ""
        # Of a formula on several lines, only the offset in the last of them is known.
        start = formula.column if "\n" not in before else 1
        column = start + len(before.rpartition("\n")[2])
        rest = rest.partition("\n")[0]
        found = source.find(rest, max(column - 1, 0)) if rest else -1
        column = found + 1 if found >= 0 else min(column, len(source) + 1)
        message = f"{rendered.error} in `{' '.join(formula.tex.split())[:80]}`"
        hint = "correct the formula, or write `\\$` for a dollar sign"
        report.fault(file.strict, (file.display, line, column), "tex", message, hint, source)
