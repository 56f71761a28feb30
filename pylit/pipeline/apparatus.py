"""What stands around the text of a site's own pages: the works that they cite, and the pages that
are put together of them. Somebody else's package has none of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, Target
from pylit.page.previews import preview_path, preview_script
from pylit.pipeline.stages import Leaf, Parsed
from pylit.prose.bibliography import Work, read_bibliography
from pylit.prose.citations import BIBLIOGRAPHY, work_targets
from pylit.prose.glossary import GLOSSARY, Term, read_glossary, term_targets
from pylit.site.bibliography import bibliography_page, work_previews
from pylit.site.config import SiteConfig
from pylit.site.drafts import Draft
from pylit.site.exercises import exercises_page
from pylit.site.gathered import Gathered
from pylit.site.glossary import term_previews
from pylit.site.prose import read_page
from pylit.tex.symbols import Typeset


@dataclass(frozen=True, slots=True)
class Apparatus:
    """The works and the terms of a site."""

    works: Mapping[str, Work]
    terms: tuple[Term, ...] = ()
    #: The page of the terms, if there is one.
    glossary: Module | None = None

    def targets(self) -> dict[str, Target]:
        """What drafts may ask of it, by the name that they ask for."""
        return work_targets(self.works) | term_targets(self.terms)

    def pages(self, config: SiteConfig, drafts: Sequence[Draft]) -> list[Gathered]:
        """The pages that are made of what the others say."""
        taken = {draft.url for draft in drafts}
        pages = [exercises_page(config, drafts), bibliography_page(self.works, drafts)]
        return [page for page in pages if page is not None and page.draft.url not in taken]

    def previews(self, drafts: Sequence[Draft], typeset: Typeset) -> dict[str, bytes]:
        """What links to works and terms show, by path."""
        files = {}
        if self.works:
            files[preview_path(BIBLIOGRAPHY)] = preview_script(work_previews(self.works))
        pages = [draft for draft in drafts if self.glossary and draft.url == GLOSSARY]
        for page in pages:
            files[preview_path(GLOSSARY)] = preview_script(term_previews(page, typeset))
        return files


def read_apparatus(docs: Path, cache: Cache, generator: str, report: Report) -> Apparatus:
    """The apparatus of the site whose prose lies in `docs`."""
    works = _works(docs / "references.bib", cache, generator, report)
    path = docs / "glossary.md"
    page = read_page(path, docs, "docs_src", report) if path.is_file() else None
    if page is None:
        return Apparatus(works)
    glossary, terms = read_glossary(page, report)
    return Apparatus(works, terms, glossary)


def _works(path: Path, cache: Cache, generator: str, report: Report) -> dict[str, Work]:
    key = digest(generator, path.read_bytes() if path.is_file() else b"")

    def read() -> tuple[dict[str, Work], tuple[Diagnostic, ...]]:
        faults = Report()
        return read_bibliography(path, f"docs_src/{path.name}", faults), tuple(faults)

    works, faults = cache.get("works", key, read)
    report.extend(faults)
    return works


def as_leaf(page: Gathered) -> Leaf:
    """A gathered page as the stages know pages."""
    source, draft = page.module.source, page.draft
    return Leaf(source, draft.url, True, draft.stamp, {}, (), 0, Parsed(page.module, {}))
