"""Pages that compare the code of two modules, definition by definition and line by line.

A module asks for one in its front matter, ``compare: package.old``, or, for some definitions only,
``compare: package.old(Same, Old=New)``; a ``*`` among them stands for all others. See decision 044.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from html import escape, unescape
from itertools import groupby, pairwise, zip_longest
from operator import itemgetter

from pylit.addresses import Anchors, compare_url, relative
from pylit.cache import Cache, digest
from pylit.diagnostics import Diagnostic, Report, nearest
from pylit.model import (
    HEADING,
    Draft,
    Formula,
    GeneratedPage,
    Heading,
    NoteHtml,
    SourceFile,
    figure_slot,
    generated_page,
)
from pylit.pages.draft import TEMPLATE_IDS, elsewhere, first_words
from pylit.source.highlight import escape as escape_code

#: How alike two statements, or two definitions, are that belong together: 1 is equal.
_ALIKE = 0.5
#: Pairs of statements that are looked at in two definitions; in larger ones none belong together.
_MOST = 250_000

_FORM = "package.module, or package.module(Same, Old=New)"
_REQUEST = re.compile(r"\s*+([^\s(),]++)\s*+(?:\(([^()]*)\))?+\s*+,?+")
_COMMENT, _STRING = (re.compile(f'<span class="{kind}">.*?</span>') for kind in ("hc", "hs"))
_PIECE = re.compile(r"<[^>]*>|[^<]+")
_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
#: What notes leave behind: their places in an outline, figures, and symbols that light up.
_HEADING = re.compile(r"<h[1-6]\b[^>]*>(.*?)</h[1-6]>", re.DOTALL)
_LEFT = re.compile(r'<figure\b.*?</figure>\n?| class="y[\d y]+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code, its number, which is a link, and the notes that begin at it."""

    number: str
    html: str
    notes: tuple[NoteHtml, ...]
    #: Each with its offset: no comments, and of blanks only the indentation of a statement.
    tokens: tuple[tuple[int, str], ...]


#: Its lines: several where brackets are open at their ends.
Statement = Sequence[Line]
#: Name of a definition -> its code without that of definitions inside it; "" is what is in none.
Code = Mapping[str, Sequence[Statement]]
#: Number of a line -> parts of it, by offset.
Spans = dict[str, list[tuple[int, int]]]


def code_of(draft: Draft, page: str) -> Code:
    """The code of a module, by definition, for the page at an address."""
    found: dict[str, list[list[Line]]] = {"": []}
    name, base, depth = "", 0, 0
    for section in draft.sections:
        for index, line in enumerate(section.code):
            bare = _COMMENT.sub(lambda hidden: " " * len(_text(hidden[0])), line.html)
            text, brackets = _text(bare), _text(_STRING.sub("", bare))
            indent = len(text) - len(text.lstrip())
            if not index and (section.definition or not indent):
                name, base = section.definition, indent
            statements = found.setdefault(name, [])
            tokens = [(match.start(), match[0]) for match in _TOKEN.finditer(text)]
            if depth <= 0 or not statements:
                statements.append([])
                depth = 0
                tokens[:0] = [(0, " " * (indent - base))] if tokens and indent > base else []
            depth += sum((sign in "([{") - (sign in ")]}") for sign in brackets)
            href = escape(relative(page, f"{draft.url}#L{line.number}"))
            number = f'<a class="no" href="{href}" tabindex="-1">{line.number}</a>'
            notes = tuple(note for note in section.notes if note.html and name and not index)
            shown = elsewhere(line.html, draft.url, page)
            statements[-1].append(Line(number, shown, notes, tuple(tokens)))
    return found


