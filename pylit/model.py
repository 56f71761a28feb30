"""The values that flow through the pipeline, each frozen, in the order in which they come to be.

    discover -> SourceFile
    parse    -> Module  (with its Definitions and Sections of Notes and code Spans)
    prose    -> NoteHtml (with its Formulas, Headings and FigureUses)
    names    -> Target, Link
    shapes   -> ModuleShapes (in `pylit.runs.shapes.lines`)
    figures  -> FigureHtml (in `pylit.runs.figures`)
    pages    -> PageView (in `pylit.pages.render`), SearchPage (in `pylit.outputs.search`)

Lines count from 1 everywhere; columns count from 1 in what a person reads and from 0 in offsets.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from pylit.cache import digest
from pylit.diagnostics import Diagnostic

#: The styles that `docstrings` in the settings may name; ``auto`` chooses for each docstring.
DIALECTS = ("auto", "markdown", "numpy", "google", "sphinx")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was read: decoded, without a byte order mark, lines ended by ``\\n``."""

    path: Path
    #: Dotted name, found from the packages around it: ``package.module``.
    name: str
    #: As shown to readers and in diagnostics, POSIX: ``package/module.py``.
    display: str
    #: Whether it is a package's ``__init__.py``.
    is_package: bool
    #: Whether it belongs to the site: then raw HTML in its notes is trusted, and faults in its
    #: content are errors. In another's package they are warnings, and HTML is escaped.
    own: bool
    text: str
    #: SHA-256 of the bytes on disk.
    digest: str
    #: The dialect of its notes, one of `DIALECTS`.
    docstrings: str = "markdown"

    @property
    def strict(self) -> bool:
        """Whether faults in its notes are errors: its author has said how they are written."""
        return self.own and self.docstrings != "auto"

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

    Line ``i`` of `text` (counted from 0) is source line ``first_line + i``, always:
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
    #: Where it is written, as diagnostics name it, if it stands apart from its code; and of a
    #: translation the anchors of its headings, which are those of the original.
    path: str = ""
    anchors: tuple[str, ...] = ()
    #: Its language, where that is not the language of its page.
    language: str = ""


