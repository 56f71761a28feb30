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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pylit.code.cpp import includes, is_cpp
from pylit.code.external import external_kind, external_link
from pylit.model import Module, Target
from pylit.source.scopes import Binding, Scope, Scopes, read_scopes

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
        for place in self.order(dotted)[above:]:
            target, attribute = self.target(place), f"{place}.{name}"
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
        name, dotted, place = definition.qualname, definition.dotted, url
        if name:
            place += f"#{name}" if name in anchored else f"#L{definition.line}"
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
        found.setdefault(dotted, Target(definition, place, bases, attributes))
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
