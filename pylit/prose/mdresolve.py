"""Between parsing and rendering: give the tokens of a note what the rest of the page knows.

Formulas get their numbers, headings their anchors and levels, links their addresses, and everything
that an author may have got wrong is reported with its true line. After this, rendering is a plain
walk over the tokens.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple
from urllib.parse import unquote

from markdown_it.common.normalize_url import normalizeLinkText
from markdown_it.token import Token

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Citation, FigureKind, FigureUse, Formula, Heading, Link, Reference
from pylit.prose.citations import Cite, resolve_citation, unknown
from pylit.prose.exercises import mark_exercises
from pylit.prose.glossary import Terms, link_terms
from pylit.prose.mdhtml import plain_text
from pylit.prose.slugs import Slugs

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
EXPLICIT = re.compile(r"\s*\{#([^\s{}]+)\}\s*$")
RAW_ADDRESS = re.compile(r"""\b(?:href|src)\s*=\s*(["'])(.*?)\1""", re.IGNORECASE | re.DOTALL)
RAW_ID = re.compile(r"""<[^>]*?\bid\s*=\s*(["'])(.*?)\1""", re.IGNORECASE | re.DOTALL)
FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]")

#: Schemes of the addresses of figures and tables that run.
FIGURES: dict[str, FigureKind] = {"figure": "figure", "table": "table"}
#: In the text of a note, the place of a heading: what follows stands under it.
HEADING = "\f"
#: What an entry of the outline, which is a link, cannot hold.
NO_OUTLINE = ("link_open", "link_close", "footnote_ref")


class Place(NamedTuple):
    """A line and a column of a note, both from 0."""

    line: int
    column: int = 0


@dataclass
class NoteContext:
    """Where a note stands, what it may ask, and what is found in it."""

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
    #: From here on, the renderer's: the note, and how it parses and renders a line of text.
    own: bool = field(init=False)
    lines: list[str] = field(init=False)
    parse: Callable[[str], list[Token]] = field(init=False)
    inline: Callable[[Sequence[Token]], str] = field(init=False)
    formulas: list[Formula] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    figures: list[FigureUse] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    #: Number of this note among those of its page that have footnotes; 0 when it has none.
    footnotes: int = 0

    def at(self, place: Place) -> tuple[int, int]:
        """A place as the file's line and column, both from 1."""
        return self.first_line + place.line, self.column + place.column + 1

    def fault(self, code: str, message: str, hint: str, place: Place) -> None:
        """Report a fault."""
        lines = self.lines[place.line : place.line + 1]
        source = " " * self.column + "".join(lines)
        severity = Severity.ERROR if self.own else Severity.WARNING
        at = self.at(place)
        self.report.add(Diagnostic(self.path, *at, code, message, hint, source, severity))


def resolve(
    tokens: list[Token], env: MutableMapping[str, Any], context: NoteContext
) -> list[Token]:
    """Fill in the tokens of a note, and return those to render."""
    for line, opened in env.get("unclosed", {}).items():
        closing = opened.replace("begin", "end")
        place = Place(line, max(context.lines[line].find(opened), 0))
        hint = f"write `{closing}` where the formula ends"
        context.fault("tex", f"`{opened}` is not closed", hint, place)
    tokens = take_anchors(tokens)
    for index, token in enumerate(tokens):
        if token.type == "math_block":
            block_formula(token, context)
        elif token.type == "html_block":
            raw_html(token.content, (token.map or [0])[0], context)
        elif token.type == "th_open" and not tokens[index + 1].content.strip():
            # An empty one is no header of anything.
            token.tag = tokens[index + 2].tag = "td"
        elif token.type == "inline":
            if context.own:
                take_figure(tokens[index - 1], token, tokens[index + 1], context)
            heading = tokens[index - 1].type == "heading_open"
            resolve_inline(token, context, heading=heading)
            if heading:
                resolve_heading(tokens[index - 1], token, tokens[index + 1], context)
                context.text.append(HEADING)
            else:
                context.text.append(plain_text(token.children or []))
        elif token.type == "footnote_block_open":
            context.footnotes = context.slugs.note()
    context.text = [text for text in context.text if text.strip() or text == HEADING]
    if context.own:
        mark_exercises(tokens, context.slugs)
    return tokens


def take_anchors(tokens: list[Token]) -> list[Token]:
    """Give headings the anchors written in them, or in a paragraph of their own before them."""
    kept: list[Token] = []
    waiting = ""
    for index, token in enumerate(tokens):
        kept.append(token)
        if token.type == "heading_open":
            if waiting:
                token.meta["id"], waiting = waiting, ""
            take_heading_anchor(token, tokens[index + 1])
        elif token.type == "paragraph_close" and is_lone_anchor(tokens[index - 1]):
            following = tokens[index + 1 : index + 2]
            if following and following[0].type == "heading_open":
                waiting = (tokens[index - 1].children or [])[0].content
                del kept[-3:]
    return kept


def is_lone_anchor(token: Token) -> bool:
    """Whether a paragraph's text is one anchor and nothing else."""
    return token.type == "inline" and [t.type for t in token.children or []] == ["anchor"]


