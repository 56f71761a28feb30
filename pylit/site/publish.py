"""All files of a site: drafts become HTML pages, with the files beside them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from itertools import chain
from types import MappingProxyType

from jinja2 import TemplateError

from pylit.addresses import (
    ALL,
    HOME,
    HOOD,
    MISSING,
    card_url,
    file_path,
    is_cpp,
    replay_url,
    text_url,
)
from pylit.cache import CacheError, digest
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Draft, ParsedPage, generated_page
from pylit.node.process import NodeError
from pylit.notes.citations import BIBLIOGRAPHY, work_previews
from pylit.notes.glossary import GLOSSARY
from pylit.notes.tex import Rendered, Typeset, formula_faults, typeset_formula
from pylit.outputs.assets import assets, math_fonts, math_style_sheet
from pylit.outputs.cards import Cards
from pylit.outputs.folder import Output
from pylit.outputs.indexes import (
    ARCHIVE,
    FULL,
    archive,
    inventory,
    llms,
    page_text,
    robots,
    sitemap,
)
from pylit.outputs.links import AuditedPage, audit, links_and_anchors
from pylit.outputs.search import SearchIndex, SearchPage, search_page
from pylit.pages.draft import failed_draft
from pylit.pages.navigation import Place, page_link
from pylit.pages.previews import preview_path, preview_script, previews, term_previews
from pylit.pages.render import Kind, PageView, Renderer, page_view
from pylit.pages.rows import Row
from pylit.runs.figures import FigureHtml, insert_figures, stamp
from pylit.runs.shapes.lines import ModuleShapes
from pylit.runs.shapes.replay import translated_script
from pylit.site.edition import Edition
from pylit.site.inputs import Site
from pylit.site.outcome import progress
from pylit.site.stages import whole
from pylit.source.pages import read_static
from pylit.words import scripts, spoken

NO_INDEXES: Mapping[str, SearchIndex] = MappingProxyType({})


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
        self._keys, self._renderers = {}, {}
        for edition in site.editions:
            view, words = edition.view, edition.language.words
            # Only the home page lists all pages, so that an edit to a title renders few again.
            bare = replace(view, catalogue=(), paths=(), other_pages=())
            for lists, shown in ((True, view), (False, bare)):
                place = edition.language.code, lists
                self._keys[place] = digest(stamp, repr(shown), repr(sorted(words.items())))
                self._renderers[place] = Renderer((theme, docs), shown, stamp, words)

    def write_pages(
        self, output: Output, indexes: Mapping[str, SearchIndex] = NO_INDEXES
    ) -> tuple[list[AuditedPage], list[Rendered]]:
        """Add the pages to `output`, and to the index of each language; what links and formulas
        they have.
        """
        audited, formulas, editions = [], [], self.site.editions
        pairs = [(edition, *pair) for edition in editions for pair in edition.pairs]
        pages = (self._made(*pair) for pair in progress("Rendering", pairs))
        for page in chain(pages, *map(self._lists, editions)):
            output.add(page.audited.url, page.html.encode())
            if page.previews:
                output.add(preview_path(page.audited.url), preview_script(page.previews))
            self.report.update(page.diagnostics)
            if page.search:
                self._add_to(indexes, page.search)
            audited.append(page.audited)
            formulas.append(page.formulas)
        return audited, formulas

    def _add_to(self, indexes: Mapping[str, SearchIndex], page: SearchPage) -> None:
        """Add a page to the index of its language, and to those of languages that lack it."""
        for edition in self.site.editions:
            index = indexes.get(edition.language.code)
            if index and edition.shows(page.url):
                index.add(*edition.search_entry(page))

    def prepare(self, running: Collection[str]) -> None:
        """Make, for the cache, what waits for none of some runs: cards, and pages of others."""
        for edition in self.site.editions:
            for parsed, draft in edition.pairs:
                if draft.name not in running:
                    self._made(edition, parsed, draft)
        list(self._cards())

    def write(self, output: Output) -> None:
        """Add all files of the site to `output` and audit the links between them."""
        with ExitStack() as end:
            codes = [edition.language.code for edition in self.site.editions]
            indexes = {code: end.enter_context(SearchIndex()) for code in codes}
            audited, formulas = self.write_pages(output, indexes)
            for edition in self.site.editions:
                index = indexes[edition.language.code]
                output.update(index.files(edition.language.prefix))
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
            output.add(self.site.own.view.logo, (options.root / logo).read_bytes())
        output.update(self._replays())
        output.update(self._words())
        output.update(self._static({*output, *self.site.notebooks}))
        output.update(self.site.notebooks)
        if not options.sources:
            # While an author works, the archive of the last complete build remains.
            old = options.out / ARCHIVE
            reuse = options.serving and old.is_file()
            data = b"" if options.check else old.read_bytes() if reuse else archive(output)
            output.add(ARCHIVE, data)
        audit(audited, output, self.report)

    def _made(self, edition: Edition, parsed: ParsedPage, draft: Draft) -> Page:
        """A page, of the cache if it is there."""
        site = self.site
        where = edition.place(parsed, draft)
        where = replace(where, languages=(*site.siblings(draft.original),))
        name, key = f"page {draft.url}", self._key(edition, draft, where)
        page: Page | None = site.cache.load(name, key)
        if page is None:
            if not draft.own:
                draft = site.cache.require(f"draft {parsed.url}", parsed.key)
            parsed = whole(parsed, site.cache)
            try:
                page = self._page(edition, parsed, draft, where)
            except (CacheError, NodeError, TemplateError):
                raise
            except Exception as error:
                page = self._failed(edition, failed_draft(parsed, error), where)
            site.cache.store(name, key, page)
            site.outcome.rendered += 1
        return page

    def _key(self, edition: Edition, draft: Draft, where: Place) -> str:
        theme = self._keys[edition.language.code, draft.original == HOME]
        shapes = self._shapes.get(draft.name)
        drawn = stamp(draft.figures(), self._figures)
        traced = shapes.stamp if shapes else ""
        return digest(self.site.generator, draft.stamp, repr(where), theme, traced, drawn)

    def _page(self, edition: Edition, parsed: ParsedPage, draft: Draft, where: Place) -> Page:
        report, typeset, module = Report(), self.typeset, parsed.module
        file = module.written
        formula_faults(draft, file, typeset, report)
        shapes = self._shapes.get(draft.name, ModuleShapes())
        view = page_view(draft, module, where, typeset, shapes)
        drawn = self._figures
        if draft.translation:
            drawn = {
                use.name: edition.figure(self._figures[use.name], draft)
                for use in draft.figures()
                if use.name in self._figures
            }
        html = insert_figures(self._html(edition, view), draft.figures(), drawn)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, typeset) for formula in formulas]
        written: dict[str, tuple[int, str]] = {}
        for href, line in (pair for note in draft.notes() for pair in note.references):
            written.setdefault(href, (line, "".join(file.lines[line - 1 : line])))
        found = links_and_anchors(html)
        return Page(
            html,
            AuditedPage(file_path(draft.url), *found, file.display, written, module.source.strict),
            Rendered("", tuple(sorted({rule for formula in shown for rule in formula.css}))),
            tuple(report),
            dict(previews(parsed.targets.values(), draft, typeset)),
            search_page(draft, module),
        )

    def _failed(self, edition: Edition, draft: Draft, where: Place) -> Page:
        """The source of a page that cannot be made."""
        note = "".join(note.html for section in draft.sections for note in section.notes)
        view = PageView("prose", draft, escape(draft.title), "", where, sections=(Row("", note),))
        html = self._html(edition, view)
        found = links_and_anchors(html)
        audited = AuditedPage(file_path(draft.url), *found, draft.display, {}, False)
        return Page(html, audited, diagnostics=draft.diagnostics)

    def _html(self, edition: Edition, view: PageView) -> str:
        lists = view.kind in ("home", "list", "missing")
        return self._renderers[edition.language.code, lists].page(view)

    def _lists(self, edition: Edition) -> Iterator[Page]:
        """The home page, the lists of pages and the 404 page, unless an author wrote them."""
        view, words = edition.view, edition.language.words
        pages: list[tuple[Kind, str, str, str]] = [("home", HOME, view.title, view.summary)]
        if view.paths:
            pages.append(("list", ALL, "All pages", "Every page of this site, by subject."))
        if view.other_pages:
            about = "The rest of the code, by folder."
            pages.append(("list", HOOD, "Under the hood", about))
        if edition is self.site.own:
            # A server shows it at any address, in all languages.
            missing = "Page not found", "There is no page at this address."
            pages.append(("missing", MISSING, *missing))
        taken = {draft.url for draft in edition.drafts}
        for kind, original, *texts in pages:
            url, (title, summary) = f"{view.prefix}{original}", map(words, texts)
            if url not in taken:
                _, draft = generated_page(url, title, summary)
                languages = self._not_found() if kind == "missing" else self.site.siblings(original)
                where = Place(languages=(*languages,))
                shown = PageView(kind, draft, escape(title), escape(summary), where)
                text = self._html(edition, shown)
                yield Page(text, AuditedPage(url, *links_and_anchors(text), url, {}, True))

    def _not_found(self) -> Iterator[tuple[str, str, str]]:
        """What the page for missing ones says in each language, and where its pages begin."""
        for view, words in ((e.view, e.language.words) for e in self.site.editions):
            yield view.language, words("There is no page at this address."), view.prefix + HOME

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """The pages as Markdown, ``llms.txt``, and all notes in one text."""
        site, view = self.site.own, self.site.own.view
        texts = {draft.url: url for draft in site.drafts if (url := text_url(draft))}
        sources = {draft.display: texts[draft.url] for draft in site.drafts if draft.url in texts}
        for edition in self.site.editions:
            found = {draft.display: url for draft in edition.drafts if (url := text_url(draft))}
            for parsed, draft in edition.pairs:
                if url := text_url(draft):
                    text = page_text(draft, parsed.module, {**sources, **found})
                    yield file_path(url), text
        if texts:
            groups = (*view.paths, *view.catalogue, *view.other_pages)
            yield "llms.txt", llms(self.site.config, groups, texts)
            # In the order of `llms.txt`; what no list names comes last.
            ranks = {link.url: n for n, link in enumerate(p for g in groups for p in g.pages)}
            pairs = [(parsed.module, draft) for parsed, draft in site.pairs if draft.url in texts]
            pairs.sort(key=lambda pair: ranks.get(pair[1].url, len(ranks)))
            yield FULL, b"\n".join(page_text(d, m, sources, code=False) for m, d in pairs)

    def _indexes(self) -> Iterator[tuple[str, bytes]]:
        """The previews of works and terms, and the files for search engines and other programs."""
        site, config = self.site.own, self.site.config
        if self.site.works:
            yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(self.site.works))
        drafts = [draft for edition in self.site.editions for draft in edition.drafts]
        for draft in drafts:
            if draft.original == GLOSSARY:
                terms = dict(term_previews(draft, self.typeset))
                yield preview_path(draft.url), preview_script(terms)
        listed = [t for t in site.targets.values() if not is_cpp(t.url.partition(".html")[0])]
        prose = [page_link(draft) for draft in site.drafts if draft.prose]
        yield "objects.inv", inventory(config.title, config.version, listed, prose)
        # Without this file GitHub Pages leaves out files such as `_base.html`.
        yield ".nojekyll", b""
        yield "robots.txt", robots(config.base_url)
        if config.base_url:
            urls = {draft.url for draft in drafts} - {MISSING}
            for view in (edition.view for edition in self.site.editions):
                urls |= {f"{view.prefix}{HOME}"} | (
                    {f"{view.prefix}{ALL}"} if view.paths else set()
                )
            yield "sitemap.xml", sitemap(config.base_url, urls)

    def _cards(self) -> Iterator[tuple[str, bytes]]:
        """The pictures of the site's own pages for links on other sites."""
        modules, site = self.options.node_modules, self.site.own
        if self.options.sources or self.options.missing_node:
            return
        cards = Cards(self.options.theme, modules, modules.parent / "fonts")
        for parsed, draft in site.pairs:
            if url := card_url(draft):
                drawn = (self._figures.get(use.name) for use in draft.figures())
                picture = next((one.picture for one in drawn if one), "")
                above = site.place(parsed, draft).around.path_title
                svg = cards.svg(draft.title, draft.summary, above, site.view.title, picture)
                key, make = digest(self.site.generator, svg), partial(cards.png, svg)
                yield file_path(url), self.site.cache.get(f"card {draft.url}", key, make)

    def _replays(self) -> Iterator[tuple[str, bytes]]:
        """The scripts that pages ask for when a reader starts their replays."""
        for draft in (draft for edition in self.site.editions for draft in edition.drafts):
            if (shapes := self._shapes.get(draft.name)) and shapes.replay:
                texts = draft.translation.replay if draft.translation else {}
                script = translated_script(shapes.replay, texts) if texts else shapes.replay
                yield file_path(replay_url(draft.url)), script.encode()

    def _words(self) -> Iterator[tuple[str, bytes]]:
        """What scripts say in other languages, for those that a page loads on demand."""
        said = [*spoken(scripts(self.options.theme, self.options.docs))]
        for language in self.site.languages:
            yield f"assets/{language.prefix}words.js", language.words.script(said)

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
