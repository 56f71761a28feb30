"""Shapes that docstrings, notes and tables declare, held against a run."""

import pytest
from shape_tools import AXES, HEAD, faults, module_of, run

from pylit.runs.shapes.check import check
from pylit.runs.shapes.plan import read_plan

TRACE = "def trace(T, B, H, K, C): f(torch.zeros(T, B, C))"


def said(code, trace, folder):
    """What each fault says before the place of the run, with its line from that of the code."""
    found = faults(code, trace, folder)
    assert {d.code for d in found} <= {"shape-note"}
    return [(d.line - HEAD.count("\n"), d.message.partition(" at ")[0]) for d in found]


def said_of(note, folder, line="return x"):
    """What is said of a function with this docstring."""
    code = f'def f(x):\n    """\n    {note}\n    """\n    {line}\n'
    found = said(code, TRACE, folder)
    assert all(line == 3 + note.count("\n") for line, _ in found)
    return [message for _, message in found]


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
def test_notes_that_are_right_or_speak_of_something_else(note, tmp_path):
    assert said_of(note, tmp_path) == []


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("* `x` has shape `[B, T, C]`", "`x` is said to be `[B, T, C]`"),
        ("* `x` has shape `[seq_len, d_model]`", "`x` is said to be `[seq_len, d_model]`"),
        ("* `x` and `other` are of shape `[T, B, H]`", "`x` is said to be `[T, B, H]`"),
        ("* `x` is the text,\n      `[T, C]`", "`x` is said to be `[T, C]`"),
        ("Here `x` is `[T, B, 3]`, as always.", "`x` is said to be `[T, B, 3]`"),
        ("Here `x`: `[T|1, B|1, H]`.", "`x` is said to be `[T|1, B|1, H]`"),
        ("Returns `[T, C, B]`. Raises `E`.", "what is returned is said to be `[T, C, B]`"),
    ],
)
def test_docstrings_that_are_wrong(note, message, tmp_path):
    assert said_of(note, tmp_path) == [f"{message}; it was `[T, B, C]`"]


def test_a_part_of_something(tmp_path):
    note = "Returns a row of `x`, `[B, C]`. Each `x[t]` is `[B, C]`."
    assert said_of(note, tmp_path, "return x[0]") == []
    part = "`x[t]` is said to be `[C, B]`; it was part of `[T, B, C]`"
    assert said_of("* `x[t]` has shape `[C, B]`", tmp_path) == [part]


def test_a_name_in_another_function_is_another_name(tmp_path):
    code = """\
    def f(x):
        # `x` has shape `[T, B]`.
        y = x[0]
        return g(y)

    def g(x):
        # `x` has shape `[B]`, and `y` has shape `[T, T]`.
        return x
    """
    assert said(code, "def trace(T, B): f(torch.zeros(T, B))", tmp_path) == []


def test_attributes_and_fields_in_the_note_of_a_class(tmp_path):
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
    assert said(code, "def trace(T, B, C): M(torch.zeros(T, B))", tmp_path) == [
        (6, "`values` is said to be `[T, B]`; it was `[B]`"),
        (14, "`kept` is said to be `[T, C]`; it was `[T, B]`"),
    ]


TABLE = '''r"""
| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $s$ | {} | m |
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
        ("`x` | `[T, B, C]`", ""),
        ("`x` | `[B, T, C]`", ""),  # as `g` has it
        ("`x` of `forward` | `[B, T, C]`", "`x` is said to be `[B, T, C]`"),
        ("`x` | `[B, C]`", "`x` is said to be `[B, C]`"),
        ("`y` | `[T, B, F]`", ""),
        ("`y` | `[T\\|1, B, C]`", "`y` is said to be `[T\\|1, B, C]`"),
        ("`map.weight`, `.bias` | `[F, C]`, `[F]`", ""),
        ("`map.weight` | `[C, F]`", "`map.weight` is said to be `[C, F]`"),
        ("`map.weight`, `.bias` | `[F, C]`, `[C]`", "`map.bias`"),
        ("`y`, projected | `[T, T]`", ""),
        ("`n` | ", ""),
        ("`unknown` | `[T, T]`", ""),
    ],
)
def test_tables_of_symbols(row, wrong, tmp_path):
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
