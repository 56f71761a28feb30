"""A site as a whole, while it is made: what is read beside its modules, and how its pages stand to
each other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pylit.cache import digest
from pylit.code.cpp import read_cpp
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import FigureUse, Module, SourceFile
from pylit.notebooks.pages import FOLDER, read_notebooks
from pylit.page.view import SiteView
from pylit.pipeline.outcome import Options
from pylit.pipeline.stages import Pairs, Stages
from pylit.prose.glossary import Term, read_glossary, term_targets
from pylit.prose.works import Work, read_bibliography, work_targets
from pylit.site import catalogue
from pylit.site.addresses import ALL, HOME, Addresses, module_url, prose_url
from pylit.site.bibliography import bibliography_page
from pylit.site.config import SiteConfig, load_config
from pylit.site.drafts import Draft, Leaf
from pylit.site.exercises import exercises_page
from pylit.site.pages import Place, front_matter_faults, place
from pylit.site.prose import read_page, read_pages
from pylit.site.relations import relations
from pylit.site.search import ALIASES, SearchPage, counted, read_aliases
from pylit.source.discover import discover


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
        self.targets = {name: t for leaf, _ in self.pairs for name, t in leaf.targets.items()}
        self.view = view = self._view()
        self._urls = {draft.name: draft.url for draft in drafts if not draft.prose}
        notebooks = (draft for draft in drafts if draft.name.startswith(f"{FOLDER}/"))
        self._urls |= {f"{draft.name}.ipynb": draft.url for draft in notebooks}
        self._beside = catalogue.neighbours((*view.paths, *view.catalogue, *view.hood))
        self._related = relations(drafts, self.targets)
        self._aliases = read_aliases(options.docs / ALIASES, self.named, report)
        listed = (config.groups, config.paths)
        self._ranks = {p.name: n for n, of in enumerate(listed, 1) for g in of for p in g.pages}

    def _view(self) -> SiteView:
        """The site as templates see it, its catalogue and reading paths with it."""
        config, own = self.config, not self.options.sources
        paths = catalogue.named_groups(config, config.paths, self.named, self._report)
        groups = catalogue.named_groups(config, config.groups, self.named, self._report)
        groups = groups if own else catalogue.package_groups(self.drafts)
        rest = catalogue.rest_of((*paths, *groups), self.drafts) if own else ()
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
        beside = self._beside.get(draft.url, where.around)
        return replace(where, around=beside, related=self._related.get(draft.url, {}))

    def found(self, number: int, search: SearchPage) -> tuple[SearchPage, int]:
        """How search finds a page: by which other names, and how it ranks among others."""
        name = self.drafts[number].name
        if name in self._aliases:
            search = counted(replace(search, names=(*search.names, *self._aliases[name])))
        return search, self._ranks.get(name, 0)

    def asked(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every place that asks for a figure: the file, the line of it, and what for."""
        for leaf, draft in self.pairs:
            for use in draft.figures():
                yield draft.display, leaf.source.lines[use.line - 1], use
