"""All files of a site: its pages as HTML, and the files beside them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape

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
from pylit.diagnostics import Diagnostic, Report, nearest
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
    llms,
    page_text,
    robots,
    sitemap,
)
from pylit.outputs.links import AuditedPage, audit, links_and_anchors
from pylit.outputs.search import SearchIndex, SearchPage, counted, search_page
from pylit.pages.draft import failed_draft
from pylit.pages.excerpts import Shown, excerpt, find_lines
from pylit.pages.navigation import Place, page_link
from pylit.pages.previews import preview_path, preview_script, previews, term_previews
from pylit.pages.render import Kind, PageView, Renderer, page_view
from pylit.pages.rows import Row
from pylit.runs.figures import insert_figures, small, stamp
from pylit.runs.results import Results
from pylit.runs.shapes.lines import ModuleShapes
from pylit.runs.shapes.replay import translated_script
from pylit.site.edition import Edition
from pylit.site.inputs import Site
from pylit.site.outcome import progress
from pylit.site.stages import whole
from pylit.source.inventories import inventory
from pylit.source.pages import read_static
from pylit.words import scripts, spoken


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


@dataclass(frozen=True, slots=True)
class Publication:
    """What the files of a site are made of."""

    site: Site
    #: The pages in each language, the site's own first.
    editions: Sequence[Edition]
    results: Results
    typeset: Typeset

    @property
    def own(self) -> Edition:
        """The pages in the site's own language."""
        return self.editions[0]

    def siblings(self, original: str) -> Iterator[tuple[str, str, str]]:
        """A page in each of its languages: the language, its name, and the address."""
        for edition in self.editions:
            if url := edition.addresses.get(original):
                yield edition.view.language, edition.name, url


#: Some files of a site, by their paths.
Files = Iterator[tuple[str, bytes]]


def write(made: Publication, output: Output, report: Report, *, quick: bool = False) -> None:
    """Add the files of a site to `output`, and audit the links between them.

    A quick build adds the pages alone, beside which all other files stay as they are.
    """
    audited, formulas = [], []
    with ExitStack() as end:
        indexes = [(edition, end.enter_context(SearchIndex())) for edition in made.editions]
        for page in _pages(made):
            output.add(page.audited.url, page.html.encode())
            if page.previews:
                output.add(preview_path(page.audited.url), preview_script(page.previews))
            report.update(page.diagnostics)
            audited.append(page.audited)
            formulas.append(page.formulas)
            if page.search and not quick:
                for edition, index in indexes:
                    if found := edition.found.get(page.search.url):
                        names, rank = found
                        named = replace(page.search, names=(*page.search.names, *names))
                        index.add(counted(named) if names else page.search, rank)
        if quick:
            audit(audited, {*output, *output.known}, report)
            return
        for edition, index in indexes:
            output.update(index.files(edition.language.prefix))
    output.update(_assets(made, formulas))
    for files in (_texts, _indexes, _cards, _replays, _words):
        output.update(files(made))
    output.update(_static(made, {*output, *made.site.notebooks}))
    output.update(made.site.notebooks)
    options = made.site.options
    if not options.sources:
        # While an author works, the archive of the last complete build remains.
        old = options.out / ARCHIVE
        reuse = options.serving and old.is_file()
        data = b"" if options.check else old.read_bytes() if reuse else archive(output)
        output.add(ARCHIVE, data)
    audit(audited, output, report)


