"""What the templates show: a page, and the site around it. Addresses are from the site's root."""

from dataclasses import dataclass
from typing import Literal

from pylit.model import CodeLine


@dataclass(frozen=True, slots=True)
class Crumb:
    """One step of the path shown in the header."""

    title: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """One line of the outline rail."""

    level: int
    anchor: str
    html: str


@dataclass(frozen=True, slots=True)
class SectionView:
    """A section as the template shows it."""

    #: Element id: the qualified name, or empty. Headings carry their own ids inside `note`.
    anchor: str
    note: str
    code: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class PageLink:
    """Another page, by address and title."""

    url: str
    title: str
    summary: str = ""
    notebook: str = ""


#: What a page is: the name of its template.
Kind = Literal["module", "prose", "home", "list", "missing"]


@dataclass(frozen=True, slots=True)
class PageView:
    """Everything a template needs to show one page. Addresses are from the site's root."""

    kind: Kind
    url: str
    title: str
    #: Plain text, one or two sentences, for search engines and previews.
    summary: str
    title_html: str = ""
    summary_html: str = ""
    crumbs: tuple[Crumb, ...] = ()
    outline: tuple[OutlineEntry, ...] = ()
    sections: tuple[SectionView, ...] = ()
    body: str = ""
    #: Each definition, with what it is built from and what uses it, as HTML.
    relations: tuple[tuple[str, str, str], ...] = ()
    previous: PageLink | None = None
    next: PageLink | None = None
    #: Title of the reading path that `previous` and `next` follow.
    path_title: str = ""
    #: ``from labml_nn.transformers.mha import MultiHeadAttention``, for the copy button.
    import_line: str = ""
    #: Absolute address of the source in its repository; of the notebook, its page in the site or
    #: its file there; and of the notebook in Colab.
    source_url: str = ""
    notebook_url: str = ""
    colab_url: str = ""
    #: From the site's root: the page as Markdown, and the picture that stands for it elsewhere.
    text_url: str = ""
    card: str = ""
    minutes: int = 1
    paper_url: str = ""
    #: Whether its lines show shapes, and the page, from the site's root, that explains the letters.
    shapes: bool = False
    letters_url: str = ""
    #: Shown above everything: why a page has no notes.
    warning: str = ""


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Pages under one title: a part of the catalogue, or a reading path in its order."""

    title: str
    summary: str
    pages: tuple[PageLink, ...]


@dataclass(frozen=True, slots=True)
class SiteView:
    """What every template may know about the site."""

    title: str
    summary: str
    #: Absolute, ends with ``/``; for canonical addresses, sitemap and feed only.
    base_url: str
    repository_url: str
    language: str
    catalogue: tuple[PageGroup, ...]
    paths: tuple[PageGroup, ...]
    #: Pages that `site.toml` does not name, by folder.
    hood: tuple[PageGroup, ...] = ()
    #: Where all pages are listed: a page of its own beside the home page of a site with lessons.
    index: str = "index.html"
    #: Whether it has to do without what comes from npm: fonts, and the pictures of pages.
    bare: bool = False
