"""All runs of one build: they begin before its pages are drafted, and their results come after."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pylit.cache import Cache
from pylit.diagnostics import Diagnostic, Report, Severity, counted
from pylit.model import FigureUse, ParsedPage
from pylit.runs.figures import FigureHtml, FigureRuns
from pylit.runs.shapes.lines import ModuleShapes
from pylit.runs.shapes.trace import ShapeRuns
from pylit.runs.tasks import Worker


@dataclass(frozen=True, slots=True)
class Results:
    """What runs have told."""

    #: Shapes by the names of modules, and the digests of the sources that they are of.
    shapes: Mapping[str, ModuleShapes] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Figures by their names.
    figures: Mapping[str, FigureHtml] = field(default_factory=dict)


class SiteRuns(ExitStack):
    """The traces and the figures of a site; the child process begins with them at once.

    Args:
        docs: The folder ``docs_src``.
        cache: The answers of earlier builds.
        generator: Digest of the code of the generator.
        worker: What executes tasks.
        pages: All pages. A foreign package is never imported.
    """

    def __init__(
        self, docs: Path, cache: Cache, generator: str, worker: Worker, pages: Sequence[ParsedPage]
    ) -> None:
        super().__init__()
        own = [page for page in pages if page.source.own]
        self._sources = {page.source.name: page.source.digest for page in own}
        self._docs, texts = docs, [page.module.headed.text for page in own]
        where = [page.module for page in own if not page.prose], docs, cache, generator, worker
        self._figures = self.enter_context(FigureRuns(*where, texts=texts))
        self._traces = self.enter_context(ShapeRuns(*where))

    def results(self, uses: Iterable[tuple[str, str, FigureUse]], report: Report) -> Results:
        """Wait for all that may run; faults are reported.

        `uses` are all places that show a figure: the path of a page, the line, and what it uses.
        """
        shapes = self._traces.finish(report)
        figures = self._figures.finish(uses, report)
        kinds = ((self._traces.left, "trace"), (self._figures.left, "figure"))
        if left := " and ".join(counted(number, kind) for number, kind in kinds if number):
            message = f"{left} did not run: code of this folder runs only when it is asked for"
            place, hint = (self._docs.name, 0, 0), "look at the code, then build with --run"
            warning = Diagnostic(*place, "not-run", message, hint, severity=Severity.WARNING)
            report.add(warning)
        return Results(shapes, self._sources, figures)


def known(earlier: Results, now: Results) -> Results:
    """Results that are there, and earlier ones where a run has yet to be made: shapes only of a
    source that has not changed since.
    """
    same = {name for name, key in now.sources.items() if earlier.sources.get(name) == key}
    shapes = {name: shapes for name, shapes in earlier.shapes.items() if name in same}
    return Results({**shapes, **now.shapes}, now.sources, {**earlier.figures, **now.figures})
