"""One build, from sources to pages: the order of the pipeline, and nothing else.

    discover -> parse -> sections -> markdown, highlight, xref -> shapes -> maths -> pages -> render
    -> figures -> search, previews, sitemap, feed, inventory -> links (audit) -> publish

What runs of a module tell of it comes between drafts and pages: drafts know every line of code, and
pages are where something can be added to one. The runs begin before the drafts, in a process of
their own, and so do the figures.

A fault anywhere is reported and the rest goes on, so that one build finds them all. Each file is
staged beside its place as soon as it is made; in the end all of them move, or none.
"""

import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from jinja2 import TemplateError, TemplateSyntaxError

from pylit.cache import Cache, alone, digest, forget_old
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.figures.gallery import Asked, Drawn, Gallery
from pylit.model import Module, SiteView, SourceFile
from pylit.node.executable import NodeError
from pylit.node.packages import MODULES
from pylit.notebooks.model import Surroundings
from pylit.notebooks.pages import FOLDER, Notebooks, read_notebooks
from pylit.page.cards import Cards
from pylit.page.fonts import shelf
from pylit.pipeline.apparatus import Apparatus, as_leaf, read_apparatus
from pylit.pipeline.companions import Site, companions, generated_pages
from pylit.pipeline.generator import generator_digest
from pylit.pipeline.pool import collector_at_rest
from pylit.pipeline.progress import Progress
from pylit.pipeline.stages import Leaf, Page, Press, Stages, Tally, Theme
from pylit.pipeline.unchanged import Traces
from pylit.runs import end_workers, versions
from pylit.shapes.lines import ModuleShapes
from pylit.shapes.trace import Tracing
from pylit.site.addresses import ALL, HOME, Addresses, file_path, module_url, prose_url
from pylit.site.catalogue import named_groups, neighbours, package_groups, rest_of
from pylit.site.config import SiteConfig, load_config
from pylit.site.drafts import Draft
from pylit.site.links import AuditedPage, audit
from pylit.site.pages import Place, front_matter_faults, place
from pylit.site.prose import read_pages, read_static
from pylit.site.relations import relations
from pylit.site.search import ALIASES, SearchIndex, SearchPage, counted, read_aliases
from pylit.site.texts import ARCHIVE, archive
from pylit.site.write import Output, Written, standing
from pylit.source.cpp import read_cpp
from pylit.source.discover import discover
from pylit.tex.maths import MathRenderer

#: Told what was written.
Shown = Callable[[Written], None]
#: Files that are made last while an author works: until then, those of the build before stay.
SEARCH = ("assets/search/", "assets/search-index.js")
THEME = Path(__file__).resolve().parents[1] / "theme"
_NOWHERE = Path(__file__).parent / "nowhere"
#: Days after which what was kept for a package that is not built any more is deleted.
_MONTH = 30


@dataclass(frozen=True, slots=True)
class Options:
    """What to build, where to, and how."""

    #: The folder that holds ``docs_src``.
    root: Path
    out: Path
    #: Packages to render instead of the site's own sources.
    sources: tuple[Path, ...] = ()
    #: None keeps nothing between processes.
    cache: Path | None = None
    jobs: int = 1
    #: Do everything but write.
    check: bool = False
    #: Whether builds follow each other while an author works.
    serving: bool = False
    title: str = ""
    base_url: str = ""
    theme: Path = THEME
    node_modules: Path = MODULES
    #: Why there is no Node, or nothing from npm; empty when there is both.
    lacking: str = ""

    @property
    def docs(self) -> Path:
        """Where what is not Python source lies; somebody else's package has nothing of the kind."""
        return self.root / "docs_src" if not self.sources else _NOWHERE / "docs_src"


@dataclass(slots=True)
class Outcome:
    """What came of a build."""

    report: Report
    pages: int = 0
    tally: Tally = field(default_factory=Tally)
    written: Written = field(default_factory=Written)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Last:
    """A build that nothing was wrong with."""

    pages: int
    diagnostics: tuple[Diagnostic, ...]
    #: What stood in the output folder after it.
    standing: str


@dataclass(frozen=True, slots=True)
class _Runs:
    """What runs told in the build before."""

    figures: Mapping[str, Drawn] = field(default_factory=dict)
    #: Of each module, with the digest of its source.
    found: Mapping[str, tuple[str, ModuleShapes]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        leaves: Iterable[Leaf],
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
    ) -> "_Runs":
        sources = [leaf.source for leaf in leaves if leaf.source.name in shapes]
        return cls(figures, {one.name: (one.digest, shapes[one.name]) for one in sources})

    def shapes(self, leaves: Iterable[Leaf]) -> dict[str, ModuleShapes]:
        """Those of modules whose lines are where they were."""
        digests = {leaf.source.name: leaf.source.digest for leaf in leaves}
        return {
            name: shapes
            for name, (source, shapes) in self.found.items()
            if digests.get(name) == source
        }


