"""Figures that run, in notes: ``![caption](figure:masks.causal)`` in a paragraph of its own.

Tables that run are asked for in the same way: ``![caption](table:results.models)``.

What is between the brackets is the caption, with all that a line of text may hold. Words for those
who do not see the figure come with it, from the run.
"""

from collections.abc import Callable
from html import escape
from itertools import pairwise

from markdown_it.token import Token

from pylit.model import FigureKind, FigureUse
from pylit.prose.mdresolve import NoteContext, place_of

#: Schemes of their addresses.
KINDS: tuple[FigureKind, ...] = ("figure", "table")


def take_figures(
    tokens: list[Token], context: NoteContext, parse: Callable[[str], list[Token]]
) -> list[Token]:
    """The tokens of a note, with a figure in the place of each paragraph that asks for one.

    Only a site's own sources have figures: in another's the address is one like others. `parse`
    makes tokens of a caption.
    """
    if not context.own:
        return tokens
    kept: list[Token] = []
    for token in tokens:
        kept.append(token)
        images = [child for child in token.children or [] if _is_figure(child)]
        if token.type != "inline" or not images:
            continue
        alone = len(token.children or []) == 1 and kept[-2].type == "paragraph_open"
        for image in images:
            _check(image, token, alone, context)
        if alone:
            caption = parse(images[0].content)[0]
            caption.map = token.map
            kept[-2:] = [_opened(images[0], token, context), caption]
            caption.meta |= kept[-2].meta
    return _closed(kept)


def _is_figure(token: Token) -> bool:
    return token.type == "image" and _asked(token)[0] in KINDS


def _asked(image: Token) -> tuple[str, str]:
    """What an image asks for: the scheme of its address, and the rest of it."""
    scheme, _, name = str(image.attrs["src"]).partition(":")
    return scheme, name


def _opened(image: Token, inline: Token, context: NoteContext) -> Token:
    place = place_of(image, inline, context)
    scheme, name = _asked(image)
    kind = next(kind for kind in KINDS if kind == scheme)
    # What is no name is asked for as it is, and not found.
    name = escape(name)
    opening = Token("figure_open", "figure", 1, map=inline.map)
    # Of a table, the anchor of its caption, by which it is named.
    anchor = context.slugs.slug(f"table {name.replace('.', ' ')}")[0] if kind == "table" else ""
    opening.meta |= {"figure": name, "anchor": anchor}
    line, column = context.first_line + place.line, context.column + place.column + 1
    context.figures.append(FigureUse(name, line, column, kind))
    return opening


def _closed(tokens: list[Token]) -> list[Token]:
    """After a caption its paragraph still closes: now the figure does."""
    for before, token in pairwise(tokens):
        if before.type == "inline" and "figure" in before.meta:
            token.type, token.tag, token.hidden = "figure_close", "figure", False
            token.meta |= before.meta
    return tokens


def _check(image: Token, inline: Token, alone: bool, context: NoteContext) -> None:
    place = place_of(image, inline, context)
    if not alone:
        message = f"a {_asked(image)[0]} stands in a paragraph of its own"
        hint = "leave an empty line before and after it"
        context.fault("figure-place", message, hint, place.line, place.column)
    if not image.content.strip():
        address = str(image.attrs["src"])
        hint = f"write what to look for in it, ![No query sees a later key.]({address})"
        context.fault(
            "figure-caption", f"`{address}` has no caption", hint, place.line, place.column
        )
