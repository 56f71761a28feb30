"""A site as a whole, while it is made: what is read beside its modules, how its pages stand to each
other, the pages that are put together of others, and the files beside all of them.
"""

import datetime
import html
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pylit.cache import digest
from pylit.code.cpp import is_cpp, read_cpp
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import FigureUse, Module, SourceFile
from pylit.notebooks.pages import FOLDER, read_notebooks
from pylit.page.assets import assets
from pylit.page.cards import Cards
from pylit.page.fonts import shelf
from pylit.page.previews import preview_path, preview_script
from pylit.page.render import canonical
from pylit.page.view import Kind, PageView, SiteView
from pylit.pipeline.outcome import Options
from pylit.pipeline.stages import Leaf, Page, Pairs, Parsed, Press, Stages
from pylit.prose.glossary import GLOSSARY, Term, read_glossary, term_targets
from pylit.prose.works import BIBLIOGRAPHY, Work, read_bibliography, work_targets
from pylit.site import catalogue, indexes
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
from pylit.site.config import SiteConfig, load_config
from pylit.site.drafts import Draft
from pylit.site.exercises import exercises_page
from pylit.site.glossary import term_previews
from pylit.site.links import AuditedPage, facts
from pylit.site.pages import Place, card_of, front_matter_faults, place
from pylit.site.prose import read_page, read_pages, read_static
from pylit.site.relations import relations
from pylit.site.search import ALIASES, SearchPage, counted, read_aliases
from pylit.site.texts import ARCHIVE, archive, llms, page_text, text_url
from pylit.source.discover import discover
from pylit.tex.maths import Rendered, math_fonts, stylesheet


def read_config(options: Options, report: Report) -> SiteConfig | None:
    """The settings of the site; those of somebody else's package are made up."""
    if options.lacking:
        message = f"formulas are shown as TeX, without fonts: {options.lacking}"
        hint = "with Node.js 20 or newer and a network once, `python -m pylit.node` sets it up"
        report.add(Diagnostic("node", 0, 0, "node", message, hint, severity=Severity.WARNING))
    if not options.sources:
        return load_config(options.docs / "site.toml", "docs_src/site.toml", report)
    names = ", ".join(path.resolve().name for path in options.sources)
    summary = f"The source of {names}: notes beside the code that they speak about."
    return SiteConfig(options.title or names, summary, options.base_url, "", "", "en", ())


