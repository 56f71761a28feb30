"""One build, from sources to pages: the order of the pipeline, and nothing else.

    discover -> parse -> sections -> markdown, highlight, xref -> shapes -> maths -> pages -> render
    -> figures -> search, previews, sitemap, feed, inventory -> links (audit) -> write

What runs of a module tell of it comes between drafts and pages: drafts know every line of code, and
pages are where something can be added to one. The runs begin before the drafts, in a process of
their own, and so do the figures.

Every stage before the last only computes. A fault anywhere is reported and the rest goes on, so
that one build finds them all; then the site is written as a whole, or not at all.
"""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from jinja2 import TemplateError, TemplateSyntaxError

from pylit.cache import Cache, digest, forget_old
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.figures.gallery import Asked, Gallery
from pylit.model import Module, SiteView, SourceFile
from pylit.node.executable import NodeError
from pylit.node.packages import MODULES
from pylit.notebooks.model import Surroundings
from pylit.notebooks.pages import FOLDER, Notebooks, read_notebooks
from pylit.page.cards import Cards
from pylit.page.fonts import shelf
from pylit.pipeline.apparatus import Apparatus, as_parsed, read_apparatus
from pylit.pipeline.companions import Site, companions, generated_pages
from pylit.pipeline.generator import generator_digest
from pylit.pipeline.pool import collector_at_rest
from pylit.pipeline.progress import Progress
from pylit.pipeline.stages import Page, Parsed, Stages, Tally, Theme
from pylit.shapes.trace import Tracing
from pylit.site.addresses import ALL, HOME, Addresses, file_path, module_url, prose_url
from pylit.site.catalogue import named_groups, neighbours, package_groups, rest_of
from pylit.site.config import SiteConfig, load_config
from pylit.site.drafts import Draft
from pylit.site.links import AuditedPage, audit
from pylit.site.pages import Place, front_matter_faults, place
from pylit.site.prose import read_pages, read_static
from pylit.site.relations import relations
from pylit.site.search import ALIASES, read_aliases, search_files, search_page
from pylit.site.texts import ARCHIVE, archive
from pylit.site.write import Written, check_output, publish
from pylit.source.cpp import read_cpp
from pylit.source.discover import discover
from pylit.tex.maths import MathRenderer

THEME = Path(__file__).resolve().parents[1] / "theme"
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
        """Where what is not Python source lies."""
        return self.root / "docs_src"


@dataclass(slots=True)
class Outcome:
    """What came of a build."""

    report: Report
    pages: int = 0
    tally: Tally = field(default_factory=Tally)
    written: Written = field(default_factory=Written)
    seconds: float = 0.0


