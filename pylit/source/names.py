"""What the names and expressions of a module stand for, without importing anything.

Names are resolved twice. `targets` describes one module alone: an imported name is taken as it is
written, though ``pkg.mha.MultiHeadAttention`` may be a re-export, or a function. An `Index` joins
the targets of all modules, and a `Resolver` follows names through it to their definitions. The
`Lookup` in between lets a build record what a page depends on. Ambiguous names are not resolved.
See decision 007.
"""

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pylit.addresses import is_cpp
from pylit.diagnostics import nearest
from pylit.model import Decorated, Link, Module, SourceFile, Target, Uses
from pylit.source.cpp import includes
from pylit.source.inventories import documented
from pylit.source.parse import first_line
from pylit.source.scopes import (
    Binding,
    Definer,
    Position,
    Scope,
    Value,
    cut,
    name_of,
    place,
    read_scopes,
)

#: Finds the definition of a dotted name in the project; None for other names.
Lookup = Callable[[str], Target | None]

#: Attribute of a module's `Target` that holds the modules of its ``from m import *``, separated by
#: spaces. They provide all names without a leading underscore.
STAR_IMPORTS = "*"

BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))

#: Subscripted types of which an instance is an instance of their first argument.
_TRANSPARENT = ("Optional", "Annotated", "Final", "ClassVar")
_LITERALS = ("list", "dict", "set", "tuple")


class Index:
    """The targets of all modules, found by any name that they can be imported by."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._unqualified: dict[str, list[Target]] = {}
        for target in targets.values():
            definition = target.definition
            cpp = is_cpp(target.url.partition(".html")[0])
            if definition.kind in ("class", "function") and not cpp:
                self._unqualified.setdefault(definition.qualname, []).append(target)

    def lookup(self, dotted: str) -> Target | None:
        """The target of a dotted name, through re-exports; None for a name of no module.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._unqualified.get(dotted[2:], [])
            return candidates[0] if len(candidates) == 1 else None
        # Results are not shared: what a circle of re-exports finds depends on where it began.
        return self._find(dotted, {})

    def _find(self, dotted: str, found: dict[str, Target | None]) -> Target | None:
        if dotted not in found:
            found[dotted] = None  # for a circle of re-exports
            head, _, name = dotted.rpartition(".")
            owner = self._find(head, found) if head else None
            target = self._member(owner, name, found) if owner else None
            if target is None and (owner is None or owner.definition.dotted != head):
                # A package that re-exports a name of its submodule `b` as `b` hides the submodule.
                target = self._targets.get(dotted)
            found[dotted] = target
        return found[dotted]

    def _member(self, owner: Target, name: str, found: dict[str, Target | None]) -> Target | None:
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name, own)
        if alias != own:
            return self._find(alias, found) if alias else None
        if own in self._targets:
            return self._targets[own]
        stars = "" if name.startswith("_") else owner.attributes.get(STAR_IMPORTS, "")
        targets = (self._find(f"{star}.{name}", found) for star in reversed(stars.split()))
        return next(filter(None, targets), None)


