"""Watches one module run, line by line, and keeps the shapes that each line made.

`sys.settrace` works alike from Python 3.11 on. A line is told of when the next one begins: only
then it has done its work.
"""

import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

from pylit.shapes.plan import Path, Plan, Statement
from pylit.shapes.values import MISSING, NONE, Value, describe, follow, is_module, mark, named_parts

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
#: From this version on, comprehensions run inside the frame around them.
_INLINED = sys.version_info >= (3, 12)
_OWN = frozenset({"self", "cls"})
#: Different calls of one function that are kept.
MOST_CALLS = 60

#: Line, kind ("set", "loop", "change", "return", "arg", "field"), and name.
Key = tuple[int, str, str]


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
        ran: Called with all code that begins to run, the module's or not.
    """

    def __init__(
        self,
        plan: Plan,
        is_source: Callable[[str], bool],
        ran: Callable[[CodeType], object] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._is_source = is_source
        self._ran = ran
        self._frames: dict[FrameType, _Watched] = {}
        #: What each line made, each different value once, in order.
        self.values: dict[Key, dict[Value, None]] = {}
        self.lines: set[int] = set()
        #: First line of a function -> its different calls: arguments, and "" for the result.
        self.calls: dict[int, list[dict[str, Value]]] = {}
        #: Class -> field -> values of it that were seen in instances.
        self.fields: dict[str, dict[str, dict[Value, None]]] = {}
        #: Files of which code ran.
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The tracer of new frames; one of the module's own gets a tracer of its lines."""
        code = frame.f_code
        self.files.add(code.co_filename)
        self._ran(code)
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
