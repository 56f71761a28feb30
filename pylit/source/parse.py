"""Source text to `Module`: its definitions, and its sections of notes and code.

Nothing is imported or run, and no string is evaluated. A module that Python cannot parse becomes
one section of plain source, with a warning that says where Python stopped.
"""

import ast
import io
import sys
import tokenize
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import Definition, Module, Note, Section, SourceFile, Span
from pylit.source import frontmatter
from pylit.source.definitions import definitions, signature
from pylit.source.notes import (
    Comment,
    comment_notes,
    docstring_note,
    first_paragraph,
    is_pragma,
    trimmed_note,
)
from pylit.source.sections import Opening, build_sections


def parse_module(source: SourceFile, report: Report) -> Module:
    """Parse one source file. Faults go to `report`; the result always shows the whole file."""
    lines, name = source.lines, source.name
    tree = _tree(source, lines, report)
    if tree is None:
        filled = [number for number, line in enumerate(lines, start=1) if line.strip()]
        whole = Section((), Span(filled[0], filled[-1])) if filled else None
        unread = Definition("module", name, "", 1, "", "")
        return Module(source, {}, (unread,), (whole,) if whole else (), parsed=False)
    comments = {comment.line: comment for comment in _comments(source.text, lines)}
    values: Mapping[str, str] = {}
    docstring, text = docstring_note(tree, lines, comments)
    if docstring is not None:
        values, docstring = _front_matter(docstring, source, report)
        text = docstring.text
    summary = values.get("summary") or first_paragraph(text)
    notes = [docstring] if docstring else []
    openings: list[Opening] = []
    #: Lines that comments do not split. With a docstring the whole signature stands beside it;
    #: without one, comments may annotate single arguments.
    whole_lines: set[int] = set()
    headers, constants = definitions(tree, lines)
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
        openings.append(Opening(line, header.name, docstring.span.first if docstring else 0))
    blocks = comment_notes(comments.values(), whole_lines)
    above = {block.span.last + 1: block.text for block in blocks}
    found = {"": Definition("module", name, "", 1, "", summary)}
    for constant, (line, text) in constants.items():
        told = first_paragraph(above.get(line, ""))
        found[constant] = Definition("constant", name, constant, line, text, told)
    for header, opening, text in zip(headers, openings, texts, strict=True):
        if header.name:
            told = first_paragraph(text or above.get(opening.line, ""))
            shown, line = signature(header, lines, comments), header.node.lineno
            found[header.name] = Definition(header.kind, name, header.name, line, shown, told)
    ordered = sorted(found.values(), key=lambda each: (each.qualname != "", each.line))
    sections = build_sections(lines, [*notes, *blocks], openings)
    return Module(source, values, tuple(ordered), sections)


@lru_cache(maxsize=1)
def syntax_tree(text: str) -> ast.Module:
    """The syntax tree of a source; fails as Python does where there is none.

    A source is parsed for its sections and then for its names: the last tree is kept.
    """
    with warnings.catch_warnings():
        # `"\d"` in someone's string is theirs to mend.
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _tree(source: SourceFile, lines: Sequence[str], report: Report) -> ast.Module | None:
    """The syntax tree, or None and a diagnostic."""
    line, column = 0, 0
    try:
        return syntax_tree(source.text)
    except SyntaxError as error:
        message = error.msg
        line = min(error.lineno or 0, len(lines))
        column = max(error.offset or 1, 1) if line else 0
    except ValueError as error:
        message = str(error)
    except (RecursionError, MemoryError):
        message = "expressions nested too deeply for Python's parser"
    version = ".".join(map(str, sys.version_info[:2]))
    hint = (
        "its page shows the source without notes; mend it, or, if its syntax is newer than Python"
        f" {version}, build with a newer Python"
    )
    shown = lines[line - 1][:200] if line else ""
    place = source.display, line, column
    report.add(Diagnostic(*place, "syntax", message, hint, shown, severity=Severity.WARNING))
    return None


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
