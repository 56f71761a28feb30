"""A line tracer: records the shapes of the tensors that each line of one module creates.

`sys.settrace` behaves alike from Python 3.11 on. A line is recorded when the next one begins: only
then has it been executed. No code of a value is executed: attributes are read where they are
stored and never computed. A tensor is what has a shape and a dtype, whatever library it is from.
See decision 012.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pylit.runs.shapes.plan import Names, Path, Plan, Statement, parameters

COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
#: From this version on, comprehensions run inside the frame around them.
_INLINED = sys.version_info >= (3, 12)
#: The most tensors of one value that are recorded, and the deepest nesting.
MOST, MAX_DEPTH = 4, 3

#: Line, kind ("set", "loop", "change", "return", "arg", "field"), and name.
Key = tuple[int, str, str]


class TensorRecord(NamedTuple):
    """A tensor in a value, or None in its place."""

    #: Where in the value it is: ``keys.rows``; empty for the value itself.
    path: str
    #: None for None.
    dims: tuple[int, ...] | None
    dtype: str = ""
    #: The length of a list in which all are alike.
    times: int | None = None


Value = tuple[TensorRecord, ...]
NONE: Value = (TensorRecord("", None),)
MISSING = object()


def is_tensor(value: Any) -> bool:
    """Whether it has sizes and a kind of number; a class that describes such does not count.

    A nested tensor has no sizes.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return not value.is_nested
    return type(value).__name__ == "ndarray" and hasattr(value, "shape")


def is_module(value: Any) -> bool:
    """Whether it is a layer with parameters of its own, as PyTorch keeps them."""
    return "_parameters" in getattr(value, "__dict__", ())


def describe(value: Any) -> Value:
    """The tensors of a value; empty if there are none."""
    return NONE if value is None else tuple(_records(value, 0)[:MOST])


