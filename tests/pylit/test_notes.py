"""Docstrings and comments as notes: true lines and columns, and what is no note."""

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
