"""Links of a module's code and notes: its names, followed to where they are defined."""

import ast
import re
from collections.abc import Iterator, Mapping

from pylit.code.external import external_kind, external_link
from pylit.code.scopes import (
    Defined,
    Definer,
    Position,
    Scope,
    name_of,
    place,
    read_scopes,
)
from pylit.code.values import BUILTINS, Lookup, Value, Values
from pylit.model import Link, Module
from pylit.source.decode import cut

#: Links of code by the position of the names that have them.
Links = Mapping[Position, Link]
#: Name of a class or function at the top of a module -> addresses of what its code names, in order.
Uses = Mapping[str, tuple[str, ...]]
#: Name of a function at the top of a module -> address of the method that it is a kernel for.
Kernels = Mapping[str, str]

#: Inline code that may name a thing: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
_FROM = re.compile(r"from[ \t]*\.*[ \t]*")
#: Names that everybody gives to modules, for notes whose module does not import them.
_CUSTOMARY = {"nn": "torch.nn", "F": "torch.nn.functional"}
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration")


class Resolver:
    """Follows the names in one module's code and notes to where they are defined."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        self.module = module
        self.scopes = read_scopes(module.source)
        self.values = Values(self.scopes, lookup)
        self._lines = module.source.lines

    def tokens(self) -> Links:
        """Links of the module's code."""
        if self.scopes is None:
            return {}
        found: dict[Position, Link] = {}
        linked = [(node, self._use(node, scope)) for node, scope in self.scopes.uses]
        # In `torch.nn.Linear` the last name has the link; three would only be more to tab through.
        covered = {node.value for node, link in linked if link and isinstance(node, ast.Attribute)}
        for node, link in linked:
            where = place(node, self._lines) if link else None
            if link and where and not (node in covered and self._is_module(link.name)):
                found[where] = link
        for statement in self.scopes.imports:
            found.update(self._import_links(statement))
        return found

    def uses(self, links: Links) -> Uses:
        """What the classes and functions at the top of the module use, by its `tokens`."""
        by_line: dict[int, list[str]] = {}
        for where, link in sorted(links.items()):
            if not link.external and "#" in link.url:
                page, _, anchor = link.url.partition("#")
                top = f"{page}#{anchor.partition('.')[0]}"
                by_line.setdefault(where[0], []).append(top)
        found: dict[str, dict[str, None]] = {}
        for node in self._tops():
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = range(first, (node.end_lineno or node.lineno) + 1)
            used = (address for line in lines for address in by_line.get(line, ()))
            # One that is defined twice, for two systems say, uses what either does.
            found.setdefault(node.name, {}).update(dict.fromkeys(used))
        return {name: tuple(used) for name, used in found.items()}

    def kernels(self, links: Links) -> Kernels:
        """The functions decorated with ``@kernel_for(Class.method, ...)``, each with that method.

        A package that attaches faster implementations from outside registers them in this way; the
        page of the method then names them.
        """
        found = {}
        for node in self._tops():
            for call in node.decorator_list:
                if not isinstance(call, ast.Call) or not call.args:
                    continue
                method = call.args[0]
                if name_of(call.func) == "kernel_for" and isinstance(method, ast.Attribute):
                    link = links.get(place(method, self._lines) or (0, 0))
                    if link and not link.external and "#" in link.url:
                        found[node.name] = link.url
        return found

    def _tops(self) -> Iterator[Definer]:
        """The classes and functions at the top of the module."""
        for node, scope in self.scopes.stored if self.scopes else ():
            if scope.kind == "module" and isinstance(node, Definer):
                yield node

    def _link(self, value: Value | None) -> Link | None:
        """Link to the thing that a value names."""
        if value is None or not value.name:
            return None
        target = self.values.target(value.name)
        if target is not None:
            return Link(target.url, target.definition.dotted)
        if value.line:
            page = self.values.target(self.module.source.name)
            return Link(f"{page.url}#L{value.line}", value.name) if page else None
        return external_link(value.name)

    def _is_module(self, dotted: str) -> bool:
        target = self.values.target(dotted)
        return (target.definition.kind if target else external_kind(dotted)) == "module"

    def _use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Link | None:
        """Link of a name or attribute that is read in `scope`."""
        if isinstance(node, ast.Name) and not _is_telling(node, scope):
            return None
        value = self.values.value(node, scope)
        if value is None or value.name:
            return self._link(value)
        shown = self._telling(value.of) if isinstance(node, ast.Attribute) else None
        if self.scopes and node in self.scopes.called:
            shown = self.values.call(value.of) or self._telling(value.of)
        return self._link(shown)

    def _telling(self, dotted: str) -> Value | None:
        """The class of an instance, where that says more than `int` or `Tensor`."""
        known = dotted.startswith(("torch.nn.", "torch.optim."))
        return Value(dotted) if known or self.values.target(dotted) is not None else None

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Position, Link]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                column = len(cut(self._lines[alias.lineno - 1], 0, alias.col_offset))
                yield from self._path_links("", alias.name, alias.lineno, column)
            return
        assert self.scopes is not None
        origin = self.scopes.origin(node)
        line = self._lines[node.lineno - 1]
        written = _FROM.match(line, len(cut(line, 0, node.col_offset)))
        if origin and node.module and written:
            package = origin.removesuffix(node.module)
            yield from self._path_links(package, node.module, node.lineno, written.end())
        for alias in node.names:
            if origin and alias.name != "*":
                link = self._link(self.values.described(f"{origin}.{alias.name}"))
                where = place(alias, self._lines)
                if link and where:
                    yield where, link

    def _path_links(
        self, package: str, path: str, line: int, column: int
    ) -> Iterator[tuple[Position, Link]]:
        """Links of the parts of ``a.b.c``, which begin in a column, each to its module."""
        dotted = package
        for part in path.split("."):
            dotted += part
            target = self.values.target(dotted)
            is_module = target is None or target.definition.kind == "module"
            link = self._link(Value(dotted)) if is_module else None
            if link is not None and self._lines[line - 1].startswith(part, column):
                yield (line, column), link
            dotted += "."
            column += len(part) + 1

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a thing.

        `within` is the qualified name of the definition that the note belongs to: there, `self`
        and the names of the class's methods are known.
        """
        file = _PATH.fullmatch(code.strip())
        if file is not None:
            path = file["path"].removesuffix("/__init__").replace("/", ".")
            for start in ("", *self._packages()):
                target = self.values.target(f"{start}{path}")
                if target is not None and target.definition.kind == "module":
                    return Link(target.url, target.definition.dotted)
            return None
        written = _DOTTED.fullmatch(code.strip())
        if written is None:
            return None
        name, called = written["name"], bool(written["call"])
        for value in self._readings(name, within):
            link = self._link(value)
            if link is not None and (called or "." in name or self._is_distinct(name, link)):
                return link
        return None

    def _packages(self) -> Iterator[str]:
        """The packages around the module, from the inside out, each with a dot behind it."""
        package = self.module.source.name + (".x" if self.module.source.is_package else "")
        while "." in package:
            package = package.rpartition(".")[0]
            yield f"{package}."

    def _readings(self, name: str, within: str) -> Iterator[Value | None]:
        """What a name in a note may mean, the nearest meaning first."""
        values = self.values
        head, *rest = name.split(".")
        for owner in self._classes_around(within):
            receiver = head in ("self", "cls")
            yield self._follow(Value(of=owner) if receiver else values.member(owner, head), rest)
        if self.scopes is not None:
            yield self._follow(values.named(head, self.scopes.module), rest)
            if head in self.scopes.module.bindings:
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
            dotted = f"{self.module.source.name}.{within}"
            target = self.values.target(dotted)
            if target is not None and target.definition.kind == "class":
                yield dotted
            within = within.rpartition(".")[0]

    def _existing(self, dotted: str) -> Value | None:
        target = self.values.target(dotted)
        return self.values.described(target.definition.dotted) if target else None

    def _follow(self, value: Value | None, attributes: list[str]) -> Value | None:
        for name in attributes:
            value = self.values.attribute(value, name)
        if value is not None and attributes and not value.name:
            return self._telling(value.of)
        return value

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        target = self.values.target(link.name)
        if target is not None:
            return target.definition.kind != "constant" or not name.islower()
        return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))


def _is_telling(node: ast.Name, scope: Scope) -> bool:
    """Whether a name may be linked: not `cls`, and not what a class body may yet rebind.

    A body runs from top to bottom: above ``def list(self)``, `list` is still the built-in one.
    """
    home = scope.find(node.id)
    if scope.kind == "class" and home is scope:
        bindings = home.bindings[node.id]
        lines = [b.line for b in bindings if isinstance(b, Defined)]
        return len(lines) == len(bindings) and min(lines) < node.lineno
    return scope.receiver(node.id) is None
