"""C++ beside the Python of a package, or in folders below its ``cpp``: kernels, pages too.

A comment that has its lines for itself is a note, and what follows is its code, as in Python.
Comments are those that begin with ``//``; a ``/*`` block stays in the code. Nothing is parsed: what
begins in the first column of a line and looks like a definition is one.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pylit.diagnostics import Report
from pylit.model import Definition, Module, SourceFile
from pylit.source.discover import read_source
from pylit.source.notes import Comment, comment_notes
from pylit.source.sections import build_sections

SUFFIXES = (".cpp", ".h")

#: ``#include "name"``; what stands in angle brackets is not of the project.
INCLUDE = re.compile(r'\s*#\s*include\s*"(?P<path>[^"]+)"')

_COMMENT = re.compile(r"(?P<indent>\s*)(?P<marks>//+)(?P<text>.*)")
_TYPE = re.compile(
    r"(?:struct|class|union|enum(?: class| struct)?) (?P<name>\w+)(?! *;)|using (?P<alias>\w+) ="
)
_FUNCTION = re.compile(r"[A-Za-z_][\w:<>,*& ]*[ *&](?P<name>[A-Za-z_]\w*)\((?!.*\);\s*(?://.*)?$)")
_CONSTANTS = re.compile(
    r"(?:static |inline )*(?:constexpr|const) [\w:]+ (?P<names>\w+ *=.*)|#define (?P<macro>\w+)"
)


def read_cpp(sources: Sequence[SourceFile], report: Report) -> list[Module]:
    """The C++ files beside the Python ones of a site, and those in ``cpp`` beside them."""
    beside = {source.path.parent: source for source in sources if source.own}
    modules = []
    for folder, neighbour in sorted(beside.items()):
        shown = Path(neighbour.display).parent
        paths = [*folder.iterdir(), *(folder / "cpp").rglob("*")]
        for path in sorted(path for path in paths if path.suffix in SUFFIXES):
            if not path.resolve().is_relative_to(folder.resolve()):
                continue
            name = (shown / path.relative_to(folder)).as_posix()
            source = read_source(path, name=name, display=name, own=True, report=report)
            modules += [parse_cpp(source)] if source else []
    return modules


def parse_cpp(source: SourceFile) -> Module:
    """One file as notes and code."""
    lines = source.lines
    sections = build_sections(lines, comment_notes(_comments(lines), ()), [])
    return Module(source, {}, tuple(_definitions(source)), sections, parsed=False)


def is_cpp(name: str) -> bool:
    """Whether a file is C++, by its name."""
    return name.endswith(SUFFIXES)


def includes(source: SourceFile) -> list[tuple[str, ...]]:
    """For each included file the names it may have, below the folders around, outermost first.

    Which of them compilers look into, no source says.
    """
    folders = [str(folder) for folder in PurePosixPath(source.name).parents]
    found = filter(None, map(INCLUDE.match, source.lines))
    return [
        tuple(posixpath.normpath(posixpath.join(folder, match["path"])) for folder in folders[::-1])
        for match in found
    ]


def _definitions(source: SourceFile) -> Iterator[Definition]:
    """The file, then types, functions and constants that begin in the first column."""
    yield Definition("module", source.name, "", 1, "", "")
    for number, line in enumerate(source.lines, start=1):
        if (type_ := _TYPE.match(line)) is not None:
            name = type_["name"] or type_["alias"]
            yield Definition("class", source.name, name, number, line.rstrip(" {"), "")
        elif (constants := _CONSTANTS.match(line)) is not None:
            for name in re.findall(r"(\w+) *=", constants["names"] or "") or [constants["macro"]]:
                yield Definition("constant", source.name, name, number, line, "")
        elif (function := _FUNCTION.match(line)) is not None:
            signature = line.partition("{")[0].rstrip()
            yield Definition("function", source.name, function["name"], number, signature, "")


def _comments(lines: Sequence[str]) -> Iterator[Comment]:
    """The comments that have their lines for themselves, as Python would write them."""
    for number, line in enumerate(lines, start=1):
        comment = _COMMENT.fullmatch(line)
        if comment:
            text = "#" * len(comment["marks"]) + comment["text"]
            yield Comment(number, len(comment["indent"]), text, alone=True)
