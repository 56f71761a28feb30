"""Docstrings in the styles of NumPy, Google and Sphinx: rules for the Markdown parser.

Such a docstring is reStructuredText, and most of that reads as Markdown. Each rule below knows one
construct that does not, and makes of it the tokens that Markdown has for what it means: parameters
become a list of definitions, a directive ``.. note::`` an alert, a role a link to what it names.
Tokens know their lines, so faults keep their places.

A docstring without a sign of these styles is plain Markdown; admonitions of MkDocs are read in all.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token


def _by_word(table: str) -> dict[str, str]:
    """The head of its line for each word of a table."""
    lines = (line.partition(":") for line in table.strip().splitlines())
    return {word.strip(): head.strip() for head, _, words in lines for word in words.split(",")}


#: Titles of sections -> what the terms in them are; in a text there are none.
_SECTIONS = _by_word("""
    names: args, arguments, parameters, params, attributes, methods, receives
    names: other parameters, other arguments, keyword args, keyword arguments
    types: returns, return, yields, yield
    objects: raises, warns, see also
    text: notes, note, examples, example, references, warnings, warning, extended summary, todo
""")
#: The line below a title, and the title.
_RULER = re.compile(r"([=~^\"'*#+.:_`-])\1{2,}$")
_TITLE = re.compile(r"[^\W_]|[`:\"'(]")
#: The first line of a table drawn with signs.
_TABLE = re.compile(r"\+(?:[-=]+\+)+$|=+(?:\s+=+)+$")
_GOOGLE_TITLE = re.compile(r"(?P<title>[A-Z][\w-]*(?: [\w-]+){0,2}):$")
_NAME = r"\\?\*{0,2}[\w.]+"
_NUMPY_TERM = re.compile(rf"(?P<names>{_NAME}(?:\s*,\s*{_NAME})*)(?:\s*:\s*(?P<kind>.*))?$")
_GOOGLE_TERM = re.compile(rf"(?P<names>{_NAME}(?:,\s*{_NAME})*)\s*(?:\((?P<kind>.*?)\))?:(?:\s|$)")
_GOOGLE_RESULT = re.compile(r"(?P<kind>[\w.]+(?:\[.*?\])?):\s")
#: A type that is an expression of Python, and what may follow it.
_TYPE = re.compile(
    r"(?P<code>[\w.]+(?:\[[^`]*\])?|\{[^`]*\})(?P<words>,? \(?(?:[Oo]ptional|default).*)?$"
)

#: Fields of Sphinx -> the section that they belong to, or what they are the types of.
_FIELDS = _by_word("""
    Parameters: param, parameter, arg, argument, key, keyword, kwarg
    Attributes: var, ivar, cvar
    Raises: raises, raise, except, exception
    Returns: returns, return
    Yields: yields, yield
    types: type, vartype, rtype
""")
_FIELD = re.compile(rf":(?P<field>{'|'.join(_FIELDS)})(?:\s(?P<names>[^:\n]*))?:(?:\s|$)")

_EXPLICIT = re.compile(r"\.\.(?:\s|$)")
_DIRECTIVE = re.compile(r"\.\.\s+(?P<name>[\w+.-]+(?::[\w+.-]+)*)\s?::(?:\s+(?P<words>.*))?$")
_CITED = re.compile(r"\.\.\s+\[(?P<label>#?[\w.-]+|#|\*)\](?:\s|$)")
_TARGET = re.compile(r"\.\.\s+_(?P<name>`[^`]+`|[^:]+):\s+(?P<address>\S+)$")
_OPTION = re.compile(r":(?P<name>[\w-]+):(?:\s|$)")
#: Admonitions of Sphinx and MkDocs -> the kind of alert.
_ALERTS = _by_word("""
    note: note, info, seealso, todo, admonition, abstract, question, quote
    tip: tip, hint, success, example, faq
    important: important
    warning: warning, attention, deprecated
    caution: caution, danger, error, failure, bug
