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


def test_a_long_introduction_takes_the_whole_width_and_its_code_comes_after():
    long = f"<p>{'word ' * 150}</p>"
    assert shown(section(long, code(1)), section(long, code(5))) == [
        (long[:9], [], "wide single"),
        ("", [1], "bare"),
        (long[:9], [5], ""),
    ]


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
