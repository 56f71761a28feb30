"""What the search dialog reads: an index of all pages, in scripts of which it loads a few.

A page opened from a disk may load scripts, but not data. There are four kinds, so that a search in
ten thousand modules loads no more than one in ten:

- ``search-index.js`` says which terms and which entries the others hold;
- ``search/terms-N.js`` holds terms in order, each with the entries in which it occurs;
- ``search/texts-N.js`` holds the titles and texts of entries, to be shown;
- ``search/words.js`` holds the terms that a misspelt word may have meant.

An entry is a page, a heading or a definition. How well it answers a term does not depend on what
else is asked for, so its score (BM25+, a title weighs more than a text) is worked out here, and a
browser only adds. Of a term that occurs almost everywhere, the entries that it fits best are kept.
"""

import json
import math
import pickle
import re
import tomllib
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, TypeVar

from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.glossary import search_terms
from pylit.model import HEADING, Draft, Module

Key = TypeVar("Key")

#: In ``docs_src``: under ``[aliases]``, the name of a page and what else readers call it.
ALIASES = "aliases.toml"
#: Characters of a script of terms, and of one of texts: some of each answer a query.
_TERMS, _TEXTS = 40_000, 24_000
#: Entries that are kept of a term, and terms and entries that are in memory at a time.
_MOST, _ROOM = 2_000, 2_000_000
#: What a word weighs in the title of an entry, its names, the title of its page, and its text.
_BOOSTS = (6.0, 6.0, 1.5, 1.0)
#: How often a word counts in each of them at most, and where that is kept in a number.
_FIELDS = ((0xF, 16), (0xF, 12), (0xF, 8), (0xFF, 0))
#: BM25+: how soon more of a word adds nothing, what the length of a text matters, and what any
#: occurrence is worth.
_SOON, _LENGTH, _ANY = 1.2, 0.7, 0.5
#: Scores are whole numbers, of so many to one.
_FINE = 4

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
_LESSER = re.compile(r"(?:Config|Error)$")


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page as readers find it, by its own words and by those of its parts."""

    url: str
    title: str
    #: Other names of the page: of its module, and those that the author gives.
    names: tuple[str, ...]
    text: str
    #: Its headings and definitions, in order: anchor, title and the text under each. A definition
    #: has no title but its anchor.
    parts: tuple[tuple[str, str, str], ...]
    #: Of the page and of each part: its terms, each with how often it occurs in each field, and
    #: how many different terms there are in each field.
    words: tuple[tuple[Mapping[str, int], tuple[int, ...]], ...] = ()


def read_aliases(
    path: Path, pages: Collection[str], report: Report
) -> Mapping[str, tuple[str, ...]]:
    """Name of a page -> its other names; a missing file holds none."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)["aliases"]
        found = {name: tuple(map(str, aliases)) for name, aliases in table.items()}
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        hint = 'write `"package.module" = ["another name"]` under `[aliases]`'
        report.add(Diagnostic(f"docs_src/{path.name}", 0, 0, "config", str(error), hint))
        return {}
    for name in sorted(found.keys() - set(pages)):
        line = text[: text.index(name)].count("\n") + 1
        hint = nearest(name, pages, "name a module or a Markdown page")
        message = f"there is no page `{name}`"
        report.add(Diagnostic(f"docs_src/{path.name}", line, 0, "navigation", message, hint))
    return found


def search_page(draft: Draft, module: Module) -> SearchPage:
    """The page, its headings and its definitions, each with the text that stands under it."""
    texts: dict[str, list[str]] = {"": [draft.summary_note.text]}
    #: Of headings; a definition has none but its anchor.
    titles: dict[str, str] = {}
    definitions = {d.qualname for d in module.definitions if d.qualname}
    current = ""
    for section in draft.sections:
        if section.definition in definitions:
            current = section.definition
            titles.setdefault(current, "")
        for note in section.notes:
            first, *under = note.text.split(HEADING)
            texts.setdefault(current, []).append(first)
            for heading, text in zip(note.headings, under, strict=True):
                current = heading.slug
                titles.setdefault(current, heading.text)
                texts.setdefault(current, []).append(text)
    parts = [(anchor, title, _joined(texts.get(anchor, ()))) for anchor, title in titles.items()]
    name = PurePosixPath(draft.name).name if draft.prose else draft.name.rpartition(".")[2]
    defined = list(search_terms(draft))
    # The text of a glossary is that of its terms.
    text = _joined(texts[""][:1] if defined else texts[""])
    return counted(SearchPage(draft.url, draft.title, (name,), text, (*parts, *defined)))


