"""Modules as sections of notes and code.

A module is read by `tokenize` for its comments and by `ast` for everything else. Its docstrings and
comment blocks are notes, the other lines code; notes and code together are every line of the file.
See decision 006.
"""

import ast
import io
import platform
import posixpath
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

from pylit.diagnostics import Report
from pylit.model import Definition, Module, Note, Section, SourceFile, Span
from pylit.source.pages import split_front_matter
from pylit.source.scopes import (
    Definer,
    Scopes,
    cut,
    decorators,
    name_of,
    read_scopes,
    statements,
)

# Directives to tools, which stay in the code.
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
# The mark of a comment: `#`, Sphinx's `#:`, or several `#`.
_MARK = re.compile(r"#:(?=\s|$)|#+")
_OPENING_RULE = re.compile(r"\s*([=*~+_/-])\1{3,}\s*$")
# One string literal; what follows a backslash never ends it, in raw strings either.
# Possessive (`++`), because backtracking in a long docstring would take long.
_LITERAL = re.compile(
    r"""(?P<prefix>[rRuU]?)(?P<quote>\"{3}|'{3}|["'])(?P<text>(?:[^\\"']++|\\.|(?!(?P=quote)).)*+)(?P=quote)""",
    re.DOTALL,
)


#: Escapes of a string that is not raw; those of control characters stay as they are written.
_ESCAPE = re.compile(
    r"\\(?:\n|[\\'\"]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\})"
)
_BEGIN = re.compile(r"(?<!\\)\\begin\{")
_PARAGRAPH = re.compile(r".+?(?=\n[ \t]*\n|\Z)", re.DOTALL)


def _evaluated(text: str) -> str:
    """The text of an ordinary string as `help` shows it.

    Where a backslash joins two lines, their paragraph has an empty line more at its end, so that
    the lines below keep their numbers.
    """

    def shown(escape: re.Match[str]) -> str:
        if escape[0] == "\\\n":
            return "\0"  # which no source has
        char: str = ast.literal_eval(f'"{escape[0]}"')
        return char if char.isprintable() else escape[0]

    def joined(paragraph: re.Match[str]) -> str:
        return paragraph[0].replace("\0", "") + "\n" * paragraph[0].count("\0")

    text = _ESCAPE.sub(shown, text)
    return _PARAGRAPH.sub(joined, text) if "\0" in text else text


class Comment(NamedTuple):
    """A ``#`` comment, with its column and whether it is alone on its line."""

    line: int
    column: int
    text: str
    alone: bool


def is_pragma(comment: Comment) -> bool:
    """Whether a comment is a directive to a tool: ``# noqa``, ``# fmt: off``, ``#!``."""
    shebang = comment.line == 1 and comment.text.startswith("#!")
    coding = comment.line <= 2 and _CODING.match(comment.text)
    return bool(shebang or coding or _PRAGMA.match(comment.text))


