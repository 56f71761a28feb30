"""The page of all exercises, in the order of the reading paths, each once.

Questions and hints stand on it. An answer is a program more often than not, and all of them
together would be several times what a page may weigh, so they stay where they are.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from pylit.addresses import Slugs, relative
from pylit.config import SiteConfig
from pylit.drafts import TEMPLATE_IDS
from pylit.model import HEADING, Draft, Formula, Gathered, Heading, NoteHtml, formula_slot, gathered

EXERCISES = "exercises.html"
SUMMARY = (
    "All exercises of these pages, in reading order. An answer stands on the page of its question, "
    "and “above” and “this page” mean that page."
)
#: The heading of the exercises of pages on no path.
_REST = "Other pages"

#: An exercise, and the formulas that its slots are numbers of.
_Asked = tuple["Exercise", tuple[Formula, ...]]

_QUESTION = re.compile(r'<p id="(exercise-\d+)">')
_DETAILS = re.compile(r"<details>\s*<summary>(Hint|Answer)</summary>.*?</details>", re.DOTALL)
_SLOT = re.compile("\ue000(\\d+)\ue001")
_HREF = re.compile(r'(<a\b[^>]*? href=")([^"]*)"')
_TERM = re.compile(r'<a class="x g"[^>]*>(.*?)</a>')
_ID = re.compile(r' id="[^"]*"')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise, as HTML of its page, with the slots of its note's formulas."""

    anchor: str
    question: str
    #: With the element that folds it away; empty if there is none.
    hint: str
    answered: bool


def exercises(note: NoteHtml) -> list[Exercise]:
    """The exercises of a note."""
    found = []
    begins = [(match.start(), match[1]) for match in _QUESTION.finditer(note.html)]
    for (start, anchor), (end, _) in pairwise([*begins, (len(note.html), "")]):
        html = note.html[start:end]
        folded = {match[1]: match for match in _DETAILS.finditer(html)}
        # What comes after the last answer is no part of the question.
        question = html[: min((match.start() for match in folded.values()), default=None)].strip()
        hint = folded["Hint"][0] if "Hint" in folded else ""
        found.append(Exercise(anchor, question, hint, "Answer" in folded))
    return found


def exercises_page(config: SiteConfig, drafts: Sequence[Draft]) -> Gathered | None:
    """The page; None if there are no exercises."""
    own = (draft for draft in drafts if draft.own)
    found = {draft.name: asked for draft in own if (asked := _asked(draft))}
    if not found:
        return None
    named = {draft.name: draft for draft in drafts}
    slugs = Slugs(TEMPLATE_IDS)
    notes = []
    for title, names in _order(config, found):
        heading, html = _heading(2, title, slugs)
        notes.append(NoteHtml(html, headings=(heading,), text=HEADING))
        notes += [_page(named[name], found[name], slugs) for name in names]
    return gathered(EXERCISES, "Exercises", SUMMARY, notes)


def _asked(draft: Draft) -> list[_Asked]:
    notes = [note for section in draft.sections for note in section.notes]
    return [(exercise, note.formulas) for note in notes for exercise in exercises(note)]


def _order(
    config: SiteConfig, found: Mapping[str, list[_Asked]]
) -> Iterator[tuple[str, list[str]]]:
    """The titles of the paths, each with the pages that are first met on it."""
    met: set[str] = set()
    for path in config.paths:
        names = [page.name for page in path.pages if page.name in found]
        new = [name for name in names if name not in met]
        if new:
            yield path.title, new
        met.update(new)
    grouped = [page.name for group in config.groups for page in group.pages]
    rest = [name for name in dict.fromkeys([*grouped, *sorted(found)]) if name in found]
    rest = [name for name in rest if name not in met]
    if rest:
        yield _REST, rest


def _heading(level: int, title: str, slugs: Slugs, url: str = "") -> tuple[Heading, str]:
    """A heading, which may be a link, with its HTML."""
    slug, _ = slugs.slug(title)
    shown = escape(title, quote=False)
    link = f'<a href="{escape(relative(EXERCISES, url))}">{shown}</a>' if url else shown
    html = f'<h{level} id="{slug}">{link}</h{level}>\n'
    return Heading(level, slug, title, shown, 0), html


def _page(draft: Draft, asked: Sequence[_Asked], slugs: Slugs) -> NoteHtml:
    """The exercises of a page, under a link to it."""
    heading, html = _heading(3, draft.title, slugs, draft.url)
    formulas: list[Formula] = []
    for exercise, own in asked:
        html += _numbered(_question(draft, exercise), own, formulas)
    return NoteHtml(html, tuple(formulas), (heading,), text=HEADING)


def _question(draft: Draft, exercise: Exercise) -> str:
    number = exercise.anchor.rpartition("-")[2]
    address = escape(relative(EXERCISES, f"{draft.url}#{exercise.anchor}"))
    word = "Answer" if exercise.answered else "Page"
    label = escape(f"{word} to exercise {number} of {draft.title}")
    link = f'<p class="to"><a href="{address}" aria-label="{label}">{word}</a></p>'
    body = _ID.sub("", f"{exercise.question}\n{exercise.hint}")
    # What is the first use of a term on its page is one of many here.
    body = _TERM.sub(r"\1", body)
    moved = _HREF.sub(lambda match: f'{match[1]}{_moved(match[2], draft.url)}"', body)
    return f'<div class="asked">{moved}{link}</div>\n'


def _moved(href: str, url: str) -> str:
    """An address on the page at `url`, for the page of exercises."""
    if _SCHEME.match(href):
        return href
    path, mark, anchor = href.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(url), path)) if path else url
    return relative(EXERCISES, target + mark + anchor)


def _numbered(html: str, formulas: Sequence[Formula], taken: list[Formula]) -> str:
    """The HTML with its slots numbered on from those `taken`, which grow by its formulas."""

    def slot(match: re.Match[str]) -> str:
        # The symbols of a formula light up code beside it, and here there is none.
        taken.append(replace(formulas[int(match[1])], marked=""))
        return formula_slot(len(taken) - 1)

    return _SLOT.sub(slot, html)
