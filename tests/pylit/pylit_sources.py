"""What the tests of the generator's first stages share: sources from strings, readable listings."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from pylit.diagnostics import Report
from pylit.model import Draft, Module, ParsedPage, SourceFile, Target
from pylit.pages.draft import Drafter
from pylit.source.names import targets
from pylit.source.parse import parse_module


def source(
    text: str, *, name: str = "pkg.mod", own: bool = True, package: bool = False
) -> SourceFile:
    """`text` as if it had been read from a file of the folder ``/src``."""
    display = name.replace(".", "/") + ("/__init__.py" if package else ".py")
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return SourceFile(Path("/src", display), name, display, package, own, text, digest)


def golden_cases(name: str) -> list[ParameterSet]:
    """Title, text and what it gives, each closed by a dot, in all files of a golden folder."""
    cases = []
    for path in sorted((Path(__file__).parent / "golden" / name).glob("*.txt")):
        parts = re.split(r"^\.\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(parts) % 3 == 1 and not parts[-1].strip(), path
        for title, text, expected in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
            cases.append(pytest.param(text, expected, id=f"{path.stem}: {title.strip()}"))
    return cases


def parse(
    text: str, *, name: str = "pkg.mod", own: bool = True, report: Report | None = None
) -> Module:
    """`text` parsed."""
    return parse_module(source(text, name=name, own=own), Report() if report is None else report)


def draft(module: Module, others: Mapping[str, Target] | None = None) -> Draft:
    """The page of a module; `others` are definitions of other modules."""
    url = module.source.name.replace(".", "/") + ".html"
    known = {**targets(module, url), **(others or {})}
    return Drafter(known)(ParsedPage(module, url, False, "key"))


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


#: What may stand on a note's line beside its text.
MARKS = {
    "comment": re.compile(r"[\s#:/]*"),
    "docstring": re.compile(r"\s*[rRuU]?[\"']*\\?\s*[\"']*\s*"),
}
BANNER = re.compile(r"[\s#=*~+_/-]*")


def check_whole(module: Module) -> None:
    """Fail unless notes and code, put together, give every line of the file, once and in order."""
    lines = ["", *module.source.lines]
    shown: list[int] = []
    for section in module.sections:
        assert section.notes or section.code
        spans = [note.span for note in section.notes] + ([section.code] if section.code else [])
        for span in sorted(spans, key=lambda span: span.first):
            shown += range(span.first, span.last + 1)
        for note in section.notes:
            texts = dict(enumerate(note.text.split("\n"), start=note.first_line))
            assert texts.keys() <= set(range(note.span.first, note.span.last + 1))
            for number in range(note.span.first, note.span.last + 1):
                line, text = lines[number], texts.get(number, "")
                if note.behind and number == note.span.last:
                    line = line.rstrip().removesuffix(note.behind)
                # Where there is a backslash, it may be an escape.
                escaped = any("\\" in lines[n] for n in range(note.span.first, number + 1))
                if escaped or (not text and BANNER.fullmatch(line)):
                    continue
                if not (module.front_matter and number < note.first_line):
                    # What is not shown of a line is quotes and hashes.
                    assert text in line, (number, line, text)
                    assert MARKS[note.kind].fullmatch(line.replace(text, "", 1)), (number, line)
    assert shown == sorted(set(shown)) and all(1 <= number < len(lines) for number in shown)
    filled = {number for number, line in enumerate(lines) if line.strip()}
    assert filled <= set(shown), filled - set(shown)
