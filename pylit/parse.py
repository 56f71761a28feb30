"""Modules and Markdown pages as sections of notes and code.

A module is read by `tokenize` for its comments and by `ast` for everything else. Its docstrings and
comment blocks are notes, the other lines code; notes and code together are every line of the file.
A page, and the docstring of a module, may begin with front matter, fenced by ``---``:

    ---
    title: Multi-head attention
    summary: >
      Folded over several lines, as YAML does it, and `|` keeps the lines apart.
    ---

Every value is text: ``no`` stays ``no``, and ``1.10`` stays ``1.10``.
"""

import ast
import hashlib
import io
import posixpath
import re
import sys
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from pylit.diagnostics import Report
from pylit.discover import read_bytes, read_source
from pylit.model import Definition, Module, Note, Section, SourceFile, Span
from pylit.scopes import Definer, Fault, Scopes, cut, decorators, read_scopes

_KEY = re.compile(r"[A-Za-z_][\w.-]*[ \t]*:(?:[ \t]|$)")


def split_front_matter(
    text: str,
    report: Report,
    path: str = "",
    first_line: int = 1,
    column: int = 0,
    *,
    own: bool = True,
) -> tuple[dict[str, str], str, int]:
    """Take the front matter off `text`: its values, the rest, and how many lines were taken.

    Line 0 of the rest is line `n` of `text`. Blank lines may stand before the opening ``---``,
    which may also be a horizontal rule: it opens front matter only if a key follows it.
    Without front matter the result is ``({}, text, 0)``. Faults are reported as if line 0 of `text`
    stood on `first_line` of `path`, `column` characters from the left.
    """
    lines = text.split("\n")
    opening = next((i for i, line in enumerate(lines) if line.strip()), 0)
    below = range(opening + 1, len(lines))
    key = next((lines[i] for i in below if lines[i] and not lines[i].startswith("#")), "")
    if lines[opening].rstrip() != "---" or not _KEY.match(key):
        return {}, text, 0
    closing = next((i for i in below if lines[i].rstrip() in ("---", "...")), -1)
    values: dict[str, str] = {}
    fault = None
    try:
        # Without types, so that what looks like a number or a date stays the text that it is.
        found = yaml.load("\n".join(lines[opening + 1 : max(closing, 0)]), yaml.BaseLoader) or {}
        values = {key: value.strip() for key, value in found.items() if isinstance(value, str)}
        if closing < 0:
            fault = opening, "front matter is never closed", "end it with a line `---`"
        elif other := next(iter(found.keys() - values.keys()), ""):
            fault = opening, f"`{other}` is not text", "put its value in quotes"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = opening + 1 + min(mark.line if mark else 0, closing - opening - 2)
        message = f"it is not YAML: {getattr(error, 'problem', error)}"
        fault = line, message, "write `key: value`, with quotes around a colon"
    if fault:
        index, message, hint = fault
        place = path, first_line + index, column + 1
        report.fault(own, place, "front-matter", message, hint, " " * column + lines[index])
    return values, "\n".join(lines[closing + 1 :]), closing + 1