def _text(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _inside(name: str, outer: str) -> bool:
    return f"{name}.".startswith(f"{outer}.")


def _whole(code: Code, name: str) -> list[Statement]:
    """The code of a definition with that of definitions inside it; "" has none."""
    names = [inner for inner in code if name and _inside(inner, name)]
    return [lines for inner in names for lines in code[inner]]


def _words(statements: Sequence[Statement]) -> tuple[str, ...]:
    return tuple(word for lines in statements for line in lines for _, word in line.tokens)


@lru_cache(maxsize=100_000)
def _ratio(old: tuple[str, ...], new: tuple[str, ...]) -> float:
    """How alike two lists of tokens are, whatever their order."""
    return 2 * (Counter(old) & Counter(new)).total() / (len(old) + len(new)) if old + new else 1.0


def _likeness(old: Code, other: str, new: Code, name: str) -> float:
    """How alike two definitions are: at least `_ALIKE` if they may belong together.

    Of several, the one counts more whose name has words in common: `LSTMCell` and `GRUCell`.
    """
    if ("class" in _words(old[other])) != ("class" in _words(new[name])):
        return 0
    ratio = _ratio(_words(_whole(old, other)), _words(_whole(new, name)))
    words = (tuple(word.lower() for word in _NAME.findall(one)) for one in (other, name))
    return ratio + _ratio(*words) if ratio >= _ALIKE else 0


def paired(old: Code, new: Code, chosen: Mapping[str, str]) -> list[tuple[str, str]]:
    """The definitions in the order of the new module, each with its partner or ``""``; what only
    the old one has follows its siblings, and ``("", "")`` is what is in no definition.

    Partners are chosen, have the same name, or are the most alike; methods, only in partners.
    What is inside a definition without a partner is left out.
    """
    found = {"": "", **chosen}
    for level in range(1 + max(name.count(".") for name in new)):
        names = [n for n in new if n.count(".") == level and _parent(n) in found]
        for name in names:
            same = f"{found[_parent(name)]}.{name.rpartition('.')[2]}".lstrip(".")
            if name not in found and same in old and same not in found.values():
                found[name] = same
        ratios = [
            (_likeness(old, other, new, name), name, other)
            for name in names
            for other in old
            if name not in found and other not in found.values()
            if other.count(".") == level and _parent(other) == found[_parent(name)]
        ]
        for ratio, name, other in sorted(ratios, key=itemgetter(0), reverse=True):
            if ratio >= _ALIKE and name not in found and other not in found.values():
                found[name] = other
    shown = [n for n in new if n and any(not one or _inside(n, one) for one in chosen)]
    pairs = [(found.get(n, ""), n) for n in shown if n in found or _parent(n) in found]
    for name in (n for n in old if n not in found.values() and _parent(n) in found.values()):
        near = [at for at, (one, _) in enumerate(pairs, 1) if _inside(one, _parent(name) or "-")]
        if near or "" in chosen:
            pairs.insert(max(near, default=len(pairs)), (name, ""))
    return pairs + [("", "")] * ("" in chosen)


def aligned(
    old: Sequence[Statement], new: Sequence[Statement]
) -> Iterator[tuple[Statement, Statement]]:
    """Statements in order, those that are alike in pairs, others beside nothing: of all ways to
    pair them, the one that keeps most tokens.
    """
    ours, theirs = ([_words([lines]) for lines in side] for side in (new, old))
    kept = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old) if len(old) * len(new) <= _MOST else 0)):
        for j in reversed(range(len(new))):
            ratio = _ratio(theirs[i], ours[j])
            # A blank line counts little, and not nothing.
            gain = ratio**2 * (len(theirs[i] + ours[j]) + 0.1) if ratio >= _ALIKE else -1
            kept[i][j] = max(kept[i + 1][j], kept[i][j + 1], kept[i + 1][j + 1] + gain)
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and kept[i][j] == kept[i + 1][j]:
            yield old[i], ()
            i += 1
        elif j < len(new) and kept[i][j] == kept[i][j + 1]:
            yield (), new[j]
            j += 1
        else:
            # The lines of a signature or a call, if it has several in both.
            lines = [[[line] for line in lines] for lines in (old[i], new[j])]
            yield from aligned(*lines) if min(map(len, lines)) > 1 else [(old[i], new[j])]
            i, j = i + 1, j + 1


