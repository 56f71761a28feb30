"""Prose in Python source: docstrings and comment blocks, read as they stand in the file.

Nothing here evaluates a string. A docstring is cut out of the source text, because an author's
``\\frac`` or ``\\text`` would otherwise arrive with a form feed or a tab in it. Whatever is removed
(quotes, ``#``, indentation) is removed within a line, so that line ``i`` of a note always stands
on line ``first_line + i`` of its file.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pylit.model import Note, Span
from pylit.source.decode import cut

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

#: What a banner of ``#####`` becomes: a thematic break. ``---`` would make a heading of the line
#: above it.
RULE = "***"


@dataclass(frozen=True, slots=True)
class Comment:
    """A ``#`` comment, with its column and whether it has its line for itself."""

    line: int
    column: int
    text: str
    alone: bool


# Words of tools. They tell readers nothing, and moved out of the code they would mislead.
_PRAGMA = re.compile(
    r"#+:?\s*(?:"
    r"(?:noqa|NOQA|nosec|nopep8|pyre-[a-z]+)\b"
    r"|(?:type|fmt|isort|pylint|mypy|pyright|pyrefly|ruff|flake8|pragma|yapf|autopep8|pytype"
    r"|cython|distutils|cspell|codespell|spell-checker|nopycln|vim?):\s*\S"
    r"|ty:\s*ignore|doctest:\s*\+|@formatter:|%%|-\*-.*-\*-\s*$"
    r")"
)
# PEP 263: an encoding declaration, on line 1 or 2.
_CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
# The mark of a comment: `#`, Sphinx's `#:`, or as many `#` as a decorator of comments liked.
_MARK = re.compile(r"#:(?=\s|$)|#+")
_HASH_RULE = re.compile(r"#{3,}$")
_OPENING_RULE = re.compile(r"\s*([=*~+_/-])\1{3,}\s*$")
# One string literal; what follows a backslash never ends it, in raw strings either.
# Possessive (`++`): a docstring may be long, and nothing is gained by trying again.
_LITERAL = re.compile(
    r"""[rRuU]?(?P<quote>\"{3}|'{3}|["'])(?P<text>(?:[^\\"']++|\\.|(?!(?P=quote)).)*+)(?P=quote)""",
    re.DOTALL,
)

_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
# Blocks a summary cannot be: anchors and other HTML, code, mathematics, tables, images, rules.
_NO_PROSE = re.compile(
    r"\s*(?:<|```|~~~|\$\$|\\begin\{|\||!\[|\[!\[|>>>|[*_=-]{3,}\s*$)| {4}|\t|\.\. "
)


def is_pragma(comment: Comment) -> bool:
    """Whether a comment speaks to a tool (``# noqa``, ``# fmt: off``, ``#!``), not to readers."""
    if comment.line == 1 and comment.text.startswith("#!"):
        return True
    if comment.line <= 2 and _CODING.match(comment.text):
        return True
    return _PRAGMA.match(comment.text) is not None


def comment_notes(comments: Iterable[Comment], code: Iterable[Span]) -> list[Note]:
    """The comment blocks of a module, in order; comments inside the spans of `code` stay there.

    A block is a run of comments on adjacent lines and in one column. A comment that goes on below
    a trailing one, in its column, belongs to the code as the trailing one does.
    """
    kept_lines = {line for span in code for line in range(span.first, span.last + 1)}
    notes: list[Note] = []
    block: list[Comment] = []
    trailing: Comment | None = None
    for comment in comments:
        if (
            trailing is not None
            and comment.line == trailing.line + 1
            and comment.column == trailing.column
        ) or not comment.alone:
            trailing = comment
            continue
        trailing = None
        if comment.line in kept_lines or is_pragma(comment):
            continue
        if block and (comment.line, comment.column) != (block[-1].line + 1, block[-1].column):
            notes.append(_comment_note(block))
            block = []
        block.append(comment)
    if block:
        notes.append(_comment_note(block))
    return notes


