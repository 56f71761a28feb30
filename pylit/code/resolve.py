"""Names in code and notes, followed to where they are defined, without importing anything.

An `Index` joins what `pylit.code.scopes.targets` says of all modules. A `Resolver` follows the
names of one module through them, its `Values` say what expressions stand for, and all that it
learns of other modules comes through its `Lookup`, so that a build can record what a page depends
on. Where the syntax leaves room for doubt there is no link.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pylit.code.external import external_link, is_external_class, is_external_module
from pylit.code.scopes import (
    BUILTINS,
    DEPTH,
    PUBLIC,
    STARS,
    Assigned,
    Binding,
    Declared,
    Defined,
    Definer,
    Imported,
    Opaque,
    Receiver,
    Scope,
    Scopes,
    annotation_class,
    literal_class,
    read_module,
)
from pylit.model import Link, Module, Target
from pylit.source.cpp import is_cpp

#: Answers what a dotted name stands for in the project; None for what is not of the project.
Lookup = Callable[[str], Target | None]


class Index:
    """The targets of all modules, found by any name that they can be imported by."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._found: dict[str, Target | None] = {}
        self._bare: dict[str, list[str]] = {}
        for dotted, target in targets.items():
            definition = target.definition
            named = definition.kind in ("class", "function") and "." not in definition.qualname
            if named and not is_cpp(definition.module):
                self._bare.setdefault(definition.qualname, []).append(dotted)

    def lookup(self, dotted: str) -> Target | None:
        """The target that a dotted name leads to through re-exports, or None.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._bare.get(dotted[2:], [])
            return self._targets[candidates[0]] if len(candidates) == 1 else None
        if dotted not in self._found:
            self._found[dotted] = self._find(dotted, {})
        return self._found[dotted]

    def _find(self, dotted: str, answers: dict[str, Target | None]) -> Target | None:
        """Follow `dotted`; `answers` are those found on the way, and None what is still open.

        They serve one question only: what a circle of re-exports finds depends on where it began.
        """
        if dotted in answers:
            return answers[dotted]
        answers[dotted] = None
        head, _, name = dotted.rpartition(".")
        owner = self._find(head, answers) if head else None
        found = self._member(owner, name, answers) if owner is not None else None
        if found is None and (owner is None or owner.definition.dotted != head):
            # A package that re-exports a name of its submodule `b` as `b` hides the submodule.
            found = self._targets.get(dotted)
        answers[dotted] = found
        return found

    def _member(self, owner: Target, name: str, answers: dict[str, Target | None]) -> Target | None:
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name)
        if alias is not None and alias != own:
            return self._find(alias, answers) if alias else None
        if own in self._targets:
            return self._targets[own]
        for star in reversed(owner.attributes.get(STARS, "").split()):
            module = self._find(star, answers)
            if module is not None and exports(module, name):
                target = self._find(f"{star}.{name}", answers)
                if target is not None:
                    return target
        return None


def exports(module: Target, name: str) -> bool:
    """Whether ``from module import *`` may bind `name`."""
    public = module.attributes.get(PUBLIC)
    return name in public.split() if public is not None else not name.startswith("_")


#: Bases that add no attribute worth a link: a search for one goes on behind them.
_EMPTY_BASES = frozenset({"builtins.object", "typing.Generic", "typing.Protocol", "abc.ABC"})


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


class Project:
    """What one module learns of the project, all of it through its `Lookup`."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._targets: dict[str, Target | None] = {}
        self._orders: dict[str, tuple[str, ...]] = {}

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
            target = self.target(place) if place else None
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


