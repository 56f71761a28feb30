"""Notes as HTML: Markdown with formulas, citations, links to code and to terms, and figures.

Exercises are under a heading "Exercises", numbered ``**1.**``, ``**2.**``, and so on. A question
may have a hint and has an answer, both folded away: ``<details><summary>Hint</summary>``,
``<details><summary>Answer</summary>``.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any, cast
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import validateLink
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin

from pylit.addresses import Anchors
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import (
    HAN,
    HEADING,
    FigureKind,
    FigureUse,
    Formula,
    Heading,
    Link,
    NoteHtml,
    figure_slot,
    formula_slot,
)
from pylit.notes.citations import Cite, Cited, no_bibliography
from pylit.notes.dialects import dialect_of, dialect_plugin
from pylit.notes.glossary import Terms
from pylit.notes.syntax import anchor, citation, doctest, located, math_block, math_inline
from pylit.notes.tex import tex_to_text
from pylit.notes.tones import NO_TONES, Tones
from pylit.source.highlight import hanging, highlight_block

#: The heading of exercises, and how a question begins.
EXERCISES = "Exercises"
NUMBER = re.compile(r"\*\*(\d+)\.\*\*")
#: Mark the places of formulas and figures (`pylit.model.formula_slot`, `figure_slot`); authors
#: cannot write them.
RESERVED = re.compile("[\ue000-\ue003]")
#: Characters of a note that is read as Markdown.
MAX_CHARACTERS = 100_000
#: Signs that open something, and which Markdown may seek the end of in all of their paragraph; and
#: the sum, over the paragraphs of a note, of these signs times characters. It takes half a second.
_OPENING = "[<\\$\"'"
MAX_STEPS = 30_000_000
#: Levels of lists and quotes; each list has two.
MAX_DEPTH = 100

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_EXPLICIT = re.compile(r"\s*\{#([^\s{}]+)\}\s*$")
_ADDRESS_OR_ID = re.compile(
    r"""\b(?:href|src)\s*=\s*(["'])(?P<address>.*?)\1|<[^>]*?\bid\s*=\s*(["'])(?P<id>.*?)\3""",
    re.IGNORECASE | re.DOTALL,
)
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]")
#: What an entry of the outline, which is a link, cannot hold.
_NO_OUTLINE = re.compile(
    r'<sup class="footnote-ref">.*?</sup>|</?a\b[^>]*>|<span id="[^"]*"></span>', re.DOTALL
)
_TAG = re.compile(r"</?([A-Za-z][\w-]*)[^>]*(/?)>")
#: Where the end of a line is no space: between Chinese characters, and beside their punctuation.
_WIDE = "\u3000-\u303f\uff00-\uff65"
_JOINED = re.compile(f"[{_WIDE}].|.[{_WIDE}]|[{HAN.pattern[1:-1]}“”‘’—…]{{2}}")
_VOID = frozenset({"br", "col", "hr", "img", "input", "source", "track", "wbr"})
#: Schemes of the addresses of figures and tables that run.
_FIGURES: dict[str, FigureKind] = {"figure": "figure", "table": "table"}
#: Inline rules whose tokens need their place in the source.
_LOCATED = {"link", "image", "autolink", "html_inline", "math_inline", "citation", "anchor"}
_LOCATED |= {"role", "phrase", "cites"}
#: A line and a column of a note, both from 0.
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NoteContext:
    """A note's place in its source, and how it finds what it refers to."""

    #: The source, and the line and the columns of indentation at which the note begins in it.
    path: str = ""
    first_line: int = 1
    column: int = 0
    #: Whether it is a note of the site's own. In those of other packages raw HTML is shown as text,
    #: nothing is cited, and quotes stay straight, as there may be code without backticks.
    own: bool = False
    #: Shared by the notes of a page, which are rendered in the page's order.
    anchors: Anchors = field(default_factory=Anchors)
    #: Finds what inline code names, and what a link's address names: a dotted name or the path of
    #: a source file.
    link: Callable[[str], Link | None] = lambda name: None
    #: The address of a link, for this page.
    href: Callable[[Link], str] = lambda link: link.url
    report: Report = field(default_factory=Report)
    #: Finds works of the bibliography.
    cite: Cite = no_bibliography
    #: Terms of the glossary that the page may still link to.
    terms: Terms | None = None
    #: The colours of words.
    tones: Tones = NO_TONES
    #: Line and text of inline code -> the classes that mark it.
    classes: Mapping[tuple[int, str], str] = field(default_factory=dict)
    #: The dialect of docstrings that the settings name (`pylit.notes.dialects`).
    docstrings: str = "markdown"
    #: Of a translation, the anchors of its headings; and the words of the interface.
    slugs: Sequence[str] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    #: How this page writes an address relative to the original of a translation.
    moved: Callable[[str], str] = lambda address: address

    @property
    def strict(self) -> bool:
        """Whether a fault is an error, as in `pylit.model.SourceFile.strict`."""
        return self.own and self.docstrings != "auto"

    def accepts(self, address: str) -> bool:
        """Whether a link to `address` is one; in other packages `kernel[grid](*args)` is a call."""
        if self.own or not validateLink(address):
            return validateLink(address)
        if scheme := _SCHEME.match(address):
            return scheme[0].lower() != "data:"
        return "#" in address or self.link(unquote(address)) is not None


