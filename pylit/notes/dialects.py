"""Docstrings in the styles of NumPy, Google and Sphinx: rules for the Markdown parser.

Such a docstring is reStructuredText, and most of that reads as Markdown. Each rule below knows one
construct that does not, and makes of it the tokens that Markdown has for what it means: parameters
become a list of definitions, a directive ``.. note::`` an alert, a role a link to what it names.
Tokens know their lines, so faults keep their places.

A docstring without a sign of these styles is plain Markdown; admonitions of MkDocs are read in all.
See decision 040.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, islice, product

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, heading
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from pylit.addresses import GITHUB


def _by_word(table: str) -> dict[str, str]:
    """The head of its line for each word of a table."""
    lines = (line.partition(":") for line in table.strip().splitlines())
    return {word.strip(): head.strip() for head, _, words in lines for word in words.split(",")}


#: Titles of sections -> what the terms in them are; in a text there are none.
_SECTIONS = _by_word("""
    names: args, arguments, parameters, params, attributes, receives
    names: other parameters, other arguments, keyword args, keyword arguments
    methods: methods
    types: returns, return, yields, yield
    objects: raises, raise, warns, warn, see also
    text: notes, note, examples, example, references, warnings, warning, extended summary, todo
    text: tip, hint, important, attention, caution, danger, error
""")
#: The line below a title, and the title.
_RULER = re.compile(r"([=~^\"'*#+.:_-])\1+$")
_TITLE = re.compile(r"[^\W_]|[`:\"'(]")
#: The first line of a fenced block.
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(?![^~]*`).*")
#: The first line of a table drawn with signs.
_TABLE = re.compile(r"\+(?:[-=]+\+)+$|=+(?:\s+=+)+$")
_GOOGLE_TITLE = re.compile(r"(?P<title>[A-Z][\w-]*(?: [\w-]+){0,2}):$")
_REFERENCE = r":(?:[\w+-]+:)*[\w+-]+:`[^`\n]+`|``?[^`\n]+``?"
_NAME = rf"(?:{_REFERENCE}|[^\s,:()`/|]+)"
_NAMES = rf"(?P<names>{_NAME}(?:\s*(?:[,/|]|\b(?:or|and)\b)\s*{_NAME})*)"
_NUMPY_TERM = re.compile(rf"{_NAMES}(?:\s*:(?!//)\s*(?P<kind>.*))?$")
_GOOGLE_TERM = re.compile(rf"{_NAMES}\s*(?:\((?P<kind>.*?)\)\s*)?:(?:\s+|$)")
_GOOGLE_OBJECT = re.compile(rf"{_NAMES}\s*(?::(?:\s+|$)|$)")
_METHOD = re.compile(r"(?P<names>[\w.]+\s*\(.*?\))\s*(?::(?:\s+|$)|$)")
_WORD = rf"(?:{_REFERENCE}|[\w.]+(?:[\[(].*?[\])])?|[({{\[].*?[)}}\]])"
_GOOGLE_RESULT = re.compile(rf"(?P<kind>{_WORD}(?:\s*(?:[,|]|\b(?:or|of)\b)\s*{_WORD})*):(?:\s+|$)")
#: How a term of each kind of section may be written.
_GOOGLE_TERMS = {
    "names": (_GOOGLE_TERM,),
    "objects": (_GOOGLE_OBJECT,),
    "methods": (_METHOD, _GOOGLE_TERM),
    "types": (_GOOGLE_RESULT, _GOOGLE_TERM),
}
#: A type goes on in the next line behind these, and where a bracket is open.
_GOES_ON = re.compile(r"(?:\\|[,|]|\s(?:or|of))$")
_OPEN = re.compile(r"\([^()]*[\[({][^\])}]*,$")
#: Lines of a term, at most.
_MOST_LINES = 12
_CONTINUED = " \\"
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
    unseen: meta
""")
_FIELD = re.compile(
    r":(?P<field>[A-Za-z][\w-]*)(?:[ \t]+(?P<names>(?:[^:\n]|:(?!\s|$))*))?:(?:\s+|$)"
)

