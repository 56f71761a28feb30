"""A page before mathematics and neighbours: all that one source, and what it asks of others, gives.

A draft is the unit of reuse. It depends on its own source and on the answers that the index of
definitions gave while it was made; both are kept with it. As long as a new index gives the same
answers, the draft is what a fresh run would make, so an edit elsewhere costs this page nothing.
"""

import html
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pylit.cache import digest
from pylit.code.cpp import cpp_links, is_cpp
from pylit.code.highlight import highlight
from pylit.code.resolve import Kernels, Resolver, Uses
from pylit.code.values import Index, Lookup
from pylit.diagnostics import Diagnostic, Report
from pylit.model import (
    CodeLine,
    Definition,
    FigureUse,
    Link,
    Module,
    Note,
    NoteHtml,
    SourceFile,
    Target,
)
from pylit.page.render import relative
from pylit.prose.glossary import GLOSSARY, SIGN, Terms
from pylit.prose.markdown import MarkdownRenderer, NoteContext, Slugs
from pylit.prose.works import find_work
from pylit.site.addresses import HOME
from pylit.site.symbols import page_symbols

#: Answers that are remembered; in the next ten thousand modules most names are others.
MOST_ANSWERS = 50_000
#: Characters of the text that stands for a summary.
LONGEST_OPENING = 200
_IDS = """
    help help-button help-title main-content outline outline-button outline-title results search
    search-button shapes-button single-keys theme-button wrap-button
"""
#: Element ids of the templates, which headings must not take.
TEMPLATE_IDS = frozenset(_IDS.split())
#: A heading of level 1 that opens a text, in both of Markdown's forms.
#: In reStructuredText a title often has a line above it too.
_H1 = re.compile(
    r"\s*(?:#[ \t]+(?P<atx>[^\n]*\S)"
    r"|(?:=+[ \t]*\n[ \t]*)?(?P<setext>[^\s=#>|`~-][^\n]*)\n=+)[ \t]*(?:\n|$)"
)
_FILE = re.compile(r"[^\s:?#]+\.(?:py|md|h|cpp)")
_PARAGRAPH = re.compile(r"\s*<p>((?:(?!</?p\b).)*)</p>\s*", re.DOTALL)


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


