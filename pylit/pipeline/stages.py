"""The stages of a page that are worth remembering: parse, draft, finish.

Each takes all that it depends on as a value, and leaves its result in the cache under a digest of
that, with the faults that it found: a build that reuses the result reports them again.

The cache is also where a page waits for its next stage. A `Leaf` is what a build keeps of it in
memory, a few kilobytes; its notes and lines are with one process at a time. Pages of the site's own
are few, and every one of them is asked for exercises and citations: they stay whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pylit.cache import Cache, digest
from pylit.code.cpp import is_cpp
from pylit.code.values import targets
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Drawn, hang, stamp
from pylit.model import Module, Reference, SourceFile, Target
from pylit.page.previews import preview_files
from pylit.page.render import Renderer
from pylit.page.view import PageView, SiteView
from pylit.pipeline.outcome import Options, Progress, Tally
from pylit.pipeline.pool import run
from pylit.prose.works import Cited, Work, unknown
from pylit.shapes.lines import ModuleShapes
from pylit.site.addresses import HOME, module_url, prose_url
from pylit.site.drafts import Draft, Drafter, DraftSection, Order, prose_target
from pylit.site.links import PageFacts, facts
from pylit.site.pages import Place, page_view, tex_faults
from pylit.site.search import SearchPage, search_page
from pylit.source.discover import read_source
from pylit.source.parse import parse_module
from pylit.tex.maths import MathRenderer, Rendered
from pylit.tex.symbols import Typeset, typeset_formula


@dataclass(frozen=True, slots=True)
class Parsed:
    """A source after parsing, with what others may link to."""

    module: Module
    targets: Mapping[str, Target]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page on its way through the stages: what a build keeps of it in memory."""

    url: str
    prose: bool
    #: Digest of everything that it was parsed from.
    key: str
    #: All of it, if it is the site's own, or if the cache could not take it. Else it has no text,
    #: and names that others may link to are without what only previews tell of them.
    parsed: Parsed
    whole: bool = True

    @property
    def source(self) -> SourceFile:
        """Its source, which has its text if it is the site's own."""
        return self.parsed.module.source

    def read(self, cache: Cache) -> Parsed:
        """All of it; parsed again if somebody has emptied the cache meanwhile."""
        found = self.parsed if self.whole else cache.load(f"parsed {self.url}", self.key)
        if found is None:
            old = self.source
            again = read_source(
                old.path, name=old.name, display=old.display, own=old.own, report=Report()
            )
            found = _parsed(again or old, self.url)
        return found


