"""All figures of a site: which of them have to run, and what pages show of them.

``figure:masks.causal`` is the function `causal` of ``docs_src/figures/masks.py``. Functions whose
name begins with an underscore are no figures. What they drew is kept (`pylit.runs`). The child
process that draws is this module too, as ``python -P -m pylit.figures.gallery`` (`pylit.sandbox`).
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from pylit.cache import Cache
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.figures.draw import Figure, Table
from pylit.model import FigureKind, FigureUse, Module, figure_slot
from pylit.runs import Failure, Limits, Runs, Task
from pylit.sandbox import Within, serve

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
class Drawn:
    """A figure or a table, finished."""

    #: HTML of its drawings, and of what opens below its caption; of its rows, and of its notes.
    picture: str = ""
    below: str = ""
    alt: str = ""
    kind: FigureKind = "figure"


def hang(html: str, uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """The HTML of a page with its figures in their places; one that failed leaves its caption."""
    for use in uses:
        drawn = figures.get(use.name, Drawn())
        drawn = drawn if drawn.kind == use.kind else Drawn()
        html = html.replace(figure_slot(use.name, "picture"), drawn.picture)
        html = html.replace(figure_slot(use.name, "below"), drawn.below)
    return html


def stamp(uses: Iterable[FigureUse], figures: Mapping[str, Drawn]) -> str:
    """Text that differs when the figures of a page do."""
    return repr([figures.get(use.name) for use in uses])


class Gallery:
    """The figures of one build. On entering it a child begins to draw; `finish` waits for it.

    `texts` are those of all pages, `modules` those that are the site's own; the rest is as for
    `Runs`.
    """

    def __init__(
        self,
        modules: Sequence[Module],
        texts: Iterable[str],
        docs: Path,
        root: Path,
        cache: Cache,
        generator: str,
        *,
        stays: bool = False,
    ) -> None:
        self._modules = [module for module in modules if module.parsed]
        self._asked = {name for text in texts for name in _ASKED.findall(text)}
        self._folder = docs / "figures"
        self._shown = self._folder.relative_to(root).as_posix()
        self._files = read_files(self._folder, self._shown) if self._asked else {}
        where = (docs, root, cache, generator, Limits())
        self._runs = Runs("pylit.figures.gallery", self._modules, *where, stays=stays)

    def __enter__(self) -> "Gallery":
        """Begin with the figures of which nothing is kept."""
        for name, file in self._files.items():
            lines = file.functions.items()
            asked = [(one, line) for one, line in lines if f"{name}.{one}" in self._asked]
            if asked:
                self._runs.order([Task(file.path, *one, name) for one in asked], file.text)
        self._runs.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.close()

    def kept(self) -> Mapping[str, Drawn]:
        """The figures that need no run, before the others are drawn."""
        return {f"{t.owner}.{t.function}": Drawn(**told["drawn"]) for t, told in self._runs.kept()}

    def finish(
        self, asked: Iterable[tuple[str, str, FigureUse]], report: Report
    ) -> Mapping[str, Drawn]:
        """The figures by their names. Each place that asks for a faulty one is reported.

        `asked` are all places: the path of a page, the line that asks, and for what it does.
        """
        drawn: dict[str, Drawn] = {}
        failures: dict[str, Failure] = {}
        for task, told in self._runs.answers():
            name = f"{task.owner}.{task.function}"
            if isinstance(told, Failure):
                failures[name] = told
            else:
                drawn[name] = Drawn(**told["drawn"])
        if any(failure.missing == "torch" for failure in failures.values()):
            message = "torch is not installed, so pages are built without figures"
            off = ("figures-off", message, "`pip install torch`, and build again")
            report.add(Diagnostic(self._shown, 0, 0, *off, severity=Severity.WARNING))
            return drawn
        for path, line, use in asked:
            if fault := self._fault(use, drawn.get(use.name), failures.get(use.name)):
                report.add(Diagnostic(path, use.line, use.column, *fault, line))
        return drawn

    def _fault(
        self, use: FigureUse, drawn: Drawn | None, failure: Failure | None
    ) -> tuple[str, str, str] | None:
        """What is wrong with a figure: a code, a message and a hint."""
        file, _, function = use.name.rpartition(".")
        found = self._files.get(file)
        if found is not None and found.problem:
            return "figure-failed", f"`{found.shown}` {found.problem}", "mend the file"
        if found is None or function not in found.functions:
            known = [f"{name}.{one}" for name, it in self._files.items() for one in it.functions]
            hint = f"write `def {function}()` in {self._shown}/{file.replace('.', '/')}.py"
            if function.startswith("_"):
                hint = "a function whose name begins with an underscore is no figure"
            elif near := get_close_matches(use.name, known, n=1):
                hint = f"did you mean `{near[0]}`?"
            return "figure-unknown", f"there is no {use.kind} `{use.name}`", hint
        if failure:
            message = f"`{use.name}` {failure.message}, at {found.shown}:{failure.line}"
            if failure.file:
                files = {str(m.source.path.resolve()): m.source.display for m in self._modules}
                below = files.get(failure.file, Path(failure.file).name)
                message += f", from {below}:{failure.file_line}"
            return f"figure-{failure.kind}", message, "mend the figure, or what it runs"
        place = f"{found.shown}:{found.functions[function]}"
        assert drawn is not None
        if drawn.kind != use.kind:
            message = f"`{use.name}` is a {drawn.kind}, not a {use.kind}, at {place}"
            return "figure-kind", message, f"write `{drawn.kind}:{use.name}`"
        if drawn.kind == "figure" and not drawn.alt:
            message = f"`{use.name}` has no words for those who do not see it, at {place}"
            return "figure-alt", message, "give its `Figure` an `alt` that says what it shows"
        return None


def _draw(function: Callable[[], object], task: dict[str, Any], within: Within) -> dict[str, Any]:
    """In the child: what pages show of what a function returned."""
    with within() as watch, watch.calls():
        figure = function()
    if isinstance(figure, Figure):
        shown = {"kind": "figure", "picture": figure.picture(), "alt": figure.alt.strip()}
    elif isinstance(figure, Table):
        # A table needs no words beside it: it is made of words.
        shown = {"kind": "table", "picture": figure.cells(), "alt": ""}
    else:
        kind = type(figure).__name__
        raise TypeError(f"`{task['function']}` returns a {kind}, expected a Figure or a Table")
    shown["below"] = figure.below()
    # A lone half of a character cannot be written: better said here than by the build.
    "".join(shown.values()).encode()
    return {"drawn": shown}


if __name__ == "__main__":
    serve(_draw)
