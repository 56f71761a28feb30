"""What a build tells when it is done: the diagnostics, and one line of numbers."""

import sys
from pathlib import Path

from pylit.diagnostics import Diagnostic, Severity
from pylit.pipeline.build import Options, Outcome

#: Warnings shown without --verbose; a foreign package can have thousands.
SHOWN = 20


def tell(outcome: Outcome, options: Options, *, verbose: bool = False) -> None:
    """Print what was found and what was done."""
    errors = [d for d in outcome.report if d.severity is Severity.ERROR]
    warnings = [d for d in outcome.report if d.severity is Severity.WARNING]
    shown = warnings if verbose else warnings[:SHOWN]
    for diagnostic in (*shown, *errors):
        print(diagnostic, file=sys.stderr)
    if len(shown) < len(warnings):
        rest = len(warnings) - len(shown)
        print(f"… and {_count(rest, 'more warning')}; --verbose shows all", file=sys.stderr)
    print(summary(outcome, options, errors, warnings), file=sys.stderr if errors else sys.stdout)


def summary(
    outcome: Outcome, options: Options, errors: list[Diagnostic], warnings: list[Diagnostic]
) -> str:
    """One line: how many pages, in what time, what was reused; or how many faults."""
    time = f"{outcome.seconds:.2f} s" if outcome.seconds < 10 else f"{outcome.seconds:.0f} s"
    found = [_count(len(errors), "error")] if errors else []
    found += [_count(len(warnings), "warning")] if warnings else []
    faults = ", ".join(found)
    if errors:
        return f"{faults} in {time}; the site is as it was."
    made = outcome.tally.rendered
    parts = [
        f"{_count(outcome.pages, 'page')} in {time}",
        f"{made} made, {outcome.pages - made} reused",
    ]
    if options.check:
        parts.append("checked, nothing written")
    else:
        changed = len(outcome.written.written) + len(outcome.written.deleted)
        parts.append(f"{_count(changed, 'file')} changed in {_shown(options.out)}")
    return "; ".join([*parts, faults] if faults else parts) + "."


def _shown(path: Path) -> str:
    absolute = path.absolute()
    inside = absolute.is_relative_to(Path.cwd())
    return f"{absolute.relative_to(Path.cwd()) if inside else absolute}/"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
