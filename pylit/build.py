"""The pipeline of a build. One without faults is remembered: see `pylit.site.options.inputs`."""

import gc
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from jinja2 import TemplateError

from pylit.cache import Cache, CacheError, digest, folder_lock
from pylit.config import SiteConfig
from pylit.diagnostics import Diagnostic
from pylit.languages.language import Language
from pylit.model import ParsedPage, Target
from pylit.node.process import NodeError
from pylit.notes.tex import MathRenderer
from pylit.outputs.folder import Output, output_state
from pylit.runs.results import Results, SiteRuns, known
from pylit.runs.tasks import Worker
from pylit.site.edition import Edition, arrange
from pylit.site.inputs import Site, read_config
from pylit.site.options import Options, generator_digest, inputs
from pylit.site.outcome import Outcome
from pylit.site.publish import Publication, write
from pylit.site.stages import draft_pages, parse_pages
from pylit.site.translated import translate_pages
from pylit.source.inventories import read_inventories

_REBUILD = "build again; if that does not help, its disk is full: name another with --cache"


class Builder(ExitStack):
    """Builds one site repeatedly; the builds share Node and the values in memory.

    Args:
        options: The options of all builds.
        worker: A child process that other builders use, too, and that outlives this one.
    """

    def __init__(self, options: Options, worker: Worker | None = None) -> None:
        super().__init__()
        self.options = options
        # Nearly all objects of a build live until its end: collect garbage rarely.
        gc.set_threshold(100_000, 20, 20)
        roots = [str(path.resolve()) for path in options.sources or (options.root,)]
        folder = options.cache
        pages = folder / "pages" / digest(*roots)[:16] if folder else None
        self.cache = Cache(pages, keep=options.serving)
        maths = folder / "maths" if folder else None
        self._maths = MathRenderer(maths, plain=bool(options.missing_node))
        self._worker = worker or Worker(options.jobs if options.run else 0, stays=options.serving)
        if not worker:
            self.callback(self._worker.close)
        self.callback(self._maths.close)
        #: Those of the last whole build.
        self._results = Results()

    def build(self, *, quick: bool = False) -> Outcome:
        """Build the site once. Faults are in the outcome; none is raised.

        A quick build is for an author who waits, and a whole one follows it: nothing runs, and the
        pages alone are written, with the results of runs that are there. Those are of the last
        build where a run has yet to be made: figures, and shapes of sources that have not changed.
        """
        start, outcome = time.perf_counter(), Outcome()
        try:
            self._build(outcome, quick=quick)
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

    def _build(self, outcome: Outcome, *, quick: bool) -> None:
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
                self._make(config, others, output, outcome, quick=quick)
                outcome.written = output.publish(keep=quick)
            if not (report.failed or quick):
                self.cache.prune()
                if once and newest < started:
                    built = outcome.pages, tuple(report), output_state(options.out)
                    self.cache.store(name, key, built)

    def _make(
        self,
        config: SiteConfig,
        others: Mapping[str, Target],
        output: Output,
        outcome: Outcome,
        *,
        quick: bool,
    ) -> None:
        """Make the files of the site: read, understand, run, write."""
        site, pages = read(self.options, config, self.cache, outcome)
        worker = Worker(0) if quick else self._worker
        # The child process begins with its runs while this one drafts the pages.
        with SiteRuns(self.options.docs, self.cache, site.generator, worker, pages) as runs:
            editions = understand(site, pages, others, self._maths)
            results = runs.results(editions[0].figure_uses(), outcome.report)
        if quick:
            results = known(self._results, results)
        else:
            self._results = results
        made = Publication(site, editions, results, self._maths.result)
        write(made, output, outcome.report, quick=quick)
        outcome.pages = sum(len(edition.pages) for edition in editions)


def read(
    options: Options, config: SiteConfig, cache: Cache, outcome: Outcome
) -> tuple[Site, list[ParsedPage]]:
    """The site, and its pages as they are written."""
    site = Site(options, config, cache, generator_digest(), outcome)
    return site, parse_pages(site)


def understand(
    site: Site, pages: Sequence[ParsedPage], others: Mapping[str, Target], maths: MathRenderer
) -> tuple[Edition, ...]:
    """The pages in each language: drafted, translated, and arranged.

    `others` are names of other projects, with absolute addresses.
    """
    drafted = draft_pages(site, pages, others, maths)
    languages = [(Language(), drafted)]
    for language in site.languages:
        translated = translate_pages(site, language, drafted, others, maths)
        languages.append((language, translated))
    return arrange(site, languages)


def _theme_fault(error: TemplateError, theme: Path) -> Diagnostic:
    """The fault of a template at its line, which Jinja's frames contain."""
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    inside = [frame for frame in frames if Path(frame[0]).is_relative_to(theme)]
    path, line = inside[-1] if inside else (str(theme), 0)
    return Diagnostic(path, line, 0, "theme", error.message or "", "correct the template")