def _records(value: Any, depth: int) -> list[TensorRecord]:
    if is_tensor(value):
        return [
            TensorRecord("", tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch."))
        ]
    if depth >= MAX_DEPTH:
        return []
    if not isinstance(value, list) and type(value) is not tuple:
        return _within((name, _records(part, depth + 1)) for name, part in named_parts(value))
    items = [_records(item, depth + 1) for item in value[:200]]
    one = items[0] if any(items) else []
    # A list is as long as it happens to be. The parts of a tuple are different things, unless they
    # are of one class of their own.
    many = isinstance(value, list) or (len(items) > 1 and all(record.path for record in one))
    if many and all(item == one for item in items) and all(record.times is None for record in one):
        return [record._replace(times=len(value)) for record in one]
    return [] if isinstance(value, list) else _within((str(i), x) for i, x in enumerate(items))


def _within(parts: Any) -> list[TensorRecord]:
    """The records of named parts, as those of the whole."""
    return [
        record._replace(path=f"{name}.{record.path}".rstrip("."))
        for name, records in parts
        for record in records
    ]


def named_parts(value: Any) -> list[tuple[str, Any]]:
    """Fields of a named tuple or dataclass; parameters and buffers of an innermost module."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=False))
    if isinstance(value, type):
        return []
    if is_dataclass(value):
        return [(f.name, stored_attribute(value, f.name)) for f in fields(value)]
    own = getattr(value, "__dict__", {})
    if is_module(value) and not own.get("_modules"):
        return [*own["_parameters"].items(), *own.get("_buffers", {}).items()]
    return []


def stored_attribute(value: Any, name: str) -> Any:
    """An attribute, if it is simply stored; `MISSING` if it would have to be computed."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        for place in (own, *(own.get(k) for k in ("_parameters", "_buffers", "_modules"))):
            if isinstance(place, dict) and name in place:
                return place[name]
    # A slot, or a field of a named tuple.
    if type(getattr(type(value), name, None)).__name__ in ("member_descriptor", "_tuplegetter"):
        return getattr(value, name, MISSING)
    return MISSING


def resolve(names: dict[str, Any], path: Path) -> Any:
    """The value of a name with attributes, from the variables of a frame."""
    value = names.get(path[0], MISSING)
    for name in path[1:]:
        value = stored_attribute(value, name)
    return value


def mark(value: Any) -> Any:
    """Something that differs after the value has been changed in place; None for most values."""
    if isinstance(value, list):
        return len(value)
    try:
        return value._version if is_tensor(value) else None
    except (AttributeError, RuntimeError):  # numpy's have none, those of inference neither
        return None


@dataclass(slots=True)
class Watched:
    """A running frame: its current statement, and the versions of what that mentions."""

    pending: Statement | None = None
    marks: dict[Path, Any] = field(default_factory=dict)
    raising: bool = False


class Tracer:
    """The line tracer of one module.

    Args:
        plan: What the lines of the module bind.
        is_source: Whether a code object's file is the module's.
    """

    def __init__(self, plan: Plan, is_source: Callable[[str], bool]) -> None:
        self._plan = plan
        self._is_source = is_source
        self._frames: dict[FrameType, Watched] = {}
        #: What each line made, each different value once, in order.
        self.values: dict[Key, dict[Value, None]] = {}
        self.lines: set[int] = set()
        #: Code that ran, by its identity.
        self.codes: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The tracer of new frames; one of the module's own gets a tracer of its lines."""
        code = frame.f_code
        self.codes[id(code)] = code
        if not self._is_source(code.co_filename) or code.co_name == "<module>":
            return None
        if frame not in self._frames:
            self._begin(frame, code)
        return self._trace

    def _begin(self, frame: FrameType, code: CodeType) -> None:
        self._frames[frame] = Watched()
        first = code.co_firstlineno
        self.lines.add(first)
        if code.co_name == "<lambda>":
            for name in code.co_varnames[: code.co_argcount]:
                self._keep(first, "loop", name, frame.f_locals[name])
        elif first in self._plan.functions and code.co_name not in COMPREHENSIONS:
            node = self._plan.functions[first].node
            for one in (*parameters(node), node.args.vararg, node.args.kwarg):
                # Modules, and the object a method belongs to, were made elsewhere.
                if one is not None and one.arg not in ("self", "cls"):
                    argument = frame.f_locals.get(one.arg)
                    if not is_module(argument):
                        self._keep(one.lineno, "arg", one.arg, argument)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        watched = self._frames.get(frame)
        if watched is None:
            return None
        if event == "line":
            self._line(frame, watched)
        elif event == "exception":
            self._raised(frame, watched)
        elif event == "return":
            self._return(frame, watched, arg)
        return self._trace

    def _line(self, frame: FrameType, watched: Watched) -> None:
        self.lines.add(frame.f_lineno)
        watched.raising = False
        if frame.f_code.co_name in COMPREHENSIONS:
            self._comprehended(frame, self._plan.comprehensions, frame.f_code.co_firstlineno)
            return
        statement = self._plan.statements.get(frame.f_lineno)
        # Within a statement, Python goes back and forth: between its lines, and for each item of an
        # inlined comprehension.
        if statement is watched.pending or frame.f_code.co_name == "<lambda>":
            if _INLINED:
                self._comprehended(frame, self._plan.inlined, frame.f_lineno)
            return
        self._finish(frame, watched)
        watched.pending = statement
        if statement is not None:
            # Views of a tensor share its version: only statements that bind nothing are watched.
            mentions = () if statement.targets else statement.mentions
            watched.marks = {path: mark(resolve(frame.f_locals, path)) for path in mentions}

    def _finish(self, frame: FrameType, watched: Watched) -> None:
        """Keep what the statement that has just run made."""
        statement, names = watched.pending, frame.f_locals
        if statement is None:
            return
        body = statement.body
        if body is None or body[0] <= frame.f_lineno <= body[1]:
            for line, path in statement.targets:
                bound = resolve(names, path)
                # A loop over modules that were made elsewhere.
                if not (body and is_module(bound)) and not (bound is None and statement.nothing):
                    self._keep(line, "loop" if body else "set", ".".join(path), bound)
        for path, before in watched.marks.items():
            if before is not None and mark(value := resolve(names, path)) != before:
                self._keep(statement.first, "change", ".".join(path), value)

    def _raised(self, frame: FrameType, watched: Watched) -> None:
        """The pending statement has made nothing."""
        watched.raising, watched.pending = True, None

    def _return(self, frame: FrameType, watched: Watched, result: Any) -> None:
        code, statement = frame.f_code, watched.pending
        generates = bool(code.co_flags & CO_GENERATOR)
        if not watched.raising:
            if code.co_name in COMPREHENSIONS:
                self._comprehended(frame, self._plan.comprehensions, code.co_firstlineno)
            elif code.co_name == "<lambda>":
                self._keep(code.co_firstlineno, "return", "", result)
            else:
                self._finish(frame, watched)
                if statement is not None and (statement.returns or generates):
                    self._keep(statement.first, "return", "", result)
        if watched.raising or not generates:
            del self._frames[frame]

    def results(self) -> dict[str, Any]:
        """The recorded values and lines, for JSON."""
        values = [[*key, list(found)] for key, found in self.values.items()]
        return {"values": values, "lines": sorted(self.lines)}

    def _comprehended(self, frame: FrameType, names: Names, line_of_code: int) -> None:
        for line, path in names.get(line_of_code, ()):
            bound = resolve(frame.f_locals, path)
            if bound is not None and not is_module(bound):
                self._keep(line, "loop", ".".join(path), bound)

    def _keep(self, line: int, kind: str, name: str, value: Any) -> None:
        """Record the tensors of a value; those of a class of the module are fields of it, too."""
        found = () if value is MISSING else describe(value)
        if not found:
            return
        self.values.setdefault((line, kind, name), {})[found] = None
        of = type(value).__qualname__
        for part, inner in named_parts(value) if of in self._plan.classes else ():
            if seen := describe(inner):
                key = self._plan.classes[of], "field", f"{of}.{part}"
                self.values.setdefault(key, {})[seen] = None
