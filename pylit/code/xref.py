"""Links from names in code and notes to where they are defined, found without importing anything.

`targets` says what one module defines and what its syntax tells of it. An `Index` joins the
targets of all modules. A `Resolver` follows the names of one module through them: all that it
learns of other modules comes through its `Lookup`, so that a build can record what a page depends
on. Where the syntax leaves room for doubt there is no link.
"""

import ast
import re
from collections.abc import Iterator, Mapping

from pylit.code.external import external_link, is_external_module
from pylit.code.facts import BUILTINS, read_module, targets
from pylit.code.index import Index, Lookup
from pylit.code.scopes import Defined, Receiver, Scope
from pylit.code.uses import Kernels, Uses, read_kernels, read_uses
from pylit.code.values import Value, Values
from pylit.code.variables import Variables
from pylit.model import Link, Module

__all__ = ["Index", "Lookup", "Resolver", "targets"]

#: Position of an identifier (line from 1, column in bytes from 0), the identifier, its link.
Found = tuple[int, int, str, Link]

#: Inline code that may name a thing: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
#: Names that everybody gives to modules, for notes whose module does not import them.
_CUSTOMARY = {"nn": "torch.nn", "F": "torch.nn.functional"}
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration")


class Resolver:
    """Follows the names in one module's code and notes to where they are defined."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        self._module = module
        self._scopes = read_module(module)
        self._values = Values(module.source.name, lookup)

    def tokens(self) -> Mapping[tuple[int, int], Link]:
        """Links of the module's code by position: line from 1, offset in the line from 0."""
        if self._scopes is None:
            return {}
        lines = self._module.source.lines
        found: dict[tuple[int, int], Link] = {}
        for line, column, name, link in self._links():
            text = lines[line - 1]
            if not text.isascii():
                column = len(text.encode()[:column].decode(errors="ignore"))
            if text.startswith(name, column):
                found[line, column] = link
        return found

    def variables(self) -> Variables | None:
        """The names in the module's code, for those who ask where they stand."""
        return Variables(self._module, self._scopes, self._values) if self._scopes else None

    def uses(self, links: Mapping[tuple[int, int], Link]) -> Uses:
        """What the classes and functions of the module use, by its `tokens`."""
        return read_uses(self._scopes, links) if self._scopes is not None else {}

    def kernels(self, links: Mapping[tuple[int, int], Link]) -> Kernels:
        """The methods that functions of the module are kernels for, by its `tokens`."""
        return read_kernels(self._scopes, links) if self._scopes is not None else {}

    def _links(self) -> Iterator[Found]:
        """Every identifier that leads somewhere."""
        assert self._scopes is not None
        linked = [(node, self._use(node, scope)) for node, scope in self._scopes.uses]
        # In `torch.nn.Linear` the last name has the link; three would only be more to tab through.
        covered = {node.value for node, link in linked if link and isinstance(node, ast.Attribute)}
        for node, link in linked:
            if link is None or (node in covered and self._is_module(link)):
                continue
            if isinstance(node, ast.Name):
                yield node.lineno, node.col_offset, node.id, link
            else:
                assert node.end_lineno is not None and node.end_col_offset is not None
                column = node.end_col_offset - len(node.attr.encode())
                yield node.end_lineno, column, node.attr, link
        for statement in self._scopes.imports:
            yield from self._import_links(statement)

    def _is_module(self, link: Link) -> bool:
        target = self._values.target(link.name)
        if target is not None:
            return target.definition.kind == "module"
        return is_external_module(link.name)

    def _use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Link | None:
        """Link of a name or attribute that is read in `scope`."""
        if isinstance(node, ast.Name) and not _is_telling(node, scope):
            return None
        try:
            value = self._values.value(node, scope)
            if value is None or value.name:
                return self._values.link(value)
            assert self._scopes is not None
            shown = self._telling(value.of) if isinstance(node, ast.Attribute) else None
            if node in self._scopes.called:
                shown = self._values.call(value.of) or self._telling(value.of)
            return self._values.link(shown)
        except RecursionError:  # generated code nests deeper than Python's stack is high
            return None

    def _telling(self, dotted: str) -> Value | None:
        """The class of an instance, where that says more than `int` or `Tensor`."""
        known = dotted.startswith(("torch.nn.", "torch.optim."))
        return Value(dotted) if known or self._values.target(dotted) is not None else None

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[Found]:
        assert self._scopes is not None
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._path_links("", alias.name, alias.lineno, alias.col_offset)
            return
        origin = self._scopes.origin(node)
        line = self._module.source.lines[node.lineno - 1].encode()
        written = re.compile(rb"from[ \t]*\.*[ \t]*").match(line, node.col_offset)
        if origin and node.module and written:
            package = origin.removesuffix(node.module)
            yield from self._path_links(package, node.module, node.lineno, written.end())
        for alias in node.names if origin else ():
            if alias.name == "*":
                continue
            link = self._values.link(self._values.described(f"{origin}.{alias.name}"))
            if link is not None:
                yield alias.lineno, alias.col_offset, alias.name, link

    def _path_links(self, package: str, path: str, line: int, column: int) -> Iterator[Found]:
        """Links of the parts of ``a.b.c``, each to its module."""
        dotted = package
        for part in path.split("."):
            dotted += part
            target = self._values.target(dotted)
            link = external_link(dotted) if target is None else None
            if target is not None and target.definition.kind == "module":
                link = Link(target.url, target.definition.dotted)
            if link is not None:
                yield line, column, part, link
            dotted += "."
            column += len(part.encode()) + 1

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a thing.

        `within` is the qualified name of the definition that the note belongs to: there, `self`
        and the names of the class's methods are known.
        """
        path = _PATH.fullmatch(code.strip())
        if path is not None:
            return self._module_link(path["path"].removesuffix("/__init__").replace("/", "."))
        written = _DOTTED.fullmatch(code.strip())
        if written is None:
            return None
        name, called = written["name"], bool(written["call"])
        for value in self._readings(name, within):
            link = self._values.link(value)
            if link is not None and (called or "." in name or self._is_distinct(name, link)):
                return link
        return None

    def _module_link(self, path: str) -> Link | None:
        """Link to the module of a file, named from the top or from a package around this module."""
        for package in ("", *self._packages()):
            target = self._values.target(f"{package}{path}")
            if target is not None and target.definition.kind == "module":
                return Link(target.url, target.definition.dotted)
        return None

    def _packages(self) -> Iterator[str]:
        """The packages around the module, from the inside out, each with a dot behind it."""
        package = self._module.source.name + (".x" if self._module.source.is_package else "")
        while "." in package:
            package = package.rpartition(".")[0]
            yield f"{package}."

    def _readings(self, name: str, within: str) -> Iterator[Value | None]:
        """What a name in a note may mean, the nearest meaning first."""
        values = self._values
        head, *rest = name.split(".")
        for owner in self._classes_around(within):
            receiver = head in ("self", "cls")
            yield self._follow(Value(of=owner) if receiver else values.member(owner, head), rest)
        if self._scopes is not None:
            yield self._follow(values.named(head, self._scopes.module), rest)
            if head in self._scopes.module.bindings:
                return
        if not rest:
            yield Value(name) if name == "torch" else self._existing(name)
        else:
            yield self._follow(Value(_CUSTOMARY.get(head, head)), rest)
            for package in self._packages():
                yield self._follow(self._existing(f"{package}{head}"), rest)
        if rest or head[0].isupper() or "_" in head:
            yield self._follow(self._existing(f"*.{head}"), rest)

    def _classes_around(self, within: str) -> Iterator[str]:
        """The classes that a definition of this module is in, itself first if it is one."""
        while within:
            dotted = f"{self._module.source.name}.{within}"
            target = self._values.target(dotted)
            if target is not None and target.definition.kind == "class":
                yield dotted
            within = within.rpartition(".")[0]

    def _existing(self, dotted: str) -> Value | None:
        target = self._values.target(dotted)
        return self._values.described(target.definition.dotted) if target else None

    def _follow(self, value: Value | None, attributes: list[str]) -> Value | None:
        for name in attributes:
            value = self._values.attribute(value, name)
        if value is not None and attributes and not value.name:
            return self._telling(value.of)
        return value

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        target = self._values.target(link.name)
        if target is not None:
            return target.definition.kind != "constant" or not name.islower()
        return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))


def _is_telling(node: ast.Name, scope: Scope) -> bool:
    """Whether a name may be linked: not `cls`, and not what a class body may yet rebind.

    A body runs from top to bottom: above ``def list(self)``, `list` is still the built-in one.
    """
    home = scope.find(node.id)
    bindings = home.bindings[node.id] if home is not None else []
    if scope.kind == "class" and home is scope:
        lines = [b.line for b in bindings if isinstance(b, Defined)]
        return len(lines) == len(bindings) and min(lines) < node.lineno
    return not any(isinstance(b, Receiver) for b in bindings)
