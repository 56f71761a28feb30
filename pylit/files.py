"""All files of a site: drafts become HTML pages, with the files beside them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from itertools import chain

from pylit.addresses import ALL, HOME, HOOD, MISSING, file_path, replay_url
from pylit.assets import assets
from pylit.cache import digest
from pylit.cards import Cards, card_url
from pylit.cpp import is_cpp
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import FigureHtml, insert_figures, stamp
from pylit.glossary import GLOSSARY
from pylit.indexes import (
    ARCHIVE,
    FULL,
    archive,
    inventory,
    llms,
    page_text,
    robots,
    sitemap,
    text_url,
)
from pylit.links import AuditedPage, audit, links_and_anchors
from pylit.model import Draft, ParsedPage, generated_page
from pylit.navigation import Place, page_link
from pylit.outcome import progress
from pylit.parallel import whole
from pylit.parse import read_static
from pylit.previews import preview_path, preview_script, previews, term_previews
from pylit.references import BIBLIOGRAPHY, work_previews
from pylit.render import Kind, PageView, Renderer, page_view
from pylit.search import SearchIndex, SearchPage, search_page
from pylit.shapes.lines import ModuleShapes
from pylit.site import Site
from pylit.symbols import Typeset, formula_faults, typeset_formula
from pylit.tex import Rendered, math_fonts, math_style_sheet
from pylit.write import Output


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page, with what the audit, the style sheet and the search need of it."""

    html: str
    audited: AuditedPage
    #: Its formulas without their HTML: their rules in the site's style sheet.
    formulas: Rendered = Rendered("")  # noqa: RUF009 - an immutable value
    diagnostics: tuple[Diagnostic, ...] = ()
    #: Previews of its definitions, by their names.
    previews: Mapping[str, list[str]] = field(default_factory=dict)
    #: None for a page without a source.
    search: SearchPage | None = None


