"""A page without formulas and neighbours: what follows from its source, and from other definitions.

A draft is the unit of reuse. It depends on its own source and on the results of its lookups in the
index of definitions, which it has with it. As long as a new index gives the same results, the draft
is what a fresh run would make, so an edit elsewhere costs this page nothing.
"""

import html
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from urllib.parse import urljoin

from pylit.addresses import GITHUB, HOME, Anchors, is_cpp, relative
from pylit.cache import digest
from pylit.diagnostics import Report, page_failed
from pylit.model import (
    CodeLine,
    Definition,
    Draft,
    DraftSection,
    Link,
    Note,
    NoteHtml,
    ParsedPage,
    SourceFile,
    Span,
    Target,
    generated_page,
)
from pylit.notes.citations import find_work
from pylit.notes.glossary import GLOSSARY, SIGN, Terms
from pylit.notes.markdown import NoteContext, render_note
from pylit.notes.symbols import page_symbols
from pylit.notes.tones import NO_TONES, read_tones
from pylit.source.cpp import cpp_links
from pylit.source.highlight import escape, highlight, quiet_spans
from pylit.source.names import Index, Lookup, Resolver
from pylit.words import NO_WORDS, Words

#: Results of lookups in memory; in the next ten thousand modules most names are others.
MAX_ANSWERS = 50_000
#: Characters of a summary that is made from the opening of a page.
MAX_OPENING = 200
#: Lines of the code of others that a page folds. Of more it has the numbers, and links the file.
MAX_FOLDED = 1200
_IDS = """
    answer ask forget help help-button help-title keys-button line-by-line main-content menu
    menu-button outline outline-button outline-title pages report results search search-button
    shapes-button start step-through theme-button wrap-button
"""
#: Element ids of the templates, which headings must not take.
TEMPLATE_IDS = frozenset(_IDS.split())
#: A heading of level 1 that opens a text, in both of Markdown's forms.
#: In reStructuredText a title often has a line above it too.
_H1 = re.compile(
    r"\s*(?:#[ \t]+(?P<atx>[^\n]*\S)"
    r"|(?:=+[ \t]*\n[ \t]*)?(?P<setext>[^\s=#>|`~-][^\n]*)\n=+)[ \t]*(?:\n|$)"
)
#: Addresses, links of terms and anchors in HTML.
_ADDRESS = re.compile(r'(<[^>]* (?:href|src)=")([^"]*)"')
_TERM = re.compile(r'<a class="x g"[^>]*>(.*?)</a>')
_ID = re.compile(r' id="[^"]*"')
_FILE = re.compile(r"[^\s:?#]+\.(?:py|md|h|cpp)")
_PARAGRAPH = re.compile(r"\s*<p>((?:(?!</?p\b).)*)</p>\s*", re.DOTALL)


class Drafter:
    """Makes drafts in one language, given the targets of all modules."""

    def __init__(self, targets: Mapping[str, Target], words: Words = NO_WORDS) -> None:
        self._targets, self._index, self._words = targets, Index(targets), words
        self._known: dict[str, tuple[Target | None, str]] = {}

    def accepts(self, targets: Mapping[str, Target], words: Words) -> bool:
        """Whether its results are those of a drafter for other targets and words."""
        return (
            self._words == words
            and self._targets.keys() == targets.keys()
            and all(
                old is targets[name] or _fingerprint(old) == _fingerprint(targets[name])
                for name, old in self._targets.items()
            )
        )

    def _look_up(self, dotted: str) -> tuple[Target | None, str]:
        """What the index has for a name, and its fingerprint."""
        if dotted not in self._known:
            if len(self._known) > MAX_ANSWERS:
                self._known.clear()
            found = self._index.lookup(dotted)
            self._known[dotted] = found and bare(found), _fingerprint(found) if found else ""
        return self._known[dotted]

    def is_current(self, draft: Draft) -> bool:
        """Whether the index still gives the results that a draft was made from."""
        return all(self._look_up(name)[1] == was for name, was in draft.answers.items())

    def __call__(self, parsed: ParsedPage) -> Draft:
        """The draft of one module or prose page."""
        answers: dict[str, str] = {}

        def lookup(dotted: str) -> Target | None:
            target, answers[dotted] = self._look_up(dotted)
            return target

        page = _Page(parsed, lookup, self._words)
        draft = page.prose() if parsed.prose and not page.is_code else page.module()
        stamp = digest(parsed.key, *(f"{name}={answers[name]}" for name in sorted(answers)))
        return replace(draft, answers=answers, stamp=stamp, translation=parsed.translation)