def render_note(text: str, context: NoteContext) -> NoteHtml:
    """A note, which is Markdown, as HTML."""
    text = RESERVED.sub("", text)
    # The number is part of the anchors of footnotes, which each note numbers from 1.
    env: dict[str, Any] = {"docId": str(context.first_line)}
    if len(text) <= MAX_CHARACTERS and _steps(text) <= MAX_STEPS:
        md = parser(context.own, dialect_of(text, context.docstrings))
        md.validateLink = context.accepts  # type: ignore[method-assign, assignment]
        tokens = md.parse(text, env)
        # The parser drops deeper levels.
        if all(token.level < MAX_DEPTH - 1 for token in tokens):
            return _NoteRenderer(md, context, text, env).note(tokens)
    # It is too much for Markdown, such as data in a docstring.
    message = f"a note of {len(text):,} characters is shown as plain text"
    hint = f"Markdown takes up to {MAX_CHARACTERS:,} characters, {MAX_DEPTH} levels, and paragraphs"
    hint += f" with fewer signs such as {' '.join(_OPENING)}"
    place = (context.path, context.first_line, 0)
    context.report.add(Diagnostic(*place, "note-long", message, hint, "", Severity.WARNING))
    return NoteHtml(f'<pre class="fence"><code>{escape(text, quote=False)}</code></pre>\n')


def _steps(text: str) -> int:
    parts = text.split("\n\n")
    return sum(len(part) * sum(map(part.count, _OPENING)) for part in parts)


@cache
def parser(own: bool, dialect: str = "markdown") -> MarkdownIt:
    """The Markdown parser for notes of the site's own, or of other packages."""
    options: dict[str, Any] = {"html": own, "typographer": own, "tasklists": True, "alerts": True}
    md = MarkdownIt("commonmark", options | {"xhtmlOut": False, "maxNesting": MAX_DEPTH})
    md.enable(["table", "strikethrough"])
    md.use(deflist_plugin).use(gfm_autolink_plugin)
    # Inline footnotes, x^[1], are mathematics more often than footnotes.
    md.use(footnote_plugin, inline=False)
    ends = ["paragraph", "reference", "blockquote"]
    md.block.ruler.before("blockquote", "doctest", doctest, {"alt": ends})
    ends = [*ends, "list", "footnote_def"]
    md.block.ruler.before("fence", "math_block", math_block, {"alt": ends})
    md.inline.ruler.before("escape", "math_inline", math_inline)
    md.inline.ruler.before("html_inline", "anchor", anchor)
    if own:
        md.inline.ruler.before("link", "citation", citation)
        md.enable("smartquotes")
    dialect_plugin(md, dialect)
    for rule in md.inline.ruler.__rules__:
        if rule.name in _LOCATED:
            md.inline.ruler.at(rule.name, located(rule.fn))
    return md


