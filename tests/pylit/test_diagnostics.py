from pylit.diagnostics import Diagnostic, Report, Severity


def diagnostic(line: int = 3, column: int = 5, **changes: object) -> Diagnostic:
    values: dict[str, object] = {
        "path": "pkg/a.py",
        "line": line,
        "column": column,
        "code": "tex",
        "message": "Missing close brace",
        "hint": "close the group",
        "source_line": "    # $x^{2$",
    }
    return Diagnostic(**(values | changes))  # type: ignore[arg-type]


def test_it_reads_like_a_compiler_message() -> None:
    assert str(diagnostic()) == (
        "pkg/a.py:3:5: error[tex]: Missing close brace\n"
        "        # $x^{2$\n"
        "        ^\n"
        "    hint: close the group"
    )


def test_a_report_holds_each_fault_once_in_the_order_of_places() -> None:
    late, early = diagnostic(line=9), diagnostic(line=2)
    report = Report([late, early, late])
    report.add(diagnostic(line=2))
    assert list(report) == [early, late]
    assert len(report) == 2


def test_only_errors_fail_a_build() -> None:
    report = Report([diagnostic(severity=Severity.WARNING)])
    assert not report.failed
    report.extend([diagnostic(line=4)])
    assert report.failed
