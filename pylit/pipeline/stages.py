"""The stages of a build that are worth remembering: parse, draft, finish, cards.

Each takes everything it depends on as a value, and its result is kept in the cache under a digest
of that. What a stage found fault with is kept with its result, so that a build which reuses it
reports the same faults again.

The cache is also where a page waits for its next stage. A `Leaf` is what a build keeps of it in
memory, a few kilobytes; its notes and lines are with one process at a time. Pages of the site's own
are few, and every one of them is asked for exercises and citations: they stay whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.code.values import targets
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Drawn, hang, stamp
from pylit.model import Module, PageView, Reference, SiteView, SourceFile, Target
from pylit.page.cards import Cards
from pylit.page.previews import preview_files
from pylit.page.render import Renderer
from pylit.pipeline.pool import run
from pylit.pipeline.progress import Progress
from pylit.prose.bibliography import Work
from pylit.prose.citations import Cited, unknown
from pylit.shapes.lines import ModuleShapes
from pylit.site.addresses import HOME, file_path, module_url, prose_url
from pylit.site.drafts import Draft, Drafter, DraftSection, Order, fingerprint, prose_target
from pylit.site.links import PageFacts, facts
from pylit.site.pages import Place, card_of, page_view, tex_faults
from pylit.site.search import SearchPage, search_page
from pylit.source.cpp import is_cpp
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
class Page:
    """A finished page and what the stages behind it need to know of it."""

    url: str
    html: str
    facts: PageFacts
    references: tuple[Reference, ...] = ()
    #: Its formulas without their HTML: the rules they want in the site's style sheet.
    formulas: Rendered = Rendered("")  # noqa: RUF009 - a value that never changes
    diagnostics: tuple[Diagnostic, ...] = ()
    #: What links to it show before they are followed, by path.
    previews: Mapping[str, bytes] = field(default_factory=dict)
    #: How search finds it.
    search: SearchPage | None = None

    def bare(self) -> "Page":
        """What the files beside the pages and the audit take of it."""
        return replace(self, html="", diagnostics=(), previews={}, search=None)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page on its way through the stages: what a build keeps of it in memory."""

    #: Without its text, unless it is the site's own.
    source: SourceFile
    url: str
    prose: bool
    #: Digest of everything that it was parsed from.
    key: str
    #: Names that others may link to, without what only previews tell of them.
    targets: Mapping[str, Target]
    diagnostics: tuple[Diagnostic, ...]
    #: Characters of its text.
    size: int
    #: All of it, if it is the site's own, or if the cache could not take it.
    whole: Parsed | None = None

    @property
    def module(self) -> Module:
        """The module of a page of the site's own."""
        assert self.whole is not None
        return self.whole.module

    def read(self, cache: Cache) -> Parsed:
        """All of it."""
        found: Parsed | None = self.whole or cache.load(f"parsed {self.url}", self.key)
        return found or _parsed(self._again(), self.url)

    def _again(self) -> SourceFile:
        """The source, when somebody has emptied the cache meanwhile."""
        old = self.source
        again = read_source(
            old.path, name=old.name, display=old.display, own=old.own, report=Report()
        )
        return again or old


@dataclass(slots=True)
class Tally:
    """How much of a build was made and how much was there already."""

    drafted: int = 0
    rendered: int = 0


class Theme:
    """The templates, filled in with one site; what a page shows of it is part of the page's key."""

    def __init__(self, folder: Path, docs: Path, site: SiteView) -> None:
        # Besides templates, what they include: a style sheet or a drawing beside them.
        parts = [*folder.rglob("*.html"), *folder.glob("*.css"), *folder.rglob("*.svg")]
        parts += docs.glob("cards/**/*.html")
        self._digest = digest(*(path.read_bytes() for path in sorted(parts)))
        # Only the home page lists the others: without the lists, an edit to the title of one page
        # does not render all of them anew.
        bare = replace(site, catalogue=(), paths=(), hood=())
        self._home = Renderer((folder, docs), site, self._digest)
        self._others = Renderer((folder, docs), bare, self._digest)
        self._keys = digest(self._digest, repr(site)), digest(self._digest, repr(bare))

    def key(self, draft: Draft) -> str:
        """Digest of all that a page takes from the theme and the site."""
        return self._keys[draft.url != HOME]

    def page(self, view: PageView) -> str:
        """The HTML of a page."""
        renderer = self._home if view.kind in ("home", "list", "missing") else self._others
        return renderer.page(view)


