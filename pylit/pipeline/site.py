"""A site as a whole, while it is made: what is read beside its modules, how its pages stand to each
other, the pages that are put together of others, and the files beside all of them.
"""

import datetime
import html
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pylit.cache import digest
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Asked
from pylit.model import Kind, Module, PageView, SiteView, SourceFile, Target
from pylit.notebooks.model import Surroundings
from pylit.notebooks.pages import FOLDER, Notebooks, read_notebooks
from pylit.page.assets import assets
from pylit.page.cards import Cards
from pylit.page.fonts import shelf
from pylit.page.previews import preview_path, preview_script
from pylit.page.render import canonical
from pylit.pipeline.outcome import Options
from pylit.pipeline.stages import Leaf, Page, Pairs, Parsed, Press, Stages
from pylit.prose.bibliography import Work, read_bibliography
from pylit.prose.citations import BIBLIOGRAPHY, work_targets
from pylit.prose.glossary import GLOSSARY, Term, read_glossary, term_targets
from pylit.site.addresses import (
    ALL,
    HOME,
    HOOD,
    MISSING,
    Addresses,
    file_path,
    module_url,
    prose_url,
)
from pylit.site.bibliography import bibliography_page, work_previews
from pylit.site.catalogue import (
    find_page,
    named_groups,
    neighbours,
    package_groups,
    page_link,
    rest_of,
)
from pylit.site.config import SiteConfig, load_config
from pylit.site.drafts import Draft
from pylit.site.exercises import exercises_page
from pylit.site.glossary import term_previews
from pylit.site.indexes import Entry, feed, inventory, robots, sitemap
from pylit.site.links import AuditedPage, facts
from pylit.site.pages import Place, card_of, front_matter_faults, place
from pylit.site.prose import read_page, read_pages, read_static
from pylit.site.relations import relations
from pylit.site.search import ALIASES, SearchPage, counted, read_aliases
from pylit.site.texts import ARCHIVE, archive, llms, page_text, text_url
from pylit.source.cpp import is_cpp, read_cpp
from pylit.source.discover import discover
from pylit.tex.maths import math_fonts, stylesheet
from pylit.tex.symbols import Typeset


