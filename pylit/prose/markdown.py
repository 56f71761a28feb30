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
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import html_block
from markdown_it.rules_inline import html_inline
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin

from pylit.diagnostics import Diagnostic, Severity
from pylit.model import NoteHtml
from pylit.prose.citations import citation
from pylit.prose.mdhtml import add_rules
from pylit.prose.mdmath import BLOCK_END, math_block, math_inline
from pylit.prose.mdresolve import NoteContext, resolve
from pylit.prose.mdrules import anchor, details, doctest, known_block, known_inline, located
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
LOCATED = ("link", "image", "autolink", "html_inline", "math_inline", "anchor")


class MarkdownRenderer:
    """Renders the notes of the site's own sources (`own`), or those of another package.

    In another's notes raw HTML, all but ``<details>``, is shown as text, and ``data:`` addresses
    are refused as well as ``javascript:`` ones, which never become links.
    """

    def __init__(self, own: bool) -> None:
        self._own = own
        self._md = parser(own)

    def render(self, text: str, context: NoteContext) -> NoteHtml:
        """Render one note: Markdown that stands where the context says."""
        text = RESERVED.sub("", text)
        if len(text) > LONGEST:
            return as_it_is(text, f"of {len(text):,} characters", context)
        env: dict[str, object] = {}
        renderer, options = cast(RendererHTML, self._md.renderer), self._md.options
        context.own, context.lines = self._own, text.split("\n")
        context.parse = lambda text: self._md.parseInline(text, env)
        context.inline = lambda tokens: renderer.renderInline(tokens, options, {"note": 0})
        parsed = self._md.parse(text, env)
        if any(token.level >= DEEPEST - 1 for token in parsed):  # The parser leaves out the rest.
            return as_it_is(text, "with lists in lists without end", context)
        tokens = resolve(parsed, env, context)
        return NoteHtml(
            html=renderer.render(tokens, options, {"note": context.footnotes}),
            formulas=tuple(context.formulas),
            headings=tuple(context.headings),
            references=tuple(context.references),
            figures=tuple(context.figures),
            text="\n".join(context.text),
            citations=tuple(context.citations),
        )


def as_it_is(text: str, what: str, context: NoteContext) -> NoteHtml:
    """A note that is too much for Markdown, such as data in a docstring, as plain text."""
    message = f"a note {what} is shown as plain text"
    hint = f"more than {LONGEST:,} characters, or {DEEPEST} levels, are not read as Markdown"
    place, severity = (context.path, context.first_line, 0), Severity.WARNING
    context.report.add(Diagnostic(*place, "note-long", message, hint, severity=severity))
    return NoteHtml(f'<pre class="fence"><code>{escape(text, quote=False)}</code></pre>\n')


@cache
def parser(own: bool) -> MarkdownIt:
    """The Markdown parser with everything that notes may hold; it remembers no note."""
    options = {"html": own, "xhtmlOut": False, "tasklists": True, "alerts": True}
    options["typographer"] = own
    md = MarkdownIt("commonmark", options)
    md.options["maxNesting"] = DEEPEST
    md.enable(["table", "strikethrough"])
    if own:
        # Another's notes may hold code outside of backticks, where a straight quote is meant.
        md.enable("smartquotes")
    md.use(deflist_plugin)
    # Notes in brackets at the end of a word, x^[1], are mathematics more often than footnotes.
    md.use(footnote_plugin, inline=False)
    add_rules(cast(RendererHTML, md.renderer))
    md.use(gfm_autolink_plugin)
    md.inline.ruler.before("escape", "math_inline", math_inline)
    md.block.ruler.before("fence", "math_block", math_block, {"alt": list(BLOCK_END)})
    md.inline.ruler.before("html_inline", "anchor", anchor)
    if own:
        md.inline.ruler.before("link", "citation", citation)
    if not own:
        validate = md.validateLink
        md.validateLink = lambda url: (  # type: ignore[method-assign]
            validate(url) and not url.strip().lower().startswith("data:")
        )
    md.block.ruler.before("blockquote", "doctest", doctest, {"alt": list(BLOCK_END[:3])})
    if not own:
        md.block.ruler.before("html_block", "details", details, {"alt": list(BLOCK_END[:3])})
    md.block.ruler.at("html_block", known_block(html_block), {"alt": list(BLOCK_END[:3])})
    md.inline.ruler.at("html_inline", known_inline(html_inline))
    rules = {rule.name: rule.fn for rule in md.inline.ruler.__rules__}
    for name in LOCATED:
        md.inline.ruler.at(name, located(rules[name]))
    return md