def comment_notes(comments: Iterable[Comment], code: Collection[int]) -> list[Note]:
    """The comment blocks of a module, in order; comments on the lines of `code` stay there.

    A block is a run of comments on adjacent lines and in one column. A comment directly below a
    trailing one, in the same column, stays in the code as well.
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
    statement: ast.stmt | None, lines: Sequence[str], comments: Mapping[int, Comment]
) -> Note | None:
    """A statement as a note, if it is a docstring alone on its lines.

    A docstring on the header's line, one before other code, one of several literals, and one
    without text stay in the code. A directive (``# noqa``) may follow a docstring.
    """
    literal = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
        return None
    first, last = literal.lineno, literal.end_lineno or literal.lineno
    before = cut(lines[first - 1], 0, literal.col_offset)
    behind = cut(lines[last - 1], literal.end_col_offset or 0, None)
    source = "\n".join(lines[first - 1 : last])[len(before) :].removesuffix(behind)
    written = _LITERAL.fullmatch(source)
    if statement is None or written is None:
        return None
    # A backslash after the opening quotes only continues the line.
    text = re.sub(r"\A[ \t]*\\(?=\n)", "", written["text"])
    # Who writes `\begin` with one backslash has forgotten the `r`.
    if "\\" in text and written["prefix"].lower() != "r" and not _BEGIN.search(text):
        text = _evaluated(text)
    opening, *more = text.split("\n")
    column = margin = _margin(more)
    if not any(line.strip() for line in more):
        column = len(before) + written.start("text") + len(opening) - len(opening.lstrip())
    texts = [opening.lstrip(), *(line[margin:] for line in more)]
    note = trimmed_note("docstring", Span(first, last), texts, first, column)
    # Parentheses around a literal begin before it does.
    begins = statement.lineno == first and not before.strip()
    ends = not behind.strip() or (last in comments and is_pragma(comments[last]))
    alone = begins and ends and note.text
    return replace(note, behind=behind.strip()) if alone else None


def trimmed_note(
    kind: Literal["docstring", "comment"], span: Span, texts: Sequence[str], first: int, column: int
) -> Note:
    """A note of the lines `texts`, which begin on line `first`, without blank ones around it."""
    inner = "\n".join(text if text.strip() else "" for text in texts).rstrip("\n")
    text = inner.lstrip("\n")
    return Note(kind, span, text, first + len(inner) - len(text), column)


def _margin(lines: Iterable[str]) -> int:
    """The width of the common indentation of all lines but blank ones."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return len(posixpath.commonprefix(indents))


#: Line on which a class or function begins -> its name, and the first line of its docstring, or 0:
#: notes up to there are those of the header.
Openings = Mapping[int, tuple[str, int]]


def build_sections(
    lines: Sequence[str], notes: Iterable[Note], openings: Openings
) -> tuple[Section, ...]:
    """Pair the notes of a module with its code, line after line."""
    note_at = {note.span.first: note for note in notes}
    # Sections as notes and lines of code; the notes of a header follow its code.
    above: list[Note] = []
    code: list[int] = []
    drafts = [(above, code)]
    number = docstring = 0
    while number < len(lines):
        number += 1
        note, last = note_at.get(number), above[-1] if above else None
        if note:
            ends = number > docstring and not _is_empty(above, code)
        elif not lines[number - 1].strip():
            continue
        elif last and code and code[0] < last.span.first:
            ends = True  # The body follows the docstring of its header.
        else:
            # A comment block directly above a header is its note.
            directly = last and last.kind == "comment" and last.span.last == number - 1
            ends = number in openings and not directly and not _is_empty(above, code)
        if ends:
            drafts.append((above := [], code := []))
        if note:
            above.append(note)
            number = note.span.last
        else:
            code.append(number)
            _, docstring = openings.get(number, ("", docstring))
    return tuple(_section(*draft, openings) for draft in drafts if any(draft))


def _is_empty(notes: Sequence[Note], code: Sequence[int]) -> bool:
    """Whether a section has neither code nor notes, apart from lone ``#``."""
    return not code and not any(note.text or note.kind == "docstring" for note in notes)


def _section(notes: Sequence[Note], code: Sequence[int], openings: Openings) -> Section:
    if _is_empty(notes, code):
        # Lone ``#`` that no code follows are shown as code.
        return Section((), Span(notes[0].span.first, notes[-1].span.last))
    name = next((openings[number][0] for number in code if number in openings), "")
    return Section(tuple(notes), Span(code[0], code[-1]) if code else None, name)


_CONSTANT_WIDTH = 80
# A line break in a signature is removed at brackets, with the comma that may end a list.
_BREAK_AT_BRACKET = re.compile(r"(?<=[(\[{])\n|,?\n(?=[)\]}])")


def parse_module(source: SourceFile, report: Report) -> Module:
    """Parse one source file. Faults go to `report`; the result always shows the whole file."""
    lines, name = source.lines, source.name
    scopes = read_scopes(source)
    if scopes.fault:
        return _unparsed(source, scopes.fault, report)
    comments = {comment.line: comment for comment in _comments(source.text, lines)}
    values: Mapping[str, str] = {}
    docstring = docstring_note(next(iter(scopes.tree.body), None), lines, comments)
    if docstring:
        start = source.display, docstring.first_line, docstring.column
        values, rest, taken = split_front_matter(docstring.text, report, start, own=source.strict)
        text = rest.lstrip("\n")
        first = docstring.first_line + taken + len(rest) - len(text)
        docstring = replace(docstring, text=text, first_line=first)
    notes = [docstring] if docstring else []
    found: dict[str, Definition] = {}
    for constant, node in scopes.constants.items():
        if not constant.startswith("__"):
            written = _assignment(node, lines)
            found[constant] = Definition("constant", name, constant, node.lineno, written)
    openings: dict[int, tuple[str, int]] = {}
    #: Lines that comments do not split: the whole signature beside a docstring. Without one,
    #: comments may annotate single arguments.
    whole_lines: set[int] = set()
    for definer, known in _definers(scopes).items():
        docstring = docstring_note(definer.body[0], lines, comments)
        notes += [docstring] if docstring else []
        signature, last = _header(definer, lines, comments)
        line = first_line(definer)
        whole_lines.update(range(line, (last if docstring else definer.lineno) + 1))
        # Directives directly above a header belong to it.
        while line - 1 in comments and comments[line - 1].alone and is_pragma(comments[line - 1]):
            line -= 1
        openings[line] = known, docstring.span.first if docstring else 0
        if known:
            kind: Literal["class", "method", "function"] = "method" if "." in known else "function"
            kind = "class" if isinstance(definer, ast.ClassDef) else kind
            found[known] = Definition(kind, name, known, definer.lineno, signature)
    # Constants with a section of their own: those with a docstring, and aliases of types.
    constants = {scopes.constants[n]: n for n, d in found.items() if d.kind == "constant"}
    openings |= {
        node.lineno: (known, 0)
        for node, known in constants.items()
        if type(node).__name__ == "TypeAlias"
    }
    for attribute, statement in _attribute_docstrings(scopes.tree):
        if docstring := docstring_note(statement, lines, comments):
            notes.append(docstring)
            known = constants.get(attribute, "")
            openings.setdefault(attribute.lineno, (known, docstring.span.first))
    notes.sort(key=lambda note: note.span.first)
    module = Definition("module", name, "", 1, "")
    definitions = sorted(found.values(), key=lambda definition: definition.line)
    blocks = comment_notes(comments.values(), whole_lines)
    sections = build_sections(lines, [*notes, *blocks], openings)
    exported = _exported(scopes)
    return Module(source, values, (module, *definitions), sections, exported=exported)


def _attribute_docstrings(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Assignments in a module, a class or a constructor, each with what may be its docstring: the
    string below it (PEP 257).
    """
    bodies = [tree.body]
    for node in statements(tree):
        if isinstance(node, ast.ClassDef) or getattr(node, "name", "") == "__init__":
            bodies.append(getattr(node, "body", []))
    for above, below in (pair for body in bodies for pair in pairwise(body)):
        if isinstance(above, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            yield above, below


def _exported(scopes: Scopes) -> frozenset[str]:
    """The names in ``__all__``; none if it cannot be known without running the module.

    What is taken from the ``__all__`` of another module is defined there.
    """
    lists: dict[str, list[str]] = {}

    def texts(node: ast.expr) -> list[str]:
        if isinstance(node, ast.Constant):
            return [str(node.value)]
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [text for each in node.elts for text in texts(each)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return texts(node.left) + texts(node.right)
        if isinstance(node, ast.Call) and name_of(node.func) in ("list", "tuple", "sorted", "set"):
            return [text for each in node.args for text in texts(each)]
        if isinstance(node, ast.Starred):
            return texts(node.value)
        return [] if name_of(node) == "__all__" != getattr(node, "id", "") else lists[name_of(node)]

    def changes(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr, bool]]:
        """The names that statements assign or extend, with what, and whether that is added."""
        for node in body:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    yield name_of(target), node.value, False
            elif isinstance(node, ast.AugAssign):
                yield name_of(node.target), node.value, True
            elif isinstance(call, ast.Call) and name_of(call.func) in ("extend", "append"):
                for value in call.args:
                    yield name_of(getattr(call.func, "value", call)), value, True
            elif isinstance(node, ast.If | ast.Try):
                yield from changes([*node.body, *node.orelse])

    for name, value, adds in changes(scopes.tree.body) if "__all__" in scopes.constants else ():
        try:
            lists[name] = (lists[name] if adds else []) + texts(value)
        except KeyError:
            lists.pop(name, None)
    return frozenset(filter(str.isidentifier, lists.get("__all__", ())))


def _definers(scopes: Scopes) -> dict[Definer, str]:
    """Every class and function, nested ones too, in the order of their lines, with its name.

    Definitions inside functions have no public name. The first of several definitions of a name
    has it, unless that is an ``@overload``.
    """
    prefix = f"{scopes.module.dotted}."
    found = {
        node: f"{scope.dotted}.{node.name}".removeprefix(prefix) * scope.public
        for node, scope in scopes.names
        if isinstance(node, Definer)
    }
    owners: dict[str, Definer] = {}
    for node in sorted(found, key=lambda each: "overload" in decorators(each)):
        owners.setdefault(found[node], node)
    return {node: name if owners[name] is node else "" for node, name in found.items()}


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorated = node.decorator_list if isinstance(node, Definer) else []
    return min([node.lineno, *(each.lineno for each in decorated)])


def _header(
    node: Definer, lines: Sequence[str], comments: Mapping[int, Comment]
) -> tuple[str, int]:
    """The header on one line, ``forward(self, *, query: Tensor) -> Tensor``, and its last line."""
    body = first_line(node.body[0])
    before = cut(lines[body - 1], 0, node.body[0].col_offset)
    filled = {}
    for number, line in enumerate([*lines[node.lineno - 1 : body - 1], before], node.lineno):
        code = line[: comments[number].column] if number in comments else line
        if part := code.strip().removesuffix("\\").rstrip():
            filled[number] = part
    text = _BREAK_AT_BRACKET.sub("", "\n".join(filled.values())).replace("\n", " ")
    shown = text.removesuffix(":").removeprefix("class ").replace("def ", "", 1).strip()
    return shown, max(filled)


def _assignment(node: ast.stmt, lines: Sequence[str]) -> str:
    """The source of a short assignment; of others, the name and ``…``."""
    several = node.end_lineno != node.lineno
    text = cut(lines[node.lineno - 1], node.col_offset, None if several else node.end_col_offset)
    if several or len(text) > _CONSTANT_WIDTH:
        return f"{text.partition('=')[0].rstrip()} = …"
    return text


def _unparsed(source: SourceFile, fault: tuple[int, int, str], report: Report) -> Module:
    lines, (line, column, message) = source.lines, fault
    line = min(line, len(lines))
    hint = (
        "its page shows the source without notes; fix it, or, if its syntax is newer than Python"
        f" {platform.python_version()}, build with a newer Python"
    )
    place, shown = (source.display, line, column * (line > 0)), lines[line - 1][:200] * (line > 0)
    report.fault(False, place, "syntax", message, hint, shown)
    return unparsed(source)


def unparsed(source: SourceFile) -> Module:
    """A module as one section of code."""
    definition = Definition("module", source.name, "", 1, "")
    return Module(source, {}, (definition,), build_sections(source.lines, (), {}), parsed=False)


def _comments(text: str, lines: Sequence[str]) -> Iterator[Comment]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                yield Comment(line, column, token.string, not lines[line - 1][:column].strip())
    except (tokenize.TokenError, SyntaxError):
        # The parser accepts more than the tokenizer. Further comments stay in the code.
        return