class SiteFiles:
    """Makes the pages of a site, with shapes and figures by name, and the files beside them."""

    def __init__(
        self,
        site: Site,
        typeset: Typeset,
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, FigureHtml],
        report: Report,
    ) -> None:
        self.site, self.options, self.report = site, site.options, report
        self.typeset, self._shapes, self._figures = typeset, shapes, figures
        theme, docs = self.options.theme, self.options.docs
        # Templates include style sheets and drawings.
        parts = [*theme.rglob("*.html"), *theme.glob("*.css"), *theme.rglob("*.svg")]
        parts += docs.glob("cards/**/*.html")
        stamp = digest(*(path.read_bytes() for path in sorted(parts)))
        # Only the home page lists all pages, so that an edit to a title renders few of them again.
        views = (site.view, replace(site.view, catalogue=(), paths=(), other_pages=()))
        self._keys = [digest(stamp, repr(view)) for view in views]
        self._renderers = [Renderer((theme, docs), view, stamp) for view in views]

    def write_pages(
        self, output: Output, index: SearchIndex | None = None
    ) -> tuple[list[AuditedPage], list[Rendered]]:
        """Add the pages to `output`, and to an index; what links and formulas they have."""
        audited, formulas = [], []
        pages = (self._made(*pair) for pair in progress("Rendering", self.site.pairs))
        for page in chain(pages, self._lists()):
            output.add(page.audited.url, page.html.encode())
            if page.previews:
                output.add(preview_path(page.audited.url), preview_script(page.previews))
            self.report.update(page.diagnostics)
            if index and page.search:
                index.add(*self.site.search_entry(page.search))
            audited.append(page.audited)
            formulas.append(page.formulas)
        return audited, formulas

    def prepare(self, running: Collection[str]) -> None:
        """Make, for the cache, what waits for none of some runs: cards, and pages of others."""
        for parsed, draft in self.site.pairs:
            if draft.name not in running:
                self._made(parsed, draft)
        list(self._cards())

    def write(self, output: Output) -> None:
        """Add all files of the site to `output` and audit the links between them."""
        with SearchIndex() as index:
            audited, formulas = self.write_pages(output, index)
            output.update(index.files())
        # Cut fonts are cached beside their packages, since all sites have the same ones.
        options = self.options
        modules = None if options.missing_node else options.node_modules
        output.update(assets(options.theme, options.docs, modules, modules and modules.parent))
        css, names = math_style_sheet(formulas)
        output.add("assets/math.css", css.encode())
        folder = options.cache / "mathfonts" if options.cache else None
        for name, data in math_fonts(names, formulas, folder).items():
            output.add(f"assets/fonts/{name}", data)
        output.update(self._texts())
        output.update(self._indexes())
        output.update(self._cards())
        if (logo := self.site.config.logo) and not options.sources:
            output.add(self.site.view.logo, (options.root / logo).read_bytes())
        output.update(self._replays())
        output.update(self._static({*output, *self.site.notebooks}))
        output.update(self.site.notebooks)
        if not options.sources:
            # While an author works, the archive of the last complete build remains.
            old = options.out / ARCHIVE
            reuse = options.serving and old.is_file()
            data = b"" if options.check else old.read_bytes() if reuse else archive(output)
            output.add(ARCHIVE, data)
        audit(audited, output, self.report)

    def _made(self, parsed: ParsedPage, draft: Draft) -> Page:
        """A page, of the cache if it is there."""
        site = self.site
        where = site.place(parsed, draft)
        name, key = f"page {draft.url}", self._key(parsed, draft, where)
        page: Page | None = site.cache.load(name, key)
        if page is None:
            if not draft.own:
                draft = site.cache.require(f"draft {parsed.url}", parsed.key)
            page = self._page(whole(parsed, site.cache), draft, where)
            site.cache.store(name, key, page)
            site.outcome.rendered += 1
        return page

    def _key(self, parsed: ParsedPage, draft: Draft, where: Place) -> str:
        theme, shapes = self._keys[draft.url != HOME], self._shapes.get(draft.name)
        drawn = stamp(draft.figures(), self._figures)
        traced = shapes.stamp if shapes else ""
        return digest(self.site.generator, draft.stamp, repr(where), theme, traced, drawn)

    def _page(self, parsed: ParsedPage, draft: Draft, where: Place) -> Page:
        report, typeset, module = Report(), self.typeset, parsed.module
        source, lines = module.source, module.source.lines
        formula_faults(draft, source, typeset, report)
        shapes = self._shapes.get(draft.name, ModuleShapes())
        view = page_view(draft, module, where, typeset, shapes)
        html = insert_figures(self._html(view), draft.figures(), self._figures)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, typeset) for formula in formulas]
        written: dict[str, tuple[int, str]] = {}
        for href, line in (pair for note in draft.notes() for pair in note.references):
            written.setdefault(href, (line, "".join(lines[line - 1 : line])))
        found = links_and_anchors(html)
        return Page(
            html,
            AuditedPage(file_path(draft.url), *found, draft.display, written, source.strict),
            Rendered("", tuple(sorted({rule for formula in shown for rule in formula.css}))),
            tuple(report),
            dict(previews(parsed.targets.values(), draft, typeset)),
            search_page(draft, module),
        )

    def _html(self, view: PageView) -> str:
        return self._renderers[view.kind not in ("home", "list", "missing")].page(view)

    def _lists(self) -> Iterator[Page]:
        """The home page, the lists of pages and the 404 page, unless an author wrote them."""
        site, view = self.site, self.site.view
        pages: list[tuple[Kind, str, str, str]] = [
            ("home", HOME, view.title, view.summary),
            ("missing", MISSING, "Page not found", "There is no page at this address."),
        ]
        if view.paths:
            pages.append(("list", ALL, "All pages", "Every page of this site, by subject."))
        if view.other_pages:
            about = "The rest of the code, by folder."
            pages.append(("list", HOOD, "Under the hood", about))
        taken = {draft.url for draft in site.drafts}
        for kind, url, title, summary in pages:
            if url not in taken:
                _, draft = generated_page(url, title, summary)
                text = self._html(PageView(kind, draft, escape(title), escape(summary)))
                yield Page(text, AuditedPage(url, *links_and_anchors(text), url, {}, True))

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """The pages as Markdown, ``llms.txt``, and all notes in one text."""
        site = self.site
        texts = {draft.url: url for draft in site.drafts if (url := text_url(draft))}
        sources = {draft.display: texts[draft.url] for draft in site.drafts if draft.url in texts}
        for parsed, draft in site.pairs:
            if draft.url in texts:
                yield file_path(texts[draft.url]), page_text(draft, parsed.module, sources)
        if texts:
            groups = (*site.view.paths, *site.view.catalogue, *site.view.other_pages)
            yield "llms.txt", llms(site.config, groups, texts)
            # In the order of `llms.txt`; what no list names comes last.
            ranks = {link.url: n for n, link in enumerate(p for g in groups for p in g.pages)}
            pairs = [(parsed.module, draft) for parsed, draft in site.pairs if draft.url in texts]
            pairs.sort(key=lambda pair: ranks.get(pair[1].url, len(ranks)))
            yield FULL, b"\n".join(page_text(d, m, sources, code=False) for m, d in pairs)

    def _indexes(self) -> Iterator[tuple[str, bytes]]:
        """The previews of works and terms, and the files for search engines and other programs."""
        site, config = self.site, self.site.config
        if site.works:
            yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(site.works))
        for draft in site.drafts:
            if draft.url == GLOSSARY:
                terms = dict(term_previews(draft, self.typeset))
                yield preview_path(GLOSSARY), preview_script(terms)
        listed = [t for t in site.targets.values() if not is_cpp(t.url.partition(".html")[0])]
        prose = [page_link(draft) for draft in site.drafts if draft.prose]
        yield "objects.inv", inventory(config.title, config.version, listed, prose)
        # Without this file GitHub Pages leaves out files such as `_base.html`.
        yield ".nojekyll", b""
        yield "robots.txt", robots(config.base_url)
        if config.base_url:
            urls = {draft.url for draft in site.drafts} - {MISSING} | {HOME}
            urls |= {ALL} if site.view.paths else set()
            yield "sitemap.xml", sitemap(config.base_url, urls)

    def _cards(self) -> Iterator[tuple[str, bytes]]:
        """The pictures of the site's own pages for links on other sites."""
        modules, site = self.options.node_modules, self.site
        if self.options.sources or self.options.missing_node:
            return
        cards = Cards(self.options.theme, modules, modules.parent / "fonts")
        for parsed, draft in site.pairs:
            if url := card_url(draft):
                drawn = (self._figures.get(use.name) for use in draft.figures())
                picture = next((one.picture for one in drawn if one), "")
                above = site.place(parsed, draft).around.path_title
                svg = cards.svg(draft.title, draft.summary, above, site.view.title, picture)
                key, make = digest(site.generator, svg), partial(cards.png, svg)
                yield file_path(url), site.cache.get(f"card {draft.url}", key, make)

    def _replays(self) -> Iterator[tuple[str, bytes]]:
        """The scripts that pages ask for when a reader starts their replays."""
        for draft in self.site.drafts:
            if (shapes := self._shapes.get(draft.name)) and shapes.replay:
                yield file_path(replay_url(draft.url)), shapes.replay.encode()

    def _static(self, made: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """The author's files beside the Markdown pages; `made` are the build's own."""
        docs, report = self.options.docs, self.report
        files = read_static(docs / "pages", "docs_src/pages", report)
        # Models for the browser and their panels, loaded on demand.
        live = read_static(docs / "live", "docs_src/live", report)
        files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
        for name in sorted(files.keys() & made):
            message = f"would be written to `{name}`, which the build makes itself"
            path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
            report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
        yield from files.items()