def _pages(made: Publication) -> Iterator[Page]:
    """All pages: those in the cache, those made now, and the lists of each language."""
    site, theme, docs = made.site, made.site.options.theme, made.site.options.docs
    # Templates include style sheets and drawings.
    parts = [
        *theme.rglob("*.html"),
        *theme.glob("*.css"),
        *theme.glob("locale/**/*.css"),
        *theme.rglob("*.svg"),
    ]
    parts += docs.glob("cards/**/*.html")
    templates = digest(*(path.read_bytes() for path in sorted(parts)))
    #: By language, and whether a page lists others.
    renderers: dict[tuple[str, bool], tuple[Renderer, str]] = {}
    for edition in made.editions:
        view, words = edition.view, edition.language.words
        # Only the home page and the menu list other pages, so that most edits render few again.
        bare = replace(view, catalogue=(), paths=(), other_pages=())
        for lists, shown in ((True, view), (False, bare)):
            key = digest(templates, repr(shown), repr(sorted(words.items())))
            renderer = Renderer((theme, docs), shown, templates, words)
            renderers[edition.language.code, lists] = renderer, key
    pairs = [(edition, *pair) for edition in made.editions for pair in edition.pages]
    excerpts = {edition.language.code: _excerpt(made, edition) for edition in made.editions}
    for edition, parsed, draft in progress("Rendering", pairs):
        languages = (*made.siblings(draft.original),)
        where = replace(edition.places[draft.url], languages=languages)
        lists = draft.original in (HOME, MISSING)
        from_lesson = excerpts[edition.language.code] if draft.original == HOME else None
        renderer, theme_key = renderers[edition.language.code, lists]
        drawn = stamp(draft.figures(), made.results.figures)
        shapes = made.results.shapes.get(draft.name, ModuleShapes())
        key = digest(
            site.generator, draft.stamp, repr((where, from_lesson)), theme_key, shapes.stamp, drawn
        )
        page: Page | None = site.cache.load(f"page {draft.url}", key)
        if page is None:
            if not draft.own:
                draft = site.cache.require(f"draft {parsed.url}", parsed.key)
            parsed = whole(parsed, site.cache)
            try:
                page = _page(made, edition, parsed, draft, where, renderer, from_lesson)
            except (CacheError, NodeError, TemplateError):
                raise
            except Exception as error:
                page = _failed(failed_draft(parsed, error), where, renderer)
            site.cache.store(f"page {draft.url}", key, page)
            site.outcome.rendered += 1
        yield page
    for edition in made.editions:
        renderer, _ = renderers[edition.language.code, True]
        yield from _lists(made, edition, renderer, excerpts[edition.language.code])


def _excerpt(made: Publication, edition: Edition) -> Shown | None:
    """What the home page of an edition shows of a lesson, if the settings name an excerpt."""
    config, report = made.site.config, made.site.report
    for wanted in config.excerpts[:1]:
        found = [(p, d) for p, d in made.own.pages if d.name == wanted.page and not d.prose]
        if not found:
            names = (draft.name for draft in made.own.drafts)
            hint = nearest(wanted.page, names, "name a module of the site")
            place, message = (config.display, 0, 0), f"there is no page `{wanted.page}`"
            report.add(Diagnostic(*place, "navigation", message, hint))
            continue
        (parsed, draft), *_ = found
        here = {d.original: d for d in edition.drafts}.get(draft.url, draft)
        numbers = find_lines(wanted, parsed.source.lines, config, report)
        if len(numbers) > len(wanted.lines):
            shapes = made.results.shapes.get(draft.name, ModuleShapes())
            return excerpt(here, numbers, shapes, made.typeset)
    return None


def _page(
    made: Publication,
    edition: Edition,
    parsed: ParsedPage,
    draft: Draft,
    where: Place,
    renderer: Renderer,
    home: Shown | None,
) -> Page:
    report, typeset, module = Report(), made.typeset, parsed.module
    file = module.written
    formula_faults(draft, file, typeset, report)
    shapes = made.results.shapes.get(draft.name, ModuleShapes())
    names = {use.name for use in draft.figures()} & made.results.figures.keys()
    drawn = {name: made.results.figures[name] for name in names}
    if draft.translation:
        drawn = {name: edition.figure(figure, draft) for name, figure in drawn.items()}
    view = page_view(draft, module, where, typeset, shapes)
    view = replace(view, excerpt=home, small=small(drawn))
    html = insert_figures(renderer.page(view), draft.figures(), drawn)
    if draft.translation:
        html = edition.links(html, draft, made.site.notebooks)
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