def read_config(options: Options, report: Report) -> SiteConfig | None:
    """The settings of the site; those of somebody else's package are made up."""
    if not options.sources:
        return load_config(options.docs / "site.toml", "docs_src/site.toml", report)
    names = ", ".join(path.resolve().name for path in options.sources)
    summary = f"The source of {names}: notes beside the code that they speak about."
    return SiteConfig(options.title or names, summary, options.base_url, "", "", "en", ())


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the text of a site's modules; another's package has none of it."""

    config: SiteConfig
    works: Mapping[str, Work]
    terms: tuple[Term, ...]
    notebooks: Notebooks
    #: Pages of Markdown.
    prose: tuple[Module, ...]

    def targets(self) -> dict[str, Target]:
        """What drafts may ask of it, by the name that they ask for."""
        return work_targets(self.works) | term_targets(self.terms)


def read_around(options: Options, config: SiteConfig, stages: Stages, report: Report) -> Around:
    """All that is read beside the modules."""
    docs = options.docs
    path, found = docs / "references.bib", Report()
    key = digest(stages.generator, path.read_bytes() if path.is_file() else b"")

    def read() -> tuple[dict[str, Work], tuple[Diagnostic, ...]]:
        return read_bibliography(path, f"docs_src/{path.name}", found), tuple(found)

    works, faults = stages.cache.get("works", key, read)
    report.extend(faults)
    named = (config.base_url, config.repository, config.branch)
    notebooks = read_notebooks(Surroundings(docs.parent, *named), report)
    prose = [*read_pages(docs / "pages", "docs_src/pages", report), *notebooks.modules]
    terms: tuple[Term, ...] = ()
    path = docs / "glossary.md"
    page = read_page(path, docs, "docs_src", report) if path.is_file() else None
    if page:
        glossary, terms = read_glossary(page, report)
        prose.append(glossary)
    return Around(config, works, terms, notebooks, tuple(prose))


def read_sources(
    options: Options, around: Around, report: Report
) -> tuple[Iterator[SourceFile], Iterator[Module]]:
    """Sources and pages of Markdown, each with an address of its own."""
    own, roots = not options.sources, options.sources
    roots = roots or tuple(options.root / name for name in around.config.sources)
    found: Iterable[SourceFile] = (
        source for root in roots for source in discover(root, own=own, report=report)
    )
    prose = [*around.prose]
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


class Site:
    """All pages, drafted, and how they stand to each other."""

    def __init__(self, options: Options, around: Around, pairs: Pairs, report: Report) -> None:
        self.options, self.around, self.config = options, around, around.config
        self.pairs = [*pairs]
        self.drafts = [draft for _, draft in pairs]
        taken = {draft.url for draft in self.drafts}
        gathered = (
            exercises_page(self.config, self.drafts),
            bibliography_page(around.works, self.drafts),
        )
        for page in gathered:
            if page is not None and page.draft.url not in taken:
                draft, whole = page.draft, Parsed(page.module, {})
                leaf = Leaf(page.module.source, draft.url, True, draft.stamp, whole=whole)
                self.pairs.append((leaf, draft))
                self.drafts.append(draft)
        for leaf, draft in self.pairs:
            report.extend((*leaf.diagnostics, *draft.diagnostics))
            if draft.own:
                front_matter_faults(draft, leaf.source.lines, options.root, report)
        #: Everything that a link may lead to, by dotted name.
        self.targets = {name: t for leaf, _ in self.pairs for name, t in leaf.targets.items()}
        self.view = self._view(report)
        view = self.view
        self._urls = {draft.name: draft.url for draft in self.drafts if not draft.prose}
        notebooks = (d for d in self.drafts if d.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        self._neighbours = neighbours((*view.paths, *view.catalogue, *view.hood))
        self._related = relations(self.drafts, self.targets)
        names = [draft.name for draft in self.drafts]
        self._aliases = read_aliases(options.docs / ALIASES, names, report)
        listed = (self.config.groups, self.config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}

    def _view(self, report: Report) -> SiteView:
        """The site as templates see it, its catalogue and reading paths with it."""
        config, drafts = self.config, self.drafts
        named, own = {draft.name: draft for draft in drafts}, not self.options.sources
        paths = named_groups(config, config.paths, named, report)
        groups = named_groups(config, config.groups, named, report)
        groups = groups if own else package_groups(drafts)
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
            bare=bool(self.options.lacking),
        )

    def place(self, leaf: Leaf, draft: Draft) -> Place:
        """Where a page stands: the packages around it, and its neighbours in a path or group."""
        where = place(draft, leaf.source.path, self.options.root, self.config, self._urls)
        around = self._neighbours.get(draft.url, where.around)
        return replace(where, around=around, related=self._related.get(draft.url, {}))

    def found(self, number: int, page: Page) -> tuple[SearchPage, int]:
        """How search finds a page: by which other names, and how it ranks among others."""
        name, search = self.drafts[number].name, page.search
        assert search is not None
        if name in self._aliases:
            search = counted(replace(search, names=(*search.names, *self._aliases[name])))
        return search, self._ranks.get(name, 0)

    def asked(self) -> Iterator[Asked]:
        """Every place that asks for a figure."""
        for leaf, draft in self.pairs:
            lines = leaf.source.lines if draft.figures() else ()
            for use in draft.figures():
                yield Asked(draft.display, lines[use.line - 1], use)

    def generated(self, press: Press) -> Iterator[Page]:
        """The home page, the lists of pages and the 404 page, where no source has made one."""
        made: list[tuple[Kind, str, str, str]] = [
            ("home", HOME, self.config.title, self.config.summary),
            ("missing", MISSING, "Page not found", "There is no page at this address."),
        ]
        if self.view.paths:
            made.append(("list", ALL, "All pages", "Every page of this site, by subject."))
        if self.view.hood:
            about = "The code around the lessons: fast kernels, training, saving and drawing."
            made.append(("list", HOOD, "Under the hood", about))
        taken = {draft.url for draft in self.drafts}
        for kind, url, title, summary in made:
            if url not in taken:
                escaped = (html.escape(title), html.escape(summary))
                text = press.html(PageView(kind, url, title, summary, *escaped))
                yield Page(url, text, facts(text))

    def audited(self, pages: Mapping[str, Page], stages: Stages) -> list[AuditedPage]:
        """All pages, with what an audit tells of its findings."""
        found = {}
        for leaf, draft in self.pairs:
            page, lines = pages[draft.url], partial(_lines, leaf, stages)
            told = (draft.display, page.references, draft.own, lines)
            found[page.url] = AuditedPage(file_path(page.url), page.facts, *told)
        rest = (page for url, page in pages.items() if url not in found)
        return [*found.values(), *(AuditedPage(p.url, p.facts, p.url, (), True) for p in rest)]

    def files(
        self, pages: Mapping[str, Page], press: Press, stages: Stages, typeset: Typeset
    ) -> Iterator[tuple[str, bytes]]:
        """The files that the build makes beside the pages, each with its path."""
        options, config, drafts = self.options, self.config, self.drafts
        if self.around.works:
            yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(self.around.works))
        for draft in drafts if self.around.terms else ():
            if draft.url == GLOSSARY:
                yield preview_path(GLOSSARY), preview_script(term_previews(draft, typeset))
        if not (options.sources or options.lacking):
            yield from self._cards(press, stages)
        modules = None if options.lacking else options.node_modules
        yield from assets(options.theme, modules, modules and shelf(modules)).items()
        css, names = stylesheet([page.formulas for page in pages.values()])
        yield "assets/math.css", css.encode()
        kept = options.cache / "mathfonts" if options.cache else None
        for name, data in math_fonts(names, [p.formulas for p in pages.values()], kept).items():
            yield f"assets/fonts/{name}", data
        texts = {draft.url: text_url(draft) for draft in drafts if text_url(draft)}
        sources = {draft.display: texts[draft.url] for draft in drafts if draft.url in texts}
        for leaf, draft in self.pairs:
            if draft.url in texts:
                yield file_path(texts[draft.url]), page_text(draft, leaf.module, sources)
        if texts:
            yield "llms.txt", llms(config, self.view.catalogue, texts)
        listed = [t for t in self.targets.values() if not is_cpp(t.definition.module)]
        prose = [page_link(draft) for draft in drafts if draft.prose]
        yield "objects.inv", inventory(config.title, listed, prose)
        # GitHub's pages leave out files such as `_base.html` unless this one is there.
        yield ".nojekyll", b""
        yield "robots.txt", robots(config.base_url)
        if config.base_url:
            urls = {draft.url for draft in drafts} - {MISSING} | {HOME}
            urls |= {ALL} if self.view.paths else set()
            yield "sitemap.xml", sitemap(config.base_url, urls)

    def feed(self, report: Report) -> Iterator[tuple[str, bytes]]:
        """The news and the lessons, for those who follow the site; they need its address."""
        config, drafts = self.config, {draft.name: draft for draft in self.drafts}
        if not config.base_url:
            return
        entries = []
        for news in config.news:
            url = find_page(news.page, config, drafts, report)
            if url is not None:
                address = canonical(config.base_url, url)
                entries.append(Entry(news.date, news.title, news.summary, address))
        # Lessons come after the news: they are as old as the site.
        oldest = min((news.date for news in config.news), default=datetime.date(1970, 1, 1))
        for link in (link for path in self.view.paths for link in path.pages):
            address = canonical(config.base_url, link.url)
            entries.append(Entry(oldest, link.title, link.summary, address))
        yield "feed.xml", feed(config.base_url, config.title, config.summary, entries)

    def _cards(self, press: Press, stages: Stages) -> Iterator[tuple[str, bytes]]:
        """The pictures of own pages for those who link to them."""
        modules = self.options.node_modules
        cards = Cards(self.options.theme, modules, shelf(modules))
        for leaf, draft in self.pairs:
            if url := card_of(draft):
                drawn = (press.figures.get(use.name) for use in draft.figures())
                picture = next((one.picture for one in drawn if one), "")
                above = self.place(leaf, draft).around.path_title
                svg = cards.svg(draft.title, draft.summary, above, self.view.title, picture)
                key, make = digest(stages.generator, svg), partial(cards.png, svg)
                yield file_path(url), stages.cache.get(f"card {draft.url}", key, make)

    def static(self, made: Collection[str], report: Report) -> dict[str, bytes]:
        """Files that the author put beside the Markdown pages; `made` are those of the build."""
        docs, notebooks = self.options.docs, self.around.notebooks.files
        files = read_static(docs / "pages", "docs_src/pages", report)
        # Models that run in pages, and their panels: loaded when a reader asks for one.
        live = read_static(docs / "live", "docs_src/live", report)
        files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
        for name in sorted(files.keys() & {*made, *notebooks}):
            message = f"would be written to `{name}`, which the build makes itself"
            path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
            report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
        return {**files, **notebooks}

    def archive(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """The site in one file. While an author works, that of the last whole build will do."""
        old = self.options.out / ARCHIVE
        if self.options.sources:
            return {}
        if self.options.check:
            return {ARCHIVE: b""}
        known = self.options.serving and old.is_file()
        return {ARCHIVE: old.read_bytes() if known else archive(files)}


def _lines(leaf: Leaf, stages: Stages) -> Sequence[str]:
    return leaf.read(stages.cache).module.source.lines
