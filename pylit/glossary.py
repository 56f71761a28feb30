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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import takewhile

from pylit.addresses import slugify
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Definition, Module, Section, Target

GLOSSARY = "glossary.html"
#: The name by which the index of definitions has the terms.
SIGN = "~terms"

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

    @property
    def anchor(self) -> str:
        """Where on the page of the glossary it is."""
        return slugify(self.name)


def read_glossary(module: Module, report: Report) -> tuple[Module, tuple[Term, ...]]:
    """The glossary as a page, with an anchor for each term, and its terms."""

    def fault(line: int, message: str, hint: str) -> None:
        source = module.source.lines[line - 1]
        report.add(Diagnostic(module.source.display, line, 0, "glossary", message, hint, source))

    (note,) = module.sections[0].notes
    lines = note.text.split("\n")
    terms: list[Term] = []
    taken: dict[str, Term] = {}
    for index, line in enumerate(lines):
        at = note.first_line + index
        name, bar, forms = (part.strip() for part in line.partition("|"))
        if "".join(lines[index + 1 : index + 2])[:2] != ": " or line[:1] in ("", " ", ":"):
            if bar and not line.startswith((" ", "|")):
                fault(at, f"“{name}” is not defined", "write `: …` on the next line")
            continue
        link = _FIRST_LINK.search("\n".join(takewhile(str.strip, lines[index + 1 :])))
        path = posixpath.join(posixpath.dirname(module.source.display), link[1] if link else "")
        written = tuple(form.strip() for form in forms.split(",") if form.strip())
        explained = posixpath.normpath(path) if link else ""
        terms.append(Term(name, written if bar else (name,), explained, at))
        lines[index] = f'<a id="{escape(slugify(name))}"></a>{name}'
        for form in terms[-1].forms:
            other = taken.setdefault(form.lower(), terms[-1])
            if other is not terms[-1]:
                message = f"“{form}” is how “{other.name}” is written too, in line {other.line}"
                fault(at, message, "let it lead to one of them")
    section = Section((replace(note, text="\n".join(lines)),), None)
    return replace(module, sections=(section,)), tuple(terms)


def term_targets(terms: Sequence[Term]) -> dict[str, Target]:
    """What an index of definitions must hold for pages to find the terms."""
    if not terms:
        return {}
    forms = {form: f"{term.anchor} {term.explained}" for term in terms for form in term.forms}
    definition = Definition("constant", SIGN, "", 0, "")
    return {SIGN: Target(definition, GLOSSARY, attributes=forms)}


class Terms:
    """The terms that one page may still link to."""

    def __init__(self, target: Target | None, page: str, address: str) -> None:
        """`page` is the source of the page, and `address` how it writes that of the glossary."""
        self._address = address
        self._anchors: dict[str, str] = {}
        #: Terms that are linked already, or explained by the page itself.
        self._done: set[str] = set()
        for form, entry in target.attributes.items() if target is not None else ():
            anchor, _, explained = entry.partition(" ")
            self._anchors |= {form: anchor, form[0].upper() + form[1:]: anchor}
            if explained == page:
                self._done.add(anchor)
        longest = sorted(self._anchors, key=lambda form: (-len(form), form))
        words = "|".join(map(re.escape, longest))
        self._pattern = re.compile(rf"(?<![\w\-/’'.])(?:{words})(?![\w\-/’'])")

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
