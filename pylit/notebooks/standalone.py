"""Code that stands alone: without what only the package of a lesson has.

A notebook needs PyTorch and nothing of ours. So the checks of arguments, the decorators to which
kernels attach, and the shapes in annotations that a library of their own declares go; the shapes
stay as comments.
"""

import ast
import re
from collections.abc import Collection, Iterator

#: Modules whose names fall away with all that they do.
DROPPED = ("labml_nn.checks", "labml_nn.kernels", "jaxtyping")

_SHAPED = re.compile(r'\b(?:Float|Int|Bool)\[\s*Tensor,\s*"([^"]*)"\s*\]')
_IMPORT = re.compile(r"^from labml_nn[\w.]* import (\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_NAMED = re.compile(rf"(\w+): (?=[^,)]*?{_SHAPED.pattern})")


def stand_alone(code: str, dropped: Collection[str]) -> str:
    """A definition without the decorators and the checks in `dropped`, shapes as comments."""
    written = code.split("\n")
    gone = set(_fallen(ast.parse(code).body, dropped))
    for number in [number for number in gone if written[number - 1].lstrip().startswith("@")]:
        # A comment above a decorator that goes speaks of what the decorator attaches.
        above = number - 1
        while written[above - 1].lstrip().startswith("#"):
            gone.add(above)
            above -= 1
    lines: list[str] = []
    for number, line in enumerate(written, start=1):
        # What stood between two blank lines leaves one of them.
        again = not line.strip() and lines and not lines[-1].strip()
        if number not in gone and not again:
            lines.append(line)
    text = _SHAPED.sub(lambda match: " ".join(match[0].split()), "\n".join(lines))
    return "\n".join(map(_commented, text.split("\n")))


def dropped_names(tree: ast.Module) -> set[str]:
    """The names that a module imports of what falls away in a notebook."""
    return {
        alias.asname or alias.name
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and statement.module in DROPPED
        for alias in statement.names
    }


def used_names(code: str) -> set[str]:
    """All names that a piece of code mentions, those in quoted annotations too."""
    tree = ast.parse(code)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(re.findall(r"\b[A-Z]\w+\b", node.value))
    return names


def without_imports(text: str, defined: Collection[str]) -> str:
    """Programs in the text of exercises without imports of what the notebook defines."""

    def kept(match: re.Match[str]) -> str:
        names = re.findall(r"\w+", match[1])
        return "" if all(name in defined for name in names) else match[0]

    return _IMPORT.sub(kept, text)


def _fallen(body: list[ast.stmt], dropped: Collection[str]) -> Iterator[int]:
    """The lines of what falls away."""
    for statement in body:
        if _falls(statement, dropped):
            yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            continue
        for field in ("body", "orelse"):
            yield from _fallen(getattr(statement, field, []), dropped)
        for decorator in getattr(statement, "decorator_list", []):
            if isinstance(decorator, ast.Name) and decorator.id in dropped:
                yield decorator.lineno


def _falls(statement: ast.stmt, dropped: Collection[str]) -> bool:
    if isinstance(statement, ast.If) and not statement.orelse:
        return all(_falls(inner, dropped) for inner in statement.body)
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id in dropped
    )


def _commented(line: str) -> str:
    """A line of a signature with plain tensors, and their shapes behind it."""
    shapes = [_shape(match[1]) for match in _SHAPED.finditer(line)]
    if not shapes:
        return line
    arguments, arrow, returned = line.partition("->")
    names = [match[1] for match in _NAMED.finditer(arguments)]
    plain = _SHAPED.sub("Tensor", line)
    if len(shapes) == 1 or not names:
        return f"{plain}  # {', '.join(shapes)}"
    count = len(_SHAPED.findall(arguments))
    said = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes[:count], strict=True))
    if arrow and returned and shapes[count:]:
        said += f" -> {', '.join(shapes[count:])}"
    return f"{plain}  # {said}"


def _shape(axes: str) -> str:
    """``#T S _ *rest`` as ``[T|1, S, ·, …]``."""
    shown = []
    for axis in axes.split():
        if axis.startswith("#"):
            shown.append(f"{axis[1:]}|1")
        else:
            shown.append("…" if axis.startswith("*") else axis.replace("_", "·"))
    return f"[{', '.join(shown)}]"