class Stages:
    """The stages of one build, over one cache.

    Args:
        cache: What earlier builds left, and what waits for its next stage.
        generator: Digest of the code of the generator.
        jobs: How many processes may work.
        progress: Who is told how far they are.
    """

    def __init__(self, cache: Cache, generator: str, jobs: int, progress: Progress) -> None:
        self._cache = cache
        self._generator = generator
        self._jobs = jobs
        self._progress = progress
        #: Addresses of the pages whose formulas are being set, in the order in which they will be.
        self._awaited: list[str] = []
        self.tally = Tally()

    def parse(self, sources: Iterable[SourceFile], prose: Iterable[Module]) -> list[Leaf]:
        """Modules and Markdown pages, parsed, in the order given."""
        leaves: list[Leaf | None] = []
        missing: list[int] = []

        def orders() -> Iterator[_Source]:
            for source in sources:
                order = _Source(source, module_url(source), self._source_key(source))
                parsed = self._cache.load(f"parsed {order.url}", order.key)
                leaves.append(order.leaf(parsed, written=True) if parsed else None)
                if not parsed:
                    missing.append(len(leaves) - 1)
                    yield order

        self._progress.stage("Reading")
        for number, leaf in run(partial(_Parser, self._cache), orders(), self._jobs):
            leaves[missing[number]] = leaf
            self._progress.step()
        for page in prose:
            url = prose_url(page.source.name)
            known = targets(page, url) if is_cpp(page.source.name) else {}
            key = self._source_key(page.source)
            whole = Parsed(page, known)
            leaves.append(Leaf(page.source, url, True, key, known, (), 0, whole))
        return [leaf for leaf in leaves if leaf is not None]

    def draft(
        self, leaves: Sequence[Leaf], maths: MathRenderer, around: Mapping[str, Target]
    ) -> list[Draft]:
        """Drafts in the order of the leaves; formulas go to Node as they turn up.

        `around` is what they may ask for beside the definitions of the modules.
        """
        known = {dotted: t for leaf in leaves for dotted, t in leaf.targets.items()}
        # Links name Markdown pages by their file, or as if they lay where the page will lie.
        for leaf in leaves:
            if leaf.prose and not leaf.targets:
                target = prose_target(leaf.source, leaf.url)
                known |= {leaf.source.display: target, f"{leaf.source.name}.md": target}
        known |= around
        drafter = Drafter(known)
        # Where all names lead to what they led to, so do those that a draft asked for.
        names = digest(*(f"{dotted} {fingerprint(target)}" for dotted, target in known.items()))
        held: Mapping[str, str] = self._cache.load("held", names) or {}
        found: list[Draft | None] = []
        for leaf in leaves:
            draft: Draft | None = self._cache.load(f"draft {leaf.url}", leaf.key)
            if draft is not None and held.get(leaf.url) != draft.stamp:
                draft = draft if drafter.answers.hold(draft.answers) else None
            found.append(_slim(draft) if draft else None)
        missing = [index for index, draft in enumerate(found) if draft is None]
        # The longest first, so that no process is left alone with one at the end.
        missing.sort(key=lambda index: -leaves[index].size)
        self._progress.stage("Annotating", len(missing))
        make = partial(_Annotator, self._cache, drafter)
        for number, (draft, formulas) in run(make, (leaves[i] for i in missing), self._jobs):
            found[missing[number]] = draft
            maths.submit(formulas)
            self._awaited.append(draft.url)
            self._progress.step()
        self.tally.drafted = len(missing)
        drafts = [draft for draft in found if draft is not None]
        self._cache.store("held", names, {draft.url: draft.stamp for draft in drafts})
        return drafts

    def finish(
        self,
        leaves: Sequence[Leaf],
        drafts: Sequence[Draft],
        places: Callable[[Leaf, Draft], Place],
        press: "Press",
    ) -> Iterator[tuple[int, Page]]:
        """Pages, each with its number, formulas filled in and templates applied.

        They come in the order in which Node sets their formulas, their previews with them, so that
        neither waits for the other longer than it must.
        """
        turn = {url: number for number, url in enumerate(self._awaited)}
        order = sorted(range(len(drafts)), key=lambda index: turn.get(drafts[index].url, -1))
        self._progress.stage("Rendering", len(drafts))
        for index in order:
            leaf, draft = leaves[index], drafts[index]
            where = places(leaf, draft)
            name, key = f"page {draft.url}", digest(self._generator, press.key(leaf, draft, where))
            page: Page | None = self._cache.load(name, key)
            if page is None:
                page = press.page(leaf.read(self._cache), self._whole(leaf, draft), where)
                self._cache.store(name, key, page)
                self.tally.rendered += 1
            yield index, page
            self._progress.step()

    def cards(
        self,
        leaves: Sequence[Leaf],
        drafts: Sequence[Draft],
        places: Callable[[Leaf, Draft], Place],
        site: SiteView,
        cards: Cards,
        figures: Mapping[str, Drawn],
    ) -> Iterator[tuple[str, bytes]]:
        """The pictures of own pages for those who link to them."""
        for leaf, draft in zip(leaves, drafts, strict=True):
            if not (url := card_of(draft)):
                continue
            shown = (figures[use.name].picture for use in draft.figures() if use.name in figures)
            above = places(leaf, draft).around.path_title
            svg = cards.svg(draft.title, draft.summary, above, site.title, next(shown, ""))
            key = digest(self._generator, svg)
            make = partial(cards.png, svg)
            yield file_path(url), self._cache.get(f"card {draft.url}", key, make)

    def lines(self, leaf: Leaf) -> Sequence[str]:
        """The lines of a source."""
        return leaf.read(self._cache).module.source.lines

    def _whole(self, leaf: Leaf, draft: Draft) -> Draft:
        """All of a draft."""
        kept: Draft | None = None if draft.own else self._cache.load(f"draft {leaf.url}", leaf.key)
        return kept if kept and kept.stamp == draft.stamp else draft

    def _source_key(self, source: SourceFile) -> str:
        kind = f"{source.is_package} {source.own}"
        return digest(self._generator, source.digest, source.name, source.display, kind)


