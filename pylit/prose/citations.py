"""Citations in notes: ``[@vaswani2017attention, §3.2.1]``, pandoc's syntax.

Several works share brackets, ``[@a; @b, §2]``. A sign before a key leaves out the authors, for a
sentence that has named them: "Elman ([-@elman1990finding]) gave it a memory".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape

from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from pylit.model import Definition, Target
from pylit.prose.bibliography import Work

#: The page of all works. What a preview shows of one is found by the anchor of the link to it.
BIBLIOGRAPHY = "bibliography.html"
#: What a page asks the index of definitions for stands behind this sign; alone, for all keys.
SIGN = "@"

#: What a citation looks like, and each of the parts between semicolons.
BRACKETS = re.compile(r"\[(-?@[^\[\]]+)\](?![(\[])")
PART = re.compile(
    r"\s*(?P<bare>-?)@(?P<key>[A-Za-z](?:[\w.:-]*\w)?)(?:\s*,\s*(?P<place>[^;]*[^;\s]))?\s*"
)


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


def citation(state: StateInline, silent: bool) -> bool:
    """The rule for Markdown: one token, of which `resolve_citation` makes links."""
    match = BRACKETS.match(state.src, state.pos, state.posMax)
    parts = [PART.fullmatch(part) for part in match[1].split(";")] if match else []
    if match is None or not all(parts):
        return False
    if not silent:
        token = state.push("citation", "", 0)
        token.content = token.meta["written"] = match[0]
        token.meta["parts"] = [part.groupdict() for part in parts if part is not None]
        token.meta["at"] = state.pos
    state.pos = match.end()
    return True


def resolve_citation(token: Token, cite: Cite, *, linked: bool) -> Iterator[tuple[str, str]]:
    """Give a token what it shows; yield each key with a hint, which is empty if it is known.

    Unless `linked`, it stands in a heading, which the outline links to, and is words alone.
    """
    shown: list[tuple[str, str]] = []
    for part in token.meta["parts"]:
        work = cite(part["key"])
        if isinstance(work, str):
            yield part["key"], work
            work = Cited(part["key"], "", "")
        else:
            yield part["key"], ""
        name = work.year if part["bare"] else f"{work.short} {work.year}".rstrip()
        place = " ".join((part["place"] or "").split())
        shown.append((f"{name}, {place}" if place else name, work.href if linked else ""))
    token.meta["shown"] = shown
    token.content = "; ".join(text for text, _ in shown)


def citation_html(token: Token) -> str:
    """The links of a citation."""
    parts = []
    for text, href in token.meta["shown"]:
        words = escape(text, quote=False)
        parts.append(f'<a class="x" href="{escape(href)}" data-x>{words}</a>' if href else words)
    return "; ".join(parts)


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