def take_heading_anchor(heading: Token, inline: Token) -> None:
    """Move ``{#name}`` at the end of a heading, or an anchor inside it, to the heading."""
    children = inline.children or []
    for child in children:
        if child.type == "anchor" and "id" not in heading.meta:
            heading.meta["id"] = child.content
    inline.children = [child for child in children if child.type != "anchor"]
    if inline.children and inline.children[-1].type == "text":
        last = inline.children[-1]
        match = EXPLICIT.search(last.content)
        if match:
            heading.meta["id"] = match[1]
            last.content = last.content[: match.start()]
        last.content = last.content.rstrip()


def take_figure(opening: Token, inline: Token, closing: Token, context: NoteContext) -> None:
    """Make a figure, or a table that runs, of a paragraph that asks for it.

    ``![caption](figure:masks.causal)``; what is between the brackets may hold all that a line of
    text may. Only a site's own sources have figures: in another's the address is one like others.
    """
    children = inline.children or []
    alone = len(children) == 1 and opening.type == "paragraph_open"
    for image in children:
        address = str(image.attrs.get("src", "")) if image.type == "image" else ""
        scheme, _, name = address.partition(":")
        if scheme not in FIGURES:
            continue
        place = place_of(image, inline, context)
        if not alone:
            message = f"a {scheme} stands in a paragraph of its own"
            context.fault("figure-place", message, "leave an empty line before and after it", place)
        if not image.content.strip():
            hint = f"write what to look for in it, ![No query sees a later key.]({address})"
            context.fault("figure-caption", f"`{address}` has no caption", hint, place)
        if not alone:
            continue
        # What is no name is asked for as it is, and not found.
        name = escape(name)
        # Of a table, the anchor of its caption, by which it is named.
        anchor = (
            context.slugs.slug(f"table {name.replace('.', ' ')}")[0] if scheme == "table" else ""
        )
        for token, kind in ((opening, "figure_open"), (closing, "figure_close")):
            token.type, token.tag, token.hidden = kind, "figure", False
            token.meta |= {"figure": name, "anchor": anchor}
        context.figures.append(FigureUse(name, *context.at(place), FIGURES[scheme]))
        caption = context.parse(image.content)[0]
        inline.content, inline.children, inline.meta = caption.content, caption.children, {}


def resolve_heading(opening: Token, inline: Token, closing: Token, context: NoteContext) -> None:
    """Set a heading's level and anchor, and keep it for the outline."""
    children = inline.children or []
    text = plain_text(children).strip()
    line = (opening.map or [0])[0]
    level = context.slugs.level(int(opening.tag[1]))
    opening.tag = closing.tag = f"h{level}"
    anchor = opening.meta.get("id", "")
    unique = bool(anchor) and context.slugs.claim(anchor)
    if not unique:
        chosen = anchor
        anchor, unique = context.slugs.slug(chosen or text)
        unique = unique and not chosen
    if not unique:
        context.fault(
            "slug-duplicate",
            f"another heading of this page has the anchor of “{text}”; this one became `{anchor}`",
            "reword one of them, or end it with an anchor of its own, `{#name}`",
            Place(line),
        )
    opening.attrs = {"id": anchor}
    html = context.inline([child for child in children if child.type not in NO_OUTLINE])
    context.headings.append(Heading(level, anchor, text, html, context.first_line + line))


def block_formula(token: Token, context: NoteContext) -> None:
    """Number a display formula, and find where its TeX begins."""
    line, _ = token.map or [0, 0]
    tex = token.content.strip()
    skipped = token.content[: token.content.index(tex)]
    line += skipped.count("\n")
    column = max(context.lines[line].find(tex.split("\n", 1)[0]), 0)
    add_formula(token, tex, True, Place(line, column), context)


def add_formula(token: Token, tex: str, display: bool, place: Place, context: NoteContext) -> None:
    """Number a formula."""
    token.meta["formula"] = len(context.formulas)
    context.formulas.append(Formula(tex, display, *context.at(place)))


def resolve_inline(inline: Token, context: NoteContext, *, heading: bool) -> None:
    """Resolve what stands in a line of text."""
    inside_link = 0
    for token in inline.children or []:
        place = place_of(token, inline, context)
        if token.type == "math_inline":
            add_formula(token, token.content, bool(token.meta["display"]), place, context)
        elif token.type == "link_open":
            if resolve_link(token, place, context):
                inside_link += 1
            else:
                show_as_written(token, inline)
        elif token.type == "link_close":
            inside_link -= 1
        elif token.type == "image":
            resolve_image(token, place, context, linked=inside_link > 0)
        elif token.type == "anchor":
            claim_anchor(token.content, place, context)
        elif token.type == "citation":
            cite_works(token, place, context, linked=not heading)
        elif token.type == "html_inline":
            raw_html(token.content, place.line, context)
        elif token.type == "code_inline" and not heading and not inside_link:
            found = context.link(token.content)
            if found is not None:
                token.meta["href"] = context.href(found)
                token.meta["link"] = found
        elif token.type == "text" and context.own:
            missing_footnotes(token.content, place, context)
    if context.terms and not heading:
        inline.children = link_terms(inline.children or [], context.terms)


