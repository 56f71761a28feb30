"""How faults read, when they fail a build, and that each code is explained to its readers."""

import re
from dataclasses import replace
from pathlib import Path

from pylit.diagnostics import CODES, Diagnostic, Report, Severity

PAGE = Path(__file__).parents[2] / "docs_src/pages/diagnostics.md"


WORDS = ("tex", "Missing close brace", "close the group", "    # $x^{2$")
LATE = Diagnostic("pkg/a.py", 3, 5, *WORDS, severity=Severity.WARNING)
EARLY = Diagnostic("pkg/a.py", 2, 5, *WORDS)


def test_it_reads_like_a_compiler_message() -> None:
    assert str(EARLY) == (
        "pkg/a.py:2:5: error[tex]: Missing close brace\n"
        "        # $x^{2$\n"
        "        ^\n"
        "    hint: close the group"
    )


def test_a_report_holds_each_fault_once_in_order_and_only_errors_fail() -> None:
    report = Report([LATE, replace(LATE)])
    assert not report.failed
    report.update([EARLY, replace(EARLY)])
    assert list(report) == [EARLY, LATE] and len(report) == 2
    assert report.failed


def test_each_code_has_a_paragraph_on_the_page_of_errors() -> None:
    heading = re.compile(r"^### `([a-z-]+)` \{#\1\}\n\n(?!#)", re.MULTILINE)
    assert set(heading.findall(PAGE.read_text(encoding="utf-8"))) == CODES
