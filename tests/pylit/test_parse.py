"""Whole modules: what Python cannot parse, sizes, and packages that nobody here wrote."""

import pytest
from pylit_sources import check_whole, parse

from pylit.diagnostics import Report, Severity
from pylit.model import Section, Span


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("x = 1\ny = (\n", 2, 5, "'(' was never closed"),
        ("def f():\nx = 1\n", 2, 1, "expected an indented block after function definition"),
        ("if x:\n\ty = 1\n        z = 2\n", 3, None, "inconsistent use of tabs"),
        ("print 'x'\n", 1, 1, "Missing parentheses"),
        ('"""\n\nnever closed\n', 1, 1, "unterminated triple-quoted string literal"),
    ],
)
def test_a_syntax_error(text, line, column, said):
    report = Report()
    module = parse(text, report=report)
    last = max(n for n, content in enumerate(text.split("\n"), start=1) if content.strip())
    assert not module.parsed
    assert module.sections == (Section((), Span(1, last)),)
    assert [d.kind for d in module.definitions] == ["module"]
    (diagnostic,) = report
    assert (diagnostic.path, diagnostic.code, diagnostic.line) == ("pkg/mod.py", "syntax", line)
    # The page still shows the source: only a strict check fails.
    assert diagnostic.severity is Severity.WARNING and said in diagnostic.message
    assert column is None or diagnostic.column == column
    assert diagnostic.source_line == text.split("\n")[line - 1]
    assert "newer Python" in diagnostic.hint


def test_nothing_to_show():
    for text in ("", "\n", " \n\t\n\f\n"):
        module = parse(text, report=(report := Report()))
        assert module.parsed and module.sections == () and not len(report)
        assert module.definitions[0].dotted == "pkg.mod"


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 150 + "1" + ")" * 150,
        "x = " + "-" * 20_000 + "1",
        "x = " + "+".join("1" * 30_000),
        "x" + ".y" * 20_000,
        "".join(f"{' ' * i}if x:\n" for i in range(150)) + " " * 150 + "y",
        "if x:\n  y\n" + "elif x:\n  y\n" * 1500,
        "def f(x=" + "+".join("1" * 900) + "\n): ...",
        "\ud800 = 1",
    ],
    ids=["brackets", "signs", "sums", "attributes", "indents", "elifs", "default", "surrogate"],
)
def test_extremes_never_crash(text):
    report = Report()
    module = parse(text, report=report)
    check_whole(module)
    assert module.parsed == (not len(report))
    assert all(d.code == "syntax" for d in report)


def test_long_files_and_lines():
    note = "# Note.\n\n@x\ndef f{}(a,\n  b):\n  '''Doc.'''\n\n\n"
    text = "".join(note.format(i) for i in range(1000))
    text += f"# before\nx = [{'1,' * 50_000}]  # behind\n# {'long ' * 20_000}\ny = 1\n"
    module = parse(text)
    check_whole(module)
    assert len(module.sections) == 2002
    assert len(module.definitions) == 1003
    report = Report()
    check_whole(parse(text.replace("# before", "("), report=report))
    assert len(str(next(iter(report)))) < 600


def test_warnings_about_other_peoples_code_are_not_shown():
    # Warnings are errors in these tests; this one would be a SyntaxWarning.
    assert parse("x = '\\d'\nassert (x, 'always true')\n1 is 1\n").parsed
