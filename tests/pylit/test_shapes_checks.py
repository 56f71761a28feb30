"""Shapes that docstrings, notes and tables declare, held against a run."""

from pathlib import Path

import pytest
from shape_tools import AXES, HEAD, faults, module_of, run

from pylit.runs.shapes.check import check
from pylit.runs.shapes.plan import read_plan

FIRST = HEAD.count("\n") + 1
TRACE = "def trace(T, B, H, K, C): f(torch.zeros(T, B, C))"


def codes(code: str, trace: str, folder: Path) -> list[tuple[int, str, str]]:
    """Line (from that of the code), code and message of each fault."""
    found = faults(code, trace, folder)
    return [(d.line - FIRST + 1, d.code, d.message) for d in found]


def body(note: str, line: str = "return x") -> str:
    """A function with a docstring."""
    return f'def f(x):\n    """\n    {note}\n    """\n    {line}\n'


@pytest.mark.parametrize(
    "note",
    [
        "* `x` has shape `[T, B, C]`",
        "* `x` has shape `[seq_len, batch_size, d_model]`",
        "* `x` has shape `[S, B, C]`: another length",
        "* `x` is the text, `[T or 1, B, H·K]`",
        "* `x` has shape `[..., C]`, or any other",
        "* `x` has shape `[B, C]`, or `[T, B, C]` when it comes whole",
        "* `x` goes through `torch.zeros`, `[B, T]`, and is something else then",
        "* `y` has shape `[B, B]`, and nobody ran it",
        "* `x` is like `[0.5, 1.5]`",
        "The list `[B, T]` has nothing to do with it.",
        "Returns `[T, B, C]`.",
        "Returns the last axis cut into `[H, K]`.",
    ],
)
def test_notes_that_are_right_or_speak_of_something_else(note: str, tmp_path: Path):
    assert codes(body(note), TRACE, tmp_path) == []


def test_a_part_of_something(tmp_path: Path):
    note = "Returns a row of `x`, `[B, C]`. Each `x[t]` is `[B, C]`."
    assert codes(body(note, "return x[0]"), TRACE, tmp_path) == []
    wrong = codes(body("* `x[t]` has shape `[C, B]`"), TRACE, tmp_path)
    assert [message.split(" at ")[0] for *_, message in wrong] == [
        "`x[t]` is said to be `[C, B]`; it was part of `[T, B, C]`"
    ]


@pytest.mark.parametrize(
    ("note", "said", "what"),
    [
        ("* `x` has shape `[B, T, C]`", "[B, T, C]", "`x`"),
        ("* `x` has shape `[batch_size, seq_len, d_model]`", None, "`x`"),
        ("* `x` and `other` are of shape `[T, B, H]`", "[T, B, H]", "`x`"),
        ("* `x` is the text,\n      `[T, C]`", "[T, C]", "`x`"),
        ("Here `x` is `[T, B, 3]`, as always.", "[T, B, 3]", "`x`"),
        ("Here `x`: `[T|1, B|1, H]`.", "[T|1, B|1, H]", "`x`"),
        ("Returns `[T, C, B]`. Raises `ValueError`.", "[T, C, B]", "what is returned"),
    ],
)
def test_docstrings_that_are_wrong(note: str, said: str | None, what: str, tmp_path: Path):
    said = said or "[batch_size, seq_len, d_model]"
    code = body(note)
    where = 1 if what == "`x`" else 5 + note.count("\n")
    line = 3 + note.count("\n")
    assert codes(code, TRACE, tmp_path) == [
        (
            line,
            "shape-note",
            f"{what} is said to be `{said}`; it was `[T, B, C]` "
            f"at m.py:{FIRST + where - 1}, run by traces/m.py:1",
        )
    ]


def test_a_name_in_another_function_is_another_name(tmp_path: Path):
    code = """\
    def f(x):
        # `x` has shape `[T, B]`.
        y = x[0]
        return g(y)


    def g(x):
        # `x` has shape `[B]`, and `y` has shape `[T, T]`.
        return x
    """
    assert codes(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == []


def test_attributes_and_fields_in_the_note_of_a_class(tmp_path: Path):
    code = '''\
    from typing import NamedTuple

    class Pair(NamedTuple):
        """
        * `keys` has shape `[T, B]`
        * `values` has shape `[T, B]`
        """

        keys: Tensor
        values: Tensor

    class M:
        """
        * `kept` has shape `[T, C]`
        * `x` has shape `[B, B]`, and is no attribute
        """

        def __init__(self, x):
            self.kept = x
            self.pair = Pair(x, x[0])
    '''
    found = codes(code, "def trace(T, B, C): M(torch.zeros(T, B))", tmp_path)
    assert [(line, message.split(" at ")[0]) for line, _, message in found] == [
        (6, "`values` is said to be `[T, B]`; it was `[B]`"),
        (14, "`kept` is said to be `[T, C]`; it was `[T, B]`"),
    ]


TABLE = '''r"""
| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
{}
"""

import torch
from torch import nn


class M(nn.Module):
    def __init__(self, c, f):
        super().__init__()
        self.map = nn.Linear(c, f)

    def forward(self, x):
        y = self.map(x)
        return y

    def other(self, x):
        return x


def g(x):
    x = x.transpose(0, 1)
    return x
'''


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("| $x$ | `x` | `[T, B, C]` | m |", ""),
        ("| $x$ | `x` | `[B, T, C]` | as `g` has it |", ""),
        ("| $x$ | `x` of `forward` | `[B, T, C]` | m |", "`x` is said to be `[B, T, C]`"),
        ("| $x$ | `x` | `[B, C]` | m |", "`x` is said to be `[B, C]`"),
        ("| $y$ | `y` | `[T, B, F]` | m |", ""),
        ("| $y$ | `y` | `[T\\|1, B, C]` | m |", "`y` is said to be `[T\\|1, B, C]`"),
        ("| $W$, $b$ | `map.weight`, `.bias` | `[F, C]`, `[F]` | m |", ""),
        ("| $W$ | `map.weight` | `[C, F]` | m |", "`map.weight` is said to be `[C, F]`"),
        ("| $b$ | `map.weight`, `.bias` | `[F, C]`, `[C]` | m |", "`map.bias`"),
        ("| $y$ | `y`, projected | `[T, T]` | m |", ""),
        ("| $n$ | `n` | | m |", ""),
        ("| $x$ | `unknown` | `[T, T]` | m |", ""),
    ],
)
def test_tables_of_symbols(row: str, wrong: str, tmp_path: Path):
    trace = """
    def trace(T, B, C, F):
        m = M(C, F)
        m(torch.zeros(T, B, C))
        m.other(torch.zeros(T, B, C))
        g(torch.zeros(T, B, C))
    """
    module = module_of(TABLE.format(row), tmp_path)
    found = check(module, read_plan(module.source.text), run(module, trace), AXES)
    assert [d.line for d in found] == ([4] if wrong else [])
    assert all(wrong in d.message for d in found)
