"""Pages that no file holds: they are put together of what the other pages say.

Such a page is a draft like any other. It gets its formulas, its place and its neighbours as they
do, `site.toml` may name it, and it is rendered anew when what was put together has changed.
"""

import html
from collections.abc import Sequence
from pathlib import Path

from pylit.cache import digest
from pylit.model import Module, NoteHtml, Section, SourceFile
from pylit.site.drafts import Draft, DraftSection, Leaf

#: A page, and the draft of it.
Gathered = tuple[Leaf, Draft]


def gathered(url: str, title: str, summary: str, notes: Sequence[NoteHtml]) -> Gathered:
    """The page at an address of the site, with its notes in order."""
    name = url.removesuffix(".html")
    source = SourceFile(Path(url), name, url, False, True, "", "")
    draft = Draft(
        name=name,
        url=url,
        display=url,
        own=True,
        prose=True,
        front_matter={},
        title=title,
        title_note=NoteHtml(html.escape(title), text=title),
        summary=summary,
        summary_note=NoteHtml(html.escape(summary), text=summary),
        sections=(DraftSection("", tuple(notes), ()),),
        warning="",
        diagnostics=(),
        answers={},
        stamp=digest("gathered", url, title, summary, repr(tuple(notes))),
    )
    module = Module(source, {}, (), (Section((), None),))
    return Leaf(module, url, True, draft.stamp), draft
