"""Which notes stand beside which code."""

from page_tools import code, section

from pylit.page.rows import rows


def shown(*sections):
    """Rows as (note, first lines of the blocks, classes)."""
    return [
        (row.note[:9], [block[0].number for block in row.blocks], row.classes)
        for row in rows(sections)
    ]


def test_a_body_without_a_note_goes_under_its_signature():
    signature = section("<p>f</p>", code(1), "f")
    assert shown(signature, section("", code(5)), section("", code(9), "g")) == [
        ("<p>f</p>", [1, 5], ""),
        ("", [9], "bare"),
    ]


def test_code_that_an_author_left_alone_stays_alone():
    assert shown(section("<p>a</p>", code(1)), section("", code(5))) == [
        ("<p>a</p>", [1], ""),
        ("", [5], "bare"),
    ]


def test_a_long_introduction_takes_the_whole_width_and_its_code_comes_after():
    long = f"<p>{'word ' * 150}</p>"
    assert shown(section(long, code(1)), section(long, code(5))) == [
        (long[:9], [], "wide single"),
        ("", [1], "bare"),
        (long[:9], [5], ""),
    ]


def test_columns_are_for_text_that_fits_on_a_screen_and_is_not_chopped():
    text = f"<p>{'word ' * 200}</p>"
    table = "<table></table>"
    notes = {
        text: "wide columns",
        text * 5: "wide single",
        text + table: "wide columns",
        text + table + text + table: "wide single",
        f"{text}{table}<p>short</p>{table}": "wide columns",
        f"<h2>A</h2>{text}{table}<h2>B</h2><p>b</p>": "wide columns",
        f"<h2>A</h2>{text}": "wide columns",
        "<h2>A</h2><p>a</p><h2>B</h2><p>b</p>": "wide pair",
        "<h2>A</h2><p>a</p><h2>B</h2><details><pre></pre></details>": "wide pair",
        f"<p>short</p>{table}": "wide beside",
        f"<p>short</p>{table}{table}": "wide single",
        "<p>short</p>": "wide single",
    }
    assert {note: rows([section(note)])[0].classes for note in notes} == notes


def test_two_headings_stand_side_by_side():
    folded = "<details><h2>C</h2></details>"
    (row,) = rows([section(f"<h2>A</h2>{folded}<h2>B</h2><p>b</p>")])
    assert row.parts == (f"<h2>A</h2>{folded}", "<h2>B</h2><p>b</p>")
    (row,) = rows([section("<h2>A</h2><p>a</p>")])
    assert row.parts == ("<h2>A</h2><p>a</p>",)


def test_a_brief_note_stays_beside_long_code():
    assert shown(section("<p>n</p>", code(1, 30), "f")) == [("<p>n</p>", [1], "brief")]
    display = section('<p>n</p><mjx-container display="true"></mjx-container>', code(1, 30), "f")
    assert [row.classes for row in rows([display])] == [""]
    assert rows([display])[0].tall


def test_what_is_only_heard_does_not_count():
    heard = "<mjx-assistive-mml><math>" + "<mi>x</mi>" * 2000 + "</math></mjx-assistive-mml>"
    assert rows([section(f"<p>n{heard}</p>", code(1, 30), "f")])[0].classes == "brief"


def test_every_line_is_shown_once():
    sections = [
        section("<p>a</p>" * 300, code(1, 3)),
        section("<p>f</p>", code(5, 2), "f"),
        section("", code(8, 4)),
        section("", code(13)),
        section("<p>b</p>"),
    ]
    numbers = [line.number for row in rows(sections) for block in row.blocks for line in block]
    assert numbers == [1, 2, 3, 5, 6, 8, 9, 10, 11, 13]
