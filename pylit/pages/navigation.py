"""Where a page stands in its site: lists of pages, which follows which, and the path to each."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pylit.addresses import HOME, MISSING, paper_url
from pylit.config import SiteConfig
from pylit.model import Draft, Neighbours, PageGroup, PageLink
from pylit.pages.relations import Related

#: The anchor of a heading "Try it", to which the home page links.
DEMO = "try-it"


def page_link(draft: Draft) -> PageLink:
    """A link to the page of a draft."""
    notebook = draft.front_matter.get("notebook", "") if draft.own else ""
    page = notebook.removesuffix(".ipynb") + ".html" if notebook else ""
    notes = (note for section in draft.sections for note in section.notes)
    slugs = {heading.slug for note in notes for heading in note.headings}
    demo, paper = DEMO if DEMO in slugs else "", paper_url(draft.front_matter.get("paper", ""))
    minutes = draft.first_reading or draft.minutes
    return PageLink(draft.url, draft.title, draft.summary, page, demo, paper, minutes)


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


def neighbours(
    paths: Iterable[PageGroup], groups: Iterable[PageGroup] = ()
) -> dict[str, Neighbours]:
    """The neighbours of each page in the first path or group that contains it; those of a path are
    numbered.

    They have no summary: an edit to that then changes no other page.
    """
    found: dict[str, Neighbours] = {}
    for numbered, lists in ((True, paths), (False, groups)):
        for group in lists:
            around = (None, *group.bare().pages, None)
            total = len(group.pages) if numbered else 0
            for at, page in enumerate(group.pages):
                place = (at + 1, total) if numbered else (0, 0)
                beside = Neighbours(around[at], around[at + 2], group.title, *place)
                found.setdefault(page.url, beside)
    return found


def in_words(
    crumbs: Sequence[tuple[str, str]], titles: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """A path to a page with the titles of the packages on it, where those have pages."""
    *packages, page = crumbs
    named = ((titles.get(url, name), url) for name, url in packages)
    return *named, page


def package_menu(url: str, groups: Iterable[PageGroup]) -> tuple[PageGroup, ...]:
    """The menu on a page of a site without lists of its own: the modules beside it, and the
    packages around them, by names; so a title that changes changes one page.
    """
    folders = {posixpath.dirname(group.pages[0].url): group for group in groups}
    own = posixpath.dirname(url)
    above = posixpath.dirname(own)

    def name(page: str) -> str:
        return page.removesuffix(".html").removesuffix("/index").removesuffix(".py")

    pages = folders[own].pages if own in folders else ()
    beside = [PageLink(page.url, name(page.url).rpartition("/")[2]) for page in pages]
    around = [
        PageLink(group.pages[0].url, folder.replace("/", "."))
        for folder, group in folders.items()
        if folder
        and folder != own
        and (posixpath.dirname(folder) in (own, above) or folder == above)
    ]
    found = (PageGroup(own.replace("/", "."), "", tuple(beside)), PageGroup("", "", tuple(around)))
    return tuple(group for group in found if group.pages)


@dataclass(frozen=True, slots=True)
class Place:
    """What a page shows of the rest of the site."""

    #: The path in the header: titles and addresses, which may be empty.
    crumbs: tuple[tuple[str, str], ...] = ()
    around: Neighbours = field(default_factory=Neighbours)
    #: Absolute address of its source in the repository.
    source_url: str = ""
    #: Its notebook: a page of the site, or else a file of the repository.
    notebook_url: str = ""
    colab_url: str = ""
    #: Relations of the definitions of the page, by their names.
    related: Mapping[str, Related] = field(default_factory=dict)
    #: Names of a private module -> the public package that has them, too.
    exports: Mapping[str, str] = field(default_factory=dict)
    #: Pages that compare it with others: address, title and no id.
    compared: Sequence[tuple[str, str, str]] = ()
    #: The page in each of its languages: the language, its name, and the address.
    languages: Sequence[tuple[str, str, str]] = ()
    #: Its menu, on a site without lists.
    menu: Sequence[PageGroup] = ()
    #: Absolute address of the file of its notes in the repository.
    notes_url: str = ""


def place(
    draft: Draft,
    files: Sequence[Path],
    root: Path,
    config: SiteConfig,
    urls: Mapping[str, str],
) -> Place:
    """The place of a page without its neighbours.

    Args:
        draft: The draft of the page.
        files: That of its code, if it is of this project, and that of its notes.
        root: The folder of the project.
        config: The settings.
        urls: The addresses of pages by their names.
    """
    # The name of a file of C++ is its path.
    parts = [] if draft.prose else draft.name.split("/" if "/" in draft.name else ".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    links = [*(urls.get(package, "") for package in packages), ""]
    crumbs = tuple(zip(parts, links, strict=False))
    if draft.prose and draft.original not in (HOME, MISSING):
        crumbs = ((draft.title, ""),)
    notebook = draft.front_matter.get("notebook", "")
    page = urls.get(notebook, "")
    theirs = draft.package.url if draft.package else ""
    if not (config.repository and draft.own and all(f.is_relative_to(root) for f in files)):
        return Place(crumbs, source_url=theirs, notebook_url=page)
    tree = f"{config.repository}/blob/{config.branch}/"
    github = f"https://github.com/{tree}"
    source, notes = (github + quote(file.relative_to(root).as_posix()) for file in files)
    return Place(
        crumbs,
        source_url=theirs if draft.package else source,
        notes_url=notes,
        notebook_url=page or (notebook and github + notebook),
        colab_url=notebook and f"https://colab.research.google.com/github/{tree}{notebook}",
    )
