"""The last stage: drafts become pages, by the templates and with what runs told; and the files
beside the pages.
"""

import datetime
import html
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pylit.addresses import ALL, HOME, HOOD, MISSING, canonical, file_path
from pylit.assets import assets
from pylit.cache import digest
from pylit.cards import Cards
from pylit.cpp import is_cpp
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Drawn, hang, stamp
from pylit.glossary import GLOSSARY, term_previews
from pylit.indexes import (
    ARCHIVE,
    Entry,
    archive,
    feed,
    inventory,
    llms,
    page_text,
    robots,
    sitemap,
    text_url,
)
from pylit.links import AuditedPage, facts
from pylit.model import Draft, Leaf
from pylit.pages import Kind, PageView, Place, card_of, page_view, tex_faults
from pylit.parse import read_static
from pylit.previews import preview_files, preview_path, preview_script
from pylit.references import BIBLIOGRAPHY, Cited, unknown, work_previews
from pylit.render import Renderer
from pylit.search import SearchPage, search_page
from pylit.shapes.lines import ModuleShapes
from pylit.site import Site, find_page, page_link
from pylit.stages import Stages, read
from pylit.symbols import Typeset, typeset_formula
from pylit.tex import Rendered, math_fonts, stylesheet


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page and what the stages behind it need to know of it."""

    html: str
    audited: AuditedPage
    #: Its formulas without their HTML: the rules they want in the site's style sheet.
    formulas: Rendered = Rendered("")  # noqa: RUF009 - a value that never changes
    diagnostics: tuple[Diagnostic, ...] = ()
    #: What links to it show before they are followed, by path.
    previews: Mapping[str, bytes] = field(default_factory=dict)
    #: How search finds it; None for a page that no source has made.
    search: SearchPage | None = None


class Press:
    """Makes the pages of a site; what a page takes of the others is part of its key."""

    def __init__(
        self,
        site: Site,
        stages: Stages,
        typeset: Typeset,
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
    ) -> None:
        self.site, self.options, self._stages = site, site.options, stages
        self.typeset, self._shapes, self._figures = typeset, shapes, figures
        self._works = {work.key: Cited(work.short, work.year, "") for work in site.works.values()}
        self._cited = repr(sorted(self._works.items()))
        theme, docs = self.options.theme, self.options.docs
        # Besides templates, what they include: a style sheet or a drawing beside them.
        parts = [*theme.rglob("*.html"), *theme.glob("*.css"), *theme.rglob("*.svg")]
        parts += docs.glob("cards/**/*.html")
        stamp = digest(*(path.read_bytes() for path in sorted(parts)))
        # Only the home page lists the others: without the lists, an edit to the title of one page
        # does not render all of them anew.
        views = (site.view, replace(site.view, catalogue=(), paths=(), hood=()))
        self._keys = [digest(stamp, repr(view)) for view in views]
        self._renderers = [Renderer((theme, docs), view, stamp) for view in views]

    def pages(self) -> Iterator[Page]:
        """The pages of all drafts, in their order."""
        stages, pairs = self._stages, self.site.pairs
        for leaf, draft in stages.progress.of("Rendering", pairs, len(pairs)):
            where = self.site.place(leaf, draft)
            name, key = f"page {draft.url}", digest(stages.generator, self._key(leaf, draft, where))
            page: Page | None = stages.cache.load(name, key)
            if page is None:
                whole = draft if draft.own else stages.cache.load(f"draft {leaf.url}", leaf.key)
                if whole is None:
                    gone = "output", "is gone: the cache was emptied meanwhile", "build again"
                    stages.outcome.report.add(Diagnostic(draft.display, 0, 0, *gone))
                    continue
                page = self._page(read(leaf, stages.cache), whole, where)
                stages.cache.store(name, key, page)
                stages.outcome.rendered += 1
            yield page

    def _key(self, leaf: Leaf, draft: Draft, where: Place) -> str:
        theme, shapes = self._keys[draft.url != HOME], self._shapes.get(draft.name)
        cited = self._cited if "@" in leaf.source.text else ""
        drawn = stamp(draft.figures(), self._figures)
        return digest(draft.stamp, repr(where), theme, shapes.stamp if shapes else "", drawn, cited)

    def _page(self, leaf: Leaf, draft: Draft, where: Place) -> Page:
        report, typeset, module = Report(), self.typeset, leaf.module
        lines = module.source.lines
        tex_faults(draft, lines, typeset, report)
        shapes = self._shapes.get(draft.name, ModuleShapes())
        view = page_view(draft, module, where, typeset, shapes)
        html = hang(self._html(view), draft.figures(), self._figures)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, typeset) for formula in formulas]
        written: dict[str, tuple[int, str]] = {}
        for line, href in ((r.line, r.href) for note in draft.notes() for r in note.references):
            written.setdefault(href, (line, "".join(lines[line - 1 : line])))
        return Page(
            html,
            AuditedPage(file_path(draft.url), *facts(html), draft.display, written, draft.own),
            Rendered("", tuple(sorted({rule for formula in shown for rule in formula.css}))),
            tuple(report),
            preview_files(
                leaf.targets.values(),
                typeset=typeset,
                own=draft.own,
                cite=lambda key: self._works.get(key) or unknown(key),
            ),
            search_page(draft, module),
        )

    def _html(self, view: PageView) -> str:
        return self._renderers[view.kind not in ("home", "list", "missing")].page(view)

    def lists(self) -> Iterator[Page]:
        """The home page, the lists of pages and the 404 page, where no source has made one."""
        site = self.site
        made: list[tuple[Kind, str, str, str]] = [
            ("home", HOME, site.config.title, site.config.summary),
            ("missing", MISSING, "Page not found", "There is no page at this address."),
        ]
        if site.view.paths:
            made.append(("list", ALL, "All pages", "Every page of this site, by subject."))
        if site.view.hood:
            about = "The code around the lessons: fast kernels, training, saving and drawing."
            made.append(("list", HOOD, "Under the hood", about))
        taken = {draft.url for draft in site.drafts}
        for kind, url, title, summary in made:
            if url not in taken:
                escaped = (html.escape(title), html.escape(summary))
                text = self._html(PageView(kind, url, title, summary, *escaped))
                yield Page(text, AuditedPage(url, *facts(text), url, {}, True))

    def files(
        self, formulas: Sequence[Rendered], output: Mapping[str, bytes], report: Report
    ) -> Iterator[tuple[str, bytes]]:
        """The files beside the pages, each with its path; `output` is what there is so far."""
        site, options, config = self.site, self.options, self.site.config
        if site.works:
            yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(site.works))
        for draft in site.drafts if site.terms else ():
            if draft.url == GLOSSARY:
                yield preview_path(GLOSSARY), preview_script(term_previews(draft, self.typeset))
        if not (options.sources or options.lacking):
            yield from self._cards()
        # Cut fonts are kept beside their packages, since all sites have the same ones.
        modules = None if options.lacking else options.node_modules
        yield from assets(options.theme, modules, modules and modules.parent).items()
        css, names = stylesheet(formulas)
        yield "assets/math.css", css.encode()
        kept = options.cache / "mathfonts" if options.cache else None
        for name, data in math_fonts(names, formulas, kept).items():
            yield f"assets/fonts/{name}", data
        texts = {draft.url: text_url(draft) for draft in site.drafts if text_url(draft)}
        sources = {draft.display: texts[draft.url] for draft in site.drafts if draft.url in texts}
        for leaf, draft in site.pairs:
            if draft.url in texts:
                yield file_path(texts[draft.url]), page_text(draft, leaf.module, sources)
        if texts:
            yield "llms.txt", llms(config, site.view.catalogue, texts)
        listed = [t for t in site.targets.values() if not is_cpp(t.definition.module)]
        prose = [page_link(draft) for draft in site.drafts if draft.prose]
        yield "objects.inv", inventory(config.title, listed, prose)
        # GitHub's pages leave out files such as `_base.html` unless this one is there.
        yield ".nojekyll", b""
        yield "robots.txt", robots(config.base_url)
        if config.base_url:
            urls = {draft.url for draft in site.drafts} - {MISSING} | {HOME}
            urls |= {ALL} if site.view.paths else set()
            yield "sitemap.xml", sitemap(config.base_url, urls)
            entries = self._entries(config.base_url, report)
            told = feed(config.base_url, config.title, config.summary, [*entries])
            yield "feed.xml", told
        yield from self._static({*output, *site.notebooks}, report)
        yield from site.notebooks.items()
        if not options.sources:
            # While an author works, that of the last whole build will do.
            old = options.out / ARCHIVE
            known = options.serving and old.is_file()
            yield ARCHIVE, b"" if options.check else old.read_bytes() if known else archive(output)

    def _cards(self) -> Iterator[tuple[str, bytes]]:
        """The pictures of own pages for those who link to them."""
        modules, stages, site = self.options.node_modules, self._stages, self.site
        cards = Cards(self.options.theme, modules, modules.parent / "fonts")
        for leaf, draft in site.pairs:
            if url := card_of(draft):
                drawn = (self._figures.get(use.name) for use in draft.figures())
                picture = next((one.picture for one in drawn if one), "")
                above = site.place(leaf, draft).path_title
                svg = cards.svg(draft.title, draft.summary, above, site.view.title, picture)
                key, make = digest(stages.generator, svg), partial(cards.png, svg)
                yield file_path(url), stages.cache.get(f"card {draft.url}", key, make)

    def _entries(self, base: str, report: Report) -> Iterator[Entry]:
        """The news and the lessons, for those who follow the site."""
        site, every = self.site, self.site.config.news
        for news in every:
            url = find_page(news.page, site.config, site.named, report)
            if url is not None:
                yield Entry(news.date, news.title, news.summary, canonical(base, url))
        # Lessons come after the news: they are as old as the site.
        oldest = min((news.date for news in every), default=datetime.date(1970, 1, 1))
        for link in (link for path in site.view.paths for link in path.pages):
            yield Entry(oldest, link.title, link.summary, canonical(base, link.url))

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
