"""What a build did: its progress in the terminal, and its outcome."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pylit.diagnostics import Report, Severity, counted
from pylit.outputs.folder import Written
from pylit.site.options import Options

Item = TypeVar("Item")

#: Warnings shown without --verbose; a foreign package can have thousands.
SHOWN = 20


@dataclass(slots=True)
class Outcome:
    """The result of a build."""

    report: Report = field(default_factory=Report)
    pages: int = 0
    #: How many drafts and pages were made, the others being cached.
    drafted: int = 0
    rendered: int = 0
    written: Written = field(default_factory=Written)
    seconds: float = 0.0

    def after(self, first: "Outcome") -> "Outcome":
        """This outcome, and what an earlier build of the same sources did for it."""
        both = (first.written, self.written)
        self.written = Written(
            sorted({path for one in both for path in one.written}),
            sorted({path for one in both for path in one.deleted}),
        )
        self.drafted += first.drafted
        self.rendered += first.rendered
        self.seconds += first.seconds
        return self


def progress(title: str, items: Iterable[Item]) -> Iterator[Item]:
    """The items of a stage, counted in a line of the terminal until the stage ends."""
    shown = 0.0
    for done, item in enumerate(items, 1):
        if sys.stderr.isatty() and time.monotonic() - shown > 0.05:
            shown = time.monotonic()
            # Back to the first column; clear the rest of the line.
            print(f"\r\x1b[K{title} {done}", end="", file=sys.stderr, flush=True)
        yield item
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)


def print_outcome(outcome: Outcome, options: Options, *, verbose: bool = False) -> None:
    """Print the diagnostics, and a line with the numbers of pages and files, or of faults."""
    errors = [d for d in outcome.report if d.severity is Severity.ERROR]
    warnings = [d for d in outcome.report if d.severity is Severity.WARNING]
    shown = len(warnings) if verbose else SHOWN
    for diagnostic in (*warnings[:shown], *errors):
        print(diagnostic, file=sys.stderr)
    if (rest := len(warnings) - shown) > 0:
        print(f"… and {counted(rest, 'more warning')}; --verbose shows all", file=sys.stderr)
    kinds = ((errors, "error"), (warnings, "warning"))
    faults = [counted(len(found), kind) for found, kind in kinds if found]
    seconds = f"{outcome.seconds:.2f} s"
    if errors:
        print(f"{', '.join(faults)} in {seconds}; the site is unchanged.", file=sys.stderr)
        return
    changed = counted(len(outcome.written.written) + len(outcome.written.deleted), "file")
    parts = [
        f"{counted(outcome.pages, 'page')} in {seconds}",
        f"{outcome.rendered} made, {outcome.pages - outcome.rendered} reused",
        "checked, nothing written" if options.check else f"{changed} changed in {options.out}/",
        *faults,
    ]
    print("; ".join(parts) + ".")
