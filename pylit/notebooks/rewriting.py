"""A class or function as the code of a cell.

A class cannot be spread over cells, so it is one, and what its methods have to say stands in the
cell above, under their names, with its formulas set. Of each long docstring its title stays, and
finds the two together. What is said between the lines of a function stays there, in plain words.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pylit.model import Note, SourceFile
from pylit.notebooks.wording import Wording
from pylit.source.definitions import first_line

#: Columns of the library's code.
WIDTH = 88

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

_TITLE = re.compile(r"#{1,6} (.+?)(?:\s*\{#[\w.-]+\})?\s*(?:\n|$)")
#: What makes a docstring more than a line of code can show.
_RICH = re.compile(r"^\s*(?:\* |\| |\$\$|```|#|>)|!\[", re.MULTILINE)
#: A docstring of so few lines may stay where it is.
_SHORT = 3


@dataclass(slots=True)
class Rewritten:
    """The code of a definition, and the notes that were taken out of it, with what they explain."""

    code: str
    #: Qualified name -> note.
    notes: list[tuple[str, Note]] = field(default_factory=list)


def title_of(text: str) -> tuple[str, str]:
    """The heading that opens a note, or nothing, and the rest."""
    match = _TITLE.match(text)
    return (match[1], text[match.end() :].strip("\n")) if match else ("", text)


class Rewriter:
    """Rewrites definitions of one module.

    Args:
        source: The module.
        notes: Its notes, by their first lines.
        wording: What comments say in a notebook.
    """

    def __init__(self, source: SourceFile, notes: Mapping[int, Note], wording: Wording) -> None:
        self._source = source
        self._notes = notes
        self._wording = wording

    def __call__(self, node: Definition) -> Rewritten:
        """The definition as a cell."""
        first, last = first_line(node, self._source.lines), node.end_lineno or node.lineno
        result = Rewritten("")
        replaced: dict[int, tuple[int, list[str]]] = {}
        for owner, name in _documented(node, ""):
            literal = owner.body[0]
            note = self._notes.get(literal.lineno) if _is_docstring(literal) else None
            if note is None or not note.text:
                continue
            kept = self._kept(owner, note, outermost=owner is node)
            if kept is None:
                continue
            result.notes.append((name, note))
            replaced[note.span.first] = (note.span.last, kept)
        for line, note in self._notes.items():
            if first < line <= last and line not in replaced and note.kind == "comment":
                replaced[line] = (note.span.last, self._comment(note))
        result.code = "\n".join(_joined(self._source.lines, first, last, replaced))
        return result

    def _kept(self, owner: Definition, note: Note, *, outermost: bool) -> list[str] | None:
        """What stays of a docstring; None if it stays as it is."""
        title, rest = title_of(note.text)
        rich = _RICH.search(note.text) or note.text.count("\n") >= _SHORT
        indent = " " * owner.body[0].col_offset
        if not outermost and not rich:
            plain = self._wording.comment(note.text, self._source, WIDTH - len(indent) - 6)
            return None if plain == note.text else _docstring(plain, indent)
        if title:
            return _docstring(_sentence(self._plain(title)), indent)
        if len(owner.body) == 1:
            opening = self._plain(rest.split("\n\n")[0].replace("\n", " "))
            return _docstring(opening, indent)
        return []

    def _plain(self, text: str) -> str:
        return self._wording.comment(text, self._source, 10_000)

    def _comment(self, note: Note) -> list[str]:
        line = self._source.lines[note.span.first - 1]
        indent = line[: len(line) - len(line.lstrip())]
        text = self._wording.comment(note.text, self._source, WIDTH - len(indent) - 2)
        return [f"{indent}# {words}".rstrip() for words in text.split("\n")] if text else []


def _documented(node: Definition, prefix: str) -> Iterator[tuple[Definition, str]]:
    """A definition and those directly inside of classes, with their qualified names."""
    name = f"{prefix}.{node.name}" if prefix else node.name
    yield node, name
    if isinstance(node, ast.ClassDef):
        for statement in node.body:
            if isinstance(statement, Definition):
                yield from _documented(statement, name)


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _docstring(text: str, indent: str) -> list[str]:
    mark = 'r"""' if "\\" in text else '"""'
    lines = text.split("\n")
    if len(lines) == 1 and len(indent) + len(text) + len(mark) + 3 <= WIDTH:
        return [f'{indent}{mark}{text}"""']
    body = [f"{indent}{line}".rstrip() for line in lines]
    return [indent + mark, *body, f'{indent}"""']


def _sentence(title: str) -> str:
    return title if title.endswith((".", "?", "!", ":")) else f"{title}."


def _joined(
    lines: Sequence[str], first: int, last: int, replaced: Mapping[int, tuple[int, list[str]]]
) -> Iterator[str]:
    """Lines with some replaced; after what vanished no blank line is left."""
    number, before = first, ""
    while number <= last:
        if number in replaced:
            end, new = replaced[number]
            yield from new
            before = new[-1] if new else before
            number = end + 1
            if not new:
                while number <= last and not lines[number - 1].strip():
                    number += 1
            continue
        before = lines[number - 1]
        yield before
        number += 1