class Builder:
    """Builds one site, again and again: Node and what is in memory serve every build."""

    def __init__(self, options: Options) -> None:
        self.options = options
        roots = [str(path.resolve()) for path in options.sources] or [str(options.root.resolve())]
        roots += ["lacking"] if options.lacking else []
        folder = options.cache
        #: Where what belongs to these sources is kept between builds.
        self.remembered = folder / "pages" / digest(*roots)[:16] if folder else None
        self._cache = Cache(self.remembered, keep=options.serving)
        self.maths = MathRenderer(folder / "maths" if folder else None, plain=bool(options.lacking))
        self._last = _Runs()
        #: Digest of the code of the generator, as the build that runs found it.
        self._generator = ""

    def __enter__(self) -> "Builder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End Node, and the processes that wait for runs."""
        self.maths.close()
        end_workers()

    def build(self, progress: Progress | None = None, shown: Shown | None = None) -> Outcome:
        """Build the site once. What is wrong is in the outcome; nothing is raised for it.

        `shown` is told when the pages stand, before runs whose code has changed and the index of
        the search are done: then with the figures and, where lines are as they were, the shapes of
        the build before.
        """
        start = time.perf_counter()
        outcome = Outcome(Report())
        try:
            with collector_at_rest():
                self._build(outcome, progress or Progress(), shown)
        except NodeError as error:
            hint = "install Node.js 20 or newer, then run `python -m pylit.node`"
            outcome.report.add(Diagnostic("node", 0, 0, "node", str(error), hint))
        except TemplateError as error:
            outcome.report.add(_theme_fault(error, self.options.theme))
        self.maths.keep()
        outcome.seconds = time.perf_counter() - start
        return outcome

    def _build(self, outcome: Outcome, progress: Progress, shown: Shown | None) -> None:
        self._generator = generator_digest()
        begun, before = time.time_ns(), self._inputs()
        key, name = digest(self._generator, before.digest), f"last {self.options.out}"
        last: _Last | None = self._cache.load(name, key)
        if last is not None and last.standing == standing(self.options.out):
            outcome.report.extend(last.diagnostics)
            outcome.pages = last.pages
            return
        with ExitStack() as end:
            if self.remembered is not None:
                with suppress(OSError):
                    self.remembered.mkdir(parents=True, exist_ok=True)
                    end.enter_context(alone(self.remembered))
            output = Output(self.options.out, outcome.report, check=self.options.check)
            end.enter_context(output)
            if not outcome.report.failed:
                self._make(output, outcome, progress, shown)
            if not outcome.report.failed:
                outcome.written = output.publish()
            if not outcome.report.failed:
                self._cache.prune()
                if self.remembered is not None:
                    forget_old(self.remembered.parent, _MONTH)
                if before.newest < begun and not (self.options.check or self.options.serving):
                    said = tuple(outcome.report)
                    last = _Last(outcome.pages, said, standing(self.options.out))
                    self._cache.store(name, key, last)

    def _inputs(self) -> Traces:
        """What the file system says of everything that a build may read."""
        options, found = self.options, Traces()
        if options.check or options.serving:
            return found
        found.note(repr(replace(options, jobs=0, cache=None)), *versions())
        found.file(options.node_modules / ".package-lock.json")
        found.folder(Path(__file__).resolve().parents[1])
        found.folder(options.theme)
        for source in options.sources:
            found.folder(source)
            # Packages around a source give its modules their names.
            for folder in source.resolve().parents:
                found.note(str((folder / "__init__.py").is_file()))
        if not options.sources:
            found.note(repr(self._config(Report())))
            found.folder(options.root, without=[options.out, options.cache or options.out])
        return found

    def _config(self, report: Report) -> SiteConfig | None:
        options = self.options
        if not options.sources:
            return load_config(options.docs / "site.toml", "docs_src/site.toml", report)
        names = ", ".join(path.resolve().name for path in options.sources)
        summary = f"The source of {names}: notes beside the code that they speak about."
        return SiteConfig(options.title or names, summary, options.base_url, "", "", "en", ())

    def _make(
        self, output: Output, outcome: Outcome, progress: Progress, shown: Shown | None
    ) -> None:
        """Every file of the site, into `output`."""
        report, options = outcome.report, self.options
        if options.lacking:
            message = f"formulas are shown as TeX, without fonts: {options.lacking}"
            hint = "with Node.js 20 or newer and a network once, `python -m pylit.node` sets it up"
            report.add(Diagnostic("node", 0, 0, "node", message, hint, severity=Severity.WARNING))
        config = self._config(report)
        if config is None or report.failed:
            return
        around = read_apparatus(options.docs, self._cache, self._generator, report)
        named = (config.base_url, config.repository, config.branch)
        notebooks = read_notebooks(Surroundings(options.docs.parent, *named), report)
        extra = [*notebooks.modules, *([around.glossary] if around.glossary else [])]
        stages = Stages(self._cache, self._generator, options.jobs, progress)
        leaves = stages.parse(*_read(options, config, extra, report))
        own = [leaf for leaf in leaves if leaf.source.own]
        # Another's package is never imported.
        modules = [leaf.module for leaf in own if not leaf.prose]
        where = (options.docs, options.docs.parent, self._cache, self._generator)
        texts = [leaf.source.text for leaf in own]
        with (
            Tracing(modules, *where, stays=options.serving) as tracing,
            Gallery(modules, texts, *where, stays=options.serving) as gallery,
        ):
            drafts = stages.draft(leaves, self.maths, around.targets())
            making = _Making(self, config, around, notebooks, stages, leaves, drafts, output)
            if shown is not None:
                early = Report(report)
                known = {**self._last.shapes(leaves), **tracing.kept()}
                making.pages(known, {**self._last.figures, **gallery.kept()}, early, search=False)
                if not early.failed:
                    shown(output.publish(keep=SEARCH))
            shapes = tracing.finish(report)
            figures = gallery.finish(_asked(leaves, drafts), report)
        outcome.tally, outcome.pages = stages.tally, making.pages(shapes, figures, report)
        self._last = _Runs.of(leaves, shapes, figures)


