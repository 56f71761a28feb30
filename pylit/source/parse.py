"""Source text to `Module`: its definitions, and its sections of notes and code.

Nothing is imported or run, and no string is evaluated. A module that Python cannot parse becomes
one section of plain source, with a warning that says where Python stopped.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Definition, Module, Note, SourceFile, Span
from pylit.source import frontmatter
from pylit.source.notes import (
    Comment,
    comment_notes,
    cut,
    docstring_note,
    first_paragraph,
    is_pragma,
    trimmed_note,
)
from pylit.source.scopes import Definer, Fault, Scopes, decorators, read_scopes
from pylit.source.sections import build_sections

_CONSTANT_WIDTH = 80
# A line break in a signature goes without trace at brackets, with the comma that may end a list.
_BREAK_AT_BRACKET = re.compile(r"(?<=[(\[{])\n|,?\n(?=[)\]}])")


@dataclass(slots=True)
class _Header:
    """A ``class`` or ``def`` statement up to its colon, decorators included."""

    node: Definer
    span: Span
    #: Name inside the module, if this is the definition that stands for it.
    name: str


def parse_module(source: SourceFile, report: Report) -> Module:
    """Parse one source file. Faults go to `report`; the result always shows the whole file."""
    lines, name = source.lines, source.name
    scopes = read_scopes(source)
    if scopes.fault:
        return _unread(source, scopes.fault, report)
    comments = {comment.line: comment for comment in _comments(source.text, lines)}
    values: Mapping[str, str] = {}
    docstring, text = docstring_note(scopes.tree, lines, comments)
    if docstring is not None:
        values, docstring = _front_matter(docstring, source, report)
        text = docstring.text
    summary = values.get("summary") or first_paragraph(text)
    notes = [docstring] if docstring else []
    openings: dict[int, tuple[str, int]] = {}
    #: Lines that comments do not split. With a docstring the whole signature stands beside it;
    #: without one, comments may annotate single arguments.
    whole_lines: set[int] = set()
    headers = _headers(scopes, lines)
    texts = []
    for header in headers:
        docstring, text = docstring_note(header.node, lines, comments)
        texts.append(text)
        notes += [docstring] if docstring else []
        line, last = header.span.first, header.span.last if docstring else header.node.lineno
        whole_lines.update(range(line, last + 1))
        # Words to tools directly above a header open it too.
        while line - 1 in comments and comments[line - 1].alone and is_pragma(comments[line - 1]):
            line -= 1
        openings[line] = header.name, docstring.span.first if docstring else 0
    blocks = comment_notes(comments.values(), whole_lines)
    above = {block.span.last + 1: block.text for block in blocks}
    found = {"": Definition("module", name, "", 1, "", summary)}
    for constant, statement in scopes.constants.items():
        if not constant.startswith("__"):
            line, text = statement.lineno, _assignment(statement, lines)
            told = first_paragraph(above.get(line, ""))
            found[constant] = Definition("constant", name, constant, line, text, told)
    for header, first, text in zip(headers, openings, texts, strict=True):
        if header.name:
            told = first_paragraph(text or above.get(first, ""))
            shown, line = _signature(header, lines, comments), header.node.lineno
            kind: Literal["class", "method", "function"]
            kind = "method" if "." in header.name else "function"
            kind = "class" if isinstance(header.node, ast.ClassDef) else kind
            found[header.name] = Definition(kind, name, header.name, line, shown, told)
    ordered = sorted(found.values(), key=lambda each: (each.qualname != "", each.line))
    sections = build_sections(lines, [*notes, *blocks], openings)
    return Module(source, values, tuple(ordered), sections)


def _headers(scopes: Scopes, lines: Sequence[str]) -> list[_Header]:
    """Every class and function, nested ones too, in the order of their lines.

    What a function keeps to itself has no name: nothing outside can name it. A name that is defined
    several times is that of the first one that is not an ``@overload``.
    """
    found: list[_Header] = []
    for node, scope in scopes.names:
        if isinstance(node, Definer):
            name = f"{scope.dotted}.{node.name}".removeprefix(f"{scopes.module.dotted}.")
            found.append(_Header(node, _header_span(node, lines), name * scope.public))
    chosen: dict[str, _Header] = {}
    for header in sorted(found, key=lambda each: "overload" in decorators(each.node)):
        if chosen.setdefault(header.name, header) is not header:
            header.name = ""
    return found


def _header_span(node: Definer, lines: Sequence[str]) -> Span:
    """The lines of a header: from its first decorator to the line with its colon."""
    body = node.body[0]
    last = first_line(body)
    if last != body.lineno or not cut(lines[last - 1], 0, body.col_offset).strip():
        # Between the colon and the body there is nothing but blank lines and comments.
        last -= 1
        while lines[last - 1].lstrip()[:1] in ("", "#"):
            last -= 1
    return Span(first_line(node), last)


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definer) else ()
    return min([node.lineno, *(each.lineno for each in decorators)])


def _signature(header: _Header, lines: Sequence[str], comments: Mapping[int, Comment]) -> str:
    """The header as one line, as written: ``forward(self, *, query: Tensor) -> Tensor``."""
    body = header.node.body[0]
    parts = []
    for number in range(header.node.lineno, header.span.last + 1):
        line = lines[number - 1]
        if number == body.lineno:
            line = cut(line, 0, body.col_offset)
        if number in comments:
            line = line[: comments[number].column]
        parts.append(line.strip().removesuffix("\\").rstrip())
    text = _BREAK_AT_BRACKET.sub("", "\n".join(filter(None, parts))).replace("\n", " ")
    return text.removesuffix(":").removeprefix("class ").replace("def ", "", 1).strip()


def _assignment(node: ast.stmt, lines: Sequence[str]) -> str:
    """As written; of a long value, or one on several lines, only that there is one."""
    several = node.end_lineno != node.lineno
    text = cut(lines[node.lineno - 1], node.col_offset, None if several else node.end_col_offset)
    if several or len(text) > _CONSTANT_WIDTH:
        return f"{text.partition('=')[0].rstrip()} = …"
    return text


def _unread(source: SourceFile, fault: Fault, report: Report) -> Module:
    """A module that Python cannot parse: its source without notes."""
    lines, (line, column, message) = source.lines, fault
    line = min(line, len(lines))
    version = ".".join(map(str, sys.version_info[:2]))
    hint = (
        "its page shows the source without notes; mend it, or, if its syntax is newer than Python"
        f" {version}, build with a newer Python"
    )
    place = source.display, line, column if line else 0
    shown = lines[line - 1][:200] if line else ""
    report.add(Diagnostic(*place, "syntax", message, hint, shown, severity=Severity.WARNING))
    definition = Definition("module", source.name, "", 1, "", "")
    return Module(source, {}, (definition,), build_sections(lines, (), {}), parsed=False)


def _comments(text: str, lines: Sequence[str]) -> Iterator[Comment]:
    """The comments of a module, in order."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                yield Comment(line, column, token.string, not lines[line - 1][:column].strip())
    except (tokenize.TokenError, SyntaxError):
        # The parser took what the tokenizer does not. Its further comments stay in the code.
        return


def _front_matter(note: Note, source: SourceFile, report: Report) -> tuple[Mapping[str, str], Note]:
    """The front matter of a module's docstring, and the docstring without it."""
    values, rest, taken = frontmatter.split(
        note.text,
        path=source.display,
        first_line=note.first_line,
        column=note.column,
        own=source.own,
        report=report,
    )
    first_line = note.first_line + taken
    left = trimmed_note(note.kind, note.span, rest.split("\n"), first_line, note.column)
    return values, replace(left, behind=note.behind)
