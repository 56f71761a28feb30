"""Pages in other languages, each from one file of Markdown.

``docs_src/locale/zh/package/module.md`` is the Chinese of ``package/module.py``. It has a block for
each passage, which is a note, or of a long one what stands below one of its headings::

    # Layer.forward, 2 · 1f3a9c04

    > What the English note says.

    译文。

The eight digits are a digest of the English passage that has been translated. Where the module has
a passage with that digest now, the page shows the translation; for any other passage, it shows the
English. So a translation never speaks of code that has changed since.

`refreshed` writes such a file anew: blocks in the order of the module, the English of today above
each, ``1f3a9c04 → 77d2b10e`` in the head of one whose English has changed, and at the end what is
no longer in the module. Who has mended a translation leaves only the last digest. See decision 046.

A file may say one thing that the English does not: what the first reading of a page was, in short.
Such a block stands at the end of that reading, and its digest is that of the whole of it::

    # in short · 7b02c3d1

    ## 小结

    1. 五行。
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from markdown_it.token import Token

from pylit.diagnostics import Diagnostic, Report
from pylit.languages.blocks import Block, digest_of, head_of, outside_fences, read_blocks
from pylit.model import Draft, Module, Note, SourceFile, Span, Translation
from pylit.notes.glossary import Term, finder
from pylit.notes.markdown import parser

#: Keys of the front matter that are translated.
_KEYS = ("title", "summary")
_GONE = "no longer in English"
_IDLE = "signs that mark nothing"
#: The place of a block that the English has not, at the end of the first reading.
IN_SHORT = "in short"
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
#: Code, and the output of code, as pages show notebooks.
_NO_WORDS = re.compile(
    r"^(`{3,}|~{3,}).*?^\1`*\s*?$|^<(pre|figure) class=\"[^\"]*out\">.*?</\2>$",
    re.MULTILINE | re.DOTALL,
)
#: Words in a formula, which a translation writes in its language.
_WORDS = re.compile(r"\\(text|mbox)\s*\{[^{}]*\}|\s+")


class Passage(NamedTuple):
    """A part of a page that is translated as a whole."""

    #: Where it is, for people: ``Layer.forward, 2``.
    place: str
    text: str
    #: The section of the module and the note that it is a part of; none for title and summary.
    section: int = -1
    note: Note | None = None

    @property
    def hash(self) -> str:
        """Eight digits that change with its words, not with the ends of its lines."""
        return digest_of(self.text)


def passages(module: Module) -> Iterator[Passage]:
    """All passages of a page in order: its title and its summary, then those of its notes."""
    return (passage for passage in _passages(module) if passage.place)


def _passages(module: Module) -> Iterator[Passage]:
    """The passages, and those that have no words; these have no place."""
    for key in _KEYS:
        if text := module.front_matter.get(key, ""):
            yield Passage(key, text)
    numbers: Counter[str] = Counter()
    name = ""
    for section, content in enumerate(module.sections):
        name = content.definition or name
        for note in content.notes:
            for place, part in _parts(note):
                if not _NO_WORDS.sub("", part.text).strip():
                    yield Passage("", part.text, section, part)
                    continue
                numbers[name] += 1
                number = f"{name or 'page'}, {numbers[name]}"
                yield Passage(place or number, part.text, section, part)


def in_words(text: str, translations: Mapping[str, str]) -> str:
    """A note with its passages in another language, by their digests; others stay as they are."""
    note = Note("comment", Span(1, 1), text, 1, 0)
    parts = (part.text for _, part in _parts(note))
    return "\n\n".join(translations.get(digest_of(part), part) for part in parts)


def in_language(module: Module, file: SourceFile) -> Module:
    """The module with the notes of a file of translations, for programs that make no page of it."""
    known = {b.hash: b.text for b in read_blocks(file.text)[1] if b.text and b.place != IN_SHORT}

    def translated_note(note: Note) -> Note:
        return replace(note, text=in_words(note.text, known))

    sections = (replace(s, notes=tuple(map(translated_note, s.notes))) for s in module.sections)
    return replace(module, sections=tuple(sections), translation=file)


def reading_hash(module: Module) -> str:
    """Eight digits that change with the words of the first reading; none without one."""
    texts = [p.text for p in passages(module) if p.note and _in_reading(module, p)]
    return digest_of("\n".join([IN_SHORT, *texts])) if texts else ""


def _in_reading(module: Module, passage: Passage) -> bool:
    """Whether a passage stands above all definitions."""
    sections = module.sections[: passage.section + 1]
    return not any(section.definition for section in sections)


def _parts(note: Note) -> Iterator[tuple[str, Note]]:
    """A note, cut before its headings and before its definitions, each with the term if any."""
    lines, starts, folded = note.text.split("\n"), {0: ""}, 0
    for number, line in outside_fences(lines):
        if not folded and _HEADING.match(line):
            starts[number] = ""
        elif "".join(lines[number + 1 : number + 2])[:2] == ": " and line[:1] not in ("", " ", ":"):
            starts[number] = line.partition("|")[0].strip()
        folded += line.count("<details") - line.count("</details")
    ends = [*list(starts)[1:], len(lines)]
    for (start, term), end in zip(starts.items(), ends, strict=True):
        text = "\n".join(lines[start:end])
        if text.strip():
            lead = len(text) - len(text.lstrip("\n"))
            behind = note.behind if end == len(lines) else ""
            first = note.first_line + start + lead
            part = replace(note, text=text.strip("\n"), first_line=first, behind=behind)
            yield term, part


def refreshed(
    module: Module, old: str, opening: str, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The file of a page's translation, written anew.

    Args:
        module: The module.
        old: The present text of the file.
        opening: What a new file begins with.
        elsewhere: Translations in other files, by digests: a note may move to another page.
    """
    before, blocks = read_blocks(old)
    known = {block.hash: block for block in blocks if block.text}
    places = {block.place: block for block in blocks if block.text}
    found = list(passages(module))
    hashes = {passage.hash for passage in found}
    short, reading = places.get(IN_SHORT), reading_hash(module)
    last = [passage for passage in found if _in_reading(module, passage)][-1:]
    parts = [before.strip() or opening]
    used: set[str] = set()
    for passage in found:
        block, made = known.get(passage.hash), ""
        text = block.text if block else elsewhere.get(passage.hash, "")
        if not text:
            # What stood at this place, unless that has moved to another.
            block = places.get(passage.place)
            if block and block.hash not in hashes | used:
                text, made = block.text, block.hash
                used.add(block.hash)
        elif block:
            used.add(block.hash)
        parts += [head_of(passage.place, passage.hash, made), _quoted(passage.text)]
        parts += [text] if text else []
        if short and reading and passage in last:
            parts += [head_of(IN_SHORT, reading, short.hash), short.text]
            used.add(short.hash)
    for block in blocks:
        if block.text and block.hash not in used:
            place = block.place.removeprefix(f"{_GONE}: ")
            head = head_of(f"{_GONE}: {place}", block.hash)
            parts += [head, _quoted(block.original), block.text]
            used.add(block.hash)
    return "\n\n".join(parts) + "\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def missing(module: Module, text: str) -> Iterator[tuple[Passage, int, bool]]:
    """Passages without a translation: the line of each in the file, or 0, and whether there is one
    of an earlier English text.
    """
    _, blocks = read_blocks(text)
    made = {block.hash for block in blocks if block.text}
    places = {block.place: block for block in blocks}
    for passage in passages(module):
        if passage.hash not in made:
            block = places.get(passage.place)
            yield passage, block.head if block else 0, bool(block and block.text)
    short = places.get(IN_SHORT)
    if short and short.hash != reading_hash(module):
        yield Passage(IN_SHORT, short.text), short.head, True


