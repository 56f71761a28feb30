"""Watches one module run, line by line, and keeps the shapes that each line made.

`sys.settrace` works alike from Python 3.11 on. A line is told of when the next one begins: only
then it has done its work. Nothing of a value runs: attributes are looked up where they are stored,
not asked for. A tensor is what has a shape and a dtype, whatever library it is from.

``python -P -m pylit.shapes.tracer`` is the child process, see `pylit.confined`.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pylit.confined import Within, serve
from pylit.shapes.plan import Path, Plan, Statement, read_plan

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
#: From this version on, comprehensions run inside the frame around them.
_INLINED = sys.version_info >= (3, 12)
_OWN = frozenset({"self", "cls"})
#: Different calls of one function that are kept.
MOST_CALLS = 60

#: Line, kind ("set", "loop", "change", "return", "arg", "field"), and name.
Key = tuple[int, str, str]
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


class _Watched:
    """A frame that is running."""

    def __init__(self, code: CodeType) -> None:
        self.pending: Statement | None = None
        self.marks: dict[Path, Any] = {}
        self.raising = False
        self.call: dict[str, Value] | None = None
        self.comprehension = code.co_name in _COMPREHENSIONS
        self.anonymous = code.co_name == "<lambda>" or self.comprehension


class Tracer:
    """The line tracer of one module.

    Args:
        plan: What the lines of the module bind.
        is_source: Whether a code object's file is the module's.
    """

    def __init__(self, plan: Plan, is_source: Callable[[str], bool]) -> None:
        self._plan = plan
        self._is_source = is_source
        self._frames: dict[FrameType, _Watched] = {}
        #: What each line made, each different value once, in order.
        self.values: dict[Key, dict[Value, None]] = {}
        self.lines: set[int] = set()
        #: First line of a function -> its different calls: arguments, and "" for the result.
        self.calls: dict[int, list[dict[str, Value]]] = {}
        #: Class -> field -> values of it that were seen in instances.
        self.fields: dict[str, dict[str, dict[Value, None]]] = {}
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
        watched = self._frames[frame] = _Watched(code)
        self.lines.add(code.co_firstlineno)
        function = self._plan.functions.get(code.co_firstlineno)
        if function is not None and not watched.anonymous:
            watched.call = {}
            for name, line in function.parameters.items():
                argument = frame.f_locals.get(name)
                # Modules, and the object a method belongs to, were made elsewhere.
                value = () if name in _OWN or is_module(argument) else self._see(argument)
                if value:
                    watched.call[name] = value
                    self._keep(line, "arg", name, value)
        elif code.co_name == "<lambda>":
            for name in code.co_varnames[: code.co_argcount]:
                self._keep(code.co_firstlineno, "loop", name, self._see(frame.f_locals[name]))
        if _INLINED and self._plan.comprehensions:
            frame.f_trace_opcodes = True

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        watched = self._frames.get(frame)
        if watched is None:
            return None
        if event == "line":
            self._line(frame, watched)
        elif event == "opcode":
            self._inlined(frame)
        elif event == "exception":
            watched.raising, watched.pending = True, None
        elif event == "return":
            self._return(frame, watched, arg)
        return self._trace

    def _line(self, frame: FrameType, watched: _Watched) -> None:
        line = frame.f_lineno
        self.lines.add(line)
        watched.raising = False
        if watched.comprehension:
            self._comprehended(frame, frame.f_code.co_firstlineno)
            return
        statement = self._plan.statements.get(line)
        # Within a statement of several lines, Python goes back and forth.
        if statement is watched.pending:
            return
        self._finish(frame, watched, line)
        watched.pending = statement
        if statement is not None and not watched.anonymous:
            names = frame.f_locals
            # Of a statement that binds something that is the news, and not which of the views of a
            # tensor count its changes together.
            mentions = () if statement.targets else statement.mentions
            watched.marks = {path: mark(follow(names, path)) for path in mentions}

    def _finish(self, frame: FrameType, watched: _Watched, line: int) -> None:
        """Keep what the statement that has just run made."""
        statement = watched.pending
        if statement is None or watched.anonymous:
            return
        names = frame.f_locals
        if statement.body is None or statement.body[0] <= line <= statement.body[1]:
            kind = "set" if statement.body is None else "loop"
            for at, path in statement.targets:
                bound = follow(names, path)
                # A loop goes through modules that were made elsewhere.
                value = () if kind == "loop" and is_module(bound) else self._see(bound)
                if value and not (value == NONE and statement.nothing):
                    self._keep(at, kind, ".".join(path), value)
        for path, before in watched.marks.items():
            if before is not None:
                value = follow(names, path)
                if mark(value) != before:
                    self._keep(statement.first, "change", ".".join(path), self._see(value))

    def _return(self, frame: FrameType, watched: _Watched, result: Any) -> None:
        statement = watched.pending
        if not watched.raising:
            if watched.comprehension:
                self._comprehended(frame, frame.f_code.co_firstlineno)
            else:
                self._finish(frame, watched, frame.f_lineno)
                if frame.f_code.co_name == "<lambda>":
                    self._keep(frame.f_code.co_firstlineno, "return", "", self._see(result))
                elif statement is not None and (statement.returns or _generates(frame)):
                    self._keep(statement.first, "return", "", self._see(result))
            if watched.call is not None and not _generates(frame):
                watched.call[""] = self._see(result)
                kept = self.calls.setdefault(frame.f_code.co_firstlineno, [])
                if watched.call not in kept and len(kept) < MOST_CALLS:
                    kept.append(watched.call)
        if not _generates(frame) or watched.raising:
            del self._frames[frame]

    def _comprehended(self, frame: FrameType, first: int) -> None:
        for line, name in self._plan.comprehensions.get(first, ()):
            bound = frame.f_locals.get(name)
            if bound is not None and not is_module(bound):
                self._keep(line, "loop", name, self._see(bound))

    def _inlined(self, frame: FrameType) -> None:
        for first in {frame.f_lineno} & self._plan.comprehensions.keys():
            self._comprehended(frame, first)

    def _see(self, value: Any) -> Value:
        if value is MISSING:
            return ()
        found = describe(value)
        name = type(value).__qualname__
        if found and found != NONE and name in self._plan.classes:
            for part, inner in named_parts(value):
                if seen := describe(inner):
                    self.fields.setdefault(name, {}).setdefault(part, {})[seen] = None
        return found

    def _keep(self, line: int, kind: str, name: str, value: Value) -> None:
        if value:
            self.values.setdefault((line, kind, name), {})[value] = None


def _generates(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & CO_GENERATOR)


def _trace(function: Callable[..., object], task: dict[str, Any], within: Within) -> dict[str, Any]:
    """Two runs, and what they made of each line."""
    source = os.path.realpath(task["source"])
    is_source = cache(lambda name: os.path.realpath(name) == source)
    runs = []
    for sizes in task["sizes"]:
        tracer = Tracer(read_plan(task["text"]), is_source)
        with within() as watch:
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                function(**sizes)
            finally:
                sys.settrace(before)
        watch.codes |= tracer.codes
        runs.append(
            {
                "values": [[*key, list(found)] for key, found in tracer.values.items()],
                "calls": list(tracer.calls.items()),
                "fields": [
                    [name, part, list(seen)]
                    for name, parts in tracer.fields.items()
                    for part, seen in parts.items()
                ],
                "lines": sorted(tracer.lines),
            }
        )
    return {"runs": runs}


if __name__ == "__main__":
    serve(_trace)
