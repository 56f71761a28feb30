"""The pages of a site in another language."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pylit.cache import CacheError, digest
from pylit.diagnostics import Report, page_failed
from pylit.languages.language import Language
from pylit.languages.translations import TranslatedTerms, translated
from pylit.model import Draft, GeneratedPage, Module, ParsedPage, SourceFile, Target
from pylit.notes.glossary import GLOSSARY, read_glossary, term_targets
from pylit.notes.tex import MathRenderer
from pylit.pages.draft import drafter_for
from pylit.site.inputs import Site
from pylit.site.stages import draft_all, read_index
from pylit.words import Words


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
            try:
                page = site.cache.get(f"translated {language.prefix}{parsed.url}", key, make)
            except CacheError:
                raise
            except Exception as error:
                site.report.add(page_failed(file.display, error))
                continue
            if site.claim(page.url, file):
                pages.append(page)
    moved = {parsed.translation.original: parsed.url for parsed in pages if parsed.translation}

    def here(target: Target) -> Target:
        url, mark, anchor = target.url.partition("#")
        return replace(target, url=f"{moved[url]}{mark}{anchor}") if url in moved else target

    index = read_index(site, [parsed for parsed, _ in originals], others)
    index = {name: here(target) for name, target in index.items()}
    if GLOSSARY in moved:
        index |= term_targets(terms, moved[GLOSSARY])
    drafter = drafter_for(index, language.code, Words(words))
    return draft_all(site, pages, drafter, maths)


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
