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
from pylit.source import definitions, frontmatter
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
    lines = source.lines
    tree = _tree(source, lines, report)
    if tree is None:
        return _plain(source, lines)
    comments = {comment.line: comment for comment in _comments(source.text, lines)}
    values: Mapping[str, str] = {}
    docstring, text = docstring_note(tree, lines, comments)
    if docstring is not None:
        values, docstring = _front_matter(docstring, source, report)
        text = docstring.text
    module = Definition(
        "module", source.name, "", 1, "", values.get("summary") or first_paragraph(text)
    )
    notes = [docstring] if docstring else []
    openings: list[Opening] = []
    #: Lines that comments do not split. With a docstring the whole signature stands beside it;
    #: without one, comments may annotate single arguments.
    whole: list[Span] = []
    texts: list[str] = []
    headers = definitions.headers(tree, lines, {n for n, c in comments.items() if c.alone})
    for header in headers:
        docstring, text = docstring_note(header.node, lines, comments)
        texts.append(text)
        notes += [docstring] if docstring else []
        whole.append(header.span if docstring else Span(header.span.first, header.node.lineno))
        line = header.span.first
        # Words to tools directly above a header open it too.
        while line - 1 in comments and comments[line - 1].alone and is_pragma(comments[line - 1]):
            line -= 1
        openings.append(Opening(line, header.name, docstring.span.first if docstring else 0))
    blocks = comment_notes(comments.values(), whole)
    above = {block.span.last + 1: block.text for block in blocks}

    found = {
        name: Definition(
            "constant", source.name, name, line, text, first_paragraph(above.get(line, ""))
        )
        for name, (line, text) in definitions.constants(tree, lines).items()
    }
    for header, opening, text in zip(headers, openings, texts, strict=True):
        if header.name:
            found[header.name] = Definition(
                header.kind,
                source.name,
                header.name,
                header.node.lineno,
                definitions.signature(header, lines, comments),
                first_paragraph(text or above.get(opening.line, "")),
            )
    return Module(
        source=source,
        front_matter=values,
        definitions=(module, *sorted(found.values(), key=lambda definition: definition.line)),
        sections=build_sections(lines, [*notes, *blocks], openings),
    )


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
    nul = source.text.find("\0")
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
    if nul >= 0:
        message = "a NUL character; Python source is text"
        line = source.text.count("\n", 0, nul) + 1
        column = nul - source.text.rfind("\n", 0, nul)
    version = ".".join(map(str, sys.version_info[:2]))
    report.add(
        Diagnostic(
            path=source.display,
            line=line,
            column=column,
            code="syntax",
            message=message,
            hint="its page shows the source without notes; mend it, or, if its syntax is newer than"
            f" Python {version}, build with a newer Python",
            source_line=lines[line - 1][:200] if line else "",
            severity=Severity.WARNING,
        )
    )
    return None


def _plain(source: SourceFile, lines: Sequence[str]) -> Module:
    """A module that does not parse: one section of code."""
    filled = [number for number, line in enumerate(lines, start=1) if line.strip()]
    return Module(
        source=source,
        front_matter={},
        definitions=(Definition("module", source.name, "", 1, "", ""),),
        sections=(Section((), Span(filled[0], filled[-1])),) if filled else (),
        parsed=False,
    )


def _comments(text: str, lines: Sequence[str]) -> Iterator[Comment]:
    """The comments of a module, in order, except those within f-strings."""
    strings = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not strings:
                line, column = token.start
                alone = not lines[line - 1][:column].strip()
                yield Comment(line, column, token.string, alone)
            elif token.type in _STRING_STARTS:
                strings += 1
            elif token.type in _STRING_ENDS:
                strings -= 1
    except (tokenize.TokenError, SyntaxError):
        # The parser took what the tokenizer does not. Its further comments stay in the code.
        return


# From Python 3.12 (f-strings) and 3.14 (t-strings) on, what they hold is tokens of its own.
_STRING_STARTS = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_STRING_ENDS = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}


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
    rest_of_it = trimmed_note(note.kind, note.span, rest.split("\n"), first_line, note.column)
    return values, replace(rest_of_it, behind=note.behind)
