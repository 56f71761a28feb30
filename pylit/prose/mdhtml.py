"""Tokens of a note as HTML, once `pylit.prose.mdresolve` has filled them in.

`_RULES` has one rule for each kind of token that CommonMark has not, or has otherwise.
"""

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from html import escape
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from pylit.model import figure_slot, formula_slot
from pylit.prose.citations import citation_html
from pylit.prose.glossary import term_html
from pylit.prose.plaintex import plain_tex

Env = MutableMapping[str, Any]
_Rule = str | Callable[[Token, Env], str | None]


def _code(token: Token, env: Env) -> str:
    """Inline code; a link when it names something. The same link as in the code column."""
    code = f"<code>{escape(token.content, quote=False)}</code>"
    link = token.meta.get("link")
    if link is None:
        return code
    kind, told = ("x e", "title") if link.external else ("x", "data-x")
    address = escape(token.meta["href"])
    return f'<a class="{kind}" href="{address}" {told}="{escape(link.name)}">{code}</a>'


def _fence(token: Token, env: Env) -> str:
    """Fenced code, with colours where the language is known."""
    from pylit.code.highlight import highlight_block

    language, *_ = [*token.info.split(), ""]
    name = f' class="language-{escape(language)}"' if language else ""
    inner = highlight_block(token.content, language)
    return f'<pre class="fence"><code{name}>{inner}</code></pre>\n'


def _image(token: Token, env: Env) -> str:
    """An image of the site. One from elsewhere is not fetched: its text links to it."""
    address, alt = escape(str(token.attrs["src"])), escape(token.meta["alt"])
    text = alt or address
    if token.meta["absent"]:
        return text
    if token.meta["elsewhere"]:
        return text if token.meta["linked"] else f'<a href="{address}">{text}</a>'
    title = escape(str(token.attrs.get("title", "")))
    title = f' title="{title}"' if title else ""
    return f'<img src="{address}" alt="{alt}"{title} loading="lazy">'


def _figure_open(token: Token, env: Env) -> str:
    """A figure that runs, up to its caption; a table comes after it and is named by it."""
    if anchor := token.meta["anchor"]:
        return f'<figure class="tab"><figcaption id="{anchor}">'
    return f'<figure class="fig">{figure_slot(token.meta["figure"], "picture")}<figcaption>'


def _figure_close(token: Token, env: Env) -> str:
    """The end of a figure; its numbers are part of its caption."""
    below = figure_slot(token.meta["figure"], "below")
    if anchor := token.meta["anchor"]:
        rows = figure_slot(token.meta["figure"], "picture")
        table = f'<table aria-labelledby="{anchor}">{rows}</table>'
        return f'</figcaption><div class="table-scroll">{table}</div>{below}</figure>\n'
    return f"{below}</figcaption></figure>\n"


def _list_item(token: Token, env: Env) -> str | None:
    """A list item; a task says in words whether it is done, because nobody can tick it."""
    checked = token.meta.get("checked")
    if checked is None:
        return None
    state, sign = ("Done", "☑") if checked else ("To do", "☐")
    return f'<li class="task"><span role="img" aria-label="{state}">{sign}</span> '


def _bullet_list(token: Token, env: Env) -> str:
    """A list; one of tasks has its own signs instead of bullets."""
    tasks = "contains-task-list" in str(token.attrs.get("class", ""))
    return '<ul class="tasks">\n' if tasks else "<ul>\n"


def _footnote(token: Token, env: Env) -> tuple[str, int, str]:
    """The anchor of a footnote, its number in its note, and the anchor of the call it is about."""
    number = token.meta["id"] + 1
    name, again = f"{env['note']}-{number}", token.meta.get("subId", 0)
    return f"fn-{name}", number, f"fnref-{name}" + (f"-{again + 1}" if again else "")


def _footnote_ref(token: Token, env: Env) -> str:
    anchor, number, place = _footnote(token, env)
    return f'<sup class="footnote"><a href="#{anchor}" id="{place}">{number}</a></sup>'


def _footnote_anchor(token: Token, env: Env) -> str:
    _, number, place = _footnote(token, env)
    return f' <a class="footnote-back" href="#{place}" aria-label="Back to {number}">↩</a>'


#: Kind of token -> its HTML, or what makes it. None is for CommonMark's own way.
_RULES: dict[str, _Rule] = {
    "math_inline": lambda token, _: formula_slot(token.meta["formula"]),
    "math_block": lambda token, _: formula_slot(token.meta["formula"]) + "\n",
    "anchor": lambda token, _: f'<span id="{escape(token.content)}"></span>',
    "code_inline": _code,
    "citation": lambda token, _: citation_html(token),
    "term": lambda token, _: term_html(token),
    "fence": _fence,
    "code_block": _fence,
    "image": _image,
    "figure_open": _figure_open,
    "figure_close": _figure_close,
    # In a box that scrolls sideways where the window is narrow.
    "table_open": '<div class="table-scroll"><table>\n',
    "table_close": "</table></div>\n",
    "list_item_open": _list_item,
    "bullet_list_open": _bullet_list,
    "details_open": lambda token, _: f"<details{' open' * token.meta['open']}>\n",
    # An admonition says its kind as a word as well: colour alone tells too little.
    "alert_open": lambda token, _: (
        f'<div class="admonition {str(token.meta["kind"]).lower()}" role="note">\n'
    ),
    "alert_title_open": '<p class="admonition-title">',
    "footnote_ref": _footnote_ref,
    "footnote_block_open": '<ol class="footnotes">\n',
    "footnote_block_close": "</ol>\n",
    "footnote_open": lambda token, env: f'<li id="{_footnote(token, env)[0]}">',
    "footnote_close": "</li>\n",
    "footnote_anchor": _footnote_anchor,
}


def add_rules(renderer: RendererHTML) -> None:
    """Give a renderer these rules, in place of those that plugins brought."""
    rules: dict[str, Any] = {
        kind: partial(_render, renderer, rule) for kind, rule in _RULES.items()
    }
    renderer.rules |= rules


def _render(
    renderer: RendererHTML,
    rule: _Rule,
    tokens: Sequence[Token],
    idx: int,
    options: OptionsDict,
    env: Env,
) -> str:
    html = rule if isinstance(rule, str) else rule(tokens[idx], env)
    return renderer.renderToken(tokens, idx, options, env) if html is None else html


def plain_text(children: Sequence[Token]) -> str:
    """What inline tokens say, without markup, and formulas in words."""
    parts: list[str] = []
    for token in children:
        if token.type in ("text", "code_inline", "citation", "term"):
            parts.append(token.content)
        elif token.type == "math_inline":
            parts.append(plain_tex(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(plain_text(token.children or []))
    return "".join(parts)