class TranslatedTerms:
    """The terms of a glossary and those of its translation, for a check of their use."""

    def __init__(self, terms: Sequence[Term], translated: Sequence[Term]) -> None:
        anchors = {form: term.anchor for term in terms for form in term.forms}
        self._anchors, self._pattern = finder(anchors)
        #: Anchor -> how the term is written, without the English that may follow it: 词元（token）.
        self._forms = {t.anchor: (*t.forms, t.name.partition("（")[0]) for t in translated}
        self.stamp = repr((self._anchors, self._forms))

    def unused(self, english: str, translation: str) -> Iterator[tuple[str, str]]:
        """Terms of a text that its translation says with other words, and how to say them."""
        found = self._pattern.findall(english) if self._anchors else ()
        for term in dict.fromkeys(found):
            forms = self._forms.get(self._anchors[term], ())
            if forms and not any(form in translation for form in (*forms, term)):
                yield term, forms[0]


def translated(
    module: Module,
    draft: Draft,
    file: SourceFile,
    languages: tuple[str, str],
    terms: TranslatedTerms,
) -> tuple[Module, Translation, Report]:
    """The module with the notes of a file of translations, and what is wrong with them.

    Args:
        module: The module.
        draft: The draft of its page, which has the anchors of its headings.
        file: The file.
        languages: Those of the module and of the translation.
        terms: The terms of the glossary.
    """
    report, total, left = Report(), 0, 0
    blocks = {block.hash: block for block in read_blocks(file.text)[1] if block.text}
    headings = [(h.line, h.slug) for note in draft.notes() for h in note.headings]
    values = dict(module.front_matter)
    notes: dict[int, list[Note]] = {}
    reading: Passage | None = None
    for passage in _passages(module):
        if passage.note and not passage.place:
            notes.setdefault(passage.section, []).append(passage.note)
            continue
        total += 1
        block = blocks.get(passage.hash)
        if block:
            _check(passage, block, file, terms, report)
        if passage.note is None:
            if block:
                values[passage.place] = " ".join(block.text.split())
            else:
                left += 1
            continue
        first = passage.note.first_line
        last = first + passage.text.count("\n")
        anchors = tuple(slug for line, slug in headings if first <= line <= last)
        if block:
            note = replace(passage.note, text=block.text, first_line=block.line, column=0)
            note = replace(note, path=file.display, anchors=anchors)
        else:
            note = replace(passage.note, anchors=anchors, language=languages[0])
            left += 1
        notes.setdefault(passage.section, []).append(note)
        if _in_reading(module, passage):
            reading = passage
    short = blocks.get(reading_hash(module))
    if short and short.place == IN_SHORT and reading and reading.note:
        _check_alone(short, file, report)
        note = replace(reading.note, text=short.text, first_line=short.line, column=0)
        notes[reading.section].append(replace(note, path=file.display, anchors=()))
    sections = tuple(
        replace(section, notes=tuple(notes.get(number, ())))
        for number, section in enumerate(module.sections)
    )
    page = replace(module, front_matter=values, sections=sections, translation=file)
    return page, Translation(languages[1], draft.url, file.display, total, left), report


