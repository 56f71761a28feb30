"""A recorder: the tensors that each line of one module made in one run, with their values.

It is the line tracer (`tracer`), which knows what a line bound and when it has run,
with one more thing to keep: a list of steps, in the order in which lines were finished. A line that
calls a function of the module is therefore a step after the steps of that function.

Values are bytes. A real number is one of 253 levels between the smallest and the largest of its
tensor, and the three bytes left over say what is not finite. Whole numbers and booleans are exact.
A few real numbers are written out, because a reader compares those with the text beside them.
"""

import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import CodeType, FrameType
from typing import Any

from pylit.runs.shapes.plan import Plan, Statement
from pylit.runs.shapes.tracer import (
    COMPREHENSIONS,
    MAX_DEPTH,
    MOST,
    Tracer,
    Watched,
    is_module,
    is_tensor,
    named_parts,
    resolve,
)

#: The most elements of a tensor that is recorded, and the most steps of a run.
MAX_ELEMENTS, MAX_STEPS = 60_000, 1_000
#: In place of the number of a tensor: it is too large, or its elements are not real numbers.
TOO_LARGE, NOT_REAL = -1, -2
#: The most real numbers that are written out.
FEW = 48
#: The highest level of a finite number; one more is −∞, two are ∞, three are not a number.
LEVELS = 252
#: How far the sum of a row of weights may be from one.
_ROUNDING = 1e-3


@dataclass(slots=True)
class _Loop:
    """A running ``for`` loop: its statement, and how often it has begun anew."""

    statement: Statement
    turns: int = 0
    #: Its entries in steps; how many turns there are is known at its end.
    entries: list[list[Any]] = field(default_factory=list)

    def has(self, line: int) -> bool:
        """Whether a line belongs to it."""
        _, last = self.statement.body or (0, 0)
        return self.statement.first <= line <= last


@dataclass(slots=True)
class _Frame:
    """A running function: its loops, and the tensor that each name had last."""

    name: str
    loops: list[_Loop] = field(default_factory=list)
    tensors: dict[str, int] = field(default_factory=dict)
    #: Tensors that the modules in the pending line had as attributes.
    attributes: dict[str, Any] = field(default_factory=dict)