class Values:
    """What the names and expressions of one module stand for.

    Args:
        source: The module.
        lookup: Finds definitions of the project; without it, imported names are taken as written.
    """

    def __init__(self, source: SourceFile, lookup: Lookup | None = None) -> None:
        self.scopes = read_scopes(source)
        self._as_written = lookup is None
        self._lookup: Lookup = lookup or (lambda _: None)
        self._orders: dict[str, tuple[str, ...]] = {}
        self._names: dict[tuple[Scope, str], Value | None] = {}

    def target(self, dotted: str) -> Target | None:
        """Where a name is defined in the project, or documented by Python or PyTorch."""
        return self._lookup(dotted) or documented().get(dotted)

    def kind(self, dotted: str) -> str:
        """The kind of definition that a full name has; empty if it has none."""
        target = self.target(dotted)
        return target.definition.kind if target else ""

    def instance(self, dotted: str) -> Value | None:
        """An instance of `dotted`, if that is a class."""
        known = self._as_written or self.kind(dotted) == "class"
        return Value(of=dotted) if dotted and known else None

    def order(self, dotted: str) -> tuple[str, ...]:
        """The classes in which an attribute of class `dotted` is searched."""
        if dotted not in self._orders:
            self._orders[dotted] = (dotted,)  # for a class among its own bases
            target = self.target(dotted)
            found = [target.definition.dotted if target else dotted]
            for base in filter(None, target.bases if target else ()):
                found += self.order(base)
            # A base that several bases share comes behind all of them.
            self._orders[dotted] = tuple(dict.fromkeys(found[::-1]))[::-1]
        return self._orders[dotted]

    def member(self, dotted: str, name: str, *, above: bool = False) -> Value | None:
        """The attribute `name` of class `dotted`, or of an instance of it."""
        for owner in self.order(dotted)[above:]:
            target, attribute = self.target(owner), f"{owner}.{name}"
            if target and name in target.attributes:
                return self.instance(target.attributes[name])
            if self.target(attribute):
                return Value(attribute)
        return None

    def value(self, node: ast.expr, scope: Scope) -> Value | None:
        """What is known of an expression in a scope."""
        try:
            if isinstance(node, ast.Name):
                return self.named(node.id, scope)
            if isinstance(node, ast.Attribute):
                return self.attribute(self.value(node.value, scope), node.attr)
            if isinstance(node, ast.Call):
                return self._result(node, scope)
        except RecursionError:  # deeply nested, generated code
            return None
        if isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str):
            return Value(of="builtins.str")
        literal = type(node).__name__.removesuffix("Comp").lower()
        return Value(of=f"builtins.{literal}") if literal in _LITERALS else None

    def attribute(self, owner: Value | None, name: str) -> Value | None:
        """The attribute `name` of a value."""
        if owner is None or owner.line:
            return None
        if owner.of:
            return self.member(owner.of, name, above=owner.above)
        if self.kind(owner.name) == "class":
            return self.member(owner.name, name)
        return Value(f"{owner.name}.{name}")

    def _result(self, node: ast.Call, scope: Scope) -> Value | None:
        # ``Stack[int]()`` makes a stack; what ``layers[0]()`` calls is unknown.
        function = self.name(node.func, scope)
        if function == "builtins.super":
            owner = self.name(node.args[0], scope) if node.args else scope.owner
            return Value(of=owner, above=True) if owner else None
        target = self.target(function) if function else None
        if target and target.definition.kind in ("function", "method"):
            function = "".join(target.bases)
        return self.instance(function)

    def named(self, name: str, scope: Scope) -> Value | None:
        """What a plain name stands for in a scope: only what all of its bindings agree on."""
        home = scope.find(name)
        if home is None:
            return self._global(name)
        if (home, name) not in self._names:
            self._names[home, name] = None  # for ``x = x``
            values = {self._bound(binding, name, home) for binding in home.bindings[name]}
            self._names[home, name] = values.pop() if len(values) == 1 else None
        return self._names[home, name]

    def _global(self, name: str) -> Value | None:
        """A name that the module does not bind itself: from a star import, or built in."""
        stars, own = self.scopes.stars, f"{self.scopes.module.dotted}.{name}"
        built_in = Value(f"builtins.{name}") if name in BUILTINS else None
        if stars and (self._lookup(own) or (self._as_written and not built_in)):
            return Value(own)
        # A star import of an unknown module may hide what is built in.
        return built_in if all(map(self._lookup, stars)) else None

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        """The value of one binding of a name in scope `home`."""
        if binding.value:
            return binding.value
        known = self._assigned(binding)
        own = None if home.kind == "function" else self._lookup(f"{home.dotted}.{name}")
        if own is None:
            return known
        constant = own.definition.kind == "constant"
        return Value(own.definition.dotted, known.of if known else "") if constant else None

    def _assigned(self, binding: Binding) -> Value | None:
        node, scope = binding.node, binding.scope
        if scope is None:
            return None
        if binding.how == "annotation":
            return self.instance(self.declared(node, scope))
        value = self.value(node, scope)
        owner = self.value(node.value, scope) if isinstance(node, ast.Attribute) else None
        if value and owner and owner.of:
            # The attribute may be a property; then the name holds its result.
            return Value(of=value.of) if value.of else None
        return value

    def name(self, node: ast.expr, scope: Scope) -> str:
        """Full name of what an expression names, or empty."""
        value = self.value(node.value if isinstance(node, ast.Subscript) else node, scope)
        return value.name if value else ""

    def declared(self, node: ast.expr, scope: Scope) -> str:
        """Full name of the class of the instances that an annotation declares, or empty."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value.strip(), mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [side for side in (node.left, node.right) if not _is_none(side)]
            return self.declared(sides[0], scope) if len(sides) == 1 else ""
        name = self.name(node, scope)
        transparent = name.startswith("jaxtyping.") or name.rpartition(".")[2] in _TRANSPARENT
        if isinstance(node, ast.Subscript) and transparent:
            return self.declared(getattr(node.slice, "elts", [node.slice])[0], scope)
        return name

    def held(self, bindings: Iterable[Binding]) -> str:
        """The one class that all bindings agree on; a declared type has priority over values.

        ``self.memory = None`` in a constructor is ignored: the attribute is set later.
        """
        bindings = [b for b in bindings if b.how != "value" or not _is_none(b.node)]
        declared = [b for b in bindings if b.how == "annotation"]
        values = map(self._assigned, declared or bindings)
        classes = {value.of if value and not value.above else "" for value in values}
        return classes.pop() if len(classes) == 1 else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def targets(module: Module, url: str) -> dict[str, Target]:
    """The definitions of a module by dotted name, with their addresses on the page at `url`."""
    source = module.source
    values = Values(source)
    scopes = values.scopes
    anchored = {section.definition for section in module.sections}
    defined = {definition.qualname for definition in module.definitions}
    found: dict[str, Target] = {}
    for definition in module.definitions:
        name, dotted, address = definition.qualname, definition.dotted, url
        bases: tuple[str, ...] = ()
        known: dict[str, str] = {}
        if name:
            address += f"#{name}" if name in anchored else f"#L{definition.line}"
            bases = tuple(filter(None, [values.held(scopes.returns.get(dotted, ()))]))
        else:
            # An included file of C++ is like a module of which everything is imported.
            cpp = is_cpp(source.display)
            stars = sum(includes(source).values(), ()) if cpp else tuple(scopes.stars)
            known[STAR_IMPORTS] = " ".join(stars)
            for other in scopes.module.bindings:
                if other not in defined:
                    value = values.named(other, scopes.module)
                    known[other] = value.name if value else ""
        if body := scopes.classes.get(dotted):
            bases = tuple(values.name(base, body.parent or scopes.module) for base in body.bases)
            for other in {**body.bindings, **body.attributes}:
                own = [*body.bindings.get(other, ()), *body.attributes.get(other, ())]
                if own := [b for b in own if b.how not in ("definition", "import")]:
                    known[other] = values.held(own)
        # The first of several definitions of a name owns its anchor.
        found.setdefault(dotted, Target(definition, address, bases, known))
    return found


#: Links of code by the position of the names that have them.
Links = Mapping[Position, Link]

#: Inline code that may name a definition: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
#: Conventional names of modules, for notes whose module does not import them.
_CUSTOMARY = {"nn": "torch.nn", "F": "torch.nn.functional"}
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration")


class Resolver(Values):
    """Links of the names in one module's code and notes to their definitions."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        super().__init__(module.source, lookup)
        self.module = module
        self._lines = module.source.lines

    def tokens(self) -> Links:
        """Links of the module's code."""
        found: dict[Position, Link] = {}
        covered: set[ast.AST] = set()
        for node, scope in self.scopes.names:
            if not (isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)):
                continue
            if isinstance(node, ast.Name) and scope.receiver(node.id):
                continue
            instance = isinstance(node, ast.Attribute)
            link = self._link(self.value(node, scope), instance=instance)
            where = place(node, self._lines) if link else None
            if link and isinstance(node, ast.Attribute):
                covered.add(node.value)
            # In `torch.nn.Linear` only the last name has a link, for the keyboard's sake.
            if link and where and not (node in covered and self.kind(link.name) == "module"):
                found[where] = link
        for statement in self.scopes.imports:
            found.update(self._import_links(statement))
        return found

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Position, Link]]:
        """Links of the names in an import; each part of ``a.b.c`` has its own."""
        origin, paths = "", [("", alias.name, place(alias, self._lines)) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            origin, path, line = self.scopes.origin(node), node.module or "", node.lineno
            before = len(cut(self._lines[line - 1], 0, node.col_offset)) + len("from")
            column = self._lines[line - 1].find(path, before)
            paths = [(f"{origin}.", name, where) for _, name, where in paths]
            if column >= 0:
                paths.append((origin.removesuffix(path), path, (line, column)))
            paths = paths if origin else []
        for package, path, where in paths:
            for part in re.finditer(r"\w+", path) if where else ():
                link = self._link(Value(package + path[: part.end()]))
                # A package can have a function with the name of the module that it is in.
                is_imported = link and (package == f"{origin}." or self.kind(link.name) == "module")
                if link and where and is_imported:
                    yield (where[0], where[1] + part.start()), link

    def _link(self, value: Value | None, *, instance: bool = False) -> Link | None:
        """The link of what a value names; with `instance`, that of its class.

        `int` and `Tensor` are classes of too many values; those of `torch.nn` are linked.
        """
        target = self.target(value.name or value.of * instance) if value else None
        if value and target:
            external = "://" in target.url
            if value.name or not external or value.of.startswith(("torch.nn.", "torch.optim.")):
                name = target.definition.dotted.removeprefix("builtins.")
                return Link(target.url, name, external=external)
        page = self._lookup(self.module.source.name) if value and value.line else None
        # A function that its package imports may have the name of the module.
        url = page.url.partition("#")[0] if page else ""
        return Link(f"{url}#L{value.line}", value.name) if value and url else None

    def uses(self, links: Links) -> Uses:
        """What the classes and functions at the top of the module use, by its `tokens`."""
        # The definitions of a name, one for each system for example, share what they use.
        found: dict[str, dict[str, None]] = {node.name: {} for node in self._tops()}
        users = {
            line: node.name
            for node in self._tops()
            for line in range(first_line(node), (node.end_lineno or node.lineno) + 1)
        }
        for where in sorted(links):
            page, anchor, name = links[where].url.partition("#")
            if anchor and where[0] in users and not links[where].external:
                found[users[where[0]]][f"{page}#{name.partition('.')[0]}"] = None
        return {name: tuple(used) for name, used in found.items()}

    def decorated(self, links: Links) -> Decorated:
        """The decorators at the top of the module whose first argument is another definition."""
        found: dict[str, tuple[tuple[str, str], ...]] = {}
        for node in self._tops():
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and call.args and (name := name_of(call.func)):
                    link = links.get(place(call.args[0], self._lines) or (0, 0))
                    if link and not link.external and "#" in link.url:
                        found[node.name] = (*found.get(node.name, ()), (name, link.url))
        return found

    def _tops(self) -> Iterator[Definer]:
        for node, scope in self.scopes.names:
            if isinstance(node, Definer) and scope.kind == "module":
                yield node

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a definition.

        `within` is the qualified name of the definition that the note belongs to, in which `self`
        and the names of the class's methods are known.
        """
        if file := _PATH.fullmatch(code.strip()):
            path = file["path"].removesuffix("/__init__").replace("/", ".")
            found = (self._lookup(package + path) for package in ("", *self._packages()))
            modules = (each for each in found if each and each.definition.kind == "module")
            return next((Link(each.url, each.definition.dotted) for each in modules), None)
        written = _DOTTED.fullmatch(code.strip())
        if written is None:
            return None
        head, *rest = written["name"].split(".")
        for value in self._meanings(head, within, qualified=bool(rest)):
            for name in rest:
                value = self.attribute(value, name)
            link = self._link(value, instance=bool(rest))
            if link and (rest or written["call"] or self._is_distinct(head, link)):
                return link
        return None

    def _packages(self) -> list[str]:
        """The packages around the module, from the inside out, each with a dot behind it."""
        parts = self.module.source.name.split(".")
        inner = len(parts) - (not self.module.source.is_package)
        return [".".join(parts[:length]) + "." for length in range(inner, 0, -1)]

    def _meanings(self, name: str, within: str, *, qualified: bool) -> Iterator[Value | None]:
        """What a name in a note may mean, the nearest meaning first; `qualified` before a dot."""
        module = self.scopes.module
        while within:
            owner = f"{module.dotted}.{within}"
            if self.kind(owner) == "class":
                yield Value(of=owner) if name in ("self", "cls") else self.member(owner, name)
            within = within.rpartition(".")[0]
        yield self.named(name, module)
        if name in module.bindings:
            return
        if qualified or name == "torch":
            yield Value(_CUSTOMARY.get(name, name))
        others = [f"{package}{name}" for package in self._packages()] if qualified else [name]
        if qualified or name[0].isupper() or "_" in name:
            others.append(f"*.{name}")
        yield from map(Value, filter(self._lookup, others))

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        if link.external:
            return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))
        return not name.islower() or self.kind(link.name) != "constant"


_WHAT_TO_NAME = "name what the code has"


class NameLookup(NamedTuple):
    """The places of a name, or the reason why there are none, and a hint."""

    places: frozenset[Position] = frozenset()
    fault: str = ""
    hint: str = ""


class _Use(NamedTuple):
    """A name in the code, with the attributes after it."""

    chain: list[ast.AST]
    is_attribute: bool
    is_definition: bool


class Variables:
    """The names in the code of one module, which parses."""

    def __init__(self, resolver: Resolver) -> None:
        self._name = resolver.module.source.name
        self._lines = resolver.module.source.lines
        self._scopes, self._values = resolver.scopes, resolver
        self._above: dict[ast.AST, ast.AST] = {}
        self._names: dict[str, list[tuple[ast.AST, Scope]]] = defaultdict(list)
        for node, scope in self._scopes.names:
            self._names[name_of(node)].append((node, scope))
            if isinstance(node, ast.Attribute):
                self._above[node.value] = node

    def find(self, path: tuple[str, ...], within: str = "") -> NameLookup:
        """The places of a name, of a function or class if `within` names one."""
        defined = [*self._scopes.returns, *self._scopes.classes]
        owners = {name for name in defined if within and name.endswith(f".{within}")}
        value = self._values.named(within, self._scopes.module) if within else None
        owners |= {value.name} if value and self._values.kind(value.name) == "class" else set()
        if within and not owners:
            names = {name.removeprefix(f"{self._name}.") for name in defined}
            names |= {name.rpartition(".")[2] for name in names}
            fault = f"`{self._name}` has no function or class `{within}`"
            return NameLookup(fault=fault, hint=nearest(within, sorted(names), _WHAT_TO_NAME))
        if uses := self._uses(path[0], owners):
            return NameLookup(self._places(path, uses))
        known = [name for name in sorted(self._names) if self._uses(name, owners)]
        fault = f"`{within or self._name}` has no `{path[0]}`"
        return NameLookup(fault=fault, hint=nearest(path[0], known, _WHAT_TO_NAME))

    def _uses(self, name: str, owners: set[str]) -> list[_Use]:
        """The uses of a name of `owners`; without any, of this module's functions and classes.

        A name without an owner is rather a variable than a function of that name.
        """
        found: list[_Use] = []
        for node, scope in self._names.get(name, ()):
            chain = [node]
            while chain[-1] in self._above:
                chain.append(self._above[chain[-1]])
            home = None if scope.receiver(name) else scope.find(name)
            known = [home.dotted] if home else []
            if isinstance(node, ast.Attribute):
                value = self._values.value(node.value, scope)
                known = [*self._values.order(value.of)] if value and value.of else []
                bodies = filter(None, map(self._scopes.classes.get, known))
                home = next((body for body in bodies if name in body.bindings), None)
                if not owners and known and known[0] not in self._scopes.classes:
                    continue
            if known and not (owners and owners.isdisjoint(known)):
                hows = {binding.how for binding in home.bindings[name]} if home else set()
                is_attribute = isinstance(node, ast.Attribute) or bool(
                    home and home.kind == "class"
                )
                found.append(
                    _Use(chain, is_attribute, not hows.isdisjoint({"definition", "import"}))
                )
        variables = [use for use in found if owners or not use.is_definition]
        return variables or found

    def _places(self, path: tuple[str, ...], uses: Sequence[_Use]) -> frozenset[Position]:
        """The places of a path, given all uses of its first name.

        A parameter is used where the module is that holds it; a part of a variable is the part.
        """
        whole: set[Position | None] = set()
        parts: set[Position | None] = set()
        for chain, is_attribute, _ in uses:
            length = min(len(path), len(chain))
            if tuple(map(name_of, chain[:length])) == path[:length]:
                holds = length == len(path) or is_attribute
                (whole if holds else parts).add(place(chain[length - 1], self._lines))
        return frozenset(where for where in whole or parts if where)