""")
_ALERT_TITLES = {"seealso": "See also", "faq": "FAQ", "todo": "To do"}
#: What is an alert in the style of Google.
_NOTES = frozenset(["note", "warning", "todo", "tip", "hint", "important"])
_VERSIONS = {"versionadded": "Added", "versionchanged": "Changed", "versionremoved": "Removed"}
#: Other directives: those whose body is code, and those to Sphinx, of which a reader sees nothing.
_DIRECTIVES = _by_word("""
    code: code-block, code, sourcecode, plot, ipython, testcode, testoutput, doctest, parsed-literal
    unseen: module, currentmodule, automodule, autoclass, autofunction, automethod, autodata
    unseen: toctree, contents, index, highlight, default-role, role, include, raw, literalinclude
    unseen: testsetup, testcleanup, tabularcolumns, sectionauthor, codeauthor
    picture: image, figure
""")

_ROLE = re.compile(r":(?:[\w+-]+:)?(?P<role>[\w+-]+):`(?P<text>[^`]+)`")
#: Roles whose text is words, not code; and those that name a page.
_WORDS = _by_word("words: ref, doc, term, abbr, emphasis, strong, sub, sup, sc, download, numref")
_PAGES = {
    "pep": "https://peps.python.org/pep-{:0>4}/",
    "rfc": "https://www.rfc-editor.org/rfc/rfc{}",
}
_TITLED = re.compile(r"(?P<words>[^<]*)<(?P<target>[^>]+)>$", re.DOTALL)
_PHRASE = re.compile(r"`(?P<text>[^`]+)`__?(?!\w)")
_CITES = re.compile(r"\[(?P<label>#?[\w.-]+|#|\*)\]_(?!\w)")
_ADMONITION = re.compile(r"(?P<mark>!!!|\?\?\?\+?)\s+(?P<name>\w+)[\w ]*(?:\"(?P<title>.*)\")?$")

_TITLES = "|".join(_SECTIONS)
#: Signs of the dialects; that of Sphinx may be anything of reStructuredText.
_SIGNS = {
    name: re.compile(re.sub(r"\?P<\w+>", "?:", pattern), re.MULTILINE | re.IGNORECASE)
    for name, pattern in {
        "numpy": rf"^[ \t]*(?:{_TITLES})[ \t]*\n[ \t]*(?:-{{3,}}|={{3,}})[ \t]*$",
        "google": rf"^([ \t]*)(?-i:(?=[A-Z]))(?:{_TITLES}):[ \t]*\n(?:[ \t]*\n)*\1[ \t]+\S",
        "sphinx": rf"^[ \t]*{_FIELD.pattern}|^[ \t]*\.\.[ \t]+\S|{_ROLE.pattern}"
        rf"|`[^`\n]+`__?(?!\w)|{_CITES.pattern}|::[ \t]*\n[ \t]*\n[ \t]+\S",
    }.items()
}


def dialect_of(text: str, setting: str) -> str:
    """The dialect of a docstring: the one that the settings name, else the one it has signs of."""
    if setting != "auto":
        return setting
    return next((name for name, sign in _SIGNS.items() if sign.search(text)), "markdown")


def dialect_plugin(md: MarkdownIt, dialect: str) -> None:
    """Rules for one dialect. Their inline tokens are Markdown's: code, links and formulas."""
    ends: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block = md.block.ruler
    block.before("table", "admonition", _admonition, ends)
    if dialect == "markdown":
        return
    # Only what follows `::` is code. All else that is indented is text.
    md.disable("code")
    block.before("table", "literal", _literal)
    block.before("table", "explicit", _explicit, ends)
    block.before("table", "fields", _fields, ends)
    if dialect == "numpy":
        block.before("table", "section", _numpy_section, ends)
    if dialect == "google":
        block.before("table", "section", _google_section, ends)
    block.before("table", "drawn_table", _drawn_table, ends)
    block.before("table", "underlined", _underlined)
    md.core.ruler.after("block", "colons", _colons)
    md.inline.ruler.before("backticks", "role", _role)
    md.inline.ruler.before("backticks", "phrase", _phrase)
    md.inline.ruler.before("link", "cites", _cites)