def bare(target: Target) -> Target:
    """What links and relations need of a target.

    The line and the signature of a definition are for previews, which are a file of their own.
    """
    definition = target.definition
    # Relations leave out what returns nothing.
    signature = "-> None" if definition.signature.endswith("-> None") else ""
    return replace(target, definition=replace(definition, line=0, signature=signature))


def _fingerprint(target: Target) -> str:
    definition = target.definition
    parts = (definition.kind, definition.dotted, target.url, *target.bases)
    return digest(*parts, repr(sorted(target.attributes.items())))[:20]


#: The drafters of the last build in this process, by language.
_last: dict[str, Drafter] = {}


def drafter_for(
    targets: Mapping[str, Target], language: str = "", words: Words = NO_WORDS
) -> Drafter:
    """A drafter for the targets of all modules: the last one, if no definition has changed."""
    if language not in _last or not _last[language].accepts(targets, words):
        _last[language] = Drafter(targets, words)
    return _last[language]


class _Page:
    """The making of one draft: the renderers of one page, and its list of faults."""

    def __init__(self, parsed: ParsedPage, lookup: Lookup, words: Words) -> None:
        self.parsed, self.words = parsed, words
        self.source: SourceFile = parsed.module.source
        self.report = Report()
        self.is_code = is_cpp(self.source.display)
        self.lookup = lookup
        self.resolver = Resolver(parsed.module, lookup)
        self.symbols = page_symbols(parsed.module, self.resolver, self.report, words)
        #: The terms of the glossary that the notes of this page may link to.
        self.terms: Terms | None = None
        original = parsed.translation.original if parsed.translation else parsed.url
        if self.source.own and original not in (HOME, GLOSSARY):
            terms = lookup(SIGN)
            address = relative(parsed.url, terms.url if terms else GLOSSARY)
            self.terms = Terms(terms, self.source.display, address)
        names = {section.definition for section in parsed.module.sections}
        self.anchors = Anchors(names | TEMPLATE_IDS, github=self.source.docstrings == GITHUB)
        self.heading: NoteHtml | None = None
        self.begun = False
        #: The colours of roles, until the first code.
        self.tones = read_tones(parsed.module.front_matter.get("tones", ""))

    def module(self) -> Draft:
        """Notes beside highlighted code."""
        links = cpp_links(self.source, self.lookup) if self.is_code else self.resolver.tokens()
        language = "cpp" if self.is_code else "python"
        tree = self.resolver.scopes.tree
        quiet = {} if self.is_code else quiet_spans(tree, self.source.lines)
        lines = highlight(self.source.text, links, self._href, self.symbols.code, language, quiet)
        plain = [escape(line) for line in self.source.lines]
        sections = []
        for section in self.parsed.module.sections:
            span = section.code
            self.tones = NO_TONES if section.definition else self.tones
            notes = tuple(self._note(note, section.definition) for note in section.notes)
            self.tones = NO_TONES if span else self.tones
            numbers = range(span.first, span.last + 1) if span else range(0)
            if section.folded and len(numbers) > MAX_FOLDED:
                numbers = range(0)
            shown = plain if section.folded else lines
            code = tuple(CodeLine(number, shown[number - 1]) for number in numbers)
            sections.append(DraftSection(section.definition, notes, code, section.folded, span))
        if self.parsed.module.package:
            return self._draft(sections)
        uses, decorated = self.resolver.uses(links), self.resolver.decorated(links)
        return replace(self._draft(sections), uses=uses, decorated=decorated)

    def prose(self) -> Draft:
        """A Markdown page: its text is the one note of its module."""
        (section,) = self.parsed.module.sections
        notes = tuple(self._note(note, "") for note in section.notes)
        return self._draft([DraftSection("", notes, ())])

    def _note(self, note: Note, within: str) -> NoteHtml:
        """A note as HTML; a heading of level 1 that opens the page becomes its title."""
        text, first_line = note.text, note.first_line
        heading = None if self.begun else _H1.match(text)
        self.begun = True
        if heading:
            written = (heading["atx"] or heading["setext"]).rstrip("#").strip()
            self.heading = self._title(written, first_line)
            text, first_line = text[heading.end() :], first_line + heading[0].count("\n")
        # On GitHub the title is a heading among others.
        top = self.heading.text if heading and self.heading and self.anchors.github else ""
        named = f'<span id="{html.escape(self.anchors.slug(top)[0])}"></span>' if top else ""
        note = replace(note, text=text, first_line=first_line)
        shown = self._render(note, within)
        body = named + shown.html
        for old, new in self.anchors.renamed.items() if self.anchors.github else ():
            body = body.replace(f'href="#{old}"', f'href="#{new}"')
        shown = replace(shown, html=body)
        if note.language:
            wrapped = f'<div class="original" lang="{note.language}">\n{shown.html}</div>\n'
            shown = replace(shown, html=wrapped)
        if note.behind:
            behind = f'<p class="behind"><code>{html.escape(note.behind, quote=False)}</code></p>\n'
            shown = replace(shown, html=shown.html + behind)
        return shown

    def _draft(self, sections: list[DraftSection]) -> Draft:
        front_matter = self.parsed.module.front_matter
        name = self.source.name
        # A long name breaks after a dot.
        broken = html.escape(name).replace(".", ".<wbr>")
        title_note = self.heading or NoteHtml(broken, text=name)
        title = title_note.text
        if front_matter.get("title"):
            note = self._title(front_matter["title"], self._line_of("title"))
            title, title_note = note.text, self.heading or note
        summary_note = NoteHtml("")
        if front_matter.get("summary"):
            summary_note = self._paragraph(front_matter["summary"], self._line_of("summary"))
        return Draft(
            name=name,
            url=self.parsed.url,
            display=self.source.display,
            own=self.source.own,
            prose=self.parsed.prose and not self.is_code,
            title=" ".join(title.split()),
            title_note=title_note,
            summary=" ".join(summary_note.text.split()) or self._opening(sections),
            summary_note=summary_note,
            sections=tuple(
                s for s in sections if s.code or s.folded or any(n.html for n in s.notes)
            ),
            front_matter=front_matter,
            warning=self.parsed.warning(),
            diagnostics=tuple(self.report),
            package=self.parsed.module.package,
        )

    def _opening(self, sections: list[DraftSection]) -> str:
        """The first paragraph of a page without a summary: of its docstring, if it has one.

        A comment above a docstring is a licence more often than not.
        """
        written = takewhile(lambda section: not section.definition, self.parsed.module.sections)
        pairs = [
            (note.kind, shown.text)
            for section, draft in zip(written, sections, strict=False)
            for note, shown in zip(section.notes, draft.notes, strict=True)
        ]
        first = [note.text for section in sections[:1] for note in section.notes]
        return first_words([*(text for kind, text in pairs if kind == "docstring"), *first])

    def _title(self, text: str, line: int) -> NoteHtml:
        """A title, rendered as a heading is, so that ``1. Attention`` is no list."""
        note = self._line(f"# {' '.join(text.split())}", line)
        if not note.headings:
            return NoteHtml(html.escape(text), text=text)
        heading = note.headings[0]
        return replace(note, html=heading.html, text=heading.text, headings=())

    def _paragraph(self, text: str, line: int) -> NoteHtml:
        """A value of the front matter, without a paragraph around it."""
        note = self._line(text, line)
        inner = _PARAGRAPH.fullmatch(note.html)
        return replace(note, html=inner[1] if inner else note.html, headings=())

    def _line_of(self, key: str) -> int:
        opening = re.compile(rf"\s*{key}\s*:")
        lines = enumerate(self.parsed.module.headed.lines, start=1)
        return next((number for number, line in lines if opening.match(line)), 1)

    def _line(self, text: str, line: int) -> NoteHtml:
        """A line of the front matter, whose headings are none of the page."""
        return self._render(Note("docstring", Span(line, line), text, line, 0), "", Anchors())

    def _render(self, note: Note, within: str, anchors: Anchors | None = None) -> NoteHtml:
        context = NoteContext(
            path=note.path or self.parsed.module.headed.display,
            first_line=note.first_line,
            column=note.column,
            own=self.source.own,
            anchors=anchors or self.anchors,
            link=lambda written: (
                self._file(written) or self.resolver.inline(written, within=within)
            ),
            href=self._href,
            # The faults of an original are told of its own page.
            report=Report() if note.language else self.report,
            terms=None if anchors else self.terms,
            tones=NO_TONES if anchors else self.tones,
            classes=self.symbols.names,
            docstrings=self.source.docstrings,
            cite=lambda key: find_work(key, self.lookup, partial(relative, self.parsed.url)),
            slugs=note.anchors,
            words=self.words if not note.language else {},
            moved=self._moved,
        )
        return self.symbols.mark(render_note(note.text, context), bool(context.tones))

    def _moved(self, address: str) -> str:
        """An address that is written for the original page, as this page writes it."""
        page = self.parsed.translation
        return relative(self.parsed.url, urljoin(page.original, address)) if page else address

    def _file(self, written: str) -> Link | None:
        """The page of a source file, by its path relative to this source or to this page."""
        for start in (self.source.display, self.parsed.url) if _FILE.fullmatch(written) else ():
            path = posixpath.normpath(posixpath.join(posixpath.dirname(start), written))
            if not path.endswith(".py"):
                name = path
            else:
                name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if target := self.lookup(name):
                return Link(target.url, "" if name == path else target.definition.dotted)
        return None

    def _href(self, link: Link) -> str:
        return link.url if link.external else relative(self.parsed.url, link.url)