@dataclass(slots=True)
class Hunk:
    """Lines that are shown beside each other: ``same``, ``alike``, ``alone``, or ``same broken``,
    at other places, into lines.
    """

    old: list[Line]
    new: list[Line]
    how: str


def hunks(old: Sequence[Statement], new: Sequence[Statement]) -> list[Hunk]:
    """The lines of two definitions, aligned. Each hunk begins with the notes on it."""

    def kind(pair: tuple[Statement, Statement]) -> str:
        if not all(pair):
            return "alone"
        one, other = pair
        broken = " broken" * (len(one) != len(other))
        return f"same{broken}" if _words([one]) == _words([other]) else "alike"

    found: list[Hunk] = []
    for how, run in groupby(aligned(old, new), kind):
        rows = list(run)
        if how == "alone":
            sides = ([line for lines in side for line in lines] for side in zip(*rows, strict=True))
            rows = [([a] * bool(a), [b] * bool(b)) for a, b in zip_longest(*sides)]
        for n, (a, b) in enumerate(rows):
            if not n or how not in ("same", "alone") or any(line.notes for line in (*a, *b)):
                found.append(Hunk([], [], how))
            found[-1].old += a
            found[-1].new += b
    return found


def changes(old: Statement, new: Statement) -> list[Spans]:
    """Where the tokens of two statements differ, in the lines of each."""
    sides = [[(ln.number, *token) for ln in lines for token in ln.tokens] for lines in (old, new)]
    found: list[Spans] = [{}, {}]
    matcher = SequenceMatcher(None, _words([old]), _words([new]), autojunk=False)
    for how, *bounds in matcher.get_opcodes():
        for side, spans, ends in zip(sides, found, (bounds[:2], bounds[2:]), strict=True):
            shown = [token for token in side[slice(*ends)] if how != "equal" and token[2].strip()]
            for number, run in groupby(shown, itemgetter(0)):
                (_, start, _), *_, (_, last, word) = [*run] * 2
                spans.setdefault(number, []).append((start, last + len(word)))
    return found


def marked(html: str, spans: Sequence[tuple[int, int]], tag: str) -> str:
    """A line of code with some of its text, by offset, in elements of a tag."""
    parts, at = [], 0
    for piece in _PIECE.findall(html):
        text = "" if piece.startswith("<") else unescape(piece)
        ends = (min(max(end - at, 0), len(text)) for span in spans for end in span)
        for start, stop in pairwise(sorted({0, len(text), *ends})):
            part = escape_code(text[start:stop])
            inside = any(first <= at + start < last for first, last in spans)
            parts.append(f"<{tag}>{part}</{tag}>" if inside else part)
        parts.append(piece * (not text))
        at += len(text)
    return "".join(parts)