# Lines and blocks.


def _text(state: StateBlock, line: int) -> str:
    """A line without its indentation."""
    return state.src[_begin(state, line) : state.eMarks[line]].rstrip()


def _begin(state: StateBlock, line: int) -> int:
    return state.bMarks[line] + state.tShift[line]


def _filled(state: StateBlock, first: int, end: int) -> Iterator[int]:
    return (line for line in range(first, end) if not state.isEmpty(line))


def _margin(state: StateBlock, first: int, end: int) -> int:
    """The indentation of what is indented least."""
    return min((state.sCount[line] for line in _filled(state, first, end)), default=0)


def _body_end(state: StateBlock, line: int, end: int) -> int:
    """The line after those below `line` that are indented more than it."""
    last = line + 1
    for below in _filled(state, line + 1, end):
        if state.sCount[below] <= state.sCount[line]:
            break
        last = below + 1
    return last


def _inside(state: StateBlock, first: int, end: int, start: int = -1) -> None:
    """Read lines as blocks of their own; the first may begin behind a mark, at `start`."""
    if first >= end:
        return
    margin = _margin(state, first + (start >= 0), end) or state.sCount[first]
    known = state.bMarks[first], state.tShift[first], state.sCount[first]
    around = state.blkIndent, state.lineMax
    if start >= 0:
        state.bMarks[first], state.tShift[first], state.sCount[first] = start, 0, margin
    state.blkIndent, state.lineMax = margin, end
    state.md.block.tokenize(state, first, end)
    state.blkIndent, state.lineMax = around
    state.bMarks[first], state.tShift[first], state.sCount[first] = known


def _inline(state: StateBlock, line: int, content: str, *children: Token) -> None:
    """A line of text, which may begin with tokens."""
    token = state.push("inline", "", 0)
    token.content, token.children, token.map = content, [*children], [line, line + 1]


def _label(state: StateBlock, line: int, title: str) -> None:
    """The title of a section. It is no heading: each function has a section "Parameters"."""
    state.push("paragraph_open", "p", 1).attrs = {"class": "label"}
    _inline(state, line, title)
    state.push("paragraph_close", "p", -1)


def _fence(state: StateBlock, first: int, end: int, language: str) -> None:
    """Code."""
    filled = [*_filled(state, first, end)]
    if filled:
        lines = filled[0], filled[-1] + 1
        token = state.push("fence", "code", 0)
        token.content = state.getLines(*lines, _margin(state, *lines), False) + "\n"
        token.info = "pycon" if token.content.startswith(">>>") else language
        token.block, token.map = True, [*lines]


