"""Hover previews of links in code: a signature and the first paragraph of its note.

One script per module, loaded when a reader first points at a link to its page: a page opened from a
disk may load scripts, but not data.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape

from pylit.model import Definition, Draft, NoteHtml, Target
from pylit.notes.tex import Typeset, fill
from pylit.source.highlight import highlight_block

#: Characters of a signature; longer ones are cut.
_LONGEST = 400

_KEYWORDS = {"class": "class ", "function": "def ", "method": "def "}
#: Links, anchors, and the marks of symbols on the page of the note.
_OF_THE_PAGE = re.compile(
    r'</?a\b[^>]*>|<span id="[^"]*"></span>| id="[^"]*"|(?<=<code) class="[^"]*"'
    r'|(?<=<var) class="[^"]*"'
)


def previews(
    targets: Iterable[Target], draft: Draft, typeset: Typeset
) -> Iterator[tuple[str, list[str]]]:
    """The code and the note of each definition of a page, by its full name."""
    notes: dict[str | int, NoteHtml] = {}
    for section in draft.sections:
        # A docstring comes after the comment above it, and says more of the definition.
        if note := next((note for note in reversed(section.notes) if note.lead), None):
            first = section.code[0].number if section.code else 0
            notes.setdefault(section.definition or first, note)
    for target in targets:
        definition = target.definition
        note = notes.get(definition.qualname) or notes.get(definition.line)
        shown = part_html(note.lead, note, typeset) if note else ""
        if not definition.qualname:
            about = part_html(draft.summary_note.html, draft.summary_note, typeset)
            shown = about or escape(draft.summary, quote=False)
            shown = shown and f"<p>{shown}</p>"
        yield definition.dotted, [_signature(definition), shown]


def term_previews(draft: Draft, typeset: Typeset) -> Iterator[tuple[str, list[str]]]:
    """The name and the meaning of each term of the glossary, by its anchor."""
    for note in draft.notes():
        for anchor, name, meaning in note.terms:
            name, meaning = (part_html(text, note, typeset) for text in (name, meaning))
            yield anchor, ["", f"<b>{name}</b>{meaning}"]


def preview_path(page: str) -> str:
    """The address of the script for links to a page."""
    return f"assets/previews/{page.removesuffix('.html')}.js"


def preview_script(entries: Mapping[str, list[str]]) -> bytes:
    """A script with the code and the note of each name; either may be empty."""
    data = json.dumps(entries, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return "pylit.previews({});\n".format(data.replace("</", "<\\/")).encode()


def _signature(definition: Definition) -> str:
    text = definition.signature or definition.dotted
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rsplit(",", 1)[0] + ", …"
    return highlight_block(_KEYWORDS.get(definition.kind, "") + text, "python")


def part_html(html: str, note: NoteHtml, typeset: Typeset) -> str:
    """A part of a note without links, as it is on any page."""
    # On other pages symbols have other marks.
    filled = fill(html, note.formulas, lambda formula: typeset(formula.tex, formula.display))
    return on_any_page(filled)


def on_any_page(html: str) -> str:
    """HTML without its links, its anchors, and the marks of symbols on its page."""
    return _OF_THE_PAGE.sub("", html).strip()