class Comparison:
    """Two modules to compare, and their page: the old code is side ``a``, the new one side ``b``.

    `chosen` maps definitions of the new one to those of the old one, if an author names some;
    "" stands for all others.
    """

    def __init__(self, old: Draft, new: Draft, chosen: Mapping[str, str]) -> None:
        self.drafts, self.chosen = (old, new), chosen
        self.url = compare_url(old.name, new.name)
        # Short titles, up to a parenthesis, a colon or an "and"; within one module the names of
        # two definitions.
        titles = [re.split(r" \(|: | and ", d.title, maxsplit=1)[0] for d in self.drafts]
        if old is new:
            titles = next([before, after] for after, before in chosen.items() if after != before)
        self.titles, self.title = titles, "{} and {} compared".format(*titles)
        self._notes: list[NoteHtml] = []
        #: Lines of each side that have changed, and those that have not.
        self._counts: Counter[str] = Counter()
        self._anchors = Anchors(TEMPLATE_IDS)

    def page(self, cache: Cache, generator: str) -> GeneratedPage:
        """The page, with a section for each pair of definitions."""
        stamps = [draft.stamp for draft in self.drafts]
        key = digest(generator, *stamps, repr(self.chosen))
        return cache.get(f"compare {self.url}", key, self._made)

    def _made(self) -> GeneratedPage:
        codes = [code_of(draft, self.url) for draft in self.drafts]
        for names in paired(codes[0], codes[1], self.chosen):
            # A definition without a partner has all that is inside it.
            whole = any(names) and not all(names)
            code = [_whole(c, n) if whole else c[n] for c, n in zip(codes, names, strict=True)]
            if any(code):
                self._section(names, hunks(*code))
        old, new = self.titles
        lead = f"What changes in the code from {old} to {new}, definition by definition."
        one, other = (
            self._link(side, "", escape(title))
            for side, title in zip("ab", self.titles, strict=True)
        )
        counts = (self._counts[kind] for kind in ("same", "a", "b"))
        same, *only = counts
        first = f"{same} lines are the same, " if same else "No line is the same: "
        first += "{} only in {one} (−), {} only in {other} (+)."
        first = first.format(*only, one=one, other=other)
        notes = [NoteHtml(f'<p class="ran">{first}</p>\n'), *self._pictures(), *self._notes]
        return generated_page(self.url, self.title, lead, notes)

    def _pictures(self) -> Iterator[NoteHtml]:
        """The first picture of each side, beside each other, where both have one of their own."""
        pictures = [use for draft in self.drafts for use in draft.figures()[:1]]
        if len({use.name for use in pictures}) < 2 or any(use.kind != "figure" for use in pictures):
            return
        drawn = ""
        for side, title, use in zip("ab", self.titles, pictures, strict=True):
            caption = f"<figcaption>{self._link(side, '', escape(title))}</figcaption>"
            slots = (figure_slot(use.name, "picture"), caption, figure_slot(use.name, "below"))
            drawn += f'<figure class="fig">{"".join(slots)}</figure>\n'
        yield NoteHtml(f'<div class="both">\n{drawn}</div>\n', figures=tuple(pictures))

    def _link(self, side: str, name: str, shown: str) -> str:
        """A link to a definition of one side, or to its page."""
        address = f"{self.drafts[side == 'b'].url}#{name}".removesuffix("#")
        return f'<a class="{side}" href="{escape(relative(self.url, address))}">{shown}</a>'

    def _section(self, names: tuple[str, str], parts: Sequence[Hunk]) -> None:
        """A pair of definitions; folded if nothing has changed, or only the old module has it."""
        written = list(dict.fromkeys(filter(None, names)))
        codes = [f"<code>{escape(name)}</code>" for name in names]
        links = [self._link(*one) for one in zip("ab", names, codes, strict=True) if one[1]]
        last = escape("".join(written[-1:]).rpartition(".")[2])
        shown = f"<code>{last}</code>" if written else "<span>Module level</span>"
        why = "" if names[1] else f"Only in {self.titles[0]}" if written else "Imports, constants"
        if all(hunk.how.startswith("same") for hunk in parts):
            why = "The same in both"
        slug, _ = self._anchors.slug("", "-".join(written) or "module-level")
        level = 2 + (any(map(_parent, names)) and bool(self._notes))
        heading = Heading(level, slug, " → ".join(written) or "Module level", shown, 0)
        head = (
            f'<section class="pair">\n<h{level} id="{slug}">{" ".join(links) or shown}</h{level}>\n'
        )
        head += f"<details><summary>{escape(why)}</summary>\n" * bool(why)
        self._notes.append(NoteHtml(head, headings=(heading,), text=HEADING))
        self._add('<div class="table-scroll">\n')
        for hunk in parts:
            self._hunk(hunk)
        self._add("</div>\n" + "</details>\n" * bool(why) + "</section>\n")

    def _hunk(self, hunk: Hunk) -> None:
        sides, same = (hunk.old, hunk.new), hunk.how.startswith("same")
        marks = changes(*sides) if hunk.how == "alike" else ({}, {})
        notes = [[note for line in side for note in line.notes] for side in sides]
        shared = [note.text for note in notes[0]] == [note.text for note in notes[1]]
        self._add(f'<div class="hunk {hunk.how}">')
        each = zip("ab", ("del", "ins"), sides, notes, marks, strict=True)
        for side, tag, lines, own, spans in each:
            self._counts["same" if same else side] += len(lines) * (not same or side == "b")
            if own and not (shared and side == "a"):
                self._details(own, side, "" if shared else self.titles[side == "b"])
            code = "\n".join(
                line.number + marked(line.html, spans.get(line.number, ()), tag) for line in lines
            )
            code = f"<{tag}>{code}</{tag}>" if hunk.how == "alone" else code
            self._add(f'<pre class="{side}"><code>{code}</code></pre>' * bool(lines))
        self._add("</div>\n")

    def _details(self, notes: Sequence[NoteHtml], side: str, title: str) -> None:
        """Notes on lines of one side, or without its title, of both; closed, behind their first
        words.
        """
        titles = (heading.text for note in notes for heading in note.headings)
        words = next(titles, "") or first_words(note.text for note in notes) or "Note"
        name = title and f"<i>{escape(title)}: </i>"
        self._add(
            f'<details class="{side if title else "ab"}"><summary>{name}'
            f'<span>{escape(words)}</span></summary><div class="d">'
        )
        for note in notes:
            moved = elsewhere(_LEFT.sub("", note.html), self.drafts[side == "b"].url, self.url)
            formulas = tuple(replace(formula, marked="") for formula in note.formulas)
            self._add(_HEADING.sub(r"<p><b>\1</b></p>", moved), formulas)
        self._add("</div></details>")

    def _add(self, html: str, formulas: tuple[Formula, ...] = ()) -> None:
        self._notes.append(NoteHtml(html, formulas))


