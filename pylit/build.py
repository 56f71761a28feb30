"""What decides whether an earlier build still holds: the version of the generator, and what the
file system says of each file that a build may read.

A file whose size, times and place on the disk are the same has the same content: every edit sets
the time at which the system last touched it, which no program can set back. A file that was touched
right before the build, or in it, could be edited again without that time moving on; then there is
nothing to remember, and the next build looks at contents, as it does after any doubt.
"""

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from jinja2 import TemplateError

from pylit.cache import Cache, alone, digest
from pylit.config import SiteConfig
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Drawn, Gallery
from pylit.links import audit
from pylit.node.process import NodeError
from pylit.outcome import THEME, Options, Outcome, Progress
from pylit.press import Press
from pylit.runs import end_workers, versions
from pylit.search import SearchIndex
from pylit.shapes.lines import ModuleShapes
from pylit.shapes.trace import Tracing
from pylit.site import Site, read_config
from pylit.stages import Stages
from pylit.tex import MathRenderer
from pylit.tex import versions as versions_of_formulas
from pylit.write import Output, standing

_PYLIT = Path(__file__).resolve().parent
#: The packages whose version can change a page.
_PACKAGES = ("markdown-it-py", "mdit-py-plugins", "Pygments", "Jinja2", "pybtex")
#: Nanoseconds in which two edits may get the same time; the second is for disks that count seconds.
_TICK, _SECONDS = 20_000_000, 2_000_000_000
#: Folders that are not looked at, and what folders hold that are not.
_UNREAD = {"__pycache__", "node_modules"}
_SKIPPED = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"}


def generator_digest() -> str:
    """Changes with every edit to this package, to the Node scripts, and with every new version."""
    code = [path for path in sorted(_PYLIT.rglob("*")) if path.suffix in (".py", ".txt")]
    return digest(_versions(), versions_of_formulas(), *(path.read_bytes() for path in code))


@cache
def _versions() -> str:
    return " ".join([sys.version, *map(version, _PACKAGES)])


def inputs(options: Options, config: object) -> tuple[str, int]:
    """What the file system says of everything that a build may read, in one digest.

    Also when the last of it was touched, as late as it may have been.
    """
    told, newest = [repr(replace(options, jobs=0, cache=None)), repr(config), *versions()], 0
    known = {os.path.realpath(path) for path in (options.out, options.cache) if path}
    tops = (_PYLIT, options.theme, *(options.sources or [options.root]))
    # Packages around a source give its modules their names.
    around = (f"{p}/__init__.py" for s in options.sources for p in s.resolve().parents)
    lock = options.node_modules / ".package-lock.json"
    for path in chain([lock], around, *(_paths(top, known) for top in tops)):
        # Of a link, what it leads to as well.
        for look in (os.lstat, os.stat):
            try:
                found = look(path)
            except (OSError, ValueError):
                told.append(f"{path} -")
                break
            touched = found.st_ctime_ns
            told.append(f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns} {touched}")
            newest = max(newest, touched + (_TICK if touched % 10**9 else _SECONDS))
    return digest(*told), newest


def _paths(top: Path, known: set[str]) -> Iterator[str | Path]:
    """A file, or all in a folder but for what is hidden, environments, caches and `known` folders.

    Those that it walks become known.
    """
    if not top.is_dir():
        yield top
    for folder, inside, files in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in known or (folder != str(top) and not _SKIPPED.isdisjoint([*inside, *files])):
            inside.clear()
            continue
        known.add(real)
        inside[:] = sorted(n for n in inside if n[0] != "." and n not in _UNREAD)
        yield from (f"{folder}/{name}" for name in sorted(files) if name[0] != ".")


__all__ = ["SEARCH", "THEME", "Builder", "Options", "Outcome"]

#: Files that are made last while an author works: until then, those of the build before stay.
SEARCH = ("assets/search/", "assets/search-index.js")


