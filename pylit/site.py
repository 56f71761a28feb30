"""How pages stand to each other: groups, reading paths, and what comes before and after."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pylit.addresses import ALL, HOME, Addresses, module_url, prose_url
from pylit.cache import digest
from pylit.config import Group, PageName, SiteConfig, load_config
from pylit.cpp import read_cpp
from pylit.diagnostics import Diagnostic, Report, Severity, nearest
from pylit.discover import discover
from pylit.exercises import exercises_page
from pylit.glossary import Term, read_glossary, term_targets
from pylit.model import (
    Draft,
    FigureUse,
    Leaf,
    Module,
    PageGroup,
    PageLink,
    SiteView,
    SourceFile,
)
from pylit.notebooks.pages import FOLDER, read_notebooks
from pylit.outcome import Options
from pylit.pages import Place, front_matter_faults, place, relations
from pylit.parse import read_page, read_pages
from pylit.references import Work, bibliography_page, read_bibliography, work_targets
from pylit.search import ALIASES, SearchPage, counted, read_aliases
from pylit.stages import Pairs, Stages


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


def neighbours(groups: Iterable[PageGroup]) -> dict[str, dict[str, Any]]:
    """Each page's neighbours in the first of the groups that holds it, as fields of a `Place`.

    Of a neighbour only the title is shown; without the summary, an edit to that stays where it is.
    """
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        around = (None, *(replace(page, summary="", notebook="") for page in group.pages), None)
        for previous, page, following in zip(around, around[1:], around[2:], strict=False):
            assert page is not None
            beside = {"previous": previous, "next": following, "path_title": group.title}
            found.setdefault(page.url, beside)
    return found


def read_config(options: Options, report: Report) -> SiteConfig | None:
    """The settings of the site; those of somebody else's package are made up."""
    if options.lacking:
        message = f"formulas are shown as TeX, without fonts: {options.lacking}"
        hint = "with Node.js 20 or newer and a network once, `python -m pylit.node` sets it up"
        report.add(Diagnostic("node", 0, 0, "node", message, hint, severity=Severity.WARNING))
    if not options.sources:
        return load_config(options.docs / "site.toml", "docs_src/site.toml", report)
    names = ", ".join(path.resolve().name for path in options.sources)
    summary = f"The source of {names}: notes beside the code that they speak about."
    return SiteConfig(options.title or names, summary, options.base_url, "", "", "en", ())


class Site:
    """A site that is being made: first what is read beside its modules, then all of its pages.

    Somebody else's package has neither works nor terms, nor pages of Markdown.
    """

    def __init__(
        self, options: Options, config: SiteConfig, stages: Stages, report: Report
    ) -> None:
        self.options, self.config, self._report = options, config, report
        docs = options.docs
        path = docs / "references.bib"

        def read() -> tuple[dict[str, Work], tuple[Diagnostic, ...]]:
            faults = Report()
            return read_bibliography(path, "docs_src/references.bib", faults), tuple(faults)

        key = digest(stages.generator, path.read_bytes() if path.is_file() else b"")
        self.works, found = stages.cache.get("works", key, read)
        report.update(found)
        notebooks, self.notebooks = read_notebooks(docs.parent / FOLDER, config.base_url, report)
        self._prose = read_pages(docs / "pages", "docs_src/pages", report) + notebooks
        self.terms: tuple[Term, ...] = ()
        words = docs / "glossary.md"
        page = read_page(words, docs, "docs_src", report) if words.is_file() else None
        if page:
            glossary, self.terms = read_glossary(page, report)
            self._prose.append(glossary)
        #: What drafts may ask for besides the definitions of modules, by the name they ask for.
        self.around = work_targets(self.works) | term_targets(self.terms)

    def sources(self) -> tuple[Iterator[SourceFile], Iterator[Module]]:
        """Sources and pages of Markdown, each with an address of its own."""
        options, report, own = self.options, self._report, not self.options.sources
        roots = options.sources or tuple(options.root / name for name in self.config.sources)
        found: Iterable[SourceFile] = (
            source for root in roots for source in discover(root, own=own, report=report)
        )
        if own:
            found = list(found)
            self._prose += read_cpp(found, report)
        taken, known = Addresses(report), set[tuple[Path, str]]()

        def claimed(source: SourceFile) -> bool:
            # A folder and a package in it may both be named.
            if (source.path, source.name) in known:
                return False
            known.add((source.path, source.name))
            return taken.claim(module_url(source), source)

        pages = (p for p in self._prose if taken.claim(prose_url(p.source.name), p.source))
        return filter(claimed, found), pages

    def gather(self, pairs: Pairs) -> None:
        """Take the pages, make those that are put together of them, and see how they stand."""
        options, config, report = self.options, self.config, self._report
        self.pairs, drafts = [*pairs], [draft for _, draft in pairs]
        taken = {draft.url for draft in drafts}
        for page in (exercises_page(config, drafts), bibliography_page(self.works, drafts)):
            if page is not None and page[1].url not in taken:
                self.pairs.append(page)
        self.drafts = drafts = [draft for _, draft in self.pairs]
        for leaf, draft in self.pairs:
            report.update((*leaf.diagnostics, *draft.diagnostics))
            if draft.own:
                front_matter_faults(draft, leaf.source.lines, options.root, report)
        self.named = {draft.name: draft for draft in drafts}
        self._names = {draft.url: draft.name for draft in drafts}
        self.targets = {name: t for leaf, _ in self.pairs for name, t in leaf.targets.items()}
        self.view = view = self._view()
        self._urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        notebooks = (draft for draft in drafts if draft.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        self._beside = neighbours((*view.paths, *view.catalogue, *view.hood))
        self._related = relations(drafts, self.targets)
        self._aliases = read_aliases(options.docs / ALIASES, self.named, report)
        listed = (config.groups, config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}

    def _view(self) -> SiteView:
        """The site as templates see it, its catalogue and reading paths with it."""
        config, own = self.config, not self.options.sources
        paths = named_groups(config, config.paths, self.named, self._report)
        groups = named_groups(config, config.groups, self.named, self._report)
        groups = groups if own else package_groups(self.drafts)
        rest = rest_of((*paths, *groups), self.drafts) if own else ()
        return SiteView(
            title=config.title,
            summary=config.summary,
            base_url=config.base_url,
            repository_url=f"https://github.com/{config.repository}" if config.repository else "",
            language=config.language,
            catalogue=groups if paths else groups + rest,
            paths=paths,
            hood=rest if paths else (),
            index=ALL if paths else HOME,
            bare=bool(self.options.lacking),
        )

    def place(self, leaf: Leaf, draft: Draft) -> Place:
        """Where a page stands: the packages around it, and its neighbours in a path or group."""
        where = place(draft, leaf.source.path, self.options.root, self.config, self._urls)
        beside, related = self._beside.get(draft.url, {}), self._related.get(draft.url, {})
        return replace(where, **beside, related=related)

    def found(self, search: SearchPage) -> tuple[SearchPage, int]:
        """How search finds a page: by which other names, and how it ranks among others."""
        name = self._names[search.url]
        if name in self._aliases:
            search = counted(replace(search, names=(*search.names, *self._aliases[name])))
        return search, self._ranks.get(name, 0)

    def asked(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every place that asks for a figure: the file, the line of it, and what for."""
        for leaf, draft in self.pairs:
            for use in draft.figures():
                yield draft.display, leaf.source.lines[use.line - 1], use