def _check(
    passage: Passage, block: Block, file: SourceFile, terms: TranslatedTerms, report: Report
) -> None:
    """Report what a translation has not in common with its passage."""
    fault = partial(_fault, block, file, report)
    english, translation = _marks(passage.text), _marks(block.text)
    for marks, message, hint in (
        (english - translation, "lacks {}", "write it as in the English text"),
        (translation - english, "has {}, which the English text has not", "leave it out"),
    ):
        if marks:
            fault(message.format(", ".join(_shown(marks))), hint)
    for term, form in terms.unused(english.words, translation.words):
        hint = "use it, or give docs_src/locale its other forms: `name | form, form` in glossary.md"
        fault(f"says “{term}” in other words than the glossary, “{form}”", hint)


def _check_alone(block: Block, file: SourceFile, report: Report) -> None:
    """Report signs that mark nothing, in a block that no passage stands beside."""
    for kind, sign in _marks(block.text):
        if kind == _IDLE:
            _fault(block, file, report, f"has {kind} `{sign}`", "set them as Markdown reads them")


def _fault(block: Block, file: SourceFile, report: Report, message: str, hint: str) -> None:
    source = file.lines[block.head - 1]
    report.add(Diagnostic(file.display, block.line, 1, "translation", message, hint, source))


def _shown(marks: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for kind, pairs in groupby(sorted(marks), key=itemgetter(0)):
        yield f"{kind} {', '.join(f'`{text}`' for _, text in pairs)}"


class _Marks(Counter[tuple[str, str]]):
    """What a text and its translation have in common, by kind, and the words of the text."""

    words = ""


def _marks(text: str) -> _Marks:
    found, words = _Marks(), []
    for token in _flat(parser(own=True).parse(text)):
        if token.type == "text":
            words.append(token.content)
            if "**" in token.content:
                found[_IDLE, "**"] += 1
        elif token.type == "code_inline":
            found["the code", token.content] += 1
        elif token.type.startswith("math_inline"):
            tex = _WORDS.sub(lambda word: f"\\{word[1]}" if word[1] else "", token.content)
            found["the formula", tex] += 1
        elif token.type == "link_open":
            found["the link", str(token.attrs["href"])] += 1
        elif token.type == "image":
            found["the image", str(token.attrs["src"])] += 1
        elif token.type == "citation":
            for part in token.meta["parts"]:
                found["the citation", f"@{part['key']}"] += 1
        elif token.type == "heading_open":
            found["the heading", token.tag] += 1
        elif token.type == "fence":
            found["the block of", token.info.strip() or "code"] += 1
    found.words = "\n".join(words)
    return found


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    """Tokens with those inside of them; the caption of a figure, too."""
    for token in tokens:
        yield token
        yield from _flat(token.children or ())
