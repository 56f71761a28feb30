"""What a module defines: classes, functions, methods and module-level constants, from its ast.

Functions inside functions are not definitions: nothing outside can name them.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pylit.model import Span

_Definer = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Module level goes on inside these; inside loops names only pass through.
_BRANCHES = ast.If | ast.Try | ast.TryStar | ast.With | ast.ExceptHandler
_CONSTANT_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Header:
    """A ``class`` or ``def`` statement up to its colon, decorators included."""

    node: _Definer
    span: Span
    #: Name inside the module; empty for what a function keeps to itself.
    qualname: str
    kind: Literal["class", "function", "method"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A module-level name bound by an assignment."""

    name: str
    line: int
    signature: str


def headers(tree: ast.Module, lines: Sequence[str], quiet_lines: frozenset[int]) -> list[Header]:
    """Every class and function of a module, nested ones too, in the order of their lines.

    `quiet_lines` are those with only a comment, which a header may be followed by.
    """
    found: list[Header] = []
    # An explicit stack: `elif` nests as deeply as a chain is long.
    stack: list[tuple[ast.AST, str, bool]] = [(tree, "", True)]
    while stack:
        node, prefix, public = stack.pop()
        for statement in _statements(node):
            if not isinstance(statement, _Definer):
                stack.append((statement, prefix, public))
                continue
            qualname = f"{prefix}.{statement.name}" if prefix else statement.name
            is_class = isinstance(statement, ast.ClassDef)
            span = _header_span(statement, lines, quiet_lines)
            kind: Literal["class", "function", "method"] = (
                "class" if is_class else "method" if prefix else "function"
            )
            found.append(Header(statement, span, qualname if public else "", kind))
            stack.append((statement, qualname, public and is_class))
    return sorted(found, key=lambda header: header.span.first)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside `node`, in no expression; handlers and cases count as such."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        inside = getattr(node, name, ())
        # A lambda and a conditional expression have a body too, but not a list.
        if isinstance(inside, list):
            yield from inside


def _header_span(node: _Definer, lines: Sequence[str], quiet_lines: frozenset[int]) -> Span:
    """The lines of a header: from its first decorator to the line with its colon."""
    body = node.body[0]
    last = first_line(body, lines)
    shares_line = last == body.lineno and lines[last - 1].encode()[: body.col_offset].strip()
    if not shares_line:
        # Between the colon and the body there is nothing but blank lines and comments.
        last -= 1
        while not lines[last - 1].strip() or last in quiet_lines:
            last -= 1
    return Span(first_line(node, lines), last)


def first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """The line on which a statement begins, decorators included."""
    decorators = node.decorator_list if isinstance(node, _Definer) else []
    if not decorators:
        return node.lineno
    # The ast knows where the expression begins; `@(` may stand on a line above it.
    line = decorators[0].lineno
    while not lines[line - 1].lstrip().startswith("@"):
        line -= 1
    return line


def is_overload(node: _Definer) -> bool:
    """Whether a function is only a typed variant of another, by ``@overload``."""
    return any(
        (isinstance(d, ast.Name) and d.id == "overload")
        or (isinstance(d, ast.Attribute) and d.attr == "overload")
        for d in node.decorator_list
    )


def preferred(found: Iterable[Header]) -> dict[str, Header]:
    """The header that stands for each name: the first one that is not an overload."""
    chosen: dict[str, Header] = {}
    for header in found:
        if not header.qualname:
            continue
        earlier = chosen.get(header.qualname)
        if earlier is None or (is_overload(earlier.node) and not is_overload(header.node)):
            chosen[header.qualname] = header
    return chosen