def read_comparisons(pages: Sequence[GeneratedPage], report: Report) -> Iterator[Comparison]:
    """What the front matter of a site's own modules asks for; faults are reported at their word."""
    modules = {draft.name: draft for _, draft in pages if draft.own and not draft.prose}
    for parsed, draft in pages:
        if draft.own and "compare" in draft.front_matter:
            yield from _read(draft, parsed.module.headed, modules, report)


def _read(
    new: Draft, file: SourceFile, modules: Mapping[str, Draft], report: Report
) -> Iterator[Comparison]:
    lines, value, seen = file.lines, new.front_matter["compare"], {""}
    first = next((n for n, text in enumerate(lines) if text.strip().startswith("compare")), 0)

    def fault(word: str, message: str, hint: str) -> None:
        line = next((n for n in range(first, len(lines)) if word in lines[n]), first)
        place = file.display, line + 1, lines[line].find(word) + 1
        report.add(Diagnostic(*place, "front-matter", message, hint, lines[line]))

    if new.prose or not re.fullmatch(f"(?:{_REQUEST.pattern})+", value):
        fault("compare", f"`compare` is `{value}`", f"write {_FORM}, in a module")
        return
    for name, listed in _REQUEST.findall(value):
        old, words = modules.get(name), [word for word in re.split(r"[\s,]+", listed) if word]
        pairs = (word.strip("*").partition("=") for word in words or ["*"])
        chosen = {after or before: before for before, _, after in pairs}
        if old is None:
            fault(name, f"there is no module `{name}`", nearest(name, modules, f"write {_FORM}"))
        elif name in seen:
            fault(name, f"`{name}` is compared twice", "name all definitions in one list")
        elif old is new and all(after == before for after, before in chosen.items()):
            fault(name, f"`{name}` is compared with itself", f"name two: {name}(Old=New)")
        else:
            faulty = False
            for draft, some in ((old, chosen.values()), (new, chosen)):
                known = {"", *(section.definition for section in draft.sections)}
                for word in [word for word in some if word not in known]:
                    hint, faulty = nearest(word, known, "name a class or a function"), True
                    fault(word, f"`{draft.name}` does not define `{word}`", hint)
            if not faulty:
                yield Comparison(old, new, chosen)
        seen.add(name)
