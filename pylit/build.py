"""The pipeline of a build. One without faults is remembered: see `pylit.site.options.inputs`."""

import gc
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from jinja2 import TemplateError

from pylit.cache import Cache, CacheError, digest, folder_lock
from pylit.config import SiteConfig
from pylit.diagnostics import Diagnostic, Report, Severity, counted
from pylit.languages.language import Language
from pylit.model import Target
from pylit.node.process import NodeError
from pylit.notes.tex import MathRenderer
from pylit.outputs.folder import Output, output_state
from pylit.outputs.links import audit
from pylit.runs.figures import FigureHtml, FigureRuns
from pylit.runs.shapes.lines import ModuleShapes
from pylit.runs.shapes.trace import ShapeRuns
from pylit.runs.tasks import Worker
from pylit.site.inputs import Site, read_config
from pylit.site.options import Options, generator_digest, inputs
from pylit.site.outcome import Outcome
from pylit.site.publish import SiteFiles
from pylit.site.stages import draft_pages, parse_pages
from pylit.site.translated import translate_pages
from pylit.source.inventories import read_inventories

_REBUILD = "build again; if that does not help, its disk is full: name another with --cache"


class Builder(ExitStack):
    """Builds one site repeatedly; the builds share Node and the values in memory.

    Args:
        options: The options of all builds.
        shown: Called when the pages are written, before all other files and the runs whose code
            has changed; the pages then have the earlier figures, and shapes where the source is
            unchanged. Called again with the shapes of the modules that were edited.
    """

    def __init__(self, options: Options, shown: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.options, self.shown = options, shown
        # Nearly all objects of a build live until its end: collect garbage rarely.
        gc.set_threshold(100_000, 20, 20)
        roots = [str(path.resolve()) for path in options.sources or (options.root,)]
        folder = options.cache
        pages = folder / "pages" / digest(*roots)[:16] if folder else None
        self.cache = Cache(pages, keep=options.serving)
        maths = folder / "maths" if folder else None
        self._maths = MathRenderer(maths, plain=bool(options.missing_node))
        self._worker = Worker(options.jobs if options.run else 0, stays=options.serving)
        self.callback(self._worker.close)
        self.callback(self._maths.close)
        #: The results of the last runs; of a module, with the digest of its source.
        self._shapes: Mapping[tuple[str, str], ModuleShapes] = {}
        self._figures: Mapping[str, FigureHtml] = {}

    def build(self) -> Outcome:
        """Build the site once. Faults are in the outcome; none is raised."""
        start, outcome = time.perf_counter(), Outcome()
        try:
            self._build(outcome)
        except NodeError as error:
            hint = "install Node.js 20 or newer, then run `python -m pylit.node`"
            outcome.report.add(Diagnostic("node", 0, 0, "node", str(error), hint))
        except CacheError as error:
            outcome.report.add(Diagnostic("cache", 0, 0, "output", str(error), _REBUILD))
        except TemplateError as error:
            outcome.report.add(_theme_fault(error, self.options.theme))
        self._maths.save()
        outcome.seconds = time.perf_counter() - start
        return outcome

    def _build(self, outcome: Outcome) -> None:
        options, report, started = self.options, outcome.report, time.time_ns()
        config = read_config(options, report)
        if config is None:
            return
        others = read_inventories(config.inventories, options.root, report)
        once = not (options.check or options.serving)
        if once:
            state, newest = inputs(options, (config, sorted(others)))
            name, key = f"last {options.out}", digest(generator_digest(), state)
            pages, faults, written = self.cache.load(name, key) or (0, (), None)
            if written == output_state(options.out):
                report.update(faults)
                outcome.pages = pages
                return
        with ExitStack() as end:
            if folder := self.cache.folder:
                with suppress(OSError):
                    folder.mkdir(parents=True, exist_ok=True)
                    end.enter_context(folder_lock(folder))
            output = end.enter_context(Output(options.out, report, check=options.check))
            if not report.failed:
                self._make(config, others, output, outcome)
                outcome.written = output.publish()
            if not report.failed:
                self.cache.prune()
                if once and newest < started:
                    built = outcome.pages, tuple(report), output_state(options.out)
                    self.cache.store(name, key, built)

    def _make(
        self, config: SiteConfig, others: Mapping[str, Target], output: Output, outcome: Outcome
    ) -> None:
        """Make every file of the site: the pipeline."""
        options, report, typeset = self.options, outcome.report, self._maths.result
        site = Site(options, config, self.cache, generator_digest(), outcome)
        parsed_pages = parse_pages(site)
        own = [parsed for parsed in parsed_pages if parsed.source.own]
        # A foreign package is never imported.
        modules = [parsed.module for parsed in own if not parsed.prose]
        texts = [parsed.source.text for parsed in own]
        digests = {parsed.source.name: parsed.source.digest for parsed in own}
        edited = {name for name, key in self._shapes if digests.get(name) != key}
        where = (options.docs, self.cache, site.generator, self._worker)
        with (
            ShapeRuns(modules, *where, edited) as tracing,
            FigureRuns(modules, *where, texts=texts) as gallery,
        ):
            gallery.begin()
            tracing.begin()
            pairs = draft_pages(site, parsed_pages, others, self._maths)
            pages = [(Language(), pairs)]
            for language in site.languages:
                translations = translate_pages(site, language, pairs, others, self._maths)
                pages.append((language, translations))
            site.gather(pages)
            last = {name: s for (name, key), s in self._shapes.items() if digests.get(name) == key}

            def known(faults: Report) -> SiteFiles:
                """The files of the site with what is there of its runs."""
                figures = {**self._figures, **gallery.cached()}
                shapes = {**last, **tracing.cached()}
                return SiteFiles(site, typeset, shapes, figures, faults)

            def show(shown: Callable[[], None]) -> None:
                early = Report(report)
                pages, _ = known(early).write_pages(output)
                audit(pages, {*output, *output.known}, early)
                if not early.failed:
                    output.publish(last=False)
                    shown()

            if self.shown is not None:
                show(self.shown)
                if tracing.wait(edited):
                    show(self.shown)
            gallery.wait()
            if running := tracing.running():
                known(Report()).prepare(running)
            shapes = tracing.finish(report)
            self._figures = gallery.finish(site.own.figure_uses(), report)
            counts = ((tracing.left, "trace"), (gallery.left, "figure"))
            if left := " and ".join(counted(number, kind) for number, kind in counts if number):
                message = f"{left} did not run: code of this folder runs only when it is asked for"
                place, off = (options.docs.name, 0, 0), Severity.WARNING
                hint = "look at the code, then build with --run"
                report.add(Diagnostic(*place, "not-run", message, hint, severity=off))
        SiteFiles(site, typeset, shapes, self._figures, report).write(output)
        outcome.pages = sum(len(edition.pairs) for edition in site.editions)
        self._shapes = {(name, digests[name]): s for name, s in shapes.items() if name in digests}


def _theme_fault(error: TemplateError, theme: Path) -> Diagnostic:
    """The fault of a template at its line, which Jinja's frames contain."""
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    inside = [frame for frame in frames if Path(frame[0]).is_relative_to(theme)]
    path, line = inside[-1] if inside else (str(theme), 0)
    return Diagnostic(path, line, 0, "theme", error.message or "", "correct the template")
