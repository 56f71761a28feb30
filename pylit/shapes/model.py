"""The values of this room: what is asked of a child process, and what came of it.

A run is told in numbers; two of them together are told in names. Both keep JSON's lists as tuples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pylit.diagnostics import Diagnostic
from pylit.shapes.values import Leaf, Value

#: Line, kind, name; see `pylit.shapes.tracer`.
Key = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Axes:
    """The letters of a site, from ``docs_src/traces/axes.toml``."""

    #: What notes call an axis -> its letter: ``seq_len`` is ``T``.
    words: Mapping[str, str] = field(default_factory=dict)
    #: Axes that are made of others: ``C`` is ``H*K`` where a run asks for all three.
    derived: Mapping[str, str] = field(default_factory=dict)
    #: Letters of which one may stand for another: the length of some sequence.
    lengths: frozenset[str] = frozenset()
    #: The page that explains the letters, from the site's root.
    page: str = ""
    #: The file as it was read, for digests.
    text: str = ""
    #: Variables of the process in which traces run; they can switch a package's kernels off.
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceFunction:
    """A function of a trace file, with the sizes of its axes in two runs."""

    name: str
    line: int
    sizes: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run, in numbers."""

    sizes: Mapping[str, int]
    values: Mapping[Key, tuple[Value, ...]]
    #: First line of a function -> its calls: arguments, and "" for the result.
    calls: Mapping[int, tuple[Mapping[str, Value], ...]]
    #: Class and field -> what its instances held.
    fields: Mapping[tuple[str, str], tuple[Value, ...]]
    lines: frozenset[int]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class Traced:
    """A trace function and what its two runs told."""

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
    #: Other files that ran -> their digest, for the cache.
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def stamp(self) -> str:
        """Text that differs when the page would."""
        return repr((sorted(self.chips.items()), sorted(self.unreached), self.page))


def read_value(data: list[list[Any]]) -> Value:
    """A value out of JSON."""
    return tuple(
        Leaf(path, None if dims is None else tuple(dims), dtype, times)
        for path, dims, dtype, times in data
    )
