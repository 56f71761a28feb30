"""Links from names in code to where they are defined, found by reading and never by importing.

`targets` says what one module defines and what its syntax tells of it. An `Index` joins the
targets of all modules. A `Resolver` follows the names of one module through them: all that it
learns of other modules comes through its `Lookup`, so that a build can record what a page depends
on. Where the syntax leaves room for doubt there is no link.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pylit.external import external_link, is_external_class
from pylit.facts import (
    BUILTINS,
    DEPTH,
    PUBLIC,
    STARS,
    annotation_class,
    literal_class,
    read_module,
    targets,
)
from pylit.model import Link, Module, Target
from pylit.scopes import Assigned, Binding, Declared, Defined, Imported, Receiver, Scope

__all__ = ["Index", "Lookup", "Resolver", "targets"]

Lookup = Callable[[str], Target | None]

#: Bases that add no attribute worth a link: a search for one goes on behind them.
_EMPTY_BASES = frozenset({"builtins.object", "typing.Generic", "typing.Protocol", "abc.ABC"})

#: Inline code that may name a thing: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
#: Names that everybody gives to modules, for notes whose module does not import them.
_CUSTOMARY = {"nn": "torch.nn", "F": "torch.nn.functional", "builtins": "builtins"}
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration")


class Index:
    """The targets of all modules, found by any name that they can be imported by."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._found: dict[str, Target | None] = {}
        self._bare: dict[str, list[str]] = {}
        for dotted, target in targets.items():
            definition = target.definition
            if definition.kind in ("class", "function") and "." not in definition.qualname:
                self._bare.setdefault(definition.qualname, []).append(dotted)

    def lookup(self, dotted: str) -> Target | None:
        """The target that a dotted name leads to through re-exports, or None.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._bare.get(dotted[2:], [])
            return self._targets[candidates[0]] if len(candidates) == 1 else None
        if dotted not in self._found:
            self._found[dotted] = None  # what a circle of re-exports finds
            self._found[dotted] = self._find(dotted)
        return self._found[dotted]

    def _find(self, dotted: str) -> Target | None:
        head, _, name = dotted.rpartition(".")
        owner = self.lookup(head) if head else None
        if owner is None:
            return self._targets.get(dotted)
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name)
        if alias is not None and alias != own:
            return self.lookup(alias) if alias else None
        if own in self._targets:
            return self._targets[own]
        for star in reversed(owner.attributes.get(STARS, "").split()):
            target = self.lookup(f"{star}.{name}") if self._exports(star, name) else None
            if target is not None:
                return target
        return None

    def _exports(self, star: str, name: str) -> bool:
        module = self.lookup(star)
        return module is not None and exports(module, name)


def exports(module: Target, name: str) -> bool:
    """Whether ``from module import *`` may bind `name`."""
    public = module.attributes.get(PUBLIC)
    return name in public.split() if public is not None else not name.startswith("_")


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression."""

    #: Full name of the thing that it names: a module, class, function or constant.
    name: str = ""
    #: Full name of the class that it is an instance of.
    of: str = ""
    #: For ``super()``: attributes are those of the bases of `of` alone.
    above: bool = False
    #: Line of a definition that no other module can name, because it is inside a function.
    line: int = 0


