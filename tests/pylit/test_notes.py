"""Docstrings and comments as notes: true lines and columns, untouched text, what is no note."""

import pytest
from pylit_sources import parse

from pylit.source.parse import Comment, is_pragma


def notes(text):
    """All notes of `text`, in order."""
    return [note for section in parse(text).sections for note in section.notes]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('"""Doc."""', 1, 3),
        ('r"""Doc."""', 1, 4),
        ('"""\nDoc.\n"""', 2, 0),
        ('class A:\n    """\n    Doc.\n    More.\n    """', 3, 4),
        ('class A:\n    """Doc.\n\n    More.\n    """', 2, 4),
        ("# Doc.\nx = 1", 1, 2),
        ("#   Doc.\n#   More.\nx = 1", 1, 4),
        ("## Doc. ##\nx = 1", 1, 3),
        ("if x:\n    #\n    # Doc.\n    y = 1", 3, 6),
    ],
)
def test_lines_and_columns(text, line, column):
    (note,) = notes(text)
    assert (note.first_line, note.column) == (line, column)
    assert note.text.startswith("Doc.")


def test_a_span_takes_quotes_and_front_matter():
    note = notes('# coding: utf-8\n\n"""\n---\na: b\n---\n\nText.\n\n"""\n')[0]
    assert (note.span.first, note.span.last, note.first_line) == (3, 10, 8)
    assert note.text == "Text."


TO_TOOLS = ["# noqa", "# type: ignore[attr-defined]", "# fmt: off", "# pragma: no cover", "# %%"]
TO_TOOLS += ["# mypy: allow-untyped-defs", "# vim: set ts=4:", "# doctest: +SKIP"]
TO_READERS = ["# Type: a word", "# formatted", "# example: f(x)", "# doctest: explained"]
TO_READERS += ["#!/bin/sh is for line 1", "# coding: only on lines 1 and 2", "# https://a.org"]


@pytest.mark.parametrize("text", TO_TOOLS + TO_READERS)
def test_words_to_tools_stay_in_the_code(text):
    assert is_pragma(Comment(7, 0, text, True)) == (text in TO_TOOLS)
    assert len(notes(f"x = 1\n\n\n{text}\ny = 2")) == (text in TO_READERS)


TEX = r"$$\begin{align}\frac{a}{b} \\ \text{x} \nu\u03b1 \x41 \end{align}$$"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (TEX, TEX),
        (r"$\\alpha$", r"$\alpha$"),
        (r"a \d and \s", r"a \d and \s"),
        (r"\text \nu \x1b \0 \r", r"\text \nu \x1b \0 \r"),
        (r"\u03b1 \x41 \N{EM DASH} \'", "α A — '"),
        (r"\\n and \\\\", r"\n and \\"),
        # Lines below one that is joined keep their numbers.
        ("1 \\\n    2\n    3\n\n    4 \\\n5 \\\n6\n\n    7", "1     2\n3\n\n\n4 5 6\n\n\n\n7"),
        ("{a, \\\nb}\n        it", "{a, b}\n    it"),
    ],
)
def test_an_ordinary_docstring_is_shown_as_help_shows_it(written, shown):
    (note,) = notes(f'def f():\n    """\n    {written}\n    """\n')
    assert note.text == shown
    (raw,) = notes(f'def f():\n    r"""\n    {written}\n    """\n')
    assert ("\\" in raw.text) == ("\\" in written)


def test_a_string_below_an_assignment_is_its_note():
    module = parse(
        'A = 1\nB: int = 2\n"""Of B."""\n\n\nclass C:\n    """Of C."""\n\n'
        '    d: int\n    """Of d."""\n    e = 5\n\n'
        '    def __init__(self):\n        self.f = 6\n        """Of f."""\n        "g"\n'
    )
    found = {
        note.text: (section.code and section.code.first, section.definition)
        for section in module.sections
        for note in section.notes
    }
    assert found["Of B."] == (2, "B") and found["Of C."] == (6, "C")
    assert found["Of d."][0] == 9 and found["Of f."][0] == 14
    assert "g" not in found


def test_a_string_that_is_no_statement_of_its_own_stays_code():
    assert not notes('x = 1; """no"""\ny = 2\n"""no""" + ""\nz = 3\nf("no")\n')
