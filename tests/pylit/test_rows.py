"""Which notes stand beside which code."""

import pytest
from page_tools import code, section

from pylit.model import CodeLine, figure_slot
from pylit.pages.rows import Row, rows


def shown(*sections):
    """Rows as (note, first lines of the blocks, classes)."""
    return [
        (row.note[:9], [block.lines[0].number for block in row.blocks], row.classes)
        for row in rows(sections)
    ]


def test_code_without_a_note_goes_under_the_definition_that_it_belongs_to():
    signature = section("<p>f</p>", code(1), "f")
    after = [section("", code(5)), section("", code(7), "f.g"), section("", code(9), "g")]
    assert shown(signature, *after) == [("<p>f</p>", [1, 5, 7], ""), ("", [9], "bare")]
    assert [block.anchor for block in rows([signature, *after])[0].blocks] == ["", "", "f.g"]


def test_a_long_introduction_takes_the_whole_width_and_imports_are_folded():
    long = f"<p>{'word ' * 150}</p>"
    imports = tuple(CodeLine(n, "import re, os") for n in (1, 2, 3))
    opened, folded, beside = rows([section(long, imports), section(long, code(5), "f")])
    assert (opened.classes, folded.classes, folded.blocks[0].folded) == ("wide", "wide", "re")
    assert (beside.note, beside.lines, beside.classes, beside.anchor) == (long, 1, "", "f")
    assert rows([section(long, code(1, 4)), section("<p>a</p>", code(5))])[1].classes == "bare"


def test_a_note_is_beside_the_code_that_it_explains_however_long_it_is():
    long = section(f"<h2>T</h2>{'<p>word</p>' * 300}<table></table>", code(5), "f")
    first, row = rows([section("<p>x</p>"), long])
    assert (first.blocks, row.note) == ((), long.note)
    assert [line.number for block in row.blocks for line in block.lines] == [5]


P, H, FIGURE = "<p>a &gt; b<br>c</p>\n", '<h2 id="h">T</h2>\n', '<figure class="fig">f</figure>\n'
CODE = '<pre class="fence"><code>x</code></pre>\n'
TABLE = '<div class="table-scroll"><table></table></div>'
ANSWER = "<details><summary>A</summary><p>b</p></details>"
ALERT = '<div class="alert"><p>!</p></div>'


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ([P, P], [(P + P, "", "")]),
        ([P, P, FIGURE], [(P + P, FIGURE, "")]),
        # Words after a picture begin a row if they have one of their own.
        ([P, FIGURE, P, CODE, TABLE], [(P, FIGURE, ""), (P, CODE + TABLE, "")]),
        ([P, FIGURE, P, ALERT], [(P, FIGURE, P + ALERT)]),
        ([P, FIGURE, P, H, P], [(P, FIGURE, P), (H + P, "", "")]),
        # A section begins a row.
        ([P, H, P, FIGURE], [(P, "", ""), (H + P, FIGURE, "")]),
        ([H, P, ANSWER, ANSWER, P, ANSWER], [(H + P, ANSWER * 2, ""), (P, ANSWER, "")]),
        ([FIGURE, P], [("", FIGURE, P)]),
        # A formula, and words without an element around them.
        (["<mjx-container><m/></mjx-container>", " words ", FIGURE], [
            ("<mjx-container><m/></mjx-container> words " + FIGURE, "", "")]),
        # Tags that do not match: nobody knows what is outermost.
        ([P, "<div>", FIGURE], [(P + "<div>" + FIGURE, "", "")]),
        (["</div>", P, FIGURE], None),
    ],
)  # fmt: skip
def test_words_stand_beside_the_picture_that_follows_them(note, expected):
    found = rows([section("<p>x</p>", code(1)), section("".join(note), anchor="here")])[1:]
    if expected:
        assert [(row.note, row.picture, row.after) for row in found] == expected
    assert "".join(row.note + row.picture + row.after for row in found) == "".join(note)
    assert [row.anchor for row in found] == ["here", *[""] * (len(found) - 1)]


def test_an_introduction_with_a_figure_leaves_the_imports_alone():
    short = section(f"{P}{FIGURE}", code(1, 2))
    first, second = rows([short, section("<p>f</p>", code(5), "f")])[:2]
    assert (first.note, first.picture, first.classes) == (P, FIGURE, "pic")
    assert (second.note, second.lines) == ("", 2)


def test_what_is_not_translated_stands_beside_its_pictures_too():
    def original(html):
        return f'<div class="original" lang="en">\n{html}\n</div>\n'

    passages = "<p>one</p>\n<figure>a</figure>", "<p>two</p>", "<p>three</p>\n<figure>b</figure>"
    after = "<h2>Next</h2>\n<p>four</p>"
    found = rows([Row("", "".join(map(original, (*passages, after))))])
    assert [(row.note, row.picture) for row in found] == [
        (original("<p>one</p>"), '<figure lang="en">a</figure>\n'),
        (original("<p>two</p>\n<p>three</p>"), '<figure lang="en">b</figure>\n'),
        (original(after), ""),
    ]


def drawn(name):
    """A figure as the notes have it before it is drawn."""
    slots = figure_slot(name, "picture"), figure_slot(name, "below")
    return '<figure class="fig">{}<figcaption>c{}</figcaption></figure>\n'.format(*slots)


A, B, LARGE = drawn("f.a"), drawn("f.b"), drawn("f.large")
LONG_WORDS = f"<p>{'words ' * 120}</p>\n"


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ([P, A, P, B], [(A, B)]),
        # Words that follow the second one stand below both.
        ([P, A, P, B, P], [(A, B)]),
        ([P, A, P, B, P, A], [(A, B), (A, "")]),
        ([P, A, P, LARGE, P, B, P, A], [(A, ""), (LARGE, ""), (B, A)]),
        # Two pictures of one paragraph, a listing and a new section have rows of their own.
        ([P, A + B, P, A], [(A + B, ""), (A, "")]),
        ([P, A, P, CODE], [(A, ""), (CODE, "")]),
        ([P, A, H, P, B], [(A, ""), (B, "")]),
        # So have words that would leave the half below their drawings empty.
        ([LONG_WORDS, A, P, B], [(A, ""), (B, "")]),
    ],
)  # fmt: skip
def test_two_small_drawings_share_the_width(note, expected):
    small = {"f.a": 200, "f.b": 150}
    first, *found = rows([section(P + A), section("".join(note))], small)
    assert first.second is None
    assert [(row.picture, row.second.picture if row.second else "") for row in found] == expected
    parts = [part for row in found for part in (row, row.second) if part]
    assert "".join(part.note + part.picture + part.after for part in parts) == "".join(note)
    assert all((row.classes == "pic pair") is (row.second is not None) for row in found)
