"""How pages stand to each other: groups, reading paths, and what comes before and after."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.page.view import PageGroup, PageLink
from pylit.site.config import Group, PageName, SiteConfig
from pylit.site.drafts import Draft


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The pages before and after one page, and what they are neighbours in."""

    previous: PageLink | None = None
    next: PageLink | None = None
    path_title: str = ""


def page_link(draft: Draft) -> PageLink:
    """A page as others show it."""
    notebook = draft.front_matter.get("notebook", "") if draft.own else ""
    page = notebook.removesuffix(".ipynb") + ".html" if notebook else ""
    return PageLink(draft.url, draft.title, draft.summary, page)


def named_groups(
    config: SiteConfig, groups: Sequence[Group], drafts: Mapping[str, Draft], report: Report
) -> tuple[PageGroup, ...]:
    """Groups or paths of `site.toml` with their pages found; a name without a page is a fault."""
    result = []
    for group in groups:
        found = [_find(name, config, drafts, report) for name in group.pages]
        links = tuple(page_link(draft) for draft in found if draft is not None)
        result.append(PageGroup(group.title, group.summary, links))
    return tuple(group for group in result if group.pages)


def find_page(
    name: PageName, config: SiteConfig, drafts: Mapping[str, Draft], report: Report
) -> str | None:
    """The address of a page that `site.toml` names, or None and a fault."""
    draft = _find(name, config, drafts, report)
    return draft.url if draft else None


def _find(
    name: PageName, config: SiteConfig, drafts: Mapping[str, Draft], report: Report
) -> Draft | None:
    draft = drafts.get(name.name)
    if draft is None:
        hint = nearest(name.name, drafts, "name a module or a page of docs_src/pages")
        message = f"there is no page `{name.name}`"
        report.add(Diagnostic(config.display, name.line, 0, "navigation", message, hint))
    return draft


def rest_of(groups: Iterable[PageGroup], drafts: Sequence[Draft]) -> tuple[PageGroup, ...]:
    """The pages that no group names, by folder, so that each can be found.

    The home page shows the groups; it is not one of them.
    """
    named = {page.url for group in groups for page in group.pages} | {"index.html"}
    titles = {draft.url: draft.title for draft in drafts}
    folders: dict[str, list[PageLink]] = {}
    for draft in sorted(drafts, key=lambda d: d.url):
        if draft.url not in named and (draft.sections or draft.front_matter):
            folders.setdefault(posixpath.dirname(draft.url), []).append(page_link(draft))
    return tuple(
        PageGroup(titles.get(f"{folder}/index.html") or folder or "Other pages", "", tuple(links))
        for folder, links in sorted(folders.items())
    )


def package_groups(drafts: Iterable[Draft]) -> tuple[PageGroup, ...]:
    """The modules of somebody else's packages, grouped by the packages right under the top ones.

    A package with an empty ``__init__.py`` is left out: there is nothing to read.
    """
    ordered = sorted(drafts, key=lambda draft: draft.name)
    packages = {d.name for d in ordered if d.url.endswith("/index.html")}
    depth = _common_depth([draft.name for draft in ordered])
    groups: dict[str, list[PageLink]] = {}
    for draft in ordered:
        parts = draft.name.split(".")
        home = parts if draft.name in packages else parts[:-1]
        key = ".".join(home[: depth + 1])
        links = groups.setdefault(key, [])
        if draft.sections or draft.front_matter:
            links.append(page_link(draft))
    filled = sorted((key, pages) for key, pages in groups.items() if pages)
    return tuple(PageGroup(key or "Modules", "", tuple(pages)) for key, pages in filled)


def _common_depth(names: Sequence[str]) -> int:
    """How many leading parts all names share, at least one of each left over."""
    split = [name.split(".") for name in names]
    depth = 0
    while split and all(len(p) > depth for p in split) and len({p[depth] for p in split}) == 1:
        depth += 1
    return depth


def neighbours(groups: Iterable[PageGroup]) -> dict[str, Neighbours]:
    """Each page's neighbours in the first of the groups that holds it.

    Of a neighbour only the title is shown; without the summary, an edit to that stays where it is.
    """
    found: dict[str, Neighbours] = {}
    for group in groups:
        around = (None, *(replace(page, summary="", notebook="") for page in group.pages), None)
        for previous, page, following in zip(around, around[1:], around[2:], strict=False):
            assert page is not None
            found.setdefault(page.url, Neighbours(previous, following, group.title))
    return found