def place_of(token: Token, inline: Token, context: NoteContext) -> Place:
    """Where a token begins. Text and code do not know, and are placed at the start of the block."""
    at = token.meta.get("at", 0)
    # Found once for the block: a paragraph may hold thousands of tokens.
    starts = inline.meta.get("starts")
    if starts is None:
        breaks = re.finditer("\n", inline.content)
        starts = inline.meta["starts"] = [0, *(match.end() for match in breaks)]
        inline.meta["columns"] = {}
    number = bisect_right(starts, at) - 1
    line = min((inline.map or [0])[0] + number, len(context.lines) - 1)
    columns = inline.meta["columns"]
    if number not in columns:
        written = inline.content[starts[number] :].split("\n", 1)[0]
        found = max(context.lines[line].find(written.strip()), 0)
        columns[number] = found, len(written) - len(written.lstrip())
    column, indent = columns[number]
    return Place(line, column + max(at - starts[number] - indent, 0))


def resolve_link(token: Token, place: Place, context: NoteContext) -> bool:
    """Turn a link's address into one that works on this page, and keep it for the audit.

    False for what is no link: in another's notes `kernel[grid](*args)` is a call.
    """
    written = str(token.attrs["href"])
    if token.info != "auto" and not SCHEME.match(written) and not written.startswith("#"):
        target, mark, fragment = written.partition("#")
        found = context.link(unquote(target)) if target else None
        if found is not None:
            address = context.href(found)
            token.attrs["href"] = address.split("#")[0] + mark + fragment if fragment else address
            token.meta["link"] = found
        elif not context.own and not mark:
            return False
    context.references.append(Reference(str(token.attrs["href"]), context.first_line + place.line))
    return True


def show_as_written(opening: Token, inline: Token) -> None:
    """Make text of a link: brackets, what stands in them, and the address in parentheses."""
    children = inline.children or []
    first = children.index(opening)
    closing = next(
        token
        for token in children[first:]
        if token.type == "link_close" and token.level == opening.level
    )
    title = str(opening.attrs.get("title", ""))
    written = normalizeLinkText(str(opening.attrs["href"])) + (f' "{title}"' if title else "")
    for token, text in ((opening, "["), (closing, f"]({written})")):
        token.type, token.tag, token.nesting, token.content = "text", "", 0, text


def resolve_image(token: Token, place: Place, context: NoteContext, *, linked: bool) -> None:
    """An image needs words for those who do not see it; one elsewhere is not fetched."""
    address = str(token.attrs["src"])
    alt = plain_text(token.children or []).strip()
    token.meta["alt"] = alt
    token.meta["linked"] = linked
    token.meta["elsewhere"] = bool(SCHEME.match(address)) and not address.startswith("data:")
    # Only the site's own pictures are part of it: another's would be a hole in the page.
    token.meta["absent"] = not (context.own or token.meta["elsewhere"])
    if token.meta["absent"]:
        hint = "pictures beside a package's modules are not copied; a full address becomes a link"
        message = f"image `{address}` is not shown, only its words are"
        context.fault("link-broken", message, hint, place)
        return
    context.references.append(Reference(address, context.first_line + place.line))
    if not alt:
        hint = f"say in words what it shows, ![a curve that falls]({address})"
        context.fault("image-alt", f"image `{address}` has no text", hint, place)


def cite_works(token: Token, place: Place, context: NoteContext, *, linked: bool) -> None:
    """Find the works that a citation names, and keep it for the bibliography."""
    for key, hint in resolve_citation(token, context.cite, linked=linked):
        if hint:
            at = Place(place.line, place.column + token.meta["written"].find(f"@{key}"))
            context.fault("citation", f"no work `{key}` in the bibliography", hint, at)
        else:
            context.citations.append(Citation(key, context.first_line + place.line))


def claim_anchor(anchor: str, place: Place, context: NoteContext) -> None:
    """Report an anchor that the page has already."""
    if not context.slugs.claim(anchor):
        message = f"this page already has the anchor `{anchor}`"
        context.fault("slug-duplicate", message, "give one of them another name", place)


def raw_html(html: str, line: int, context: NoteContext) -> None:
    """Keep the addresses and anchors of raw HTML for the audit."""
    for match in RAW_ADDRESS.finditer(html):
        at = line + html[: match.start(2)].count("\n")
        context.references.append(Reference(match[2], context.first_line + at))
    for match in RAW_ID.finditer(html):
        at = line + html[: match.start(2)].count("\n")
        claim_anchor(match[2], Place(at), context)


def missing_footnotes(text: str, place: Place, context: NoteContext) -> None:
    """Report references to footnotes that the note does not define: they stay plain text."""
    for match in FOOTNOTE.finditer(text):
        places = (i for i in range(place.line, len(context.lines)) if match[0] in context.lines[i])
        line = next(places, place.line)
        at = Place(line, max(context.lines[line].find(match[0]), 0))
        hint = f"add a line `[^{match[1]}]: …` to this note"
        context.fault("anchor-broken", f"no footnote `{match[1]}`", hint, at)