class Values(Project):
    """What the names and expressions of one module stand for."""

    def __init__(self, name: str, lookup: Lookup) -> None:
        super().__init__(lookup)
        self._module = name
        self._names: dict[tuple[Scope, str], Value | None] = {}

    def link(self, value: Value | None) -> Link | None:
        """Link to the thing that a value names."""
        if value is None or not value.name:
            return None
        target = self.target(value.name)
        if target is not None:
            return Link(target.url, target.definition.dotted)
        if value.line:
            page = self.target(self._module)
            return Link(f"{page.url}#L{value.line}", value.name) if page else None
        return external_link(value.name)

    def value(self, node: ast.expr, scope: Scope) -> Value | None:
        """What is known of an expression in a scope."""
        if isinstance(node, ast.Name):
            return self.named(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.value(node.value, scope), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node, scope)
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
        if function is None:
            return None
        if not function.name:
            function = self.call(function.of)
            return self._returned(function.name) if function is not None else None
        if function.name == "builtins.super":
            home = self.value(node.args[0], scope) if node.args else Value(scope.owner)
            return Value(of=home.name, above=True) if home and home.name else None
        return self.instance(function.name) or self._returned(function.name)

    def call(self, dotted: str) -> Value | None:
        """The method that a call of an instance runs; in a PyTorch module it is ``forward``."""
        special = self.member(dotted, "__call__")
        if special is None and any(place.startswith("torch.nn.") for place in self.order(dotted)):
            special = self.member(dotted, "forward")
        return special if special is not None and self.target(special.name) else None

    def _returned(self, dotted: str) -> Value | None:
        """What a function of the project is declared to return."""
        target = self.target(dotted)
        if target is None or target.definition.kind not in ("function", "method"):
            return None
        return self.instance(target.bases[0]) if target.bases else None

    def named(self, name: str, scope: Scope) -> Value | None:
        """What a plain name stands for in a scope."""
        home = scope.find(name)
        if home is None:
            return self._global(name, scope.module)
        if (home, name) not in self._names:
            self._names[home, name] = None  # what ``x = x`` finds
            values = {self._bound(binding, name, home) for binding in home.bindings[name]}
            self._names[home, name] = _common(values)
        return self._names[home, name]

    def _global(self, name: str, module: Scope) -> Value | None:
        """A name that the module does not bind itself: from a star import, or built in."""
        for star in reversed(module.stars):
            source = self.target(star)
            if source is None:
                return None
            value = self.described(f"{star}.{name}") if exports(source, name) else None
            if value is not None:
                return value
        return Value(f"builtins.{name}") if name in BUILTINS else None

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        match binding:
            case Imported():
                return self.described(binding.dotted)
            case Defined() if self.target(binding.dotted) is None:
                return Value(binding.dotted, line=binding.line)
            case Defined():
                return self.described(binding.dotted)
            case Receiver() if self.target(binding.dotted) is None:
                return None
            case Receiver():
                return Value(of=binding.dotted) if binding.instance else Value(binding.dotted)
            case Declared():
                known = self.instance(annotation_class(binding.annotation, binding.scope))
            case Assigned():
                known = self._assigned(binding.value, binding.scope)
            case Opaque():
                known = None
        own = self.target(f"{home.dotted}.{name}") if home.kind in ("module", "class") else None
        if own is not None:
            constant = own.definition.kind == "constant"
            return Value(own.definition.dotted, known.of if known else "") if constant else None
        return known

    def _assigned(self, node: ast.expr, scope: Scope) -> Value | None:
        """What a name stands for after ``name = node``."""
        value = self.value(node, scope)
        if value is not None and isinstance(node, ast.Attribute):
            owner = self.value(node.value, scope)
            if owner is not None and owner.of:
                # It may be a property: then the name holds a result, not what is defined there.
                return Value(of=value.of) if value.of else None
        return value


def _common(values: set[Value | None]) -> Value | None:
    """What a name stands for that is bound in several places: only what all of them say."""
    if len(values) == 1:
        return values.pop()
    names = {value.name if value else "" for value in values}
    return Value(names.pop()) if len(names) == 1 and "" not in names else None


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


#: Name of a class or function at the top of a module -> addresses of what its code names, in order.
Uses = Mapping[str, tuple[str, ...]]

#: Name of a function at the top of a module -> address of the method that it is a kernel for.
Kernels = Mapping[str, str]