class Resolver:
    """Follows the names in one module's code and notes to where they are defined."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        self._module = module
        self._scopes = read_module(module)
        self._lookup = lookup
        self._targets: dict[str, Target | None] = {}
        self._names: dict[tuple[Scope, str], Value | None] = {}
        self._orders: dict[str, tuple[str, ...]] = {}

    # -- what other modules say ------------------------------------------------------------

    def target(self, dotted: str) -> Target | None:
        """What the project defines under a dotted name."""
        if dotted not in self._targets:
            self._targets[dotted] = self._lookup(dotted)
        return self._targets[dotted]

    def canonical(self, dotted: str, depth: int = DEPTH) -> str:
        """The name under which a thing is defined, through re-exports out of the project too."""
        target = self.target(dotted)
        if target is not None:
            return target.definition.dotted
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            owner = self.target(".".join(parts[:cut]))
            if owner is not None:
                alias = owner.attributes.get(parts[cut], "")
                known = owner.definition.kind == "module" and alias and depth
                rest = [alias, *parts[cut + 1 :]]
                return self.canonical(".".join(rest), depth - 1) if known else ""
        return dotted

    def is_class(self, dotted: str) -> bool:
        """Whether calling `dotted` makes an instance of it."""
        target = self.target(dotted)
        if target is not None:
            return target.definition.kind == "class"
        return is_external_class(dotted)

    def link(self, value: Value | None) -> Link | None:
        """Link to the thing that a value names."""
        if value is None or not value.name:
            return None
        target = self.target(value.name)
        if target is not None:
            return Link(target.url, target.definition.dotted)
        if value.line:
            page = self.target(self._module.source.name)
            return Link(f"{page.url}#L{value.line}", value.name) if page else None
        return external_link(value.name)

    def order(self, dotted: str) -> tuple[str, ...]:
        """The classes in which an attribute of class `dotted` is searched; ``""`` is unknown."""
        if dotted not in self._orders:
            self._orders[dotted] = (dotted, "")  # what a class among its own bases gets
            target = self.target(dotted)
            if target is None:
                self._orders[dotted] = (dotted,)
            else:
                bases = [self.canonical(base) if base else "" for base in target.bases]
                chains = [self.order(base) if base else ("",) for base in bases]
                self._orders[dotted] = (dotted, *_merge([*chains, tuple(bases)]))
        return self._orders[dotted]

    def member(self, dotted: str, name: str, *, above: bool = False) -> Value | None:
        """The attribute `name` of class `dotted`, or of an instance of it."""
        for place in self.order(dotted)[1 if above else 0 :]:
            target = self.target(place)
            if target is not None:
                if name in target.attributes:
                    return self.instance(target.attributes[name])
                defined = self.target(f"{place}.{name}")
                if defined is not None:
                    return Value(defined.definition.dotted)
            elif place not in _EMPTY_BASES:
                outside = f"{place}.{name}"
                return Value(outside) if place and external_link(outside) else None
        return None

    def instance(self, dotted: str) -> Value | None:
        """An instance of class `dotted`, if it is one."""
        dotted = self.canonical(dotted) if dotted else ""
        return Value(of=dotted) if dotted and self.is_class(dotted) else None

    def described(self, dotted: str) -> Value | None:
        """The thing with a dotted name."""
        name = self.canonical(dotted)
        if not name:
            return None
        target = self.target(name)
        if target is not None and target.definition.kind == "constant" and target.bases:
            held = self.instance(target.bases[0])
            return Value(name, held.of if held else "")
        return Value(name)

    # -- what an expression is -------------------------------------------------------------

    def value(self, node: ast.expr, scope: Scope) -> Value | None:
        """What is known of an expression in a scope."""
        if isinstance(node, ast.Name):
            return self.named(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value, scope), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
        if isinstance(node, ast.Await | ast.NamedExpr | ast.Subscript):
            return None
        literal = literal_class(node)
        return Value(of=literal) if literal else None

    def attribute(self, owner: Value | None, name: str) -> Value | None:
        """The attribute `name` of a value."""
        if owner is None or owner.line:
            return None
        if owner.of:
            return self.member(owner.of, name, above=owner.above)
        target = self.target(owner.name)
        if target is None or target.definition.kind == "module":
            return self.described(f"{owner.name}.{name}")
        if target.definition.kind == "class":
            return self.member(owner.name, name)
        return None

    def _called(self, node: ast.Call, scope: Scope) -> Value | None:
        function = self.value(node.func, scope)
        if function is None or not function.name:
            return None
        if function.name == "builtins.super":
            home = self.value(node.args[0], scope) if node.args else Value(scope.owner)
            return Value(of=home.name, above=True) if home and home.name else None
        return self.instance(function.name)

    def named(self, name: str, scope: Scope) -> Value | None:
        """What a plain name stands for in a scope."""
        home = scope.find(name)
        if home is None:
            return self._global(name, scope.module)
        if scope.kind == "class" and home is scope and len(home.bindings[name]) > 1:
            return None
        if (home, name) not in self._names:
            self._names[home, name] = None  # what ``x = x`` finds
            values = {self._bound(binding, name, home) for binding in home.bindings[name]}
            self._names[home, name] = values.pop() if len(values) == 1 else None
        return self._names[home, name]

    def _global(self, name: str, module: Scope) -> Value | None:
        """A name that the module does not bind itself: from a star import, or built in."""
        for star in reversed(module.stars):
            source = self.target(star)
            if source is None:
                return None
            if exports(source, name):
                value = self.described(f"{star}.{name}")
                if value is not None and (self.target(value.name) or name in source.attributes):
                    return value
        return Value(f"builtins.{name}") if name in BUILTINS else None

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        known: Value | None = None
        if isinstance(binding, Imported):
            return self.described(binding.dotted)
        if isinstance(binding, Defined):
            if self.target(binding.dotted) is None:
                return Value(binding.dotted, line=binding.line)
            return self.described(binding.dotted)
        if isinstance(binding, Receiver):
            if self.target(binding.dotted) is None:
                return None
            return Value(of=binding.dotted) if binding.instance else Value(binding.dotted)
        if isinstance(binding, Declared):
            known = self.instance(annotation_class(binding.annotation, binding.scope))
        elif isinstance(binding, Assigned):
            known = self.value(binding.value, binding.scope)
        own = self.target(f"{home.dotted}.{name}") if home.kind != "function" else None
        if own is not None:
            return Value(own.definition.dotted, known.of if known else "")
        return known

    # -- tokens ------------------------------------------------------------------------------

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

    def _links(self) -> Iterator[tuple[int, int, str, Link]]:
        """Line, column in bytes, name and link of every identifier that leads somewhere."""
        assert self._scopes is not None
        for node, scope in self._scopes.uses:
            link = self._use(node, scope)
            if link is None:
                continue
            if isinstance(node, ast.Name):
                yield node.lineno, node.col_offset, node.id, link
            else:
                assert node.end_lineno is not None and node.end_col_offset is not None
                column = node.end_col_offset - len(node.attr.encode())
                yield node.end_lineno, column, node.attr, link
        for statement in self._scopes.imports:
            yield from self._import_links(statement)

    def _use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Link | None:
        try:
            value = self.value(node, scope)
        except RecursionError:
            return None
        if value is None or value.name:
            return self.link(value)
        assert self._scopes is not None
        if node in self._scopes.called:
            return self._call_link(value.of)
        return self._holder_link(value.of) if isinstance(node, ast.Attribute) else None

    def _call_link(self, dotted: str) -> Link | None:
        """Calling an instance runs ``__call__``, and in a PyTorch module ``forward``."""
        special = self.member(dotted, "__call__")
        if special is None and any(place.startswith("torch.nn.") for place in self.order(dotted)):
            special = self.member(dotted, "forward")
        if special is not None and self.target(special.name) is not None:
            return self.link(special)
        return self._holder_link(dotted)

    def _holder_link(self, dotted: str) -> Link | None:
        """Link to the class of an attribute, where that says more than `int` or `Tensor`."""
        if self.target(dotted) is not None or dotted.startswith(("torch.nn.", "torch.optim.")):
            return self.link(Value(dotted))
        return None

    def _import_links(
        self, node: ast.Import | ast.ImportFrom
    ) -> Iterator[tuple[int, int, str, Link]]:
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
        for alias in node.names:
            link = self.link(self.described(f"{origin}.{alias.name}")) if origin else None
            if link is not None:
                yield alias.lineno, alias.col_offset, alias.name, link

    def _path_links(
        self, package: str, path: str, line: int, column: int
    ) -> Iterator[tuple[int, int, str, Link]]:
        """Links of the parts of ``a.b.c``, each to its module."""
        dotted = package
        for part in path.split("."):
            dotted += part
            target = self.target(dotted)
            link = external_link(dotted) if target is None else None
            if target is not None and target.definition.kind == "module":
                link = Link(target.url, target.definition.dotted)
            if link is not None:
                yield line, column, part, link
            dotted += "."
            column += len(part.encode()) + 1

    # -- notes -------------------------------------------------------------------------------

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a thing.

        `within` is the qualified name of the definition that the note belongs to: there, `self`
        and the names of the class's methods are known.
        """
        path = _PATH.fullmatch(code.strip())
        if path is not None:
            target = self.target(path["path"].removesuffix("/__init__").replace("/", "."))
            return Link(target.url, target.definition.dotted) if target else None
        written = _DOTTED.fullmatch(code.strip())
        if written is None:
            return None
        name, called = written["name"], bool(written["call"])
        for value in self._readings(name, within):
            link = self.link(value)
            if link is not None and (called or "." in name or self._is_distinct(name, link)):
                return link
        return None

    def _readings(self, name: str, within: str) -> Iterator[Value | None]:
        """What a name in a note may mean, the nearest meaning first."""
        head, *rest = name.split(".")
        module = self._module.source.name
        parts = within.split(".") if within else []
        for cut in range(len(parts), 0, -1):
            owner = f"{module}.{'.'.join(parts[:cut])}"
            if self.is_class(owner):
                start = Value(of=owner) if head in ("self", "cls") else self.member(owner, head)
                if start is not None:
                    yield self._follow(start, rest)
        bound = self._scopes is not None and head in self._scopes.module.bindings
        if self._scopes is not None:
            yield self._follow(self.named(head, self._scopes.module), rest)
        if bound:
            return
        if rest:
            yield self.described(".".join([_CUSTOMARY.get(head, head), *rest]))
        package = module
        while package:
            package = package.rpartition(".")[0]
            if package and rest:
                yield self._follow(self._existing(f"{package}.{head}"), rest)
        if head[:1].isupper() or "_" in head or rest:
            yield self._follow(self._existing(f"*.{head}"), rest)
        if not rest:
            yield self._existing(name)

    def _existing(self, dotted: str) -> Value | None:
        target = self.target(dotted)
        return self.described(target.definition.dotted) if target else None

    def _follow(self, value: Value | None, attributes: list[str]) -> Value | None:
        for name in attributes:
            value = self.attribute(value, name)
        if value is not None and attributes and not value.name:
            return Value(value.of)
        return value

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        target = self.target(link.name)
        if target is not None:
            return target.definition.kind != "constant" or not name.islower()
        return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))


def _merge(chains: list[tuple[str, ...]]) -> Iterable[str]:
    """Python's method resolution order (C3) of the chains of a class's bases and the bases."""
    while chains := [chain for chain in chains if chain]:
        for head in (chain[0] for chain in chains):
            if not any(head in chain[1:] for chain in chains):
                break
        else:
            yield ""
            return
        yield head
        chains = [chain[1:] if chain[0] == head else chain for chain in chains]
