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

_LINK = re.compile(r"<a ")
#: A heading deeper than those of the outline: search finds it.
_UNSEEN = 6

SUMMARY = "The works that these pages cite, and the places where they do."


def bibliography_page(works: Mapping[str, Work], drafts: Sequence[Draft]) -> Gathered | None:
    """The page; None if nothing is cited. What nobody cites is left out."""
    cited = _places(drafts)
    shown = sorted((w for key, w in works.items() if key in cited), key=lambda w: w.sorting)
    if not shown:
        return None
    notes = [NoteHtml('<ul class="works">\n')]
    notes += [_entry(work, cited[work.key]) for work in shown]
    notes.append(NoteHtml("</ul>\n"))
    return gathered(BIBLIOGRAPHY, "Bibliography", SUMMARY, notes)


def work_previews(works: Mapping[str, Work]) -> dict[str, list[str]]:
    """What a link to a work shows before it is followed, by key."""
    previews = {}
    for key, work in works.items():
        # A preview goes when the focus moves on: its links are for pointers.
        said = _LINK.sub('<a tabindex="-1" ', _details(work, work.year))
        previews[key] = ["", f"<cite>{escape(work.title)}</cite><p>{said}</p>"]
    return previews


def _entry(work: Work, places: Mapping[tuple[str, str], dict[tuple[str, str], None]]) -> NoteHtml:
    title = f"<b>{escape(work.name)}</b> <cite>{escape(work.title)}</cite>"
    told = f"<p>{title}<br>{_details(work)}</p>"
    pages = ", ".join(_page(*page, sections) for page, sections in places.items())
    html = f'<li id="{escape(work.key)}">{told}<p class="by-whom">Cited by {pages}</p></li>\n'
    text = f"{work.name}: {work.title}"
    heading = Heading(_UNSEEN, work.key, text, "", 0)
    return NoteHtml(html, headings=(heading,), text=HEADING + ", ".join(work.authors))


def _details(work: Work, year: str = "") -> str:
    """Who, where and when, and where it can be read."""
    *first, last = work.authors or ("",)
    if last == OTHERS:
        authors = ", ".join(first) + " and others"
    else:
        authors = f"{', '.join(first)} and {last}" if first else last
    parts = [escape(part) for part in (authors, work.venue, year) if part]
    links = " ".join(f'<a href="{escape(url)}">{escape(text)}</a>' for text, url in work.links)
    return f"{', '.join(parts)}. {links}"


def _page(url: str, title: str, sections: Mapping[tuple[str, str], None]) -> str:
    """A page that cites a work, and the sections of it that do."""

    def link(anchor: str, text: str) -> str:
        address = escape(relative(BIBLIOGRAPHY, url + (f"#{anchor}" if anchor else "")))
        return f'<a href="{address}">{escape(text, quote=False)}</a>'

    named = [link(anchor, text) for anchor, text in sections if anchor]
    return link("", title) + (f" ({', '.join(named)})" if named else "")


def _places(
    drafts: Sequence[Draft],
) -> dict[str, dict[tuple[str, str], dict[tuple[str, str], None]]]:
    """Key of a work -> address and title of a page -> anchor and title of a section."""
    found: dict[str, dict[tuple[str, str], dict[tuple[str, str], None]]] = {}
    for draft in drafts:
        for key, section in _citations(draft):
            pages = found.setdefault(key, {})
            pages.setdefault((draft.url, draft.title), {}).setdefault(section)
    return found


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