_EXPLICIT = re.compile(r"\.\.(?:\s|$)")
#: What no term goes on in.
_BREAKS = re.compile(rf"{_EXPLICIT.pattern}|```|~~~|>>>\s")
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
_NOTES = frozenset(
    "note warning todo tip hint important attention caution danger error".split()  # noqa: SIM905
)
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
        "numpy": rf"^[ \t]*(?:{_TITLES})[ \t]*\n[ \t]*(?:-{{2,}}|={{2,}})[ \t]*$",
        "google": rf"^([ \t]*)(?-i:(?=[A-Z]))(?:{_TITLES}):[ \t]*\n(?:[ \t]*\n)*\1[ \t]+\S"
        rf"|\A(?-i:(?=[A-Z]))(?:{_TITLES}):[ \t]*\n[ \t]*\S",
        "sphinx": rf"^[ \t]*(?=:(?:{'|'.join(_FIELDS)})[ :]){_FIELD.pattern}"
        rf"|^[ \t]*\.\.[ \t]+\S|{_ROLE.pattern}|`[^`\n]+`__?(?!\w)"
        rf"|{_CITES.pattern}|::[ \t]*\n[ \t]*\n[ \t]+\S",
    }.items()
}


def dialect_of(text: str, setting: str) -> str:
    """The dialect of a docstring: the one that the settings name, else the one it has signs of."""
    if setting != "auto":
        return setting
    if "```" in text or "~~~" in text:
        lines = text.split("\n")
        for first, after in _fences(lines).items():
            lines[first:after] = [""] * (after - first)
        text = "\n".join(lines)
    return next((name for name, sign in _SIGNS.items() if sign.search(text)), "markdown")


def dialect_plugin(md: MarkdownIt, dialect: str) -> None:
    """Rules for one dialect. Their inline tokens are Markdown's: code, links and formulas."""
    ends: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block = md.block.ruler
    block.before("table", "admonition", _admonition, ends)
    if dialect in ("markdown", GITHUB):
        return
    # Only what follows `::` is code. All else that is indented is text.
    md.disable(["code", "lheading"])
    md.block.ruler.at("heading", _heading, ends)
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


def _fences(lines: Sequence[str]) -> dict[int, int]:
    """The first line of each fenced block that is closed, and the line after its last."""
    marks = [(n, m[0].strip(), m[1]) for n, m in enumerate(map(_FENCE.match, lines)) if m]
    found: dict[int, int] = {}
    after, unclosed = 0, {"`": len(lines), "~": len(lines)}
    for at, (line, opening, mark) in enumerate(marks):
        size = len(mark)
        is_ruler = line and _is_title(lines[line - 1].strip(), opening)
        if line >= after and size < unclosed[mark[0]] and not is_ruler:
            below = islice(marks, at + 1, None)
            ends = (n for n, whole, other in below if whole == other and other.startswith(mark))
            if end := next(ends, 0):
                found[line] = after = end + 1
            else:
                unclosed[mark[0]] = size
    return found


