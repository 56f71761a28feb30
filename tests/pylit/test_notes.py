"""Docstrings and comments as notes: true lines and columns, untouched text, what is no note."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pylit_sources import parse

from pylit.model import Note
from pylit.source.notes import Comment, first_paragraph, is_pragma


def notes(text: str) -> list[Note]:
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
def test_lines_and_columns(text: str, line: int, column: int) -> None:
    (note,) = notes(text)
    assert (note.first_line, note.column) == (line, column)
    assert note.text.startswith("Doc.")
    last = note.text.split("\n")[-1]
    source_line = text.split("\n")[line - 1 + note.text.count("\n")]
    if "\n" in note.text or note.kind == "comment":
        assert source_line[column:].startswith(last)


def test_text_is_not_evaluated() -> None:
    text = (
        '"""\n$$\\begin{align}\\frac{a}{b} \\\\\n\\text{x} \\nu\\u03b1 \\x41\n\\end{align}$$\n"""'
    )
    (note,) = notes(text)
    expected = "$$\\begin{align}\\frac{a}{b} \\\\\n\\text{x} \\nu\\u03b1 \\x41\n\\end{align}$$"
    assert note.text == expected


def test_a_span_takes_quotes_and_front_matter() -> None:
    note = notes('# coding: utf-8\n\n"""\n---\na: b\n---\n\nText.\n\n"""\n')[0]
    assert (note.span.first, note.span.last, note.first_line) == (3, 10, 8)
    assert note.text == "Text."


@pytest.mark.parametrize(
    "text",
    [
        "# noqa",
        "# type: ignore[attr-defined]",
        "# fmt: off",
        "# mypy: allow-untyped-defs",
        "# pragma: no cover",
        "# vim: set ts=4:",
        "# %%",
        "# doctest: +SKIP",
    ],
)
def test_words_to_tools(text: str) -> None:
    assert is_pragma(Comment(7, 0, text, True))
    (section,) = parse(f"x = 1\n{text}\ny = 2").sections
    assert section.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "# Type: a word",
        "# formatted",
        "# example: f(x)",
        "# doctest: explained",
        "#!/bin/sh is for line 1",
        "# coding: only on lines 1 and 2",
        "# https://example.org",
    ],
)
def test_words_to_readers(text: str) -> None:
    assert not is_pragma(Comment(7, 0, text, True))
    assert notes(f"x = 1\n\n\n{text}\ny = 2")[0].span.first == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("One.", "One."),
        ("## Heading\n\nProse $x$.", "Prose $x$."),
        ('<a id="A"></a>\n\n## Heading\n\nProse.', "Prose."),
        ("Title\n=====\n\nProse.", "Prose."),
        ("## Only a heading ##", "Only a heading"),
        ("```\ncode\n```\n\nProse.", "Prose."),
        ("$$x$$\n\nProse.", "Prose."),
        ("| a |\n|---|\n\nProse.", "Prose."),
        ("[![badge](a.svg)](b)\n\nProse.", "Prose."),
        ("    code\n\nProse.", "Prose."),
        (">>> f()\n\nProse.", "Prose."),
        ("* an item\n* another", "* an item\n* another"),
    ],
)
def test_first_paragraph(text: str, expected: str) -> None:
    assert first_paragraph(text) == expected


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(["# a", "b", "===", "", "    c", "***", "- d"]), max_size=9))
def test_a_first_paragraph_is_lines_of_its_note(lines: list[str]) -> None:
    found = first_paragraph("\n".join(lines))
    assert found in "\n".join(lines)
    assert "\n\n" not in found
    assert found or not any(line in ("b", "- d") for line in lines[:1])
