"""The lists of a site's pages, and which page follows which."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pylit.addresses import HOME
from pylit.model import Draft, Neighbours, PageGroup, PageLink

#: The anchor of a heading "Try it", to which the home page links.
DEMO = "try-it"


def page_link(draft: Draft) -> PageLink:
    """A link to the page of a draft."""
    notebook = draft.front_matter.get("notebook", "") if draft.own else ""
    page = notebook.removesuffix(".ipynb") + ".html" if notebook else ""
    notes = (note for section in draft.sections for note in section.notes)
    slugs = {heading.slug for note in notes for heading in note.headings}
    return PageLink(draft.url, draft.title, draft.summary, page, DEMO if DEMO in slugs else "")


def other_groups(groups: Iterable[PageGroup], drafts: Sequence[Draft]) -> tuple[PageGroup, ...]:
    """The pages in none of the groups, by folder: a package itself first, its private modules last;
    without the home page and empty modules.
    """
    named = {page.url for group in groups for page in group.pages} | {HOME}
    titles = {draft.url: draft.title for draft in drafts}
    folders: dict[str, list[PageLink]] = {}

    def order(url: str) -> tuple[bool, bool, bool, str]:
        # The examples beside a package come after it.
        top, slash, _ = url.partition("/")
        beside = bool(top and slash) and f"{top}/index.html" not in titles
        return "/_" in f"/{url}", beside, not url.endswith("/index.html"), url

    for draft in sorted(drafts, key=lambda d: order(d.url)):
        if draft.url not in named and (draft.sections or draft.front_matter):
            folders.setdefault(posixpath.dirname(draft.url), []).append(page_link(draft))
    return tuple(
        PageGroup(titles.get(f"{folder}/index.html") or folder or "Other pages", "", tuple(links))
        for folder, links in sorted(folders.items(), key=lambda pair: order(f"{pair[0]}/"))
    )


def neighbours(groups: Iterable[PageGroup]) -> dict[str, Neighbours]:
    """The neighbours of each page in the first group that contains it.

    They have no summary: an edit to that then changes no other page.
    """
    found: dict[str, Neighbours] = {}
    for group in groups:
        bare = (replace(page, summary="", notebook="", demo="") for page in group.pages)
        around = (None, *bare, None)
        for number, page in enumerate(group.pages):
            beside = Neighbours(around[number], around[number + 2], group.title)
            found.setdefault(page.url, beside)
    return found
