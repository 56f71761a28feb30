"""What the hover preview of a link in code shows: a signature and a first paragraph.

One script per module, beside its page's address, loaded when a reader first points at a link that
leads there: a page opened from a disk may load scripts, but not data.
"""

import json
import re
from collections.abc import Iterable, Mapping

from pylit.addresses import Slugs
from pylit.diagnostics import Report
from pylit.highlight import highlight_block
from pylit.model import Target
from pylit.prose import MarkdownRenderer, NoteContext
from pylit.references import Cite
from pylit.symbols import Typeset
from pylit.tex import fill

#: Longer signatures are cut: a preview is a glance.
LONGEST = 400

_KEYWORDS = {"class": "class ", "function": "def ", "method": "def ", "constant": "", "module": ""}
_LINK = re.compile(r"</?a\b[^>]*>")
_ID = re.compile(r' id="[^"]*"')


def preview_files(
    targets: Iterable[Target], *, typeset: Typeset, own: bool, cite: Cite
) -> Mapping[str, bytes]:
    """Scripts by path, ``assets/previews/labml_nn/utils.js`` for ``labml_nn/utils.html``.

    Args:
        targets: What links may lead to.
        typeset: Sets a formula.
        own: Whether the notes are the site's own, so that they look as on their page: with
            typographic quotes, and with raw HTML as such.
        cite: Finds works of the bibliography.
    """
    markdown = MarkdownRenderer(own=own)
    pages: dict[str, dict[str, list[str]]] = {}
    for target in targets:
        page = target.url.partition("#")[0]
        shown = [_signature(target), _summary(target, markdown, typeset, cite)]
        if any(shown):
            pages.setdefault(page, {})[target.definition.dotted] = shown
    return {preview_path(page): preview_script(entries) for page, entries in sorted(pages.items())}


def preview_path(page: str) -> str:
    """Where the script for links to a page lies."""
    return f"assets/previews/{page.removesuffix('.html')}.js"


def preview_script(entries: Mapping[str, list[str]]) -> bytes:
    """A script that tells what to show for each name: code or nothing, and a note or nothing."""
    data = json.dumps(entries, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"pylit.previews({data.replace('</', '<' + chr(92) + '/')});\n".encode()


def _signature(target: Target) -> str:
    definition = target.definition
    text = definition.signature or definition.dotted
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(",", 1)[0] + ", …"
    return highlight_block(_KEYWORDS[definition.kind] + text, "python")


def _summary(target: Target, markdown: MarkdownRenderer, typeset: Typeset, cite: Cite) -> str:
    if not target.definition.summary:
        return ""
    context = NoteContext(
        path="",
        first_line=1,
        column=0,
        slugs=Slugs(),
        link=lambda name: None,
        href=lambda link: link.url,
        report=Report(),
        cite=cite,
    )
    note = markdown.render(target.definition.summary, context)
    formulas = [typeset(f.tex, f.display) for f in note.formulas]
    return _ID.sub("", _LINK.sub("", fill(note.html, formulas))).strip()