@dataclass(frozen=True, slots=True)
class _Making:
    """A site of which all is known but what its runs tell."""

    builder: Builder
    config: SiteConfig
    around: Apparatus
    notebooks: Notebooks
    stages: Stages
    leaves: Sequence[Leaf]
    drafts: Sequence[Draft]
    output: Output

    def pages(
        self,
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
        report: Report,
        *,
        search: bool = True,
    ) -> int:
        """The pages and the files beside them, into the output; how many pages there are."""
        options, output, around = self.builder.options, self.output, self.around
        typeset, modules = self.builder.maths.result, options.node_modules
        made = around.pages(self.config, self.drafts)
        leaves = [*self.leaves, *map(as_leaf, made)]
        drafts = [*self.drafts, *(page.draft for page in made)]
        for leaf, draft in zip(leaves, drafts, strict=True):
            report.extend((*leaf.diagnostics, *draft.diagnostics))
            if draft.own:
                front_matter_faults(draft, leaf.source.lines, options.root, report)
        view = _view(options, self.config, drafts, report)
        site = Site(self.config, view, leaves, drafts)
        theme = Theme(options.theme, options.docs, view)
        press = Press(theme, typeset, shapes, figures, around.works)
        placed, searched = _places(options, site), _searched(options, site, report)
        with SearchIndex() as index:
            for number, page in self.stages.finish(leaves, drafts, placed, press):
                output.add(file_path(page.url), page.html.encode())
                output.update(page.previews)
                report.extend(page.diagnostics)
                if search:
                    index.add(number, *searched(page))
                site.pages[page.url] = page.bare()
            if search:
                output.update(index.files())
        output.update(around.previews(drafts, typeset))
        if not (options.sources or options.lacking):
            cards = Cards(options.theme, modules, shelf(modules))
            output.update(self.stages.cards(leaves, drafts, placed, view, cards, figures))
        generated = generated_pages(site, theme)
        output.update((file_path(page.url), page.html.encode()) for page in generated)
        installed = None if options.lacking else modules
        output.update(companions(site, options.theme, installed, options.cache, report))
        output.update(_static(options.docs, {*output, *self.notebooks.files}, report))
        output.update(self.notebooks.files)
        if not options.sources:
            output.add(ARCHIVE, _archive(options, output))
        audit(_audited(site, generated, self.stages), output, report)
        return len(site.pages)


def _read(
    options: Options, config: SiteConfig, extra: Sequence[Module], report: Report
) -> tuple[Iterator[SourceFile], Iterator[Module]]:
    """Sources and Markdown pages, `extra` ones too, each with an address of its own."""
    own, roots = not options.sources, options.sources
    roots = roots or tuple(options.root / name for name in config.sources)
    prose = [*read_pages(options.docs / "pages", "docs_src/pages", report), *extra]
    found: Iterable[SourceFile] = (
        source for root in roots for source in discover(root, own=own, report=report)
    )
    if own:
        found = list(found)
        prose += read_cpp(found, report)
    addresses = Addresses(report)
    known: set[tuple[Path, str]] = set()

    def claimed(source: SourceFile) -> bool:
        # A folder and a package in it may both be named.
        if (source.path, source.name) in known:
            return False
        known.add((source.path, source.name))
        return addresses.claim(module_url(source), source)

    pages = (p for p in prose if addresses.claim(prose_url(p.source.name), p.source))
    return filter(claimed, found), pages


