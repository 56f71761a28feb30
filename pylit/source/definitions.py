"""What a module defines: classes, functions, methods and module-level constants, from its ast.

Functions inside functions are not definitions: nothing outside can name them.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pylit.model import Span
from pylit.source.decode import cut
from pylit.source.notes import Comment

_Definer = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Module level goes on inside these; inside loops names only pass through.
_BRANCHES = ast.If | ast.Try | ast.TryStar | ast.With | ast.ExceptHandler
_CONSTANT_WIDTH = 80
# A line break in a signature goes without trace at brackets, with the comma that may end a list.
_BREAK_AT_BRACKET = re.compile(r"(?<=[(\[{])\n|,?\n(?=[)\]}])")


@dataclass(slots=True)
class Header:
    """A ``class`` or ``def`` statement up to its colon, decorators included."""

    node: _Definer
    span: Span
    #: Name inside the module, if this is the definition that stands for it.
    name: str
    kind: Literal["class", "function", "method"]


def definitions(
    tree: ast.Module, lines: Sequence[str]
) -> tuple[list[Header], dict[str, tuple[int, str]]]:
    """Every class and function, nested ones too, by line; and the constants: line and assignment.

    What a function keeps to itself has no name. A name that is defined several times is that of the
    first one that is not an ``@overload``. A constant is what assignments at module level bind,
    loops aside.
    """
    found: list[Header] = []
    constants: dict[str, tuple[int, str]] = {}
    # An explicit stack: `elif` nests as deeply as a chain is long.
    stack: list[tuple[ast.AST, str, bool, bool]] = [(tree, "", True, True)]
    while stack:
        node, prefix, public, top = stack.pop()
        for statement in _statements(node):
            if isinstance(statement, _Definer):
                name = f"{prefix}.{statement.name}" if prefix else statement.name
                is_class = isinstance(statement, ast.ClassDef)
                kind: Literal["class", "function", "method"] = "method" if prefix else "function"
                kind = "class" if is_class else kind
                span = _header_span(statement, lines)
                found.append(Header(statement, span, name if public else "", kind))
                stack.append((statement, name, public and is_class, False))
                continue
            branch = top and isinstance(statement, _BRANCHES)
            stack.append((statement, prefix, public, branch))
            for each in _bound(statement) if top else ():
                line = constants.get(each.id, (each.lineno + 1,))[0]
                if each.lineno < line and not each.id.startswith("__"):
                    constants[each.id] = each.lineno, _assignment(statement, lines)
    found.sort(key=lambda header: header.span.first)
    chosen: dict[str, Header] = {}
    for header in sorted(found, key=lambda header: _is_overload(header.node)):
        if chosen.setdefault(header.name, header) is not header:
            header.name = ""
    return found, constants


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside `node`, in no expression; handlers and cases count as such."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        inside = getattr(node, name, ())
        # A lambda and a conditional expression have a body too, but not a list.
        if isinstance(inside, list):
            yield from inside


def _header_span(node: _Definer, lines: Sequence[str]) -> Span:
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
    decorators = node.decorator_list if isinstance(node, _Definer) else ()
    return min([node.lineno, *(each.lineno for each in decorators)])


def _is_overload(node: _Definer) -> bool:
    names = (getattr(d, "attr", getattr(d, "id", "")) for d in node.decorator_list)
    return "overload" in names


def signature(header: Header, lines: Sequence[str], comments: Mapping[int, Comment]) -> str:
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


def _bound(statement: ast.AST) -> Iterator[ast.Name]:
    """The names that an assignment binds, or a ``type`` statement of newer Pythons."""
    if type(statement).__name__ in ("Assign", "AnnAssign", "TypeAlias"):
        target = getattr(statement, "target", None) or getattr(statement, "name", None)
        for each in getattr(statement, "targets", [target]):
            names = getattr(each, "elts", [each])
            yield from (name for name in names if isinstance(name, ast.Name))


def _assignment(node: ast.AST, lines: Sequence[str]) -> str:
    """As written; of a long value, or one on several lines, only that there is one."""
    assert isinstance(node, ast.stmt)
    several = node.end_lineno != node.lineno
    text = cut(lines[node.lineno - 1], node.col_offset, None if several else node.end_col_offset)
    if several or len(text) > _CONSTANT_WIDTH:
        return f"{text.partition('=')[0].rstrip()} = …"
    return text
