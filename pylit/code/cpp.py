"""Links of C++: names to definitions in the file or in what it includes, and to included files."""

from collections.abc import Iterator, Mapping

from pygments.lexers import CppLexer
from pygments.token import Comment, Keyword, Name

from pylit.code.scopes import Position
from pylit.code.values import Lookup
from pylit.model import Link, SourceFile
from pylit.source.cpp import includes

_MEMBER = (".", "->", "std::")


def cpp_links(source: SourceFile, lookup: Lookup) -> Mapping[Position, Link]:
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
        if kind is Comment.PreprocFile and value.startswith('"'):
            start = value.rfind("/") + 1 or 1
            yield line, offset + start, value[start:-1].partition(".")[0], True
        elif kind in Name or kind is Keyword.Type:
            yield line, offset, value, False
        line += value.count("\n")
        offset = len(value) - value.rfind("\n") - 1 if "\n" in value else offset + len(value)