def _view(
    options: Options, config: SiteConfig, drafts: Sequence[Draft], report: Report
) -> SiteView:
    """The site as templates see it, its catalogue and reading paths with it."""
    named = {draft.name: draft for draft in drafts}
    own = not options.sources
    groups = named_groups(config, config.groups, named, report) if own else package_groups(drafts)
    paths = named_groups(config, config.paths, named, report)
    rest = rest_of((*paths, *groups), drafts) if own else ()
    return SiteView(
        title=config.title,
        summary=config.summary,
        base_url=config.base_url,
        repository_url=f"https://github.com/{config.repository}" if config.repository else "",
        language=config.language,
        catalogue=groups if paths else groups + rest,
        paths=paths,
        hood=rest if paths else (),
        index=ALL if paths else HOME,
        bare=bool(options.lacking),
    )


def _places(options: Options, site: Site) -> Callable[[Leaf, Draft], Place]:
    """Where a page stands: the packages around it, and its neighbours in a path or group."""
    urls = {draft.name: draft.url for draft in site.drafts if not draft.prose}
    urls |= {f"{d.name}.ipynb": d.url for d in site.drafts if d.name.startswith(f"{FOLDER}/")}
    around = neighbours((*site.view.paths, *site.view.catalogue, *site.view.hood))
    related = relations(site.drafts, site.targets())

    def placed(leaf: Leaf, draft: Draft) -> Place:
        where = place(draft, leaf.source.path, options.root, site.config, urls)
        beside = around.get(draft.url, where.around)
        return replace(where, around=beside, related=related.get(draft.url, {}))

    return placed


def _searched(
    options: Options, site: Site, report: Report
) -> Callable[[Page], tuple[SearchPage, int]]:
    """How search finds a page: by which other names, and how it ranks among others."""
    names = {draft.url: draft.name for draft in site.drafts}
    aliases = read_aliases(options.docs / ALIASES, names.values(), report)
    listed = (site.config.groups, site.config.paths)
    ranks = {p.name: n for n, groups in enumerate(listed, 1) for g in groups for p in g.pages}

    def searched(page: Page) -> tuple[SearchPage, int]:
        name, found = names[page.url], page.search
        assert found is not None
        if name in aliases:
            found = counted(replace(found, names=(*found.names, *aliases[name])))
        return found, ranks.get(name, 0)

    return searched


def _static(docs: Path, made: Collection[str], report: Report) -> dict[str, bytes]:
    """Files that the author put beside the Markdown pages; `made` are those of the build."""
    files = read_static(docs / "pages", "docs_src/pages", report)
    # Models that run in pages, and their panels: loaded when a reader asks for one.
    live = read_static(docs / "live", "docs_src/live", report)
    files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
    for name in sorted(files.keys() & made):
        message = f"would be written to `{name}`, which the build makes itself"
        path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
        report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
    return files


def _archive(options: Options, files: Mapping[str, bytes]) -> bytes:
    """The site in one file. While an author works, that of the last whole build will do."""
    old = options.out / ARCHIVE
    if options.check:
        return b""
    return old.read_bytes() if options.serving and old.is_file() else archive(files)


def _asked(leaves: Sequence[Leaf], drafts: Sequence[Draft]) -> Iterator[Asked]:
    """Every place that asks for a figure."""
    for leaf, draft in zip(leaves, drafts, strict=True):
        lines = leaf.source.lines
        for use in draft.figures():
            yield Asked(draft.display, lines[use.line - 1], use)


def _audited(site: Site, generated: Sequence[Page], stages: Stages) -> list[AuditedPage]:
    """All pages, with what an audit tells of its findings."""
    pages = []
    for leaf, draft in zip(site.leaves, site.drafts, strict=True):
        page, lines = site.pages[draft.url], partial(stages.lines, leaf)
        path = file_path(page.url)
        pages.append(
            AuditedPage(path, page.facts, draft.display, page.references, draft.own, lines)
        )
    return pages + [AuditedPage(page.url, page.facts, page.url, (), True) for page in generated]


def _theme_fault(error: TemplateError, theme: Path) -> Diagnostic:
    """What is wrong with a template, at its line where that is known."""
    path, line = str(theme), 0
    if isinstance(error, TemplateSyntaxError):
        path, line = error.filename or path, error.lineno
    else:
        # Jinja gives the frames of its templates their files and lines.
        for frame in traceback.extract_tb(error.__traceback__):
            if Path(frame.filename).is_relative_to(theme):
                path, line = frame.filename, frame.lineno or 0
    return Diagnostic(path, line, 0, "theme", error.message or "", "mend the template")