def _literal(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """The indented lines after ``::``."""
    above = line - 1
    while above >= 0 and state.isEmpty(above):
        above -= 1
    if silent or above < 0 or not state.blkIndent <= state.sCount[above] < state.sCount[line]:
        return False
    if not _text(state, above).endswith("::"):
        return False
    stop = _body_end(state, above, end)
    _fence(state, line, stop, "python")
    state.line = stop
    return True


def _colons(state: StateCore) -> None:
    """``::`` at the end of a paragraph is a colon, and nothing where it stands alone."""
    for number, token in enumerate(state.tokens):
        if token.type == "inline" and token.content.endswith("::"):
            text = token.content[:-2]
            token.content = f"{text}:" if text == text.rstrip() else text.rstrip()
            if not text:
                token.content = ""
                for each in state.tokens[number - 1 : number + 2]:
                    each.hidden = True


def _underlined(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A heading underlined by any sign, maybe with the same line above it."""
    over = bool(_RULER.match(_text(state, line)))
    title, under = line + over, line + over + 1
    if silent or under >= end or not _TITLE.match(_text(state, title)):
        return False
    ruler = _text(state, under)
    if not _RULER.match(ruler) or (over and ruler[0] != _text(state, line)[0]):
        return False
    tag = {"=": "h1", "-": "h2"}.get(ruler[0], "h3")
    opening = state.push("heading_open", tag, 1)
    opening.map = [title, under + 1]
    _inline(state, title, _text(state, title))
    state.push("heading_close", tag, -1)
    state.line = under + 1
    return True


def _drawn_table(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A table drawn with signs, shown as it is drawn."""
    found = _TABLE.match(_text(state, line))
    if found and not silent:
        stop = next((below for below in range(line, end) if state.isEmpty(below)), end)
        _fence(state, line, stop, "text")
        state.line = stop
    return bool(found)


# Alerts and directives.


def _alert(state: StateBlock, name: str, title: str, line: int, body: "_Body") -> None:
    kind = _ALERTS.get(name, "note")
    state.push("alert_open", "div", 1).attrs = {"class": f"markdown-alert markdown-alert-{kind}"}
    state.push("alert_title_open", "p", 1).attrs = {"class": "markdown-alert-title"}
    _inline(state, line, title)
    state.push("alert_title_close", "p", -1)
    _inside(state, *body)
    state.push("alert_close", "div", -1)


def _admonition(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``!!! note "Title"`` and, folded, ``??? note``, as MkDocs has them."""
    found = _ADMONITION.match(_text(state, line))
    if not found or silent:
        return bool(found)
    name, stop = found["name"].lower(), _body_end(state, line, end)
    title = name.capitalize() if found["title"] is None else found["title"]
    if found["mark"] == "!!!":
        _alert(state, name, title, line, (line + 1, stop))
    else:
        summary = f"<details><summary>{escape(title)}</summary>\n"
        state.push("rendered", "", 1).content = summary
        _inside(state, line + 1, stop)
        state.push("rendered", "", -1).content = "</details>\n"
    state.line = stop
    return True


def _explicit(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """What begins with two dots: a directive, a citation, the address of a link, or a comment."""
    text = _text(state, line)
    if not _EXPLICIT.match(text) or silent:
        return bool(_EXPLICIT.match(text))
    stop = _body_end(state, line, end)
    if found := _DIRECTIVE.match(text):
        _directive(state, line, stop, found)
    elif found := _CITED.match(text):
        _cited(state, found["label"], line, stop)
    elif found := _TARGET.match(text):
        address = state.md.normalizeLink(found["address"])
        if state.md.validateLink(address):
            name = normalizeReference(found["name"].strip("`"))
            references = state.env.setdefault("references", {})
            references.setdefault(name, {"href": address, "title": ""})
    state.line = stop
    return True


def _directive(state: StateBlock, line: int, stop: int, found: re.Match[str]) -> None:
    name, words = found["name"].lower().removeprefix("py:"), found["words"] or ""
    kind = _DIRECTIVES.get(name, "")
    start = _begin(state, line) + found.start("words") if words else -1
    options, first = {}, line + 1
    while first < stop and (option := _OPTION.match(_text(state, first))):
        options[option["name"]] = _text(state, first)[option.end() :]
        first += 1
    body = (line, stop, start) if words else (first, stop)
    if name in _VERSIONS or name == "deprecated":
        version, *more = words.split(None, 1) or [""]
        # The text may follow the version.
        behind = start + len(words) - sum(map(len, more))
        body = (line, stop, behind) if more else (first, stop)
    if name in _VERSIONS:
        term = f"{_VERSIONS[name]} in version {version}"
        _show(state, [_Item(kind=term, line=line, body=body)])
    elif name == "deprecated":
        _alert(state, name, f"Deprecated since version {version}", line, body)
    elif name == "admonition":
        _alert(state, name, words, line, (first, stop))
    elif name in _ALERTS:
        _alert(state, name, _ALERT_TITLES.get(name, name.capitalize()), line, body)
    elif name == "rubric":
        _label(state, line, words)
    elif kind == "code":
        _fence(state, first, stop, words or "python")
    elif name == "math":
        _formulas(state, *body)
    elif name == "autosummary":
        names = (
            _Item((_text(state, n),), linked=True, line=n) for n in _filled(state, first, stop)
        )
        _show(state, names)
    elif kind == "picture":
        if alt := options.get("alt"):
            state.push("paragraph_open", "p", 1)
            _inline(state, line, alt)
            state.push("paragraph_close", "p", -1)
        _inside(state, first, stop)
    elif kind != "unseen":
        # One of an extension, or the description of an object.
        code = words and f"`{words.replace('`', '')}`"
        _show(state, [_Item(kind=code, line=line, body=(first, stop))])


def _formulas(state: StateBlock, first: int, stop: int, start: int = -1) -> None:
    """Formulas on display; a blank line separates them."""
    lines = [_text(state, line) for line in range(first, stop)]
    if start >= 0:
        lines[0] = state.src[start : state.eMarks[first]]
    for is_filled, group in groupby(enumerate(lines, first), lambda pair: bool(pair[1].strip())):
        if is_filled:
            numbers, texts = zip(*group, strict=True)
            tex = "\n".join(texts)
            if ("&" in tex or "\\\\" in tex) and "\\begin{" not in tex:
                tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
            token = state.push("math_block", "", 0)
            token.block, token.map, token.content = True, [numbers[0], numbers[-1] + 1], tex
            formula = Token("math_inline", "", 0, content=tex, meta={"at": 0, "display": True})
            token.children = [formula]


def _cited(state: StateBlock, label: str, line: int, stop: int) -> None:
    """A work at the end of a docstring; the first of its label has an anchor."""
    works: dict[str, str] = state.env.setdefault("works", {})
    if label not in works:
        works[label] = f"cite:{state.env.get('docId', '')}:{label.strip('#')}"
        state.push("rendered", "", 0).content = f'<span id="{escape(works[label])}"></span>\n'
    _inside(state, line, stop, state.src.index("[", _begin(state, line)))


# Definitions: parameters, results, exceptions.

#: The first line, the line after the last, and where the text begins on the first.
_Body = tuple[int, int] | tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Item:
    """A term with its description; a description alone has neither names nor a kind."""

    names: tuple[str, ...] = ()
    #: The type of what is named; or, in Markdown, a term that is no name.
    kind: str = ""
    #: Whether the names are those of objects elsewhere.
    linked: bool = False
    #: Where in the source the description begins; -1 where that is on the line below the term.
    start: int = -1
    line: int = 0
    body: _Body = (0, 0)


#: Reads the term on a line, if there is one.
_Reader = Callable[[int], _Item | None]


def _items(state: StateBlock, first: int, end: int, read: _Reader) -> Iterator[_Item]:
    """The items of a section. A term is on one of the lines that are indented least."""
    margin = _margin(state, first, end)
    for line in _filled(state, first, end):
        if line >= first:
            item = read(line) if state.sCount[line] <= margin else None
            item = item or _Item(start=_begin(state, line))
            first = _item_end(state, line, end, margin, read)
            body = (line, first, item.start) if item.start >= 0 else (line + 1, first)
            yield replace(item, line=line, body=body)


def _item_end(state: StateBlock, line: int, end: int, margin: int, read: _Reader) -> int:
    """The line of the next term, or of a text without one after a blank line."""
    for below in _filled(state, line + 1, end):
        if state.sCount[below] <= margin and (state.isEmpty(below - 1) or read(below)):
            return below
    return end


def _show(state: StateBlock, items: Iterable[_Item]) -> None:
    """Lists of definitions, with texts between them."""
    for is_list, group in groupby(items, lambda item: bool(item.names or item.kind)):
        if not is_list:
            for item in group:
                _inside(state, *item.body)
            continue
        state.push("dl_open", "dl", 1).attrs = {"class": "fields"}
        described = groupby(group, lambda i: len(i.body) > 2 or any(_filled(state, *i.body)))
        for has_body, terms in described:
            for number, item in enumerate(found := [*terms], 1):
                _term(state, item)
                # Names alone stand below each other; HTML wants a description after the last.
                if has_body or number == len(found):
                    state.push("dd_open", "dd", 1)
                    _inside(state, *item.body)
                    state.push("dd_close", "dd", -1)
        state.push("dl_close", "dl", -1)


def _term(state: StateBlock, item: _Item) -> None:
    state.push("dt_open", "dt", 1)
    parts: list[Token] = []
    for name in item.names:
        parts += [Token("text", "", 0, content=", ")] * bool(parts)
        meta = {"target": name if item.linked else ""}
        parts.append(Token("strong_open", "strong", 1))
        parts.append(Token("code_inline", "code", 0, content=name, meta=meta))
        parts.append(Token("strong_close", "strong", -1))
    kind = item.kind.strip()
    if written := _TYPE.match(kind):
        kind = f"`{written['code']}`{written['words'] or ''}"
    parts += [Token("text", "", 0, content=" ")] * bool(parts and kind)
    _inline(state, item.line, kind, *parts)
    state.push("dt_close", "dt", -1)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip().lstrip("\\") for name in names.split(",") if name.strip())


def _numpy_section(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``Parameters`` and the like, underlined; descriptions are indented, terms are not."""
    title = _text(state, line).lower()
    kind = _SECTIONS.get(title)
    if not kind or line + 1 >= end or not _RULER.match(_text(state, line + 1)):
        return False
    if silent:
        return True
    below = _filled(state, line + 2, end)
    stop = next((n for n in below if _ends_section(state, n, end)), end)

    def read(number: int) -> _Item | None:
        text = _text(state, number)
        if _EXPLICIT.match(text):
            return None
        found = _NUMPY_TERM.match(text)
        if found and kind == "objects":
            start = _begin(state, number) + found.start("kind") if found["kind"] else -1
            return _Item(_split(found["names"]), linked=True, start=start)
        if found and (kind == "names" or found["kind"]):
            return _Item(_split(found["names"]), found["kind"] or "")
        is_term = " " not in text or _body_end(state, number, number + 2) > number + 1
        return _Item(kind=text) if is_term else None

    _label(state, line, _text(state, line))
    state.line = line + 2
    if kind != "text":
        _show(state, _items(state, line + 2, stop, read))
        state.line = stop
    return True


def _ends_section(state: StateBlock, line: int, end: int) -> bool:
    return state.sCount[line] < state.blkIndent or (
        line + 1 < end
        and bool(_TITLE.match(_text(state, line)))
        and bool(_RULER.match(_text(state, line + 1)))
    )


def _google_section(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``Args:`` and the like; terms are indented, and descriptions follow on their line."""
    found = _GOOGLE_TITLE.match(_text(state, line))
    stop = _body_end(state, line, end) if found else line + 1
    if not found or stop == line + 1:
        return False
    title = found["title"].lower()
    kind = _SECTIONS.get(title, "")
    if silent:
        return bool(kind)

    def read(number: int) -> _Item | None:
        pattern = _GOOGLE_TERM if kind == "names" else _GOOGLE_RESULT
        term = pattern.match(_text(state, number))
        if term is None:
            return None
        names, start = term.groupdict().get("names", ""), _begin(state, number) + term.end()
        if kind == "objects":
            return _Item((term["kind"],), linked=True, start=start)
        return _Item(_split(names), term["kind"] or "", start=start)

    if title.removesuffix("s") in _NOTES:
        _alert(state, title.removesuffix("s"), found["title"], line, (line + 1, stop))
    else:
        _label(state, line, found["title"])
        if kind not in ("", "text"):
            _show(state, _items(state, line + 1, stop, read))
        else:
            _inside(state, line + 1, stop)
    state.line = stop
    return True


def _fields(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Fields of Sphinx, ``:param int x: …``, gathered in sections."""

    def read(number: int) -> _Item | None:
        if found := _FIELD.match(_text(state, number)):
            start = _begin(state, number) + found.end()
            return _Item((found["names"] or "",), found["field"], start=start)
        return None

    field = read(line)
    if not field or silent:
        return bool(field)
    sections: dict[str, list[_Item]] = {}
    types: dict[str, str] = {}
    first = line
    while field:
        stop = _item_end(state, line, end, state.sCount[line], read)
        *words, name = field.names[0].split() or [""]
        section = _FIELDS[field.kind]
        if section != "types":
            if section in ("Returns", "Yields"):
                words, name = field.names[0].split(), ""
            item = _Item(_split(name), " ".join(words), section == "Raises", line=line)
            item = replace(item, body=(line, stop, field.start))
            sections.setdefault(section, []).append(item)
        else:
            types[name] = " ".join(state.src[field.start : state.eMarks[stop - 1]].split())
        line = stop
        field = read(line) if line < end and state.sCount[line] >= state.blkIndent else None
    if "" in types and not sections.keys() & {"Returns", "Yields"}:
        sections["Returns"] = [_Item(line=first, body=(first, first))]
    for title, items in sections.items():
        _label(state, items[0].line, title)
        typed = (replace(i, kind=i.kind or types.get("".join(i.names), "")) for i in items)
        _show(state, typed)
    state.line = line
    return True


# Text.


def _role(state: StateInline, silent: bool) -> bool:
    """``:class:`~package.Thing```: code that links to what it names, or words."""
    found = _ROLE.match(state.src, state.pos, state.posMax)
    if found and not silent:
        role, text = found["role"], " ".join(found["text"].split())
        titled = _TITLED.match(text)
        target = (titled["target"] if titled else text).lstrip("~!")
        short = target.rpartition(".")[2] if text.startswith("~") else target.lstrip(".")
        shown = titled["words"].strip() if titled else short
        if role == "math":
            token = state.push("math_inline", "", 0)
            token.content, token.meta = found["text"].strip(), {"display": False}
        elif role in _PAGES:
            number = target.partition("#")[0]
            _link(
                state, _PAGES[role].format(number), shown if titled else f"{role.upper()} {shown}"
            )
        elif role in _WORDS:
            state.push("text", "", 0).content = shown
        else:
            token = state.push("code_inline", "code", 0)
            token.content, token.meta = shown, {"target": target.lstrip(".")}
    if found:
        state.pos = found.end()
    return bool(found)


def _phrase(state: StateInline, silent: bool) -> bool:
    """A link, ```words <address>`_``, or with its address elsewhere, ```words`_``."""
    found = _PHRASE.match(state.src, state.pos, state.posMax)
    if found and not silent:
        text = " ".join(found["text"].split())
        titled = _TITLED.match(text)
        words = titled["words"].strip() if titled else text
        address = titled["target"] if titled else ""
        if not address or address.endswith("_"):
            name = normalizeReference(address.rstrip("_") or words)
            address = state.env.get("references", {}).get(name, {}).get("href", "")
        _link(state, address, words or address)
    if found:
        state.pos = found.end()
    return bool(found)


def _cites(state: StateInline, silent: bool) -> bool:
    """``[1]_``, which names a work below."""
    found = _CITES.match(state.src, state.pos, state.posMax)
    if found and not silent:
        anchor = state.env.get("works", {}).get(found["label"], "")
        _link(state, anchor and f"#{anchor}", f"[{found['label'].lstrip('#')}]")
    if found:
        state.pos = found.end()
    return bool(found)


def _link(state: StateInline, address: str, words: str) -> None:
    """A link; words alone where there is no address."""
    address = state.md.normalizeLink(address)
    is_link = address and (address[0] == "#" or state.md.validateLink(address))
    if is_link:
        state.push("link_open", "a", 1).attrs = {"href": address}
    state.push("text", "", 0).content = words
    if is_link:
        state.push("link_close", "a", -1)