def _joined(texts: Iterable[str]) -> str:
    return " ".join(" ".join(text.split()) for text in texts if text)


def counted(page: SearchPage) -> SearchPage:
    """The page with its words counted."""
    own = _counted(page.title, ",".join(page.names), "", page.text)
    parts = (_counted(title or anchor, "", page.title, text) for anchor, title, text in page.parts)
    return replace(page, words=(own, *parts))


def _counted(*fields: str) -> tuple[dict[str, int], tuple[int, ...]]:
    found: dict[str, int] = {}
    lengths = []
    for text, (most, shift) in zip(fields, _FIELDS, strict=True):
        words = Counter(terms(text))
        lengths.append(len(words))
        for word, times in words.items():
            found[word] = found.get(word, 0) | min(times, most) << shift
    return found, tuple(lengths)


def terms(text: str) -> list[str]:
    """The terms of a text, as ``theme/js/search/10-terms.js`` finds those of a query.

    Each word in lower case, and its parts where it is put together, such as FeedbackAttention.
    """
    if not text.isascii():
        letters = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in letters if c < "\x80" or unicodedata.category(c)[0] != "M")
    found = []
    for word in _WORD.findall(text):
        low = word.lower()
        found.append(low)
        if not (low == word and word.isalpha() and word.isascii()):
            parts = _PARTS.findall(word)
            if len(parts) > 1:
                found += [part.lower() for part in parts]
    return found


def _spelt(text: str) -> str:
    """However it is written: KVCache, kv_cache and "KV cache" are one name."""
    return "".join(filter(str.isalnum, text.lower()))


def _weight(page: SearchPage, part: int) -> float:
    """A page before a class, a class before its methods, and what is public before what is not."""
    if part == 0:
        return 3.0
    anchor, title, _ = page.parts[part - 1]
    if title:
        return 1.0
    if re.search(r"(?:^|\.)_", anchor):
        return 0.4
    return 0.6 if _LESSER.search(anchor) else 0.8 if "." in anchor else 1.8


@dataclass(frozen=True, slots=True)
class _Added:
    """A page of the index."""

    #: Where its text lies, and how long it is.
    start: int
    length: int
    #: Of the page and of each part: what its scores are multiplied by, and the lengths of fields.
    weights: "array[float]"
    lengths: "array[int]"


