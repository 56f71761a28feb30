"""The pages of a site in one language: where each stands, and how they relate."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import PurePath
from typing import Protocol
from urllib.parse import urljoin

from pylit.addresses import ALL, HOME, relative
from pylit.cache import Cache
from pylit.config import Group, PageName, SiteConfig
from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.languages.language import Language
from pylit.model import (
    Draft,
    FigureUse,
    GeneratedPage,
    Module,
    PageGroup,
    PageLink,
    ParsedPage,
    SiteView,
)
from pylit.notes.citations import Work, bibliography_page
from pylit.outputs.assets import accent_rule
from pylit.outputs.search import ALIASES, SearchPage, counted, read_aliases
from pylit.pages.comparisons import read_comparisons
from pylit.pages.exercises import exercises_page
from pylit.pages.navigation import Place, neighbours, other_groups, page_link, place
from pylit.pages.relations import Related, relations
from pylit.runs.figures import FigureHtml
from pylit.site.notebooks import FOLDER
from pylit.site.options import Options
from pylit.source.names import Index

#: Relative addresses in HTML.
_RELATIVE = re.compile(r'(?<= href=")(?![a-z]+:|[#/])[^"]+')
#: Address of a page -> the addresses and titles of pages that compare it with others.
_Compared = dict[str, list[tuple[str, str, str]]]


class Inputs(Protocol):
    """What an edition needs of its site."""

    options: Options
    config: SiteConfig
    report: Report
    cache: Cache
    generator: str
    works: Mapping[str, Work]
    readme: list[Module]


class Edition:
    """The pages of a site in one language.

    Args:
        site: The site.
        pages: Its pages in this language, with the drafts of them.
        language: The language.
        original: The edition in the site's own language; None for that itself.
    """

    def __init__(
        self,
        site: Inputs,
        pages: Sequence[GeneratedPage],
        language: Language,
        original: "Edition | None" = None,
    ) -> None:
        self.language, self._original = language, original
        self._options, self._config, self._report = site.options, site.config, site.report
        self.pairs = [*pages]
        self._compared: _Compared = original._compared if original else self._compare(site)
        self._compose(site)
        self.drafts = drafts = [draft for _, draft in self.pairs]
        #: The address of a page in the site's own language -> the one in this.
        self._moved = {draft.original: draft.url for draft in drafts}
        self._names = {draft.url: draft.name for draft in drafts}
        self._original_names = original._names if original else {}
        #: Names of translated pages -> their original titles, by which search finds them too.
        found = original._named if original else {}
        self._original_titles = {d.name: (found[d.name].title,) for d in drafts if d.name in found}
        self._named: dict[str, Draft] = {draft.name: draft for draft in drafts}
        self.targets = {name: t for parsed, _ in self.pairs for name, t in parsed.targets.items()}
        self._urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        notebooks = (draft for draft in drafts if draft.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        if original:
            # What is not translated is shown in the site's own language.
            self._named, self._urls = original._named | self._named, original._urls | self._urls
        config, report = site.config, site.report
        aliases = language.folder / ALIASES if original else site.options.docs / ALIASES
        own = read_aliases(aliases, self._named, report)
        known = original._aliases if original else {}
        self._aliases: dict[str, tuple[str, ...]] = {
            n: (*known.get(n, ()), *own.get(n, ())) for n in {**known, **own}
        }
        listed = (config.groups, config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}
        paths, groups = self._groups(config.paths), self._groups(config.groups)
        others = other_groups((*paths, *groups), drafts) if not original else ()
        self.view = self._view(paths, groups, others, readme=bool(site.readme))
        self._index: Index = original._index if original else Index(self.targets)
        self._neighbours = neighbours((*paths, *groups, *others))
        declared = config.relations
        self._related = {} if original else relations(drafts, self.targets, declared)

    def _compare(self, site: Inputs) -> _Compared:
        """Add the pages that compare two others."""
        found: _Compared = {}
        taken = {draft.url for _, draft in self.pairs}
        for comparison in read_comparisons([*self.pairs], site.report):
            page = comparison.page(site.cache, site.generator)
            self.pairs += [page] if page[1].url not in taken else []
            for url in {draft.url for draft in comparison.drafts}:
                found.setdefault(url, []).append((comparison.url, comparison.title, ""))
        return found

    def _compose(self, site: Inputs) -> None:
        """Add the pages that are put together of others."""
        drafts = [draft for _, draft in self.pairs]
        composed = [exercises_page(site.config, drafts, self.language)]
        if self._original is None:
            composed.append(bibliography_page(site.works, drafts))
        taken = {draft.url for draft in drafts}
        self.pairs += [page for page in composed if page is not None and page[1].url not in taken]

    def _view(
        self,
        paths: tuple[PageGroup, ...],
        groups: tuple[PageGroup, ...],
        others: tuple[PageGroup, ...],
        *,
        readme: bool,
    ) -> SiteView:
        config, words = self._config, self.language.words
        prefix = self.language.prefix
        index = ALL if paths else f"{HOME}#pages" if readme else HOME
        return SiteView(
            title=words(config.title),
            summary=words(config.summary),
            base_url=config.base_url,
            repository_url=f"https://github.com/{config.repository}" if config.repository else "",
            language=words.get("en", self.language.code) or config.language,
            catalogue=groups if paths else groups + others,
            paths=paths,
            other_pages=others if paths else (),
            index=prefix + index,
            without_assets=bool(self._options.missing_node),
            accent=accent_rule(config.accent),
            logo=config.logo and f"assets/logo{PurePath(config.logo).suffix}",
            prefix=prefix,
            version=config.version,
        )

    @property
    def name(self) -> str:
        """The language, as those who speak it write it."""
        own = "English" if self.view.language.startswith("en") else self.view.language
        return self.language.words.get("English", own)

    def address(self, original: str) -> str:
        """The page in this language for one of the site's own; empty if there is none."""
        if original in (HOME, ALL) and self._original:
            return self.language.prefix + original
        return self._moved.get(original, original if original in (HOME, ALL) else "")

    def _groups(self, groups: Iterable[Group]) -> tuple[PageGroup, ...]:
        """Groups or paths of `site.toml` with their pages."""
        found, words = [], self.language.words
        for group in groups:
            links = tuple(map(self._link, filter(None, map(self.find, group.pages))))
            found.append(PageGroup(words(group.title), words(group.summary), links))
        return tuple(group for group in found if group.pages)

    def _link(self, draft: Draft) -> PageLink:
        link = page_link(draft)
        return replace(link, notebook=self.address(link.notebook) or link.notebook)

    def find(self, name: PageName) -> Draft | None:
        """The page that `site.toml` names; an unknown name is a fault."""
        draft = self._named.get(name.name)
        if draft is None:
            hint = nearest(name.name, self._named, "name a module or a page of docs_src/pages")
            message = f"there is no page `{name.name}`"
            where = self._config.display, name.line, 0
            self._report.add(Diagnostic(*where, "navigation", message, hint))
        return draft

    def place(self, parsed: ParsedPage, draft: Draft) -> Place:
        """The packages around a page, its neighbours and its relations; without its languages."""
        files = (parsed.source.path, parsed.module.written.path)
        where = place(draft, files, self._options.root, self._config, self._urls)
        return replace(
            where,
            around=self._neighbours.get(draft.url, where.around),
            related=self._relations(draft),
            exports=self._exports(parsed),
            compared=self._compared.get(draft.original, ()),
        )

    def _relations(self, draft: Draft) -> Mapping[str, Related]:
        if self._original is None:
            return self._related.get(draft.url, {})

        def moved(address: str) -> str:
            page, mark, name = address.partition("#")
            return f"{self._moved.get(page, page)}{mark}{name}"

        found = self._original._related.get(draft.original, {})
        words = self.language.words
        return {
            definition: {
                words(kind): [(moved(url), name, dotted) for url, name, dotted in links]
                for kind, links in related.items()
            }
            for definition, related in found.items()
        }

    def _exports(self, parsed: ParsedPage) -> dict[str, str]:
        """The names of a private module, each with the outermost public package that has it too."""
        *packages, _ = accumulate(parsed.source.name.split("."), "{}.{}".format)
        found: dict[str, str] = {}
        if "._" not in parsed.source.name:
            return found
        for dotted, target in parsed.targets.items():
            name = target.definition.qualname
            for package in packages if name and "." not in name else ():
                public = self._index.lookup(f"{package}.{name}")
                if "._" not in package and public and public.definition.dotted == dotted:
                    found.setdefault(name, package)
        return found

    def figure(self, figure: FigureHtml, draft: Draft) -> FigureHtml:
        """A figure of a translated page: its words, and the addresses of its links."""

        def moved(match: re.Match[str]) -> str:
            address, mark, anchor = urljoin(draft.original, match[0]).partition("#")
            return relative(draft.url, f"{self._moved.get(address, address)}{mark}{anchor}")

        parts = (self.language.words.drawing(part) for part in (figure.picture, figure.below))
        picture, below = (_RELATIVE.sub(moved, part) for part in parts)
        return replace(figure, picture=picture, below=below)

    def shows(self, url: str) -> bool:
        """Whether its search finds a page: one of its own, or what it has no page for."""
        return url in self._names or (url in self._original_names and url not in self._moved)

    def search_entry(self, page: SearchPage) -> tuple[SearchPage, int]:
        """A page with its aliases for the search, and its rank."""
        name = self._names.get(page.url) or self._original_names[page.url]
        names = (*self._aliases.get(name, ()), *self._original_titles.get(name, ()))
        if names:
            page = counted(replace(page, names=(*page.names, *names)))
        # A lesson comes before its notebook, which may have the same name.
        rank = 0 if name.startswith(f"{FOLDER}/") else self._ranks.get(name, 0)
        return page, rank

    def figure_uses(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every use of a figure: the path of the file, the source line, and the use."""
        for parsed, draft in self.pairs:
            for use in draft.figures():
                yield draft.display, parsed.source.lines[use.line - 1], use
