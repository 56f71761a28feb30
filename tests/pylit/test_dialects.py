"""Docstrings of NumPy, Google and Sphinx mean on a page what they mean to their authors.

The grammar of each dialect is a file of ``golden/dialects``, from its own specification: what an
author writes, ``=>``, and what a reader sees, a line for each block; ``====`` parts cases. Here
``[Args]`` is the title of a section, ``x int = text`` a term with type and text, ``<code>`` a block
of code, ``# Title`` a headline, ``* item`` an item of a list, and ``(Note) text`` an alert.
"""

import re
from html import unescape
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from note_tools import render
from pylit_sources import golden_cases

from pylit.diagnostics import Report, Severity
from pylit.model import DIALECTS
from pylit.notes.dialects import dialect_of

GOLDEN = Path(__file__).parent / "golden/dialects"


#: Tags, and what they are in the short form. A paragraph goes on where a term or an item begins.
SHORT = {
    r'<p class="label">(.*?)</p>': r"\n[\1]",
    r'<p class="markdown-alert-title">(.*?)</p>\s*(<p>)?': r"\n(\1) ",
    r"</dt>\s*<dd>\s*(<p>)?": " = ",
    r"<li>\s*(<p>)?": r"\n* ",
    r"<h\d[^>]*>": r"\n# ",
    r"<hr[^>]*>": r"\n--",
    r"<pre.*?>(.*?)\s*</code></pre>": "\n\ue000\\1\ue001",
    r"<(p|dt|summary|div)\b[^>]*>": r"\n",
    r"<[^>]*>": "",
}


def seen(text: str, dialect: str) -> list[str]:
    """What a reader sees of a docstring, in the short form."""
    shown = render(text.strip("\n"), docstrings=dialect, own=False).html.replace("\n", " ")
    for tags, short in SHORT.items():
        shown = re.sub(tags, short, shown)
    shown = unescape(shown).replace("\ue000", "<").replace("\ue001", ">")
    blocks = (" ".join(block.split()).removesuffix(" =") for block in shown.split("\n"))
    return [*filter(None, blocks)]


def cases(dialect: str) -> list[tuple[str, list[str]]]:
    text = (GOLDEN / f"{dialect}.txt").read_text("utf-8")
    parted = (one.partition("=>\n") for one in text.split("====\n"))
    return [(docstring, blocks.splitlines()) for docstring, _, blocks in parted]


CASES = [(name, *case) for name in ("google", "numpy", "sphinx") for case in cases(name)]


@pytest.mark.parametrize(("dialect", "text", "blocks"), CASES)
def test_what_a_reader_sees(dialect: str, text: str, blocks: list[str]) -> None:
    assert seen(f"\n{text}", dialect) == blocks


def test_each_of_these_docstrings_is_recognised() -> None:
    # A section that no specification knows gives no docstring away.
    others = [text for name, text, _ in CASES if dialect_of(text.strip("\n"), "auto") != name]
    assert all("Shape:" in text for text in others), others


NUMPY = """\
Find edges.

Parameters
----------
image, mask : array of bool
    Defined as::

        a = b

    It goes on.
kind : Optional[int], optional

Other topic
-----------
Text.
"""
GOOGLE = "Draw.\nArgs:\n    lazy (int): goes on\n    here.\n"
SPHINX = "Invoke it.\n:param count: the number\n:raises ValueError: if it\n   fails\n"


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (NUMPY, "numpy"),
        (GOOGLE, "google"),
        (SPHINX, "sphinx"),
        ("A :class:`Thing`.", "sphinx"),
        (".. note:: Careful.", "sphinx"),
        ("So::\n\n    x = 1", "sphinx"),
        ("As [1]_ says.", "sphinx"),
        ("# Title\n\n* `x`: it\n\n    code\n\nTitle\n-----\n\nArgs: none", "markdown"),
        ("", "markdown"),
    ],
)
def test_the_dialect_is_chosen_by_what_a_docstring_shows(text: str, dialect: str) -> None:
    assert dialect_of(text, "auto") == dialect
    assert dialect_of(text, "markdown") == "markdown"
    assert 'class="fields"' not in render(text, docstrings="markdown").html


@given(st.text(st.sampled_from("ab`*_#>-=~:.[]()!?$\\ \n"), max_size=60))
def test_without_a_sign_of_a_dialect_nothing_changes(text: str) -> None:
    if dialect_of(text, "auto") == "markdown":
        assert render(text, docstrings="auto") == render(text)