def failed_draft(page: ParsedPage, error: Exception) -> Draft:
    """The draft of a page that cannot be made: its source, with the anchors of its definitions."""
    source = page.source
    anchors = (target.url.partition("#")[2] for target in page.targets.values())
    spans = "".join(f'<span id="{html.escape(each)}"></span>' for each in anchors if each)
    code = f'<pre class="fence"><code>{html.escape(source.text, quote=False)}</code></pre>\n'
    fault = page_failed(source.display, error)
    _, draft = generated_page(page.url, source.name, "", [NoteHtml(spans + code)])
    draft = replace(draft, name=source.name, display=source.display, own=source.own)
    return replace(draft, diagnostics=(fault,), translation=page.translation)


def prose_target(source: SourceFile, url: str) -> Target:
    """The target of links to a Markdown file, looked up by the path of the file."""
    return Target(Definition("module", source.display, "", 1, ""), url)


def elsewhere(shown: str, url: str, page: str) -> str:
    """HTML of the page at `url` for another page: links lead where they did, anchors are left out,
    and so are links of terms, since a first use on one page is one of many on the other.
    """

    def moved(match: re.Match[str]) -> str:
        return f'{match[1]}{relative(page, urljoin(url, match[2]))}"'

    return _ADDRESS.sub(moved, _ID.sub("", _TERM.sub(r"\1", shown)))


def first_words(texts: Iterable[str]) -> str:
    """The first paragraph with words in it; of a long one, the words that fit."""
    paragraphs = (line for text in texts for line in text.split("\n"))
    words = next(filter(None, (" ".join(line.split()) for line in paragraphs)), "")
    if len(words) <= MAX_OPENING:
        return words
    # One character more shows whether the last word is whole; an endless word has no end to keep.
    whole = words[: MAX_OPENING + 1].rpartition(" ")[0]
    return (whole or words[:MAX_OPENING]).rstrip(" ,;:") + " …"
