"""``docs_src/references.bib``: the works that notes may cite, read with pybtex and checked.

An entry is kept as plain text: its authors, year, title and venue, and where it can be read.
See decision 015.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from pylit.addresses import relative
from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.model import (
    HEADING,
    Definition,
    Draft,
    GeneratedPage,
    Heading,
    NoteHtml,
    Target,
    generated_page,
)

if TYPE_CHECKING:
    from pybtex.database import Entry

#: The page of all works. What a preview shows of one is found by the anchor of the link to it.
BIBLIOGRAPHY = "bibliography.html"
#: The index of definitions holds works by this sign and their key; the sign alone, all keys.
SIGN = "@"
#: BibTeX's name for authors that are not listed.
OTHERS = "others"
SUMMARY = "The works that these pages cite, and the places where they do."

_KEY = re.compile(r"[A-Za-z][\w.:-]*")
_BEGIN = re.compile(r"^[ \t]*@(\w+)\s*\{\s*([^\s,{}]+)\s*,", re.MULTILINE)
#: Fields that name the venue; the first one given is shown.
_VENUES = ("journal", "booktitle", "institution", "publisher", "howpublished")
#: A heading deeper than those of the outline: search finds it.
_UNSEEN = 6


@dataclass(frozen=True, slots=True)
class Work:
    """An entry of the bibliography."""

    key: str
    #: As a text names it: ``Press and Wolf``, ``Vaswani et al.``
    short: str
    #: With a letter where another work would be named alike: ``2019b``.
    year: str = ""
    #: In full; the last one may be `OTHERS`.
    authors: tuple[str, ...] = ()
    title: str = ""
    venue: str = ""
    #: Where it can be read: the text of each link, and its address.
    links: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """As a text cites it: ``Vaswani et al. 2017``."""
        return f"{self.short} {self.year}"


@dataclass(frozen=True, slots=True)
class Cited:
    """A work as a note shows it."""

    short: str
    year: str
    #: Its address, for the page of the note.
    href: str


#: Finds a work by its key, or returns a hint for the author.
Cite = Callable[[str], Cited | str]


def no_bibliography(key: str) -> str:
    """The hint for every key where there is no bibliography."""
    return "write `docs_src/references.bib`, with an entry of this key"


def read_bibliography(path: Path, display: str, report: Report) -> dict[str, Work]:
    """The works of a file by key; none if there is no file. Faults go to the report."""

    def fault(line: int, message: str, hint: str) -> None:
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        report.add(Diagnostic(display, line, 0, "bibliography", message, hint, source))

    lines: list[str] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        fault(0, f"cannot be read: {error}", "save it as UTF-8, readable by every user")
        return {}
    lines = text.split("\n")
    places: dict[str, int] = {}
    works: dict[str, Work] = {}
    for match in _BEGIN.finditer(text):
        key, line = match[2], text.count("\n", 0, match.start(1)) + 1
        if places.setdefault(key.lower(), line) != line:
            message = f"`{key}` is there twice, first in line {places[key.lower()]}"
            fault(line, message, "give each of them a key of its own")
        # Citing an entry that cannot be read is no second fault.
        works.setdefault(key, Work(key, key, title=key))
    # Imported here because that takes as long as a build in which nothing has changed.
    from pybtex import errors
    from pybtex.database import parse_string

    with errors.capture() as found:
        entries = parse_string(text, "bibtex").entries
    # Repeated keys, reported above, have no line there.
    broken = [error for error in found if getattr(error, "lineno", None)]
    for one in broken:
        message = str(one).rpartition(": ")[2]
        fault(one.lineno, f"is not BibTeX: {message}", "close every brace, end each field")
    # Where braces are not closed, fields may seem to be missing.
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
            fault(line, f"`{key}` has no address where it can be read", hint)
    # A letter after the year distinguishes works of the same name.
    named = Counter(work.name for work in works.values())
    letters = {name: iter(ascii_lowercase) for name, times in named.items() if times > 1}
    years = {k: w.year + next(letters.get(w.name, iter("")), "") for k, w in works.items()}
    return {key: replace(work, year=years[key]) for key, work in works.items()}


def _work(key: str, entry: "Entry") -> Work:
    fields = defaultdict(str, {name.lower(): _plain(text) for name, text in entry.fields.items()})
    people = entry.persons.get("author") or entry.persons.get("editor") or ()
    last = [_words(person.prelast_names, person.last_names) for person in people]
    short = " and ".join(last)
    if len(last) > 2 or OTHERS in last:
        short = f"{last[0]} et al."
    venue = next(filter(None, map(fields.__getitem__, _VENUES)), "")
    issue = f"({fields['number']})" if fields["number"] else ""
    volume = f" {fields['volume']}{issue}" if fields["volume"] else ""
    pages = f", {fields['pages']}" if fields["pages"] else ""
    eprint, doi, url = (fields[name] for name in ("eprint", "doi", "url"))
    links = (
        (eprint, f"arXiv:{eprint}", f"https://arxiv.org/abs/{eprint}"),
        (doi, f"doi:{doi}", f"https://doi.org/{doi}"),
        (url, re.sub(r"^https?://(?:www\.)?([^/]+).*", r"\1", url), url),
    )
    return Work(
        key=key,
        short=short,
        year=fields["year"],
        authors=tuple(
            _words(p.first_names, p.middle_names, p.prelast_names, p.last_names, p.lineage_names)
            for p in people
        ),
        title=fields["title"],
        venue=venue and venue + volume + pages,
        links=tuple((text, address) for given, text, address in links if given),
    )


def _plain(latex: str) -> str:
    """LaTeX as plain text on one line."""
    from pybtex.richtext import Text

    text = str(Text.from_latex(latex)).replace("---", "—").replace("--", "–")
    return " ".join(text.split())


def _words(*names: Sequence[str]) -> str:
    return _plain(" ".join(chain(*names)))


def work_targets(works: Mapping[str, Work]) -> dict[str, Target]:
    """The entries of an index of definitions in which `find_work` finds these works."""
    targets = {SIGN: _target("", {"keys": " ".join(works)})} if works else {}
    for key, work in works.items():
        targets[SIGN + key] = _target(key, {"short": work.short, "year": work.year})
    return targets


def _target(key: str, attributes: Mapping[str, str]) -> Target:
    definition = Definition("constant", SIGN, key, 0, "")
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
        return no_bibliography(key)
    return nearest(key, every.attributes["keys"].split(), "add it to `docs_src/references.bib`")


def bibliography_page(works: Mapping[str, Work], drafts: Sequence[Draft]) -> GeneratedPage | None:
    """The page of the works that are cited; None if there are none."""

    def link(url: str, text: str) -> str:
        return f'<a href="{escape(relative(BIBLIOGRAPHY, url))}">{escape(text, quote=False)}</a>'

    #: Key of a work -> links to the pages that cite it, with the sections that do.
    cited: dict[str, list[str]] = {}
    for draft in drafts:
        for key, sections in _citations(draft).items():
            named = ", ".join(link(f"{draft.url}#{slug}", text) for slug, text in sections if slug)
            page = link(draft.url, draft.title) + (f" ({named})" if named else "")
            cited.setdefault(key, []).append(page)
    shown = [work for work in works.values() if work.key in cited]
    if not shown:
        return None
    shown.sort(key=lambda work: (work.name.casefold(), work.key))
    entries = [_entry(work, ", ".join(cited[work.key])) for work in shown]
    notes = [NoteHtml('<ul class="works">\n'), *entries, NoteHtml("</ul>\n")]
    return generated_page(BIBLIOGRAPHY, "Bibliography", SUMMARY, notes)


def _citations(draft: Draft) -> dict[str, dict[tuple[str, str], None]]:
    """Keys of the cited works -> anchor and title of the sections that cite them, in order."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    place = ("", "")
    opening = ("", (draft.title_note, draft.summary_note))
    for name, notes in (opening, *((s.definition, s.notes) for s in draft.sections)):
        place = (name, name) if name else place
        for note in notes:
            events = [(h.line, "", (h.slug, h.text)) for h in note.headings]
            events += [(line, key, place) for key, line in note.citations]
            for _, key, heading in sorted(events):
                if key:
                    found.setdefault(key, {}).setdefault(place)
                else:
                    place = heading
    return found