class Builder:
    """Builds one site, again and again: Node and what is in memory serve every build."""

    def __init__(self, options: Options) -> None:
        self.options = options
        roots = [str(path.resolve()) for path in options.sources] or [str(options.root.resolve())]
        roots += ["lacking"] if options.lacking else []
        folder = options.cache
        #: Where what belongs to these sources is kept between builds.
        self.remembered = folder / "pages" / digest(*roots)[:16] if folder else None
        self._cache = Cache(self.remembered)
        self._maths = MathRenderer(
            folder / "maths" if folder else None, plain=bool(options.lacking)
        )
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
        """End Node."""
        self._maths.close()

    def build(self, progress: Progress | None = None) -> Outcome:
        """Build the site once. What is wrong is in the outcome; nothing is raised for it."""
        start = time.perf_counter()
        outcome = Outcome(Report())
        try:
            with collector_at_rest():
                self._build(outcome, progress or Progress())
        except NodeError as error:
            hint = "install Node.js 20 or newer, then run `python -m pylit.node`"
            outcome.report.add(Diagnostic("node", 0, 0, "node", str(error), hint))
        except TemplateError as error:
            outcome.report.add(_theme_fault(error, self.options.theme))
        self._maths.keep()
        outcome.seconds = time.perf_counter() - start
        return outcome

    def _build(self, outcome: Outcome, progress: Progress) -> None:
        report, options = outcome.report, self.options
        if not options.check:
            check_output(options.out, report)
        if options.lacking:
            message = f"formulas are shown as TeX, without fonts and search: {options.lacking}"
            hint = "with Node.js 20 or newer and a network once, `python -m pylit.node` sets it up"
            report.add(Diagnostic("node", 0, 0, "node", message, hint, severity=Severity.WARNING))
        config = self._config(report)
        if config is None or report.failed:
            return
        self._generator = generator_digest()
        stages = Stages(self._cache, self._generator, options.jobs, progress)
        outcome.tally = stages.tally
        around = self._apparatus(report)
        notebooks = self._notebooks(config, report)
        extra = [*notebooks.modules, *([around.glossary] if around.glossary else [])]
        parsed = stages.parse(*self._read(config, extra, report))
        with self._tracing(parsed) as tracing, self._gallery(parsed) as gallery:
            drafts = stages.draft(parsed, self._maths, around.targets())
            shapes = tracing.finish(report)
            figures = gallery.finish(_asked(drafts, parsed), report)
        for made in around.pages(config, drafts):
            parsed.append(as_parsed(made))
            drafts.append(made.draft)
        view = self._view(config, drafts, report)
        theme = Theme(options.theme, options.docs, view)
        for draft, source in zip(drafts, parsed, strict=True):
            if draft.own:
                front_matter_faults(draft, source.module.source.lines, options.root, report)
        places = self._places(config, drafts, parsed, view)
        pages = stages.finish(
            drafts, parsed, places, theme, self._maths, shapes, figures, around.works
        )
        for stage in (parsed, drafts, pages):
            for one in stage:
                report.extend(one.diagnostics)
        site = Site(config, view, drafts, parsed, pages)
        generated = generated_pages(site, theme)
        previews = stages.previews(parsed, self._maths.result, around.works)
        previews |= around.previews(drafts, self._maths.result)
        files = self._search(config, drafts, parsed, report)
        files |= companions(
            site,
            options.theme,
            None if options.lacking else options.node_modules,
            options.cache,
            previews,
            report,
        )
        if not (options.sources or options.lacking):
            cards = Cards(options.theme, options.node_modules, shelf(options.node_modules))
            files |= stages.cards(drafts, places, view, cards, figures)
        for page in (*pages, *generated):
            files[file_path(page.url)] = page.html.encode()
        files = {**self._static(files, report), **notebooks.files, **files}
        if not options.sources:
            files[ARCHIVE] = self._archive(files)
        outcome.pages = len(pages)
        audit(_audited(site, generated), files, report)
        if not report.failed and not options.check:
            outcome.written = publish(options.out, files, report)
        if not report.failed:
            self._cache.prune()
            if self.remembered is not None:
                forget_old(self.remembered.parent, _MONTH)

    def _tracing(self, parsed: Sequence[Parsed]) -> Tracing:
        """The runs of the site's own modules, begun. Another's package is never imported."""
        options = self.options
        own = [] if options.sources else [one.module for one in parsed if not one.prose]
        return Tracing(own, options.docs, options.root, self._cache, self._generator)

    def _gallery(self, parsed: Sequence[Parsed]) -> Gallery:
        """The figures of the site's own pages, begun."""
        options = self.options
        own = [] if options.sources else parsed
        modules = [one.module for one in own if not one.prose]
        texts = [one.module.source.text for one in own]
        return Gallery(modules, texts, options.docs, options.root, self._cache, self._generator)

    def _apparatus(self, report: Report) -> Apparatus:
        """What the site's own pages cite. Another's package has nothing of the kind."""
        if self.options.sources:
            return Apparatus({})
        return read_apparatus(self.options.docs, self._cache, self._generator, report)

    def _config(self, report: Report) -> SiteConfig | None:
        if not self.options.sources:
            path = self.options.docs / "site.toml"
            return load_config(path, "docs_src/site.toml", report)
        names = ", ".join(path.resolve().name for path in self.options.sources)
        return SiteConfig(
            title=self.options.title or names,
            summary=f"The source of {names}: notes beside the code that they speak about.",
            base_url=self.options.base_url,
            repository="",
            branch="",
            language="en",
            sources=(),
        )

    def _notebooks(self, config: SiteConfig, report: Report) -> Notebooks:
        """The notebooks of the site. Another's package has none."""
        if self.options.sources:
            return Notebooks()
        root = self.options.root
        around = Surroundings(root, config.base_url, config.repository, config.branch)
        return read_notebooks(around, report)

    def _read(
        self, config: SiteConfig, extra: Sequence[Module], report: Report
    ) -> tuple[list[SourceFile], list[Module]]:
        """Sources and Markdown pages, `extra` ones too, each with an address of its own."""
        options = self.options
        own = not options.sources
        roots = [options.root / name for name in config.sources] if own else options.sources
        found = [source for root in roots for source in discover(root, own=own, report=report)]
        # A folder and a package in it may both be named.
        found = list({(source.path, source.name): source for source in found}.values())
        prose = read_pages(options.docs / "pages", "docs_src/pages", report) if own else []
        prose += extra
        prose += read_cpp(found, report) if own else []
        addresses = Addresses(report)
        sources = [source for source in found if addresses.claim(module_url(source), source)]
        pages = [p for p in prose if addresses.claim(prose_url(p.source.name), p.source)]
        return sources, pages

    def _search(
        self,
        config: SiteConfig,
        drafts: Sequence[Draft],
        parsed: Sequence[Parsed],
        report: Report,
    ) -> dict[str, bytes]:
        """The texts of all pages for the search dialog."""
        aliases: Mapping[str, tuple[str, ...]] = {}
        if not self.options.sources:
            names = {draft.name for draft in drafts}
            aliases = read_aliases(self.options.docs / ALIASES, names, report)
        listed = (config.groups, config.paths)
        ranks = {p.name: n for n, groups in enumerate(listed, 1) for g in groups for p in g.pages}
        pages = (
            search_page(draft, one.module, aliases.get(draft.name, ()), ranks.get(draft.name, 0))
            for draft, one in zip(drafts, parsed, strict=True)
        )
        return dict(search_files(pages))

    def _archive(self, files: Mapping[str, bytes]) -> bytes:
        """The site in one file. While an author works, that of the last whole build will do."""
        old = self.options.out / ARCHIVE
        return old.read_bytes() if self.options.serving and old.is_file() else archive(files)

    def _static(self, made: Mapping[str, bytes], report: Report) -> dict[str, bytes]:
        """Files that the author put beside the Markdown pages; `made` are those of the build."""
        if self.options.sources:
            return {}
        files = read_static(self.options.docs / "pages", "docs_src/pages", report)
        # Models that run in pages, and their panels: loaded when a reader asks for one.
        live = read_static(self.options.docs / "live", "docs_src/live", report)
        files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
        for name in sorted(files.keys() & made.keys()):
            message = f"would be written to `{name}`, which the build makes itself"
            path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
            report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
        return files

    def _view(self, config: SiteConfig, drafts: Sequence[Draft], report: Report) -> SiteView:
        """The site as templates see it, its catalogue and reading paths with it."""
        named = {draft.name: draft for draft in drafts}
        if self.options.sources:
            groups = package_groups(drafts)
        else:
            groups = named_groups(config, config.groups, named, report)
        paths = named_groups(config, config.paths, named, report)
        rest = () if self.options.sources else rest_of((*paths, *groups), drafts)
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
            bare=bool(self.options.lacking),
        )

    def _places(
        self,
        config: SiteConfig,
        drafts: Sequence[Draft],
        parsed: Sequence[Parsed],
        view: SiteView,
    ) -> list[Place]:
        """Where each page stands: the packages around it, and its neighbours in a path or group."""
        urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        urls |= {f"{d.name}.ipynb": d.url for d in drafts if d.name.startswith(f"{FOLDER}/")}
        around = neighbours((*view.paths, *view.catalogue, *view.hood))
        targets = {name: target for one in parsed for name, target in one.targets.items()}
        related = relations(drafts, targets)
        places = []
        for draft, one in zip(drafts, parsed, strict=True):
            where = place(draft, one.module.source.path, self.options.root, config, urls)
            where = replace(where, around=around.get(draft.url, where.around))
            places.append(replace(where, related=related.get(draft.url, {})))
        return places


def _asked(drafts: Sequence[Draft], parsed: Sequence[Parsed]) -> Iterator[Asked]:
    """Every place that asks for a figure."""
    for draft, one in zip(drafts, parsed, strict=True):
        lines = one.module.source.lines
        for use in draft.figures():
            yield Asked(draft.display, lines[use.line - 1], use)


def _audited(site: Site, generated: Sequence[Page]) -> list[AuditedPage]:
    """All pages, with what an audit tells of its findings."""
    pages = [
        AuditedPage(
            file_path(page.url),
            page.facts,
            draft.display,
            page.references,
            draft.own,
            one.module.source.lines,
        )
        for page, draft, one in zip(site.pages, site.drafts, site.parsed, strict=True)
    ]
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
