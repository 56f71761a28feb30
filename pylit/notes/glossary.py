"""``docs_src/glossary.md``: what terms mean, and links to that from where a page first uses one.

It is a definition list. A line names a term and, behind a bar, how notes may write it; the next
ones, from a colon on, say what it is, and their first link leads to the page that explains it::

    hidden state | hidden state, hidden states
    : What a [recurrent network](../pkg/rnn.py) hands on from one step to the next.

Without a bar, the term itself is how it is written. After a bar with nothing behind it the term is
in the glossary only: it is a word that often means something else.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import takewhile

from pylit.addresses import slugify
from pylit.diagnostics import Diagnostic, Report
from pylit.model import HAN, Definition, Module, Note, Section, Target

GLOSSARY = "glossary.html"
#: The name by which the index of definitions has the terms.
SIGN = "~terms"

_DEFINE = "write `: …` on the next line"
_FIRST_LINK = re.compile(r"\]\(([^)#\s]+)")


@dataclass(frozen=True, slots=True)
class Term:
    """An entry of the glossary."""

    name: str
    #: How notes write it. A capital may begin a sentence.
    forms: tuple[str, ...]
    #: The source of the page that explains it, as its diagnostics name it; or empty.
    explained: str
    line: int
    #: Where on the page of the glossary it is.
    anchor: str


def read_glossary(module: Module, report: Report) -> tuple[Module, tuple[Term, ...]]:
    """The glossary as a page, with an anchor for each term, and its terms."""
    terms: list[Term] = []
    notes = [_read_note(note, module, terms, report) for note in module.sections[0].notes]
    taken: dict[str, Term] = {}
    for term in terms:
        for form in term.forms:
            other = taken.setdefault(form.lower(), term)
            if other is not term:
                message = f"“{form}” is how “{other.name}” is written too, in line {other.line}"
                _fault(module, term.line, message, "let it lead to one of them", report)
    return replace(module, sections=(Section(tuple(notes), None),)), tuple(terms)


def _read_note(note: Note, module: Module, terms: list[Term], report: Report) -> Note:
    """A note of the glossary with anchors for its terms, which are added to `terms`."""
    lines, anchors = note.text.split("\n"), iter(note.anchors)
    for index, line in enumerate(lines):
        at = note.first_line + index
        name, bar, forms = (part.strip() for part in line.partition("|"))
        if "".join(lines[index + 1 : index + 2])[:2] != ": " or line[:1] in ("", " ", ":"):
            if bar and not line.startswith((" ", "|")):
                _fault(module, at, f"“{name}” is not defined", _DEFINE, report)
            continue
        link = _FIRST_LINK.search("\n".join(takewhile(str.strip, lines[index + 1 :])))
        path = posixpath.join(posixpath.dirname(module.source.display), link[1] if link else "")
        written = tuple(form.strip() for form in forms.split(",") if form.strip())
        explained = posixpath.normpath(path) if link else ""
        anchor = next(anchors, slugify(name))
        terms.append(Term(name, written if bar else (name,), explained, at, anchor))
        lines[index] = f'<a id="{escape(anchor)}"></a>{name}'
    return replace(note, text="\n".join(lines))


def _fault(module: Module, line: int, message: str, hint: str, report: Report) -> None:
    file = module.written
    source = "".join(file.lines[line - 1 : line])
    report.add(Diagnostic(file.display, line, 0, "glossary", message, hint, source))


def term_targets(terms: Sequence[Term], page: str = GLOSSARY) -> dict[str, Target]:
    """What an index of definitions must hold for pages to find the terms."""
    if not terms:
        return {}
    forms = {form: f"{term.anchor} {term.explained}" for term in terms for form in term.forms}
    definition = Definition("constant", SIGN, "", 0, "")
    return {SIGN: Target(definition, page, attributes=forms)}


def finder(anchors: Mapping[str, str]) -> tuple[dict[str, str], re.Pattern[str]]:
    """The anchors of terms by their forms, also as they begin a sentence; and a pattern that finds
    the forms, the longest first, where they are whole words.

    Chinese has no spaces: a word ends where another script begins, and its words where they do.
    """
    known = {form[0].upper() + form[1:]: anchor for form, anchor in anchors.items()} | {**anchors}
    words = "|".join(map(re.escape, sorted(known, key=lambda form: (-len(form), form))))
    letter, sign = f"[^\\W{HAN.pattern[1:-1]}]", "[-/’'"
    found = rf"(?<!{letter})(?<!{sign}.])(?:{words})(?!{letter})(?!{sign}])"
    return known, re.compile(found)


class Terms:
    """The terms that one page may still link to."""

    def __init__(self, target: Target | None, page: str, address: str) -> None:
        """`page` is the source of the page, and `address` how it writes that of the glossary."""
        self._address = address
        anchors: dict[str, str] = {}
        #: Terms that are linked already, or explained by the page itself.
        self._done: set[str] = set()
        for form, entry in target.attributes.items() if target is not None else ():
            anchor, _, explained = entry.partition(" ")
            anchors[form] = anchor
            if explained == page:
                self._done.add(anchor)
        self._anchors, self._pattern = finder(anchors)

    def pieces(self, text: str) -> Iterator[tuple[str, str]]:
        """The text in pieces, each with the address that it leads to, or none."""
        start = 0
        for match in self._pattern.finditer(text) if self._anchors else ():
            anchor = self._anchors[match[0]]
            if anchor not in self._done:
                self._done.add(anchor)
                yield text[start : match.start()], ""
                yield match[0], f"{self._address}#{anchor}"
                start = match.end()
        yield text[start:], ""