# Directives to tools. They tell readers nothing, and stay in the code that they are about.
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
    r"""[rRuU]?(?P<quote>\"{3}|'{3}|["'])(?P<text>(?:[^\\"']++|\\.|(?!(?P=quote)).)*+)(?P=quote)""",
    re.DOTALL,
)
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
# Blocks that are no summary: anchors and other HTML, code, mathematics, tables, images, rules.
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
    """Whether a comment is a directive to a tool: ``# noqa``, ``# fmt: off``, ``#!``."""
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
    node: ast.Module | Definer, lines: Sequence[str], comments: Mapping[int, Comment]
) -> tuple[Note | None, str]:
    """The docstring of `node` as a note, if it has its lines for itself; and its text in any case.

    A docstring on the header's line, one with code behind it, one put together from several
    literals, one without text: each stays in the code, where nothing of it is lost. A directive
    (``# noqa``) may stand behind a docstring.
    """
    statement = node.body[0] if node.body else None
    literal = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
        return None, ""
    first, last = literal.lineno, literal.end_lineno or literal.lineno
    before = cut(lines[first - 1], 0, literal.col_offset)
    behind = cut(lines[last - 1], literal.end_col_offset or 0, None)
    source = "\n".join(lines[first - 1 : last])[len(before) :].removesuffix(behind)
    written = _LITERAL.fullmatch(source)
    if written is None:
        return None, ""
    opening, *more = written["text"].split("\n")
    if opening.strip() == "\\":
        # A backslash after the opening quotes only keeps the first line empty.
        opening = ""
    margin = _margin(more)
    column = len(before) + written.start("text") + len(opening) - len(opening.lstrip())
    column = margin if any(line.strip() for line in more) else column
    texts = [opening.lstrip(), *(line[margin:] for line in more)]
    note = trimmed_note("docstring", Span(first, last), texts, first, column)
    # Parentheses around a literal begin before it does.
    begins = node.body[0].lineno == first and not before.strip()
    ends = not behind.strip() or (last in comments and is_pragma(comments[last]))
    alone = begins and ends and note.text
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
    """The width of the common indentation of all lines but blank ones."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return len(posixpath.commonprefix(indents))


#: Line on which a class or function begins -> the name its section carries, and the first line of
#: the docstring that the header waits for, if there is one: notes up to it are the header's.
Openings = Mapping[int, tuple[str, int]]


@dataclass(slots=True)
class _Draft:
    """A section in the making: notes, then code, then perhaps the notes of a header."""

    notes: list[Note] = field(default_factory=list)
    first: int = 0
    last: int = 0
    definition: str = ""

    def is_empty(self) -> bool:
        """Whether it holds nothing yet, or only lone ``#``."""
        return not self.first and not any(n.text or n.kind == "docstring" for n in self.notes)

    def takes_code(self, number: int, *, opens: bool) -> bool:
        """Whether a line of code continues it; `opens` if a class or function begins there."""
        if self.first and self.notes and self.notes[-1].span.first > self.first:
            return False
        # A comment block directly above a header is its note.
        above = self.notes[-1] if self.notes and not self.first else None
        directly = above and above.kind == "comment" and above.span.last == number - 1
        return bool(not opens or directly or self.is_empty())

    def section(self) -> Section:
        if self.is_empty():
            # Lone ``#`` that no code follows are shown as code.
            return Section((), Span(self.notes[0].span.first, self.notes[-1].span.last))
        code = Span(self.first, self.last) if self.first else None
        return Section(tuple(self.notes), code, self.definition)


def build_sections(
    lines: Sequence[str], notes: Iterable[Note], openings: Openings
) -> tuple[Section, ...]:
    """Pair the notes of a module with its code, line after line."""
    note_at = {note.span.first: note for note in notes}
    drafts = [draft := _Draft()]
    number = docstring = 0
    while number < len(lines):
        number += 1
        if note := note_at.get(number):
            if number > docstring and not draft.is_empty():
                drafts.append(draft := _Draft())
            draft.notes.append(note)
            number = note.span.last
        elif lines[number - 1].strip():
            if not draft.takes_code(number, opens=number in openings):
                drafts.append(draft := _Draft())
            if number in openings:
                draft.definition, docstring = openings[number]
            draft.first, draft.last = draft.first or number, number
    return tuple(draft.section() for draft in drafts if draft.notes or draft.first)


_CONSTANT_WIDTH = 80
# A line break in a signature goes without trace at brackets, with the comma that may end a list.
_BREAK_AT_BRACKET = re.compile(r"(?<=[(\[{])\n|,?\n(?=[)\]}])")


def parse_module(source: SourceFile, report: Report) -> Module:
    """Parse one source file. Faults go to `report`; the result always shows the whole file."""
    lines, name = source.lines, source.name
    scopes = read_scopes(source)
    if scopes.fault:
        return _unparsed(source, scopes.fault, report)
    comments = {comment.line: comment for comment in _comments(source.text, lines)}
    values: Mapping[str, str] = {}
    docstring, text = docstring_note(scopes.tree, lines, comments)
    if docstring:
        values, docstring = _front_matter(docstring, source, report)
        text = docstring.text
    notes = [docstring] if docstring else []
    module = Definition("module", name, "", 1, "", values.get("summary") or first_paragraph(text))
    #: Name -> the definition, the line below a comment about it, and its docstring.
    found: dict[str, tuple[Definition, int, str]] = {}
    for constant, node in scopes.constants.items():
        if not constant.startswith("__"):
            written = _assignment(node, lines)
            defined = Definition("constant", name, constant, node.lineno, written, "")
            found[constant] = defined, node.lineno, ""
    openings: dict[int, tuple[str, int]] = {}
    #: Lines that comments do not split. With a docstring the whole signature stands beside it;
    #: without one, comments may annotate single arguments.
    whole_lines: set[int] = set()
    for definer, known in _definers(scopes).items():
        docstring, text = docstring_note(definer, lines, comments)
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
            found[known] = Definition(kind, name, known, definer.lineno, signature, ""), line, text
    blocks = comment_notes(comments.values(), whole_lines)
    above = {block.span.last + 1: block.text for block in blocks}
    definitions = [
        replace(defined, summary=first_paragraph(text or above.get(line, "")))
        for defined, line, text in sorted(found.values(), key=lambda item: item[0].line)
    ]
    sections = build_sections(lines, [*notes, *blocks], openings)
    return Module(source, values, (module, *definitions), sections)


