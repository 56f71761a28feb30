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
from dataclasses import replace
from typing import Literal

from pylit.diagnostics import Report
from pylit.model import Definition, Module, Note, SourceFile
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
    module = Definition("module", name, "", 1, "", values.get("summary") or first_paragraph(text))
    notes = [docstring] if docstring else []
    #: Name -> the line that a note above it ends at, its docstring, and what it is.
    found: dict[str, tuple[int, str, Definition]] = {}
    for constant, node in scopes.constants.items():
        if not constant.startswith("__"):
            defined = Definition(
                "constant", name, constant, node.lineno, _assignment(node, lines), ""
            )
            found[constant] = node.lineno, "", defined
    openings: dict[int, tuple[str, int]] = {}
    #: Lines that comments do not split. With a docstring the whole signature stands beside it;
    #: without one, comments may annotate single arguments.
    whole_lines: set[int] = set()
    for definer, known in _definers(scopes).items():
        docstring, text = docstring_note(definer, lines, comments)
        notes += [docstring] if docstring else []
        line, last = first_line(definer), _last_line(definer, lines)
        whole_lines.update(range(line, (last if docstring else definer.lineno) + 1))
        # Words to tools directly above a header open it too.
        while line - 1 in comments and comments[line - 1].alone and is_pragma(comments[line - 1]):
            line -= 1
        openings[line] = known, docstring.span.first if docstring else 0
        if known:
            kind: Literal["class", "method", "function"]
            kind = "method" if "." in known else "function"
            kind = "class" if isinstance(definer, ast.ClassDef) else kind
            signature = _signature(definer, last, lines, comments)
            defined = Definition(kind, name, known, definer.lineno, signature, "")
            found[known] = line, text, defined
    blocks = comment_notes(comments.values(), whole_lines)
    above = {block.span.last + 1: block.text for block in blocks}
    ordered = [
        replace(each, summary=first_paragraph(text or above.get(line, "")))
        for line, text, each in sorted(found.values(), key=lambda item: item[2].line)
    ]
    sections = build_sections(lines, [*notes, *blocks], openings)
    return Module(source, values, (module, *ordered), sections)


def _definers(scopes: Scopes) -> dict[Definer, str]:
    """Every class and function, nested ones too, in the order of their lines, with its name.

    What a function keeps to itself has no name: nothing outside can name it. A name that is defined
    several times is that of the first one that is not an ``@overload``.
    """
    found: dict[Definer, str] = {}
    for node, scope in scopes.names:
        if isinstance(node, Definer):
            name = f"{scope.dotted}.{node.name}".removeprefix(f"{scopes.module.dotted}.")
            found[node] = name * scope.public
    chosen: dict[str, Definer] = {}
    for node in sorted(found, key=lambda each: "overload" in decorators(each)):
        if chosen.setdefault(found[node], node) is not node:
            found[node] = ""
    return found


def _last_line(node: Definer, lines: Sequence[str]) -> int:
    """The line with the colon of a header."""
    body = node.body[0]
    last = first_line(body)
    if last != body.lineno or not cut(lines[last - 1], 0, body.col_offset).strip():
        # Between the colon and the body there is nothing but blank lines and comments.
        last -= 1
        while lines[last - 1].lstrip()[:1] in ("", "#"):
            last -= 1
    return last


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definer) else ()
    return min([node.lineno, *(each.lineno for each in decorators)])


def _signature(
    node: Definer, last: int, lines: Sequence[str], comments: Mapping[int, Comment]
) -> str:
    """The header as one line, as written: ``forward(self, *, query: Tensor) -> Tensor``."""
    body = node.body[0]
    parts = []
    for number in range(node.lineno, last + 1):
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
    report.fault(False, place, "syntax", message, hint, shown)
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
    place = source.display, note.first_line, note.column
    values, rest, taken = frontmatter.split(note.text, report, *place, own=source.own)
    first_line = note.first_line + taken
    left = trimmed_note(note.kind, note.span, rest.split("\n"), first_line, note.column)
    return values, replace(left, behind=note.behind)
