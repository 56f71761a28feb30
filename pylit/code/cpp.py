"""C++ beside the Python of a package, or in folders below its ``cpp``: kernels, pages too.

A comment that has its lines for itself is a note, and what follows is its code, as in Python.
Comments are those that begin with ``//``; a ``/*`` block stays in the code. Nothing is parsed: what
begins in the first column of a line and looks like a definition is one. Names lead to definitions
in the file or in what it includes, and included files to their pages.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from pygments.lexers import CppLexer
from pygments.token import Comment as CommentToken
from pygments.token import Keyword, Name

from pylit.diagnostics import Report
from pylit.model import Definition, Link, Module, SourceFile, Target
from pylit.source.discover import read_source
from pylit.source.notes import Comment, comment_notes
from pylit.source.scopes import Position
from pylit.source.sections import build_sections

SUFFIXES = (".cpp", ".h")

#: ``#include "name"``; what stands in angle brackets is not of the project.
_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
_COMMENT = re.compile(r"(\s*)(//+)(.*)")
_TYPE = r"(?:struct|class|union|enum(?: class| struct)?) (\w+)(?! *;)|using (\w+) ="
_CONSTANT = r"(?:static |inline )*(?:constexpr|const) [\w:]+ (\w+) *=|#define (\w+)"
_FUNCTION = r"[A-Za-z_][\w:<>,*& ]*[ *&]([A-Za-z_]\w*)\((?!.*\);\s*(?://.*)?$)"
_MEMBER = (".", "->", "std::")


def is_cpp(name: str) -> bool:
    """Whether a file is C++, by its name."""
    return name.endswith(SUFFIXES)


def read_cpp(sources: Sequence[SourceFile], report: Report) -> list[Module]:
    """The C++ files beside the Python ones of a site, and those in ``cpp`` beside them."""
    beside = {source.path.parent: source for source in sources if source.own}
    found = []
    for folder, neighbour in sorted(beside.items()):
        paths = [*folder.iterdir(), *(folder / "cpp").rglob("*")]
        for path in sorted(path for path in paths if path.suffix in SUFFIXES):
            if path.resolve().is_relative_to(folder.resolve()):
                name = (Path(neighbour.display).parent / path.relative_to(folder)).as_posix()
                found.append(read_source(path, name=name, display=name, own=True, report=report))
    return [parse_cpp(source) for source in found if source]


def parse_cpp(source: SourceFile) -> Module:
    """One file as notes and code."""
    comments = []
    definitions = [Definition("module", source.name, "", 1, "", "")]
    for number, line in enumerate(source.lines, start=1):
        if comment := _COMMENT.fullmatch(line):
            indent, marks, text = comment.groups()
            # As Python would write it.
            comments.append(Comment(number, len(indent), "#" * len(marks) + text, alone=True))
        if match := re.match(_TYPE, line):
            name, signature = match[1] or match[2], line.rstrip(" {")
            definitions.append(Definition("class", source.name, name, number, signature, ""))
        elif match := re.match(_CONSTANT, line):
            for name in re.findall(r"(\w+) *=", line) if match[1] else [match[2]]:
                definitions.append(Definition("constant", source.name, name, number, line, ""))
        elif match := re.match(_FUNCTION, line):
            name, signature = match[1], line.partition("{")[0].rstrip()
            definitions.append(Definition("function", source.name, name, number, signature, ""))
    sections = build_sections(source.lines, comment_notes(comments, ()), {})
    return Module(source, {}, tuple(definitions), sections, parsed=False)


def includes(source: SourceFile) -> list[tuple[str, ...]]:
    """For each included file the names it may have, below the folders around, outermost first.

    Which of them compilers look into, no source says.
    """
    folders = [str(folder) for folder in PurePosixPath(source.name).parents][::-1]
    found = filter(None, map(_INCLUDE.match, source.lines))
    return [
        tuple(posixpath.normpath(posixpath.join(folder, match[1])) for folder in folders)
        for match in found
    ]


def cpp_links(
    source: SourceFile, lookup: Callable[[str], Target | None]
) -> Mapping[Position, Link]:
    """Links by position: line from 1, offset in the line from 0.

    A function is linked where it is called, and not where a member has its name. A parameter that
    hides a definition is not noticed.
    """
    lines = source.lines
    included = iter(includes(source))
    found: dict[Position, Link] = {}
    for line, offset, name, is_file in _names(source.text):
        before, behind = lines[line - 1][:offset], lines[line - 1][offset + len(name) :]
        if not is_file and before.rstrip().endswith(_MEMBER):
            continue
        names = next(included)[::-1] if is_file else (f"{source.name}.{name}",)
        target = next(filter(None, map(lookup, names)), None)
        if target is None:
            continue
        definition = target.definition
        itself = definition.module == source.name and target.url.endswith(f"#L{line}")
        called = behind.lstrip().startswith(("(", "<"))
        if not itself and (called or definition.kind != "function"):
            found[line, offset] = Link(target.url, definition.dotted)
    return found


def _names(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """Line, offset and text of each name, and of each included file."""
    line, offset = 1, 0
    for kind, value in CppLexer(stripnl=False, ensurenl=False).get_tokens(text):
        if kind is CommentToken.PreprocFile and value.startswith('"'):
            start = value.rfind("/") + 1 or 1
            yield line, offset + start, value[start:-1].partition(".")[0], True
        elif kind in Name or kind is Keyword.Type:
            yield line, offset, value, False
        line += value.count("\n")
        offset = len(value) - value.rfind("\n") - 1 if "\n" in value else offset + len(value)
