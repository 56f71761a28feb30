"""The search index, built here so that a reader's browser does not have to.

It is MiniSearch's own serialised form, written as a script: a page opened from a disk may load
scripts, but not data. Terms are whole words in lower case, and the words inside an identifier, so
that ``FeedbackAttention`` is found by either half of its name; what a reader types is cut in the
same way by the theme's ``js/search/terms.js``.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pylit.model import SearchDocument

FIELDS = ("title", "page", "text")
#: So much of a note is shown under a result.
EXCERPT = 160

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")


def search_files(documents: Sequence[SearchDocument]) -> Mapping[str, bytes]:
    """The index as a script that hands it to ``assets/search.js``."""
    return SearchIndex().files(documents)


def terms(text: str) -> Iterator[str]:
    """The terms of a text, in order: each word, and its parts where it is put together."""
    if not text.isascii():
        split = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in split if not unicodedata.category(c).startswith("M"))
    for word in _WORD.findall(text):
        yield from _forms(word)


@lru_cache(maxsize=100_000)
def _forms(word: str) -> tuple[str, ...]:
    """A word and its parts; the same few thousand words come again and again."""
    parts = _PARTS.findall(word)
    return (word.lower(), *(part.lower() for part in parts if len(parts) > 1))


class SearchIndex:
    """An index that grows old with its site: an edit touches the terms of its documents only."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._documents: list[SearchDocument] = []
        #: Term -> field -> document -> how often the term stands there.
        self._postings: dict[str, dict[int, dict[int, int]]] = {}
        #: Term -> what the index says of it.
        self._entries: dict[str, str] = {}
        #: For each document, how many terms its fields have, and what is shown of it.
        self._lengths: list[list[int]] = []
        self._shown: list[str] = []

    def files(self, documents: Sequence[SearchDocument]) -> Mapping[str, bytes]:
        """The script for these documents, whatever was there before."""
        self._update(documents)
        index = self._text()
        # These two end a line in scripts of old, and "</" a script inside a page.
        index = index.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        index = index.replace("</", "<\\/")
        return {"assets/search-index.js": f"pylit.index({index});\n".encode()}

    def _update(self, documents: Sequence[SearchDocument]) -> None:
        """Take out documents that have changed, and put in what they are now."""
        if len(documents) != len(self._documents):
            # A document is known by its number, and most numbers have changed.
            self._forget()
        touched: set[str] = set()
        for number, document in enumerate(documents):
            if number == len(self._documents):
                self._documents.append(document)
                self._lengths.append([])
                self._shown.append("")
            elif self._documents[number] == document:
                continue
            else:
                touched |= self._take_out(number)
            touched |= self._put_in(number, document)
        for term in touched:
            self._write(term)

    def _take_out(self, number: int) -> set[str]:
        """Forget a document. The result is the terms that it had."""
        had: set[str] = set()
        for field, name in enumerate(FIELDS):
            for term in _counted(getattr(self._documents[number], name)):
                del self._postings[term][field][number]
                had.add(term)
        return had

    def _put_in(self, number: int, document: SearchDocument) -> set[str]:
        """Read a document. The result is its terms."""
        self._documents[number] = document
        self._shown[number] = f'"{number}":{_json(_stored(document))}'
        self._lengths[number] = lengths = []
        has: set[str] = set()
        for field, name in enumerate(FIELDS):
            found = _counted(getattr(document, name))
            lengths.append(len(found))
            has.update(found)
            for term, times in found.items():
                self._postings.setdefault(term, {}).setdefault(field, {})[number] = times
        return has

    def _write(self, term: str) -> None:
        """Write down where a term stands."""
        fields = []
        for field, places in sorted(self._postings[term].items()):
            if places:
                counts = ",".join(f'"{number}":{places[number]}' for number in sorted(places))
                fields.append(f'"{field}":{{{counts}}}')
        if fields:
            self._entries[term] = f"[{_json(term)},{{{','.join(fields)}}}]"
        else:
            del self._postings[term], self._entries[term]

    def _text(self) -> str:
        """The index as MiniSearch's ``loadJS`` reads it (serialisation version 2)."""
        count = len(self._documents)
        totals = [sum(column) for column in zip(*self._lengths, strict=True)] or [0] * len(FIELDS)
        before = {
            "documentCount": count,
            "nextId": count,
            "documentIds": {str(number): number for number in range(count)},
            "fieldIds": {name: field for field, name in enumerate(FIELDS)},
            "fieldLength": {str(number): lengths for number, lengths in enumerate(self._lengths)},
            "averageFieldLength": [round(total / max(count, 1), 4) for total in totals],
            "dirtCount": 0,
            "serializationVersion": 2,
        }
        entries = ",".join(self._entries[term] for term in sorted(self._entries))
        shown = ",".join(self._shown)
        return f'{_json(before)[:-1]},"storedFields":{{{shown}}},"index":[{entries}]}}'


@lru_cache(maxsize=20_000)
def _counted(text: str) -> Mapping[str, int]:
    """The terms of a text, and how often each stands in it; titles come again and again."""
    return Counter(terms(text))


def _stored(document: SearchDocument) -> dict[str, str]:
    excerpt = " ".join(document.text.split())
    if len(excerpt) > EXCERPT:
        excerpt = excerpt[:EXCERPT].rsplit(" ", 1)[0] + "…"
    return {
        "url": document.url,
        "kind": document.kind,
        "title": document.title,
        "page": document.page,
        "excerpt": excerpt,
    }
