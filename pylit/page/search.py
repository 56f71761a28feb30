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

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")


def search_files(documents: Sequence[SearchDocument]) -> Mapping[str, bytes]:
    """The index as a script that hands it to ``assets/search.js``."""
    index = json.dumps(serialised(documents), ensure_ascii=False, separators=(",", ":"))
    # These two end a line in scripts of old, and "</" a script inside a page.
    index = index.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/")
    return {"assets/search-index.js": f"pylit.index({index});\n".encode()}


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


@lru_cache(maxsize=20_000)
def _counted(text: str) -> Mapping[str, int]:
    """The terms of a text, and how often each stands in it; most texts come again in each build."""
    return Counter(terms(text))


def serialised(documents: Sequence[SearchDocument]) -> dict[str, object]:
    """The index as MiniSearch's ``loadJS`` reads it (serialisation version 2)."""
    postings: dict[str, dict[int, dict[str, int]]] = {}
    lengths: dict[str, list[int]] = {}
    totals = [0] * len(FIELDS)
    for number, document in enumerate(documents):
        lengths[str(number)] = []
        for field, name in enumerate(FIELDS):
            found = _counted(getattr(document, name))
            for term, times in found.items():
                postings.setdefault(term, {}).setdefault(field, {})[str(number)] = times
            lengths[str(number)].append(len(found))
            totals[field] += len(found)
    count = len(documents)
    return {
        "documentCount": count,
        "nextId": count,
        "documentIds": {str(number): number for number in range(count)},
        "fieldIds": {name: field for field, name in enumerate(FIELDS)},
        "fieldLength": lengths,
        "averageFieldLength": [round(total / max(count, 1), 4) for total in totals],
        "storedFields": {str(n): _stored(document) for n, document in enumerate(documents)},
        "dirtCount": 0,
        "index": [[term, postings[term]] for term in sorted(postings)],
        "serializationVersion": 2,
    }


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
