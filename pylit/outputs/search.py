"""What the search dialog reads: an index of all pages, in scripts of which it loads a few.

A page opened from a disk may load scripts, but not data. There are four kinds, so that a search in
ten thousand modules loads no more than one in ten:

- ``search-index.js``: the first term and the first entry of each of the others;
- ``search/terms-N.js``: terms in order, each with the entries in which it occurs and their scores;
- ``search/texts-N.js``: the titles and texts of entries;
- ``search/words.js``: the terms that a misspelt word is compared with.

An entry is a page, a heading, a definition, a note beside code or a term of the glossary. Its score
for a term does not depend on the rest of a query, so it is computed here (BM25F: an occurrence in a
title counts more than one in a text), and a browser only adds. Of a term that occurs almost
everywhere, the best entries are kept.
See decision 030.
"""

import html
import json
import math
import re
import sqlite3
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeVar

from pylit.addresses import is_cpp
from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.model import HEADING, Draft, Module, NoteHtml, formula_slot
from pylit.notes.tex import tex_to_text

Key = TypeVar("Key")

#: In ``docs_src``: under ``[aliases]``, the name of a page and what else readers call it.
ALIASES = "aliases.toml"
#: Characters of a script of terms, and of one of texts: some of each answer a query.
_TERMS, _TEXTS = 40_000, 24_000
#: Entries that are kept of a term.
_MOST = 2_000
#: What an occurrence counts in the title or the names of an entry, in the title of its page, and in
#: its text; the opening of a note is a title that its author did not set.
_TITLE, _OPENING, _PAGE, _TEXT = 12, 6, 3, 2
#: Letters of a note that is an entry of its own; a shorter one belongs to its definition.
_ALONE = 60
#: Letters of the sentences that a note begins with: at least, and at most.
_LEAST_OPENING, _MOST_OPENING = 24, 90
#: Parameters of BM25: how soon more occurrences add nothing, and how much the length matters.
_K1, _B = 4.0, 0.4
#: Scores are integers, in tenths.
_SCALE = 10

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
#: Characters of Chinese and Japanese, which have no spaces between words.
_HAN = re.compile("[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
#: A sentence: up to a full stop before a space, or one of Chinese.
_SENTENCE = re.compile(r".+?(?:[.?!:](?=\s|$)|[。？！：]|$)\s*", re.DOTALL)
#: What has no letters and still is asked for in words.
_SIGNS = {"note": "n", "term": "t"}
_ROOT = re.compile("√|根号|平方根")
_SQUARE_ROOT = re.compile(r"square[ -]roots?\b", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_HEADINGS = re.compile(r"<h[1-6]\b")
_LEAD = re.compile(r"<p><strong>([^<]+)</strong>")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")


class Part(NamedTuple):
    """A part of a page that is found by itself."""

    anchor: str
    #: A definition has none but its anchor; that of a note beside code is its opening.
    title: str
    text: str
    kind: Literal["definition", "heading", "note", "term"] = "heading"
    #: What its paragraphs begin with in bold.
    leads: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page as readers find it, by its own words and by those of its parts."""

    url: str
    title: str
    #: Other names of the page: of its module, and those that the author gives.
    names: tuple[str, ...]
    text: str
    #: Its headings, definitions, notes and terms, in order, each with the text under it.
    parts: tuple[Part, ...]
    #: The anchors of definitions that are not for users.
    private: frozenset[str] = frozenset()
    #: Of the page and of each part: the weighted frequency of each term.
    words: tuple[Mapping[str, int], ...] = ()


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
    """The page and its parts, each with the text under it."""
    texts: dict[str, list[str]] = {"": [draft.summary_note.text]}
    leads: dict[str, list[str]] = {}
    found: dict[str, Part] = {}
    definitions = {d.qualname for d in module.definitions if d.qualname}
    current = ""
    for section in draft.sections:
        if section.definition in definitions:
            current = section.definition
            found.setdefault(current, Part(current, "", "", "definition"))
        inside = section.code and not section.definition
        for note in section.notes:
            first, *under = note.text.split(HEADING)
            at = current
            if inside and not under and len(first) >= _ALONE:
                at = f"L{section.code[0].number}"
                found.setdefault(at, Part(at, _opening(first), "", "note"))
            texts.setdefault(at, []).append("" if note.terms else first)
            bold = [_LEAD.findall(part) for part in _HEADINGS.split(note.html)[1:]]
            for heading, text in zip(note.headings, under, strict=True):
                current = heading.slug
                found.setdefault(current, Part(current, heading.text, ""))
                texts.setdefault(current, []).append(text)
                leads.setdefault(current, []).extend(bold.pop(0) if bold else ())
            for anchor, name, meaning in note.terms:
                found[anchor] = Part(anchor, _plain(name, note), "", "term")
                texts[anchor] = [_plain(meaning, note)]
    parts = tuple(
        part._replace(text=_joined(texts.get(at, ())), leads=_joined(leads.get(at, ())))
        for at, part in found.items()
    )
    name = PurePosixPath(draft.name).name if draft.prose else draft.name.rpartition(".")[2]
    private = frozenset(name for name in definitions if not module.is_public(name))
    return counted(SearchPage(draft.url, draft.title, (name,), _joined(texts[""]), parts, private))


def _opening(text: str) -> str:
    """The first sentences of a note, as many as say something: "Scale. Why divide by √d?"."""
    opening = ""
    for sentence in _SENTENCE.findall(" ".join(text.split())):
        if opening and len(opening + sentence.rstrip()) > _MOST_OPENING:
            break
        opening += sentence
        if len(opening) >= _LEAST_OPENING:
            break
    opening = opening.strip().rstrip(":：")
    if len(opening) <= _MOST_OPENING:
        return opening
    return opening[:_MOST_OPENING].rpartition(" ")[0] + " …"


def _plain(markup: str, note: NoteHtml) -> str:
    """The text of a part of a note."""
    text = html.unescape(_TAG.sub("", markup))
    for number, formula in enumerate(note.formulas):
        text = text.replace(formula_slot(number), tex_to_text(formula.tex))
    return _joined([text])


def _joined(texts: Iterable[str]) -> str:
    return " ".join(" ".join(texts).split())


def counted(page: SearchPage) -> SearchPage:
    """The page with its words counted."""
    own = _frequencies((page.title, _TITLE), (",".join(page.names), _TITLE), (page.text, _TEXT))
    parts = (
        _frequencies(
            (part.title or part.anchor, _OPENING if part.kind == "note" else _TITLE),
            (page.title, _PAGE),
            (part.text, _TEXT),
            (part.leads, _OPENING),
        )
        for part in page.parts
    )
    return replace(page, words=(own, *parts))


def _frequencies(*fields: tuple[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for text, weight in fields:
        for term in terms(text):
            found[term] += weight
    return dict(found)


def terms(text: str) -> list[str]:
    """The terms of a text, as ``theme/js/search/10-terms.js`` finds those of a query.

    Each word in lower case, and the parts of a compound such as FeedbackAttention. Chinese and
    Japanese have no spaces between words: there a term is a pair of adjacent characters, or a
    character that stands alone. A root is "sqrt", however it is written.
    """
    text = _SQUARE_ROOT.sub(r"\g<0> sqrt", _ROOT.sub(" sqrt ", text))
    if not text.isascii():
        letters = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in letters if c < "\x80" or unicodedata.category(c)[0] != "M")
        text = _HAN.sub(r" \g<0> ", text)
    found: list[str] = []
    for word in _WORD.findall(text):
        if len(word) > 1 and _HAN.match(word):
            found += map("".join, pairwise(word))
            continue
        found.append(word.lower())
        parts = _PARTS.findall(word)
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


def _normalized(name: str) -> str:
    """KVCache, kv_cache and "KV cache" are one name."""
    return "".join(filter(str.isalnum, name.lower()))


def _weight(page: SearchPage, number: int, rank: int) -> float:
    """How much an entry counts: what is read in order before what is looked up.

    A page before a class, a class before its methods, and what is public before what is not; a
    lesson before other pages, and those before C++.
    """
    reading = 0.3 if is_cpp(page.url.removesuffix(".html")) else (0.6, 1.5, 2.5)[rank]
    if number == 0:
        return 3.0 * reading
    part = page.parts[number - 1]
    if part.kind != "definition":
        return (0.7 if part.kind == "note" else 1.0) * reading
    if part.anchor in page.private:
        return 0.4 * reading
    if part.anchor.endswith(("Config", "Error")):
        return 0.6 * reading
    return (0.8 if "." in part.anchor else 1.8) * reading


class SearchIndex:
    """The index of a site, made page by page in a temporary database."""

    def __init__(self) -> None:
        # A database without a name is in memory while it is small, then in a temporary file.
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE hits (term TEXT, entry INTEGER, frequency INTEGER)")
        self._database.execute("CREATE TABLE pages (entry INTEGER, page TEXT)")
        #: Of each entry: the factor of its scores, and its length.
        self._weights: list[float] = []
        self._lengths: list[int] = []

    def __enter__(self) -> "SearchIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, page: SearchPage, rank: int) -> None:
        """Add a page. Its rank is 2 on a reading path, 1 if `site.toml` lists it, 0 otherwise."""
        first = len(self._weights)
        for part, words in enumerate(page.words):
            names = [page.title, *page.names] if part == 0 else []
            names += [
                one.title or one.anchor
                for one in page.parts[max(part - 1, 0) : part]
                if one.kind != "note"
            ]
            hits = {**words, **{f"={_normalized(name)}": 0 for name in names}}
            rows = ((term, first + part, frequency) for term, frequency in hits.items())
            self._database.executemany("INSERT INTO hits VALUES (?, ?, ?)", rows)
            self._weights.append(_weight(page, part, rank))
            self._lengths.append(sum(words.values()))
        # The kind of a part is told where its title does not tell it.
        parts = [
            [one.anchor, one.text, *filter(None, (one.title, _SIGNS.get(one.kind)))]
            for one in page.parts
        ]
        text = _json([first, page.url, page.title, page.text, parts, rank])
        self._database.execute("INSERT INTO pages VALUES (?, ?)", (first, text))

    def files(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """The scripts, by path; `prefix` is that of the language of the pages."""
        for name, data in self._scripts():
            yield f"assets/{prefix}{name}.js", f'pylit.found("{name}",{data});\n'.encode()

    def _scripts(self) -> Iterator[tuple[str, str]]:
        words: list[str] = []
        shards: list[str] = []
        for number, shard in enumerate(_packed(self._scored(words), _TERMS)):
            shards.append(shard[0][0])
            text = ",".join(f"{_json(term)}:{scores}" for term, scores in shard)
            yield f"search/terms-{number}", f"{{{text}}}"
        chunks: list[int] = []
        pages = self._database.execute("SELECT entry, page FROM pages ORDER BY entry")
        for number, chunk in enumerate(_packed(pages, _TEXTS)):
            chunks.append(chunk[0][0])
            yield f"search/texts-{number}", f"[{','.join(text for _, text in chunk)}]"
        yield "search/words", _json(" ".join(words))
        yield "search-index", f"{{shards:{_json(shards)},chunks:{_json(chunks)}}}"

    def _scored(self, words: list[str]) -> Iterator[tuple[str, str]]:
        """Each term with the distances between its entries and their scores, as JSON.

        Terms that a misspelt word is compared with go to `words`.
        """
        mean = sum(self._lengths) / max(len(self._lengths), 1)
        hits = self._database.execute("SELECT * FROM hits ORDER BY term, entry")
        for term, group in groupby(hits, key=itemgetter(0)):
            found = [(entry, frequency) for _, entry, frequency in group]
            if term[0] == "=":
                scores = [(entry, round(100 * self._weights[entry])) for entry, _ in found]
            else:
                scores = self._scores(found, mean)
                if len(term) > 3 and (len(found) > 1 or found[0][1] >= _TITLE):
                    words.append(term)
            if len(scores) > _MOST:
                scores = sorted(nlargest(_MOST, scores, key=itemgetter(1)))
            steps = pairwise([0, *(entry for entry, _ in scores)])
            pairs = zip(steps, scores, strict=True)
            yield term, _json([n for (a, b), (_, score) in pairs for n in (b - a, score)])

    def _scores(self, found: Sequence[tuple[int, int]], mean: float) -> list[tuple[int, int]]:
        """The entries of one term, each with its score."""
        rarity = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
        scores = []
        for entry, frequency in found:
            limit = _K1 * (1 - _B + _B * self._lengths[entry] / mean)
            score = rarity * self._weights[entry] * frequency * (_K1 + 1) / (frequency + limit)
            scores.append((entry, max(round(_SCALE * score), 1)))
        return scores


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


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
