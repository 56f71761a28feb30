"""Hover previews of links in code: a signature and the first paragraph of its note.

One script per module, loaded when a reader first points at a link to its page: a page opened from a
disk may load scripts, but not data.
"""

import json
import re
from collections.abc import Iterable, Mapping

from pylit.highlight import highlight_block
from pylit.model import Definition, Target
from pylit.prose import NoteContext, render_note
from pylit.references import Cite
from pylit.symbols import Typeset
from pylit.tex import fill

#: Characters of a signature; longer ones are cut.
_LONGEST = 400

_KEYWORDS = {"class": "class ", "function": "def ", "method": "def "}
_LINK_OR_ID = re.compile(r'</?a\b[^>]*>| id="[^"]*"')


def preview_files(
    targets: Iterable[Target],
    *,
    typeset: Typeset,
    own: bool,
    cite: Cite,
    docstrings: str = "markdown",
) -> Mapping[str, bytes]:
    """Scripts by path, ``assets/previews/package/utils.js`` for ``package/utils.html``.

    Notes of the site's `own` modules look as on their page, with typographic quotes and raw HTML.
    """
    pages: dict[str, dict[str, list[str]]] = {}
    for target in targets:
        page = target.url.partition("#")[0]
        note = summary_html(target.definition.summary, typeset, cite, own, docstrings)
        shown = [_signature(target.definition), note]
        if any(shown):
            pages.setdefault(page, {})[target.definition.dotted] = shown
    return {preview_path(page): preview_script(entries) for page, entries in sorted(pages.items())}


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


def summary_html(
    text: str, typeset: Typeset, cite: Cite, own: bool = True, docstrings: str = "markdown"
) -> str:
    """A first paragraph, or what a term means, as HTML without links."""
    note = render_note(text, NoteContext(own=own, cite=cite, docstrings=docstrings))
    formulas = [typeset(f.tex, f.display) for f in note.formulas]
    return _LINK_OR_ID.sub("", fill(note.html, formulas)).strip()
