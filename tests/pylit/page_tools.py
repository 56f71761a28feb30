"""Pages made by hand."""

from pylit.model import CodeLine, PageGroup, PageLink, SectionView, SiteView
from pylit.pages import PageView

SITE = SiteView(
    title="The <site>",
    summary="What it is.",
    base_url="https://example.org/docs/",
    repository_url="https://github.com/some/one",
    language="en",
    catalogue=(PageGroup("All", "", (PageLink("pkg/a.html", "A & B", "First."),)),),
    paths=(PageGroup("Path", "In order.", (PageLink("pkg/a.html", "A & B"),)),),
)


def code(first: int, count: int = 1) -> tuple[CodeLine, ...]:
    """Lines that say their numbers."""
    return tuple(
        CodeLine(n, f'x = <span class="hn">{n}</span>') for n in range(first, first + count)
    )


def section(note: str = "", lines: tuple[CodeLine, ...] = (), anchor: str = "") -> SectionView:
    return SectionView(anchor, note, lines)


def view(**fields: object) -> PageView:
    """A page of a module."""
    given = {"kind": "module", "url": "pkg/sub/mod.html", "title": "A & B", "summary": 'Say "x".'}
    return PageView(**(given | fields))  # type: ignore[arg-type]
