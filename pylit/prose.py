"""Exercises: what stands under a heading "Exercises", numbered ``**1.**``, ``**2.**``, and so on.

A question may have a hint and has an answer, both folded away:
``<details><summary>Hint</summary>``, ``<details><summary>Answer</summary>``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any, cast
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLinkText
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin

from pylit.addresses import Slugs
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.glossary import Terms
from pylit.model import (
    HEADING,
    Citation,
    FigureKind,
    FigureUse,
    Formula,
    Heading,
    Link,
    NoteHtml,
    Reference,
    figure_slot,
    formula_slot,
)
from pylit.references import Cite, Cited, unknown
from pylit.syntax import anchor, citation, doctest, located, math_block, math_inline
from pylit.tex import plain_tex

EXERCISES = "Exercises"

#: How a question begins.
NUMBER = re.compile(r"\*\*(\d+)\.\*\*")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_EXPLICIT = re.compile(r"\s*\{#([^\s{}]+)\}\s*$")
_ADDRESS_OR_ID = re.compile(
    r"""\b(?:href|src)\s*=\s*(["'])(?P<address>.*?)\1|<[^>]*?\bid\s*=\s*(["'])(?P<id>.*?)\3""",
    re.IGNORECASE | re.DOTALL,
)
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]")
#: What an entry of the outline, which is a link, cannot hold.
_NO_OUTLINE = re.compile(r'<sup class="footnote-ref">.*?</sup>|</?a\b[^>]*>', re.DOTALL)
_TAG = re.compile(r"</?([A-Za-z][\w-]*)[^>]*(/?)>")
#: Elements without another half.
_VOID = frozenset({"br", "col", "hr", "img", "input", "source", "track", "wbr"})
#: The HTML of some kinds of tokens.
_FIXED = {
    # In a box that scrolls sideways where the window is narrow.
    "table_open": '<div class="table-scroll"><table>\n',
    "table_close": "</table></div>\n",
    "alert_title_open": '<p class="admonition-title">',
}
#: Schemes of the addresses of figures and tables that run.
_FIGURES: dict[str, FigureKind] = {"figure": "figure", "table": "table"}
_Tokens = Sequence[Token]
#: A line and a column of a note, both from 0.
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NoteContext:
    """Where a note stands, and what it may ask."""

    #: The source, and the line and the columns of indentation at which the note begins in it.
    path: str
    first_line: int
    column: int
    #: Shared by the notes of a page, which are rendered in the page's order.
    slugs: Slugs
    #: Finds what inline code names, and what a link's address names: a dotted name or the path of
    #: a source file.
    link: Callable[[str], Link | None]
    #: Makes an address for this page of what was found.
    href: Callable[[Link], str]
    report: Report
    #: Finds works of the bibliography.
    cite: Cite = unknown
    #: What of the glossary the page may still link to.
    terms: Terms | None = None
    #: Line and text of inline code -> the classes that mark it.
    classes: Mapping[tuple[int, str], str] = field(default_factory=dict)


