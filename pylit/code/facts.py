"""What a module's syntax says of the things it defines: bases, attributes, re-exported names.

These are the facts that other modules may learn of it. They are names, not yet followed through
other modules: ``attn -> pkg.mha.MultiHeadAttention`` may turn out to be a re-export, or a function.
"""

import ast
import builtins
from collections.abc import Mapping

from pylit.code.bindings import read_scopes
from pylit.code.scopes import Assigned, Binding, Declared, Defined, Imported, Scope, Scopes
from pylit.model import Definition, Module, Target
from pylit.source.cpp import includes, is_cpp

#: Attribute of a module's `Target` that holds the modules of its ``from m import *``, and the one
#: that holds the names in its ``__all__``; both separated by spaces.
STARS = "*"
PUBLIC = "__all__"

#: How many aliases are followed before they are taken for a circle.
DEPTH = 20

BUILTINS = frozenset(n for n in vars(builtins) if not n.startswith("_"))

#: Subscripted forms of which an instance is an instance of their first argument.
_TRANSPARENT = frozenset(
    f"{module}.{name}"
    for module in ("typing", "typing_extensions")
    for name in ("Optional", "Annotated", "Final", "ClassVar")
)
_LITERALS: dict[type[ast.AST], str] = {
    ast.List: "builtins.list",
    ast.ListComp: "builtins.list",
    ast.Dict: "builtins.dict",
    ast.DictComp: "builtins.dict",
    ast.Set: "builtins.set",
    ast.SetComp: "builtins.set",
    ast.Tuple: "builtins.tuple",
    ast.JoinedStr: "builtins.str",
}


def read_module(module: Module) -> Scopes | None:
    """The names of a module, or None when its source does not parse."""
    source = module.source
    try:
        # Python ends lines at a lone carriage return, our sources only at a line feed.
        tree = ast.parse(source.text.replace("\r", " "))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return read_scopes(tree, source.name, is_package=source.is_package)


def targets(module: Module, url: str) -> dict[str, Target]:
    """The definitions of a module by dotted name, with their addresses on the page at `url`."""
    scopes = read_module(module) if not is_cpp(module.source.name) else None
    anchored = {section.definition for section in module.sections}
    found: dict[str, Target] = {}
    for definition in module.definitions:
        place = _address(definition, url, anchored)
        bases: tuple[str, ...] = ()
        attributes: Mapping[str, str] = {}
        if scopes is not None:
            bases, attributes = _facts(definition, scopes, module)
        elif is_cpp(module.source.name) and definition.kind == "module":
            # An included file is like one of which everything is imported.
            attributes = {
                STARS: " ".join(name for names in includes(module.source) for name in names)
            }
        # The first of several definitions of a name owns its anchor.
        found.setdefault(definition.dotted, Target(definition, place, bases, attributes))
    return found


def _address(definition: Definition, url: str, anchored: set[str]) -> str:
    if not definition.qualname:
        return url
    anchor = definition.qualname if definition.qualname in anchored else f"L{definition.line}"
    return f"{url}#{anchor}"


