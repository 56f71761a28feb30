"""C++ beside the Python of a package, or in folders below its ``cpp``: pages too.

A comment block on lines of its own is a note, and what follows is its code, as in Python. Comments
begin with ``//``; a ``/*`` block stays in the code. Nothing is parsed: definitions are recognised
by their first line, which is not indented. Names are linked to definitions in the file or in the
files that it includes, and included files to their pages. See decision 027.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal

from pylit.addresses import CPP_SUFFIXES
from pylit.diagnostics import Report
from pylit.model import Definition, Link, Module, SourceFile, Target
from pylit.source.discover import read_source
from pylit.source.parse import Comment, build_sections, comment_notes
from pylit.source.scopes import Position

#: ``#include "name"``; a name in angle brackets is not of the project.
_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
_COMMENT = re.compile(r"(\s*)(//+)(.*)")
#: Kind of a definition -> its line, up to the name.
_DEFINITIONS: dict[Literal["class", "constant", "function"], str] = {
    "class": r"(?:struct|class|union|enum(?: class| struct)?) (\w+)(?! *;)|using (\w+) =",
    "constant": r"(?:static |inline )*(?:constexpr|const) [\w:]+ (?=\w+ *=)|#define (\w+)",
    "function": r"[A-Za-z_][\w:<>,*& ]*[ *&]([A-Za-z_]\w*)\((?!.*\);\s*(?://.*)?$)",
}
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_MEMBER = (".", "->", "std::")


def read_cpp(sources: Sequence[SourceFile], report: Report) -> list[Module]:
    """The C++ files beside the Python ones of a site, and those in ``cpp`` beside them."""
    beside = {source.path.parent: source for source in sources if source.own}
    found = []
    for folder, neighbour in sorted(beside.items()):
        for path in sorted([*folder.iterdir(), *(folder / "cpp").rglob("*")]):
            if path.suffix in CPP_SUFFIXES and path.resolve().is_relative_to(folder.resolve()):
                name = (Path(neighbour.display).parent / path.relative_to(folder)).as_posix()
                found.append(read_source(path, name=name, display=name, own=True, report=report))
    return [parse_cpp(source) for source in found if source]


@lru_cache(maxsize=200)
def parse_cpp(source: SourceFile) -> Module:
    """One file as notes and code."""
    comments = []
    definitions = [Definition("module", source.name, "", 1, "")]
    for number, line in enumerate(source.lines, start=1):
        if comment := _COMMENT.fullmatch(line):
            indent, marks, text = comment.groups()
            # As Python would write it.
            comments.append(Comment(number, len(indent), "#" * len(marks) + text, alone=True))
        for kind, pattern in _DEFINITIONS.items():
            if match := re.match(pattern, line):
                shown = line.partition("{")[0].rstrip() if kind == "function" else line.rstrip("{ ")
                # One statement may define several constants.
                names = list(filter(None, match.groups())) or re.findall(r"(\w+) *=", line)
                definitions += [Definition(kind, source.name, n, number, shown) for n in names]
                break
    sections = build_sections(source.lines, comment_notes(comments, ()), {})
    return Module(source, {}, tuple(definitions), sections, parsed=False)


def includes(source: SourceFile) -> dict[Position, tuple[str, ...]]:
    """The names that each included file may have, below the folders around, outermost first.

    The keys are positions of file names. Which folders a compiler searches is not in the source.
    """
    folders = [str(folder) for folder in PurePosixPath(source.name).parents][::-1]
    found = {}
    for number, line in enumerate(source.lines, start=1):
        if file := _INCLUDE.match(line):
            start = file.start(1) + file[1].rfind("/") + 1
            paths = (posixpath.normpath(posixpath.join(folder, file[1])) for folder in folders)
            found[number, start] = tuple(paths)
    return found


def cpp_links(
    source: SourceFile, lookup: Callable[[str], Target | None]
) -> Mapping[Position, Link]:
    """Links by position, also in strings and comments.

    A function is linked where it is called, and a member of the same name is not. A parameter that
    hides a definition is not recognised.
    """
    found: dict[Position, Link] = {}
    for place, names in includes(source).items():
        if target := next(filter(None, map(lookup, names[::-1])), None):
            found[place] = Link(target.url, target.definition.dotted)
    for number, line in enumerate(source.lines, start=1):
        for word in _WORD.finditer(line) if not _INCLUDE.match(line) else ():
            target = lookup(f"{source.name}.{word[0]}")
            if target is None or line[: word.start()].rstrip().endswith(_MEMBER):
                continue
            definition = target.definition
            itself = definition.module == source.name and target.url.endswith(f"#L{number}")
            called = line[word.end() :].lstrip().startswith(("(", "<"))
            if not itself and (called or definition.kind != "function"):
                found[number, word.start()] = Link(target.url, definition.dotted)
    return found
