"""The pages of a site in each of its languages: where they stand, and how they relate."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from urllib.parse import urljoin

from pylit.addresses import ALL, HOME, HOOD, relative, slugify
from pylit.config import Group, SiteConfig
from pylit.diagnostics import Diagnostic, nearest
from pylit.languages.language import Language
from pylit.model import (
    Draft,
    FigureUse,
    GeneratedPage,
    PageGroup,
    ParsedPage,
    SiteView,
    Target,
)
from pylit.notes.citations import bibliography_page
from pylit.outputs.assets import accent_rule
from pylit.outputs.search import ALIASES, read_aliases
from pylit.pages.comparisons import read_comparisons
from pylit.pages.exercises import exercises_page
from pylit.pages.navigation import (
    Place,
    in_words,
    neighbours,
    other_groups,
    package_menu,
    page_link,
    place,
)
from pylit.pages.relations import Related, relations
from pylit.runs.figures import FigureHtml
from pylit.site.inputs import Site, front_matter_faults
from pylit.site.notebooks import FOLDER
from pylit.source.names import Index

CHANGELOG = "changelog.html"
#: Relative addresses in HTML.
_RELATIVE = re.compile(r'(?<= href=")(?![a-z]+:|[#/])[^"]+')
#: The address of a page in a link that says nothing else.
_PLAIN = re.compile(r'(<a href=")((?![a-z]+:|/)[^"#]+\.(?:html|ipynb))(?=(?:#[^"]*)?">)')
#: A picture of a notebook, which a screen reader describes.
_PICTURE = re.compile(r"(?<=<figure class=\"out\">)<img [^>]+>")
#: Address of a page -> the addresses and titles of pages that compare it with others.
_Compared = dict[str, list[tuple[str, str, str]]]


@dataclass(frozen=True, slots=True)
class Edition:
    """The pages of a site in one language, each in its place."""

    language: Language
    view: SiteView
    pages: Sequence[GeneratedPage]
    #: Where each page stands in the site, by its address.
    places: Mapping[str, Place]
    #: What its search finds, by address: further names of the page, and its rank.
    found: Mapping[str, tuple[tuple[str, ...], int]]
    #: The address of a page in the site's own language -> the one in this.
    addresses: Mapping[str, str]

    @property
    def drafts(self) -> list[Draft]:
        """The drafts of its pages."""
        return [draft for _, draft in self.pages]

    @property
    def targets(self) -> dict[str, Target]:
        """The definitions on its pages, by their dotted names."""
        return {name: one for parsed, _ in self.pages for name, one in parsed.targets.items()}

    @property
    def name(self) -> str:
        """The language, as those who speak it write it."""
        own = "English" if self.view.language.startswith("en") else self.view.language
        return self.language.words.get("English", own)

    def figure(self, figure: FigureHtml, draft: Draft) -> FigureHtml:
        """A figure of a translated page: its words, and the addresses of its links."""

        def moved(match: re.Match[str]) -> str:
            address = _moved(urljoin(draft.original, match[0]), self.addresses)
            return relative(draft.url, address)

        parts = (self.language.words.drawing(part) for part in (figure.picture, figure.below))
        picture, below = (_RELATIVE.sub(moved, part) for part in parts)
        return replace(figure, picture=picture, below=below)

    def links(self, html: str, draft: Draft, files: Container[str]) -> str:
        """The HTML of a translated page, with links that lead to pages and `files` of this language
        where there is one; those that name a language stay. Pictures are described in it, too.
        """

        def moved(match: re.Match[str]) -> str:
            page = urljoin(draft.url, match[2])
            file = self.language.prefix + page
            address = file if file in files else self.addresses.get(page)
            return f"{match[1]}{relative(draft.url, address)}" if address else match[0]

        def described(picture: re.Match[str]) -> str:
            return self.language.words.drawing(picture[0])

        return _PICTURE.sub(described, _PLAIN.sub(moved, html))

    def figure_uses(self) -> Iterator[tuple[str, str, FigureUse]]:
        """Every use of a figure: the path of the file, the source line, and the use."""
        for parsed, draft in self.pages:
            file = parsed.module.written
            # A page without a source shows what others ask for.
            for use in draft.figures() if any(file.lines) else ():
                yield file.display, file.lines[use.line - 1], use


def _moved(address: str, addresses: Mapping[str, str]) -> str:
    page, mark, anchor = address.partition("#")
    return f"{addresses.get(page, page)}{mark}{anchor}"


def arrange(
    site: Site, drafted: Sequence[tuple[Language, Sequence[GeneratedPage]]]
) -> tuple[Edition, ...]:
    """Put the pages of each language, the site's own first, in their places.

    Faults of the pages, and of the lists of pages in the settings, are reported.
    """
    for _, pages in drafted:
        for parsed, draft in pages:
            site.report.update((*parsed.diagnostics, *draft.diagnostics))
            if draft.own and not draft.translation:
                file = parsed.module.headed
                front_matter_faults(draft, file, site.options.root, site.report)
    (language, pages), *others = drafted
    own = _arranged(site, language, pages, None)
    return own, *(_arranged(site, language, pages, own) for language, pages in others)


def _arranged(
    site: Site, language: Language, drafted: Sequence[GeneratedPage], own: Edition | None
) -> Edition:
    """The pages of a language; `own` is the edition in the site's own, if this is another."""
    config, pages = site.config, [*drafted]
    compared = {} if own else _add_comparisons(site, pages)
    _add_composed(site, pages, language)
    drafts = [draft for _, draft in pages]
    addresses = {draft.original: draft.url for draft in drafts}
    # What is not translated is shown in the site's own language.
    originals = {draft.url: draft for draft in own.drafts} if own else {}
    rest = [draft for url, draft in originals.items() if url not in addresses]
    addresses |= {page: language.prefix + page for page in (HOME, ALL)}
    named = {draft.name: draft for draft in (*rest, *drafts)}
    urls = {name: draft.url for name, draft in named.items() if not draft.prose}
    notebooks = (name for name in named if name.startswith(f"{FOLDER}/"))
    urls |= {f"{name}.ipynb": named[name].url for name in notebooks}
    folder = language.folder if own else site.options.docs
    aliases = read_aliases(folder / ALIASES, named, site.report)
    paths, groups = (
        _listed(site, language, lists, named, addresses) for lists in (config.paths, config.groups)
    )
    others = () if own else other_groups((*paths, *groups), drafts)
    around = neighbours(paths, (*groups, *others))
    at = {
        page.url: (group.title, f"{language.prefix}{where}#{group.anchor}")
        for lists, where in ((groups, ALL if paths else HOME), (paths, HOME))
        for group in lists
        for page in group.pages
    }
    titles = {draft.url: draft.title for draft in (*rest, *drafts)}
    known = _translated(own, addresses, language) if own else _related(pages, compared, config)
    places = {}
    for parsed, draft in pages:
        files = parsed.module.headed.path, parsed.module.written.path
        where = place(draft, files, site.options.root, config, urls)
        beside = known.get(draft.original, where)
        crumbs = in_words(where.crumbs, titles) if where.crumbs else ()
        if draft.url in at:
            crumbs = (at[draft.url], (draft.title, ""))
        elif paths and not draft.prose:
            crumbs = ((language.words("Under the hood"), HOOD), *crumbs)
        places[draft.url] = replace(
            where,
            crumbs=crumbs,
            menu=() if paths or groups else package_menu(draft.url, others),
            around=around.get(draft.url, where.around),
            related=beside.related,
            exports=beside.exports,
            compared=beside.compared,
        )
    ranks = {
        page.name: rank
        for rank, lists in enumerate((config.groups, config.paths), 1)
        for group in lists
        for page in group.pages
    }
    found = {}
    for draft in (*rest, *drafts):
        names = aliases.get(draft.name, ())
        if own and draft.original in originals:
            # A translated page is found by its original title, too.
            title = [originals[draft.original].title] if draft.translation else ()
            names = (*own.found[draft.original][0], *names, *title)
        # A lesson comes before its notebook, which may have the same name.
        rank = 0 if draft.name.startswith(f"{FOLDER}/") else ranks.get(draft.name, 0)
        found[draft.url] = names, rank
    bar = (*_bar(site, language, dict(at.values()), named),)
    view = replace(_view(site, language, paths, groups, others, titles), bar=bar)
    return Edition(language, view, pages, places, found, addresses)


