"""Pages parsed, then drafted, by several processes.

Each stores its result in the cache under a digest of everything it depends on, with its faults, so
that a build which reuses the result reports them again. The cache is also where a page waits for
its next stage: of a foreign page a build holds a few kilobytes in memory, its notes and lines are
in one process at a time. The site's own pages are few and stay whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pylit.addresses import module_url, prose_url
from pylit.cache import Cache, digest
from pylit.cpp import is_cpp
from pylit.diagnostics import Report
from pylit.drafts import Drafter, bare, drafter_for, prose_target
from pylit.glossary import GLOSSARY, read_glossary, term_targets
from pylit.languages import Language
from pylit.model import Draft, DraftSection, GeneratedPage, Module, ParsedPage, SourceFile, Target
from pylit.names import targets
from pylit.outcome import progress
from pylit.parse import parse_module
from pylit.pool import run
from pylit.references import work_targets
from pylit.site import Site
from pylit.tex import MathRenderer
from pylit.translations import TranslatedTerms, translated
from pylit.words import Words

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
    return parsed_pages


def draft_pages(
    site: Site, pages: Sequence[ParsedPage], others: Mapping[str, Target], maths: MathRenderer
) -> list[GeneratedPage]:
    """The pages with their drafts, in order; formulas are submitted as they are found.

    `others` are names of other projects, with absolute addresses.
    """
    drafter = drafter_for(_index(site, pages, others) | term_targets(site.terms))
    return _draft_all(site, pages, drafter, maths)


def translate_pages(
    site: Site,
    language: Language,
    originals: Sequence[GeneratedPage],
    others: Mapping[str, Target],
    maths: MathRenderer,
) -> list[GeneratedPage]:
    """The pages that are translated to a language, with their drafts; links between them stay in
    the language.
    """
    files = {}
    for parsed, _ in originals:
        if parsed.source.own and (file := language.page(parsed.source, site.report)):
            files[parsed.url] = file
    terms, glossary = site.terms, site.glossary
    languages = site.config.language, language.code
    if glossary and (file := files.get(GLOSSARY)):
        # Without the check of terms, whose forms in this language it defines.
        draft = next(draft for parsed, draft in originals if parsed.url == GLOSSARY)
        written, *_ = translated(glossary, draft, file, languages, TranslatedTerms((), ()))
        _, terms = read_glossary(written, Report())
    known = TranslatedTerms(site.terms, terms)
    words = {word: language.words[word] for word in _WORDS if word in language.words}
    pages: list[ParsedPage] = []
    for parsed, draft in originals:
        if file := files.get(parsed.url):
            module = site.written(parsed)
            replays = repr(module.sections[len(parsed.module.sections) :])
            parts = (
                parsed.key,
                draft.stamp,
                replays,
                file.digest,
                known.stamp,
                repr((languages, words)),
            )
            key = digest(site.generator, *parts)
            make = partial(_translate, parsed, module, draft, file, languages, known, key)
            page = site.cache.get(f"translated {language.prefix}{parsed.url}", key, make)
            if site.claim(page.url, file):
                pages.append(page)
    moved = {parsed.translation.original: parsed.url for parsed in pages if parsed.translation}

    def here(target: Target) -> Target:
        url, mark, anchor = target.url.partition("#")
        return replace(target, url=f"{moved[url]}{mark}{anchor}") if url in moved else target

    index = _index(site, [parsed for parsed, _ in originals], others)
    index = {name: here(target) for name, target in index.items()}
    if GLOSSARY in moved:
        index |= term_targets(terms, moved[GLOSSARY])
    drafter = drafter_for(index, language.code, Words(words))
    return _draft_all(site, pages, drafter, maths)


#: Words by which a page is read.
_WORDS = ("Hint", "Answer", "Code", "Symbol")


def _translate(
    parsed: ParsedPage,
    module: Module,
    draft: Draft,
    file: SourceFile,
    languages: tuple[str, str],
    terms: TranslatedTerms,
    key: str,
) -> ParsedPage:
    """The page of a module with the notes of a file of translations."""
    page, translation, report = translated(module, draft, file, languages, terms)
    if parsed.url == GLOSSARY:
        page, _ = read_glossary(page, report)
    count = len(parsed.module.sections)
    pairs = zip(module.sections[count:], page.sections[count:], strict=True)
    notes = (zip(old.notes, new.notes, strict=True) for old, new in pairs)
    replay = {old.text: new.text for both in notes for old, new in both if new.path}
    url = f"{languages[1]}/{parsed.url}"
    return ParsedPage(
        replace(page, sections=page.sections[:count]),
        url,
        parsed.prose,
        key,
        {name: _moved(target, parsed.url, url) for name, target in parsed.targets.items()},
        tuple(report),
        translation=replace(translation, replay=replay),
    )


def _moved(target: Target, old: str, new: str) -> Target:
    return replace(target, url=new + target.url.removeprefix(old))


def _index(
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


def _draft_all(
    site: Site, pages: Sequence[ParsedPage], drafter: Drafter, maths: MathRenderer
) -> list[GeneratedPage]:
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
    module = parse_module(source, report)
    key = _key(generator, source)
    parsed = ParsedPage(module, url, False, key, targets(module, url), tuple(report))
    return _slim_page(parsed) if cache.store(f"parsed {url}", key, parsed) else parsed


def _draft(
    cache: Cache, drafter: Drafter, parsed: ParsedPage
) -> tuple[Draft, list[tuple[str, bool]]]:
    draft = drafter(whole(parsed, cache))
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