class Recorder(Tracer):
    """The recorder of one module; the arguments are those of `Tracer`."""

    def __init__(self, plan: Plan, is_source: Callable[[str], bool]) -> None:
        super().__init__(plan, is_source)
        self.steps: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._running: dict[FrameType, _Frame] = {}
        #: What the line that is being finished has made.
        self._made: list[tuple[int, str, str, str, int]] = []

    def recorded(self) -> dict[str, Any]:
        """Steps and tensors, for JSON."""
        return {"steps": self.steps, "tensors": self.tensors}

    def _begin(self, frame: FrameType, code: CodeType) -> None:
        self._made = []
        super()._begin(frame, code)
        function = self._plan.functions.get(code.co_firstlineno)
        if code.co_name == "<lambda>":
            self._running[frame] = _Frame("lambda")
        elif function and code.co_name not in COMPREHENSIONS:
            self._running[frame] = _Frame(function.qualname)
            self._step(frame, "call", function.node.lineno)

    def _line(self, frame: FrameType, watched: Watched) -> None:
        before = watched.pending
        super()._line(frame, watched)
        if watched.pending is not before and frame in self._running:
            self._running[frame].attributes = dict(self._attributes(frame, watched.pending))

    def _finish(self, frame: FrameType, watched: Watched) -> None:
        statement, running = watched.pending, self._running.get(frame)
        self._made = []
        super()._finish(frame, watched)
        if statement is None or running is None:
            return
        for name, tensor in self._attributes(frame, statement):
            if running.attributes.get(name) is not tensor:
                self._keep(statement.first, "change", name, tensor)
        while running.loops and not running.loops[-1].has(statement.first):
            _end(running.loops.pop())
        if statement.body is not None:
            loops = running.loops
            if not loops or loops[-1].statement is not statement:
                loops.append(_Loop(statement))
            if statement.body[0] <= frame.f_lineno <= statement.body[1]:
                loops[-1].turns += 1
            elif loops[-1].turns:  # It has looked for another turn, and there was none.
                _end(loops.pop())
                return
        self._step(frame, "line", statement.first)

    def _return(self, frame: FrameType, watched: Watched, result: Any) -> None:
        before, statement = len(self.steps), watched.pending
        super()._return(frame, watched, result)
        if frame not in self._running:
            return
        yields = frame in self._frames
        if frame.f_code.co_name == "<lambda>":
            self._step(frame, "return", frame.f_code.co_firstlineno)
        elif len(self.steps) > before and statement and (statement.returns or yields):
            step = self.steps[-1]
            step["event"] = "yield" if yields else "return"
            step["values"] += self._made
        if yields:
            # It has its step. When the generator goes on, it has only what it then binds.
            watched.pending = statement if statement and statement.targets else None
            return
        for loop in self._running.pop(frame).loops:
            _end(loop)

    def _raised(self, frame: FrameType, watched: Watched) -> None:
        statement = watched.pending
        if statement is not None and frame in self._running:
            self._made = []
            self._step(frame, "line", statement.first)
        super()._raised(frame, watched)

    def _keep(self, line: int, kind: str, name: str, value: Any) -> None:
        for path, tensor in _tensors(value, 0):
            self._made.append((line, kind, name, path, self._number(tensor)))
        super()._keep(line, kind, name, value)

    def _step(self, frame: FrameType, event: str, line: int) -> None:
        if len(self.steps) == MAX_STEPS:
            message = f"the replay has more than {MAX_STEPS} steps; give it a shorter text"
            raise ValueError(message)
        running = self._running[frame]
        loops = [loop for loop in running.loops if loop.has(line)]
        for loop in loops:
            loop.entries.append([_target(loop.statement), loop.turns, 0])
        before = {}
        for _, _, name, path, number in self._made:
            key = f"{name}.{path}"
            if running.tensors.get(key, number) != number:
                before[key.rstrip(".")] = running.tensors[key]
            running.tensors[key] = number
        self.steps.append(
            {
                "line": line,
                "event": event,
                "stack": self._stack(frame),
                "loop": [loop.entries[-1] for loop in loops],
                "values": list(self._made),
                "before": before,
            }
        )
        self._made = []

    def _attributes(
        self, frame: FrameType, statement: Statement | None
    ) -> Iterator[tuple[str, Any]]:
        """Tensors that other modules keep of their last call, such as attention its weights."""
        for path in statement.mentions if statement else ():
            value = resolve(frame.f_locals, path)
            if path != ("self",) and is_module(value):
                for name, tensor in vars(value).items():
                    if is_tensor(tensor):
                        yield ".".join((*path, name)), tensor

    def _stack(self, frame: FrameType | None) -> list[str]:
        """The functions of the module that are running, the outermost first."""
        names: list[str] = []
        while frame is not None:
            if frame in self._running:
                names.insert(0, self._running[frame].name)
            frame = frame.f_back
        return names

    def _number(self, tensor: Any) -> int:
        """The number of a tensor among those recorded."""
        if math.prod(tensor.shape) > MAX_ELEMENTS:
            return TOO_LARGE
        packed = pack(tensor)
        if packed is None:
            return NOT_REAL
        number = self._numbers.setdefault(repr(packed), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(packed)
        return number


def _end(loop: _Loop) -> None:
    for entry in loop.entries:
        entry[2] = loop.turns


def _target(loop: Statement) -> str:
    return ", ".join(".".join(path) for _, path in loop.targets)


def _tensors(value: Any, depth: int) -> list[tuple[str, Any]]:
    """The first tensors of a value, each with its place in it: ``keys``, ``0.rows``."""
    if is_tensor(value):
        return [("", value)]
    if depth >= MAX_DEPTH:
        return []
    parts = named_parts(value)
    if isinstance(value, list) or type(value) is tuple:
        parts = [(str(i), part) for i, part in enumerate(value[:MOST])]
    found = [
        (f"{name}.{path}".rstrip("."), tensor)
        for name, part in parts
        for path, tensor in _tensors(part, depth + 1)
    ]
    return found[:MOST]


def pack(tensor: Any) -> dict[str, Any] | None:
    """A tensor for JSON; None if its elements are not real numbers, or not there."""
    shape = list(map(int, tensor.shape))
    try:
        values = tensor.reshape(-1).tolist()
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind == "bool":
        return {"shape": shape, "kind": "bool", "data": _text(bytes(values))}
    if kind.startswith(("int", "uint")):
        return {"shape": shape, "kind": "int", "data": values}
    if not kind.startswith(("float", "bfloat")):
        return None
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    packed = {"shape": shape, "kind": "real", "low": low, "high": high}
    if finite and low >= 0 and high <= 1:
        axes = [axis for axis in range(len(shape)) if _adds_up(values, shape, axis)]
        # Queries come before keys, so that the last one is the axis of a softmax.
        packed |= {"kind": "weights", "one": axes[-1]} if axes else {}
    # Steps are taken of the halves, for the difference of two numbers may be infinite.
    span = high / 2 - low / 2
    if len(values) <= FEW:
        places = 2 - math.floor(math.log10(span / LEVELS)) if span > 1e-300 else 340
        return packed | {"data": [round(v, places) if math.isfinite(v) else v for v in values]}
    return packed | {"data": _text(bytes(_level(value, low, span) for value in values))}


def _level(value: float, low: float, span: float) -> int:
    if math.isfinite(value):
        return round((value / 2 - low / 2) / span * LEVELS) if span else 0
    return LEVELS + (3 if math.isnan(value) else 1 if value < 0 else 2)


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _adds_up(values: Sequence[float], shape: Sequence[int], axis: int) -> bool:
    """Whether the numbers along an axis sum to one, or to nothing where all is hidden."""
    # Of more terms all might be nearer to zero than to the first level.
    if not 1 < shape[axis] <= 2 * LEVELS:
        return False
    sums = [*_sums(values, shape, axis)]
    return max(sums) > 0.5 and all(min(abs(s), abs(s - 1)) < _ROUNDING for s in sums)


def _sums(values: Sequence[float], shape: Sequence[int], axis: int) -> Iterator[float]:
    step = math.prod(shape[axis + 1 :])
    block = step * shape[axis]
    for outer, inner in product(range(0, len(values), block), range(step)):
        yield math.fsum(values[outer + inner : outer + block : step])
