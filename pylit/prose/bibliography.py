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
    """The works of a file by key; without the file there are none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        report.add(Diagnostic(display, 0, 0, "bibliography", message, "check its permissions"))
        return {}
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message, hint = f"byte {error.start} is not UTF-8", "save it as UTF-8"
        report.add(Diagnostic(display, line, 0, "bibliography", message, hint))
        return {}
    return _Reader(text.replace("\r\n", "\n"), display, report).works()


class _Reader:
    def __init__(self, text: str, display: str, report: Report) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.display = display
        self.report = report
        self.places: dict[str, int] = {}
        self.broken = False

    def works(self) -> dict[str, Work]:
        """All entries in the order of the file; what is wrong with one is reported."""
        # Here, because it takes as long as a build in which nothing has changed.
        from pybtex import errors
        from pybtex.database import parse_string

        for match in _BEGIN.finditer(self.text):
            line = self.text.count("\n", 0, match.start(1)) + 1
            if match[2].lower() in self.places:
                first = self.places[match[2].lower()]
                self._fault(line, f"`{match[2]}` is there twice, first in line {first}")
            self.places.setdefault(match[2].lower(), line)
        with errors.capture() as faults:
            entries = parse_string(self.text, "bibtex").entries
        for fault in faults:
            # Repeated keys, which have no line, have been told already.
            at: int | None = getattr(fault, "lineno", None)
            if at is not None:
                message = str(fault).partition(": ")[2] or str(fault)
                self.broken = True
                self._fault(at, f"is not BibTeX: {message}", "close every brace, end each field")
        # Where braces are not closed, what seems to be missing may be there.
        whole = entries if not self.broken else {}
        works = {key: self._work(key, entry) for key, entry in whole.items()}
        # What could not be read is known all the same: citing it is no second fault.
        for match in _BEGIN.finditer(self.text):
            works.setdefault(match[2], None)
        return _told_apart(
            {key: work or Work(key, key, "", (), (), key, "", (), 0) for key, work in works.items()}
        )

    def _work(self, key: str, entry: "Entry") -> Work | None:
        line = self.places.get(key.lower(), 0)
        fields = {name.lower(): _plain(value) for name, value in entry.fields.items()}
        people: Sequence[Person] = entry.persons.get("author") or entry.persons.get("editor") or ()
        missing = [name for name in ("title", "year") if not fields.get(name)]
        missing += [] if people else ["author"]
        links = tuple(_links(fields))
        if not _KEY.fullmatch(key):
            self._fault(line, f"`{key}` is no key", "letters, digits, and `.:-_`")
        elif missing:
            names = " and ".join(f"`{name}`" for name in sorted(missing))
            self._fault(line, f"`{key}` has no {names}", "readers want to know who, what and when")
        elif not links:
            hint = "add `eprint` with its arXiv number, `doi`, or `url`"
            self._fault(line, f"`{key}` says not where it can be read", hint)
        else:
            last = tuple(_last(person) for person in people)
            return Work(
                key=key,
                short=_short(last),
                year=fields["year"],
                authors=tuple(_full(person) for person in people),
                sorting=(*(name.casefold() for name in last), fields["year"], key),
                title=fields["title"],
                venue=_venue(fields),
                links=links,
                line=line,
            )
        return None

    def _fault(self, line: int, message: str, hint: str = "") -> None:
        source = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        hint = hint or "give each of them a key of its own"
        self.report.add(Diagnostic(self.display, line, 0, "bibliography", message, hint, source))


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


def _full(person: "Person") -> str:
    given = (*person.first_names, *person.middle_names, *person.prelast_names)
    names = (*given, *person.last_names, *person.lineage_names)
    return " ".join(_plain(name) for name in names)


def _last(person: "Person") -> str:
    return " ".join(_plain(part) for part in (*person.prelast_names, *person.last_names))


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
