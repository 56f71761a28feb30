"""The page of all works that are cited, each with the places that cite it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from pylit.model import Heading, NoteHtml
from pylit.page.render import relative
from pylit.prose.notehtml import HEADING
from pylit.prose.works import BIBLIOGRAPHY, OTHERS, Work
from pylit.site.drafts import Draft
from pylit.site.gathered import Gathered, gathered

#: Address and title of a page -> anchor and title of a section of it, without values.
Places = dict[tuple[str, str], dict[tuple[str, str], None]]

_LINK = re.compile(r"<a ")
#: A heading deeper than those of the outline: search finds it.
_UNSEEN = 6

SUMMARY = "The works that these pages cite, and the places where they do."


def bibliography_page(works: Mapping[str, Work], drafts: Sequence[Draft]) -> Gathered | None:
    """The page; None if nothing is cited. What nobody cites is left out."""
    cited: dict[str, Places] = {}
    for draft in drafts:
        for key, section in _citations(draft):
            pages = cited.setdefault(key, {})
            pages.setdefault((draft.url, draft.title), {}).setdefault(section)
    shown = sorted((w for key, w in works.items() if key in cited), key=lambda w: w.sorting)
    if not shown:
        return None
    entries = [_entry(work, cited[work.key]) for work in shown]
    notes = [NoteHtml('<ul class="works">\n'), *entries, NoteHtml("</ul>\n")]
    return gathered(BIBLIOGRAPHY, "Bibliography", SUMMARY, notes)


def work_previews(works: Mapping[str, Work]) -> dict[str, list[str]]:
    """What a link to a work shows before it is followed, by key."""
    previews = {}
    for key, work in works.items():
        # A preview goes when the focus moves on: its links are for pointers.
        said = _LINK.sub('<a tabindex="-1" ', _details(work, work.year))
        previews[key] = ["", f"<cite>{escape(work.title)}</cite><p>{said}</p>"]
    return previews


def _entry(work: Work, places: Places) -> NoteHtml:
    def link(url: str, text: str) -> str:
        return f'<a href="{escape(relative(BIBLIOGRAPHY, url))}">{escape(text, quote=False)}</a>'

    pages = []
    for (url, title), sections in places.items():
        named = ", ".join(link(f"{url}#{anchor}", text) for anchor, text in sections if anchor)
        pages.append(link(url, title) + (f" ({named})" if named else ""))
    html = (
        f'<li id="{escape(work.key)}"><p><b>{escape(work.name)}</b> '
        f"<cite>{escape(work.title)}</cite><br>{_details(work)}</p>"
        f'<p class="by-whom">Cited by {", ".join(pages)}</p></li>\n'
    )
    heading = Heading(_UNSEEN, work.key, f"{work.name}: {work.title}", "", 0)
    return NoteHtml(html, headings=(heading,), text=HEADING + ", ".join(work.authors))


def _details(work: Work, year: str = "") -> str:
    """Who, where and when, and where it can be read."""
    *first, last = work.authors or ("",)
    joint = " and others" if last == OTHERS else f" and {last}"
    authors = ", ".join(first) + joint if first else last
    parts = [escape(part) for part in (authors, work.venue, year) if part]
    links = " ".join(f'<a href="{escape(url)}">{escape(text)}</a>' for text, url in work.links)
    return f"{', '.join(parts)}. {links}"


def _citations(draft: Draft) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each citation of a page, with the heading or definition that it stands under."""
    for note in (draft.title_note, draft.summary_note):
        yield from ((citation.key, ("", "")) for citation in note.citations)
    current = ("", "")
    for section in draft.sections:
        if section.definition:
            current = (section.definition, section.definition)
        for note in section.notes:
            events = [(h.line, (h.slug, h.text)) for h in note.headings]
            for citation in note.citations:
                above = [place for line, place in events if line <= citation.line]
                yield citation.key, above[-1] if above else current
            current = events[-1][1] if events else current
