"""The values that flow through the pipeline, each frozen, in the order in which they come to be.

    discover -> SourceFile
    parse    -> Module  (with its Definitions and Sections of Notes and code Spans)
    markdown -> NoteHtml (with its Formulas, Headings, References and FigureUses)
    xref     -> Target, Link
    shapes   -> ModuleShapes (in `pylit.shapes.lines`)
    figures  -> Drawn (in `pylit.figures.gallery`)
    pages    -> PageView (in `pylit.pages`), SearchPage (in `pylit.search`)

Lines count from 1 everywhere; columns count from 1 in what a person reads and from 0 in offsets.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pylit.cache import digest
from pylit.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was read: decoded, without a byte order mark, lines ended by ``\\n``."""

    path: Path
    #: Dotted name, found from the packages around it: ``labml_nn.transformers.mha``.
    name: str
    #: As shown to readers and in diagnostics, POSIX: ``labml_nn/transformers/mha.py``.
    display: str
    #: Whether it is a package's ``__init__.py``.
    is_package: bool
    #: Whether it belongs to the site: then raw HTML in its notes is trusted, and faults in its
    #: content are errors. In another's package they are warnings, and HTML is escaped.
    own: bool
    text: str
    #: SHA-256 of the bytes on disk.
    digest: str

    @property
    def lines(self) -> list[str]:
        """The source lines. Only ``\\n`` ends one: a form feed or U+2028 is part of its line."""
        return self.text.split("\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of source lines, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Note:
    """Prose of a module: a docstring, or a block of adjacent comment lines.

    Line ``i`` of `text` (counted from 0) stands on source line ``first_line + i``, always:
    dedenting and stripping ``#`` or quotes never adds or removes a line in the middle.
    """

    kind: Literal["docstring", "comment"]
    #: The source lines it takes, quotes and front matter included.
    span: Span
    text: str
    first_line: int
    #: 0-based column at which the text of most lines begins, for diagnostics.
    column: int
    #: The comment behind a docstring's closing quotes, a directive of a linter for example.
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """A thing with a name that pages can link to."""

    kind: Literal["module", "class", "function", "method", "constant"]
    module: str
    #: Name inside the module, ``MultiHeadAttention.forward``; empty for the module itself.
    qualname: str
    line: int
    #: Header as one line, ``forward(self, *, query: Tensor)``; empty for a module.
    signature: str
    #: First paragraph of its docstring or of the comment above it, as Markdown.
    summary: str

    @property
    def dotted(self) -> str:
        """Full name, ``labml_nn.transformers.mha.MultiHeadAttention.forward``."""
        return f"{self.module}.{self.qualname}" if self.qualname else self.module


@dataclass(frozen=True, slots=True)
class Section:
    """Notes and the code they stand beside; either may be missing, never both."""

    notes: tuple[Note, ...]
    code: Span | None
    #: Qualified name of the class or function whose header `code` holds, else empty.
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed module. Its sections, put together, hold every line of the file but blank ones."""

    source: SourceFile
    front_matter: Mapping[str, str]
    definitions: tuple[Definition, ...]
    sections: tuple[Section, ...]
    #: False when the module has a syntax error: then it is one section of code without notes.
    parsed: bool = True


@dataclass(frozen=True, slots=True)
class Formula:
    """TeX found in a note; the placeholder of the i-th one in `NoteHtml.html` is `formula_slot`."""

    tex: str
    display: bool
    line: int
    column: int
    #: The TeX with the classes of its symbols; empty if none of them is in the page's table.
    marked: str = ""


def formula_slot(index: int) -> str:
    """The text that stands in for formula `index` until mathematics is rendered.

    Private-use characters, which the Markdown stage removes from what authors write.
    """
    return f"\ue000{index}\ue001"


#: What a function of ``docs_src/figures`` makes, and how a note asks for it.
FigureKind = Literal["figure", "table"]


@dataclass(frozen=True, slots=True)
class FigureUse:
    """A place in a note that asks for a figure, or for a table."""

    #: File and function, ``masks.causal``.
    name: str
    line: int
    column: int
    kind: FigureKind = "figure"


def figure_slot(name: str, part: Literal["picture", "below"]) -> str:
    """The text that stands in for a part of a figure until its page is finished."""
    return f"\ue002{part} {name}\ue003"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a note, for the outline and the search index."""

    level: int
    #: Anchor, unique in its page.
    slug: str
    #: Plain text; formulas in words.
    text: str
    #: Inner HTML without links; formulas as slots.
    html: str
    line: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A link or image address as written in a note, kept so that the audit can name its line."""

    href: str
    line: int


@dataclass(frozen=True, slots=True)
class Citation:
    """A work that a note cites."""

    key: str
    line: int


@dataclass(frozen=True, slots=True)
class NoteHtml:
    """A note after Markdown."""

    html: str
    formulas: tuple[Formula, ...] = ()
    headings: tuple[Heading, ...] = ()
    references: tuple[Reference, ...] = ()
    figures: tuple[FigureUse, ...] = ()
    #: Plain text, a line for each paragraph and a form feed for each heading.
    text: str = ""
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """Where a definition is shown, and what a preview of it says."""

    definition: Definition
    #: From the site's root: ``labml_nn/transformers/mha.html#MultiHeadAttention``.
    url: str
    #: For a class: dotted names of its bases, ``""`` where one could not be resolved.
    #: For a function: the class of what it is declared to return.
    bases: tuple[str, ...] = ()
    #: For a class: attribute -> dotted name of the class it holds (``self.attn = MHA(...)``).
    #: For a module: name -> dotted name that it imports, for re-exports; and, separated by
    #: spaces, the modules of its star imports under ``*``. In both, ``""`` means something of which
    #: nothing is known.
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """An address an identifier leads to."""

    #: From the site's root, or absolute when `external`.
    url: str
    #: Dotted name; the key of the preview, and the tooltip of an external link.
    name: str
    external: bool = False


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of code, highlighted and linked."""

    number: int
    html: str
    #: What a run made of it, shown at its end; empty where there is nothing to tell.
    chip: str = ""
    #: As many columns as it takes to show the chip beside the line, rounded up; empty if there is
    #: always room, "over" if there hardly ever is.
    room: str = ""
    #: False if the runs of the module came to other lines only.
    ran: bool = True


#: In the text of a note, the place of a heading: what follows stands under it.
HEADING = "\f"


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


#: Name of a class or function at the top of a module -> addresses of what its code names, in order.
Uses = Mapping[str, tuple[str, ...]]
#: Name of a function at the top of a module -> address of the method that it is a kernel for.
Kernels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DraftSection:
    """A section whose notes are HTML with empty places for formulas, and its code's lines."""

    #: Qualified name of the class or function that it opens, or empty.
    definition: str
    notes: tuple[NoteHtml, ...]
    code: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """One page of the site, still without formulas and without knowledge of its neighbours."""

    name: str
    url: str
    display: str
    own: bool
    prose: bool
    front_matter: Mapping[str, str]
    #: Plain text, and as the head of the page shows it.
    title: str
    title_note: NoteHtml
    summary: str
    summary_note: NoteHtml
    sections: tuple[DraftSection, ...]
    warning: str
    diagnostics: tuple[Diagnostic, ...]
    #: What it asked of the index -> fingerprint of the answer.
    answers: Mapping[str, str]
    #: Digest of everything that it was made from; equal stamps are equal drafts.
    stamp: str
    #: What the classes and functions of the module use.
    uses: Uses = field(default_factory=dict)
    #: The methods that functions of the module are kernels for.
    kernels: Kernels = field(default_factory=dict)

    def notes(self) -> tuple[NoteHtml, ...]:
        """All its notes, the title and summary first."""
        sections = (note for section in self.sections for note in section.notes)
        return (self.title_note, self.summary_note, *sections)

    def formulas(self) -> list[tuple[str, bool]]:
        """The TeX of its formulas, each with whether it stands on a line of its own."""
        found = (f for note in self.notes() for f in note.formulas)
        return [(formula.marked or formula.tex, formula.display) for formula in found]

    @property
    def minutes(self) -> int:
        """How long it takes to read, at 220 words a minute, and 25 lines of code."""
        words = sum(len(note.text.split()) for note in self.notes())
        lines = sum(len(section.code) for section in self.sections)
        return max(round(words / 220 + lines / 25), 1)

    def figures(self) -> tuple[FigureUse, ...]:
        """The figures that its notes ask for."""
        return tuple(figure for note in self.notes() for figure in note.figures)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page as it was parsed: what a build keeps of it in memory."""

    #: All of it, if it is the site's own, or if the cache could not take it. Else it has no text,
    #: and names that others may link to are without what only previews tell of them.
    module: Module
    url: str
    prose: bool
    #: Digest of everything that it was parsed from.
    key: str
    #: What others may link to.
    targets: Mapping[str, Target] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    whole: bool = True

    @property
    def source(self) -> SourceFile:
        """Its source, which has its text if the leaf is whole."""
        return self.module.source

    def warning(self) -> str:
        """Why its page has no notes, when Python cannot parse the module."""
        if self.module.parsed or self.prose:
            return ""
        # In the words of the parser's complaint.
        why = next(d for d in self.diagnostics if d.code == "syntax")
        place = f"line {why.line}: " if why.line else ""
        reason = f"({place}{why.message})"
        return f"Python cannot parse this file {reason}, so its source is shown as it stands."


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
