"""``docs_src/glossary.md``: what terms mean, and links to that from where a page first uses one.

It is a definition list. A line names a term and, behind a bar, how notes may write it; the next
ones, from a colon on, say what it is, and their first link leads to the page that explains it::

    hidden state | hidden state, hidden states
    : What a [recurrent network](../pkg/rnn.py) hands on from one step to the next.

Without a bar, the term itself is how it is written. After a bar with nothing behind it the term is
in the glossary only: it is a word that often means something else.
"""

import html
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import takewhile

from markdown_it import MarkdownIt
from mdit_py_plugins.deflist import deflist_plugin

from pylit.addresses import slugify
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Definition, Draft, Module, NoteHtml, Section, Target
from pylit.symbols import Typeset, typeset_formula
from pylit.tex import fill

GLOSSARY = "glossary.html"
#: What a page asks the index of definitions for.
SIGN = "~terms"

_ENTRY = re.compile(r'<dt><span id="([^"]+)"></span>(.*?)</dt>\s*<dd>(.*?)</dd>', re.DOTALL)


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
    tokens = MarkdownIt("commonmark").use(deflist_plugin).parse(note.text)
    terms: list[Term] = []
    taken: dict[str, Term] = {}
    for index, inline in enumerate(tokens):
        opening = tokens[index - 1] if inline.type == "inline" else inline
        name, bar, forms = (part.strip() for part in inline.content.partition("|"))
        line = (inline.map or [0])[0]
        at = note.first_line + line
        if opening.type == "paragraph_open" and bar and not opening.level:
            fault(at, f"“{name}” is not defined", "write `: …` on the next line")
        if opening.type != "dt_open" or opening is inline:
            continue
        meaning = takewhile(lambda token: token.type != "dt_open", tokens[index:])
        links = (child for token in meaning for child in token.children or ())
        found = next((str(link.attrs["href"]) for link in links if link.type == "link_open"), "")
        path = posixpath.join(posixpath.dirname(module.source.display), found.partition("#")[0])
        written = tuple(form.strip() for form in forms.split(",") if form.strip())
        explained = posixpath.normpath(path) if found else ""
        terms.append(Term(name, written if bar else (name,), explained, at))
        lines[line] = f'<a id="{escape(slugify(name))}"></a>{name}'
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
    definition = Definition("constant", SIGN, "", 0, "", "")
    return {SIGN: Target(definition, GLOSSARY, attributes=forms)}


class Terms:
    """The terms that one page may still link to."""

    def __init__(self, target: Target | None, page: str, address: str) -> None:
        """`page` is the source of the page, and `address` how it writes that of the glossary."""
        forms = dict(target.attributes) if target is not None else {}
        self._address = address
        self._anchors = {form.lower(): entry.split(" ")[0] for form, entry in forms.items()}
        # On the page that explains a term, it is explained.
        self._done = {e.split(" ")[0] for e in forms.values() if e.split(" ")[1] == page}
        longest = sorted(forms, key=lambda form: (-len(form), form))
        words = "|".join(_written(form) for form in longest)
        self._pattern = re.compile(rf"(?<![\w\-/’'.])(?:{words})(?![\w\-/’'])") if forms else None

    def pieces(self, text: str) -> Iterator[tuple[str, str]]:
        """The text in pieces, each with the address that it leads to, or none."""
        start = 0
        for match in self._pattern.finditer(text) if self._pattern else ():
            anchor = self._anchors[match[0].lower()]
            if anchor in self._done:
                continue
            self._done.add(anchor)
            yield text[start : match.start()], ""
            yield match[0], f"{self._address}#{anchor}"
            start = match.end()
        yield text[start:], ""


def _written(form: str) -> str:
    first, rest = form[0], re.escape(form[1:])
    return f"[{first.lower()}{first.upper()}]{rest}" if first.isalpha() else re.escape(form)


def definitions(note: NoteHtml) -> Mapping[str, tuple[str, str]]:
    """The name and the definition of each term on the finished page of the glossary, by anchor."""
    return {match[1]: (match[2], match[3].strip()) for match in _ENTRY.finditer(note.html)}


_TAG = re.compile(r"<[^>]*>|\ue000\d+\ue001")
_LINK = re.compile(r"</?a\b[^>]*>")


def term_previews(page: Draft, typeset: Typeset) -> dict[str, list[str]]:
    """What a link to a term shows before it is followed, by anchor."""
    previews = {}
    for section in page.sections:
        for note in section.notes:
            formulas = [typeset_formula(formula, typeset) for formula in note.formulas]
            for anchor, (name, definition) in definitions(note).items():
                said = fill(_LINK.sub("", definition), formulas)
                previews[anchor] = ["", f"<b>{name}</b><p>{said}</p>"]
    return previews


def search_terms(page: Draft) -> Iterator[tuple[str, str, str]]:
    """The terms of the glossary as parts of its page; another page has none."""
    notes = [note for section in page.sections for note in section.notes]
    for note in notes if page.url == GLOSSARY else ():
        for anchor, shown in definitions(note).items():
            name, text = (html.unescape(_TAG.sub("", part)) for part in shown)
            yield anchor, name, text
