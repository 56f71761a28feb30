"""The site of one build: its inputs beside the modules, and its pages in each language."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pylit.addresses import PageAddresses, module_url, paper_url, prose_url
from pylit.cache import Cache, digest
from pylit.config import README, SiteConfig, load_config, metadata
from pylit.diagnostics import Diagnostic, Report, Severity, nearest
from pylit.languages.language import read_languages, with_replays
from pylit.model import Draft, Module, ParsedPage, SourceFile
from pylit.notes.citations import Work, read_bibliography
from pylit.notes.glossary import GLOSSARY, Term, read_glossary
from pylit.notes.tones import read_tones
from pylit.site.notebooks import FOLDER, read_notebooks
from pylit.site.options import Options
from pylit.site.outcome import Outcome
from pylit.site.readme import read_changelog, read_readme
from pylit.source.cpp import read_cpp
from pylit.source.discover import discover
from pylit.source.pages import read_page, read_pages


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
FRONT_MATTER = ("title", "summary", "paper", "notebook", "compare", "tones")
#: Those of notes on the code of others alone.
OF_NOTES = ("package", "versions", "license", "source")


def front_matter_faults(draft: Draft, file: SourceFile, root: Path, report: Report) -> None:
    """Report unknown keys of the front matter of an own page, and values without a target.

    `file` is the one that has the front matter.
    """
    lines = file.lines
    known = (*FRONT_MATTER, *OF_NOTES) if draft.package else FRONT_MATTER
    for key, value in draft.front_matter.items():
        if key not in known:
            hint = nearest(key, known, f"known: {', '.join(known)}")
            message = f"unknown key `{key}`"
        elif key == "paper" and not paper_url(value):
            message = f"`paper` is `{value}`"
            hint = "write an address, https://…, or an arXiv number, 1706.03762"
        elif key == "notebook" and not (root / value).is_file():
            message = f"`notebook` is `{value}`, and there is no such file"
            hint = "write its path from the root of the repository"
        elif key == "tones" and not read_tones(value):
            message = f"`tones` is `{value}`"
            hint = "write words with tones from 0 to 6, on one line: {query: 3, key: 1}"
        else:
            continue
        line = next((n for n, text in enumerate(lines, 1) if text.strip().startswith(key)), 0)
        source = lines[line - 1] if line else ""
        report.add(Diagnostic(file.display, line, 0, "front-matter", message, hint, source))


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
        #: The glossary as it is written, without the anchors of its terms.
        self.glossary: Module | None = None
        path = docs / "glossary.md"
        if path.is_file() and (page := read_page(path, docs, "docs_src", report)):
            self.glossary = page
            glossary, self.terms = read_glossary(page, report)
            self._prose.append(glossary)
        root = options.sources[0] if options.sources else options.root
        written = any(page.source.name == "index" for page in self._prose)
        # A file that is named in the settings would take the place of the author's page: a fault.
        found = not written or config.readme != README
        self.readme = [*read_readme(root, config, report)] if found else []
        self._prose += self.readme
        # That of a package of somebody else may be long, and nobody asked for it.
        names = {page.source.name for page in self._prose}
        if not options.sources and "changelog" not in names:
            self._prose += read_changelog(root, config, report)
        self._addresses = PageAddresses(report)
        self.languages = read_languages(docs, options.theme, report)

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
            if self.claim(prose_url(page.source.name), page.source):
                yield page

    def written(self, page: ParsedPage) -> Module:
        """A page as it is written, with all that is translated: the glossary without the anchors of
        its terms, a module with the texts of its replays.
        """
        if page.url == GLOSSARY and self.glossary:
            return self.glossary
        return with_replays(page.module, self.options.docs)

    def claim(self, url: str, source: SourceFile) -> bool:
        """Whether an address is free for the page of a source."""
        return self._addresses.claim(url, source)