DefinitionKind = Literal["module", "class", "function", "method", "constant"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A thing with a name that pages can link to."""

    kind: DefinitionKind
    module: str
    #: Name inside the module, ``Layer.forward``; empty for the module itself.
    qualname: str
    line: int
    #: Header as one line, ``forward(self, *, query: Tensor)``; empty for a module.
    signature: str

    @property
    def dotted(self) -> str:
        """Full name, ``package.module.Layer.forward``."""
        return f"{self.module}.{self.qualname}" if self.qualname else self.module


@dataclass(frozen=True, slots=True)
class Section:
    """Notes and the code beside them; either may be missing, never both."""

    notes: tuple[Note, ...]
    code: Span | None
    #: Qualified name of the class or function whose header `code` holds, else empty.
    definition: str = ""
    #: What its code is, if the page folds it: names that it defines, or its first words.
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """The package of a module that others have written, as it is installed."""

    name: str
    version: str
    license: str
    #: The versions that the notes were written for, whether this is one of them, and how many notes
    #: speak of what it does not have.
    versions: str
    fits: bool
    left: int = 0
    #: The address of the file in this version.
    url: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed module. Its sections, put together, hold every line of the file but blank ones."""

    source: SourceFile
    front_matter: Mapping[str, str]
    definitions: tuple[Definition, ...]
    sections: tuple[Section, ...]
    #: False when the module has a syntax error: then it is one section of code without notes.
    parsed: bool = True
    #: The names in its ``__all__``.
    exported: frozenset[str] = frozenset()
    #: The file of its notes, if they are a translation.
    translation: SourceFile | None = None
    #: The file of notes on the code of others, which has the front matter, too; and whose code.
    apart: SourceFile | None = None
    package: Package | None = None

    @property
    def written(self) -> SourceFile:
        """The file in which the notes are written."""
        return self.translation or self.headed

    @property
    def headed(self) -> SourceFile:
        """The file that has the front matter."""
        return self.apart or self.source

    def is_public(self, qualname: str) -> bool:
        """Whether a definition is for users: by its name, and by ``__all__`` if there is one."""
        names = qualname.split(".")
        hidden = any(name.startswith("_") for name in names)
        return not hidden and (not self.exported or names[0] in self.exported)


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
    """The placeholder of formula `index` until mathematics is rendered.

    Private-use characters, which the Markdown stage removes from what authors write.
    """
    return f"\ue000{index}\ue001"


#: The result of a function of ``docs_src/figures``, and its block in a note.
FigureKind = Literal["figure", "table"]


@dataclass(frozen=True, slots=True)
class FigureUse:
    """A block of a note that includes a figure or a table."""

    #: File and function, ``masks.causal``.
    name: str
    line: int
    column: int
    kind: FigureKind = "figure"


def figure_slot(name: str, part: Literal["picture", "below"]) -> str:
    """The placeholder of a part of a figure until its page is finished."""
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
class NoteHtml:
    """A note after Markdown."""

    html: str
    formulas: tuple[Formula, ...] = ()
    headings: tuple[Heading, ...] = ()
    #: PageAddresses of links and images as written, each with its line.
    references: tuple[tuple[str, int], ...] = ()
    figures: tuple[FigureUse, ...] = ()
    #: Plain text, a line for each paragraph and a form feed for each heading.
    text: str = ""
    #: Keys of works, each with its line.
    citations: tuple[tuple[str, int], ...] = ()
    #: Exercises: number, question and hint as in `html`, and whether there is an answer.
    exercises: tuple[tuple[str, str, bool], ...] = ()
    #: Terms of the glossary: anchor, name and meaning as in `html`.
    terms: tuple[tuple[str, str, str], ...] = ()
    #: Its first paragraph, as in `html`; empty if there is none before a list of parameters.
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a definition, and what other modules resolve by it."""

    definition: Definition
    #: From the site's root: ``package/module.html#Layer``.
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
    """The target of an identifier in code."""

    #: From the site's root, or absolute when `external`.
    url: str
    #: Dotted name; the key of the preview, and the tooltip of an external link.
    name: str
    external: bool = False


class CodeLine(NamedTuple):
    """One line of code, highlighted and linked."""

    number: int
    html: str


#: From how many minutes on a first reading is long enough to have an end.
LONG_READING = 3
#: In the text of a note, the position of a heading.
HEADING = "\f"
#: Characters of scripts that write no spaces between words.
HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class PageLink:
    """Another page, by address and title."""

    url: str
    title: str
    summary: str = ""
    notebook: str = ""
    #: Anchor of its heading "Try it", if it has one.
    demo: str = ""
    #: The address of its paper.
    paper: str = ""
    #: Reading time of its first part.
    minutes: int = 0


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Pages under one title: a part of the catalogue, or a reading path in its order."""

    title: str
    summary: str
    pages: tuple[PageLink, ...]
    #: What one should know before, and whether the home page shows its title alone.
    needs: str = ""
    brief: bool = False
    #: Where it is listed: the same anchor in all languages.
    anchor: str = ""

    @property
    def count(self) -> int:
        """How many pages it has."""
        return len(self.pages)

    def bare(self) -> "PageGroup":
        """The addresses and titles alone, which an edit to a summary does not change."""
        pages = (PageLink(page.url, page.title) for page in self.pages)
        return PageGroup(self.title, "", tuple(pages))


@dataclass(frozen=True, slots=True)
class SiteView:
    """The site as every template reads it."""

    title: str
    summary: str
    #: Absolute, ends with ``/``; for canonical addresses and the sitemap only.
    base_url: str
    repository_url: str
    language: str
    catalogue: tuple[PageGroup, ...]
    paths: tuple[PageGroup, ...]
    #: Pages that `site.toml` does not name, by folder.
    other_pages: tuple[PageGroup, ...] = ()
    #: Where all pages are listed: on a site with reading paths, a page beside the home page.
    index: str = "index.html"
    #: Whether the packages of npm are missing, and so fonts and the pictures of pages.
    without_assets: bool = False
    #: A rule of style with the author's colour, and the address of a picture; both may be empty.
    accent: str = ""
    logo: str = ""
    #: What the addresses of its pages begin with: ``zh/`` for the pages in Chinese.
    prefix: str = ""
    version: str = ""
    #: What the search offers to ask.
    questions: tuple[str, ...] = ()
    #: What the menu of every page lists: its reading paths, else the groups of its pages.
    menu: tuple[PageGroup, ...] = ()
    #: Whether those are reading paths, whose pages have numbers.
    numbered: bool = False
    #: What the footer says: what it is, who wrote it, its licence, and the day of its sources.
    about: str = ""
    authors: str = ""
    license: str = ""
    date: str = ""
    #: Address of its changelog, if it has one.
    changelog: str = ""
    #: How the package is installed.
    install: str = ""
    #: What the bar leads to: titles and addresses.
    bar: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The pages before and after one page, and what they are neighbours in."""

    previous: PageLink | None = None
    next: PageLink | None = None
    path_title: str = ""
    #: Which of how many pages it is, in a reading path.
    number: int = 0
    total: int = 0


Uses = Mapping[str, tuple[str, ...]]
Decorated = Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class DraftSection:
    """A section whose notes are HTML with empty places for formulas, and its code's lines."""

    #: Qualified name of the class or function that it opens, or empty.
    definition: str
    notes: tuple[NoteHtml, ...]
    code: tuple[CodeLine, ...]
    #: What its code is, if it is folded, and where: a long one has no lines here.
    folded: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Translation:
    """What a page in another language is a translation of."""

    language: str
    #: The address of the original.
    original: str
    #: The file that it is written in; none of a page that is put together of others.
    file: str = ""
    #: The passages of the original, and how many of them are shown as they are.
    total: int = 0
    left: int = 0
    #: The texts of its replay, by what they are in the original.
    replay: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """One page of the site, still without formulas and without knowledge of its neighbours."""

    name: str
    url: str
    display: str
    own: bool
    prose: bool
    #: Plain text; `title_note` and `summary_note` have the HTML.
    title: str
    title_note: NoteHtml
    summary: str
    summary_note: NoteHtml
    sections: tuple[DraftSection, ...]
    front_matter: Mapping[str, str] = field(default_factory=dict)
    #: Why the page has no notes.
    warning: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    #: Each name looked up in the index -> fingerprint of the result.
    answers: Mapping[str, str] = field(default_factory=dict)
    #: Digest of everything that it was made from; equal stamps are equal drafts.
    stamp: str = ""
    #: Class or function at the top of the module -> addresses of what its code names, in order.
    uses: Uses = field(default_factory=dict)
    #: Class or function at the top of the module -> its decorators that take another definition as
    #: their first argument: their names, and the addresses of those.
    decorated: Decorated = field(default_factory=dict)
    translation: Translation | None = None
    package: Package | None = None

    @property
    def original(self) -> str:
        """The address of the page that this one translates: without a translation, its own."""
        return self.translation.original if self.translation else self.url

    def notes(self) -> tuple[NoteHtml, ...]:
        """All its notes, the title and summary first."""
        sections = (note for section in self.sections for note in section.notes)
        return (self.title_note, self.summary_note, *sections)

    def formulas(self) -> list[tuple[str, bool]]:
        """The TeX of its formulas, each with whether it is a display formula."""
        found = (f for note in self.notes() for f in note.formulas)
        return [(formula.marked or formula.tex, formula.display) for formula in found]

    @property
    def minutes(self) -> int:
        """Reading time of all of it."""
        return max(round(_minutes(self.notes(), self._lines)), 1)

    @property
    def _lines(self) -> int:
        return sum(len(section.code) for section in self.sections if not section.folded)

    def parts(self) -> tuple[Sequence[DraftSection], ...]:
        """Its sections: up to its first code, with code, and after the last of it."""
        coded = [n for n, section in enumerate(self.sections) if section.code or section.folded]
        first, end = (coded[0], coded[-1] + 1) if coded else (len(self.sections),) * 2
        # The imports of a module stand beside its introduction.
        first += bool(coded) and not self.sections[first].definition
        return self.sections[:first], self.sections[first:end], self.sections[end:]

    def minutes_of_parts(self) -> list[int]:
        """Reading time of each of its `parts`; 0 where there is nothing."""
        notes = [[note for section in part for note in section.notes] for part in self.parts()]
        found = [_minutes(*part) for part in zip(notes, (0, self._lines, 0), strict=True)]
        return [max(round(part), 1) if part else 0 for part in found]

    @property
    def first_reading(self) -> int:
        """Reading time of what stands before the code, where that is long enough to have an end; 0
        elsewhere.
        """
        minutes, code, _ = (0, 0, 0) if self.prose or not self.own else self.minutes_of_parts()
        return minutes if code and minutes >= LONG_READING else 0

    def figures(self) -> tuple[FigureUse, ...]:
        """The figures of its notes."""
        return tuple(figure for note in self.notes() for figure in note.figures)


def _minutes(notes: Iterable[NoteHtml], lines: int) -> float:
    """Reading time, at 220 words, 370 Chinese characters or 25 lines of code a minute."""
    words = 0.0
    for note in notes:
        rest, characters = HAN.subn(" ", note.text)
        words += len(rest.split()) + characters * 220 / 370
    return words / 220 + lines / 25


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A parsed page, as a build has it in memory."""

    #: Whole for a page of the site's own, and without a cache. Else it has no text, and its
    #: targets have no signatures, which only previews show.
    module: Module
    url: str
    prose: bool
    #: Digest of everything that it was parsed from.
    key: str
    #: What others may link to.
    targets: Mapping[str, Target] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    whole: bool = True
    translation: Translation | None = None

    @property
    def source(self) -> SourceFile:
        """Its source, which has its text if the page is whole."""
        return self.module.source

    def warning(self) -> str:
        """Why its page has no notes, when Python cannot parse the module."""
        if self.module.parsed or self.prose:
            return ""
        why = next(d for d in self.diagnostics if d.code in ("syntax", "page-failed"))
        if why.code == "page-failed":
            return f"This file is shown unchanged: {why.message}."
        place = f"line {why.line}: " if why.line else ""
        reason = f"({place}{why.message})"
        return f"Python cannot parse this file {reason}, so its source is shown unchanged."


#: A page, and the draft of it.
GeneratedPage = tuple[ParsedPage, Draft]


def generated_page(
    url: str, title: str, summary: str, notes: Sequence[NoteHtml] = ()
) -> GeneratedPage:
    """The page at an address of the site, with its notes in order."""
    name = url.removesuffix(".html")
    heads = [NoteHtml(html.escape(text), text=text) for text in (title, summary)]
    section = DraftSection("", tuple(notes), ())
    stamp = digest("generated_page", url, title, summary, repr(tuple(notes)))
    draft = Draft(
        name, url, url, True, True, title, heads[0], summary, heads[1], (section,), stamp=stamp
    )
    source = SourceFile(Path(url), name, url, False, True, "", "")
    return ParsedPage(Module(source, {}, (), (Section((), None),)), url, True, stamp), draft
