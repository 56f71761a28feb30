"""What the names and expressions of a module stand for, without importing anything.

Names are resolved twice. Before the other modules are known, every imported name is taken as it is
written: ``attn -> pkg.mha.MultiHeadAttention`` may turn out to be a re-export, or a function. The
`targets` of a module hold what is known then. An `Index` joins the targets of all modules, and a
`Resolver` follows names through it to their definitions. All that it learns of other modules comes
through one `Lookup`, so that a build can record what a page depends on. Where the syntax is
ambiguous, a name is not resolved.
"""

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pylit.cpp import includes, is_cpp
from pylit.model import Definition, Kernels, Link, Module, Target, Uses
from pylit.parse import first_line
from pylit.scopes import Binding, Definer, Position, Scope, Scopes, cut, name_of, place, read_scopes

#: Finds the definition of a dotted name in the project; None for other names.
Lookup = Callable[[str], Target | None]

#: Attribute of a module's `Target` that holds the modules of its ``from m import *``, with spaces
#: between them. They give all names without an underscore before them.
STARS = "*"

BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))

#: Subscripted types of which an instance is an instance of their first argument.
_TRANSPARENT = ("Optional", "Annotated", "Final", "ClassVar")
_LITERALS = ("list", "dict", "set", "tuple")
#: Size of the cache of lookups: in the next ten thousand modules most names are others.
MOST_FOUND = 50_000


class Index:
    """The targets of all modules, found by any name that they can be imported by."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self._found: dict[str, Target | None] = {}
        self._unqualified: dict[str, list[Target]] = {}
        for target in targets.values():
            definition = target.definition
            named = definition.kind in ("class", "function") and "." not in definition.qualname
            if named and not is_cpp(definition.module):
                self._unqualified.setdefault(definition.qualname, []).append(target)

    def lookup(self, dotted: str) -> Target | None:
        """The target that a dotted name leads to through re-exports, or None.

        ``*.Name`` finds a class or function whose name no other module of the site defines.
        """
        if dotted.startswith("*."):
            candidates = self._unqualified.get(dotted[2:], [])
            return candidates[0] if len(candidates) == 1 else None
        if dotted not in self._found:
            if len(self._found) > MOST_FOUND:
                self._found.clear()
            # The answers on the way serve one question only: what a circle of re-exports finds
            # depends on where it began.
            self._found[dotted] = self._find(dotted, {})
        return self._found[dotted]

    def _find(self, dotted: str, answers: dict[str, Target | None]) -> Target | None:
        if dotted not in answers:
            answers[dotted] = None  # for a name that leads to itself
            head, _, name = dotted.rpartition(".")
            owner = self._find(head, answers) if head else None
            found = self._member(owner, name, answers) if owner else None
            if found is None and (owner is None or owner.definition.dotted != head):
                # A package that re-exports a name of its submodule `b` as `b` hides the submodule.
                found = self._targets.get(dotted)
            answers[dotted] = found
        return answers[dotted]

    def _member(self, owner: Target, name: str, answers: dict[str, Target | None]) -> Target | None:
        own = f"{owner.definition.dotted}.{name}"
        if owner.definition.kind != "module":
            return self._targets.get(own) if owner.definition.kind == "class" else None
        alias = owner.attributes.get(name, own)
        if alias != own:
            return self._find(alias, answers) if alias else None
        if own in self._targets:
            return self._targets[own]
        stars = "" if name.startswith("_") else owner.attributes.get(STARS, "")
        found = (self._find(f"{star}.{name}", answers) for star in reversed(stars.split()))
        return next(filter(None, found), None)


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression."""

    #: Full name of the module, class, function or constant that it names.
    name: str = ""
    #: Full name of the class that it is an instance of.
    of: str = ""
    #: For ``super()``: attributes are those of the bases of `of` alone.
    above: bool = False
    #: Line of a definition inside a function, which has no full name that others can use.
    line: int = 0


