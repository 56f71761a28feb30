"""What the classes and functions of a module use: the names in their code that lead somewhere."""

import ast
from collections.abc import Mapping

from pylit.code.scopes import Scopes
from pylit.model import Link

#: Name of a class or function at the top of a module -> addresses of what its code names, in order.
Uses = Mapping[str, tuple[str, ...]]

#: Name of a function at the top of a module -> address of the method that it is a kernel for.
Kernels = Mapping[str, str]

_DEFINERS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def read_uses(scopes: Scopes, links: Mapping[tuple[int, int], Link]) -> Uses:
    """What each class and function at the top of a module uses; `links` are those of its code."""
    tops = [
        node
        for node, scope in scopes.stored
        if scope is scopes.module and isinstance(node, _DEFINERS)
    ]
    by_line: dict[int, list[str]] = {}
    for place, link in sorted(links.items()):
        if not link.external and "#" in link.url:
            by_line.setdefault(place[0], []).append(_top(link.url))
    found: dict[str, dict[str, None]] = {}
    for node in tops:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        lines = range(first, (node.end_lineno or node.lineno) + 1)
        used = (address for line in lines for address in by_line.get(line, ()))
        # One that is defined twice, for two systems say, uses what either does.
        found.setdefault(node.name, {}).update(dict.fromkeys(used))
    return {name: tuple(used) for name, used in found.items()}


def read_kernels(scopes: Scopes, links: Mapping[tuple[int, int], Link]) -> Kernels:
    """The functions decorated with ``@kernel_for(Class.method, ...)``, each with that method.

    A package that attaches faster implementations from outside registers them in this way; the page
    of the method then names them.
    """
    found = {}
    for node, scope in scopes.stored:
        if scope is not scopes.module or not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) or not decorator.args:
                continue
            called, method = decorator.func, decorator.args[0]
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name != "kernel_for" or not isinstance(method, ast.Attribute):
                continue
            first = method.value.end_col_offset or 0
            last = method.end_col_offset or 0
            for (line, column), link in links.items():
                inside = line == method.end_lineno and first <= column <= last
                if inside and not link.external and "#" in link.url:
                    found[node.name] = link.url
    return found


def _top(url: str) -> str:
    """The address of the class or function at the top of its module that has what is at `url`."""
    page, _, anchor = url.partition("#")
    return f"{page}#{anchor.partition('.')[0]}"
