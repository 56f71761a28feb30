"""How faults read, when they fail a build, and that each code is explained to its readers."""

import re
from pathlib import Path

from pylit.diagnostics import CODES, Diagnostic, Report, Severity

PAGE = Path(__file__).parents[2] / "docs_src/pages/diagnostics.md"


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


def test_a_report_holds_each_fault_once_in_order_and_only_errors_fail() -> None:
    late, early = diagnostic(line=9, severity=Severity.WARNING), diagnostic(line=2)
    report = Report([late, late])
    assert not report.failed
    report.extend([early])
    report.add(diagnostic(line=2))
    assert list(report) == [early, late] and len(report) == 2
    assert report.failed


def test_each_code_has_a_paragraph_on_the_page_of_errors() -> None:
    heading = re.compile(r"^### `([a-z-]+)` \{#\1\}\n\n(?!#)", re.MULTILINE)
    assert set(heading.findall(PAGE.read_text(encoding="utf-8"))) == CODES