#: The pages of a build, each with its draft.
Pairs = Sequence[tuple[Leaf, Draft]]


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page and what the stages behind it need to know of it."""

    url: str
    html: str
    facts: PageFacts
    #: Its source, as diagnostics name it.
    display: str
    own: bool = True
    references: tuple[Reference, ...] = ()
    #: Its formulas without their HTML: the rules they want in the site's style sheet.
    formulas: Rendered = Rendered("")  # noqa: RUF009 - a value that never changes
    diagnostics: tuple[Diagnostic, ...] = ()
    #: What links to it show before they are followed, by path.
    previews: Mapping[str, bytes] = field(default_factory=dict)
    #: How search finds it.
    search: SearchPage | None = None


class Stages:
    """The stages of one build, over one cache; `generator` is a digest of the generator's code."""

    def __init__(self, cache: Cache, generator: str, jobs: int, progress: Progress) -> None:
        self.cache, self.generator = cache, generator
        self._jobs, self._progress = jobs, progress
        #: Addresses of the pages whose formulas are being set, in the order in which they will be.
        self._awaited: list[str] = []
        self.tally = Tally()

    def parse(self, sources: Iterable[SourceFile], prose: Iterable[Module]) -> list[Leaf]:
        """Modules and Markdown pages, parsed, in the order given."""
        leaves: list[Leaf | None] = []
        missing: list[int] = []

        def unparsed() -> Iterator[tuple[SourceFile, str, str]]:
            for source in sources:
                url, key = module_url(source), self._key(source)
                parsed = self.cache.load(f"parsed {url}", key)
                leaves.append(_leaf(url, key, parsed, kept=True) if parsed else None)
                if not parsed:
                    missing.append(len(leaves) - 1)
                    yield source, url, key

        parsing = run(partial(_parse, self.cache), unparsed(), self._jobs)
        for number, leaf in self._progress.of("Reading", parsing):
            leaves[missing[number]] = leaf
        for page in prose:
            url = prose_url(page.source.name)
            known = targets(page, url) if is_cpp(page.source.name) else {}
            leaves.append(Leaf(url, True, self._key(page.source), Parsed(page, known)))
        return [leaf for leaf in leaves if leaf is not None]

    def draft(
        self, leaves: Sequence[Leaf], maths: MathRenderer, around: Mapping[str, Target]
    ) -> list[tuple[Leaf, Draft]]:
        """Drafts in the order of the leaves; formulas go to Node as they turn up.

        `around` is what they may ask for beside the definitions of the modules.
        """
        known = {dotted: t for leaf in leaves for dotted, t in leaf.parsed.targets.items()}
        # Links name Markdown pages by their file, or as if they lay where the page will lie.
        for leaf in leaves:
            if leaf.prose and not leaf.parsed.targets:
                target = prose_target(leaf.source, leaf.url)
                known |= {leaf.source.display: target, f"{leaf.source.name}.md": target}
        known |= around
        drafter = Drafter(known)
        found: dict[int, Draft] = {}
        for number, leaf in enumerate(leaves):
            draft: Draft | None = self.cache.load(f"draft {leaf.url}", leaf.key)
            if draft and drafter.answers.hold(draft.answers):
                found[number] = _slim(draft)
        missing = [number for number in range(len(leaves)) if number not in found]
        # Those that define most first, so that no process is left alone with one at the end.
        missing.sort(key=lambda number: -len(leaves[number].parsed.targets))
        work = partial(_annotate, self.cache, drafter)
        drafting = run(work, (leaves[number] for number in missing), self._jobs)
        for turn, (draft, formulas) in self._progress.of("Annotating", drafting, len(missing)):
            found[missing[turn]] = draft
            maths.submit(formulas)
            self._awaited.append(draft.url)
        self.tally.drafted = len(missing)
        return [(leaf, found[number]) for number, leaf in enumerate(leaves)]

    def finish(
        self, pairs: Pairs, place: Callable[[Leaf, Draft], Place], press: "Press"
    ) -> Iterator[tuple[int, Page]]:
        """Pages, each with its number, formulas filled in and templates applied.

        They come in the order in which Node sets their formulas, their previews with them, so that
        neither waits for the other longer than it must.
        """
        turn = {url: number for number, url in enumerate(self._awaited)}
        order = sorted(range(len(pairs)), key=lambda number: turn.get(pairs[number][1].url, -1))
        for number in self._progress.of("Rendering", order, len(order)):
            leaf, draft = pairs[number]
            where = place(leaf, draft)
            name, key = f"page {draft.url}", digest(self.generator, press.key(leaf, draft, where))
            page: Page | None = self.cache.load(name, key)
            if page is None:
                whole: Draft | None = None
                if not draft.own:
                    whole = self.cache.load(f"draft {leaf.url}", leaf.key)
                whole = whole if whole and whole.stamp == draft.stamp else draft
                page = press.page(leaf.read(self.cache), whole, where)
                self.cache.store(name, key, page)
                self.tally.rendered += 1
            yield number, page

    def _key(self, source: SourceFile) -> str:
        kind = f"{source.is_package} {source.own}"
        return digest(self.generator, source.digest, source.name, source.display, kind)


def _parse(cache: Cache, order: tuple[SourceFile, str, str]) -> Leaf:
    """Parses a source, in this process or in another."""
    source, url, key = order
    parsed = _parsed(source, url)
    return _leaf(url, key, parsed, kept=cache.store(f"parsed {url}", key, parsed))


def _parsed(source: SourceFile, url: str) -> Parsed:
    report = Report()
    module = parse_module(source, report)
    return Parsed(module, targets(module, url), tuple(report))


def _leaf(url: str, key: str, parsed: Parsed, *, kept: bool) -> Leaf:
    """What a build keeps in memory of a module that the cache has kept, or not."""
    source = parsed.module.source
    if source.own or not kept:
        return Leaf(url, False, key, parsed)
    module = Module(replace(source, text=""), {}, (), ())
    bare = {dotted: _bare(target) for dotted, target in parsed.targets.items()}
    return Leaf(url, False, key, Parsed(module, bare, parsed.diagnostics), whole=False)


