"""What the tests of the generator's first stages share: sources from strings, readable listings."""

import hashlib
from pathlib import Path

from pylit.diagnostics import Report
from pylit.model import Module, SourceFile
from pylit.source.parse import parse_module


def source(text: str, *, name: str = "pkg.mod", own: bool = True) -> SourceFile:
    """`text` as if it had been read from a file."""
    display = name.replace(".", "/") + ".py"
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return SourceFile(Path("/", display), name, display, False, own, text, digest)


def parse(text: str, *, own: bool = True, report: Report | None = None) -> Module:
    """`text` parsed."""
    return parse_module(source(text, own=own), Report() if report is None else report)


def listing(module: Module) -> str:
    """The sections of a module, for a person to read: ``|`` before notes, ``>`` before code."""
    lines = module.source.lines
    shown: list[str] = []
    for section in module.sections:
        shown.append(f"== {section.definition}".rstrip())
        for note in section.notes:
            for number, text in enumerate(note.text.split("\n"), start=note.first_line):
                shown.append(f"{number:3} | {text}".rstrip())
        if section.code is not None:
            for number in range(section.code.first, section.code.last + 1):
                shown.append(f"{number:3} > {lines[number - 1]}".rstrip())
    return "\n".join(shown)