class Builder(ExitStack):
    """Builds one site, again and again: Node and what is in memory serve every build.

    `shown` is called when the pages stand, before runs whose code has changed and the index of the
    search are done: then with the figures and, where lines are as they were, the shapes of the
    build before.
    """

    def __init__(
        self,
        options: Options,
        progress: Progress | None = None,
        shown: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.options, self.progress, self.shown = options, progress or Progress(), shown
        # Nearly all that a build makes stays: Python need not look for garbage so often.
        gc.set_threshold(100_000, 20, 20)
        roots = [str(path.resolve()) for path in options.sources or (options.root,)]
        folder = options.cache
        #: Where what belongs to these sources is kept between builds.
        self.remembered = folder / "pages" / digest(*roots)[:16] if folder else None
        self._cache = Cache(self.remembered, keep=options.serving)
        self.maths = MathRenderer(folder / "maths" if folder else None, plain=bool(options.lacking))
        self.callback(end_workers)
        self.callback(self.maths.close)
        #: What runs told in the build before; of a module, with the digest of its source.
        self._shapes: Mapping[tuple[str, str], ModuleShapes] = {}
        self._figures: Mapping[str, Drawn] = {}

    def build(self) -> Outcome:
        """Build the site once. What is wrong is in the outcome; nothing is raised for it."""
        start, outcome = time.perf_counter(), Outcome()
        try:
            self._build(outcome)
        except NodeError as error:
            hint = "install Node.js 20 or newer, then run `python -m pylit.node`"
            outcome.report.add(Diagnostic("node", 0, 0, "node", str(error), hint))
        except TemplateError as error:
            outcome.report.add(_theme_fault(error, self.options.theme))
        self.maths.keep()
        outcome.seconds = time.perf_counter() - start
        return outcome

    def _build(self, outcome: Outcome) -> None:
        """A build, unless nothing has changed since the last one that was without a fault."""
        options, report = self.options, outcome.report
        once, begun = not (options.check or options.serving), time.time_ns()
        generator, config = generator_digest(), read_config(options, report)
        if config is None:
            return
        if once:
            before, newest = inputs(options, config)
            name, key = f"last {options.out}", digest(generator, before)
            pages, said, stood = self._cache.load(name, key) or (0, (), None)
            if stood == standing(options.out):
                report.update(said)
                outcome.pages = pages
                return
        with ExitStack() as end:
            if self.remembered is not None:
                with suppress(OSError):
                    self.remembered.mkdir(parents=True, exist_ok=True)
                    end.enter_context(alone(self.remembered))
            output = end.enter_context(Output(options.out, report, check=options.check))
            if not report.failed:
                stages = Stages(self._cache, generator, options.jobs, self.progress, outcome)
                self._make(config, stages, output)
                outcome.written = output.publish()
            if not report.failed:
                self._cache.prune()
                if once and newest < begun:
                    told = (outcome.pages, tuple(report), standing(options.out))
                    self._cache.store(name, key, told)

    def _make(self, config: SiteConfig, stages: Stages, output: Output) -> None:
        """Every file of the site, into `output`: the pipeline."""
        options, outcome, report = self.options, stages.outcome, stages.outcome.report
        site = Site(options, config, stages, report)
        leaves = stages.parse(*site.sources())
        own = [leaf for leaf in leaves if leaf.source.own]
        # Another's package is never imported.
        modules = [leaf.module for leaf in own if not leaf.prose]
        where = (options.docs, options.docs.parent, self._cache, stages.generator)
        texts = [leaf.source.text for leaf in own]
        with (
            Tracing(modules, *where, stays=options.serving) as tracing,
            Gallery(modules, texts, *where, stays=options.serving) as gallery,
        ):
            site.gather(stages.draft(leaves, self.maths, site.around))
            now = {leaf.source.name: leaf.source.digest for leaf in own}
            if self.shown is not None:
                early, kept = Report(report), self._shapes.items()
                shapes = {name: told for (name, was), told in kept if now.get(name) == was}
                shapes |= tracing.kept()
                figures = {**self._figures, **gallery.kept()}
                press = Press(site, stages, self.maths.result, shapes, figures)
                _finish(press, output, early, search=False)
                if not early.failed:
                    output.publish(keep=SEARCH)
                    self.shown()
            told, self._figures = tracing.finish(report), gallery.finish(site.asked(), report)
        _finish(Press(site, stages, self.maths.result, told, self._figures), output, report)
        outcome.pages = len(site.pairs)
        self._shapes = {(name, now[name]): shapes for name, shapes in told.items() if name in now}


def _finish(press: Press, output: Output, report: Report, *, search: bool = True) -> None:
    audited, formulas = [], []
    with SearchIndex() as index:
        for page in chain(press.pages(), press.lists()):
            output.add(page.audited.url, page.html.encode())
            output.update(page.previews)
            report.update(page.diagnostics)
            if search and page.search:
                index.add(*press.site.found(page.search))
            audited.append(page.audited)
            formulas.append(page.formulas)
        if search:
            output.update(index.files())
    output.update(press.files(formulas, output, report))
    audit(audited, output, report)


def _theme_fault(error: TemplateError, theme: Path) -> Diagnostic:
    """What is wrong with a template, at its line: Jinja makes frames of their files and lines."""
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    inside = [frame for frame in frames if Path(frame[0]).is_relative_to(theme)]
    path, line = inside[-1] if inside else (str(theme), 0)
    return Diagnostic(path, line, 0, "theme", error.message or "", "mend the template")