class _NoteRenderer:
    """Renders the tokens of one note.

    A type of token with HTML of its own has a method, which returns None where markdown-it's HTML
    of the token, maybe changed by the method, will do.
    """

    def __init__(
        self, md: MarkdownIt, context: NoteContext, text: str, env: dict[str, Any]
    ) -> None:
        self._md, self._context, self._env = md, context, env
        self._source, self._lines = text, text.split("\n")
        #: Fields of `NoteHtml`, by name.
        self._found: dict[str, list[Any]] = defaultdict(list)
        self._words: list[str] = []
        #: The tag of the heading "Exercises" above, and how many details elements are open.
        self._exercises, self._folded = "", 0
        #: The block that inline tokens belong to, and the tokens after the one being rendered.
        self._block = Token("inline", "", 0)
        self._after: Sequence[Token] = ()
        self._in_heading = self._in_raw = False
        self._in_links = 0

    def note(self, tokens: Sequence[Token]) -> NoteHtml:
        for line, opened in self._env.get("unclosed", {}).items():
            place = line, max(self._lines[line].find(opened), 0)
            hint = f"write `{opened.replace('begin', 'end')}` where the formula ends"
            self._fault("tex", f"`{opened}` is not closed", hint, place)
        html = self._pieces(tokens)
        self._found["exercises"] = [*_exercises(tokens, html, self._context.words)]
        self._found["terms"] = [*_terms(tokens, html)]
        named = (f"<p>{heading.html}</p>" for heading in self._found["headings"])
        lead = next(filter(None, (*_leads(tokens, html), *named)), "")
        text = "\n".join(text for text in self._words if text.strip() or text == HEADING)
        found = {kind: tuple(values) for kind, values in self._found.items()}
        return NoteHtml("".join(html), text=text, lead=lead, **found)

    def _html(self, tokens: Sequence[Token]) -> str:
        return "".join(self._pieces(tokens))

    def _pieces(self, tokens: Sequence[Token]) -> list[str]:
        renderer = cast(RendererHTML, self._md.renderer)
        html = []
        for index, token in enumerate(tokens):
            self._after = tokens[index + 1 : index + 4]
            rule = getattr(self, f"_{token.type}", None)
            shown = rule(token) if rule else None
            if shown is None:
                usual = renderer.rules.get(token.type, renderer.renderToken)
                shown = usual(tokens, index, self._md.options, self._env)
            html.append(shown)
        return html

    def _place(self, token: Token) -> _Place:
        """The position of a token, or that of its block if the token has none."""
        at, text = token.meta.get("at", 0), self._block.content
        start = text.rfind("\n", 0, at) + 1
        line = (self._block.map or [0])[0] + text.count("\n", 0, at)
        line = min(line, len(self._lines) - 1)
        written = text[start:].partition("\n")[0]
        indent = len(written) - len(written.lstrip())
        column = max(self._lines[line].find(written.strip()), 0)
        return line, max(column - indent + at - start, 0)

    def _at(self, place: _Place) -> tuple[int, int]:
        """The line and column in the file, both from 1."""
        return self._context.first_line + place[0], self._context.column + place[1] + 1

    def _fault(self, code: str, message: str, hint: str, place: _Place) -> None:
        context = self._context
        source = " " * context.column + self._lines[place[0]]
        where = (context.path, *self._at(place))
        context.report.fault(context.strict, where, code, message, hint, source)

    def _refer(self, address: str, line: int) -> None:
        self._found["references"].append((address, self._context.first_line + line))

    def _claim(self, anchor: str, place: _Place) -> None:
        if not self._context.anchors.claim(anchor):
            message = f"this page already has the anchor `{anchor}`"
            self._fault("slug-duplicate", message, "give one of them another name", place)

    def _inline(self, token: Token) -> str:
        self._block, children = token, token.children or []
        for child in children:
            if child.type == "html_inline" and not self._is_element(child.content):
                child.type = "text"
        if HAN.search(token.content):
            _join_lines(children)
        self._in_raw = any(child.type == "html_inline" for child in children)
        html = self._html(children)
        self._words.append(HEADING if self._in_heading else plain_text(children))
        return html

    def _rendered(self, token: Token) -> str:
        return token.content

    def _text(self, token: Token) -> str:
        """Text, with links where a term is used for the first time on its page."""
        terms = self._context.terms
        for match in _FOOTNOTE.finditer(token.content) if self._context.own else ():
            hint = f"add a line `[^{match[1]}]: …` to this note"
            place = self._place(token)
            self._fault("anchor-broken", f"no footnote `{match[1]}`", hint, place)
        if self._in_heading or self._in_links or self._in_raw:
            return escapeHtml(token.content)
        coloured = self._context.tones.coloured
        return "".join(
            _link(text, href, "x g") if href else coloured(escapeHtml(text))
            for text, href in (terms.pieces(token.content) if terms else ((token.content, ""),))
        )

    def _code_inline(self, token: Token) -> str:
        """Inline code; a link when it names something. The same link as in the code column."""
        text, context = token.content, self._context
        mark = context.classes.get((context.first_line + (self._block.map or [0])[0], text))
        name = f' class="{mark}"' if mark else ""
        code = f"<code{name}>{escape(text, quote=False)}</code>"
        named = token.meta.get("target", text)
        link = None if self._in_heading or self._in_links or not named else context.link(named)
        if link is None:
            return code
        kind, title = ("x e", "title") if link.external else ("x", "data-x")
        address = escape(context.href(link))
        return f'<a class="{kind}" href="{address}" {title}="{escape(link.name)}">{code}</a>'

    def _fence(self, token: Token) -> str:
        language = token.info.split()[0] if token.info.strip() else ""
        name = f' class="language-{escape(language)}"' if language else ""
        inner = highlight_block(token.content, language)
        columns = hanging(token.content.split("\n"))
        style = f' style="--to:{columns}"' if columns else ""
        return f'<pre class="fence"{style}><code{name}>{inner}</code></pre>\n'

    _code_block = _fence

    def _math_inline(self, token: Token) -> str:
        place = self._at(self._place(token))
        self._found["formulas"].append(Formula(token.content, token.meta["display"], *place))
        return formula_slot(len(self._found["formulas"]) - 1)

    def _math_block(self, token: Token) -> str:
        self._block = token
        return self._html(token.children or []) + "\n"

    def _link_open(self, token: Token) -> None:
        """A link whose address works on this page."""
        written = str(token.attrs["href"])
        if token.info != "auto" and not _SCHEME.match(written):
            target, mark, fragment = written.partition("#")
            found = self._context.link(unquote(target)) if target else None
            if found is not None:
                address = self._context.href(found)
                whole = address.split("#")[0] + mark + fragment if fragment else address
                token.attrs["href"] = whole
            elif target:
                token.attrs["href"] = self._context.moved(written)
        self._in_links += 1
        self._refer(str(token.attrs["href"]), self._place(token)[0])

    def _link_close(self, token: Token) -> None:
        self._in_links -= 1

    def _image(self, token: Token) -> str:
        """An image of the site. One from elsewhere is not fetched: its text links to it."""
        address, place = str(token.attrs["src"]), self._place(token)
        address = self._moved(address)
        words = plain_text(token.children or []).strip()
        scheme = address.partition(":")[0]
        if scheme in _FIGURES and self._context.own:
            message = f"a {scheme} stands in a paragraph of its own"
            self._fault("figure-place", message, "leave an empty line before and after it", place)
        self._refer(address, place[0])
        if not words:
            hint = f"say in words what it shows, ![a curve that falls]({address})"
            self._fault("image-alt", f"image `{address}` has no text", hint, place)
        if not self._context.own or (_SCHEME.match(address) and scheme != "data"):
            text = escape(words or address)
            return text if self._in_links else f'<a href="{escape(address)}">{text}</a>'
        title = escape(str(token.attrs.get("title", "")))
        title = f' title="{title}"' if title else ""
        return f'<img src="{escape(address)}" alt="{escape(words)}"{title} loading="lazy">'

    def _anchor(self, token: Token) -> str:
        self._claim(token.content, self._place(token))
        return f'<span id="{escape(token.content)}"></span>'

    def _citation(self, token: Token) -> str:
        """Links to works; in a heading, which the outline links to, words alone."""
        place = self._place(token)
        shown: list[tuple[str, str]] = []
        for part in token.meta["parts"]:
            key, work = part["key"], self._context.cite(part["key"])
            if isinstance(work, str):
                at = place[0], place[1] + token.content.find(f"@{key}")
                self._fault("citation", f"no work `{key}` in the bibliography", work, at)
                work = Cited(key, "", "")
            else:
                self._found["citations"].append((key, self._context.first_line + place[0]))
            name = work.year if part["bare"] else f"{work.short} {work.year}".rstrip()
            where = " ".join((part["place"] or "").split())
            shown.append((f"{name}, {where}" if where else name, work.href))
        token.content = "; ".join(text for text, _ in shown)
        return "; ".join(_link(text, "" if self._in_heading else href) for text, href in shown)

    def _html_inline(self, token: Token) -> str:
        return self._raw_html(token.content, self._place(token)[0])

    def _html_block(self, token: Token) -> str:
        if not self._is_element(token.content):
            return f"<p>{escape(token.content.rstrip(), quote=False)}</p>\n"
        return self._raw_html(token.content, (token.map or [0])[0])

    def _is_element(self, html: str) -> bool:
        """Whether raw HTML is some: `<T>` and `<module>`, which nothing closes, are words."""
        tag = _TAG.match(html)
        if tag is None or tag[2] or tag[1].lower() in _VOID:
            return True
        return f"<{tag[1]}" in self._source and f"</{tag[1]}" in self._source

    def _raw_html(self, html: str, first: int) -> str:
        """Raw HTML, with its addresses and anchors collected."""

        def seen(match: re.Match[str]) -> str:
            line = first + html[: match.end()].count("\n")
            if match["address"] is None:
                self._claim(match["id"], (line, 0))
                return match[0]
            address = self._moved(match["address"])
            self._refer(address, line)
            return match[0].replace(match["address"], address)

        self._folded += html.count("<details") - html.count("</details")
        return _ADDRESS_OR_ID.sub(seen, html)

    def _moved(self, address: str) -> str:
        """An address as this page writes it, if it is that of a file."""
        elsewhere = not address or address[0] == "#" or _SCHEME.match(address)
        return address if elsewhere else self._context.moved(address)

    def _heading_open(self, token: Token) -> None:
        """A heading; its anchor may be in it, or before it."""
        inline, closing, *_ = self._after
        children = inline.children or []
        chosen: list[str] = []
        if not self._context.anchors.github:
            chosen = [child.content for child in children if child.type == "anchor"]
            inline.children = children = [child for child in children if child.type != "anchor"]
        if children and children[-1].type == "text":
            text, *explicit = _EXPLICIT.split(children[-1].content)
            children[-1].content = text.rstrip()
            chosen = [*explicit[:1], token.meta.get("id", ""), *chosen]
        # Those of a translation are the anchors of the original.
        original = self._context.slugs[len(self._found["headings"]) :][:1]
        self._in_heading = True
        html = self._inline(inline)
        self._in_heading = False
        anchors, line = self._context.anchors, (token.map or [0])[0]
        text = plain_text(children).strip()
        level = anchors.level(int(token.tag[1]))
        token.tag = closing.tag = f"h{level}"
        anchor, unique = anchors.slug(text, next(filter(None, [*original, *chosen]), ""))
        if not unique:
            message = f"another heading of this page has the anchor of “{text}”"
            hint = "reword one of them, or end it with an anchor of its own, `{#name}`"
            message += f"; this one became `{anchor}`"
            self._fault("slug-duplicate", message, hint, (line, 0))
        outline = _NO_OUTLINE.sub("", html)
        first = self._context.first_line
        self._found["headings"].append(Heading(level, anchor, text, outline, first + line))
        if EXERCISES in (inline.content.strip(), *(slug.capitalize() for slug in original)):
            self._exercises = token.tag
        elif token.tag <= self._exercises:
            self._exercises = ""
        token.attrs = {"id": anchor}
        inline.children = [Token("rendered", "", 0, content=html)]

    def _dt_open(self, token: Token) -> None:
        """A term; one with an anchor, as in the glossary, is a heading to the search."""
        inline = self._after[0]
        first, *words = inline.children or [token]
        if first.type == "anchor":
            self._in_heading, line = True, self._context.first_line + (inline.map or [0])[0]
            # Without HTML, as no outline shows it.
            heading = Heading(6, first.content, plain_text(words), "", line)
            self._found["headings"].append(heading)

    def _dt_close(self, token: Token) -> None:
        self._in_heading = False

    def _paragraph_open(self, token: Token) -> str | None:
        """A paragraph, unless it is a figure, or the anchor of the heading that follows."""
        inline, closing, *following = self._after
        only = (inline.children or [token])[0] if len(inline.children or ()) == 1 else token
        anchors = self._context.anchors
        if (
            only.type == "anchor"
            and not anchors.github
            and following
            and following[0].type == "heading_open"
        ):
            following[0].meta["id"] = only.content
            inline.children, closing.type = [], "rendered"
            return ""
        if only.type == "image" and self._context.own:
            scheme, _, name = str(only.attrs["src"]).partition(":")
            if scheme in _FIGURES:
                return self._figure(only, scheme, escape(name), inline, closing)
        # A question has an anchor, so that other pages can lead to it.
        is_question = self._context.own and self._exercises and not (self._folded or token.level)
        number = NUMBER.match(inline.content) if is_question else None
        if number and self._context.anchors.claim(anchor := f"exercise-{number[1]}"):
            token.attrs = {"id": anchor}
        return None

    def _figure(self, image: Token, scheme: str, name: str, inline: Token, closing: Token) -> str:
        """A figure that runs, ``![caption](figure:masks.causal)``, up to its caption, which may
        hold all that a line of text may; a table comes after it and is named by it.
        """
        self._block = inline
        place = self._place(image)
        if not image.content.strip():
            address = image.attrs["src"]
            hint = f"write what to look for in it, ![No query sees a later key.]({address})"
            self._fault("figure-caption", f"`{address}` has no caption", hint, place)
        self._found["figures"].append(FigureUse(name, *self._at(place), _FIGURES[scheme]))
        caption = self._md.parseInline(image.content, self._env)[0]
        inline.content, inline.children = caption.content, caption.children
        below, picture = figure_slot(name, "below"), figure_slot(name, "picture")
        closing.type, closing.content = "rendered", f"{below}</figcaption></figure>\n"
        if scheme == "figure":
            return f'<figure class="fig">{picture}<figcaption>'
        anchor, _ = self._context.anchors.slug(f"table {name.replace('.', ' ')}")
        table = f'<table aria-labelledby="{anchor}">{picture}</table>'
        closing.content = f'</figcaption><div class="table-scroll">{table}</div>{below}</figure>\n'
        return f'<figure class="tab"><figcaption id="{anchor}">'

    def _table_open(self, token: Token) -> str:
        return '<div class="table-scroll"><table>\n'

    def _table_close(self, token: Token) -> str:
        return "</table></div>\n"

    def _th_open(self, token: Token) -> None:
        """A cell in the first row; an empty one is no header of anything."""
        inline, closing, *_ = self._after
        if not inline.content.strip():
            token.tag = closing.tag = "td"


