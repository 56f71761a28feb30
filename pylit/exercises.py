"""The page of all exercises, in the order of the reading paths, each once.

It holds questions and hints. Answers, most of which are programs, would make it several times as
large as a page may be; they stay on the pages of their questions.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from pylit.addresses import Anchors, relative
from pylit.config import SiteConfig
from pylit.drafts import TEMPLATE_IDS, elsewhere
from pylit.model import HEADING, Draft, GeneratedPage, Heading, NoteHtml, generated_page

EXERCISES = "exercises.html"
SUMMARY = (
    "All exercises of these pages, in reading order. An answer stands on the page of its question, "
    "and “above” and “this page” mean that page."
)


def exercises_page(config: SiteConfig, drafts: Sequence[Draft]) -> GeneratedPage | None:
    """The page; None if there are no exercises."""
    exercises = {d.name: (d, found) for d in drafts if (found := _exercises_of(d))}
    if not exercises:
        return None
    grouped = [page.name for group in config.groups for page in group.pages]
    listed = [(path.title, [page.name for page in path.pages]) for path in config.paths]
    anchors = Anchors(TEMPLATE_IDS)
    notes = []
    for title, names in [*listed, ("Other pages", [*grouped, *sorted(exercises)])]:
        pages = [exercises.pop(name) for name in dict.fromkeys(names) if name in exercises]
        if pages:
            notes.append(_heading(2, title, anchors))
        for draft, found in pages:
            notes += [_heading(3, draft.title, anchors, draft.url), *found]
    return generated_page(EXERCISES, "Exercises", SUMMARY, notes)


def _exercises_of(draft: Draft) -> list[NoteHtml]:
    """The exercises of a page as notes of the page of exercises."""
    notes = (note for section in draft.sections for note in section.notes if draft.own)
    return [_question(draft, note, *asked) for note in notes for asked in note.exercises]


def _question(draft: Draft, note: NoteHtml, number: str, asked: str, answered: bool) -> NoteHtml:
    word = "Answer" if answered else "Page"
    label = escape(f"{word} to exercise {number} of {draft.title}")
    address = escape(relative(EXERCISES, f"{draft.url}#exercise-{number}"))
    html = (
        f'<div class="asked">{elsewhere(asked, draft.url, EXERCISES)}'
        f'<p class="to"><a href="{address}" aria-label="{label}">{word}</a></p></div>\n'
    )
    # This page has no code whose variables could be highlighted.
    return NoteHtml(html, tuple(replace(formula, marked="") for formula in note.formulas))


def _heading(level: int, title: str, anchors: Anchors, url: str = "") -> NoteHtml:
    slug, _ = anchors.slug(title)
    shown = escape(title, quote=False)
    link = f'<a href="{escape(relative(EXERCISES, url))}">{shown}</a>' if url else shown
    html = f'<h{level} id="{slug}">{link}</h{level}>\n'
    return NoteHtml(html, headings=(Heading(level, slug, title, shown, 0),), text=HEADING)