def read_uses(scopes: Scopes, links: Mapping[tuple[int, int], Link]) -> Uses:
    """What each class and function at the top of a module uses; `links` are those of its code."""
    tops = [
        node
        for node, scope in scopes.stored
        if scope is scopes.module and isinstance(node, Definer)
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
        self.module = module
        self.scopes = read_module(module)
        self.values = Values(module.source.name, lookup)

    def tokens(self) -> Mapping[tuple[int, int], Link]:
        """Links of the module's code by position: line from 1, offset in the line from 0."""
        if self.scopes is None:
            return {}
        lines = self.module.source.lines
        found: dict[tuple[int, int], Link] = {}
        for line, column, name, link in self._links():
            text = lines[line - 1]
            if not text.isascii():
                column = len(text.encode()[:column].decode(errors="ignore"))
            if text.startswith(name, column):
                found[line, column] = link
        return found

    def uses(self, links: Mapping[tuple[int, int], Link]) -> Uses:
        """What the classes and functions of the module use, by its `tokens`."""
        return read_uses(self.scopes, links) if self.scopes is not None else {}

    def kernels(self, links: Mapping[tuple[int, int], Link]) -> Kernels:
        """The methods that functions of the module are kernels for, by its `tokens`."""
        return read_kernels(self.scopes, links) if self.scopes is not None else {}

    def _links(self) -> Iterator[Found]:
        """Every identifier that leads somewhere."""
        assert self.scopes is not None
        linked = [(node, self._use(node, scope)) for node, scope in self.scopes.uses]
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
        for statement in self.scopes.imports:
            yield from self._import_links(statement)

    def _is_module(self, link: Link) -> bool:
        target = self.values.target(link.name)
        if target is not None:
            return target.definition.kind == "module"
        return is_external_module(link.name)

    def _use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Link | None:
        """Link of a name or attribute that is read in `scope`."""
        if isinstance(node, ast.Name) and not _is_telling(node, scope):
            return None
        try:
            value = self.values.value(node, scope)
            if value is None or value.name:
                return self.values.link(value)
            assert self.scopes is not None
            shown = self._telling(value.of) if isinstance(node, ast.Attribute) else None
            if node in self.scopes.called:
                shown = self.values.call(value.of) or self._telling(value.of)
            return self.values.link(shown)
        except RecursionError:  # generated code nests deeper than Python's stack is high
            return None

    def _telling(self, dotted: str) -> Value | None:
        """The class of an instance, where that says more than `int` or `Tensor`."""
        known = dotted.startswith(("torch.nn.", "torch.optim."))
        return Value(dotted) if known or self.values.target(dotted) is not None else None

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[Found]:
        assert self.scopes is not None
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._path_links("", alias.name, alias.lineno, alias.col_offset)
            return
        origin = self.scopes.origin(node)
        line = self.module.source.lines[node.lineno - 1].encode()
        written = re.compile(rb"from[ \t]*\.*[ \t]*").match(line, node.col_offset)
        if origin and node.module and written:
            package = origin.removesuffix(node.module)
            yield from self._path_links(package, node.module, node.lineno, written.end())
        for alias in node.names if origin else ():
            if alias.name == "*":
                continue
            link = self.values.link(self.values.described(f"{origin}.{alias.name}"))
            if link is not None:
                yield alias.lineno, alias.col_offset, alias.name, link

    def _path_links(self, package: str, path: str, line: int, column: int) -> Iterator[Found]:
        """Links of the parts of ``a.b.c``, each to its module."""
        dotted = package
        for part in path.split("."):
            dotted += part
            target = self.values.target(dotted)
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
            link = self.values.link(value)
            if link is not None and (called or "." in name or self._is_distinct(name, link)):
                return link
        return None

    def _module_link(self, path: str) -> Link | None:
        """Link to the module of a file, named from the top or from a package around this module."""
        for package in ("", *self._packages()):
            target = self.values.target(f"{package}{path}")
            if target is not None and target.definition.kind == "module":
                return Link(target.url, target.definition.dotted)
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
    bindings = home.bindings[node.id] if home is not None else []
    if scope.kind == "class" and home is scope:
        lines = [b.line for b in bindings if isinstance(b, Defined)]
        return len(lines) == len(bindings) and min(lines) < node.lineno
    return not any(isinstance(b, Receiver) for b in bindings)