def _exercises(
    tokens: Sequence[Token], html: Sequence[str], words: Mapping[str, str]
) -> Iterator[tuple[str, str, bool]]:
    """Exercises; one ends where another, a heading or something folded but its hint begins."""
    hint, answer = (f"<summary>{words.get(word, word)}</summary>" for word in ("Hint", "Answer"))

    def begins(token: Token) -> bool:
        raw = token.content if token.type == "html_block" else ""
        folded = raw.count("<details") > raw.count(hint)
        return not token.level and (folded or "id" in token.attrs)

    starts = [number for number, token in enumerate(tokens) if begins(token)]
    for start, end in pairwise([*starts, len(tokens)]):
        if tokens[start].type == "paragraph_open":
            number = str(tokens[start].attrs["id"]).removeprefix("exercise-")
            answered = answer in "".join(html[end : end + 1])
            yield number, "".join(html[start:end]), answered


def _leads(tokens: Sequence[Token], html: Sequence[str]) -> Iterator[str]:
    """The paragraphs and lists of a note, before the sections of a docstring."""
    for start, token in enumerate(tokens):
        if token.attrs.get("class") == "label":
            return
        begins = not token.level and token.nesting > 0 and token.tag in ("p", "ul", "ol")
        if begins and html[start].startswith(f"<{token.tag}") and html[start + 1]:
            end = next(n for n, last in enumerate(tokens) if n > start and not last.level)
            yield "".join(html[start : end + 1])