class Answers:
    """A lookup that tells nothing that would make pages depend on more than they show.

    A link needs a name and an address. The line, the signature and the summary of a definition
    are for previews, which are a file of their own: they are left out, so that an edit to a
    docstring does not touch the pages that link to it.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: dict[str, tuple[Target | None, str]] = {}

    def _answer(self, dotted: str) -> tuple[Target | None, str]:
        if dotted not in self._known:
            if len(self._known) > MOST_ANSWERS:
                self._known.clear()
            found = self._lookup(dotted)
            if found is not None:
                bare = replace(found.definition, line=0, signature="", summary="")
                found = replace(found, definition=bare) if bare != found.definition else found
            self._known[dotted] = (found, "" if found is None else fingerprint(found))
        return self._known[dotted]

    def recorder(self, asked: dict[str, str]) -> Lookup:
        """A lookup that writes down in `asked` what it answers."""

        def lookup(dotted: str) -> Target | None:
            target, asked[dotted] = self._answer(dotted)
            return target

        return lookup

    def hold(self, answers: Mapping[str, str]) -> bool:
        """Whether the index still answers as it did."""
        return all(self._answer(dotted)[1] == answer for dotted, answer in answers.items())


def fingerprint(target: Target) -> str:
    """Differs where drafts would: see `Answers`."""
    definition = target.definition
    names = sorted(target.attributes.items())
    parts = (definition.kind, definition.dotted, target.url, *target.bases, repr(names))
    return digest(*parts)[:20]


def _alike(some: Mapping[str, Target], others: Mapping[str, Target]) -> bool:
    """Whether two collections of targets give the same answers."""
    return some.keys() == others.keys() and all(
        one is others[name] or fingerprint(one) == fingerprint(others[name])
        for name, one in some.items()
    )


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


#: The targets of the last build of this process, and what they answered.
_before: list[tuple[Mapping[str, Target], Answers]] = []


class Drafter:
    """Makes drafts; one per process, given the targets of all modules.

    Most edits change no definition: then the answers of the build before are known already.
    """

    def __init__(self, targets: Mapping[str, Target]) -> None:
        if not (_before and _alike(_before[0][0], targets)):
            _before[:] = [(targets, Answers(Index(targets).lookup))]
        self.answers = _before[0][1]

    def __call__(self, leaf: Leaf) -> Draft:
        """The draft of one module or prose page."""
        asked: dict[str, str] = {}
        page = _Page(leaf, self.answers.recorder(asked))
        draft = page.prose() if leaf.prose and not page.is_code else page.module()
        stamp = digest(leaf.key, *(f"{name}={asked[name]}" for name in sorted(asked)))
        return replace(draft, answers=asked, stamp=stamp)


class _Page:
    """The making of one draft: the renderers of one page, and its list of faults."""

    def __init__(self, leaf: Leaf, lookup: Lookup) -> None:
        self.leaf = leaf
        self.source: SourceFile = leaf.module.source
        self.report = Report()
        self.is_code = is_cpp(self.source.name)
        self.lookup = lookup
        self.resolver = Resolver(leaf.module, lookup)
        self.symbols = page_symbols(leaf.module, self.resolver, self.report)
        self.markdown = MarkdownRenderer(self.source.own)
        self.terms = self._terms()
        names = {section.definition for section in leaf.module.sections}
        self.slugs = Slugs(names | TEMPLATE_IDS)
        self.heading: NoteHtml | None = None
        self.begun = False

    def _terms(self) -> Terms | None:
        """The terms of the glossary that the notes of this page may link to."""
        url = self.leaf.url
        if not self.source.own or url in (HOME, GLOSSARY):
            return None
        return Terms(self.lookup(SIGN), self.source.display, relative(url, GLOSSARY))

    def module(self) -> Draft:
        """Notes beside highlighted code."""
        links = cpp_links(self.source, self.lookup) if self.is_code else self.resolver.tokens()
        language = "cpp" if self.is_code else "python"
        lines = highlight(self.source.text, links, self._href, self.symbols.code, language)
        sections = []
        for section in self.leaf.module.sections:
            notes = tuple(self._note(note, section.definition) for note in section.notes)
            span = section.code
            numbers = range(span.first, span.last + 1) if span else range(0)
            code = tuple(CodeLine(number, lines[number - 1]) for number in numbers)
            sections.append(DraftSection(section.definition, notes, code))
        uses, kernels = self.resolver.uses(links), self.resolver.kernels(links)
        return replace(self._draft(sections), uses=uses, kernels=kernels)

    def prose(self) -> Draft:
        """A Markdown page: its text is the one note of its module."""
        (section,) = self.leaf.module.sections
        return self._draft([DraftSection("", (self._note(section.notes[0], ""),), ())])

    def _note(self, note: Note, within: str) -> NoteHtml:
        """A note as HTML; a heading of level 1 that opens the page becomes its title."""
        text, first_line = note.text, note.first_line
        heading = None if self.begun else _H1.match(text)
        self.begun = True
        if heading:
            written = (heading["atx"] or heading["setext"]).rstrip("#").strip()
            self.heading = self._title(written, first_line)
            text, first_line = text[heading.end() :], first_line + heading[0].count("\n")
        shown = self._render(text, first_line, note.column, within)
        if note.behind:
            behind = f'<p class="behind"><code>{html.escape(note.behind, quote=False)}</code></p>\n'
            shown = replace(shown, html=shown.html + behind)
        return shown

    def _draft(self, sections: list[DraftSection]) -> Draft:
        front_matter = self.leaf.module.front_matter
        name = self.source.name
        title_note = self.heading or NoteHtml(html.escape(name), text=name)
        title = title_note.text
        if front_matter.get("title"):
            note = self._title(front_matter["title"], self._line_of("title"))
            title, title_note = note.text, self.heading or note
        summary_note = NoteHtml("")
        if front_matter.get("summary"):
            summary_note = self._paragraph(front_matter["summary"], self._line_of("summary"))
        return Draft(
            name=name,
            url=self.leaf.url,
            display=self.source.display,
            own=self.source.own,
            prose=self.leaf.prose and not self.is_code,
            front_matter=front_matter,
            title=" ".join(title.split()),
            title_note=title_note,
            summary=" ".join(summary_note.text.split()) or self._opening(sections),
            summary_note=summary_note,
            sections=tuple(s for s in sections if s.code or any(n.html for n in s.notes)),
            warning=self.leaf.warning(),
            diagnostics=tuple(self.report),
            answers={},
            stamp="",
        )

    def _opening(self, sections: list[DraftSection]) -> str:
        """The first paragraph of a page without a summary: of its docstring, if it has one.

        What stands above a docstring is a licence more often than not.
        """
        docstrings = []
        for shown, section in zip(sections, self.leaf.module.sections, strict=True):
            if section.definition:
                break
            notes = zip(section.notes, shown.notes, strict=True)
            docstrings += [note.text for written, note in notes if written.kind == "docstring"]
        opening = [note.text for section in sections[:1] for note in section.notes]
        return first_words([*docstrings, *opening])

    def _title(self, text: str, line: int) -> NoteHtml:
        """A title, rendered as a heading is, so that ``1. Attention`` is no list."""
        note = self._render(f"# {' '.join(text.split())}", line, 0, "", Slugs())
        if not note.headings:
            return NoteHtml(html.escape(text), text=text)
        heading = note.headings[0]
        return replace(note, html=heading.html, text=heading.text, headings=())

    def _paragraph(self, text: str, line: int) -> NoteHtml:
        """A value of the front matter, without a paragraph around it."""
        note = self._render(text, line, 0, "", Slugs())
        inner = _PARAGRAPH.fullmatch(note.html)
        return replace(note, html=inner[1] if inner else note.html, headings=())

    def _line_of(self, key: str) -> int:
        opening = re.compile(rf"\s*{key}\s*:")
        lines = enumerate(self.source.lines, start=1)
        return next((number for number, line in lines if opening.match(line)), 1)

    def _render(
        self, text: str, first_line: int, column: int, within: str, slugs: Slugs | None = None
    ) -> NoteHtml:
        context = NoteContext(
            path=self.source.display,
            first_line=first_line,
            column=column,
            slugs=slugs or self.slugs,
            link=lambda written: (
                self._file(written) or self.resolver.inline(written, within=within)
            ),
            href=self._href,
            report=self.report,
            terms=None if slugs else self.terms,
            classes=self.symbols.names,
            cite=lambda key: find_work(key, self.lookup, partial(relative, self.leaf.url)),
        )
        return self.symbols.mark(self.markdown.render(text, context))

    def _file(self, written: str) -> Link | None:
        """The page of a source file, by its path as seen from this source or from this page."""
        if not _FILE.fullmatch(written):
            return None
        for start in (self.source.display, self.leaf.url):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(start), written))
            is_python = path.endswith(".py")
            target = self.lookup(_dotted(path) if is_python else path)
            if target is not None:
                name = target.definition.dotted if is_python else ""
                return Link(target.url, name)
        return None

    def _href(self, link: Link) -> str:
        return link.url if link.external else relative(self.leaf.url, link.url)


def prose_target(source: SourceFile, url: str) -> Target:
    """What a link to a Markdown file leads to; it is looked up by the file's path."""
    return Target(Definition("module", source.display, "", 1, "", ""), url)


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def first_words(texts: Iterable[str]) -> str:
    """The first paragraph with words in it; of a long one, the words that fit."""
    paragraphs = (line for text in texts for line in text.split("\n"))
    words = next(filter(None, (" ".join(line.split()) for line in paragraphs)), "")
    if len(words) <= LONGEST_OPENING:
        return words
    # One character more shows whether the last word is whole; an endless word has no end to keep.
    whole = words[: LONGEST_OPENING + 1].rpartition(" ")[0]
    return (whole or words[:LONGEST_OPENING]).rstrip(" ,;:") + " …"
