"""What the names and expressions of a module stand for, without importing anything.

They are asked for twice. Before the other modules are known every name is taken at its word:
``attn -> pkg.mha.MultiHeadAttention`` may turn out to be a re-export, or a function. So much a
module tells the others: its `targets`. An `Index` joins the targets of all modules; then names are
followed through them to where things are defined. All that is learned of other modules comes
through one `Lookup`, so that a build can record what a page depends on. Where the syntax leaves
room for doubt a name stands for nothing.
"""

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pylit.cpp import includes, is_cpp
from pylit.model import Kernels, Link, Module, Target, Uses
from pylit.scopes import Binding, Definer, Position, Scope, Scopes, cut, name_of, place, read_scopes

#: Answers what a dotted name stands for in the project; None for what is not of the project.
Lookup = Callable[[str], Target | None]

#: Attribute of a module's `Target` that holds the modules of its ``from m import *``, with spaces
#: between them. They give all names without an underscore before them.
STARS = "*"

BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))

#: Subscripted forms of which an instance is an instance of their first argument.
_TRANSPARENT = ("Optional", "Annotated", "Final", "ClassVar")
_LITERALS = ("list", "dict", "set", "tuple")
#: Names whose targets are remembered; in the next ten thousand modules most names are others.
MOST_FOUND = 50_000


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
            if len(self._found) > MOST_FOUND:
                self._found.clear()
            self._found[dotted] = self._find(dotted, {})
        return self._found[dotted]

    def _find(self, dotted: str, answers: dict[str, Target | None]) -> Target | None:
        """Follow `dotted`; `answers` are those found on the way, and None what is still open.

        They serve one question only: what a circle of re-exports finds depends on where it began.
        """
        if dotted not in answers:
            answers[dotted] = None
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

    #: Full name of the thing that it names: a module, class, function or constant.
    name: str = ""
    #: Full name of the class that it is an instance of.
    of: str = ""
    #: For ``super()``: attributes are those of the bases of `of` alone.
    above: bool = False
    #: Line of a definition that no other module can name, because it is inside a function.
    line: int = 0


