"""The stages of a build that are worth remembering: parse, draft, finish, previews, cards.

Each takes everything it depends on as a value, and its result is kept in the cache under a digest
of that. What a stage found fault with is kept with its result, so that a build which reuses it
reports the same faults again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.code.scopes import targets
from pylit.diagnostics import Diagnostic, Report
from pylit.figures.gallery import Drawn, hang, stamp
from pylit.model import (
    Module,
    PageView,
    Reference,
    SiteView,
    SourceFile,
    Target,
)
from pylit.page.cards import Cards
from pylit.page.previews import preview_files
from pylit.page.render import Renderer
from pylit.pipeline.pool import run
from pylit.pipeline.progress import Progress
from pylit.prose.bibliography import Work
from pylit.prose.citations import Cited, unknown
from pylit.shapes.lines import ModuleShapes
from pylit.site.addresses import HOME, file_path, module_url, prose_url
from pylit.site.drafts import Draft, Drafter, Order, prose_target
from pylit.site.links import PageFacts, facts
from pylit.site.pages import Place, card_of, page_view, tex_faults
from pylit.source.cpp import is_cpp
from pylit.source.parse import parse_module
from pylit.tex.maths import MathRenderer, Rendered
from pylit.tex.symbols import Typeset, typeset_formula


@dataclass(frozen=True, slots=True)
class Parsed:
    """A source after parsing, with what others may link to."""

    module: Module
    url: str
    prose: bool
    targets: Mapping[str, Target]
    diagnostics: tuple[Diagnostic, ...]
    #: Digest of everything that it was made from.
    key: str


@dataclass(frozen=True, slots=True)
class Page:
    """A finished page and what the stages behind it need to know of it."""

    url: str
    html: str
    facts: PageFacts
    references: tuple[Reference, ...]
    #: Its formulas without their HTML: the rules they want in the site's style sheet.
    formulas: Rendered
    diagnostics: tuple[Diagnostic, ...]
    key: str


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
        cache: What earlier builds left.
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

    def parse(self, sources: Sequence[SourceFile], prose: Sequence[Module]) -> list[Parsed]:
        """Modules and Markdown pages, parsed, in the order given."""
        keys = [self._source_key(source) for source in sources]
        found: list[Parsed | None] = [
            self._cache.load(f"parsed {module_url(source)}", key)
            for source, key in zip(sources, keys, strict=True)
        ]
        missing = [index for index, parsed in enumerate(found) if parsed is None]
        self._progress.stage("Reading", len(missing))
        work = [(sources[index], keys[index]) for index in missing]
        for number, parsed in run(_Parser, work, self._jobs):
            found[missing[number]] = parsed
            self._cache.store(f"parsed {parsed.url}", parsed.key, parsed)
            self._progress.step()
        pages = []
        for page in prose:
            url = prose_url(page.source.name)
            known = targets(page, url) if is_cpp(page.source.name) else {}
            pages.append(Parsed(page, url, True, known, (), self._source_key(page.source)))
        return [parsed for parsed in found if parsed is not None] + pages

    def draft(
        self, parsed: Sequence[Parsed], maths: MathRenderer, around: Mapping[str, Target]
    ) -> list[Draft]:
        """Drafts in the order of what was parsed; formulas go to Node as they turn up.

        `around` is what they may ask for beside the definitions of the modules.
        """
        known = {dotted: t for one in parsed for dotted, t in one.targets.items()}
        # Links name Markdown pages by their file, or as if they lay where the page will lie.
        for one in parsed:
            if one.prose:
                target, name = prose_target(one.module.source, one.url), one.module.source.name
                if name in known:  # a file of C++, with what it includes
                    target = replace(target, attributes=known[name].attributes)
                known |= {one.module.source.display: target, one.module.source.name + ".md": target}
        known |= around
        drafter = Drafter(known)
        found: list[Draft | None] = []
        for one in parsed:
            draft: Draft | None = self._cache.load(f"draft {one.url}", one.key)
            found.append(draft if draft and drafter.answers.hold(draft.answers) else None)
        missing = [index for index, draft in enumerate(found) if draft is None]
        # The longest first, so that no process is left alone with one at the end.
        missing.sort(key=lambda index: -len(parsed[index].module.source.text))
        self._progress.stage("Annotating", len(missing))
        orders = [_order(parsed[index]) for index in missing]
        make = partial(Drafter, known) if len(missing) > 1 else lambda: drafter
        for number, draft in run(make, orders, self._jobs):
            found[missing[number]] = draft
            self._cache.store(f"draft {draft.url}", orders[number].key, draft)
            maths.submit(draft.formulas())
            self._awaited.append(draft.url)
            self._progress.step()
        self.tally.drafted = len(missing)
        return [draft for draft in found if draft is not None]

    def finish(
        self,
        drafts: Sequence[Draft],
        parsed: Sequence[Parsed],
        places: Sequence[Place],
        theme: Theme,
        maths: MathRenderer,
        shapes: Mapping[str, ModuleShapes],
        figures: Mapping[str, Drawn],
        works: Mapping[str, Work],
    ) -> list[Page]:
        """Pages in the order of the drafts, formulas filled in and templates applied.

        They are made in the order in which Node sets their formulas, their previews with them, so
        that neither waits for the other longer than it must.
        """
        shown = [stamp(draft.figures(), figures) for draft in drafts]
        told = [shapes.get(draft.name, ModuleShapes()) for draft in drafts]
        keys = [
            digest(self._generator, draft.stamp, repr(place), theme.key(draft), one.stamp, hung)
            for draft, place, one, hung in zip(drafts, places, told, shown, strict=True)
        ]
        found: list[Page | None] = [
            self._cache.load(f"page {draft.url}", key)
            for draft, key in zip(drafts, keys, strict=True)
        ]
        missing = [index for index, page in enumerate(found) if page is None]
        for index in missing:
            maths.submit(drafts[index].formulas())
        self._progress.stage("Rendering", len(missing))
        turn = {url: number for number, url in enumerate(self._awaited)}
        missing.sort(key=lambda index: turn.get(drafts[index].url, -1))
        for index in missing:
            module = parsed[index].module
            work = _Finish(drafts[index], module, places[index], told[index], keys[index])
            page = work.page(theme, maths, figures)
            found[index] = page
            self._cache.store(f"page {page.url}", page.key, page)
            self.previews([parsed[index]], maths.result, works)
            self._progress.step()
        self.tally.rendered = len(missing)
        return [page for page in found if page is not None]

    def previews(
        self, parsed: Sequence[Parsed], typeset: Typeset, works: Mapping[str, Work]
    ) -> dict[str, bytes]:
        """What links to each module show before they are followed."""
        names = {work.key: Cited(work.short, work.year, "") for work in works.values()}
        stamp = digest(repr(sorted(names.items())))
        files: dict[str, bytes] = {}
        for one in parsed:
            cites = "@" in one.module.source.text and one.module.source.own
            key = digest(one.key, stamp) if cites else one.key
            make = partial(
                preview_files,
                one.targets.values(),
                typeset=typeset,
                own=one.module.source.own,
                cite=lambda key: names.get(key) or unknown(key),
            )
            files |= self._cache.get(f"previews {one.url}", key, make)
        return files

    def cards(
        self,
        drafts: Sequence[Draft],
        places: Sequence[Place],
        site: SiteView,
        cards: Cards,
        figures: Mapping[str, Drawn],
    ) -> dict[str, bytes]:
        """The pictures of own pages for those who link to them."""
        files = {}
        for draft, where in zip(drafts, places, strict=True):
            if not (url := card_of(draft)):
                continue
            shown = (figures[use.name].picture for use in draft.figures() if use.name in figures)
            above = where.around.path_title
            svg = cards.svg(draft.title, draft.summary, above, site.title, next(shown, ""))
            key = digest(self._generator, svg)
            files[file_path(url)] = self._cache.get(
                f"card {draft.url}", key, partial(cards.png, svg)
            )
        return files

    def _source_key(self, source: SourceFile) -> str:
        kind = f"{source.is_package} {source.own}"
        return digest(self._generator, source.digest, source.name, source.display, kind)


class _Parser:
    """Parses one source; a class, so that it can be made in another process."""

    def __call__(self, work: tuple[SourceFile, str]) -> Parsed:
        source, key = work
        report = Report()
        module = parse_module(source, report)
        url = module_url(source)
        return Parsed(module, url, False, targets(module, url), tuple(report), key)


def _order(parsed: Parsed) -> Order:
    """What to draft. A page without notes says why, in the words of the parser's complaint."""
    warning = ""
    if not (parsed.module.parsed or parsed.prose):
        why = next((d for d in parsed.diagnostics if d.code == "syntax"), None)
        place = f"line {why.line}: " if why and why.line else ""
        reason = f" ({place}{why.message})" if why else ""
        warning = f"Python cannot parse this file{reason}, so its source is shown as it stands."
    return Order(parsed.module, parsed.url, parsed.prose, parsed.key, warning)


@dataclass(frozen=True, slots=True)
class _Finish:
    """A page to finish."""

    draft: Draft
    module: Module
    place: Place
    shapes: ModuleShapes
    key: str

    def page(self, theme: Theme, maths: MathRenderer, figures: Mapping[str, Drawn]) -> Page:
        draft, report = self.draft, Report()
        tex_faults(draft, self.module.source.lines, maths.result, report)
        view = page_view(draft, self.module, self.place, maths.result, self.shapes)
        page = hang(theme.page(view), draft.figures(), figures)
        formulas = (formula for note in draft.notes() for formula in note.formulas)
        shown = [typeset_formula(formula, maths.result) for formula in formulas]
        rules = {rule for formula in shown for rule in formula.css}
        references = tuple(reference for note in draft.notes() for reference in note.references)
        styles = Rendered("", tuple(sorted(rules)))
        return Page(draft.url, page, facts(page), references, styles, tuple(report), self.key)
