"""Everything of a site that is no page of a source: the home page of a package, the 404 page,
assets, previews, and the files for other programs.
"""

import datetime
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import Kind, PageView, SiteView, Target
from pylit.page.assets import assets
from pylit.page.fonts import shelf
from pylit.page.render import canonical
from pylit.pipeline.stages import Leaf, Page, Theme
from pylit.site.addresses import ALL, HOME, HOOD, MISSING, file_path
from pylit.site.catalogue import find_page, page_link
from pylit.site.config import SiteConfig
from pylit.site.drafts import Draft
from pylit.site.indexes import Entry, feed, inventory, robots, sitemap
from pylit.site.links import facts
from pylit.site.texts import llms, page_text, text_url
from pylit.source.cpp import is_cpp
from pylit.tex.mathfonts import math_fonts
from pylit.tex.maths import stylesheet


@dataclass(slots=True)
class Site:
    """A site that is being made. Leaves and drafts stand in the same order."""

    config: SiteConfig
    view: SiteView
    leaves: Sequence[Leaf]
    drafts: Sequence[Draft]
    #: The pages that are finished, by address, without their HTML.
    pages: dict[str, Page] = field(default_factory=dict)

    def targets(self) -> dict[str, Target]:
        """Everything that a link may lead to, by dotted name."""
        return {name: target for leaf in self.leaves for name, target in leaf.targets.items()}


def generated_pages(site: Site, theme: Theme) -> list[Page]:
    """The home page, the lists of pages and the 404 page, where ``docs_src/pages`` has none."""
    made: list[tuple[Kind, str, str, str]] = [
        ("home", HOME, site.config.title, site.config.summary),
        ("missing", MISSING, "Page not found", "There is no page at this address."),
    ]
    if site.view.paths:
        made.append(("list", ALL, "All pages", "Every page of this site, by subject."))
    if site.view.hood:
        about = "The code around the lessons: fast kernels, training, saving and drawing."
        made.append(("list", HOOD, "Under the hood", about))
    views = [
        PageView(kind, url, title, summary, html.escape(title), html.escape(summary))
        for kind, url, title, summary in made
    ]
    pages = []
    for view in views:
        if view.url not in site.pages:
            text = theme.page(view)
            pages.append(Page(view.url, text, facts(text)))
    return pages


def companions(
    site: Site,
    theme: Path,
    node_modules: Path | None,
    cache: Path | None,
    report: Report,
) -> dict[str, bytes]:
    """The files beside the pages, by path."""
    targets = [t for t in site.targets().values() if not is_cpp(t.definition.module)]
    prose = [page_link(draft) for draft in site.drafts if draft.prose]
    files = dict(assets(theme, node_modules, node_modules and shelf(node_modules)))
    files |= _mathematics(site, cache)
    files |= _for_programs(site, report)
    files |= _texts(site)
    files["objects.inv"] = inventory(site.config.title, targets, prose)
    # GitHub's pages leave out files such as `_base.html` unless this one is there.
    files[".nojekyll"] = b""
    return files


def _texts(site: Site) -> Mapping[str, bytes]:
    """The pages as Markdown, and a list of them."""
    own = [pair for pair in zip(site.drafts, site.leaves, strict=True) if text_url(pair[0])]
    if not own:
        return {}
    sources = {draft.display: text_url(draft) for draft, _ in own}
    files = {
        file_path(text_url(draft)): page_text(draft, leaf.module, sources) for draft, leaf in own
    }
    addresses = {draft.url: text_url(draft) for draft, _ in own}
    return files | {"llms.txt": llms(site.config, site.view.catalogue, addresses)}


def _mathematics(site: Site, cache: Path | None) -> dict[str, bytes]:
    """The style sheet of all formulas together, and the fonts that it uses."""
    formulas = [page.formulas for page in site.pages.values()]
    css, names = stylesheet(formulas)
    fonts = math_fonts(names, formulas, cache / "mathfonts" if cache else None)
    files = {f"assets/fonts/{name}": data for name, data in fonts.items()}
    return {"assets/math.css": css.encode(), **files}


def _for_programs(site: Site, report: Report) -> Mapping[str, bytes]:
    """For search engines and feed readers, which need absolute addresses."""
    config = site.config
    files = {"robots.txt": robots(config.base_url)}
    if not config.base_url:
        return files
    urls = site.pages.keys() - {MISSING} | {HOME} | ({ALL} if site.view.paths else set())
    files["sitemap.xml"] = sitemap(config.base_url, urls)
    drafts = {draft.name: draft for draft in site.drafts}
    entries = []
    for news in config.news:
        url = find_page(news.page, config, drafts, report)
        if url is not None:
            address = canonical(config.base_url, url)
            entries.append(Entry(news.date, news.title, news.summary, address))
    # Lessons come after the news: they are as old as the site.
    oldest = min((news.date for news in config.news), default=datetime.date(1970, 1, 1))
    for link in (link for path in site.view.paths for link in path.pages):
        address = canonical(config.base_url, link.url)
        entries.append(Entry(oldest, link.title, link.summary, address))
    files["feed.xml"] = feed(config.base_url, config.title, config.summary, entries)
    return files
