"""``docs_src/references.bib``: the works that notes may cite, read with pybtex and checked.

BibTeX is what every list of references can be exported to. Of an entry, what a reader wants is
kept, as plain text: who, when, what, where it came out, and where it can be read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pylit.diagnostics import Diagnostic, Report

if TYPE_CHECKING:
    from pybtex.database import Entry, Person

#: What stands in the place of the authors that are not named.
OTHERS = "others"

_KEY = re.compile(r"[A-Za-z][\w.:-]*")
_BEGIN = re.compile(r"^[ \t]*@(\w+)\s*\{\s*([^\s,{}]+)\s*,", re.MULTILINE)
#: Fields that name where a work came out, the first that there is.
_VENUES = ("journal", "booktitle", "institution", "publisher", "howpublished")


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
    line: int

    @property
    def name(self) -> str:
        """How a text cites it: ``Vaswani et al. 2017``."""
        return f"{self.short} {self.year}"


def read_bibliography(path: Path, display: str, report: Report) -> dict[str, Work]:
    """The works of a file by key; without the file there are none. Faults go to the report."""

    def fault(line: int, message: str, hint: str) -> None:
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        report.add(Diagnostic(display, line, 0, "bibliography", message, hint, source))

    lines: list[str] = []
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        fault(0, f"cannot be read: {error.strerror}", "check its permissions")
        return {}
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        fault(line, f"byte {error.start} is not UTF-8", "save it as UTF-8")
        return {}
    lines = text.split("\n")
    begun = [(match[2], text.count("\n", 0, match.start(1)) + 1) for match in _BEGIN.finditer(text)]
    places: dict[str, int] = {}
    for key, line in begun:
        if places.setdefault(key.lower(), line) != line:
            message = f"`{key}` is there twice, first in line {places[key.lower()]}"
            fault(line, message, "give each of them a key of its own")
    entries, broken = _parsed(text)
    for line, message in broken:
        fault(line, f"is not BibTeX: {message}", "close every brace, end each field")
    works: dict[str, Work] = {}
    # Where braces are not closed, what seems to be missing may be there.
    for key, entry in entries.items() if not broken else ():
        line = places.get(key.lower(), 0)
        made = _work(key, entry, line)
        if isinstance(made, Work):
            works[key] = made
        else:
            fault(line, *made)
    # What could not be read is known all the same: citing it is no second fault.
    for key, _ in begun:
        works.setdefault(key, Work(key, key, "", (), (), key, "", (), 0))
    return _told_apart(works)


def _parsed(text: str) -> tuple[Mapping[str, "Entry"], list[tuple[int, str]]]:
    """The entries, and what is not BibTeX: line and message."""
    # Here, because it takes as long as a build in which nothing has changed.
    from pybtex import errors
    from pybtex.database import parse_string

    with errors.capture() as faults:
        entries = parse_string(text, "bibtex").entries
    # Repeated keys, which have no line, are found without it.
    told = [(getattr(fault, "lineno", None), str(fault)) for fault in faults]
    return entries, [(at, said.partition(": ")[2] or said) for at, said in told if at is not None]


def _work(key: str, entry: "Entry", line: int) -> Work | tuple[str, str]:
    """An entry, or what is wrong with it, and a hint."""
    fields = {name.lower(): _plain(value) for name, value in entry.fields.items()}
    people: Sequence[Person] = entry.persons.get("author") or entry.persons.get("editor") or ()
    needed = {"author": people, "title": fields.get("title"), "year": fields.get("year")}
    missing = [f"`{name}`" for name, given in needed.items() if not given]
    links = tuple(_links(fields))
    if not _KEY.fullmatch(key):
        return f"`{key}` is no key", "letters, digits, and `.:-_`"
    if missing:
        return f"`{key}` has no {' and '.join(missing)}", "readers want to know who, what and when"
    if not links:
        hint = "add `eprint` with its arXiv number, `doi`, or `url`"
        return f"`{key}` says not where it can be read", hint
    last = tuple(_words(person.prelast_names, person.last_names) for person in people)
    return Work(
        key=key,
        short=_short(last),
        year=fields["year"],
        authors=tuple(
            _words(p.first_names, p.middle_names, p.prelast_names, p.last_names, p.lineage_names)
            for p in people
        ),
        sorting=(*(name.casefold() for name in last), fields["year"], key),
        title=fields["title"],
        venue=_venue(fields),
        links=links,
        line=line,
    )


def _told_apart(works: Mapping[str, Work]) -> dict[str, Work]:
    """The works with a letter after the year of those that would be named alike."""
    alike: dict[str, list[Work]] = {}
    for work in works.values():
        alike.setdefault(work.name, []).append(work)
    named = dict(works)
    for group in alike.values():
        for number, work in enumerate(group if len(group) > 1 else ()):
            named[work.key] = replace(work, year=f"{work.year}{chr(ord('a') + number)}")
    return named


def _plain(latex: str) -> str:
    """What TeX would print, on one line."""
    from pybtex.richtext import Text

    text = str(Text.from_latex(latex)).replace("---", "—").replace("--", "–")
    return " ".join(text.split())


def _words(*names: Sequence[str]) -> str:
    """Parts of the name of a person."""
    return " ".join(_plain(word) for part in names for word in part)


def _short(last: Sequence[str]) -> str:
    if len(last) == 2 and last[1] != OTHERS:
        return f"{last[0]} and {last[1]}"
    return last[0] if len(last) == 1 else f"{last[0]} et al."


def _venue(fields: Mapping[str, str]) -> str:
    venue = next((fields[name] for name in _VENUES if fields.get(name)), "")
    if venue and fields.get("volume"):
        venue += f" {fields['volume']}"
        venue += f"({fields['number']})" if fields.get("number") else ""
    return f"{venue}, {fields['pages']}" if venue and fields.get("pages") else venue


def _links(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if fields.get("eprint"):
        yield f"arXiv:{fields['eprint']}", f"https://arxiv.org/abs/{fields['eprint']}"
    if fields.get("doi"):
        yield f"doi:{fields['doi']}", f"https://doi.org/{fields['doi']}"
    if fields.get("url"):
        address = fields["url"]
        yield re.sub(r"^https?://(?:www\.)?([^/]+).*", r"\1", address), address
