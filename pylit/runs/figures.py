"""The figures of a site: which of them have to run (`tasks`), and what pages show of them.

``figure:masks.causal`` is the function `causal` of ``docs_src/figures/masks.py``. Functions whose
name begins with an underscore are not figures. See decision 014.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.figures.draw import WIDTH, Figure, Table
from pylit.model import FigureKind, FigureUse, Module, figure_slot
from pylit.runs.child import Within
from pylit.runs.tasks import Failure, Runs, Task

#: A use of a figure in a text; examples of the syntax match too, which is harmless.
_FIGURE_LINK = re.compile(r"\((?:figure|table):([\w.]+)")


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
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        name, display = ".".join(place.with_suffix("").parts), f"{shown}/{place.as_posix()}"
        try:
            text = path.read_text(encoding="utf-8")
            files[name] = FigureFile(path, display, text, _functions(text, path.name))
        except (SyntaxError, OSError, ValueError) as error:
            files[name] = FigureFile(path, display, problem=f"cannot be read: {error}")
    return files


@lru_cache(maxsize=1000)
def _functions(text: str, file: str) -> Mapping[str, int]:
    """The figures of a file; few files change from build to build."""
    functions = (node for node in ast.parse(text, file).body if isinstance(node, ast.FunctionDef))
    return {node.name: node.lineno for node in functions if not node.name.startswith("_")}


@dataclass(frozen=True, slots=True)
class FigureHtml:
    """A figure or a table, finished."""

    #: HTML of its drawings, and of what opens below its caption; of its rows, and of its notes.
    picture: str = ""
    below: str = ""
    alt: str = ""
    #: A table as Markdown.
    text: str = ""
    kind: FigureKind = "figure"


def insert_figures(html: str, uses: Iterable[FigureUse], figures: Mapping[str, FigureHtml]) -> str:
    """The HTML of a page with its figures in their places; one that failed leaves its caption."""
    for use in uses:
        drawn = figures.get(use.name, FigureHtml())
        drawn = drawn if drawn.kind == use.kind else FigureHtml()
        html = html.replace(figure_slot(use.name, "picture"), drawn.picture)
        html = html.replace(figure_slot(use.name, "below"), drawn.below)
    return html


def small(figures: Mapping[str, FigureHtml]) -> dict[str, int]:
    """The heights of those figures that are one drawing of the usual width, in pixels."""
    found = {}
    for name, figure in figures.items():
        drawings = re.findall(rf'<svg width="{WIDTH:.0f}" height="(\d+)"[^>]*>', figure.picture)
        more = any(part in figure.picture for part in ("data-stage", "data-live"))
        if len(drawings) == figure.picture.count("<svg") == 1 and not more:
            found[name] = int(drawings[0])
    return found


def stamp(uses: Iterable[FigureUse], figures: Mapping[str, FigureHtml]) -> str:
    """Return a text that changes with the figures of a page."""
    return repr([figures.get(use.name) for use in uses])


class FigureRuns(Runs):
    """The figures of one build; `texts` are those of all pages."""

    program, folder = "pylit.runs.figures", "figures"

    def __init__(self, modules: Sequence[Module], *where: Any, texts: Iterable[str]) -> None:
        super().__init__(modules, *where)
        self._used = {name for text in texts for name in _FIGURE_LINK.findall(text)}
        self._figures = read_files(self._folder, self._shown) if self._used else {}

    def declared(self) -> Iterator[tuple[Sequence[Task], str]]:
        """The tasks of each file of which a page shows a figure."""
        for name, file in self._figures.items():
            lines = file.functions.items()
            used = [(one, line) for one, line in lines if f"{name}.{one}" in self._used]
            if used:
                yield [Task(file.path, *one, name) for one in used], file.text

    def finish(
        self, uses: Iterable[tuple[str, str, FigureUse]], report: Report
    ) -> Mapping[str, FigureHtml]:
        """The figures by their names. Each place that uses a faulty one is reported.

        `uses` are all places: the path of a page, the line, and what it uses.
        """
        answers = {_name(task): answer for task, answer in self.answers()}
        report.update(self._faults)
        for path, line, use in uses:
            if fault := self._fault(use, answers.get(use.name)):
                report.add(Diagnostic(path, use.line, use.column, *fault, line))
        drawn = {name: a["drawn"] for name, a in answers.items() if isinstance(a, dict)}
        return {name: FigureHtml(**fields) for name, fields in drawn.items()}

    def _fault(
        self, use: FigureUse, answer: dict[str, Any] | Failure | None
    ) -> tuple[str, str, str] | None:
        """Return the error of a figure as a code, a message and a hint; None without an error."""
        name, _, function = use.name.rpartition(".")
        file = self._figures.get(name)
        if file is not None and file.problem:
            return "figure-failed", f"`{file.shown}` {file.problem}", "correct the file"
        if file is None or function not in file.functions:
            known = (f"{name}.{one}" for name, it in self._figures.items() for one in it.functions)
            hint = f"write `def {function}()` in {self._shown}/{name.replace('.', '/')}.py"
            if function.startswith("_"):
                hint = "a function whose name begins with an underscore is no figure"
            message = f"there is no {use.kind} `{use.name}`"
            return "figure-unknown", message, nearest(use.name, known, hint)
        if isinstance(answer, Failure):
            message = f"`{use.name}` {answer.message}, at {file.shown}:{answer.line}"
            return f"figure-{answer.kind}", message, "correct the figure, or the code that it runs"
        if answer is None:  # It may not run, which has been reported.
            return None
        place, kind = f"{file.shown}:{file.functions[function]}", answer["drawn"]["kind"]
        if kind != use.kind:
            message = f"`{use.name}` is a {kind}, not a {use.kind}, at {place}"
            return "figure-kind", message, f"write `{kind}:{use.name}`"
        if kind == "figure" and not answer["drawn"]["alt"]:
            message = f"`{use.name}` has no text that describes it, at {place}"
            return "figure-alt", message, "give its `Figure` an `alt` that says what it shows"
        return None


def _name(task: Task) -> str:
    return f"{task.owner}.{task.function}"


def run(function: Callable[[], object], task: dict[str, Any], within: Within) -> dict[str, Any]:
    """Draw the figure of a function, in the child process."""
    with within() as watch, watch.calls():
        figure = function()
    if isinstance(figure, Figure):
        shown = {"kind": "figure", "picture": figure.picture(), "alt": figure.alt.strip()}
    elif isinstance(figure, Table):
        # The cells of a table are read out as they are.
        shown = {"kind": "table", "picture": figure.cells(), "text": figure.markdown()}
    else:
        kind = type(figure).__name__
        raise TypeError(f"`{task['function']}` returns a {kind}, expected a Figure or a Table")
    return {"drawn": shown | {"below": figure.below()}}