class Values:
    """What the names and expressions of one module stand for.

    Args:
        scopes: The names of the module.
        lookup: Finds definitions of the project; without it, imported names are taken as written.
    """

    def __init__(self, scopes: Scopes, lookup: Lookup | None = None) -> None:
        self._module, self._stars = scopes.module.dotted, scopes.stars
        self._as_written = lookup is None
        self._lookup: Lookup = lookup or (lambda _: None)
        self._orders: dict[str, tuple[str, ...]] = {}
        self._names: dict[tuple[Scope, str], Value | None] = {}

    def target(self, dotted: str) -> Target | None:
        """Where a name is defined in the project, or documented by Python or PyTorch."""
        return self._lookup(dotted) or documented_target(dotted)

    def kind(self, dotted: str) -> str:
        """What a full name is the name of, if that is known; else empty."""
        target = self.target(dotted)
        return target.definition.kind if target else ""

    def described(self, dotted: str) -> Value:
        """The thing with a dotted name, by the name under which it is defined."""
        target = self.target(dotted)
        return Value(target.definition.dotted if target else dotted)

    def instance(self, dotted: str) -> Value | None:
        """An instance of `dotted`, if that is a class."""
        name = self.described(dotted).name if dotted else ""
        return Value(of=name) if name and (self._as_written or self.kind(name) == "class") else None

    def order(self, dotted: str) -> tuple[str, ...]:
        """The classes in which an attribute of class `dotted` is searched."""
        if dotted not in self._orders:
            self._orders[dotted] = (dotted,)  # for a class among its own bases
            target = self.target(dotted)
            found = [dotted]
            for base in filter(None, target.bases if target else ()):
                found += self.order(self.described(base).name)
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
                return self.described(attribute)
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
        except RecursionError:  # generated code nests deeper than Python's stack is high
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
        return self.described(f"{owner.name}.{name}")

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
        built_in = Value(f"builtins.{name}") if name in BUILTINS else None
        if self._stars and self._as_written:
            return None if built_in else Value(f"{self._module}.{name}")
        for star in reversed(self._stars):
            if self._lookup(star) is None:
                return None
            if self._lookup(f"{star}.{name}") and not name.startswith("_"):
                return self.described(f"{star}.{name}")
        return built_in

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        """What one binding of a name in scope `home` says of it."""
        dotted = binding.dotted
        match binding.how:
            case "import":
                return self.described(dotted)
            case "definition":
                local = not self._as_written and self._lookup(dotted) is None
                return Value(dotted, line=binding.line) if local else self.described(dotted)
            case "self":
                return Value(of=dotted)
            case "cls":
                return Value(dotted)
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
            # It may be a property: then the name holds a result, not what is defined there.
            return Value(of=value.of) if value.of else None
        return value

    def name(self, node: ast.expr, scope: Scope) -> str:
        """Full name of what an expression names; else empty."""
        value = self.value(node.value if isinstance(node, ast.Subscript) else node, scope)
        return value.name if value else ""

    def declared(self, node: ast.expr, scope: Scope) -> str:
        """Full name of the class that an annotation promises an instance of; else empty."""
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
        """The one class that all bindings agree on; a declared type outweighs what is assigned.

        ``self.memory = None`` in a constructor says "not yet", not "nothing else ever".
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
    scopes = read_scopes(source)
    values = Values(scopes)
    anchored = {section.definition for section in module.sections}
    found: dict[str, Target] = {}
    for definition in module.definitions:
        name, dotted, address = definition.qualname, definition.dotted, url
        if name:
            address += f"#{name}" if name in anchored else f"#L{definition.line}"
        bases: tuple[str, ...] = ()
        attributes: Mapping[str, str] = {}
        if is_cpp(source.name):
            # An included file is like a module of which everything is imported.
            attributes = {} if name else {STARS: " ".join(sum(includes(source).values(), ()))}
        elif not name:
            attributes = _imported(module, scopes, values)
        elif definition.kind == "class":
            body = scopes.classes[dotted]
            bases = tuple(values.name(base, body.parent or scopes.module) for base in body.bases)
            attributes = _attributes(body, values)
        else:
            bases = tuple(filter(None, [values.held(scopes.returns.get(dotted, ()))]))
        # The first of several definitions of a name owns its anchor.
        found.setdefault(dotted, Target(definition, address, bases, attributes))
    return found


def _imported(module: Module, scopes: Scopes, values: Values) -> dict[str, str]:
    """The names that a module has from elsewhere; those that are not resolved lead to ``""``."""
    defined = {definition.qualname for definition in module.definitions}
    others = [name for name in scopes.module.bindings if name not in defined]
    known = {name: values.named(name, scopes.module) for name in others}
    stars = {STARS: " ".join(scopes.stars)} if scopes.stars else {}
    return stars | {name: value.name if value else "" for name, value in known.items()}


def _attributes(body: Scope, values: Values) -> dict[str, str]:
    """Attribute -> class it holds; ``""`` for one that is set but holds something unknown."""
    known = {name: [*bindings] for name, bindings in body.attributes.items()}
    for name, bindings in body.bindings.items():
        own = [b for b in bindings if b.how not in ("definition", "import")]
        if own:
            known[name] = own + known.get(name, [])
    return {name: values.held(bindings) for name, bindings in known.items()}


#: Links of code by the position of the names that have them.
Links = Mapping[Position, Link]

#: Inline code that may name a thing: a dotted name, perhaps called; or a file.
_DOTTED = re.compile(r"@?(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)(?P<call>\(.*\))?")
_PATH = re.compile(r"(?P<path>[\w/]+)\.py")
#: Conventional names of modules, for notes whose module does not import them.
_CUSTOMARY = {"nn": "torch.nn", "F": "torch.nn.functional"}
_EXCEPTIONS = ("Error", "Exception", "Warning", "Interrupt", "Exit", "Iteration")


class Resolver:
    """Follows the names in one module's code and notes to where they are defined."""

    def __init__(self, module: Module, lookup: Lookup) -> None:
        self.module = module
        self._lookup = lookup
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
            if isinstance(node, ast.Name) and scope.receiver(node.id):
                continue
            value = self.values.value(node, scope)
            link = self._link(self._class_of(value) if isinstance(node, ast.Attribute) else value)
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
            lines = range(first_line(node), (node.end_lineno or node.lineno) + 1)
            used = (address for line in lines for address in by_line.get(line, ()))
            # A name with several definitions, for two systems say, uses what any of them does.
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
        for node, scope in self.scopes.names:
            if isinstance(node, Definer) and scope.kind == "module":
                yield node

    def _link(self, value: Value | None) -> Link | None:
        if value is None or not value.name:
            return None
        target = self.values.target(value.name)
        if target:
            name = target.definition.dotted.removeprefix("builtins.")
            return Link(target.url, name, external=_is_external(target))
        page = self.values.target(self.module.source.name)
        return Link(f"{page.url}#L{value.line}", value.name) if value.line and page else None

    def _class_of(self, value: Value | None) -> Value | None:
        """In place of an instance its class, where that says more than `int` or `Tensor`."""
        if value is None or value.name:
            return value
        target = self.values.target(value.of)
        special = value.of.startswith(("torch.nn.", "torch.optim."))
        return Value(value.of) if target and (special or not _is_external(target)) else None

    def _import_links(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Position, Link]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._path_links("", alias.name, place(alias, self._lines))
            return
        origin, path = self.scopes.origin(node), node.module or ""
        line = self._lines[node.lineno - 1]
        column = line.find(path, len(cut(line, 0, node.col_offset)) + len("from"))
        if origin and column >= 0:
            yield from self._path_links(origin.removesuffix(path), path, (node.lineno, column))
        for alias in node.names if origin and node.names[0].name != "*" else ():
            link = self._link(self.values.described(f"{origin}.{alias.name}"))
            where = place(alias, self._lines)
            if link and where:
                yield where, link

    def _path_links(
        self, package: str, path: str, where: Position | None
    ) -> Iterator[tuple[Position, Link]]:
        """Links of a path in an import: each part of ``a.b.c`` leads to its module."""
        for part in re.finditer(r"\w+", path) if where else ():
            dotted = package + path[: part.end()]
            link = self._link(Value(dotted))
            if link and where and self.values.kind(dotted) == "module":
                yield (where[0], where[1] + part.start()), link

    def inline(self, code: str, *, within: str = "") -> Link | None:
        """Link of inline code in a note, if it names a thing.

        `within` is the qualified name of the definition that the note belongs to: there, `self`
        and the names of the class's methods are known.
        """
        if file := _PATH.fullmatch(code.strip()):
            path = file["path"].removesuffix("/__init__").replace("/", ".")
            found = (self._lookup(f"{package}{path}") for package in ("", *self._packages()))
            modules = (each for each in found if each and each.definition.kind == "module")
            return next((Link(each.url, each.definition.dotted) for each in modules), None)
        written = _DOTTED.fullmatch(code.strip())
        if written is None:
            return None
        head, *rest = written["name"].split(".")
        for value in self._meanings(head, within, qualified=bool(rest)):
            for name in rest:
                value = self.values.attribute(value, name)
            link = self._link(self._class_of(value) if rest else value)
            if link and (rest or written["call"] or self._is_distinct(head, link)):
                return link
        return None

    def _packages(self) -> Iterator[str]:
        """The packages around the module, from the inside out, each with a dot behind it."""
        package = self.module.source.name + (".x" if self.module.source.is_package else "")
        while "." in package:
            package = package.rpartition(".")[0]
            yield f"{package}."

    def _meanings(self, name: str, within: str, *, qualified: bool) -> Iterator[Value | None]:
        """What a name in a note may mean, the nearest meaning first; `qualified` before a dot."""
        values, module = self.values, self.scopes.module
        while within:
            owner = f"{module.dotted}.{within}"
            if values.kind(owner) == "class":
                yield Value(of=owner) if name in ("self", "cls") else values.member(owner, name)
            within = within.rpartition(".")[0]
        yield values.named(name, module)
        if name in module.bindings:
            return
        if qualified or name == "torch":
            yield Value(_CUSTOMARY.get(name, name))
        others = [f"{package}{name}" for package in self._packages()] if qualified else [name]
        if qualified or name[0].isupper() or "_" in name:
            others.append(f"*.{name}")
        for other in others:
            if self._lookup(other):
                yield values.described(other)

    def _is_distinct(self, name: str, link: Link) -> bool:
        """Whether a word without dots or parentheses is more than an ordinary word in code."""
        if link.external:
            return name not in BUILTINS or (name[0].isupper() and name.endswith(_EXCEPTIONS))
        return not name.islower() or self.values.kind(link.name) != "constant"


