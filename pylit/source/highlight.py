"""Source code to HTML, one line at a time, with few elements and with links to definitions.

Pygments reads a whole file once; its tokens are split at line ends, so that each line is HTML of
its own. Plain names, operators and punctuation stay text. The lines' text together is the source.
"""

import ast
import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Operator, _TokenType
from pygments.util import ClassNotFound

from pylit.model import Link
from pylit.source.scopes import statements

#: Longer lines are data, not code to read: they are shown as they are.
MAX_LINE_LENGTH = 2000

#: Kinds of token that are marked, with their class; a kind covers what is below it.
_CLASSES: dict[_TokenType, str] = {
    Comment: "hc",
    Comment.PreprocFile: "",
    Generic.Prompt: "hc",
    Keyword: "hk",
    Operator.Word: "hk",
    Name.Builtin: "hb",
    Name.Class: "hd",
    Name.Decorator: "hb",
    Name.Exception: "hb",
    Name.Function: "hd",
    Name.Tag: "hk",
    Literal.String: "hs",
    Literal.Number: "hn",
    Literal.Date: "hn",
}

#: A stretch of one line: its class or "", and its text.
Piece = tuple[str, str]
Tokens = Iterable[tuple[_TokenType, str]]
#: Offset of a name in its line -> its link and its class.
_Names = Mapping[int, tuple[Link | None, str]]

_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def highlight(
    text: str,
    links: Mapping[tuple[int, int], Link],
    href: Callable[[Link], str],
    marks: Mapping[tuple[int, int], str] = MappingProxyType({}),
    language: str = "python",
    quiet: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({}),
) -> tuple[str, ...]:
    """HTML of each line of a source; `links` by line (from 1) and offset (from 0).

    `marks` are classes of names, by the same; `quiet` has the first and last offset of what is
    muted, by line.
    """
    names: defaultdict[int, dict[int, tuple[Link | None, str]]] = defaultdict(dict)
    for line, offset in {*links, *marks}:
        place = line, offset
        names[line][offset] = links.get(place), marks.get(place, "")
    lines = text.split("\n")
    # A line that is too long is data; and Pygments looks from each line of blanks to the end of
    # the blank lines after it.
    plain = [len(line) > MAX_LINE_LENGTH or line.isspace() for line in lines]
    shown = "\n".join("" if bare else line for line, bare in zip(lines, plain, strict=True))
    tokens = _tokens(shown, language)
    pieces = _lines(_python(tokens) if language == "python" else tokens)
    return tuple(
        escape(line) if bare else _line(piece, names.get(number, {}), href, quiet.get(number, ()))
        for number, (line, bare, piece) in enumerate(zip(lines, plain, pieces, strict=True), 1)
    )


#: Columns of code that a narrow phone shows.
PHONE = 48


def hanging(lines: Iterable[str], least: int = 0) -> int:
    """How far in a line goes on that a phone breaks: further than each line that is broken.

    Where all lines are indented by `least` columns, a phone leaves those out. 0 is the usual place.
    """
    deep = [
        len(line) - len(line.lstrip()) - least
        for line in lines
        if len(line.rstrip()) - least > PHONE
    ]
    return min(max(deep) + 2, 8) if any(deep) else 0


def highlight_block(code: str, language: str) -> str:
    """HTML of a fenced block in a note; text, escaped, where the language is not known."""
    if any(len(line) > MAX_LINE_LENGTH for line in code.split("\n")):
        return escape(code)
    # Many lexers recognise a comment only if a line feed follows it.
    tokens = [*_tokens(f"{code}\n", language.strip().lower())]
    if "".join(value for _, value in tokens) != f"{code}\n":
        return escape(code)  # a lexer that loses text
    return "\n".join(_emit(pieces, {}, str) for pieces in [*_lines(tokens)][:-1])


def escape(text: str) -> str:
    """Text as HTML that a browser reads back unchanged."""
    # Most of what is shown is a word.
    if text.isalnum():
        return text
    # A browser turns a plain carriage return into a line feed, and drops a null character.
    return html.escape(text, quote=False).replace("\r", "&#13;").replace("\0", "\u2400")


def _tokens(text: str, language: str) -> Tokens:
    return ((kind, value) for _, kind, value in _lexer(language).get_tokens_unprocessed(text))


@cache
def _lexer(language: str) -> Lexer:
    try:
        lexer: Lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = TextLexer()
    return lexer


def _python(tokens: Tokens) -> Tokens:
    """``__init__`` is a definition after `def` only; Pygments calls it a function everywhere."""
    defining = False
    for kind, value in tokens:
        yield (Name if kind is Name.Function.Magic and not defining else kind), value
        if not value.isspace():
            defining = value == "def" and _class(kind) == "hk"


@cache
def _class(kind: _TokenType) -> str:
    ancestors = reversed(kind.split())
    return next((_CLASSES[ancestor] for ancestor in ancestors if ancestor in _CLASSES), "")