def work_previews(works: Mapping[str, Work]) -> dict[str, list[str]]:
    """The previews of links to works, by key."""
    previews = {}
    for key, work in works.items():
        # A preview closes when the focus moves on: its links are for pointers.
        details = _details(work, work.year).replace("<a ", '<a tabindex="-1" ')
        previews[key] = ["", f"<cite>{escape(work.title)}</cite><p>{details}</p>"]
    return previews


def _entry(work: Work, pages: str) -> NoteHtml:
    html = (
        f'<li id="{escape(work.key)}"><p><b>{escape(work.name)}</b> '
        f"<cite>{escape(work.title)}</cite><br>{_details(work)}</p>"
        f'<p class="by-whom">Cited by {pages}</p></li>\n'
    )
    heading = Heading(_UNSEEN, work.key, f"{work.name}: {work.title}", "", 0)
    return NoteHtml(html, headings=(heading,), text=HEADING + ", ".join(work.authors))


def _details(work: Work, year: str = "") -> str:
    """Authors, venue and year, and where the work can be read."""
    *first, last = work.authors or ("",)
    joint = " and others" if last == OTHERS else f" and {last}"
    authors = ", ".join(first) + joint if first else last
    parts = [escape(part) for part in (authors, work.venue, year) if part]
    links = " ".join(f'<a href="{escape(url)}">{escape(text)}</a>' for text, url in work.links)
    return f"{', '.join(parts)}. {links}"