def _failed(draft: Draft, where: Place, renderer: Renderer) -> Page:
    """The source of a page that cannot be made."""
    note = "".join(note.html for section in draft.sections for note in section.notes)
    view = PageView("prose", draft, escape(draft.title), "", where, sections=(Row("", note),))
    html = renderer.page(view)
    found = links_and_anchors(html)
    audited = AuditedPage(file_path(draft.url), *found, draft.display, {}, False)
    return Page(html, audited, diagnostics=draft.diagnostics)


def _lists(
    made: Publication, edition: Edition, renderer: Renderer, home: Shown | None
) -> Iterator[Page]:
    """The home page, the lists of pages and the 404 page, unless an author wrote them."""
    view, words = edition.view, edition.language.words
    pages: list[tuple[Kind, str, str, str]] = [("home", HOME, view.title, view.summary)]
    if view.paths:
        pages.append(("list", ALL, "All pages", "Every page of this site, by subject."))
    if view.other_pages:
        about = "The rest of the code, by folder."
        pages.append(("list", HOOD, "Under the hood", about))
    if edition is made.own:
        # A server shows it at any address, in all languages.
        missing = "Page not found", "There is no page at this address."
        pages.append(("missing", MISSING, *missing))
    for kind, original, *texts in pages:
        url, (title, summary) = f"{view.prefix}{original}", map(words, texts)
        if url not in edition.places:
            _, draft = generated_page(url, title, summary)
            languages = _not_found(made) if kind == "missing" else made.siblings(original)
            where = Place(languages=(*languages,))
            shown = PageView(kind, draft, escape(title), escape(summary), where)
            shown = replace(shown, excerpt=home) if kind == "home" else shown
            text = renderer.page(shown)
            yield Page(text, AuditedPage(url, *links_and_anchors(text), url, {}, True))


def _not_found(made: Publication) -> Iterator[tuple[str, str, str]]:
    """What the page for missing ones says in each language, and where its pages begin."""
    for view, words in ((e.view, e.language.words) for e in made.editions):
        yield view.language, words("There is no page at this address."), view.prefix + HOME


def _assets(made: Publication, formulas: Sequence[Rendered]) -> Files:
    """Style sheets, scripts, fonts and the logo."""
    # Cut fonts are cached beside their packages, since all sites have the same ones.
    options = made.site.options
    modules = None if options.missing_node else options.node_modules
    found = assets(options.theme, options.docs, modules, modules and modules.parent)
    yield from found.items()
    css, names = math_style_sheet(formulas)
    yield "assets/math.css", css.encode()
    folder = options.cache / "mathfonts" if options.cache else None
    for name, data in math_fonts(names, formulas, folder).items():
        yield f"assets/fonts/{name}", data
    if (logo := made.site.config.logo) and not options.sources:
        yield made.own.view.logo, (options.root / logo).read_bytes()


def _texts(made: Publication) -> Files:
    """The pages as Markdown, ``llms.txt``, and all notes in one text."""
    own, view = made.own, made.own.view
    texts = {draft.url: url for draft in own.drafts if (url := text_url(draft))}
    sources = {draft.display: texts[draft.url] for draft in own.drafts if draft.url in texts}
    tables = {name: drawn.text for name, drawn in made.results.figures.items()}
    for edition in made.editions:
        found = {draft.display: url for draft in edition.drafts if (url := text_url(draft))}
        for parsed, draft in edition.pages:
            if url := text_url(draft):
                yield file_path(url), page_text(draft, parsed.module, {**sources, **found}, tables)
    if texts:
        groups = (*view.paths, *view.catalogue, *view.other_pages)
        yield "llms.txt", llms(made.site.config, groups, texts)
        # In the order of `llms.txt`; what no list names comes last.
        ranks = {link.url: n for n, link in enumerate(p for g in groups for p in g.pages)}
        pairs = [(parsed.module, draft) for parsed, draft in own.pages if draft.url in texts]
        pairs.sort(key=lambda pair: ranks.get(pair[1].url, len(ranks)))
        yield FULL, b"\n".join(page_text(d, m, sources, tables, code=False) for m, d in pairs)


