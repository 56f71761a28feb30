"""The values that flow through the pipeline, each frozen, in the order in which they come to be.

    discover -> SourceFile
    parse    -> Module  (with its Definitions and Sections of Notes and code Spans)
    markdown -> NoteHtml (with its Formulas, Headings, References and FigureUses)
    xref     -> Target, Link
    shapes   -> ModuleShapes (in `pylit.shapes.lines`)
    figures  -> Drawn (in `pylit.figures.gallery`)
    pages    -> PageView (in `pylit.page.view`), SearchPage (in `pylit.site.search`)

Lines count from 1 everywhere; columns count from 1 in what a person reads and from 0 in offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


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