def _add_comparisons(site: Site, pages: list[GeneratedPage]) -> _Compared:
    """Add the pages that compare two others."""
    found: _Compared = {}
    taken = {draft.url for _, draft in pages}
    for comparison in read_comparisons([*pages], site.report):
        page = comparison.page(site.cache, site.generator)
        pages += [page] if page[1].url not in taken else []
        for url in {draft.url for draft in comparison.drafts}:
            found.setdefault(url, []).append((comparison.url, comparison.title, ""))
    return found


def _add_composed(site: Site, pages: list[GeneratedPage], language: Language) -> None:
    """Add the pages that are put together of others."""
    drafts = [draft for _, draft in pages]
    composed = [exercises_page(site.config, drafts, language)]
    if not language.code:
        composed.append(bibliography_page(site.works, drafts))
    taken = {draft.url for draft in drafts}
    pages += [page for page in composed if page is not None and page[1].url not in taken]


def _listed(
    site: Site,
    language: Language,
    groups: Iterable[Group],
    named: Mapping[str, Draft],
    addresses: Mapping[str, str],
) -> tuple[PageGroup, ...]:
    """Groups or paths of `site.toml` with their pages; an unknown page is a fault."""
    found = []
    for group in groups:
        links = []
        for name, line in ((page.name, page.line) for page in group.pages):
            if name in named:
                link = page_link(named[name])
                notebook = addresses.get(link.notebook, link.notebook)
                links.append(replace(link, notebook=notebook))
            else:
                hint = nearest(name, named, "name a module or a page of docs_src/pages")
                where = site.config.display, line, 0, "navigation"
                site.report.add(Diagnostic(*where, f"there is no page `{name}`", hint))
        title, summary, needs = map(language.words, (group.title, group.summary, group.needs))
        anchor = f"list-{slugify(group.title)}"
        made = PageGroup(title, summary, tuple(links), needs, group.home == "title", anchor)
        found += [made] if links else []
    return tuple(found)


