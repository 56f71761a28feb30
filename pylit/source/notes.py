"""Prose in Python source: docstrings and comment blocks, read as they stand in the file.

Nothing here evaluates a string. A docstring is cut out of the source text, because an author's
``\\frac`` or ``\\text`` would otherwise arrive with a form feed or a tab in it. Whatever is removed
(quotes, ``#``, indentation) is removed within a line, so that line ``i`` of a note always stands
on line ``first_line + i`` of its file.
"""

import ast
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pylit.model import Note, Span

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
_CODING = re.compile(r"#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
# The mark of a comment: `#`, Sphinx's `#:`, or as many `#` as a decorator of comments liked.
_MARK = re.compile(r"#:(?=\s|$)|#+")
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


class Comment(NamedTuple):
    """A ``#`` comment, with its column and whether it has its line for itself."""

    line: int
    column: int
    text: str
    alone: bool


def is_pragma(comment: Comment) -> bool:
    """Whether a comment speaks to a tool (``# noqa``, ``# fmt: off``, ``#!``), not to readers."""
    shebang = comment.line == 1 and comment.text.startswith("#!")
    coding = comment.line <= 2 and _CODING.match(comment.text)
    return bool(shebang or coding or _PRAGMA.match(comment.text))


def comment_notes(comments: Iterable[Comment], code: Collection[int]) -> list[Note]:
    """The comment blocks of a module, in order; comments on the lines of `code` stay there.

    A block is a run of comments on adjacent lines and in one column. A comment that goes on below
    a trailing one, in its column, belongs to the code as the trailing one does.
    """
    blocks: list[list[Comment]] = []
    trailing = (-1, -1)
    for comment in comments:
        if not comment.alone or trailing == (comment.line - 1, comment.column):
            trailing = comment[:2]
        elif comment.line not in code and not is_pragma(comment):
            if blocks and blocks[-1][-1][:2] == (comment.line - 1, comment.column):
                blocks[-1].append(comment)
            else:
                blocks.append([comment])
    return [_comment_note(block) for block in blocks]


def _comment_note(block: Sequence[Comment]) -> Note:
    """Adjacent comments as one note; only ``#`` in them gives a note without text."""
    marks = [mark[0] for mark in (_MARK.match(comment.text) for comment in block) if mark]
    texts = [
        comment.text[len(mark) :].rstrip("# \t" if mark.endswith("##") else "")
        for comment, mark in zip(block, marks, strict=True)
    ]
    if _OPENING_RULE.match(texts[0]):
        # `=====` above a title would join its paragraph; below one it underlines a heading.
        texts[0] = ""
    margin = _margin(texts)
    texts = [text[margin:] for text in texts]
    first, column = block[0].line, block[0].column + len(marks[0]) + margin
    return trimmed_note("comment", Span(first, block[-1].line), texts, first, column)


def docstring_note(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    lines: Sequence[str],
    comments: Mapping[int, Comment],
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
    written = _LITERAL.fullmatch(
        "\n".join(lines[first - 1 : last])[len(before) :].removesuffix(behind)
    )
    # Parentheses around it begin before it does.
    bracketed = node.body[0].lineno < first or node.body[0].col_offset < literal.col_offset
    if written is None or bracketed:
        return None, ""
    opening, *more = written["text"].split("\n")
    if opening.strip() == "\\":
        # A backslash after the opening quotes only keeps the first line empty.
        opening = ""
    margin = _margin(more)
    column = len(before) + written.start("text") + len(opening) - len(opening.lstrip())
    texts = [opening.lstrip(), *(line[margin:] for line in more)]
    column = margin if any(line.strip() for line in more) else column
    note = trimmed_note("docstring", Span(first, last), texts, first, column)
    told = not behind.strip() or (last in comments and is_pragma(comments[last]))
    alone = told and not before.strip() and note.text
    return replace(note, behind=behind.strip()) if alone else None, note.text


def trimmed_note(
    kind: Literal["docstring", "comment"],
    span: Span,
    texts: Sequence[str],
    first_line: int,
    column: int,
) -> Note:
    """A note of the lines `texts`, the first one on `first_line`, without blank ones around it."""
    inner = "\n".join(text if text.strip() else "" for text in texts).rstrip("\n")
    text = inner.lstrip("\n")
    skipped = len(inner) - len(text) if text else 0
    return Note(kind, span, text, first_line + skipped, column)


def cut(line: str, start: int, stop: int | None) -> str:
    """A stretch of a line by the columns of the ast, which count bytes of UTF-8."""
    if line.isascii():
        return line[start:stop]
    return line.encode()[start:stop].decode(errors="ignore")


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


def _margin(lines: Iterable[str]) -> int:
    """How many characters of whitespace all lines begin with, blank ones aside."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return len(posixpath.commonprefix(indents))
