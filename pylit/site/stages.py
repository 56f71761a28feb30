"""Pages parsed, then drafted, by several processes.

Each stores its result in the cache under a digest of everything it depends on, with its faults, so
that a build which reuses the result reports them again. The cache is also where a page waits for
its next stage: of a foreign page a build holds a few kilobytes in memory, its notes and lines are
in one process at a time. The site's own pages are few and stay whole. See decision 033.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pylit.addresses import is_cpp, module_url, prose_url
from pylit.cache import Cache, digest
from pylit.diagnostics import Report, page_failed
from pylit.model import Draft, DraftSection, GeneratedPage, Module, ParsedPage, SourceFile, Target
from pylit.notes.citations import work_targets
from pylit.notes.glossary import term_targets
from pylit.notes.tex import MathRenderer
from pylit.pages.draft import Drafter, bare, drafter_for, failed_draft, prose_target
from pylit.site.annotated import annotated_pages
from pylit.site.inputs import Site
from pylit.site.outcome import progress
from pylit.site.pool import run
from pylit.source.names import targets
from pylit.source.parse import parse_module, unparsed

Item = TypeVar("Item")
Made = TypeVar("Made")
Value = TypeVar("Value")


def parse_pages(site: Site) -> list[ParsedPage]:
    """All modules and Markdown pages of a site, parsed."""

    def load(source: SourceFile) -> ParsedPage | None:
        key = _key(site.generator, source)
        parsed: ParsedPage | None = site.cache.load(f"parsed {module_url(source)}", key)
        return parsed and _slim_page(parsed)

    make = partial(_parse, site.cache, site.generator)
    parsed_pages = _stage(site, "Reading", site.sources(), load, make, lambda parsed: parsed)
    own = [parsed.source for parsed in parsed_pages if parsed.source.own]
    for page in site.prose(own):
        url = prose_url(page.source.name)
        named = targets(page, url) if is_cpp(page.source.display) else {}
        parsed_pages.append(ParsedPage(page, url, True, _key(site.generator, page.source), named))
    return [*parsed_pages, *annotated_pages(site)]


def draft_pages(
    site: Site, pages: Sequence[ParsedPage], others: Mapping[str, Target], maths: MathRenderer
) -> list[GeneratedPage]:
    """The pages with their drafts, in order; formulas are submitted as they are found.

    `others` are names of other projects, with absolute addresses.
    """
    drafter = drafter_for(read_index(site, pages, others) | term_targets(site.terms))
    return draft_all(site, pages, drafter, maths)


def read_index(
    site: Site, pages: Sequence[ParsedPage], others: Mapping[str, Target]
) -> dict[str, Target]:
    """What the notes and the code of a site may link to, but terms."""
    named = {dotted: t for parsed in pages for dotted, t in parsed.targets.items()}
    index = {**others, **named}
    # Links name Markdown pages by their source file, or by the address of the page.
    for parsed in pages:
        if parsed.prose and not parsed.targets:
            target = prose_target(parsed.source, parsed.url)
            index |= {parsed.source.display: target, f"{parsed.source.name}.md": target}
    return index | work_targets(site.works)


def draft_all(
    site: Site, pages: Sequence[ParsedPage], drafter: Drafter, maths: MathRenderer
) -> list[GeneratedPage]:
    """The pages with their drafts, in order, each by the drafter."""

    def load(parsed: ParsedPage) -> Draft | None:
        draft: Draft | None = site.cache.load(f"draft {parsed.url}", parsed.key)
        return _slim(draft) if draft and drafter.is_current(draft) else None

    def take(made: tuple[Draft, list[tuple[str, bool]]]) -> Draft:
        draft, formulas = made
        maths.submit(formulas)
        site.outcome.drafted += 1
        return draft

    make = partial(_draft, site.cache, drafter)
    drafts = _stage(site, "Annotating", pages, load, make, take)
    return list(zip(pages, drafts, strict=True))


def _stage(
    site: Site,
    title: str,
    items: Iterable[Item],
    load: Callable[[Item], Value | None],
    make: Callable[[Item], Made],
    take: Callable[[Made], Value],
) -> list[Value]:
    """The value of each item: loaded from the cache, or made in another process and taken here."""
    values: list[Value | None] = []

    def unknown() -> Iterator[Item]:
        for item in items:
            values.append(load(item))
            if values[-1] is None:
                yield item

    # A server has threads and cannot fork; one edit needs no other processes.
    jobs = 1 if site.options.serving else site.options.jobs
    made = iter([take(one) for one in progress(title, run(make, unknown(), jobs))])
    return [next(made) if value is None else value for value in values]


def _key(generator: str, source: SourceFile) -> str:
    kind = f"{source.is_package} {source.own} {source.docstrings}"
    return digest(generator, source.digest, source.name, source.display, kind)


def _parse(cache: Cache, generator: str, source: SourceFile) -> ParsedPage:
    report, url = Report(), module_url(source)
    try:
        module = parse_module(source, report)
        named = targets(module, url)
    except Exception as error:
        report.add(page_failed(source.display, error))
        module = unparsed(source)
        named = {source.name: Target(module.definitions[0], url)}
    key = _key(generator, source)
    parsed = ParsedPage(module, url, False, key, named, tuple(report))
    return _slim_page(parsed) if cache.store(f"parsed {url}", key, parsed) else parsed


def _draft(
    cache: Cache, drafter: Drafter, parsed: ParsedPage
) -> tuple[Draft, list[tuple[str, bool]]]:
    page = whole(parsed, cache)
    try:
        draft = drafter(page)
    except Exception as error:
        draft = failed_draft(page, error)
    stored = cache.store(f"draft {parsed.url}", parsed.key, draft)
    return _slim(draft) if stored else draft, draft.formulas()


def whole(parsed: ParsedPage, cache: Cache) -> ParsedPage:
    """A parsed with all of its module."""
    if not parsed.whole:
        parsed = cache.require(f"parsed {parsed.url}", parsed.key)
    return parsed


def _slim_page(parsed: ParsedPage) -> ParsedPage:
    if parsed.source.own:
        return parsed
    module = Module(replace(parsed.source, text=""), {}, (), ())
    targets = {dotted: bare(target) for dotted, target in parsed.targets.items()}
    return replace(parsed, module=module, targets=targets, whole=False)


def _slim(draft: Draft) -> Draft:
    if draft.own:
        return draft
    # Lists of pages leave out those without a section.
    return replace(draft, sections=(DraftSection("", (), ()),) * bool(draft.sections), answers={})