def _is_external(target: Target) -> bool:
    return "://" in target.url


_Kind = Literal["module", "class", "function"]
_MARKS: Mapping[str, _Kind] = {"/": "module", "^": "class"}


def documented_target(dotted: str) -> Target | None:
    """The entry of a full dotted name in the documentation of Python or PyTorch, if it has one."""
    url, kind = documented().get(dotted, ("", "function"))
    return Target(Definition(kind, dotted, "", 0, "", ""), url) if url else None


@cache
def documented() -> dict[str, tuple[str, _Kind]]:
    """Address and kind of every documented name; the tables say how they are written."""
    found: dict[str, tuple[str, _Kind]] = {}
    for table in sorted(Path(__file__).with_name("documented").glob("*.txt")):
        address = owner = ""
        for line in table.read_text("utf-8").splitlines():
            if not line.startswith((" ", "#")):
                address = line
            elif line.startswith("  "):
                words = line.split()
                owner = owner if line.startswith("    ") else words.pop(0)
                for word in words:
                    name = f"{owner}.{word.rstrip('/^')}".removeprefix("-.")
                    kind = _MARKS.get(word[-1], "function")
                    url = address.replace("#$", "#module-$") if kind == "module" else address
                    shown = name.removeprefix("builtins.")
                    found[name] = url.replace("@", owner).replace("$", shown), kind
    return found
