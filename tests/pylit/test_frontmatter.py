"""Front matter: the values, the rest, and where a fault is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylit.diagnostics import Report, Severity
from pylit.source.pages import split_front_matter as split


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("# said to authors\na: no", "no"),
        ('a: "b: \\"c\\""', 'b: "c"'),
        ("a:", ""),
        ("a: >\n b\n c\n\n d", "b c\nd"),
        ("a: 1.10", "1.10"),
        ("a: |\n\n  b\n\n\n  c\n\n", "b\n\n\nc"),
        ("a: https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1706.03762"),
    ],
)
def test_one_value(text: str, value: str) -> None:
    report = Report()
    page = f"---\n{text}\nz: c\n---\n\nrest"
    taken = page.count("\n") - 1
    assert split(page, report) == ({"a": value, "z": "c"}, "\nrest", taken)
    assert not len(report)
    assert split("\n  \n---\na: b\n...\nrest\nmore", report) == ({"a": "b"}, "rest\nmore", 5)


def test_no_front_matter() -> None:
    report = Report()
    rule = "---\n\nA rule above a paragraph\n\n---\n"
    late = "text\n---\na: b\n---\n"
    for text in ("", "---", rule, "--- \nprose without a key\n---\n", late, " ---\na: b\n---\n"):
        assert split(text, report) == ({}, text, 0)
    assert not len(report)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("---\na: b\nfree text\n---\n", 12, "it is not YAML: could not find expected ':'"),
        ("---\na: b: c\n---\n", 11, "it is not YAML: mapping values are not allowed here"),
        ("---\na: 'half\n---\n", 11, "it is not YAML: found unexpected end of stream"),
        ("---\na: b\nc: [x, y]\n---\n", 10, "`c` is not text"),
        ("---\na: b\n\nSome text.\n", 10, "front matter is never closed"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_faults(text: str, line: int, said: str, own: bool) -> None:
    report = Report()
    split(text, report, ("pages/a.md", 10, 4), own=own)
    (found,) = report
    assert (found.path, found.line, found.column) == ("pages/a.md", line, 5)
    assert (found.code, found.message) == ("front-matter", said)
    assert found.severity is (Severity.ERROR if own else Severity.WARNING)
    assert found.source_line == "    " + text.split("\n")[line - 10]
    assert found.hint


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="a:-> |'\"\n\t#.", max_size=60), st.booleans())
def test_the_rest_starts_on_the_line_that_is_told(text: str, fenced: bool) -> None:
    text = f"---\nk: v\n{text}\n---\nrest" if fenced else text
    report = Report()
    _, rest, taken = split(text, report)
    assert rest == "\n".join(text.split("\n")[taken:])
    assert all(1 <= d.line <= text.count("\n") + 1 for d in report)