class SearchIndex:
    """The index of a site, made page by page; what is large of it lies in files until the end."""

    def __init__(self) -> None:
        #: Term -> where it occurs: number of the page, of the part, and how often in each field.
        self._found: dict[str, array[int]] = {}
        self._room = _ROOM
        self._end = ExitStack()
        self._runs: list[IO[bytes]] = []
        self._texts: IO[bytes] = self._end.enter_context(TemporaryFile())  # noqa: SIM115
        self._pages: dict[int, _Added] = {}

    def __enter__(self) -> "SearchIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def add(self, number: int, page: SearchPage, rank: int) -> None:
        """Add a page. Its rank is 2 on a reading path, 1 if `site.toml` lists it, 0 otherwise."""
        weights, lengths = array("d"), array("L")
        for part, (words, each) in enumerate(page.words):
            place = number << 40 | part << 20
            for term, times in words.items():
                self._put(term, place | times)
            called = page.parts[part - 1][1] or page.parts[part - 1][0] if part else page.title
            names = page.names if part == 0 else ()
            for name in {_spelt(name) for name in (called, *names)}:
                self._put(f"={name}", place)
            weights.append(_weight(page, part) * (1 + rank / 2))
            lengths.extend(each)
        parts = [[a, text, title] if title else [a, text] for a, title, text in page.parts]
        text = json.dumps(
            [page.url, page.title, page.text, parts], ensure_ascii=False, separators=(",", ":")
        ).encode()
        self._pages[number] = _Added(self._texts.tell(), len(text), weights, lengths)
        self._texts.write(text)
        if self._room < 0:
            self._spill()

    def _put(self, term: str, value: int) -> None:
        places = self._found.get(term)
        if places is None:
            places = self._found[term] = array("Q")
            self._room -= 10
        places.append(value)
        self._room -= 1

    def _spill(self) -> None:
        """Write what is in memory to a file, in the order of the terms."""
        run: IO[bytes] = self._end.enter_context(TemporaryFile())  # noqa: SIM115
        for item in sorted(self._found.items()):
            pickle.dump(item, run, protocol=pickle.HIGHEST_PROTOCOL)
        self._runs.append(run)
        self._found, self._room = {}, _ROOM

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The scripts, by path."""
        numbers = sorted(self._pages)
        counts = [len(self._pages[number].weights) for number in numbers]
        first = dict(zip(numbers, accumulate(counts, initial=0), strict=False))
        scores = _Scores(self._pages, first)
        words: list[str] = []
        shards: list[str] = []
        for number, shard in enumerate(_packed(self._scored(scores, words), _TERMS)):
            shards.append(shard[0][0])
            text = ",".join(f"{json.dumps(t, ensure_ascii=False)}:{found}" for t, found in shard)
            yield _script(f"search/terms-{number}", f"{{{text}}}")
        chunks: list[int] = []
        for number, chunk in enumerate(_packed(self._shown(numbers, first), _TEXTS)):
            chunks.append(chunk[0][0])
            yield _script(f"search/texts-{number}", f"[{','.join(text for _, text in chunk)}]")
        yield _script("search/words", json.dumps(" ".join(words), ensure_ascii=False))
        heads = json.dumps(shards, ensure_ascii=False, separators=(",", ":"))
        yield _script("search-index", f"{{shards:{heads},chunks:{chunks}}}".replace(", ", ","))

    def _scored(self, scores: "_Scores", words: list[str]) -> Iterator[tuple[str, str]]:
        """Each term with the entries that hold it; those to be offered for a slip go to `words`."""
        runs = [*map(_read, self._runs), iter(sorted(self._found.items()))]
        for term, group in groupby(merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
            places = sorted(place for _, found in group for place in found)
            found = scores.exact(places) if term[0] == "=" else scores.best(places)
            if len(term) > 3 and term[0] != "=" and (len(found) > 1 or places[0] >> 12 & 0xFF):
                words.append(term)
            steps = pairwise([0, *(entry for entry, _ in found)])
            told = zip(((b - a) for a, b in steps), (score for _, score in found), strict=True)
            yield term, f"[{','.join(f'{step},{score}' for step, score in told)}]"

    def _shown(self, numbers: Sequence[int], first: Mapping[int, int]) -> Iterator[tuple[int, str]]:
        """Each page with the number of its first entry."""
        for number in numbers:
            self._texts.seek(self._pages[number].start)
            text = self._texts.read(self._pages[number].length).decode()
            yield first[number], f"[{first[number]},{text[1:]}"


class _Scores:
    """How well entries answer terms."""

    def __init__(self, pages: Mapping[int, _Added], first: Mapping[int, int]) -> None:
        self._pages, self._first = pages, first
        self._count = sum(len(page.weights) for page in pages.values())
        totals = [sum(sum(p.lengths[field::4]) for p in pages.values()) for field in range(4)]
        self._average = [total / max(self._count, 1) or 1.0 for total in totals]

    def best(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """The entries at some places, each with its score, in order."""
        rare = []
        for boost, (most, shift) in zip(_BOOSTS, _FIELDS, strict=True):
            holding = sum(1 for place in places if place >> shift & most)
            rare.append(boost * math.log(1 + (self._count - holding + 0.5) / (holding + 0.5)))
        found = []
        for place in places:
            number, part = place >> 40, place >> 20 & 0xFFFFF
            page = self._pages[number]
            score = 0.0
            for field, (most, shift) in enumerate(_FIELDS):
                if times := place >> shift & most:
                    length = page.lengths[4 * part + field] / self._average[field]
                    held = times + _SOON * (1 - _LENGTH + _LENGTH * length)
                    score += rare[field] * (_ANY + times * (_SOON + 1) / held)
            fine = round(_FINE * score * page.weights[part])
            found.append((self._first[number] + part, max(fine, 1)))
        if len(found) > _MOST:
            found = sorted(sorted(found, key=lambda one: -one[1])[:_MOST])
        return found

    def exact(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """The entries that are called so, each with its weight."""
        found = []
        for place in places[:_MOST]:
            number, part = place >> 40, place >> 20 & 0xFFFFF
            weight = self._pages[number].weights[part]
            found.append((self._first[number] + part, round(100 * weight)))
        return found


def _read(run: IO[bytes]) -> Iterator[tuple[str, "array[int]"]]:
    run.seek(0)
    while True:
        try:
            yield pickle.load(run)
        except EOFError:
            return


def _packed(items: Iterable[tuple[Key, str]], size: int) -> Iterator[list[tuple[Key, str]]]:
    """Items with their texts, together as many as fill a script."""
    pack: list[tuple[Key, str]] = []
    room = size
    for item in items:
        pack.append(item)
        room -= len(item[1])
        if room < 0:
            yield pack
            pack, room = [], size
    if pack:
        yield pack


def _script(name: str, data: str) -> tuple[str, bytes]:
    """A script that hands over what it holds under its own name."""
    return f"assets/{name}.js", f'pylit.found("{name}",{data});\n'.encode()