def _bar(
    site: Site, language: Language, titles: Mapping[str, str], named: Mapping[str, Draft]
) -> Iterator[tuple[str, str]]:
    """What the bar leads to: groups, which `titles` maps to their places, and pages."""
    for name in site.config.bar:
        if (title := language.words(name)) in titles:
            yield title, titles[title]
        elif name in named:
            yield named[name].title, named[name].url
        elif not language.code:
            known = [*titles, *named]
            hint = nearest(name, known, "name a page, or the title of a group")
            message = f"there is no page and no group `{name}`"
            site.report.add(Diagnostic(site.config.display, 0, 0, "navigation", message, hint))


def _related(
    pages: Sequence[GeneratedPage], compared: _Compared, config: SiteConfig
) -> dict[str, Place]:
    """How pages relate: by what their definitions use, and by those that compare or export them."""
    targets = {name: one for parsed, _ in pages for name, one in parsed.targets.items()}
    index = Index(targets)
    related = relations([draft for _, draft in pages], targets, config.relations)
    return {
        draft.url: Place(
            related=related.get(draft.url, {}),
            exports=_exports(parsed, index),
            compared=compared.get(draft.url, ()),
        )
        for parsed, draft in pages
    }


def _translated(own: Edition, addresses: Mapping[str, str], language: Language) -> dict[str, Place]:
    """How translated pages relate, by their originals: as those do, in the language."""

    def related(kinds: Related) -> Related:
        return {
            language.words(kind): [
                (_moved(url, addresses), name, dotted) for url, name, dotted in links
            ]
            for kind, links in kinds.items()
        }

    return {
        url: replace(where, related={name: related(k) for name, k in where.related.items()})
        for url, where in own.places.items()
    }


def _exports(parsed: ParsedPage, index: Index) -> dict[str, str]:
    """The names of a private module, each with the outermost public package that has it too."""
    *packages, _ = accumulate(parsed.source.name.split("."), "{}.{}".format)
    found: dict[str, str] = {}
    if "._" not in parsed.source.name:
        return found
    for dotted, target in parsed.targets.items():
        name = target.definition.qualname
        for package in packages if name and "." not in name else ():
            public = index.lookup(f"{package}.{name}")
            if "._" not in package and public and public.definition.dotted == dotted:
                found.setdefault(name, package)
    return found


def _view(
    site: Site,
    language: Language,
    paths: tuple[PageGroup, ...],
    groups: tuple[PageGroup, ...],
    others: tuple[PageGroup, ...],
    written: Container[str],
) -> SiteView:
    config, words, prefix = site.config, language.words, language.prefix
    index = ALL if paths else f"{HOME}#pages" if site.readme else HOME
    repository = f"https://github.com/{config.repository}" if config.repository else ""
    install = config.install.replace("{repository}", repository)
    return SiteView(
        title=words(config.title),
        summary=words(config.summary),
        base_url=config.base_url,
        repository_url=repository,
        about=words(config.about),
        authors=words(config.authors),
        license=config.license,
        date=config.date,
        changelog=CHANGELOG if CHANGELOG in written else "",
        install=install if repository or install == config.install else "",
        language=words.get("en", language.code) or config.language,
        catalogue=groups if paths else groups + others,
        paths=paths,
        other_pages=others if paths else (),
        index=prefix + index,
        without_assets=bool(site.options.missing_node),
        accent=accent_rule(config.accent),
        logo=config.logo and f"assets/logo{PurePath(config.logo).suffix}",
        prefix=prefix,
        version=config.version,
        questions=tuple(map(words, config.questions)),
        menu=tuple(group.bare() for group in paths or groups),
        numbered=bool(paths),
    )
