"""From runs to the lines of a page: the chip at a line's end, and lines that nothing came to.

A run gives sizes; two runs together give names. Results of runs stay valid when notes around the
code are edited: the lines of code keep their order, and only their numbers change.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pylit.diagnostics import Diagnostic
from pylit.runs.shapes.plan import Plan, annotation, annotation_text
from pylit.runs.shapes.sizes import (
    MORE,
    NONE_PARTS,
    Namer,
    Parts,
    distinct_shapes,
    part_texts,
    text_of,
)
from pylit.runs.shapes.tracer import Key, TensorRecord, Value


@dataclass(frozen=True, slots=True)
class Axes:
    """The letters of a site, from ``docs_src/traces/axes.toml``."""

    #: What notes call an axis -> its letter: ``seq_len`` is ``T``.
    words: Mapping[str, str] = field(default_factory=dict)
    #: Axes that are made of others: ``C`` is ``H*K`` where a run has all three.
    derived: Mapping[str, str] = field(default_factory=dict)
    #: Letters of which one may stand for another: the length of some sequence.
    lengths: frozenset[str] = frozenset()
    #: Letters that get small sizes: a run of many layers takes long.
    small: frozenset[str] = frozenset()
    #: The page that explains the letters, from the site's root.
    page: str = ""
    #: The file as it was read, for digests.
    text: str = ""
    #: Variables of the process in which traces run, such as switches of the package.
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """One run, in numbers."""

    sizes: Mapping[str, int]
    values: Mapping[Key, tuple[Value, ...]]
    lines: frozenset[int]


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace function and its two runs."""

    #: Where it is written, for messages: ``docs_src/traces/pkg/mod.py:7``.
    place: str
    runs: tuple[Run, Run]


@dataclass(frozen=True, slots=True)
class ModuleShapes:
    """What the page of a module shows of its runs."""

    #: Line -> HTML at its end.
    chips: Mapping[int, str] = field(default_factory=dict)
    #: Line -> columns that the line and its chip need beside each other.
    widths: Mapping[int, int] = field(default_factory=dict)
    #: Lines that no run came to.
    unreached: frozenset[int] = frozenset()
    #: The page that explains the letters.
    page: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    #: The script of its replays, a line for each; empty if there is none.
    replay: str = ""

    @property
    def stamp(self) -> str:
        """Text that differs when the page would."""
        shown = sorted(self.chips.items()), sorted(self.unreached), self.page, bool(self.replay)
        return repr(shown)


def read_run(data: dict[str, Any], sizes: Mapping[str, int], now: Mapping[int, int]) -> Run:
    """A run out of JSON.

    `now` maps the lines of code at the time of the run to their present lines. Other lines are
    left out: a function that has only a docstring runs the line of the docstring.
    """
    values = {
        (now[line], kind, name): tuple(map(_value, seen))
        for line, kind, name, seen in data["values"]
        if line in now
    }
    return Run(sizes, values, frozenset(now[line] for line in data["lines"] if line in now))


def _value(data: list[list[Any]]) -> Value:
    """A value out of JSON, which has lists for tuples."""
    return tuple(
        TensorRecord(path, None if dims is None else tuple(dims), *rest)
        for path, dims, *rest in data
    )


#: Letters of a chip: as many as fit into the narrowest column of code beside a note.
_LONGEST = 76

#: The forms that a name had on a line.
Forms = Mapping[Key, list[Parts]]


def module_lines(text: str, plan: Plan, traced: Sequence[Traced]) -> ModuleShapes:
    """Chips and unreached lines of a module, from all of its runs."""
    forms = forms_of(traced)
    lines = text.split("\n")
    by_line: dict[int, list[tuple[str, list[Parts]]]] = {}
    for key, found in forms.items():
        if found and _worth_saying(key, found, forms, plan):
            by_line.setdefault(key[0], []).append((key[2] or "returns", found))
    chips, widths = {}, {}
    for line, entries in by_line.items():
        texts = list(_entries(entries))
        chips[line] = " ".join(f"<b>{escape(n)}</b> {escape(s)}".strip() for n, s in texts)
        # Two blanks before the chip; its letters are a little smaller than the code's.
        letters = sum(len(name) + len(shape) + 2 for name, shape in texts)
        widths[line] = len(lines[line - 1]) + 2 + math.ceil(letters * 12 / 13)
    return ModuleShapes(chips, widths, _unreached(plan, traced))


def forms_of(traced: Sequence[Traced]) -> Forms:
    """The shapes of each name on each line, from the first trace function that has them.

    Later ones add what it left out: a tensor where it had None, and None where it had a tensor.
    """
    forms: dict[Key, list[Parts]] = {}
    for one in traced:
        first, second = one.runs
        names = Namer(first.sizes, second.sizes)
        for key, values in first.values.items():
            found = distinct_shapes(values, second.values.get(key, ()), names)
            known = forms.setdefault(key, [])
            if known in ([], [NONE_PARTS]):
                known += [parts for parts in found if parts not in known]
            elif key[1] == "arg" and NONE_PARTS in found and NONE_PARTS not in known:
                known.append(NONE_PARTS)
    return forms


def _worth_saying(key: Key, found: list[Parts], forms: Forms, plan: Plan) -> bool:
    """Whether a reader learns something: not what the line itself says, not None of an int."""
    line, kind, name = key
    tensors = [parts for parts in found if parts != NONE_PARTS]
    if kind == "change":
        return (line, "set", name) not in forms and (line, "loop", name) not in forms
    if kind == "arg":
        function = plan.function_at(line)
        written = annotation_text(annotation(function.node, name)) if function else ""
        return written != (text_of(tensors) if tensors else "")
    # None is informative for a name that is a tensor elsewhere in the module.
    other = (seen for (_, _, one), seen in forms.items() if one == name)
    return kind != "field" and bool(tensors or (name and any(s != [NONE_PARTS] for s in other)))


def _entries(entries: list[tuple[str, list[Parts]]]) -> Iterator[tuple[str, str]]:
    """Names and texts of a chip. The tensors of one value have names of their own: ``.weight``."""
    pairs: list[tuple[str, str]] = []
    for name, found in entries:
        named = part_texts(found[0]) if len(found) == 1 else []
        # The only value of a line needs no name: it is in the line.
        prefix = name if len(entries) > 1 and name != "returns" else ""
        if named and all(path for path, _ in named):
            pairs += [(prefix + path, text) for path, text in named]
        else:
            pairs.append((name, text_of(found)))
    room = _LONGEST
    for name, text in pairs:
        room -= len(name) + len(text) + 2
        if room < 0:
            yield MORE, ""
            return
        yield name, text


def _unreached(plan: Plan, traced: Sequence[Traced]) -> frozenset[int]:
    """Lines of the statements of functions that ran in none of the runs."""
    ran = frozenset(line for one in traced for run in one.runs for line in run.lines)
    found: set[int] = set()
    for statement in set(plan.statements.values()):
        lines = range(statement.first, statement.last + 1)
        if ran.isdisjoint(lines) and plan.function_at(statement.first):
            found.update(lines)
    return frozenset(found)
