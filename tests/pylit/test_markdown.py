"""Notes in, HTML out: the golden files, and what they cannot show."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from note_tools import readable, render

from pylit.addresses import Anchors
from pylit.diagnostics import Report, Severity
from pylit.model import FigureUse, Heading, figure_slot

GOLDEN = Path(__file__).parent / "golden" / "markdown"
CASES = sorted(GOLDEN.glob("*.md"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_golden(case: Path) -> None:
    text = case.read_text(encoding="utf-8")
    html = readable(render(text, own=not case.stem.startswith("foreign")))
    assert html == case.with_suffix(".html").read_text(encoding="utf-8")


def test_headings_are_kept_for_the_outline() -> None:
    note = render("Text.\n\n## The `scale` of [$QK$](x.html) {#scale}\n\n#### Why", first_line=10)
    assert note.headings == (
        Heading(2, "scale", "The scale of QK", "The <code>scale</code> of \ue0000\ue001", 12),
        Heading(3, "why", "Why", "Why", 14),
    )


def test_every_address_is_kept_with_its_line() -> None:
    text = """[one](a.html)
and [two](../mha.py)

> ![three](c.svg)

- <a href="d.html">four</a>

<div>
<img src="e.svg" alt="five">
</div>

https://example.org/f"""
    kept = "a.html:5 ../../labml_nn/transformers/mha.html:6 c.svg:8 d.html:10 e.svg:13"
    found = [f"{address}:{line}" for address, line in render(text, first_line=5).references]
    assert found == [*kept.split(), "https://example.org/f:16"]


def test_text_is_what_a_reader_sees_and_places_of_formulas_cannot_be_written() -> None:
    assert render("a \ue0000\ue001 b $x$").html == "<p>a 0 b \ue0000\ue001</p>\n"
    text = "A *word*, `code`\nand $x^2$.\n# Title\n- [link](a.html)\n\n```\nx = 1\n```\n"
    assert render(text).text == "A word, code and x².\n\f\nlink"


def test_footnotes_of_two_notes_on_a_page_do_not_meet() -> None:
    texts = ("Text[^1].\n\n[^1]: Note.", "No notes.", "Text[^1].\n\n[^1]: Note.")
    first, plain, second = (render(text, first_line=n).html for n, text in enumerate(texts, 1))
    assert 'href="#fn-1-1"' in first
    assert 'id="fn-1-1"' in first
    assert "fn-" not in plain
    assert second == first.replace("-1-1", "-3-1")


@pytest.mark.parametrize("own", [True, False])
def test_a_second_heading_with_the_same_words_is_reported(own: bool) -> None:
    anchors, report = Anchors(), Report()
    render("# Scores", anchors=anchors, report=report, own=own)
    note = render("Text\n\n  ## Scores", anchors=anchors, report=report, own=own, first_line=7)
    assert '<h3 id="scores-2">' in note.html
    (found,) = report
    assert (found.path, found.line, found.code) == ("notes.md", 9, "slug-duplicate")
    assert found.severity is (Severity.ERROR if own else Severity.WARNING)
    assert "`scores-2`" in found.message and "{#name}" in found.hint
    # One gives way to a definition without a word.
    given = render("# Softmax", anchors=Anchors(["softmax"]), report=report)
    assert given.html == '<h2 id="softmax-section">Softmax</h2>\n' and len(report) == 1


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "message"),
    [
        ("Text\n\n  $$ x", "tex", 22, 7, "`$$` is not closed"),
        ("> \\begin{align}\n> x", "tex", 20, 7, "`\\begin{align}` is not closed"),
        ("$$\nx\n\ny\n$$", "tex", 20, 5, "`$$` is not closed"),
        ("Text ![](a.svg)", "image-alt", 20, 10, "image `a.svg` has no text"),
        ("Text\nand [^1].", "anchor-broken", 20, 5, "no footnote `1`"),
        ("<a id='x'></a>\n\n <a id='x'></a>", "slug-duplicate", 22, 6, "the anchor `x`"),
        ("See ![A.](figure:a.b).", "figure-place", 20, 9, ""),
        ("| a |\n|--|\n| ![A.](figure:a.b) |", "figure-place", 22, 7, ""),
        ("## ![A.](figure:a.b)", "figure-place", 20, 8, ""),
        ("![](figure:a.b)", "figure-caption", 20, 5, ""),
        ("![ ](figure:a.b)", "figure-caption", 20, 5, ""),
    ],
)
def test_a_fault_has_its_place(text: str, code: str, line: int, column: int, message: str) -> None:
    report = Report()
    render(text, report=report, first_line=20, column=4)
    found = next(iter(report))
    assert (found.code, found.line, found.column) == (code, line, column)
    assert message in found.message