def _definers(scopes: Scopes) -> dict[Definer, str]:
    """Every class and function, nested ones too, in the order of their lines, with its name.

    What a function defines has no name that others can use. A name that is defined several times
    is that of the first definition that is not an ``@overload``.
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


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definer) else ()
    return min([node.lineno, *(each.lineno for each in decorators)])


def _header(
    node: Definer, lines: Sequence[str], comments: Mapping[int, Comment]
) -> tuple[str, int]:
    """The header on one line, ``forward(self, *, query: Tensor) -> Tensor``, and its last line."""
    body = first_line(node.body[0])
    before = cut(lines[body - 1], 0, node.body[0].col_offset)
    parts = {}
    for number, line in enumerate([*lines[node.lineno - 1 : body - 1], before], node.lineno):
        code = line[: comments[number].column] if number in comments else line
        parts[number] = code.strip().removesuffix("\\").rstrip()
    filled = {number: part for number, part in parts.items() if part}
    text = _BREAK_AT_BRACKET.sub("", "\n".join(filled.values())).replace("\n", " ")
    shown = text.removesuffix(":").removeprefix("class ").replace("def ", "", 1).strip()
    return shown, max(filled)


def _assignment(node: ast.stmt, lines: Sequence[str]) -> str:
    """As written; of a long value, or one on several lines, only that there is one."""
    several = node.end_lineno != node.lineno
    text = cut(lines[node.lineno - 1], node.col_offset, None if several else node.end_col_offset)
    if several or len(text) > _CONSTANT_WIDTH:
        return f"{text.partition('=')[0].rstrip()} = …"
    return text


def _unparsed(source: SourceFile, fault: Fault, report: Report) -> Module:
    lines, (line, column, message) = source.lines, fault
    line = min(line, len(lines))
    version = ".".join(map(str, sys.version_info[:2]))
    hint = (
        "its page shows the source without notes; fix it, or, if its syntax is newer than Python"
        f" {version}, build with a newer Python"
    )
    place = source.display, line, column if line else 0
    shown = lines[line - 1][:200] if line else ""
    report.fault(False, place, "syntax", message, hint, shown)
    definition = Definition("module", source.name, "", 1, "", "")
    return Module(source, {}, (definition,), build_sections(lines, (), {}), parsed=False)


def _comments(text: str, lines: Sequence[str]) -> Iterator[Comment]:
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
    values, rest, taken = split_front_matter(note.text, report, *place, own=source.own)
    first_line = note.first_line + taken
    left = trimmed_note(note.kind, note.span, rest.split("\n"), first_line, note.column)
    return values, replace(left, behind=note.behind)


def read_pages(folder: Path, display: str, report: Report) -> list[Module]:
    """The pages in a folder, sorted by name; a missing folder holds none.

    `display` is what diagnostics call the folder.
    """
    paths = sorted(path for path in folder.rglob("*.md") if path.is_file())
    pages = (read_page(path, folder, display, report) for path in paths)
    return [page for page in pages if page is not None]


def read_static(folder: Path, display: str, report: Report) -> dict[str, bytes]:
    """The other files in the folder, hidden ones left out, by their path in the site."""
    files: dict[str, bytes] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.suffix != ".md" and not f"/{name}".count("/."):
            data = read_bytes(path, f"{display}/{name}", own=True, report=report)
            files |= {name: data} if data is not None else {}
    return files


def read_page(path: Path, folder: Path, display: str, report: Report) -> Module | None:
    """One page; None, with the reason in `report`, if it cannot be read."""
    name = path.relative_to(folder).as_posix()
    shown = f"{display}/{name}"
    name = name.removesuffix(".md")
    source = read_source(path, name=name, display=shown, own=True, report=report)
    if source is None:
        return None
    values, rest, taken = split_front_matter(source.text, report, shown)
    return text_module(source, values, rest, taken + 1)


def text_module(source: SourceFile, values: Mapping[str, str], text: str, first: int) -> Module:
    """A source that is one note and no code: `text`, which begins on its line `first`."""
    source = replace(source, digest=hashlib.sha256(source.text.encode()).hexdigest())
    note = Note("docstring", Span(1, source.text.count("\n") + 1), text, first, 0)
    return Module(source, values, (), (Section((note,), None),))
