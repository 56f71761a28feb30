"""Runs outlive an edit to the notes around the code that ran: its lines move, and nothing else.

What a run told is kept by line. So the lines of a module that hold code are counted, notes and
comments left out. As long as they say the same in the same order, the tenth of them is the tenth of
the day when it ran, wherever it stands now.
"""

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pylit.cache import digest
from pylit.shapes.model import Run, Traced

_SILENT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER})
_SILENT |= {tokenize.INDENT, tokenize.DEDENT}


@dataclass(frozen=True, slots=True)
class CodeLines:
    """The lines of a module that hold code."""

    #: Their numbers, in order.
    numbers: tuple[int, ...]
    #: Digest of what stands on them.
    content: str


def code_lines(text: str) -> CodeLines:
    """The lines of a source that parses. A text that is a statement, as docstrings are, is none."""
    notes = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    found: dict[int, list[str]] = {}
    within = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A docstring may be several texts side by side: the statement ends where its line does.
        within = token.type != tokenize.NEWLINE and (within or token.start in notes)
        if within or token.type in _SILENT:
            continue
        for line in range(token.start[0], token.end[0] + 1):
            found.setdefault(line, [])
        found[token.start[0]].append(token.string)
    numbers = tuple(sorted(found))
    return CodeLines(numbers, digest(*("\0".join(found[line]) for line in numbers)))


def moved(
    traced: Sequence[Traced], before: CodeLines, after: CodeLines
) -> tuple[Traced, ...] | None:
    """Runs with the lines of today; None where one of theirs was no line of code."""
    if before.content != after.content:
        return None
    now = dict(zip(before.numbers, after.numbers, strict=True))
    try:
        return tuple(
            replace(one, runs=(_moved(one.runs[0], now), _moved(one.runs[1], now)))
            for one in traced
        )
    except KeyError:
        return None


def _moved(run: Run, now: Mapping[int, int]) -> Run:
    return replace(
        run,
        values={(now[line], kind, name): v for (line, kind, name), v in run.values.items()},
        calls={now[line]: calls for line, calls in run.calls.items()},
        # A function that is all docstring runs the line of that: nobody asks whether it did.
        lines=frozenset(now[line] for line in run.lines if line in now),
    )