def _outside(state: StateBlock, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Filled lines, each with the line after it; a fenced block counts as one."""
    fences, after = state.env.get("fences"), first
    if fences is None:
        fences = state.env["fences"] = _fences(state.src.split("\n"))
    for line in _filled(state, first, end):
        if line >= after:
            after = fences.get(line, line + 1)
            yield line, after


def _is_title(title: str, under: str) -> bool:
    """Whether a line is a title with a ruler below it."""
    # Tildes below a longer line open a fence.
    short = under[:1] == "~" and len(under) < len(title)
    return bool(_TITLE.match(title) and _RULER.match(under) and not short)


def _ruler(state: StateBlock, line: int, end: int) -> str:
    """The line below a title; empty if `line` is none."""
    under = _text(state, line + 1) if line + 1 < end else ""
    return under if _is_title(_text(state, line), under) else ""


def _body_end(state: StateBlock, line: int, end: int) -> int:
    """The line after those below `line` that are indented more than it."""
    last = line + 1
    for below, after in _outside(state, line + 1, end):
        goes_on = below == last and _OPEN.search(_text(state, below - 1))
        if state.sCount[below] <= state.sCount[line] and not goes_on:
            break
        last = after
    return last


def _inside(state: StateBlock, first: int, end: int, start: int = -1) -> None:
    """Read lines as blocks of their own; the first may begin behind a mark, at `start`."""
    if first >= end:
        return
    margin = _margin(state, first + (start >= 0), end) or state.sCount[first]
    known = state.bMarks[first], state.tShift[first], state.sCount[first]
    around = state.blkIndent, state.lineMax
    depth = state.env["depth"] = state.env.get("depth", 0) + 1
    if start >= 0:
        state.bMarks[first], state.tShift[first], state.sCount[first] = start, 0, margin
    state.blkIndent, state.lineMax = margin, end
    state.md.block.tokenize(state, first, end)
    state.blkIndent, state.lineMax = around
    state.env["depth"] = depth - 1
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


def _heading(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Markdown's own heading, but in a section: there it is a comment in code without a fence."""
    return not state.env.get("depth") and heading(state, line, end, silent)


def _underlined(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A heading underlined by any sign, maybe with the same line above it."""
    above = _text(state, line)
    over = len(above) > 2 and bool(_RULER.match(above)) and above[0] != "~"
    title, under = line + over, line + over + 1
    ruler = _ruler(state, title, end) if title < end else ""
    enough = len(ruler) > 2 and len(ruler) >= min(len(_text(state, title)), 4)
    if silent or not enough or state.env.get("depth") or (over and ruler[0] != above[0]):
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
    #: The last line of a term that goes on over several.
    last: int = 0
    body: _Body = (0, 0)


#: Reads the term on a line, if there is one.
_Reader = Callable[[int], _Item | None]


def _items(state: StateBlock, first: int, end: int, read: _Reader) -> Iterator[_Item]:
    """The items of a section. A term is indented no more than the first line."""
    margin = next((state.sCount[line] for line in _filled(state, first, end)), 0)
    for line in _filled(state, first, end):
        if line >= first:
            item = read(line) if state.sCount[line] <= margin else None
            item = item or _Item(start=_begin(state, line))
            last = max(line, item.last)
            first = _item_end(state, last, end, margin, read)
            begins = 0 <= item.start < state.eMarks[last]
            body = (last, first, item.start) if begins else (last + 1, first)
            yield replace(item, line=line, body=body)


def _item_end(state: StateBlock, line: int, end: int, margin: int, read: _Reader) -> int:
    """The line of the next term, or of a text without one after a blank line."""
    for below, _ in _outside(state, line, end):
        ends = state.isEmpty(below - 1) or _BREAKS.match(_text(state, below)) or read(below)
        if below > line and state.sCount[below] <= margin and ends:
            return below
    return end


def _joined(state: StateBlock, line: int, end: int) -> tuple[str, int]:
    """The text of a line with those that its type goes on in, and the last of them."""
    text = ""
    for last in range(line, min(line + _MOST_LINES, end)):
        if state.isEmpty(last):
            break
        text = f"{text.rstrip(_CONTINUED)} {_text(state, last)}".lstrip()
        opened = sum(map(text.count, "([{")) > sum(map(text.count, ")]}"))
        if not opened and not _GOES_ON.search(text):
            return text, last
    return _text(state, line), line


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
    for name, target in map(_named, item.names):
        parts += [Token("text", "", 0, content=", ")] * bool(parts)
        meta = {"target": target if item.linked else ""}
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
    return tuple(name for name in re.findall(_NAME, names) if name not in ("or", "and"))


def _named(written: str) -> tuple[str, str]:
    """What is shown of a name, and what it names: a role, a name in backticks, or a bare one."""
    role = _ROLE.fullmatch(written)
    if not role and re.fullmatch(r"\*\*?[^*]+\*\*?", written):
        written = written.strip("*")
    return _referred(role["text"] if role else written.strip("`").replace("\\", ""))


def _numpy_section(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``Parameters`` and the like, underlined; descriptions are indented, terms are not."""
    title = _text(state, line)
    kind = _SECTIONS.get(title.lower())
    if not kind or not _ruler(state, line, end):
        return False
    if silent:
        return True
    below = (n for n, _ in _outside(state, line + 2, end))
    ends = (n for n in below if state.sCount[n] < state.blkIndent or _ruler(state, n, end))
    stop = next(ends, end)

    def read(number: int) -> _Item | None:
        if _BREAKS.match(_text(state, number)):
            return None
        if kind == "methods" and (method := _METHOD.match(_text(state, number))):
            return _Item((method["names"],), start=_begin(state, number) + method.end())
        found = _NUMPY_TERM.match(_text(state, number))
        if found and kind == "objects":
            start = _begin(state, number) + found.start("kind") if found["kind"] else -1
            return _Item(_split(found["names"]), linked=True, start=start)
        text, last = _joined(state, number, stop)
        found = _NUMPY_TERM.match(text)
        if found and (kind != "types" or found["kind"]):
            return _Item(_split(found["names"]), found["kind"] or "", last=last)
        is_term = " " not in text or _body_end(state, last, last + 2) > last + 1
        return _Item(kind=text, last=last) if is_term else None

    _label(state, line, title)
    state.line = line + 2
    if kind != "text":
        _show(state, _items(state, line + 2, stop, read))
        state.line = stop
    return True


def _google_section(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """``Args:`` and the like; terms are indented, and descriptions follow on their line."""
    found = _GOOGLE_TITLE.match(_text(state, line))
    title = found["title"].lower() if found else ""
    kind = _SECTIONS.get(title, "")
    stop = _body_end(state, line, end) if found else line + 1

    def read(number: int) -> _Item | None:
        texts = (_text(state, number), number), _joined(state, number, stop)
        for (text, last), pattern in product(texts, _GOOGLE_TERMS.get(kind, ())):
            if term := pattern.match(text):
                given = {"names": "", "kind": ""} | term.groupdict("")
                names = (given["names"],) if pattern is _METHOD else _split(given["names"])
                start = _begin(state, last) + len(_text(state, last)) - len(text) + term.end()
                return _Item(names, given["kind"], kind == "objects", start, last=last)
        return None

    if found and kind and stop == line + 1 and not line:
        # Behind the quotes of a docstring, what is below a title is indented as the title is.
        below = [n for n, _ in _outside(state, 1, end)]
        ends = (n for n in below[1:] if state.isEmpty(n - 1) and not read(n))
        titles = (n for n in below[1:] if _GOOGLE_TITLE.match(_text(state, n)))
        stop = min(next(ends, end), next(titles, end)) if below else stop
    if not found or stop == line + 1 or silent:
        return bool(kind) and stop > line + 1
    if title.removesuffix("s") in _NOTES:
        _alert(state, title.removesuffix("s"), found["title"], line, (line + 1, stop))
    else:
        _label(state, line, found["title"])
        if kind in ("", "text"):
            _inside(state, line + 1, stop)
        else:
            _show(state, _items(state, line + 1, stop, read))
    state.line = stop
    return True


def _fields(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Fields of Sphinx, ``:param int x: …``, gathered in sections; one of another name is a section
    of its own.
    """

    def read(number: int) -> _Item | None:
        if found := _FIELD.match(_text(state, number)):
            start = _begin(state, number) + found.end()
            return _Item((found["names"] or "",), found["field"], start=start)
        return None

    field = read(line)
    if not field or silent:
        return bool(field and field.kind in _FIELDS)
    sections: dict[str, list[_Item]] = {}
    types: dict[tuple[str, str], str] = {}
    while field:
        stop = _item_end(state, line, end, state.sCount[line], read)
        names = field.names[0].strip()
        section = _FIELDS.get(field.kind, "")
        begins = field.start < state.eMarks[line]
        item = _Item(line=line, body=(line, stop, field.start) if begins else (line + 1, stop))
        if section == "types":
            home = {"rtype": "Returns", "vartype": "Attributes"}.get(field.kind, "Parameters")
            home = "Yields" if home == "Returns" and "Yields" in sections else home
            types[home, names] = " ".join(state.src[field.start : state.eMarks[stop - 1]].split())
        elif section == "Raises":
            item = replace(item, names=_split(names), linked=True)
        elif section in ("Returns", "Yields"):
            item = replace(item, kind=names)
        elif section in ("Parameters", "Attributes"):
            *words, name = names.split() or [""]
            item = replace(item, names=(name,) * bool(name), kind=" ".join(words))
        elif not section:
            section = f"{field.kind[0].upper()}{field.kind[1:]} {names}".rstrip()
        if section not in ("types", "unseen"):
            sections.setdefault(section, []).append(item)
        line = stop
        field = read(line) if line < end and state.sCount[line] >= state.blkIndent else None
    for (section, name), kind in types.items():
        known = sections.setdefault(section, [])
        typed = [n for n, item in enumerate(known) if not item.kind and name in ("", *item.names)]
        for number in typed:
            known[number] = replace(known[number], kind=kind)
        if not typed:
            known.append(_Item((name,) * bool(name), kind, line=line - 1, body=(line, line)))
    for title, items in sections.items():
        _label(state, items[0].line, title)
        _show(state, items)
    state.line = line
    return True


# Text.


def _role(state: StateInline, silent: bool) -> bool:
    """``:class:`~package.Thing```: code that links to what it names, or words."""
    found = _ROLE.match(state.src, state.pos, state.posMax)
    if found and not silent:
        role = found["role"]
        shown, target = _referred(" ".join(found["text"].split()))
        if role == "math":
            token = state.push("math_inline", "", 0)
            token.content, token.meta = found["text"].strip(), {"display": False}
        elif role in _PAGES:
            words = f"{role.upper()} {shown}" if shown == target else shown
            _link(state, _PAGES[role].format(target.partition("#")[0]), words)
        elif role in _WORDS:
            state.push("text", "", 0).content = shown
        else:
            token = state.push("code_inline", "code", 0)
            token.content, token.meta = shown, {"target": target}
    if found:
        state.pos = found.end()
    return bool(found)


def _referred(text: str) -> tuple[str, str]:
    """What a reference shows, and what it names: ``~a.b`` is shown as ``b``, ``!a`` as ``a``."""
    titled = _TITLED.match(text)
    target = (titled["target"] if titled else text).lstrip("~!").lstrip(".")
    short = target.rpartition(".")[2] if text.startswith("~") else target
    return titled["words"].strip() if titled else short, target


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
