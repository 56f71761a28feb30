"""Markdown in, HTML out: one note at a time.

CommonMark, and beyond it tables, footnotes, definition lists, task lists, admonitions, fenced code
with colours, mathematics, explicit anchors, and links without an address.

Admonitions are quotations that begin with ``[!NOTE]``, ``[!TIP]``, ``[!IMPORTANT]``, ``[!WARNING]``
or ``[!CAUTION]``. It is GitHub's syntax: readable as it stands, in a plain editor and on GitHub,
where every other renderer shows a quotation and nothing breaks.
"""

import re
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin

from pylit.diagnostics import Diagnostic, Severity
from pylit.model import NoteHtml
from pylit.prose import syntax
from pylit.prose.notehtml import NoteContext, Walk
from pylit.prose.slugs import Slugs

__all__ = ["MarkdownRenderer", "NoteContext", "Slugs"]

#: Mark the places of formulas and figures (`pylit.model.formula_slot`, `figure_slot`); authors
#: cannot write them.
RESERVED = re.compile("[\ue000-\ue003]")
#: Characters of a note; some rules of Markdown take time that grows with the square of it.
LONGEST = 300_000
#: Levels of lists and quotes; each list has two.
DEEPEST = 100
#: Inline rules whose tokens must know where in the source they stand.
LOCATED = ("link", "image", "autolink", "html_inline", "math_inline", "citation", "anchor")
#: Our rules, each with the one that it stands before.
INLINE = (
    ("escape", "math_inline", syntax.math_inline),
    ("html_inline", "anchor", syntax.anchor),
    ("link", "citation", syntax.citation),
)
#: Our rules for blocks, and which other blocks they may end.
BLOCKS = (
    ("fence", syntax.math_block, ["paragraph", "reference", "blockquote", "list", "footnote_def"]),
    ("blockquote", syntax.doctest, ["paragraph", "reference", "blockquote"]),
)


class MarkdownRenderer:
    """Renders the notes of the site's own sources (`own`), or those of another package.

    In another's notes raw HTML is shown as text, ``data:`` addresses are refused as well as
    ``javascript:`` ones, which never become links, nothing is cited, and quotes stay straight: code
    may stand there outside of backticks.
    """

    def __init__(self, own: bool) -> None:
        self._md = parser(own)

    def render(self, text: str, context: NoteContext) -> NoteHtml:
        """Render one note: Markdown that stands where the context says."""
        text = RESERVED.sub("", text)
        env: dict[str, Any] = {}
        if len(text) <= LONGEST:
            tokens = self._md.parse(text, env)
            # Of what is deeper, the parser leaves out the rest.
            if all(token.level < DEEPEST - 1 for token in tokens):
                return Walk(self._md, context, text, env).note(tokens)
        # It is too much for Markdown, such as data in a docstring.
        message = f"a note of {len(text):,} characters is shown as plain text"
        hint = f"more than {LONGEST:,} characters, or {DEEPEST} levels, are not read as Markdown"
        place, severity = (context.path, context.first_line, 0), Severity.WARNING
        context.report.add(Diagnostic(*place, "note-long", message, hint, severity=severity))
        return NoteHtml(f'<pre class="fence"><code>{escape(text, quote=False)}</code></pre>\n')


@cache
def parser(own: bool) -> MarkdownIt:
    """The Markdown parser with everything that notes may hold; it remembers no note."""
    options: dict[str, Any] = {"html": own, "typographer": own, "tasklists": True, "alerts": True}
    options |= {"xhtmlOut": False, "maxNesting": DEEPEST}
    md = MarkdownIt("commonmark", options)
    md.enable(["table", "strikethrough"])
    md.use(deflist_plugin)
    # Notes in brackets at the end of a word, x^[1], are mathematics more often than footnotes.
    md.use(footnote_plugin, inline=False)
    md.use(gfm_autolink_plugin)
    for before, name, inline in INLINE:
        md.inline.ruler.before(before, name, inline)
    for before, block, ends in BLOCKS:
        md.block.ruler.before(before, block.__name__, block, {"alt": ends})
    if own:
        md.enable("smartquotes")
    else:
        md.disable("citation")
        validate = md.validateLink
        md.validateLink = lambda url: (  # type: ignore[method-assign]
            validate(url) and not url.strip().lower().startswith("data:")
        )
    for rule in md.inline.ruler.__rules__:
        if rule.name in LOCATED:
            md.inline.ruler.at(rule.name, syntax.located(rule.fn))
    return md