def _comment_note(block: Sequence[Comment]) -> Note:
    """Adjacent comments as one note; only ``#`` in them gives a note without text."""
    texts: list[str] = []
    rules: set[int] = set()
    for index, comment in enumerate(block):
        mark = _MARK.match(comment.text)
        assert mark is not None
        text = comment.text[mark.end() :]
        if _HASH_RULE.match(comment.text.rstrip()) or (not index and _OPENING_RULE.match(text)):
            # `=====` above a title would join its paragraph; below one it underlines a heading.
            rules.add(index)
            text = ""
        elif len(mark[0]) > 1 and mark[0][-1] == "#":
            text = text.rstrip("# \t")
        texts.append(text)
    margin = len(_margin(texts))
    texts = [RULE if index in rules else text[margin:] for index, text in enumerate(texts)]
    widths = Counter(len(comment.text) - len(comment.text.lstrip("#:")) for comment in block)
    column = block[0].column + widths.most_common(1)[0][0] + margin
    span = Span(block[0].line, block[-1].line)
    return trimmed_note("comment", span, texts, span.first, column)


def docstring_note(
    node: Documented, lines: Sequence[str], comments: Mapping[int, Comment]
) -> tuple[Note | None, str]:
    """The docstring of `node` as a note, if it has its lines for itself; and its text in any case.

    A docstring on the header's line, one with code behind it, one put together from several
    literals, one without text: each stays in the code, where nothing of it is lost. Behind a
    docstring a comment for tools may stand (``# noqa``).
    """
    statement = node.body[0] if node.body else None
    literal = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
        return None, ""
    first, last = literal.lineno, literal.end_lineno or literal.lineno
    before = cut(lines[first - 1], 0, literal.col_offset)
    behind = cut(lines[last - 1], literal.end_col_offset or 0, None)
    source = "\n".join(lines[first - 1 : last])[len(before) :].removesuffix(behind)
    match = _LITERAL.fullmatch(source)
    # Parentheses around it begin before it does.
    begins = (node.body[0].lineno, node.body[0].col_offset) == (first, literal.col_offset)
    if match is None or not begins:
        return None, ""
    note = _docstring(match, Span(first, last), len(before))
    alone = not before.strip() and (
        not behind.strip() or (last in comments and is_pragma(comments[last]))
    )
    shown = replace(note, behind=behind.strip()) if alone and note.text else None
    return shown, note.text


def _docstring(literal: re.Match[str], span: Span, column: int) -> Note:
    """The note of a string literal that begins at `column`."""
    column += literal.start("text")
    first, *more = literal["text"].split("\n")
    if first.strip() == "\\":
        # A backslash after the opening quotes only keeps the first line empty.
        first = ""
    margin = _margin(more)
    if any(line.strip() for line in more):
        column = len(margin)
    else:
        column += len(first) - len(first.lstrip())
    texts = [first.lstrip(), *(line[len(margin) :] for line in more)]
    return trimmed_note("docstring", span, texts, span.first, column)


def trimmed_note(
    kind: Literal["docstring", "comment"],
    span: Span,
    texts: Sequence[str],
    first_line: int,
    column: int,
) -> Note:
    """A note of the lines `texts`, the first one on `first_line`, without blank ones around it."""
    filled = [index for index, text in enumerate(texts) if text.strip()]
    if not filled:
        return Note(kind, span, "", first_line, column)
    inner = [text if text.strip() else "" for text in texts[filled[0] : filled[-1] + 1]]
    return Note(kind, span, "\n".join(inner), first_line + filled[0], column)


def first_paragraph(text: str) -> str:
    """The first paragraph of prose in a note, as Markdown; its first heading if it has no prose."""
    headings: list[str] = []
    for block in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        lines = block.split("\n")
        while lines and _HEADING.match(lines[0]):
            headings.append(lines.pop(0).strip("# \t"))
        if len(lines) > 1 and _UNDERLINE.match(lines[1]):
            headings.append(lines[0].strip())
            lines = lines[2:]
        if lines and not _NO_PROSE.match(lines[0]):
            return "\n".join(lines).strip()
    return headings[0] if headings else ""


def _margin(lines: Iterable[str]) -> str:
    """The whitespace that all lines begin with, blank ones aside."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    if not indents:
        return ""
    # What the first and the last in alphabetical order share, all between them share.
    first, last = min(indents), max(indents)
    width = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[:width]
