"""Faults of the input, each with its place and a hint.

Every stage of the pipeline adds to one `Report`; none raises an exception for a fault of the input.
With an error in the report a build leaves the site unchanged, with warnings it does not.
See decision 003.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from traceback import extract_tb

#: Every code that a diagnostic may carry; ``docs_src/pages/diagnostics.md`` explains each of them.
_CODES = """
    config source-missing source-unreadable source-encoding source-link syntax
    front-matter note-long tex slug-duplicate page-collision image-alt link-broken anchor-broken
    inventory bibliography glossary citation navigation symbol-unknown symbol-pairs axes trace-file
    replay trace-failed trace-slow trace-memory shape-note figure-unknown figure-failed figure-kind
    figure-slow figure-memory figure-alt figure-caption figure-place not-run notebook translation
    note-place page-failed theme node output
"""
CODES = frozenset(_CODES.split())


class Severity(Enum):
    """The severity of a diagnostic: an error fails the build, a warning only with ``--check``."""

    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One fault, at one place. Lines and columns count from 1; 0 means "the file as a whole"."""

    path: str
    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    source_line: str = ""
    severity: Severity = field(default=Severity.ERROR, compare=False)

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(f"{self.code!r} is not a known diagnostic code")

    def __str__(self) -> str:
        place = self.path
        if self.line:
            place += f":{self.line}:{self.column or 1}"
        lines = [f"{place}: {self.severity.value}[{self.code}]: {self.message}"]
        if self.source_line:
            lines.append(f"    {self.source_line.rstrip()[:160]}")
            if 0 < self.column <= 160:
                lines.append("    " + " " * (self.column - 1) + "^")
        if self.hint:
            lines.append(f"    hint: {self.hint}")
        return "\n".join(lines)


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """The hint for an unknown word: the most similar known word, if any is similar."""
    near = get_close_matches(word, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else otherwise


def page_failed(path: str, error: Exception) -> Diagnostic:
    """An exception in the making of one page. It is a fault of the generator, not of its input."""
    frame = extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    message = f"its page cannot be made: {type(error).__name__} in {where}: {error}"
    hint = "the site has its source instead; this is a fault of pylit, please report it"
    return Diagnostic(path, 0, 0, "page-failed", message, hint, severity=Severity.WARNING)


def counted(number: int, thing: str) -> str:
    """``1 page``, ``2 pages``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


class Report(set[Diagnostic]):
    """The diagnostics of one build, each once, sorted by place."""

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(super().__iter__()))

    def fault(
        self,
        own: bool,
        place: tuple[str, int, int],
        code: str,
        message: str,
        hint: str = "",
        shown: str = "",
    ) -> None:
        """Add a fault of content: an error in the site's own, a warning in another's."""
        severity = Severity.ERROR if own else Severity.WARNING
        self.add(Diagnostic(*place, code, message, hint, shown, severity))

    @property
    def failed(self) -> bool:
        """Whether any diagnostic is an error."""
        return any(d.severity is Severity.ERROR for d in super().__iter__())