class Walk:
    """The walk over one note: a method for each kind of token that has no HTML of CommonMark's."""

    def __init__(self, md: MarkdownIt, note: NoteContext, text: str, env: dict[str, Any]) -> None:
        self._md, self._note, self._env = md, note, env
        self._own = bool(md.options["html"])
        self._source, self._lines = text, text.split("\n")
        #: What `NoteHtml` has of it.
        kinds = ("formulas", "headings", "references", "figures", "citations")
        self._found: dict[str, Any] = {kind: [] for kind in kinds}
        self._said: list[str] = []
        #: The heading above that says that exercises follow, and how much is folded away here.
        self._exercises, self._folded = "", 0
        #: The line of text that its tokens stand in, and in what of it.
        self._block = Token("inline", "", 0)
        self._in_heading = self._in_raw = False
        self._in_links = 0
        #: A line of it, where in it this begins, and in which column of the note.
        self._margin = (-1, 0, 0)

    def note(self, tokens: _Tokens) -> NoteHtml:
        """The HTML of the note, and what was found in it."""
        for line, opened in self._env.get("unclosed", {}).items():
            place = line, max(self._lines[line].find(opened), 0)
            hint = f"write `{opened.replace('begin', 'end')}` where the formula ends"
            self._fault("tex", f"`{opened}` is not closed", hint, place)
        if self._env.get("footnotes", {}).get("list"):
            # Part of their anchors, as each note counts its own from 1.
            self._env["docId"] = str(self._note.slugs.note())
        html = self._html(tokens)
        said = "\n".join(said for said in self._said if said.strip() or said == HEADING)
        found = {kind: tuple(values) for kind, values in self._found.items()}
        return NoteHtml(html, text=said, **found)

    def _html(self, tokens: _Tokens) -> str:
        html = []
        for index, token in enumerate(tokens):
            if rule := getattr(self, f"_{token.type}", None):
                html.append(rule(tokens, index))
            elif token.type in _FIXED:
                html.append(_FIXED[token.type])
            else:
                html.append(self._as_usual(tokens, index))
        return "".join(html)

    def _as_usual(self, tokens: _Tokens, idx: int) -> str:
        renderer = cast(RendererHTML, self._md.renderer)
        rule = renderer.rules.get(tokens[idx].type, renderer.renderToken)
        return cast(str, rule(tokens, idx, self._md.options, self._env))

    def _inline(self, tokens: _Tokens, idx: int) -> str:
        """A line of text."""
        self._block, self._margin = tokens[idx], (-1, 0, 0)
        children = self._block.children or []
        for child in children:
            if child.type == "html_inline" and not self._is_element(child.content):
                child.type = "text"
        # Of a line with raw HTML, nobody knows what its words are in.
        self._in_raw = any(child.type == "html_inline" for child in children)
        html = self._html(children)
        self._said.append(HEADING if self._in_heading else plain_text(children))
        return html

    def _is_element(self, html: str) -> bool:
        """Whether raw HTML is some: `<T>` and `<module>`, without a second half, are words."""
        tag = _TAG.match(html)
        if tag is None or tag[2] or tag[1].lower() in _VOID:
            return True
        return f"<{tag[1]}" in self._source and f"</{tag[1]}" in self._source

    def _place(self, token: Token) -> _Place:
        """Where a token begins. Some do not know, and are placed at the start of the block."""
        at, text = token.meta.get("at", 0), self._block.content
        start = text.rfind("\n", 0, at) + 1
        number = (self._block.map or [0])[0] + text.count("\n", 0, at)
        line = min(number, len(self._lines) - 1)
        # Found once for a line, which may hold thousands of tokens.
        if self._margin[:2] != (line, start):
            written = text[start : text.find("\n", start) % (len(text) + 1)]
            found = max(self._lines[line].find(written.strip()), 0)
            self._margin = line, start, found - (len(written) - len(written.lstrip()))
        return line, max(self._margin[2] + at - start, 0)

    def _at(self, place: _Place) -> tuple[int, int]:
        """A place as the file's line and column, both from 1."""
        return self._note.first_line + place[0], self._note.column + place[1] + 1

    def _fault(self, code: str, message: str, hint: str, place: _Place) -> None:
        source = " " * self._note.column + "".join(self._lines[place[0] : place[0] + 1])
        severity = Severity.ERROR if self._own else Severity.WARNING
        fault = Diagnostic(self._note.path, *self._at(place), code, message, hint, source, severity)
        self._note.report.add(fault)

    def _text(self, tokens: _Tokens, idx: int) -> str:
        """Words, with links where a term is used for the first time on its page."""
        token, terms = tokens[idx], self._note.terms
        for match in _FOOTNOTE.finditer(token.content) if self._own else ():
            hint = f"add a line `[^{match[1]}]: …` to this note"
            place = self._place(token)
            self._fault("anchor-broken", f"no footnote `{match[1]}`", hint, place)
        if terms is None or self._in_heading or self._in_links or self._in_raw:
            return escapeHtml(token.content)
        return "".join(
            _link(text, href, "x g") if href else escapeHtml(text)
            for text, href in terms.pieces(token.content)
        )

    def _code_inline(self, tokens: _Tokens, idx: int) -> str:
        """Inline code; a link when it names something. The same link as in the code column."""
        text = tokens[idx].content
        line = self._note.first_line + (self._block.map or [0])[0]
        mark = self._note.classes.get((line, text))
        name = f' class="{mark}"' if mark else ""
        code = f"<code{name}>{escape(text, quote=False)}</code>"
        link = None if self._in_heading or self._in_links else self._note.link(text)
        if link is None:
            return code
        kind, told = ("x e", "title") if link.external else ("x", "data-x")
        address = escape(self._note.href(link))
        return f'<a class="{kind}" href="{address}" {told}="{escape(link.name)}">{code}</a>'

    def _fence(self, tokens: _Tokens, idx: int) -> str:
        """Fenced code, with colours where the language is known."""
        from pylit.highlight import highlight_block

        language, *_rest = [*tokens[idx].info.split(), ""]
        name = f' class="language-{escape(language)}"' if language else ""
        inner = highlight_block(tokens[idx].content, language)
        return f'<pre class="fence"><code{name}>{inner}</code></pre>\n'

    _code_block = _fence

    def _formula(self, tex: str, display: bool, place: _Place) -> str:
        self._found["formulas"].append(Formula(tex, display, *self._at(place)))
        return formula_slot(len(self._found["formulas"]) - 1)

    def _math_inline(self, tokens: _Tokens, idx: int) -> str:
        token = tokens[idx]
        return self._formula(token.content, bool(token.meta["display"]), self._place(token))

    def _math_block(self, tokens: _Tokens, idx: int) -> str:
        token = tokens[idx]
        tex = token.content.strip()
        skipped = token.content[: token.content.index(tex)]
        line = (token.map or [0])[0] + skipped.count("\n")
        column = max(self._lines[line].find(tex.split("\n", 1)[0]), 0)
        return self._formula(tex, True, (line, column)) + "\n"

    def _link_open(self, tokens: _Tokens, idx: int) -> str:
        """A link whose address works on this page; the audit sees it.

        In another's notes `kernel[grid](*args)` is a call, and shown as it is written.
        """
        token = tokens[idx]
        written = str(token.attrs["href"])
        if token.info != "auto" and not _SCHEME.match(written) and not written.startswith("#"):
            target, mark, fragment = written.partition("#")
            found = self._note.link(unquote(target)) if target else None
            if found is not None:
                address = self._note.href(found)
                whole = address.split("#")[0] + mark + fragment if fragment else address
                token.attrs["href"] = whole
            elif not self._own and not mark:
                title = f' "{token.attrs["title"]}"' if "title" in token.attrs else ""
                after = (tokens[n] for n in range(idx + 1, len(tokens)))
                alike = (other for other in after if other.level == token.level)
                closing = next(other for other in alike if other.type == "link_close")
                closing.type = token.type = "text"
                token.content, closing.content = "[", f"]({normalizeLinkText(written)}{title})"
                return token.content
        self._in_links += 1
        self._refer(str(token.attrs["href"]), self._place(token)[0])
        return self._as_usual(tokens, idx)

    def _link_close(self, tokens: _Tokens, idx: int) -> str:
        self._in_links -= 1
        return self._as_usual(tokens, idx)

    def _refer(self, address: str, line: int) -> None:
        self._found["references"].append(Reference(address, self._note.first_line + line))

    def _image(self, tokens: _Tokens, idx: int) -> str:
        """An image of the site. One from elsewhere is not fetched: its text links to it."""
        token = tokens[idx]
        address, place = str(token.attrs["src"]), self._place(token)
        words = plain_text(token.children or []).strip()
        text = escape(words or address)
        scheme = address.partition(":")[0]
        elsewhere = bool(_SCHEME.match(address)) and scheme != "data"
        if self._own and scheme in _FIGURES:
            message = f"a {scheme} stands in a paragraph of its own"
            self._fault("figure-place", message, "leave an empty line before and after it", place)
        if not (self._own or elsewhere):
            # Only the site's own pictures are part of it: another's would be a hole in the page.
            hint = "pictures of a package are not copied; a full address becomes a link"
            message = f"image `{address}` is not shown, only its words are"
            self._fault("link-broken", message, hint, place)
            return text
        self._refer(address, place[0])
        if not words:
            hint = f"say in words what it shows, ![a curve that falls]({address})"
            self._fault("image-alt", f"image `{address}` has no text", hint, place)
        if elsewhere:
            return text if self._in_links else f'<a href="{escape(address)}">{text}</a>'
        title = escape(str(token.attrs.get("title", "")))
        title = f' title="{title}"' if title else ""
        return f'<img src="{escape(address)}" alt="{escape(words)}"{title} loading="lazy">'

    def _anchor(self, tokens: _Tokens, idx: int) -> str:
        self._claim(tokens[idx].content, self._place(tokens[idx]))
        return f'<span id="{escape(tokens[idx].content)}"></span>'

    def _claim(self, anchor: str, place: _Place) -> None:
        if not self._note.slugs.claim(anchor):
            message = f"this page already has the anchor `{anchor}`"
            self._fault("slug-duplicate", message, "give one of them another name", place)

    def _citation(self, tokens: _Tokens, idx: int) -> str:
        """Links to works; in a heading, which the outline links to, words alone."""
        token, place = tokens[idx], self._place(tokens[idx])
        shown: list[tuple[str, str]] = []
        for part in token.meta["parts"]:
            key, work = part["key"], self._note.cite(part["key"])
            if isinstance(work, str):
                at = place[0], place[1] + token.content.find(f"@{key}")
                self._fault("citation", f"no work `{key}` in the bibliography", work, at)
                work = Cited(key, "", "")
            else:
                self._found["citations"].append(Citation(key, self._note.first_line + place[0]))
            name = work.year if part["bare"] else f"{work.short} {work.year}".rstrip()
            where = " ".join((part["place"] or "").split())
            shown.append((f"{name}, {where}" if where else name, work.href))
        token.content = "; ".join(text for text, _ in shown)
        return "; ".join(_link(text, "" if self._in_heading else href) for text, href in shown)

    def _html_inline(self, tokens: _Tokens, idx: int) -> str:
        return self._raw_html(tokens[idx].content, self._place(tokens[idx])[0])

    def _html_block(self, tokens: _Tokens, idx: int) -> str:
        html = tokens[idx].content
        if not self._is_element(html):
            return f"<p>{escape(html.rstrip(), quote=False)}</p>\n"
        return self._raw_html(html, (tokens[idx].map or [0])[0])

    def _raw_html(self, html: str, first: int) -> str:
        """Raw HTML, whose addresses and anchors the audit sees."""
        for match in _ADDRESS_OR_ID.finditer(html):
            line = first + html[: match.end()].count("\n")
            if match["address"] is not None:
                self._refer(match["address"], line)
            else:
                self._claim(match["id"], (line, 0))
        self._folded += html.count("<details") - html.count("</details")
        return html

    def _heading_open(self, tokens: _Tokens, idx: int) -> str:
        """A heading with its words; its anchor may be written in it, or stand before it."""
        opening, inline, closing = tokens[idx : idx + 3]
        children = inline.children or []
        chosen = [opening.meta["id"]] if opening.meta else []
        chosen += [child.content for child in children if child.type == "anchor"]
        inline.children = children = [child for child in children if child.type != "anchor"]
        if children and children[-1].type == "text":
            last = children[-1]
            if match := _EXPLICIT.search(last.content):
                chosen.insert(0, match[1])
                last.content = last.content[: match.start()]
            last.content = last.content.rstrip()
        self._in_heading = True
        html = self._inline(tokens, idx + 1)
        self._in_heading = False
        text, line = plain_text(children).strip(), (opening.map or [0])[0]
        level = self._note.slugs.level(int(opening.tag[1]))
        opening.tag = closing.tag = f"h{level}"
        anchor, unique = self._note.slugs.slug(text, *chosen[:1])
        if not unique:
            message = f"another heading of this page has the anchor of “{text}”"
            hint = "reword one of them, or end it with an anchor of its own, `{#name}`"
            message += f"; this one became `{anchor}`"
            self._fault("slug-duplicate", message, hint, (line, 0))
        opening.attrs, inline.children = {"id": anchor}, []
        outline = _NO_OUTLINE.sub("", html)
        self._found["headings"].append(
            Heading(level, anchor, text, outline, self._note.first_line + line)
        )
        if inline.content.strip() == EXERCISES:
            self._exercises = opening.tag
        elif opening.tag <= self._exercises:
            self._exercises = ""
        return self._as_usual(tokens, idx) + html

    def _paragraph_open(self, tokens: _Tokens, idx: int) -> str:
        """A paragraph, unless it is a figure, or the anchor of the heading that follows."""
        opening, inline, closing = tokens[idx : idx + 3]
        children = inline.children or []
        only = children[0] if len(children) == 1 else Token("", "", 0)
        following = tokens[idx + 3] if idx + 3 < len(tokens) else None
        if only.type == "anchor" and following and following.type == "heading_open":
            following.meta["id"], inline.children, closing.type = only.content, [], "text"
            return ""
        if self._own and only.type == "image":
            scheme, _, name = str(only.attrs["src"]).partition(":")
            if scheme in _FIGURES:
                # What is no name is asked for as it is, and not found.
                return self._figure(only, scheme, escape(name), inline, closing)
        # A question has an anchor, so that other pages can lead to it.
        asks = self._own and self._exercises and not (self._folded or opening.level)
        number = NUMBER.match(inline.content) if asks else None
        if number and self._note.slugs.claim(anchor := f"exercise-{number[1]}"):
            opening.attrs = {"id": anchor}
        return self._as_usual(tokens, idx)

    def _figure(self, image: Token, scheme: str, name: str, inline: Token, closing: Token) -> str:
        """A figure that runs, ``![caption](figure:masks.causal)``, up to its caption, which may
        hold all that a line of text may; a table comes after it and is named by it.
        """
        self._block, self._margin = inline, (-1, 0, 0)
        place = self._place(image)
        if not image.content.strip():
            address = image.attrs["src"]
            hint = f"write what to look for in it, ![No query sees a later key.]({address})"
            self._fault("figure-caption", f"`{address}` has no caption", hint, place)
        self._found["figures"].append(FigureUse(name, *self._at(place), _FIGURES[scheme]))
        caption = self._md.parseInline(image.content, self._env)[0]
        inline.content, inline.children = caption.content, caption.children
        below, picture = figure_slot(name, "below"), figure_slot(name, "picture")
        closing.type, closing.content = "figure_close", f"{below}</figcaption></figure>\n"
        if scheme == "figure":
            return f'<figure class="fig">{picture}<figcaption>'
        anchor, _ = self._note.slugs.slug(f"table {name.replace('.', ' ')}")
        table = f'<table aria-labelledby="{anchor}">{picture}</table>'
        closing.content = f'</figcaption><div class="table-scroll">{table}</div>{below}</figure>\n'
        return f'<figure class="tab"><figcaption id="{anchor}">'

    def _figure_close(self, tokens: _Tokens, idx: int) -> str:
        return tokens[idx].content

    def _th_open(self, tokens: _Tokens, idx: int) -> str:
        """A cell in the first row; an empty one is no header of anything."""
        if not tokens[idx + 1].content.strip():
            tokens[idx].tag = tokens[idx + 2].tag = "td"
        return self._as_usual(tokens, idx)

    def _list_item_open(self, tokens: _Tokens, idx: int) -> str:
        """A list item; a task says in words whether it is done, because nobody can tick it."""
        checked = tokens[idx].meta.get("checked")
        if checked is None:
            return self._as_usual(tokens, idx)
        state, sign = ("Done", "☑") if checked else ("To do", "☐")
        return f'<li class="task"><span role="img" aria-label="{state}">{sign}</span> '

    def _bullet_list_open(self, tokens: _Tokens, idx: int) -> str:
        """A list; one of tasks has its own signs instead of bullets."""
        tasks = "contains-task-list" in str(tokens[idx].attrs.get("class", ""))
        return '<ul class="tasks">\n' if tasks else "<ul>\n"

    def _alert_open(self, tokens: _Tokens, idx: int) -> str:
        """An admonition says its kind as a word as well: colour alone tells too little."""
        return f'<div class="admonition {str(tokens[idx].meta["kind"]).lower()}" role="note">\n'


def _link(text: str, href: str, kind: str = "x") -> str:
    """A link to a term or a work, which shows what it means; words alone if there is no address."""
    words = escape(text, quote=False)
    return f'<a class="{kind}" href="{escape(href)}" data-x>{words}</a>' if href else words


def plain_text(children: _Tokens) -> str:
    """What inline tokens say, without markup, and formulas in words."""
    parts: list[str] = []
    for token in children:
        if token.type in ("text", "code_inline", "citation"):
            parts.append(token.content)
        elif token.type == "math_inline":
            parts.append(plain_tex(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(plain_text(token.children or []))
    return "".join(parts)


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
    ("escape", "math_inline", math_inline),
    ("html_inline", "anchor", anchor),
    ("link", "citation", citation),
)
#: Our rules for blocks, and which other blocks they may end.
BLOCKS = (
    ("fence", math_block, ["paragraph", "reference", "blockquote", "list", "footnote_def"]),
    ("blockquote", doctest, ["paragraph", "reference", "blockquote"]),
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
            md.inline.ruler.at(rule.name, located(rule.fn))
    return md
