"""Pages made by hand."""

from dataclasses import replace

from pylit.model import CodeLine, PageGroup, PageLink, SiteView, generated_page
from pylit.pages.render import PageView
from pylit.pages.rows import Block, Row

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


def section(note: str = "", lines: tuple[CodeLine, ...] = (), anchor: str = "") -> Row:
    return Row(anchor, note, (Block(anchor, lines),) if lines else ())


def view(url: str = "pkg/sub/mod.html", **fields: object) -> PageView:
    """A page of a module; front matter and warning are those of its draft."""
    _, draft = generated_page(url, "A & B", 'Say "x".')
    drafted = {name: fields.pop(name) for name in ("front_matter", "warning") if name in fields}
    given = {"kind": "module", "title": "A &amp; B", "summary": ""} | fields
    return PageView(draft=replace(draft, **drafted), **given)  # type: ignore[arg-type]