def test_what_is_known_of_figures_and_tables() -> None:
    figure = '![Some "masks" of $T$\nand [more](#x).](figure:masks.three)'
    note = render(f"Before.\n\n{figure}\n\n![Sums of $x$.](table:sums.all)\n")
    uses = FigureUse("masks.three", 3, 1), FigureUse("sums.all", 6, 1, "table")
    assert note.figures == uses
    assert [(f.tex, f.line, f.column) for f in note.formulas] == [("T", 3, 20), ("x", 6, 12)]
    # They are found by the words of their captions, and their addresses are no links.
    assert "Some “masks” of T" in note.text and "Sums of x" in note.text
    assert [href for href, _ in note.references] == ["#x"]
    assert render(figure, own=False).figures == ()
    slot = figure_slot("masks.three", "picture")
    assert slot not in render(f"{slot} and text").html, "no author can write one"


#: Markdown, and how many formulas it holds.
PIECES = {
    "words *and* `code`": 0,
    "$a_{n}$ and $b$": 2,
    "before $$c \\\\ d$$ after": 1,
    "$$\n\\sum e\n$$": 1,
    "- item $f$\n  $g$": 2,
    "> quote $h$\n> $$i$$": 2,
    "| a | b |\n|---|---|\n| $v$ | $j$ |": 2,
    "\\begin{align}\nk &= l \\\\\n\nm\n\\end{align}": 1,
    "Term\n: $n$": 1,
    "text $$\no\n$$": 1,
    "## Heading $p$": 1,
    "1. one\n\n   $$q$$\n2. $r$": 2,
    "[$s$](x.html) **$t$**": 2,
}


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(list(PIECES)), max_size=8), st.integers(1, 50), st.sampled_from([0, 4])
)
def test_formulas_stand_where_they_are_said_to(pieces: list[str], first: int, column: int) -> None:
    text = "\n\n".join(pieces)
    lines = [""] * (first - 1) + [" " * column + line for line in text.split("\n")]
    note = render(text, first_line=first, column=column)
    assert len(note.formulas) == sum(PIECES[piece] for piece in pieces)
    for formula in note.formulas:
        rest = lines[formula.line - 1][formula.column - 1 :]
        assert rest.startswith(formula.tex.split("\n")[0]), (formula, rest)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="ab$\\`*_[](){}<>#|!-:^~&\"'\n 1>x/.", max_size=60), st.booleans())
def test_whatever_is_written_is_rendered(text: str, own: bool) -> None:
    note = render(text, own=own)
    for index in range(len(note.formulas)):
        assert f"\ue000{index}\ue001" in note.html


LONG = {
    "dollars": "$a " * 5000,
    "double dollars": "$$\n\n" * 2000,
    "in pairs": "$$\n" * 2000,
    "environments": "\\begin{align}\n" * 2000,
    "parentheses": "\\(" * 5000,
    "a long line": "a" * 100_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_text_that_only_looks_like_mathematics(text: str) -> None:
    assert not render(text).formulas


@pytest.mark.parametrize(("deep", "told"), [(30, []), (60, ["note-long"])])
def test_lists_in_lists_lose_nothing(deep: int, told: list[str]) -> None:
    lines = [f"{'  ' * n}- word{n}" for n in range(deep)]
    report = Report()
    note = render("\n".join(lines), report=report)
    assert [d.code for d in report] == told
    assert all(f"word{n}" in note.html for n in range(deep))