class Site:
    """A site that is being made: first what is read beside its modules, then all of its pages.

    Somebody else's package has neither works nor terms, nor pages of Markdown.
    """

    def __init__(
        self, options: Options, config: SiteConfig, stages: Stages, report: Report
    ) -> None:
        self.options, self.config, self._stages = options, config, stages
        docs, faults = options.docs, Report()
        path = docs / "references.bib"
        key = digest(stages.generator, path.read_bytes() if path.is_file() else b"")

        def read() -> tuple[dict[str, Work], tuple[Diagnostic, ...]]:
            return read_bibliography(path, "docs_src/references.bib", faults), tuple(faults)

        self.works, found = stages.cache.get("works", key, read)
        report.extend(found)
        notebooks, self._notebooks = read_notebooks(docs.parent / FOLDER, config.base_url, report)
        self._prose = read_pages(docs / "pages", "docs_src/pages", report)
        self._prose += notebooks
        self._terms: tuple[Term, ...] = ()
        words = docs / "glossary.md"
        page = read_page(words, docs, "docs_src", report) if words.is_file() else None
        if page:
            glossary, self._terms = read_glossary(page, report)
            self._prose.append(glossary)
        #: What drafts may ask for besides the definitions of modules, by the name they ask for.
        self.around = work_targets(self.works) | term_targets(self._terms)

    def sources(self, report: Report) -> tuple[Iterator[SourceFile], Iterator[Module]]:
        """Sources and pages of Markdown, each with an address of its own."""
        options, own = self.options, not self.options.sources
        roots = options.sources or tuple(options.root / name for name in self.config.sources)
        found: Iterable[SourceFile] = (
            source for root in roots for source in discover(root, own=own, report=report)
        )
        if own:
            found = list(found)
            self._prose += read_cpp(found, report)
        taken, known = Addresses(report), set[tuple[Path, str]]()

        def claimed(source: SourceFile) -> bool:
            # A folder and a package in it may both be named.
            if (source.path, source.name) in known:
                return False
            known.add((source.path, source.name))
            return taken.claim(module_url(source), source)

        pages = (p for p in self._prose if taken.claim(prose_url(p.source.name), p.source))
        return filter(claimed, found), pages

    def gather(self, pairs: Pairs, report: Report) -> None:
        """Take the pages, make those that are put together of them, and see how they stand."""
        options, config = self.options, self.config
        self.pairs, drafts = [*pairs], [draft for _, draft in pairs]
        taken = {draft.url for draft in drafts}
        for page in (exercises_page(config, drafts), bibliography_page(self.works, drafts)):
            if page is not None and page.draft.url not in taken:
                parsed = Parsed(page.module, {})
                leaf = Leaf(page.draft.url, True, page.draft.stamp, parsed)
                self.pairs.append((leaf, page.draft))
        self._leaves = {leaf.url: leaf for leaf, _ in self.pairs}
        self.drafts = drafts = [draft for _, draft in self.pairs]
        for leaf, draft in self.pairs:
            report.extend((*leaf.parsed.diagnostics, *draft.diagnostics))
            if draft.own:
                front_matter_faults(draft, leaf.source.lines, options.root, report)
        self._named = {draft.name: draft for draft in drafts}
        found = (leaf.parsed.targets for leaf, _ in self.pairs)
        self._targets = {name: target for targets in found for name, target in targets.items()}
        self.view = view = self._view(report)
        self._urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        notebooks = (draft for draft in drafts if draft.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        self._beside = catalogue.neighbours((*view.paths, *view.catalogue, *view.hood))
        self._related = relations(drafts, self._targets)
        self._aliases = read_aliases(options.docs / ALIASES, self._named, report)
        listed = (config.groups, config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}

    def _view(self, report: Report) -> SiteView:
        """The site as templates see it, its catalogue and reading paths with it."""
        config, own = self.config, not self.options.sources
        paths = catalogue.named_groups(config, config.paths, self._named, report)
        groups = catalogue.named_groups(config, config.groups, self._named, report)
        groups = groups if own else catalogue.package_groups(self.drafts)
        rest = catalogue.rest_of((*paths, *groups), self.drafts) if own else ()
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
        beside = self._beside.get(draft.url, where.around)
        return replace(where, around=beside, related=self._related.get(draft.url, {}))

    def found(self, number: int, page: Page) -> tuple[SearchPage, int]:
        """How search finds a page: by which other names, and how it ranks among others."""
        name, search = self.drafts[number].name, page.search
        assert search is not None
        if name in self._aliases:
            search = counted(replace(search, names=(*search.names, *self._aliases[name])))
        return search, self._ranks.get(name, 0)

    def asked(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every place that asks for a figure: the file, the line of it, and what for."""
        for leaf, draft in self.pairs:
            for use in draft.figures():
                yield draft.display, leaf.source.lines[use.line - 1], use

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
                yield Page(url, text, facts(text), url)

    def audited(self, page: Page) -> AuditedPage:
        """What an audit asks of a page, and tells of its findings: no more, for there are many."""
        told = (page.display, page.references, page.own, partial(self._lines, page.url))
        return AuditedPage(file_path(page.url), page.facts, *told)

    def _lines(self, url: str) -> Sequence[str]:
        return self._leaves[url].read(self._stages.cache).module.source.lines

    def files(
        self,
        press: Press,
        formulas: Sequence[Rendered],
        output: Mapping[str, bytes],
        report: Report,
    ) -> Iterator[tuple[str, bytes]]:
        """The files beside the pages, each with its path; `output` is what there is so far."""
        options, config = self.options, self.config
        if self.works:
            yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(self.works))
        for draft in self.drafts if self._terms else ():
            if draft.url == GLOSSARY:
                yield preview_path(GLOSSARY), preview_script(term_previews(draft, press.typeset))
        if not (options.sources or options.lacking):
            yield from self._cards(press)
        modules = None if options.lacking else options.node_modules
        yield from assets(options.theme, modules, modules and shelf(modules)).items()
        css, names = stylesheet(formulas)
        yield "assets/math.css", css.encode()
        kept = options.cache / "mathfonts" if options.cache else None
        for name, data in math_fonts(names, formulas, kept).items():
            yield f"assets/fonts/{name}", data
        texts = {draft.url: text_url(draft) for draft in self.drafts if text_url(draft)}
        sources = {draft.display: texts[draft.url] for draft in self.drafts if draft.url in texts}
        for leaf, draft in self.pairs:
            if draft.url in texts:
                yield file_path(texts[draft.url]), page_text(draft, leaf.parsed.module, sources)
        if texts:
            yield "llms.txt", llms(config, self.view.catalogue, texts)
        listed = [t for t in self._targets.values() if not is_cpp(t.definition.module)]
        prose = [catalogue.page_link(draft) for draft in self.drafts if draft.prose]
        yield "objects.inv", indexes.inventory(config.title, listed, prose)
        # GitHub's pages leave out files such as `_base.html` unless this one is there.
        yield ".nojekyll", b""
        yield "robots.txt", indexes.robots(config.base_url)
        if config.base_url:
            urls = {draft.url for draft in self.drafts} - {MISSING} | {HOME}
            urls |= {ALL} if self.view.paths else set()
            yield "sitemap.xml", indexes.sitemap(config.base_url, urls)
            entries = self._entries(config.base_url, report)
            feed = indexes.feed(config.base_url, config.title, config.summary, [*entries])
            yield "feed.xml", feed
        yield from self._static({*output, *self._notebooks}, report)
        yield from self._notebooks.items()
        if not options.sources:
            # While an author works, that of the last whole build will do.
            old = options.out / ARCHIVE
            known = options.serving and old.is_file()
            yield ARCHIVE, b"" if options.check else old.read_bytes() if known else archive(output)

    def _entries(self, base: str, report: Report) -> Iterator[indexes.Entry]:
        """The news and the lessons, for those who follow the site."""
        for news in self.config.news:
            url = catalogue.find_page(news.page, self.config, self._named, report)
            if url is not None:
                yield indexes.Entry(news.date, news.title, news.summary, canonical(base, url))
        # Lessons come after the news: they are as old as the site.
        oldest = min((news.date for news in self.config.news), default=datetime.date(1970, 1, 1))
        for link in (link for path in self.view.paths for link in path.pages):
            yield indexes.Entry(oldest, link.title, link.summary, canonical(base, link.url))

    def _cards(self, press: Press) -> Iterator[tuple[str, bytes]]:
        """The pictures of own pages for those who link to them."""
        modules, stages = self.options.node_modules, self._stages
        cards = Cards(self.options.theme, modules, shelf(modules))
        for leaf, draft in self.pairs:
            if url := card_of(draft):
                drawn = (press.figures.get(use.name) for use in draft.figures())
                picture = next((one.picture for one in drawn if one), "")
                above = self.place(leaf, draft).around.path_title
                svg = cards.svg(draft.title, draft.summary, above, self.view.title, picture)
                key, make = digest(stages.generator, svg), partial(cards.png, svg)
                yield file_path(url), stages.cache.get(f"card {draft.url}", key, make)

    def _static(self, made: Collection[str], report: Report) -> Iterator[tuple[str, bytes]]:
        """Files that the author put beside the Markdown pages; `made` are those of the build."""
        docs = self.options.docs
        files = read_static(docs / "pages", "docs_src/pages", report)
        # Models that run in pages, and their panels: loaded when a reader asks for one.
        live = read_static(docs / "live", "docs_src/live", report)
        files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
        for name in sorted(files.keys() & made):
            message = f"would be written to `{name}`, which the build makes itself"
            path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
            report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
        yield from files.items()