def _bare(target: Target) -> Target:
    """A target without what only previews show of it."""
    definition = target.definition
    # Relations leave out what returns nothing.
    signature = "-> None" if definition.signature.endswith("-> None") else ""
    bare = replace(definition, line=0, signature=signature, summary="")
    return replace(target, definition=bare)


def _annotate(cache: Cache, drafter: Drafter, leaf: Leaf) -> tuple[Draft, list[tuple[str, bool]]]:
    """Makes a draft, in this process or in another; its formulas with it."""
    module, warning = leaf.read(cache).module, ""
    if not (module.parsed or leaf.prose):
        # A page without notes says why, in the words of the parser's complaint.
        why = next((d for d in leaf.parsed.diagnostics if d.code == "syntax"), None)
        place = f"line {why.line}: " if why and why.line else ""
        reason = f" ({place}{why.message})" if why else ""
        warning = f"Python cannot parse this file{reason}, so its source is shown as it stands."
    draft = drafter(Order(module, leaf.url, leaf.prose, leaf.key, warning))
    kept = cache.store(f"draft {leaf.url}", leaf.key, draft)
    return _slim(draft) if kept else draft, draft.formulas()


def _slim(draft: Draft) -> Draft:
    """What a build keeps of a draft in memory."""
    if draft.own:
        return draft
    # Whether there is anything to read decides what lists of pages show.
    return replace(draft, sections=(DraftSection("", (), ()),) * bool(draft.sections), answers={})


class Press:
    """Makes pages of drafts: templates, and all that the pages of a site have in common.

    What a page takes of them is part of its key.
    """

    def __init__(
        self,
        options: Options,
        site: SiteView,
        typeset: Typeset,
        works: Mapping[str, Work],
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
    ) -> None:
        self.typeset, self._shapes, self.figures = typeset, shapes, figures
        self._works = {work.key: Cited(work.short, work.year, "") for work in works.values()}
        self._cited = repr(sorted(self._works.items()))
        theme, docs = options.theme, options.docs
        # Besides templates, what they include: a style sheet or a drawing beside them.
        parts = [*theme.rglob("*.html"), *theme.glob("*.css"), *theme.rglob("*.svg")]
        parts += docs.glob("cards/**/*.html")
        stamp = digest(*(path.read_bytes() for path in sorted(parts)))
        # Only the home page lists the others: without the lists, an edit to the title of one page
        # does not render all of them anew.
        views = (site, replace(site, catalogue=(), paths=(), hood=()))
        self._keys = [digest(stamp, repr(view)) for view in views]
        self._renderers = [Renderer((theme, docs), view, stamp) for view in views]

    def html(self, view: PageView) -> str:
        """The HTML of a page, by the templates."""
        return self._renderers[view.kind not in ("home", "list", "missing")].page(view)

    def key(self, leaf: Leaf, draft: Draft, where: Place) -> str:
        """Digest of all that a page is made of."""
        theme, shapes = self._keys[draft.url != HOME], self._shapes.get(draft.name)
        cited = self._cited if "@" in leaf.source.text else ""
        drawn = stamp(draft.figures(), self.figures)
        return digest(draft.stamp, repr(where), theme, shapes.stamp if shapes else "", drawn, cited)

    def page(self, parsed: Parsed, draft: Draft, where: Place) -> Page:
        """The page, once its formulas are there."""
        report, typeset, module = Report(), self.typeset, parsed.module
        tex_faults(draft, module.source.lines, typeset, report)
        shapes = self._shapes.get(draft.name, ModuleShapes())
        view = page_view(draft, module, where, typeset, shapes)
        html = hang(self.html(view), draft.figures(), self.figures)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, typeset) for formula in formulas]
        rules = {rule for formula in shown for rule in formula.css}
        previews = preview_files(
            parsed.targets.values(),
            typeset=typeset,
            own=draft.own,
            cite=lambda key: self._works.get(key) or unknown(key),
        )
        return Page(
            draft.url,
            html,
            facts(html),
            draft.display,
            draft.own,
            tuple(reference for note in draft.notes() for reference in note.references),
            Rendered("", tuple(sorted(rules))),
            tuple(report),
            previews,
            search_page(draft, module),
        )
