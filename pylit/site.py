"""The site of one build: its inputs beside the modules, its pages, and how they relate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path, PurePath

from pylit.addresses import ALL, HOME, PageAddresses, module_url, paper_url, prose_url
from pylit.assets import accent_rule
from pylit.cache import Cache, digest
from pylit.comparisons import read_comparisons
from pylit.config import README, Group, PageName, SiteConfig, load_config, metadata
from pylit.cpp import read_cpp
from pylit.diagnostics import Diagnostic, Report, Severity, nearest
from pylit.discover import discover
from pylit.exercises import exercises_page
from pylit.glossary import Term, read_glossary
from pylit.model import (
    Draft,
    FigureUse,
    GeneratedPage,
    Module,
    PageGroup,
    ParsedPage,
    SiteView,
    SourceFile,
)
from pylit.names import Index
from pylit.navigation import Place, neighbours, other_groups, page_link, place
from pylit.notebooks import FOLDER, read_notebooks
from pylit.options import Options
from pylit.outcome import Outcome
from pylit.parse import read_page, read_pages
from pylit.readme import read_readme
from pylit.references import Work, bibliography_page, read_bibliography
from pylit.relations import relations
from pylit.search import ALIASES, SearchPage, counted, read_aliases


def read_config(options: Options, report: Report) -> SiteConfig | None:
    """The settings of the site; a foreign package has default settings."""
    if options.missing_node:
        message = f"formulas are shown as TeX, without fonts: {options.missing_node}"
        hint = "with Node.js 20 or newer and a network once, `python -m pylit.node` sets it up"
        report.add(Diagnostic("node", 0, 0, "node", message, hint, severity=Severity.WARNING))
    if not options.sources:
        return load_config(options.root, report)
    first, names = options.sources[0], ", ".join(path.resolve().name for path in options.sources)
    about = metadata(first) if len(options.sources) == 1 else {}
    names = str(about.get("name", names))
    usual = f"The source of {names}: notes beside the code that they speak about."
    summary = str(about.get("description", usual))
    return SiteConfig(
        title=options.title or names,
        summary=summary,
        base_url=options.base_url,
        readme=README if about else "",
    )


#: The keys of the front matter.
FRONT_MATTER = ("title", "summary", "paper", "notebook", "compare")


def front_matter_faults(draft: Draft, lines: Sequence[str], root: Path, report: Report) -> None:
    """Report unknown keys of the front matter of an own page, and values without a target."""
    for key, value in draft.front_matter.items():
        if key not in FRONT_MATTER:
            hint = nearest(key, FRONT_MATTER, f"known: {', '.join(FRONT_MATTER)}")
            message = f"unknown key `{key}`"
        elif key == "paper" and not paper_url(value):
            message = f"`paper` is `{value}`"
            hint = "write an address, https://…, or an arXiv number, 1706.03762"
        elif key == "notebook" and not (root / value).is_file():
            message = f"`notebook` is `{value}`, and there is no such file"
            hint = "write its path from the root of the repository"
        else:
            continue
        line = next((n for n, text in enumerate(lines, 1) if text.strip().startswith(key)), 0)
        source = lines[line - 1] if line else ""
        report.add(Diagnostic(draft.display, line, 0, "front-matter", message, hint, source))


class Site:
    """The site of one build; `generator` is a digest of the code of the generator.

    A foreign package has neither works nor terms, nor Markdown pages.
    """

    def __init__(
        self, options: Options, config: SiteConfig, cache: Cache, generator: str, outcome: Outcome
    ) -> None:
        self.options, self.config, self.cache = options, config, cache
        self.generator, self.outcome, self.report = generator, outcome, outcome.report
        docs, report = options.docs, self.report
        self.works = self._read_works()
        notebooks, self.notebooks = read_notebooks(docs.parent / FOLDER, config.base_url, report)
        self._prose = read_pages(docs / "pages", "docs_src/pages", report) + notebooks
        self.terms: tuple[Term, ...] = ()
        path = docs / "glossary.md"
        if path.is_file() and (page := read_page(path, docs, "docs_src", report)):
            glossary, self.terms = read_glossary(page, report)
            self._prose.append(glossary)
        root = options.sources[0] if options.sources else options.root
        written = any(page.source.name == "index" for page in self._prose)
        # A file that is named in the settings would take the place of the author's page: a fault.
        found = not written or config.readme != README
        self._readme = [*read_readme(root, config, report)] if found else []
        self._prose += self._readme
        self._addresses = PageAddresses(report)

    def _read_works(self) -> Mapping[str, Work]:
        path = self.options.docs / "references.bib"

        def read() -> tuple[Mapping[str, Work], tuple[Diagnostic, ...]]:
            faults = Report()
            return read_bibliography(path, "docs_src/references.bib", faults), tuple(faults)

        key = digest(self.generator, path.read_bytes() if path.is_file() else b"")
        works, faults = self.cache.get("works", key, read)
        self.report.update(faults)
        return works

    def sources(self) -> Iterator[SourceFile]:
        """The Python sources, each once, with an address of its own."""
        options, known = self.options, set()
        own, exclude = not options.sources, self.config.exclude
        for root in options.sources or [options.root / name for name in self.config.sources]:
            for source in discover(root, own=own, report=self.report, exclude=exclude):
                # A folder and a package in it may both be sources.
                identity = source.path, source.name
                if identity not in known and self._addresses.claim(module_url(source), source):
                    yield replace(source, docstrings=self.config.docstrings)
                known.add(identity)

    def prose(self, modules: Sequence[SourceFile]) -> Iterator[Module]:
        """The Markdown pages and the C++ sources of the site's own modules."""
        for page in (*self._prose, *read_cpp(modules, self.report)):
            if self._addresses.claim(prose_url(page.source.name), page.source):
                yield page

    def gather(self, pairs: Sequence[GeneratedPage]) -> None:
        """Take all drafts, add the pages composed of them, and relate all pages."""
        options, config, report = self.options, self.config, self.report
        self.pairs, drafts = [*pairs], [draft for _, draft in pairs]
        taken = {draft.url for draft in drafts}
        #: Address of a page -> the addresses and titles of pages that compare it with others.
        self._compared: dict[str, list[tuple[str, str, str]]] = {}
        compared = []
        for comparison in read_comparisons(pairs, report):
            compared.append(comparison.page(self.cache, self.generator))
            for url in {draft.url for draft in comparison.drafts}:
                link = comparison.url, comparison.title, ""
                self._compared.setdefault(url, []).append(link)
        composed = exercises_page(config, drafts), bibliography_page(self.works, drafts)
        for page in (*composed, *compared):
            if page is not None and page[1].url not in taken:
                self.pairs.append(page)
        self.drafts = drafts = [draft for _, draft in self.pairs]
        for parsed, draft in self.pairs:
            report.update((*parsed.diagnostics, *draft.diagnostics))
            if draft.own:
                front_matter_faults(draft, parsed.source.lines, options.root, report)
        self._named = {draft.name: draft for draft in drafts}
        self._names = {draft.url: draft.name for draft in drafts}
        self.targets = {name: t for parsed, _ in self.pairs for name, t in parsed.targets.items()}
        self._urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        notebooks = (draft for draft in drafts if draft.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        self._aliases = read_aliases(options.docs / ALIASES, self._named, report)
        listed = (config.groups, config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}
        paths, groups = self._groups(config.paths), self._groups(config.groups)
        others = other_groups((*paths, *groups), drafts)
        self.view = SiteView(
            title=config.title,
            summary=config.summary,
            base_url=config.base_url,
            repository_url=f"https://github.com/{config.repository}" if config.repository else "",
            language=config.language,
            catalogue=groups if paths else groups + others,
            paths=paths,
            other_pages=others if paths else (),
            index=ALL if paths else f"{HOME}#pages" if self._readme else HOME,
            without_assets=bool(options.missing_node),
            accent=accent_rule(config.accent),
            logo=config.logo and f"assets/logo{PurePath(config.logo).suffix}",
        )
        self._index = Index(self.targets)
        self._neighbours = neighbours((*paths, *groups, *others))
        self._related = relations(drafts, self.targets, config.relations)

    def _groups(self, groups: Iterable[Group]) -> tuple[PageGroup, ...]:
        """Groups or paths of `site.toml` with their pages."""
        found = []
        for group in groups:
            drafts = filter(None, map(self.find, group.pages))
            found.append(PageGroup(group.title, group.summary, tuple(map(page_link, drafts))))
        return tuple(group for group in found if group.pages)

    def find(self, name: PageName) -> Draft | None:
        """The page that `site.toml` names; an unknown name is a fault."""
        draft = self._named.get(name.name)
        if draft is None:
            hint = nearest(name.name, self._named, "name a module or a page of docs_src/pages")
            message = f"there is no page `{name.name}`"
            place = self.config.display, name.line, 0
            self.report.add(Diagnostic(*place, "navigation", message, hint))
        return draft

    def place(self, parsed: ParsedPage, draft: Draft) -> Place:
        """The packages around a page, its neighbours and its relations."""
        where = place(draft, parsed.source.path, self.options.root, self.config, self._urls)
        beside = self._neighbours.get(draft.url, where.around)
        related = self._related.get(draft.url, {})
        found = self._exports(parsed)
        compared = self._compared.get(draft.url, ())
        return replace(where, around=beside, related=related, exports=found, compared=compared)

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

    def search_entry(self, page: SearchPage) -> tuple[SearchPage, int]:
        """A page with its aliases for the search, and its rank."""
        name = self._names[page.url]
        if name in self._aliases:
            page = counted(replace(page, names=(*page.names, *self._aliases[name])))
        # A lesson comes before its notebook, which may have the same name.
        rank = 0 if name.startswith(f"{FOLDER}/") else self._ranks.get(name, 0)
        return page, rank

    def figure_uses(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every use of a figure: the path of the file, the source line, and the use."""
        for parsed, draft in self.pairs:
            for use in draft.figures():
                yield draft.display, parsed.source.lines[use.line - 1], use