@pytest.mark.parametrize(("text", "html"), golden_cases("markup"))
def test_what_it_becomes(text: str, html: str) -> None:
    shown = render(text.rstrip("\n"), docstrings="auto").html
    assert re.sub(r"<span class=\"h.\">|</span>", "", shown).strip() == html.strip()


def test_sections_are_no_headings_and_other_titles_are() -> None:
    note = render(NUMPY, docstrings="auto")
    assert [heading.text for heading in note.headings] == ["Other topic"]
    report = Report()
    render(NUMPY.partition("Other")[0] * 2, docstrings="auto", report=report)
    assert not report


def test_formulas() -> None:
    text = ":math:`x^2`\n\n.. math:: a\n\n.. math::\n\n   b &= c \\\\\n\n   d\n"
    found = [(f.tex, f.display, f.line) for f in render(text, docstrings="auto").formulas]
    aligned = "\\begin{aligned}b &= c \\\\\\end{aligned}"
    assert found == [("x^2", False, 1), ("a", True, 3), (aligned, True, 7), ("d", True, 9)]


def test_citations_lead_to_their_works_in_the_same_note() -> None:
    text = "As [1]_ and [Knuth84]_ say.\n\n.. [1] A work,\n   1984.\n"
    first, second = (
        render(text, docstrings="auto", first_line=line).html.replace("\n", "") for line in (1, 9)
    )
    assert '<a href="#cite:1:1">[1]</a> and [Knuth84] say' in first
    assert first.endswith('<span id="cite:1:1"></span><p>[1] A work,1984.</p>')
    assert second == first.replace("cite:1", "cite:9")


def test_a_fault_has_its_line() -> None:
    for text, line in (
        (NUMPY.replace("It goes", "![](a.png)"), 10),
        (GOOGLE.replace("goes on", "![](a.png)"), 3),
        (SPHINX.replace("fails", "![](a.png)"), 4),
        (".. note:: x\n\n   - ![](a.png)", 3),
    ):
        report = Report()
        render(text, docstrings="auto", report=report)
        found = next(iter(report))
        assert (found.code, found.line) == ("image-alt", line)
        assert "![](" in found.source_line


def test_faults_are_errors_where_the_settings_name_the_dialect() -> None:
    for setting, severity in [("auto", Severity.WARNING), ("numpy", Severity.ERROR)]:
        report = Report()
        render("# A\n\n# A\n", docstrings=setting, report=report)
        assert [found.severity for found in report] == [severity]


def test_a_preview_shows_no_sections() -> None:
    for text, expected in (
        (NUMPY, "<p>Find edges.</p>\n"),
        (GOOGLE, "<p>Draw.</p>\n"),
        (SPHINX, "<p>Invoke it.</p>\n"),
        (":param x: it\n\nWords.", ""),
        ("Parameters\n----------\nx : int\n    It.", ""),
        ("!!! note\n    It.\n\nWords.", "<p>Words.</p>\n"),
    ):
        assert render(text, docstrings="auto").lead == expected


_PIECES = [
    *("a", "  ", "    ", "\t", "\n", "\n\n", "`", "*", "<", "> ", "- ", "1. ", "# ", "$$", "```\n"),
    *(":param x:", ":a:`b`", ".. note::", ".. math::\n", ".. [1] ", ".. _a: b\n", "::\n", "[1]_"),
    *("Args:\n", "x : y\n", "Parameters\n---\n", "Raises\n---\n", "!!! a\n", "???"),
    *("=== ==\n", "===\n"),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join), st.sampled_from(DIALECTS))
def test_any_text_is_a_note_and_no_html_of_it_survives(text: str, dialect: str) -> None:
    note = render(text + "<script>", docstrings=dialect, own=False)
    assert "<script" not in note.html
    for tag in ("dl", "dt", "dd", "div", "details", "p", "strong"):
        assert len(re.findall(f"<{tag}[ >]", note.html)) == note.html.count(f"</{tag}>")


@pytest.mark.parametrize(
    "unit", [":param x: y\n", ":a:`", ".. note::\n  ", "x\n~~~\n", "`a <", "Args:\n "]
)
def test_repetition_takes_no_quadratic_time(unit: str) -> None:
    def seconds(count: int) -> float:
        start = process_time()
        render(unit * count, docstrings="google", own=False)
        return process_time() - start

    seconds(1)
    assert seconds(29_000 // len(unit)) < 12 * seconds(5_000 // len(unit)) + 0.2