class Values:
    """What the names and expressions of one module stand for.

    Args:
        scopes: The names of the module.
        lookup: What is known of the project; without it every name is taken at its word.
    """

    def __init__(self, scopes: Scopes, lookup: Lookup | None = None) -> None:
        self._module, self._stars = scopes.module.dotted, scopes.stars
        self._at_word = lookup is None
        self.target: Lookup = lookup or (lambda _: None)
        self._orders: dict[str, tuple[str, ...]] = {}
        self._names: dict[tuple[Scope, str], Value | None] = {}

    def kind(self, dotted: str) -> str:
        """What a full name is the name of, here or as others document it; else empty."""
        target = self.target(dotted)
        return target.definition.kind if target else external_kind(dotted)

    def described(self, dotted: str) -> Value:
        """The thing with a dotted name, by the name under which it is defined."""
        target = self.target(dotted)
        return Value(target.definition.dotted if target else dotted)

    def instance(self, dotted: str) -> Value | None:
        """An instance of class `dotted`, if it is one."""
        dotted = self.described(dotted).name if dotted else ""
        is_class = self._at_word or self.kind(dotted) == "class"
        return Value(of=dotted) if dotted and is_class else None

    def order(self, dotted: str) -> tuple[str, ...]:
        """The classes in which an attribute of class `dotted` is searched."""
        if dotted not in self._orders:
            self._orders[dotted] = (dotted,)  # what a class among its own bases gets
            target = self.target(dotted)
            found = [dotted]
            for base in filter(None, target.bases if target else ()):
                found += self.order(self.described(base).name)
            # What several bases have for a base comes behind all of them.
            self._orders[dotted] = tuple(dict.fromkeys(found[::-1]))[::-1]
        return self._orders[dotted]

    def member(self, dotted: str, name: str, *, above: bool = False) -> Value | None:
        """The attribute `name` of class `dotted`, or of an instance of it."""
        for owner in self.order(dotted)[above:]:
            target, attribute = self.target(owner), f"{owner}.{name}"
            if target and name in target.attributes:
                return self.instance(target.attributes[name])
            if self.target(attribute) if target else external_link(attribute):
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
                return self._called(node, scope)
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
        target = self.target(owner.name)
        if target is None or target.definition.kind == "module":
            return self.described(f"{owner.name}.{name}")
        return self.member(owner.name, name) if target.definition.kind == "class" else None

    def _called(self, node: ast.Call, scope: Scope) -> Value | None:
        # ``Stack[int]()`` makes a stack; what ``layers[0]()`` calls, nobody knows.
        called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        function = self.value(called, scope)
        if function is None or not function.name:
            return None
        if function.name == "builtins.super":
            home = self.value(node.args[0], scope) if node.args else Value(scope.owner)
            return Value(of=home.name, above=True) if home and home.name else None
        target = self.target(function.name)
        if target and target.definition.kind in ("function", "method"):
            return self.instance("".join(target.bases))
        return self.instance(function.name)

    def named(self, name: str, scope: Scope) -> Value | None:
        """What a plain name stands for in a scope: only what all of its bindings say."""
        home = scope.find(name)
        if home is None:
            return self._global(name)
        if (home, name) not in self._names:
            self._names[home, name] = None  # what ``x = x`` finds
            values = {self._bound(binding, name, home) for binding in home.bindings[name]}
            self._names[home, name] = values.pop() if len(values) == 1 else None
        return self._names[home, name]

    def _global(self, name: str) -> Value | None:
        """A name that the module does not bind itself: from a star import, or built in."""
        built_in = Value(f"builtins.{name}") if name in BUILTINS else None
        if self._stars and self._at_word:
            return None if built_in else Value(f"{self._module}.{name}")
        for star in reversed(self._stars):
            source = self.target(star)
            if source is None:
                return None
            if self.target(f"{star}.{name}") and not name.startswith("_"):
                return self.described(f"{star}.{name}")
        return built_in

    def _bound(self, binding: Binding, name: str, home: Scope) -> Value | None:
        """What one binding makes of a name of scope `home`."""
        dotted = binding.dotted
        if binding.how == "import":
            return self.described(dotted)
        if binding.how == "definition":
            hidden = not self._at_word and self.target(dotted) is None
            return Value(dotted, line=binding.line) if hidden else self.described(dotted)
        if binding.how in ("self", "cls"):
            return Value(of=dotted) if binding.how == "self" else Value(dotted)
        known = self._known(binding)
        own = self.target(f"{home.dotted}.{name}") if home.kind in ("module", "class") else None
        if own is not None:
            constant = own.definition.kind == "constant"
            return Value(own.definition.dotted, known.of if known else "") if constant else None
        return known

    def _known(self, binding: Binding) -> Value | None:
        """What a name stands for after ``name = node`` or ``name: node``."""
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
        values = map(self._known, declared or bindings)
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
            # An included file is like one of which everything is imported.
            attributes = {} if name else {STARS: " ".join(sum(includes(source), ()))}
        elif not name:
            attributes = _module_names(module, scopes, values)
        elif definition.kind == "class":
            body = scopes.classes[dotted]
            bases = tuple(values.name(base, body.parent or scopes.module) for base in body.bases)
            attributes = _attributes(body, values)
        else:
            bases = tuple(filter(None, [values.held(scopes.returns.get(dotted, ()))]))
        # The first of several definitions of a name owns its anchor.
        found.setdefault(dotted, Target(definition, address, bases, attributes))
    return found


def _module_names(module: Module, scopes: Scopes, values: Values) -> dict[str, str]:
    """Names that a module has from elsewhere; those of which nothing is known lead to ``""``."""
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


_NAMES = Path(__file__).with_name("documented")
_SITES = {
    "python": "https://docs.python.org/3/",
    "pytorch": "https://docs.pytorch.org/docs/stable/",
}
_MARKS = {"/": "module", "^": "class"}


def external_link(dotted: str) -> Link | None:
    """Link to the documentation of a full dotted name, or None where there may be no entry."""
    name = dotted.removeprefix("builtins.")
    url, _ = documented().get(name, ("", ""))
    return Link(url, name, external=True) if url else None


def external_kind(dotted: str) -> str:
    """Whether a documented name is that of a "module" or of a "class"; else empty."""
    return documented().get(dotted.removeprefix("builtins."), ("", ""))[1]


@cache
def documented() -> dict[str, tuple[str, str]]:
    """Address and kind of all that there is an entry for; the tables say how they are written."""
    found = {}
    for site, root in _SITES.items():
        page = owner = ""
        for line in _NAMES.joinpath(f"{site}.txt").read_text("utf-8").splitlines():
            words = line.split()
            if not line.startswith((" ", "#")):
                page = words.pop()
            elif line.startswith("  ") and not line.startswith("    "):
                owner = words.pop(0).removeprefix("-")
            for word in words if not line.startswith("#") else ():
                name = f"{owner}.{word.rstrip('/^')}".lstrip(".")
                kind = _MARKS.get(word[-1], "")
                address = f"{page}#module-{name}" if kind == "module" else f"{page}#{name}"
                if page == "generated/":
                    address = f"{page}{name}.html"
                elif page == "generated/#":
                    address = f"generated/{owner}.html#{name}"
                elif "#" in page:
                    address = page
                found[name] = root + address, kind
    return found
