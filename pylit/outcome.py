"""What a build is asked for, and what it tells: how far it is, what it found, what it did."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from pylit.diagnostics import Report, Severity
from pylit.node.process import MODULES
from pylit.write import Written

Item = TypeVar("Item")

THEME = Path(__file__).resolve().parent / "theme"
#: Warnings shown without --verbose; a foreign package can have thousands.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Options:
    """What to build, where to, and how."""

    #: The folder that holds ``docs_src``.
    root: Path
    out: Path
    #: Packages to render instead of the site's own sources.
    sources: tuple[Path, ...] = ()
    #: None keeps nothing between processes.
    cache: Path | None = None
    jobs: int = 1
    #: Do everything but write.
    check: bool = False
    #: Whether builds follow each other while an author works.
    serving: bool = False
    title: str = ""
    base_url: str = ""
    theme: Path = THEME
    node_modules: Path = MODULES
    #: Why there is no Node, or nothing from npm; empty when there is both.
    lacking: str = ""

    @property
    def docs(self) -> Path:
        """Where what is not Python source lies; somebody else's package has nothing of the kind."""
        return (Path(__file__).parent / "nowhere" if self.sources else self.root) / "docs_src"


@dataclass(slots=True)
class Outcome:
    """What came of a build."""

    report: Report = field(default_factory=Report)
    pages: int = 0
    #: How many drafts and pages were made, and not there already.
    drafted: int = 0
    rendered: int = 0
    written: Written = field(default_factory=Written)
    seconds: float = 0.0


class Progress:
    """How far a build is: a line in a terminal `out`, gone when a stage is done."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out and out.isatty() else None

    def of(self, title: str, items: Iterable[Item], total: int = 0) -> Iterator[Item]:
        """The items of a stage, told as they come; of `total`, if that is known."""
        shown = 0.0
        for done, item in enumerate(items, 1):
            if self._out and time.monotonic() - shown > 0.05:
                shown = time.monotonic()
                # Back to the first column, and clear what stands to the right.
                print(f"\r\x1b[K{title} {done}" + f"/{total}" * bool(total), end="", file=self._out)
                self._out.flush()
            yield item
        if shown:
            print("\r\x1b[K", end="", file=self._out)


def tell(outcome: Outcome, options: Options, *, verbose: bool = False) -> None:
    """Print the diagnostics, and in one line what was made and reused, or how many faults."""
    errors = [d for d in outcome.report if d.severity is Severity.ERROR]
    warnings = [d for d in outcome.report if d.severity is Severity.WARNING]
    shown = warnings if verbose else warnings[:SHOWN]
    for diagnostic in (*shown, *errors):
        print(diagnostic, file=sys.stderr)
    if rest := len(warnings) - len(shown):
        print(f"… and {_count(rest, 'more warning')}; --verbose shows all", file=sys.stderr)
    counts = ((errors, "error"), (warnings, "warning"))
    faults = ", ".join(_count(len(found), kind) for found, kind in counts if found)
    seconds = f"{outcome.seconds:.{0 if outcome.seconds >= 10 else 2}f} s"
    if errors:
        print(f"{faults} in {seconds}; the site is as it was.", file=sys.stderr)
        return
    changed = _count(len(outcome.written.written) + len(outcome.written.deleted), "file")
    out = options.out.absolute()
    out = out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out
    parts = [
        f"{_count(outcome.pages, 'page')} in {seconds}",
        f"{outcome.rendered} made, {outcome.pages - outcome.rendered} reused",
        "checked, nothing written" if options.check else f"{changed} changed in {out}/",
        faults,
    ]
    print("; ".join(filter(None, parts)) + ".")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
