"""``docs_src/references.bib``: the works that notes may cite, read with pybtex and checked.

BibTeX is what every list of references can be exported to. Of an entry, what a reader wants is
kept, as plain text: who, when, what, where it came out, and where it can be read.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from html import escape
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from pylit.addresses import relative
from pylit.diagnostics import Diagnostic, Report
from pylit.model import HEADING, Definition, Draft, Gathered, Heading, NoteHtml, Target, gathered

if TYPE_CHECKING:
    from pybtex.database import Entry

#: The page of all works. What a preview shows of one is found by the anchor of the link to it.
BIBLIOGRAPHY = "bibliography.html"
#: What a page asks the index of definitions for stands behind this sign; alone, for all keys.
SIGN = "@"
#: What stands in the place of the authors that are not named.
OTHERS = "others"

_KEY = re.compile(r"[A-Za-z][\w.:-]*")
_BEGIN = re.compile(r"^[ \t]*@(\w+)\s*\{\s*([^\s,{}]+)\s*,", re.MULTILINE)
#: Fields that name where a work came out, the first that there is.
_VENUES = ("journal", "booktitle", "institution", "publisher", "howpublished")
#: Fields that name where it can be read: the text and the address of a link.
_LINKS = {
    "eprint": ("arXiv:{}", "https://arxiv.org/abs/{}"),
    "doi": ("doi:{}", "https://doi.org/{}"),
    "url": ("{}", "{}"),
}


@dataclass(frozen=True, slots=True)
class Work:
    """An entry."""

    key: str
    #: As a text names it: ``Press and Wolf``, ``Vaswani et al.``
    short: str
    #: With a letter where another work would be named alike: ``2019b``.
    year: str
    #: In full; the last one may be `OTHERS`.
    authors: tuple[str, ...]
    #: What the list of all works is sorted by.
    sorting: tuple[str, ...]
    title: str
    venue: str
    #: Where it can be read: the text of each link, and its address.
    links: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """How a text cites it: ``Vaswani et al. 2017``."""
        return f"{self.short} {self.year}"


@dataclass(frozen=True, slots=True)
class Cited:
    """A work as a note shows it."""

    short: str
    year: str
    #: Its address, for the page of the note.
    href: str


#: Finds a work by its key, or says what an author might do about it.
Cite = Callable[[str], Cited | str]


def unknown(key: str) -> str:
    """Knows no work: for notes that are shown where there is no bibliography."""
    return "write `docs_src/references.bib`, with an entry of this key"


def read_bibliography(path: Path, display: str, report: Report) -> dict[str, Work]:
    """The works of a file by key; without the file there are none. Faults go to the report."""

    def fault(line: int, message: str, hint: str) -> None:
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        report.add(Diagnostic(display, line, 0, "bibliography", message, hint, source))

    lines: list[str] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        fault(0, f"cannot be read: {error}", "save it as UTF-8, where everybody may read it")
        return {}
    lines = text.split("\n")
    places: dict[str, int] = {}
    works: dict[str, Work] = {}
    for match in _BEGIN.finditer(text):
        key, line = match[2], text.count("\n", 0, match.start(1)) + 1
        if places.setdefault(key.lower(), line) != line:
            message = f"`{key}` is there twice, first in line {places[key.lower()]}"
            fault(line, message, "give each of them a key of its own")
        # What cannot be read is known all the same: citing it is no second fault.
        works.setdefault(key, Work(key, key, "", (), (), key, "", ()))
    # Here, because it takes as long as a build in which nothing has changed.
    from pybtex import errors
    from pybtex.database import parse_string

    with errors.capture() as found:
        entries = parse_string(text, "bibtex").entries
    # Repeated keys have no line there, and are told already.
    broken = [error for error in found if getattr(error, "lineno", None)]
    for one in broken:
        message = str(one).rpartition(": ")[2]
        fault(one.lineno, f"is not BibTeX: {message}", "close every brace, end each field")
    # Where braces are not closed, what seems to be missing may be there.
    for key, entry in entries.items() if not broken else ():
        line, work = places.get(key.lower(), 0), _work(key, entry)
        works[key] = work
        if not _KEY.fullmatch(key):
            fault(line, f"`{key}` is no key", "letters, digits, and `.:-_`")
        needed = {"author": work.authors, "title": work.title, "year": work.year}
        if missing := " and ".join(f"`{name}`" for name, given in needed.items() if not given):
            fault(line, f"`{key}` has no {missing}", "readers want to know who, what and when")
        if not work.links:
            hint = "add `eprint` (its arXiv number), `doi`, or `url`"
            fault(line, f"`{key}` says not where it can be read", hint)
    # A letter after the year tells apart what would be named alike.
    named = Counter(work.name for work in works.values())
    letters = {name: iter(ascii_lowercase) for name, times in named.items() if times > 1}
    years = {k: w.year + next(letters.get(w.name, iter("")), "") for k, w in works.items()}
    return {key: replace(work, year=years[key]) for key, work in works.items()}


def _work(key: str, entry: "Entry") -> Work:
    fields = {name.lower(): _plain(value) for name, value in entry.fields.items()}
    people = entry.persons.get("author") or entry.persons.get("editor") or ()
    last = [_words(person.prelast_names, person.last_names) for person in people]
    short = last[0] if last else ""
    if len(last) == 2 and last[1] != OTHERS:
        short += f" and {last[1]}"
    elif len(last) > 1:
        short += " et al."
    venue = next((fields[name] for name in _VENUES if fields.get(name)), "")
    if venue and fields.get("volume"):
        venue += f" {fields['volume']}"
        venue += f"({fields['number']})" if fields.get("number") else ""
    if venue and fields.get("pages"):
        venue += f", {fields['pages']}"
    site = re.sub(r"^https?://(?:www\.)?([^/]+).*", r"\1", fields.get("url", ""))
    return Work(
        key=key,
        short=short,
        year=fields.get("year", ""),
        authors=tuple(
            _words(p.first_names, p.middle_names, p.prelast_names, p.last_names, p.lineage_names)
            for p in people
        ),
        sorting=(*(name.casefold() for name in last), fields.get("year", ""), key),
        title=fields.get("title", ""),
        venue=venue,
        links=tuple(
            (text.format(site if name == "url" else fields[name]), address.format(fields[name]))
            for name, (text, address) in _LINKS.items()
            if fields.get(name)
        ),
    )


def _plain(latex: str) -> str:
    """What TeX would print, on one line."""
    from pybtex.richtext import Text

    text = str(Text.from_latex(latex)).replace("---", "—").replace("--", "–")
    return " ".join(text.split())


def _words(*names: Sequence[str]) -> str:
    """Parts of the name of a person."""
    return " ".join(_plain(word) for part in names for word in part)


def work_targets(works: Mapping[str, Work]) -> dict[str, Target]:
    """What an index of definitions must hold for `find_work` to find these works."""
    targets = {SIGN: _target("", {"keys": " ".join(works)})} if works else {}
    for key, work in works.items():
        targets[SIGN + key] = _target(key, {"short": work.short, "year": work.year})
    return targets


def _target(key: str, attributes: Mapping[str, str]) -> Target:
    definition = Definition("constant", SIGN, key, 0, "", "")
    return Target(definition, f"{BIBLIOGRAPHY}#{key}", attributes=attributes)


def find_work(
    key: str, lookup: Callable[[str], Target | None], href: Callable[[str], str]
) -> Cited | str:
    """The work with a key, in an index of definitions."""
    target = lookup(SIGN + key)
    if target is not None:
        return Cited(target.attributes["short"], target.attributes["year"], href(target.url))
    every = lookup(SIGN)
    if every is None:
        return unknown(key)
    near = get_close_matches(key, every.attributes["keys"].split(), n=1)
    return f"did you mean `{near[0]}`?" if near else "add it to `docs_src/references.bib`"


#: Address and title of a page -> anchor and title of a section of it, without values.
Places = dict[tuple[str, str], dict[tuple[str, str], None]]

_LINK = re.compile(r"<a ")
#: A heading deeper than those of the outline: search finds it.
_UNSEEN = 6

SUMMARY = "The works that these pages cite, and the places where they do."


def bibliography_page(works: Mapping[str, Work], drafts: Sequence[Draft]) -> Gathered | None:
    """The page; None if nothing is cited. What nobody cites is left out."""
    cited: dict[str, Places] = {}
    for draft in drafts:
        for key, section in _citations(draft):
            pages = cited.setdefault(key, {})
            pages.setdefault((draft.url, draft.title), {}).setdefault(section)
    shown = sorted((w for key, w in works.items() if key in cited), key=lambda w: w.sorting)
    if not shown:
        return None
    entries = [_entry(work, cited[work.key]) for work in shown]
    notes = [NoteHtml('<ul class="works">\n'), *entries, NoteHtml("</ul>\n")]
    return gathered(BIBLIOGRAPHY, "Bibliography", SUMMARY, notes)


def work_previews(works: Mapping[str, Work]) -> dict[str, list[str]]:
    """What a link to a work shows before it is followed, by key."""
    previews = {}
    for key, work in works.items():
        # A preview goes when the focus moves on: its links are for pointers.
        said = _LINK.sub('<a tabindex="-1" ', _details(work, work.year))
        previews[key] = ["", f"<cite>{escape(work.title)}</cite><p>{said}</p>"]
    return previews


def _entry(work: Work, places: Places) -> NoteHtml:
    def link(url: str, text: str) -> str:
        return f'<a href="{escape(relative(BIBLIOGRAPHY, url))}">{escape(text, quote=False)}</a>'

    pages = []
    for (url, title), sections in places.items():
        named = ", ".join(link(f"{url}#{anchor}", text) for anchor, text in sections if anchor)
        pages.append(link(url, title) + (f" ({named})" if named else ""))
    html = (
        f'<li id="{escape(work.key)}"><p><b>{escape(work.name)}</b> '
        f"<cite>{escape(work.title)}</cite><br>{_details(work)}</p>"
        f'<p class="by-whom">Cited by {", ".join(pages)}</p></li>\n'
    )
    heading = Heading(_UNSEEN, work.key, f"{work.name}: {work.title}", "", 0)
    return NoteHtml(html, headings=(heading,), text=HEADING + ", ".join(work.authors))


def _details(work: Work, year: str = "") -> str:
    """Who, where and when, and where it can be read."""
    *first, last = work.authors or ("",)
    joint = " and others" if last == OTHERS else f" and {last}"
    authors = ", ".join(first) + joint if first else last
    parts = [escape(part) for part in (authors, work.venue, year) if part]
    links = " ".join(f'<a href="{escape(url)}">{escape(text)}</a>' for text, url in work.links)
    return f"{', '.join(parts)}. {links}"


def _citations(draft: Draft) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each citation of a page, with the heading or definition that it stands under."""
    for note in (draft.title_note, draft.summary_note):
        yield from ((citation.key, ("", "")) for citation in note.citations)
    current = ("", "")
    for section in draft.sections:
        if section.definition:
            current = (section.definition, section.definition)
        for note in section.notes:
            events = [(h.line, (h.slug, h.text)) for h in note.headings]
            for citation in note.citations:
                above = [place for line, place in events if line <= citation.line]
                yield citation.key, above[-1] if above else current
            current = events[-1][1] if events else current