@dataclass(frozen=True, slots=True)
class _Source:
    """A source to parse."""

    source: SourceFile
    url: str
    key: str

    def leaf(self, parsed: Parsed, *, written: bool) -> Leaf:
        """What a build keeps of it in memory."""
        source, size = self.source, len(self.source.text)
        found, faults = parsed.targets, parsed.diagnostics
        if source.own:
            return Leaf(source, self.url, False, self.key, found, faults, size, parsed)
        bare = {dotted: _bare(target) for dotted, target in found.items()}
        slim, whole = replace(source, text=""), None if written else parsed
        return Leaf(slim, self.url, False, self.key, bare, faults, size, whole)


class _Parser:
    """Parses sources, in this process or in another."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def __call__(self, order: _Source) -> Leaf:
        parsed = _parsed(order.source, order.url)
        written = self._cache.store(f"parsed {order.url}", order.key, parsed)
        return order.leaf(parsed, written=written)


def _parsed(source: SourceFile, url: str) -> Parsed:
    report = Report()
    module = parse_module(source, report)
    return Parsed(module, targets(module, url), tuple(report))


def _bare(target: Target) -> Target:
    """A target without what only previews show of it."""
    definition = target.definition
    # Relations leave out what returns nothing.
    signature = "-> None" if definition.signature.endswith("-> None") else ""
    bare = replace(definition, line=0, signature=signature, summary="")
    return replace(target, definition=bare)


class _Annotator:
    """Makes drafts, in this process or in another."""

    def __init__(self, cache: Cache, drafter: Drafter) -> None:
        self._cache, self._drafter = cache, drafter

    def __call__(self, leaf: Leaf) -> tuple[Draft, list[tuple[str, bool]]]:
        """The draft, and its formulas."""
        draft = self._drafter(_order(leaf, leaf.read(self._cache).module))
        written = self._cache.store(f"draft {leaf.url}", leaf.key, draft)
        return _slim(draft) if written else draft, draft.formulas()


def _order(leaf: Leaf, module: Module) -> Order:
    """What to draft. A page without notes says why, in the words of the parser's complaint."""
    warning = ""
    if not (module.parsed or leaf.prose):
        why = next((d for d in leaf.diagnostics if d.code == "syntax"), None)
        place = f"line {why.line}: " if why and why.line else ""
        reason = f" ({place}{why.message})" if why else ""
        warning = f"Python cannot parse this file{reason}, so its source is shown as it stands."
    return Order(module, leaf.url, leaf.prose, leaf.key, warning)


def _slim(draft: Draft) -> Draft:
    """What a build keeps of a draft in memory."""
    if draft.own:
        return draft
    # Whether there is anything to read decides what lists of pages show.
    return replace(draft, sections=(DraftSection("", (), ()),) * bool(draft.sections), answers={})


class Press:
    """Makes pages of drafts: all that they have in common."""

    def __init__(
        self,
        theme: Theme,
        typeset: Typeset,
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
        works: Mapping[str, Work],
    ) -> None:
        self._theme, self._typeset = theme, typeset
        self._shapes, self._figures = shapes, figures
        self._names = {work.key: Cited(work.short, work.year, "") for work in works.values()}
        self._cited = repr(sorted(self._names.items()))

    def key(self, leaf: Leaf, draft: Draft, where: Place) -> str:
        """Digest of all that a page is made of."""
        shapes = self._shapes_of(draft).stamp
        cited = self._cited if "@" in leaf.source.text else ""
        drawn = stamp(draft.figures(), self._figures)
        return digest(draft.stamp, repr(where), self._theme.key(draft), shapes, drawn, cited)

    def page(self, parsed: Parsed, draft: Draft, where: Place) -> Page:
        """The page, once its formulas are there."""
        report, typeset, module = Report(), self._typeset, parsed.module
        tex_faults(draft, module.source.lines, typeset, report)
        view = page_view(draft, module, where, typeset, self._shapes_of(draft))
        html = hang(self._theme.page(view), draft.figures(), self._figures)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, typeset) for formula in formulas]
        rules = {rule for formula in shown for rule in formula.css}
        previews = preview_files(
            parsed.targets.values(),
            typeset=typeset,
            own=draft.own,
            cite=lambda key: self._names.get(key) or unknown(key),
        )
        return Page(
            draft.url,
            html,
            facts(html),
            tuple(reference for note in draft.notes() for reference in note.references),
            Rendered("", tuple(sorted(rules))),
            tuple(report),
            previews,
            search_page(draft, module),
        )

    def _shapes_of(self, draft: Draft) -> ModuleShapes:
        return self._shapes.get(draft.name, ModuleShapes())
