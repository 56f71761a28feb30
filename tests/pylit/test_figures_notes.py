"""Figures in notes: where they stand, what their captions hold, and what they are elsewhere."""

import pytest
from note_tools import readable, render

from pylit.diagnostics import Report
from pylit.model import FigureUse, figure_slot

ROWS, TABLE_NOTES = figure_slot("sums.all", "picture"), figure_slot("sums.all", "below")
PICTURE, BELOW = figure_slot("masks.three", "picture"), figure_slot("masks.three", "below")


def test_a_paragraph_becomes_a_figure():
    note = render(
        'Before.\n\n![Some "masks" of $T$, see `nn.Linear`\nand [more](#x).](figure:masks.three)\n'
        "\nAfter.\n"
    )
    html = readable(note)
    assert html.startswith(f'<p>Before.</p>\n<figure class="fig">{PICTURE}<figcaption>Some “masks”')
    assert '« T », see <a class="x e"' in html
    assert f'<a href="#x">more</a>.{BELOW}</figcaption></figure>\n<p>After.</p>' in html
    assert note.figures == (FigureUse("masks.three", 3, 1),)
    assert [(f.tex, f.line, f.column) for f in note.formulas] == [("T", 3, 20)]
    # It is found by the words of its caption, and its address is no link.
    assert "Some “masks” of T" in note.text
    assert [href for href, _ in note.references] == ["#x"]
    for indent in ("- ", "> ", "1. "):
        html = render(f"{indent}![A.](figure:masks.three)\n").html
        assert f'<figure class="fig">{PICTURE}<figcaption>A.{BELOW}</figcaption></figure>' in html
        assert "<p>" not in html


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("See ![A.](figure:a.b).", "figure-place", (1, 5)),
        ("| a |\n|--|\n| ![A.](figure:a.b) |", "figure-place", (3, 3)),
        ("## ![A.](figure:a.b)", "figure-place", (1, 4)),
        ("![](figure:a.b)", "figure-caption", (1, 1)),
        ("![ ](figure:a.b)", "figure-caption", (1, 1)),
    ],
)
def test_faults(text: str, code: str, place: tuple[int, int]):
    report = Report()
    render(text, report=report)
    found = [(d.code, (d.line, d.column)) for d in report if d.code.startswith("figure")]
    assert found == [(code, place)]


def test_in_the_notes_of_another_package_it_is_an_address_like_others():
    report = Report()
    note = render("![A.](figure:masks.three)", own=False, report=report)
    assert note.html == '<p><a href="figure:masks.three">A.</a></p>\n'
    assert note.figures == () and not len(report)
    assert "\ue002" not in render(f"{PICTURE} and text").html, "no author can write a slot"


def test_a_paragraph_becomes_a_table_that_its_caption_names():
    note = render("Before.\n\n![Sums of $x$.](table:sums.all)\n\nAfter.\n")
    assert '<figure class="tab"><figcaption id="table-sums-all">Sums of ' in note.html
    assert (
        '.</figcaption><div class="table-scroll"><table aria-labelledby="table-sums-all">'
        f"{ROWS}</table></div>{TABLE_NOTES}</figure>\n<p>After.</p>"
    ) in note.html
    assert note.figures == (FigureUse("sums.all", 3, 1, "table"),)
    assert "Sums of x" in note.text