def _terms(tokens: Sequence[Token], html: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Terms with an anchor, as in the glossary, and what they mean: a paragraph for each ``:``."""
    starts = [number for number, token in enumerate(tokens) if token.type == "dt_open"]
    for start, end in pairwise([*starts, len(tokens)]):
        first = (tokens[start + 1].children or [tokens[start]])[0]
        texts = [
            n for n in range(start + 3, end) if tokens[n].type == "inline" and tokens[n].level > 1
        ]
        if first.type == "anchor":
            yield first.content, html[start + 1], "".join(f"<p>{html[n]}</p>\n" for n in texts)


def _join_lines(children: Sequence[Token]) -> None:
    """Make no spaces of the ends of lines in Chinese."""
    for at, end in enumerate(children):
        if end.type == "softbreak":
            before = next((one.content for one in children[:at][::-1] if one.content), " ")
            after = next((one.content for one in children[at:] if one.content), " ")
            if _JOINED.fullmatch(before[-1] + after[0]):
                end.type, end.content = "rendered", ""


def _link(text: str, href: str, kind: str = "x") -> str:
    """A link with a preview to a term or a work; words alone if there is no address."""
    words = escape(text, quote=False)
    return f'<a class="{kind}" href="{escape(href)}" data-x>{words}</a>' if href else words


def plain_text(children: Sequence[Token]) -> str:
    """Inline tokens as text without markup, formulas in words."""
    parts: list[str] = []
    for token in children:
        if token.type in ("text", "code_inline", "citation"):
            parts.append(token.content)
        elif token.type == "math_inline":
            parts.append(tex_to_text(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(plain_text(token.children or []))
    return "".join(parts)
