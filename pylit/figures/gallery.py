"""All figures of a site: which of them have to run, and what pages show of them.

``figure:masks.causal`` is the function `causal` of ``docs_src/figures/masks.py``. Functions whose
name begins with an underscore are no figures. What they drew is kept (`pylit.runs`).
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from pylit.cache import Cache
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import FigureKind, FigureUse, Module, figure_slot
from pylit.runs import Failure, Limits, Runs, Task

FOLDER = "figures"
#: Where a text asks for a figure; in code that only shows how, too, which does no harm.
_ASKED = re.compile(r"\((?:figure|table):([\w.]+)")


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A file of figures."""

    path: Path
    #: For messages.
    shown: str
    text: str = ""
    #: Its figures, each with the line that defines it.
    functions: Mapping[str, int] = field(default_factory=dict)
    #: Why it cannot be read.
    problem: str = ""


def read_files(folder: Path, shown: str) -> dict[str, FigureFile]:
    """All files of figures by name: ``masks``, or ``deep.masks`` for one in a folder."""
    files = {}
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else []:
        place = path.relative_to(folder)
        name = ".".join(place.with_suffix("").parts)
        files[name] = _read(path, f"{shown}/{place.as_posix()}")
    return files


def _read(path: Path, shown: str) -> FigureFile:
    try:
        text = path.read_text(encoding="utf-8")
        return FigureFile(path, shown, text, _functions(text))
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        problem = f"does not parse{place}: {error.msg}"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {error}"
    return FigureFile(path, shown, problem=problem)


@lru_cache(maxsize=1000)
def _functions(text: str) -> Mapping[str, int]:
    """The figures of a file; few files change from build to build."""
    return {
        node.name: node.lineno
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure or a table, finished."""

    #: HTML of its drawings, and of what opens below its caption; of its rows, and of its notes.
    picture: str
    below: str
    alt: str
    kind: FigureKind = "figure"


@dataclass(frozen=True, slots=True)
class Asked:
    """A figure or table that a page asks for, and where."""

    path: str
    source_line: str
    use: FigureUse


def hang(html: str, uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """The HTML of a page with its figures in their places; one that failed leaves its caption."""
    for use in uses:
        drawn = figures.get(use.name)
        if drawn is None or drawn.kind != use.kind:
            drawn = Drawn("", "", "")
        html = html.replace(figure_slot(use.name, "picture"), drawn.picture)
        html = html.replace(figure_slot(use.name, "below"), drawn.below)
    return html


def stamp(uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """Text that differs when the figures of a page do."""
    return repr([figures.get(use.name) for use in uses])


def _drawn(told: Mapping[str, Any]) -> Drawn:
    return Drawn(told["picture"], told["below"], told["alt"], told["kind"])


class Gallery:
    """The figures of one build. On entering it a child begins to draw; `finish` waits for it.

    Args:
        modules: The site's own modules.
        texts: Of all its pages.
        docs: The folder ``docs_src``.
        root: The folder of the site; paths in messages begin there.
        cache: What earlier builds left.
        generator: Digest of the code of the generator.
        limits: What a figure may take.
        stays: Whether the child waits for the next build.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        texts: Iterable[str],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        limits: Limits | None = None,
        *,
        stays: bool = False,
    ) -> None:
        self._modules = [module for module in modules if module.parsed]
        self._asked = {name for text in texts for name in _ASKED.findall(text)}
        self._folder = docs / FOLDER
        self._shown = self._folder.relative_to(root).as_posix()
        self._drawn: dict[str, Drawn] = {}
        self._failures: dict[str, Failure] = {}
        self._files: dict[str, FigureFile] = {}
        limits = limits or Limits()
        self._runs = Runs(
            *("pylit.figures.child", self._modules, docs, root, cache, generator, limits),
            stays=stays,
        )

    def __enter__(self) -> "Gallery":
        """Begin with the figures of which nothing is kept."""
        if self._asked:
            self._files = read_files(self._folder, self._shown)
            for name, file in self._files.items():
                tasks = [
                    Task(file.path, function, line, name)
                    for function, line in file.functions.items()
                    if f"{name}.{function}" in self._asked
                ]
                if tasks:
                    self._runs.order(tasks, file.text)
            self._runs.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.close()

    def kept(self) -> Mapping[str, Drawn]:
        """The figures that need no run, before the others are drawn."""
        return {f"{t.owner}.{t.function}": _drawn(told) for t, told in self._runs.kept()}

    def finish(self, asked: Iterable[Asked], report: Report) -> Mapping[str, Drawn]:
        """The figures by their names. Faults go to the report, at each place that asks for one."""
        for task, told in self._runs.answers():
            name = f"{task.owner}.{task.function}"
            if isinstance(told, Failure):
                self._failures[name] = told
            else:
                self._drawn[name] = _drawn(told)
        if any(failure.missing == "torch" for failure in self._failures.values()):
            message = "torch is not installed, so pages are built without figures"
            hint = "`pip install torch`, and build again"
            weight = Severity.WARNING
            off = Diagnostic(self._shown, 0, 0, "figures-off", message, hint, severity=weight)
            report.add(off)
            return self._drawn
        for one in asked:
            if fault := self._fault(one.use):
                line, column = one.use.line, one.use.column
                report.add(Diagnostic(one.path, line, column, *fault, one.source_line))
        return self._drawn

    def _fault(self, use: FigureUse) -> tuple[str, str, str] | None:
        """What is wrong with a figure: a code, a message and a hint."""
        file, _, function = use.name.rpartition(".")
        found = self._files.get(file)
        if found is not None and found.problem:
            return "figure-failed", f"`{found.shown}` {found.problem}", "mend the file"
        if found is None or function not in found.functions:
            message = f"there is no {use.kind} `{use.name}`"
            return "figure-unknown", message, self._nearest(use.name)
        if failure := self._failures.get(use.name):
            message = f"`{use.name}` {failure.message}, at {found.shown}:{failure.line}"
            if failure.file:
                files = {str(m.source.path.resolve()): m.source.display for m in self._modules}
                below = files.get(failure.file, Path(failure.file).name)
                message += f", from {below}:{failure.file_line}"
            return f"figure-{failure.kind}", message, "mend the figure, or what it runs"
        place = f"{found.shown}:{found.functions[function]}"
        drawn = self._drawn[use.name]
        if drawn.kind != use.kind:
            message = f"`{use.name}` is a {drawn.kind}, not a {use.kind}, at {place}"
            return "figure-kind", message, f"write `{drawn.kind}:{use.name}`"
        if drawn.kind == "figure" and not drawn.alt:
            message = f"`{use.name}` has no words for those who do not see it, at {place}"
            return "figure-alt", message, "give its `Figure` an `alt` that says what it shows"
        return None

    def _nearest(self, name: str) -> str:
        """What may have been meant by the name of a figure that is not there."""
        file, _, function = name.rpartition(".")
        if function.startswith("_"):
            return "a function whose name begins with an underscore is no figure"
        known = [f"{name}.{one}" for name, found in self._files.items() for one in found.functions]
        if near := get_close_matches(name, known, n=1):
            return f"did you mean `{near[0]}`?"
        path = file.replace(".", "/") or "file"
        return f"write `def {function}()` in {self._shown}/{path}.py"