def _lines(tokens: Tokens) -> Iterator[list[Piece]]:
    """The pieces of each line: neighbours of one class are one, across the blanks between them."""
    pieces: list[Piece] = []
    last = ""
    for kind, value in tokens:
        first = True
        for text in value.split("\n") if "\n" in value else (value,):
            if not first:
                yield pieces
                pieces, last = [], ""
            first = False
            name = _class(kind) if text and not text.isspace() else last
            if pieces and name == last:
                pieces[-1] = name, pieces[-1][1] + text
            else:
                pieces.append((name, text))
                last = name
    yield pieces


def quiet_spans(tree: ast.Module, lines: Sequence[str]) -> Mapping[int, list[tuple[int, int]]]:
    """Offsets, by line, of what a reader of a computation may pass over: annotations, and calls of
    functions that are named ``check_…``.
    """
    spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for node in statements(tree):
        if isinstance(node, ast.AnnAssign):
            _add_span(spans, node.annotation, lines, ":")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            lists = arguments.posonlyargs, arguments.args, arguments.kwonlyargs
            for argument in (*chain(*lists), arguments.vararg, arguments.kwarg):
                if argument and argument.annotation:
                    _add_span(spans, argument.annotation, lines, ":")
            if node.returns:
                _add_span(spans, node.returns, lines, "->")
        elif _checks(node) or (isinstance(node, ast.If) and all(map(_checks, node.body))):
            _add_span(spans, node, lines)
    return spans


def _checks(node: ast.stmt) -> bool:
    """Whether a statement only checks something."""
    call = node.value if isinstance(node, ast.Expr) else None
    named = call.func if isinstance(call, ast.Call) else None
    return isinstance(named, ast.Name) and named.id.lstrip("_").startswith("check_")


def _add_span(
    spans: dict[int, list[tuple[int, int]]], node: Any, lines: Sequence[str], sign: str = ""
) -> None:
    """Add the place of a node in each of its lines; `sign` may stand before it, with blanks."""
    for number in range(node.lineno, node.end_lineno + 1):
        line = lines[number - 1]
        start, end = len(line) - len(line.lstrip()), len(line)
        # Columns of `ast` count bytes.
        if number == node.lineno:
            start = len(line.encode()[: node.col_offset].decode())
            before = line[:start].rstrip()
            start = len(before) - len(sign) if sign and before.endswith(sign) else start
        if number == node.end_lineno:
            end = len(line.encode()[: node.end_col_offset].decode())
        spans[number].append((start, end))


def _line(
    pieces: Sequence[Piece],
    names: _Names,
    href: Callable[[Link], str],
    spans: Sequence[tuple[int, int]],
) -> str:
    """HTML of the pieces of a line, with an element around each of some spans."""
    if not spans:
        return _emit(pieces, names, href)
    cuts = sorted({offset for span in spans for offset in span})
    parts: list[list[Piece]] = [[] for _ in range(len(cuts) + 1)]
    start = 0
    for kind, text in pieces:
        edges = [
            start,
            *(cut for cut in cuts if start < cut < start + len(text)),
            start + len(text),
        ]
        for first, last in pairwise(edges):
            parts[bisect_right(cuts, first)].append((kind, text[first - start : last - start]))
        start += len(text)
    found, start = [], 0
    for part in parts:
        shown = _emit(part, names, href, start)
        inside = any(first <= start < last for first, last in spans)
        found.append(f'<span class="q">{shown}</span>' if inside and shown else shown)
        start += sum(len(text) for _, text in part)
    return "".join(found)


def _emit(
    pieces: Iterable[Piece], names: _Names, href: Callable[[Link], str], start: int = 0
) -> str:
    """HTML of the pieces of a line. A name in a string or comment is not linked."""
    found: list[str] = []
    for kind, text in pieces:
        done = 0
        for word in _IDENTIFIER.finditer(text) if names and kind not in ("hs", "hc") else ():
            if place := names.get(start + word.start()):
                if done < word.start():
                    found.append(_span(kind, text[done : word.start()]))
                found.append(_name(*place, href, kind, word[0]))
                done = word.end()
        if done < len(text):
            found.append(_span(kind, text[done:]))
        start += len(text)
    return "".join(found)


def _span(kind: str, text: str) -> str:
    shown = text.rstrip() if kind else ""
    if not shown:
        return escape(text)
    blanks = escape(text[len(shown) :]) if len(shown) < len(text) else ""
    return f'<span class="{kind}">{escape(shown)}</span>{blanks}'


def _name(link: Link | None, mark: str, href: Callable[[Link], str], kind: str, text: str) -> str:
    if link is None:
        return f'<var class="{" ".join(filter(None, (mark, kind)))}">{escape(text)}</var>'
    classes = " ".join(filter(None, ("x e" if link.external else "x", kind, mark)))
    title = html.escape(link.name)
    about = f'title="{title}"' if link.external else f'data-x="{title}"'
    return f'<a class="{classes}" href="{html.escape(href(link))}" {about}>{escape(text)}</a>'
