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

from markdown_it.token import Token

from pylit.diagnostics import Diagnostic, Report
from pylit.model import Definition, Module, NoteHtml, Section, Target
from pylit.prose.slugs import slugify

GLOSSARY = "glossary.html"
#: What a page asks the index of definitions for.
SIGN = "~terms"

_DEFINED = re.compile(r":[ \t]+\S")
_LINK = re.compile(r"\]\(([^)#\s]+)")
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
    (note,) = module.sections[0].notes
    display = module.source.display
    lines = note.text.split("\n")
    terms = []
    for index, line in enumerate(lines):
        if not _is_term(lines, index):
            continue
        name, bar, forms = (part.strip() for part in line.partition("|"))
        written = tuple(form.strip() for form in forms.split(",") if form.strip())
        defined = _definition(lines, index + 1)
        at = note.first_line + index
        terms.append(Term(name, written if bar else (name,), _explained(defined, display), at))
        lines[index] = f'<a id="{escape(slugify(name))}"></a>{name}'
        if not _DEFINED.match(defined):
            hint = "write `: …` on the next line"
            _fault(report, module, at, f"“{name}” is not defined", hint)
    _unique(terms, module, report)
    section = Section((replace(note, text="\n".join(lines)),), None)
    return replace(module, sections=(section,)), tuple(terms)


def _is_term(lines: Sequence[str], index: int) -> bool:
    """Whether a line is one of text after a blank one, and says what the next lines define."""
    line = lines[index]
    if not line or line[0].isspace() or line.startswith((":", "#")):
        return False
    following = lines[index + 1] if index + 1 < len(lines) else ""
    return (index == 0 or not lines[index - 1].strip()) and (
        "|" in line or following.startswith(":")
    )


def _definition(lines: Sequence[str], first: int) -> str:
    until = next((i for i in range(first, len(lines)) if not lines[i].strip()), len(lines))
    return "\n".join(lines[first:until])


def _explained(definition: str, display: str) -> str:
    link = _LINK.search(definition)
    folder = posixpath.dirname(display)
    return posixpath.normpath(posixpath.join(folder, link[1])) if link else ""


def _unique(terms: Sequence[Term], module: Module, report: Report) -> None:
    """Report what would lead to two terms."""
    taken: dict[str, Term] = {}
    for term in terms:
        for form in term.forms:
            other = taken.setdefault(form.lower(), term)
            if other is not term:
                message = f"“{form}” is how “{other.name}” is written too, in line {other.line}"
                _fault(report, module, term.line, message, "let it lead to one of them")


def _fault(report: Report, module: Module, line: int, message: str, hint: str) -> None:
    source = module.source.lines[line - 1]
    report.add(Diagnostic(module.source.display, line, 0, "glossary", message, hint, source))


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
        own = {entry.split(" ")[0] for entry in forms.values() if entry.split(" ")[1] == page}
        self._done = own
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


def link_terms(children: Sequence[Token], terms: Terms) -> list[Token]:
    """Inline tokens with links where a term is used for the first time on its page.

    Not in links, and not in lines with raw HTML, of which nobody knows what they are in.
    """
    if any(token.type == "html_inline" for token in children):
        return list(children)
    linked: list[Token] = []
    depth = 0
    for token in children:
        depth += (token.type == "link_open") - (token.type == "link_close")
        if token.type != "text" or depth:
            linked.append(token)
            continue
        for text, href in terms.pieces(token.content):
            if text:
                piece = Token("term" if href else "text", "", 0, content=text, level=token.level)
                piece.meta = {**token.meta, "href": href}
                linked.append(piece)
    return linked


def term_html(token: Token) -> str:
    """A link to a term."""
    words = escape(token.content, quote=False)
    return f'<a class="x g" href="{escape(token.meta["href"])}" data-x>{words}</a>'


def definitions(note: NoteHtml) -> Mapping[str, tuple[str, str]]:
    """The name and the definition of each term on the finished page of the glossary, by anchor."""
    return {match[1]: (match[2], match[3].strip()) for match in _ENTRY.finditer(note.html)}