def _indexes(made: Publication) -> Files:
    """The previews of works and terms, and the files for search engines and other programs."""
    own, config, works = made.own, made.site.config, made.site.works
    if works:
        yield preview_path(BIBLIOGRAPHY), preview_script(work_previews(works))
    drafts = [draft for edition in made.editions for draft in edition.drafts]
    for draft in drafts:
        if draft.original == GLOSSARY:
            terms = dict(term_previews(draft, made.typeset))
            yield preview_path(draft.url), preview_script(terms)
    listed = [t for t in own.targets.values() if not is_cpp(t.url.partition(".html")[0])]
    prose = [page_link(draft) for draft in own.drafts if draft.prose]
    yield "objects.inv", inventory(config.title, config.version, listed, prose)
    # Without this file GitHub Pages leaves out files such as `_base.html`.
    yield ".nojekyll", b""
    yield "robots.txt", robots(config.base_url)
    if config.base_url:
        urls = {draft.url for draft in drafts} - {MISSING}
        for view in (edition.view for edition in made.editions):
            urls |= {f"{view.prefix}{url}" for url in ((HOME, ALL) if view.paths else (HOME,))}
        yield "sitemap.xml", sitemap(config.base_url, urls)


def _cards(made: Publication) -> Files:
    """The pictures of the site's own pages for links on other sites."""
    site, own, options = made.site, made.own, made.site.options
    if options.sources or options.missing_node:
        return
    cards = Cards(options.theme, options.node_modules, options.node_modules.parent / "fonts")
    for draft in own.drafts:
        if url := card_url(draft):
            drawn = (made.results.figures.get(use.name) for use in draft.figures())
            picture = next((one.picture for one in drawn if one), "")
            above = own.places[draft.url].around.path_title
            svg = cards.svg(draft.title, draft.summary, above, own.view.title, picture)
            key, make = digest(site.generator, svg), partial(cards.png, svg)
            yield file_path(url), site.cache.get(f"card {draft.url}", key, make)


def _replays(made: Publication) -> Files:
    """The scripts that pages ask for when a reader starts their replays."""
    for draft in (draft for edition in made.editions for draft in edition.drafts):
        if (shapes := made.results.shapes.get(draft.name)) and shapes.replay:
            texts = draft.translation.replay if draft.translation else {}
            script = translated_script(shapes.replay, texts) if texts else shapes.replay
            yield file_path(replay_url(draft.url)), script.encode()


def _words(made: Publication) -> Files:
    """What scripts say in other languages, for those that a page loads on demand."""
    said = [*spoken(scripts(made.site.options.theme, made.site.options.docs))]
    for language in made.site.languages:
        yield f"assets/{language.prefix}words.js", language.words.script(said)


def _static(made: Publication, taken: Collection[str]) -> Files:
    """The author's files beside the Markdown pages; `taken` are the build's own."""
    docs, report = made.site.options.docs, made.site.report
    files = read_static(docs / "pages", "docs_src/pages", report)
    # Models for the browser and their panels, loaded on demand.
    live = read_static(docs / "live", "docs_src/live", report)
    files |= {f"assets/live/{name}": data for name, data in live.items() if name[-3:] != ".py"}
    for name in sorted(files.keys() & taken):
        message = f"would be written to `{name}`, which the build makes itself"
        path, hint = f"docs_src/pages/{name}", "rename it, or remove it"
        report.add(Diagnostic(path, 0, 0, "page-collision", message, hint))
    yield from files.items()