def signature(node: _Definer, lines: Sequence[str]) -> str:
    """The header as one line, as written: ``forward(self, *, query: Tensor) -> Tensor``."""
    if isinstance(node, ast.ClassDef):
        inside = [expression_source(base, lines) for base in node.bases]
        inside += [_keyword(keyword, lines) for keyword in node.keywords]
        bases = f"({', '.join(inside)})" if inside else ""
        return f"{node.name}{_type_parameters(node, lines)}{bases}"
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    arguments = ", ".join(_arguments(node.args, lines))
    returns = f" -> {expression_source(node.returns, lines)}" if node.returns else ""
    return f"{prefix}{node.name}{_type_parameters(node, lines)}({arguments}){returns}"


def _arguments(arguments: ast.arguments, lines: Sequence[str]) -> Iterator[str]:
    """The arguments of a function, with annotations and defaults, and the `/` and `*` between."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        yield _argument(argument, default, lines)
        if index + 1 == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield "*" + _argument(arguments.vararg, None, lines)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default, lines)
    if arguments.kwarg:
        yield "**" + _argument(arguments.kwarg, None, lines)


def _argument(argument: ast.arg, default: ast.expr | None, lines: Sequence[str]) -> str:
    text = argument.arg
    if argument.annotation:
        text += f": {expression_source(argument.annotation, lines)}"
    if default is None:
        return text
    equals = " = " if argument.annotation else "="
    return f"{text}{equals}{expression_source(default, lines)}"


def _keyword(keyword: ast.keyword, lines: Sequence[str]) -> str:
    value = expression_source(keyword.value, lines)
    return f"{keyword.arg}={value}" if keyword.arg else f"**{value}"


def _type_parameters(node: _Definer, lines: Sequence[str]) -> str:
    """``[T]``, which Python has from 3.12 on."""
    parameters: list[ast.expr] = getattr(node, "type_params", [])
    if not parameters:
        return ""
    return f"[{', '.join(expression_source(parameter, lines) for parameter in parameters)}]"


def expression_source(node: ast.expr, lines: Sequence[str]) -> str:
    """An expression as one line: as written if it is on one, else as ``ast`` writes it."""
    if node.lineno == node.end_lineno:
        line = lines[node.lineno - 1]
        if line.isascii():
            return line[node.col_offset : node.end_col_offset]
        return line.encode()[node.col_offset : node.end_col_offset].decode()
    try:
        return ast.unparse(node)
    except RecursionError:
        return "…"


def constants(tree: ast.Module, lines: Sequence[str]) -> dict[str, Constant]:
    """The names that assignments at module level bind, loops aside; the first one of each."""
    found: dict[str, Constant] = {}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for statement in _statements(node):
            if isinstance(statement, _BRANCHES):
                stack.append(statement)
                continue
            for target, text in _bindings(statement, lines):
                if target.id.startswith("__"):
                    continue
                constant = Constant(target.id, target.lineno, text)
                earlier = found.get(target.id)
                if earlier is None or constant.line < earlier.line:
                    found[target.id] = constant
    return found


def _bindings(statement: ast.AST, lines: Sequence[str]) -> Iterator[tuple[ast.Name, str]]:
    """The names that one assignment binds, each with its assignment as one line."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        text = f"{statement.target.id}: {expression_source(statement.annotation, lines)}"
        yield statement.target, text + _value(text, statement.value, lines)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target, target.id + _value(target.id, statement.value, lines)
            elif isinstance(target, ast.Tuple | ast.List):
                names = [e for e in target.elts if isinstance(e, ast.Name)]
                yield from ((name, name.id) for name in names)
    elif sys.version_info >= (3, 12) and isinstance(statement, ast.TypeAlias):
        yield statement.name, statement.name.id + _value(statement.name.id, statement.value, lines)


def _value(before: str, value: ast.expr | None, lines: Sequence[str]) -> str:
    """`` = value``, cut short where it is long."""
    if value is None:
        return ""
    text = " = …"
    if value.lineno == value.end_lineno:
        text = f" = {expression_source(value, lines)}"
    return text if len(before) + len(text) <= _CONSTANT_WIDTH else " = …"
