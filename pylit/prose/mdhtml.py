"""Tokens of a note as HTML, once `pylit.prose.mdresolve` has filled them in."""

from collections.abc import MutableMapping, Sequence
from html import escape
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from pylit.model import figure_slot, formula_slot
from pylit.prose.citations import citation_html
from pylit.prose.glossary import term_html
from pylit.prose.plaintex import plain_tex

Tokens = Sequence[Token]
Env = MutableMapping[str, Any]


class NoteRenderer(RendererHTML):
    """HTML of notes: a method for each kind of token that CommonMark has not, or has otherwise."""

    def math_inline(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A formula: the slot that mathematics will fill."""
        return formula_slot(tokens[idx].meta["formula"])

    def math_block(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A display formula."""
        return formula_slot(tokens[idx].meta["formula"]) + "\n"

    def anchor(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A place that links lead to."""
        return f'<span id="{escape(tokens[idx].content)}"></span>'

    def code_inline(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """Inline code; a link when it names something. The same link as in the code column."""
        token = tokens[idx]
        code = f"<code>{escape(token.content, quote=False)}</code>"
        link = token.meta.get("link")
        if link is None:
            return code
        address = escape(token.meta["href"])
        if link.external:
            return f'<a class="x e" href="{address}" title="{escape(link.name)}">{code}</a>'
        return f'<a class="x" href="{address}" data-x="{escape(link.name)}">{code}</a>'

    def citation(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The works that a note cites, as links into the bibliography."""
        return citation_html(tokens[idx])

    def term(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A term where a page first uses it, as a link into the glossary."""
        return term_html(tokens[idx])

    def fence(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """Fenced code, with colours where the language is known."""
        from pylit.code.highlight import highlight_block

        token = tokens[idx]
        language = token.info.split()[0] if token.info.split() else ""
        inner = highlight_block(token.content, language)
        name = f' class="language-{escape(language)}"' if language else ""
        return f'<pre class="fence"><code{name}>{inner}</code></pre>\n'

    def code_block(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """Indented code, which names no language."""
        inner = escape(tokens[idx].content, quote=False)
        return f'<pre class="fence"><code>{inner}</code></pre>\n'

    def image(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """An image of the site. One from elsewhere is not fetched: its text links to it."""
        token = tokens[idx]
        address, alt = escape(str(token.attrs["src"])), escape(token.meta["alt"])
        if token.meta["absent"]:
            return alt or address
        if token.meta["elsewhere"]:
            text = alt or address
            return text if token.meta["linked"] else f'<a href="{address}">{text}</a>'
        title = escape(str(token.attrs.get("title", "")))
        title = f' title="{title}"' if title else ""
        return f'<img src="{address}" alt="{alt}"{title} loading="lazy">'

    def figure_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A figure that runs, up to its caption; a table comes after it and is named by it."""
        if anchor := tokens[idx].meta["anchor"]:
            return f'<figure class="tab"><figcaption id="{anchor}">'
        slot = figure_slot(tokens[idx].meta["figure"], "picture")
        return f'<figure class="fig">{slot}<figcaption>'

    def figure_close(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The end of a figure; its numbers are part of its caption."""
        below = figure_slot(tokens[idx].meta["figure"], "below")
        if anchor := tokens[idx].meta["anchor"]:
            rows = figure_slot(tokens[idx].meta["figure"], "picture")
            table = f'<table aria-labelledby="{anchor}">{rows}</table>'
            return f'</figcaption><div class="table-scroll">{table}</div>{below}</figure>\n'
        return f"{below}</figcaption></figure>\n"

    def table_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A table inside a box that scrolls sideways where the window is narrow."""
        return '<div class="table-scroll"><table>\n'

    def table_close(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The end of a table and of its box."""
        return "</table></div>\n"

    def th_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A header cell. An empty one is no header of anything."""
        token = tokens[idx]
        tag = "th" if tokens[idx + 1].content.strip() else "td"
        tokens[idx + 2].tag = tag
        return f"<{tag}{self.renderAttrs(token)}>"

    def list_item_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A list item; a task says in words whether it is done, because nobody can tick it."""
        checked = tokens[idx].meta.get("checked")
        if checked is None:
            return self.renderToken(tokens, idx, options, env)
        state, sign = ("Done", "☑") if checked else ("To do", "☐")
        return f'<li class="task"><span role="img" aria-label="{state}">{sign}</span> '

    def bullet_list_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A list; one of tasks has its own signs instead of bullets."""
        tasks = "contains-task-list" in str(tokens[idx].attrs.get("class", ""))
        return '<ul class="tasks">\n' if tasks else "<ul>\n"

    def details_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """What opens when asked."""
        return "<details open>\n" if tokens[idx].meta["open"] else "<details>\n"

    def alert_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """An admonition."""
        kind = str(tokens[idx].meta["kind"]).lower()
        return f'<div class="admonition {kind}" role="note">\n'

    def alert_title_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The kind of an admonition, as a word: colour alone tells too little."""
        return '<p class="admonition-title">'

    def footnote_ref(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The number that leads to a footnote."""
        name, number = footnote_name(tokens[idx], env)
        again = tokens[idx].meta["subId"]
        place = f"fnref-{name}" + (f"-{again + 1}" if again else "")
        return f'<sup class="footnote"><a href="#fn-{name}" id="{place}">{number}</a></sup>'

    def footnote_block_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The footnotes of a note, at its end."""
        return '<ol class="footnotes">\n'

    def footnote_block_close(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The end of the footnotes."""
        return "</ol>\n"

    def footnote_open(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """A footnote."""
        name, _ = footnote_name(tokens[idx], env)
        return f'<li id="fn-{name}">'

    def footnote_close(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The end of a footnote."""
        return "</li>\n"

    def footnote_anchor(self, tokens: Tokens, idx: int, options: OptionsDict, env: Env) -> str:
        """The way back from a footnote to where it is called."""
        name, number = footnote_name(tokens[idx], env)
        again = tokens[idx].meta["subId"]
        place = f"fnref-{name}" + (f"-{again + 1}" if again else "")
        return f' <a class="footnote-back" href="#{place}" aria-label="Back to {number}">↩</a>'


def footnote_name(token: Token, env: Env) -> tuple[str, int]:
    """Name of a footnote, unique in its page, and its number in its note."""
    number = token.meta["id"] + 1
    return f"{env['note']}-{number}", number


def plain_text(children: Tokens) -> str:
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
