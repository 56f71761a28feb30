"""Links of a module's code and notes: its names, followed to where they are defined."""

import ast
import re
from collections.abc import Iterator, Mapping

from pylit.code.external import external_link
from pylit.code.values import BUILTINS, Lookup, Value, Values
from pylit.model import Link, Module
from pylit.source.notes import cut
from pylit.source.scopes import Definer, Position, Scope, name_of, place, read_scopes

#: Links of code by the position of the names that have them.
Links = Mapping[Position, Link]
#: Name of a class or function at the top of a module -> addresses of what its code names, in order.
Uses = Mapping[str, tuple[str, ...]]
#: Name of a function at the top of a module -> address of the method that it is a kernel for.
Kernels = Mapping[str, str]

#: Inline code that may name a thing: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
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
        found: dict[Position, Link] = {}
        covered: set[ast.AST] = set()
        for node, scope in self.scopes.names:
            if not (isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)):
                continue
            link = self._use(node, scope)
            where = place(node, self._lines) if link else None
            if link and isinstance(node, ast.Attribute):
                covered.add(node.value)
            # In `torch.nn.Linear` the last name has the link; three would be more to tab through.
            if link and where and not (node in covered and self.values.kind(link.name) == "module"):
                found[where] = link
        for statement in self.scopes.imports:
            found.update(self._import_links(statement))
        return found

    def uses(self, links: Links) -> Uses:
        """What the classes and functions at the top of the module use, by its `tokens`."""
        by_line: dict[int, list[str]] = {}
        for (line, _), link in sorted(links.items(), key=lambda item: item[0]):
            page, anchor, name = link.url.partition("#")
            if anchor and not link.external:
                by_line.setdefault(line, []).append(f"{page}#{name.partition('.')[0]}")
        found: dict[str, dict[str, None]] = {}
        for node in self._tops():
            first = min(each.lineno for each in (node, *node.decorator_list))
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
                if isinstance(call, ast.Call) and call.args and name_of(call.func) == "kernel_for":
                    link = links.get(place(call.args[0], self._lines) or (0, 0))
                    if link and not link.external and "." in link.url.partition("#")[2]:
                        found[node.name] = link.url
        return found

    def _tops(self) -> Iterator[Definer]:
        """The classes and functions at the top of the module."""
        for node, scope in self.scopes.names:
            if isinstance(node, Definer) and scope.kind == "module":
                yield node

    def _link(self, value: Value | None) -> Link | None:
        """Link to the thing that a value names."""
        if value is None or not value.name:
            return None
        target = self.values.target(value.name)
        if target is not None:
            return Link(target.url, target.definition.dotted)
        page = self.values.target(self.module.source.name)
        if value.line and page:
            return Link(f"{page.url}#L{value.line}", value.name)
        return external_link(value.name)

    def _use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Link | None:
        """Link of a name or attribute that is read in `scope`."""
        if isinstance(node, ast.Name) and scope.receiver(node.id):
            return None
        value = self.values.value(node, scope)
        told = value is None or value.name or isinstance(node, ast.Name)
        return self._link(value if told or value is None else self._telling(value.of))

    def _telling(self, dotted: str) -> Value | None:
        """The class of an instance, where that says more than `int` or `Tensor`."""
        known = dotted.startswith(("torch.nn.", "torch.optim."))
        return Value(dotted) if known or self.values.target(dotted) is not None else None

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Position, Link]]:
        """Links of an import: each part of ``a.b.c`` leads to its module."""
        if isinstance(node, ast.Import):
            paths = [("", each.name, place(each, self._lines)) for each in node.names]
        else:
            origin, path = self.scopes.origin(node), node.module or ""
            line = self._lines[node.lineno - 1]
            column = line.find(path, len(cut(line, 0, node.col_offset)) + len("from"))
            known = (node.lineno, column) if origin and column >= 0 else None
            paths = [(origin.removesuffix(path), path, known)]
            for alias in node.names if origin and node.names[0].name != "*" else ():
                link = self._link(self.values.described(f"{origin}.{alias.name}"))
                where = place(alias, self._lines)
                if link and where:
                    yield where, link
        for dotted, path, where in paths:
            number, column = where or (0, 0)
            for part in path.split(".") if path and where else ():
                dotted += part
                is_module = self.values.kind(dotted) in ("module", "")
                link = self._link(Value(dotted)) if is_module else None
                if link:
                    yield (number, column), link
                dotted += "."
                column += len(part) + 1

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a thing.

        `within` is the qualified name of the definition that the note belongs to: there, `self`
        and the names of the class's methods are known.
        """
        if file := _PATH.fullmatch(code.strip()):
            path = file["path"].removesuffix("/__init__").replace("/", ".")
            found = (self.values.target(f"{start}{path}") for start in ("", *self._packages()))
            modules = (each for each in found if each and each.definition.kind == "module")
            return next((Link(each.url, each.definition.dotted) for each in modules), None)
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
        while within:
            owner = f"{self.module.source.name}.{within}"
            target = values.target(owner)
            if target is not None and target.definition.kind == "class":
                receiver = head in ("self", "cls")
                yield self._follow(
                    Value(of=owner) if receiver else values.member(owner, head), rest
                )
            within = within.rpartition(".")[0]
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

    def _existing(self, dotted: str) -> Value | None:
        return self.values.described(dotted) if self.values.target(dotted) else None

    def _follow(self, value: Value | None, attributes: list[str]) -> Value | None:
        for name in attributes:
            value = self.values.attribute(value, name)
        return self._telling(value.of) if value and attributes and not value.name else value

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        target = self.values.target(link.name)
        if target is not None:
            return target.definition.kind != "constant" or not name.islower()
        return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))