def _facts(
    definition: Definition, scopes: Scopes, module: Module
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    if definition.kind == "module":
        return (), _module_names(scopes, module)
    if definition.kind == "class" and definition.dotted in scopes.classes:
        bases, scope = scopes.classes[definition.dotted]
        names = tuple(static_name(base, scope) for base in bases)
        return names, _class_attributes(definition.dotted, scopes)
    if definition.kind in ("function", "method"):
        returned = _held_class(list(scopes.returns.get(definition.dotted, [])))
        return ((returned,) if returned else ()), {}
    if definition.kind == "constant":
        scope = scopes.bodies.get(definition.dotted.rpartition(".")[0], scopes.module)
        held = _held_class(scope.bindings.get(definition.dotted.rpartition(".")[2], []))
        return ((held,) if held else ()), {}
    return (), {}


def _module_names(scopes: Scopes, module: Module) -> dict[str, str]:
    """Names that a module has from elsewhere; those of which nothing is known lead to ``""``."""
    defined = {d.qualname for d in module.definitions}
    names: dict[str, str] = {}
    for name, bindings in scopes.module.bindings.items():
        if name == PUBLIC:
            public = _literal_names(bindings)
            if public is not None:
                names[PUBLIC] = " ".join(public)
        elif name not in defined:
            known = {static_binding(binding) for binding in bindings}
            names[name] = known.pop() if len(known) == 1 else ""
    if scopes.module.stars:
        names[STARS] = " ".join(scopes.module.stars)
    return names


def _literal_names(bindings: list[Binding]) -> list[str] | None:
    """The names in ``__all__ = [...]``, or None when it is not one plain list of strings."""
    if len(bindings) != 1 or not isinstance(bindings[0], Assigned):
        return None
    try:
        value = ast.literal_eval(bindings[0].value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return list(value)
    return None


def _class_attributes(dotted: str, scopes: Scopes) -> dict[str, str]:
    """Attribute -> class it holds; ``""`` for one that is set but holds something unknown."""
    known: dict[str, list[Binding]] = {}
    for name, bindings in scopes.bodies[dotted].bindings.items():
        values = [b for b in bindings if not isinstance(b, Defined | Imported)]
        if values:
            known[name] = list(values)
    for name, settings in scopes.attributes.get(dotted, {}).items():
        known.setdefault(name, []).extend(settings)
    return {name: _held_class(bindings) for name, bindings in known.items()}


def _held_class(bindings: list[Binding]) -> str:
    """The one class that all bindings agree on; a declared type outweighs what is assigned."""
    declared: list[Binding] = [b for b in bindings if isinstance(b, Declared)]
    decisive = declared or [b for b in bindings if not _is_none(b)]
    classes = {_class_of_binding(binding, DEPTH) for binding in decisive}
    return classes.pop() if len(classes) == 1 else ""


def _is_none(binding: Binding) -> bool:
    """``self.memory = None`` in a constructor says "not yet", not "nothing else ever"."""
    return (
        isinstance(binding, Assigned)
        and isinstance(binding.value, ast.Constant)
        and binding.value.value is None
    )


def _class_of_binding(binding: Binding, depth: int) -> str:
    if isinstance(binding, Declared):
        return annotation_class(binding.annotation, binding.scope)
    if isinstance(binding, Assigned):
        return static_class(binding.value, binding.scope, depth)
    return ""


def literal_class(node: ast.expr) -> str:
    """Dotted name of the class of a literal or display; else empty."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "builtins.str"
    return _LITERALS.get(type(node), "")


def static_class(value: ast.expr, scope: Scope, depth: int = DEPTH) -> str:
    """Dotted name of what a value was called from, if it is a call: its class, most likely."""
    if isinstance(value, ast.Call):
        return static_name(value.func, scope)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return "builtins.str"
    if isinstance(value, ast.Name) and depth:
        home = scope.find(value.id)
        bindings = home.bindings[value.id] if home else []
        return _class_of_binding(bindings[0], depth - 1) if len(bindings) == 1 else ""
    return _LITERALS.get(type(value), "")


def static_name(node: ast.expr, scope: Scope, depth: int = DEPTH) -> str:
    """Dotted name of what an expression names, not followed into other modules; else empty."""
    if isinstance(node, ast.Subscript):
        node = node.value
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    owner = _root_name(node, scope, depth)
    return ".".join([owner, *reversed(attributes)]) if owner else ""


def _root_name(node: ast.expr, scope: Scope, depth: int) -> str:
    if not isinstance(node, ast.Name):
        return ""
    home = scope.find(node.id)
    if home is None:
        if scope.module.stars:
            return "" if node.id in BUILTINS else f"{scope.module.dotted}.{node.id}"
        return f"builtins.{node.id}" if node.id in BUILTINS else ""
    known = {static_binding(binding, depth) for binding in home.bindings[node.id]}
    return known.pop() if len(known) == 1 else ""


def static_binding(binding: Binding, depth: int = DEPTH) -> str:
    """Dotted name of what a binding binds a name to: an import, a definition, or an alias."""
    match binding:
        case Imported() | Defined():
            return binding.dotted
        case Assigned(value=ast.Name() | ast.Attribute()) if depth:
            return static_name(binding.value, binding.scope, depth - 1)
    return ""


def annotation_class(node: ast.expr, scope: Scope) -> str:
    """Dotted name of the class that an annotation promises an instance of; else empty."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [s for s in (node.left, node.right) if not _is_none_constant(s)]
        return annotation_class(sides[0], scope) if len(sides) == 1 else ""
    if isinstance(node, ast.Subscript):
        outer = static_name(node.value, scope)
        if outer in _TRANSPARENT or outer.startswith("jaxtyping."):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return annotation_class(parts[0], scope) if parts else ""
        return "" if outer in ("typing.Type", "builtins.type", "typing.Union") else outer
    return static_name(node, scope)


def _is_none_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
