"""The page of all exercises, in the order of the reading paths, each once.

It holds questions and hints. Answers, most of which are programs, would make it several times as
large as a page may be; they stay on the pages of their questions.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from pylit.addresses import Anchors, relative
from pylit.config import SiteConfig
from pylit.languages.language import Language
from pylit.model import (
    HEADING,
    Draft,
    GeneratedPage,
    Heading,
    NoteHtml,
    Translation,
    generated_page,
)
from pylit.pages.draft import TEMPLATE_IDS, elsewhere
from pylit.words import Words

EXERCISES = "exercises.html"
SUMMARY = (
    "All exercises of these pages, in reading order. An answer stands on the page of its question, "
    "and “above” and “this page” mean that page."
)


def exercises_page(
    config: SiteConfig, drafts: Sequence[Draft], language: Language
) -> GeneratedPage | None:
    """The page in a language; None if there are no exercises."""
    page, words = language.prefix + EXERCISES, language.words
    exercises = {d.name: (d, found) for d in drafts if (found := _exercises_of(d, page, words))}
    if not exercises:
        return None
    grouped = [page.name for group in config.groups for page in group.pages]
    listed = [(words(path.title), [page.name for page in path.pages]) for path in config.paths]
    anchors = Anchors(TEMPLATE_IDS)
    notes = []
    rest = (words("Other pages"), [*grouped, *sorted(exercises)])
    for title, names in [*listed, rest]:
        pages = [exercises.pop(name) for name in dict.fromkeys(names) if name in exercises]
        if pages:
            notes.append(_heading(2, title, anchors))
        for draft, found in pages:
            notes += [_heading(3, draft.title, anchors, relative(page, draft.url)), *found]
    made = generated_page(page, words("Exercises"), words(SUMMARY), notes)
    parsed, draft = made
    translation = Translation(language.code, EXERCISES) if language.code else None
    return parsed, replace(draft, name=EXERCISES.removesuffix(".html"), translation=translation)


def _exercises_of(draft: Draft, page: str, words: Words) -> list[NoteHtml]:
    """The exercises of a page as notes of the page of exercises."""
    notes = (note for section in draft.sections for note in section.notes if draft.own)
    return [_question(draft, note, page, words, *a) for note in notes for a in note.exercises]


def _question(
    draft: Draft,
    note: NoteHtml,
    page: str,
    words: Words,
    number: str,
    asked: str,
    answered: bool,
) -> NoteHtml:
    word = words("Answer") if answered else words("Page")
    label = escape(words("{0} to exercise {1} of {2}", word, number, draft.title))
    address = escape(relative(page, f"{draft.url}#exercise-{number}"))
    html = (
        f'<div class="asked">{elsewhere(asked, draft.url, page)}'
        f'<p class="to"><a href="{address}" aria-label="{label}">{word}</a></p></div>\n'
    )
    # This page has no code whose variables could be highlighted.
    return NoteHtml(html, tuple(replace(formula, marked="") for formula in note.formulas))


def _heading(level: int, title: str, anchors: Anchors, url: str = "") -> NoteHtml:
    slug, _ = anchors.slug(title)
    shown = escape(title, quote=False)
    link = f'<a href="{escape(url)}">{shown}</a>' if url else shown
    html = f'<h{level} id="{slug}">{link}</h{level}>\n'
    return NoteHtml(html, headings=(Heading(level, slug, title, shown, 0),), text=HEADING)
