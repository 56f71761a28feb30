"""Values as the child process tells of them: tensors, and what holds tensors.

Nothing of a value runs: attributes are looked up where they are stored, not asked for. A tensor is
what has a shape and a dtype, whatever library it is from.
"""

import sys
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

#: As many tensors of one value are told of, and so deep inside it.
MOST, DEEPEST = 4, 3


class Leaf(NamedTuple):
    """A tensor in a value, or None in its place."""

    #: Where in the value it is: ``keys.rows``; empty for the value itself.
    path: str
    #: None for None.
    dims: tuple[int, ...] | None
    dtype: str = ""
    #: The length of a list in which all are alike.
    times: int | None = None


Value = tuple[Leaf, ...]
NONE: Value = (Leaf("", None),)


def is_tensor(value: Any) -> bool:
    """Whether it has sizes and a kind of number; a class that describes such does not count."""
    if isinstance(value, type):
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    return type(value).__name__ == "ndarray" and hasattr(value, "shape")


def describe(value: Any) -> Value:
    """The tensors of a value; empty if there are none."""
    if value is None:
        return NONE
    return tuple(_leaves(value, "", 0)[:MOST])


def _leaves(value: Any, path: str, depth: int) -> list[Leaf]:
    if is_tensor(value):
        dtype = str(value.dtype).removeprefix("torch.")
        return [Leaf(path, tuple(int(n) for n in value.shape), dtype)]
    if depth >= DEEPEST:
        return []
    if isinstance(value, list) or type(value) is tuple:
        return _sequence(value, path, depth)
    found: list[Leaf] = []
    for name, part in named_parts(value):
        inner = f"{path}.{name}" if path else name
        found += _leaves(part, inner, depth + 1)
    return found


def _sequence(value: Any, path: str, depth: int) -> list[Leaf]:
    items = [_leaves(item, "", depth + 1) for item in value[:200]]
    if not any(items):
        return []
    one, alike = items[0], all(item == items[0] for item in items)
    # A list is as long as it happens to be. The parts of a tuple are different things, unless they
    # are of one class of their own.
    many = isinstance(value, list) or (len(items) > 1 and all(leaf.path for leaf in one))
    if many and alike and all(leaf.times is None for leaf in one):
        inside = (".".join(filter(None, (path, leaf.path))) for leaf in one)
        places = zip(one, inside, strict=True)
        return [leaf._replace(path=place, times=len(value)) for leaf, place in places]
    if isinstance(value, list):
        return []
    return [
        leaf._replace(path=".".join(filter(None, (path, str(index), leaf.path))))
        for index, leaves in enumerate(items)
        for leaf in leaves
    ]


def named_parts(value: Any) -> list[tuple[str, Any]]:
    """Fields of a named tuple or dataclass; parameters and buffers of a module without parts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=False))
    if isinstance(value, type):
        return []
    if is_dataclass(value):
        return [(f.name, stored(value, f.name)) for f in fields(value)]
    parts = getattr(value, "__dict__", {})
    if is_module(value) and not parts.get("_modules"):
        return [*parts["_parameters"].items(), *parts.get("_buffers", {}).items()]
    return []


def is_module(value: Any) -> bool:
    """Whether it is a layer with parameters of its own, as PyTorch keeps them."""
    return "_parameters" in getattr(value, "__dict__", ())


MISSING = object()


def stored(value: Any, name: str) -> Any:
    """An attribute, if it is simply stored; `MISSING` if it would have to be computed."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        for place in (own, *(own.get(k) for k in ("_parameters", "_buffers", "_modules"))):
            if isinstance(place, dict) and name in place:
                return place[name]
    names = getattr(value, "_fields", ())
    if isinstance(value, tuple) and name in names:
        return value[names.index(name)]
    if type(getattr(type(value), name, None)).__name__ == "member_descriptor":
        return getattr(value, name, MISSING)
    return MISSING


def follow(names: dict[str, Any], path: tuple[str, ...]) -> Any:
    """What a chain of attributes leads to, from the variables of a frame."""
    value = names.get(path[0], MISSING)
    for name in path[1:]:
        if value is MISSING:
            break
        value = stored(value, name)
    return value


def mark(value: Any) -> Any:
    """Something that differs after the value has been changed in place."""
    if isinstance(value, list):
        return len(value)
    if is_tensor(value):
        try:
            return value._version
        except (AttributeError, RuntimeError):  # numpy's have none, those of inference neither
            return None
    return None
