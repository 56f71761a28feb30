"""One walk over a module's syntax tree, which fills its scopes with what binds each name."""

import ast
from collections.abc import Callable, Iterator, Sequence

from pylit.code.scopes import (
    OPAQUE,
    Assigned,
    AttributeBinding,
    Binding,
    Declared,
    Defined,
    Imported,
    Receiver,
    Scope,
    Scopes,
)


def read_scopes(tree: ast.Module, name: str, *, is_package: bool) -> Scopes:
    """Walk the syntax tree of module `name` once."""
    scopes = Scopes(Scope("module", name), is_package)
    walk = _Walk(scopes)
    # A stack instead of recursion: generated code nests deeper than Python's stack is high.
    walk.push(tree.body, scopes.module)
    while walk.pending:
        node, scope = walk.pending.pop()
        handler = _HANDLERS.get(type(node))
        if handler is None:
            walk.push(list(ast.iter_child_nodes(node)), scope)
        else:
            handler(walk, node, scope)
    return scopes


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Walk:
    """What is still to be visited, in source order, and one method per kind of node."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.pending: list[tuple[ast.AST, Scope]] = []

    def push(self, nodes: Sequence[ast.AST], scope: Scope) -> None:
        self.pending.extend((node, scope) for node in reversed(nodes))

    def name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
        else:
            scope.bind(node.id, OPAQUE)
            self.scopes.stored.append((node, scope))

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scopes.uses.append((node, scope))
        else:
            self._set_attribute(node, scope, OPAQUE)
        self.push([node.value], scope)

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.scopes.called.add(node.func)
        self.push([node.func, *node.args, *(k.value for k in node.keywords)], scope)

    def _set_attribute(self, node: ast.Attribute, scope: Scope, how: AttributeBinding) -> None:
        """Record ``self.attr = …`` for the class whose receiver `self` is."""
        self.scopes.stored.append((node, scope))
        if not isinstance(node.value, ast.Name):
            return
        home = scope.find(node.value.id)
        for binding in home.bindings[node.value.id] if home else ():
            if isinstance(binding, Receiver):
                table = self.scopes.attributes.setdefault(binding.dotted, {})
                table.setdefault(node.attr, []).append(how)

    def import_(self, node: ast.Import, scope: Scope) -> None:
        self.scopes.imports.append(node)
        for alias in node.names:
            if alias.asname:
                scope.bind(alias.asname, Imported(alias.name))
            else:
                top = alias.name.partition(".")[0]
                scope.bind(top, Imported(top))

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.scopes.imports.append(node)
        origin = self.scopes.origin(node)
        for alias in node.names:
            if alias.name == "*":
                scope.module.stars.append(origin)
            else:
                known = Imported(f"{origin}.{alias.name}") if origin else OPAQUE
                scope.bind(alias.asname or alias.name, known)

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.bind(target.id, Assigned(node.value, scope))
                self.scopes.stored.append((target, scope))
            elif isinstance(target, ast.Attribute):
                self._set_attribute(target, scope, Assigned(node.value, scope))
        rest = [t for t in node.targets if not isinstance(t, ast.Name | ast.Attribute)]
        owners = [t.value for t in node.targets if isinstance(t, ast.Attribute)]
        self.push([*owners, *rest, node.value], scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        declared = Declared(node.annotation, scope)
        if isinstance(node.target, ast.Name):
            scope.bind(node.target.id, declared)
            self.scopes.stored.append((node.target, scope))
        elif isinstance(node.target, ast.Attribute):
            self._set_attribute(node.target, scope, declared)
            self.push([node.target.value], scope)
        else:
            self.push([node.target], scope)
        self.push([node.annotation, *([node.value] if node.value else [])], scope)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self.push([node.target, node.value], scope)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        home = scope
        while home.dotted.endswith(".<comprehension>") and home.parent is not None:
            home = home.parent
        home.bind(node.target.id, Assigned(node.value, scope))
        self.scopes.stored.append((node.target, home))
        self.push([node.value], scope)

    def global_(self, node: ast.Global, scope: Scope) -> None:
        scope.module_names.update(node.names)

    def nonlocal_(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(node.names)

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            scope.bind(node.name, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def mapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            scope.bind(node.rest, OPAQUE)
        self.push(list(ast.iter_child_nodes(node)), scope)

    def alias(self, node: ast.AST, scope: Scope) -> None:
        """``type Name[T] = value``, where this Python knows it."""
        name = getattr(node, "name", None)
        if isinstance(name, ast.Name):
            scope.bind(name.id, OPAQUE)
        inner = self._type_parameters(node, scope)
        self.push([node.value] if hasattr(node, "value") else [], inner)

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of ``[T]`` after a name, or `scope` itself where there is none."""
        parameters: list[ast.AST] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        inner = Scope("type parameters", scope.dotted, scope)
        for parameter in parameters:
            inner.bind(str(getattr(parameter, "name", "")), OPAQUE)
            self.push(list(ast.iter_child_nodes(parameter)), inner)
        return inner

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Defined(dotted, node.lineno))
        self.scopes.stored.append((node, scope))
        outer = self._type_parameters(node, scope)
        body = Scope("class", dotted, outer, dotted)
        if dotted in self.scopes.classes:
            # Defined twice: which of the two a name means is not known.
            self.scopes.classes[dotted] = ([ast.Constant(None)], outer)
        else:
            self.scopes.classes[dotted] = (node.bases, outer)
        self.scopes.bodies[dotted] = body
        self.push(node.body, body)
        self.push([*node.bases, *(k.value for k in node.keywords)], outer)
        self.push(node.decorator_list, scope)

    def function(self, node: FunctionNode, scope: Scope) -> None:
        dotted = f"{scope.dotted}.{node.name}"
        scope.bind(node.name, Defined(dotted, node.lineno))
        self.scopes.stored.append((node, scope))
        outer = self._type_parameters(node, scope)
        owner = scope.dotted if scope.kind == "class" else ""
        body = Scope("function", dotted, outer, owner)
        self._parameters(node.args, body, outer, _receiver(node, scope))
        plain = isinstance(node, ast.FunctionDef) and not set(_decorators(node)) - _HARMLESS
        returned = Declared(node.returns, outer) if node.returns and plain else OPAQUE
        self.scopes.returns.setdefault(dotted, []).append(returned)
        self.push(node.body, body)
        self.push([node.returns] if node.returns else [], outer)
        self.push(node.decorator_list, scope)

    def lambda_(self, node: ast.Lambda, scope: Scope) -> None:
        body = Scope("function", f"{scope.dotted}.<lambda>", scope, scope.owner)
        self._parameters(node.args, body, scope, None)
        self.push([node.body], body)

    def _parameters(
        self, arguments: ast.arguments, body: Scope, outer: Scope, receiver: Receiver | None
    ) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        for index, argument in enumerate([*positional, *arguments.kwonlyargs]):
            known: Binding = OPAQUE
            if index == 0 and receiver is not None and positional:
                known = receiver
            elif argument.annotation is not None:
                known = Declared(argument.annotation, outer)
            body.bind(argument.arg, known)
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                body.bind(variadic.arg, OPAQUE)
        self.push([n for n in ast.iter_child_nodes(arguments) if isinstance(n, ast.expr)], outer)
        every = [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.scopes.stored += [(argument, body) for argument in every if argument]
        self.push([a.annotation for a in every if a and a.annotation], outer)

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> None:
        inner = Scope("function", f"{scope.dotted}.<comprehension>", scope, scope.owner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.push(results, inner)
        for index, clause in reversed(list(enumerate(node.generators))):
            self.push([clause.target, *clause.ifs], inner)
            self.push([clause.iter], scope if index == 0 else inner)


#: Decorators that leave alone what a call returns.
_HARMLESS = frozenset(
    [
        "staticmethod",
        "classmethod",
        "abstractmethod",
        "override",
        "final",
        "cache",
        "no_grad",
        "inference_mode",
    ]
)


def _decorators(node: FunctionNode) -> Iterator[str]:
    """The last name of each decorator."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _receiver(node: FunctionNode, scope: Scope) -> Receiver | None:
    """What the first parameter of a function is, when the function is a method."""
    if scope.kind != "class":
        return None
    names = set(_decorators(node))
    if "staticmethod" in names:
        return None
    of_class = "classmethod" in names or node.name in (
        "__new__",
        "__init_subclass__",
        "__class_getitem__",
    )
    return Receiver(scope.dotted, instance=not of_class)


_HANDLERS: dict[type[ast.AST], Callable[..., None]] = {
    ast.Name: _Walk.name,
    ast.Attribute: _Walk.attribute,
    ast.Call: _Walk.call,
    ast.Import: _Walk.import_,
    ast.ImportFrom: _Walk.import_from,
    ast.Assign: _Walk.assign,
    ast.AnnAssign: _Walk.annotated,
    ast.AugAssign: _Walk.augmented,
    ast.NamedExpr: _Walk.walrus,
    ast.Global: _Walk.global_,
    ast.Nonlocal: _Walk.nonlocal_,
    ast.ExceptHandler: _Walk.handler,
    ast.MatchAs: _Walk.capture,
    ast.MatchStar: _Walk.capture,
    ast.MatchMapping: _Walk.mapping,
    ast.ClassDef: _Walk.class_,
    ast.FunctionDef: _Walk.function,
    ast.AsyncFunctionDef: _Walk.function,
    ast.Lambda: _Walk.lambda_,
    ast.ListComp: _Walk.comprehension,
    ast.SetComp: _Walk.comprehension,
    ast.DictComp: _Walk.comprehension,
    ast.GeneratorExp: _Walk.comprehension,
}
if hasattr(ast, "TypeAlias"):
    _HANDLERS[ast.TypeAlias] = _Walk.alias
