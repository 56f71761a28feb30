"""What went wrong, where, and what to do about it.

Every stage of the pipeline adds to one `Report`; nothing is raised for a fault in the input. The
build looks at the report once, at the end: an error keeps the site that stands, a warning does not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

#: Every code a diagnostic may carry, with what it means. The list is part of the documentation.
CODES: dict[str, str] = {
    "config": "`site.toml` is missing, cannot be read, or holds an impossible value",
    "source-missing": "a source is not there or holds no Python",
    "source-unreadable": "a file or folder cannot be read",
    "source-encoding": "a file is not in the encoding it declares (UTF-8 if it declares none)",
    "source-loop": "a symbolic link leads back to a folder that contains it",
    "source-link": "a symbolic link leads out of the source; it is not followed",
    "syntax": "a module does not parse; its page shows the source without notes",
    "front-matter": "the front matter of a module or page is not `key: value` lines",
    "note-long": "a note is too long to be read as Markdown; it is shown as plain text",
    "tex": "a formula is not valid TeX",
    "slug-duplicate": "two headings of a page have the same anchor",
    "page-collision": "two sources would be written to the same page",
    "image-alt": "an image has no text that says what it shows",
    "link-broken": "a link leads to a page that is not there",
    "anchor-broken": "a link leads to an anchor that its page does not have",
    "bibliography": "`docs_src/references.bib` does not parse, or an entry lacks what readers need",
    "glossary": "an entry of `docs_src/glossary.md` is not whole, or two are written alike",
    "citation": "a note cites a work that the bibliography does not have",
    "navigation": "`site.toml` names a page that is not there",
    "symbol-unknown": "a table of symbols names a variable that the code does not have",
    "symbol-pairs": "a row of a table of symbols has as many symbols as names, or one of either",
    "axes": "`docs_src/traces/axes.toml` cannot be read, or holds what it cannot",
    "trace-file": "a file of traces does not parse, has no run, or no module",
    "trace-failed": "a run of a module raised an error, or ended its process",
    "trace-slow": "a run of a module took more than 5 s of processor time",
    "trace-hungry": "a run of a module asked for more than 1 GiB of memory",
    "shape-declared": "a shape in a signature is not the one that ran",
    "shape-note": "a shape in a note, docstring or table of symbols is not the one that ran",
    "shapes-off": "torch is not installed: pages are built without shapes",
    "figure-unknown": "a note asks for a figure or table that nobody has written",
    "figure-failed": "a figure or table raised an error, ended its process, or is none",
    "figure-kind": "a note asks for a table and its function makes a figure, or the reverse",
    "figure-slow": "a figure took more than 5 s of processor time",
    "figure-hungry": "a figure asked for more than 1 GiB of memory",
    "figure-alt": "a figure has no words for those who do not see it",
    "figure-caption": "a figure has no caption",
    "figure-place": "a figure stands inside of a text, and not in a paragraph of its own",
    "figures-off": "torch is not installed: pages are built without figures",
    "notebook": "a notebook cannot be read, or is none",
    "theme": "a template of the theme is not Jinja, or asks for what is not there",
    "node": "Node.js or MathJax is missing, or failed",
    "output": "the output folder cannot be written, or holds files that a build did not write",
}


class Severity(Enum):
    """How much a diagnostic weighs: an error fails the build, a warning only under ``--check``."""

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


class Report:
    """The diagnostics of one build, each once."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self._found: dict[Diagnostic, None] = dict.fromkeys(diagnostics)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep one diagnostic; the same one twice is kept once."""
        self._found.setdefault(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Keep several."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def __iter__(self) -> Iterator[Diagnostic]:
        """Sorted by place, so that the same input is reported in the same order."""
        return iter(sorted(self._found))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def failed(self) -> bool:
        """Whether any diagnostic is an error."""
        return any(d.severity is Severity.ERROR for d in self._found)
