"""A module as a chapter of a notebook: its notes and its code, in the order of its page.

A class cannot be spread over cells, so it is one, and what its methods have to say stands in the
cell above, under their names, with its formulas set. Of each long docstring its title stays, and
finds the two together. What is said between the lines of a function stays there, in plain words.

All cells write into one namespace. What a module imports from another chapter is there already, so
that import goes; what it imports from elsewhere stays, once. Two things of one name are an error:
the later one would silently take the place of the earlier.
"""

import ast
import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from pylit.model import Module, Note
from pylit.notebooks.model import Cell, NotebookError, Part
from pylit.notebooks.standalone import dropped_names, stand_alone, used_names
from pylit.notebooks.wording import Wording, path_url
from pylit.source.parse import first_line

#: A module and its syntax tree.
Read = tuple[Module, ast.Module]
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign

#: Columns of the library's code.
WIDTH = 88
#: A docstring of so few lines may stay where it is, unless more than a line of code can show.
_SHORT = 3
_RICH = re.compile(r"^\s*(?:\* |\| |\$\$|```|#|>)|!\[", re.MULTILINE)
_TITLE = re.compile(r"#{1,6} (.+?)(?:\s*\{#[\w.-]+\})?\s*(?:\n|$)")
#: The exercises of a page, which end at the next heading that is not below theirs.
_EXERCISES = re.compile(r"^## Exercises[ \t]*\n(.*?)(?=^##? |\Z)", re.MULTILINE | re.DOTALL)


class Names:
    """The names of one notebook, each with where it comes from.

    Args:
        chapters: The modules that are taken apart into cells.
        modules: All modules of the site.
    """

    def __init__(self, chapters: Collection[str], modules: Collection[str]) -> None:
        self._chapters = chapters
        self._modules = modules
        #: A name, and the dotted name of what it is.
        self.origins: dict[str, str] = {}

    def take(self, name: str, origin: str, where: str) -> bool:
        """Whether a name is new. Raises `NotebookError` if it is something else already."""
        if self.origins.setdefault(name, origin) == origin:
            return False
        raise NotebookError(
            f"{where}: `{name}` is {origin}, and in the same notebook it is "
            f"{self.origins[name]}; rename one of the two, or take one module less apart"
        )

    def cell(self, cell: Cell) -> None:
        """What a cell of the recipe imports need not be imported again."""
        for statement in ast.parse(cell.text).body if cell.kind == "code" else ():
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.origins |= {name: origin for name, origin, _ in _imported(statement)}

    def imports(
        self, statement: ast.Import | ast.ImportFrom, used: Collection[str], where: str
    ) -> Iterator[str]:
        """The lines that stay of an import of a chapter, for the names that it still uses."""
        home = statement.module if isinstance(statement, ast.ImportFrom) else ""
        kept = []
        for name, origin, alias in _imported(statement):
            if name not in used:
                continue
            if home in self._chapters:
                # It is, or will be, defined in a cell. Under another name it is one more.
                if name != alias.name and name not in self.origins:
                    yield f"{name} = {alias.name}"
            elif home in self._modules or origin in self._modules:
                raise NotebookError(
                    f"{where} uses `{name}` of {home}, and a notebook has nothing of the "
                    f"package; take `{home}` as a chapter before it"
                )
            elif name not in self.origins:
                kept.append(alias)
            self.take(name, origin, where)
        if kept:
            shorter = copy.copy(statement)
            shorter.names = kept
            yield ast.unparse(shorter)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, ast.alias]]:
    """The names that an import binds, and what they are."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}", alias
        else:
            name = alias.asname or alias.name.partition(".")[0]
            yield name, alias.name if alias.asname else name, alias


class Chapter:
    """The cells of one module.

    Args:
        read: The module and its tree.
        names: The names of the notebook so far.
        wording: What notes say in a notebook.
        part: The definitions to take, or those to leave out, with a minus before their names; all
            of the module if it names none.
    """

    def __init__(self, read: Read, names: Names, wording: Wording, part: Part) -> None:
        self._module, self._tree = read
        self._left_out = {name[1:] for name in part.choice if name.startswith("-")}
        self._taken = {name for name in part.choice if not name.startswith("-")}
        self._names = names
        self._wording = wording
        self._source = self._module.source
        self._page = path_url(self._source.display)
        notes = [note for section in self._module.sections for note in section.notes]
        self._notes = {note.span.first: note for note in notes}

    def cells(self) -> Iterator[Cell]:
        """Everything but the exercises."""
        items = list(self._chosen())
        dropped = self._left_out | dropped_names(self._tree)
        rewritten = {
            item.lineno: self._rewritten(item, dropped)
            for item in items
            if isinstance(item, Definition)
        }
        kept = [code for code, _ in rewritten.values()]
        kept += [ast.unparse(item) for item in items if isinstance(item, Assignment)]
        used = set[str]().union(*map(used_names, kept))
        text: list[str] = [self._opening()]
        code: list[str] = []
        for item in items:
            if isinstance(item, Note):
                yield from self._code(code)
                text.append(self._markdown(_EXERCISES.sub("", item.text)))
            elif isinstance(item, Definition):
                yield from self._code(code)
                self._define(item.name)
                written, notes = rewritten[item.lineno]
                text += [self._explained(*pair, item.name) for pair in notes]
                yield from self._text(text)
                yield from self._code([written])
            else:
                lines = list(self._statement(item, used))
                if lines:
                    yield from self._text(text)
                    apart = code and not self._source.lines[item.lineno - 2].strip()
                    code += ["", *lines] if apart else lines
        yield from self._code(code)
        yield from self._text(text)

    def exercises(self) -> str:
        """The exercises of the module, as Markdown; empty if there are none."""
        found = filter(None, (_EXERCISES.search(note.text) for note in self._notes.values()))
        return next((self._markdown(match[1], 0) for match in found), "")

    def _text(self, parts: list[str]) -> Iterator[Cell]:
        filled = [part.strip("\n") for part in parts if part.strip()]
        if filled:
            yield Cell("markdown", "\n\n".join(filled), self._source.name)
        parts.clear()

    def _code(self, parts: list[str]) -> Iterator[Cell]:
        if parts:
            yield Cell("code", "\n".join(parts), self._source.name)
        parts.clear()

    def _opening(self) -> str:
        matter = self._module.front_matter
        title = matter.get("title", self._source.name)
        summary = " ".join(matter.get("summary", "").split())
        page = "The page of this chapter"
        if self._wording.base_url:
            page = f"[{page}]({self._wording.base_url}{self._page})"
        return f"## {title}\n\n{summary} {page} has its notes beside the code."

    def _chosen(self) -> Iterator[Note | ast.stmt]:
        """The statements that the notebook takes, with the notes that introduce them."""
        notes: list[Note] = []
        for item in self._items():
            if isinstance(item, Note):
                notes.append(item)
                continue
            names = [item.name] if isinstance(item, Definition) else _bound(item)
            if not names or self._takes(names):
                # What stands above imports introduces the module, and is in its docstring.
                yield from notes
                yield item
            notes.clear()
        if not self._taken:
            yield from notes

    def _takes(self, names: Sequence[str]) -> bool:
        if self._taken:
            return not self._taken.isdisjoint(names)
        return self._left_out.isdisjoint(names)

    def _items(self) -> list[Note | ast.stmt]:
        """Statements, and the notes between them, in order."""
        body = self._tree.body
        body = body[1:] if ast.get_docstring(self._tree, clean=False) is not None else body
        found: dict[int, Note | ast.stmt] = {first_line(one): one for one in body}
        inside = {line for at, one in found.items() for line in range(at, _last(one) + 1)}
        found |= {at: note for at, note in self._notes.items() if note.text and at not in inside}
        return [found[line] for line in sorted(found)]

    def _statement(self, statement: ast.stmt, used: Collection[str]) -> Iterator[str]:
        """The lines of a statement that stays; of imports those of `used` names."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from self._names.imports(statement, used, self._source.name)
        elif (bound := _bound(statement)) != ["__all__"]:
            for name in bound:
                self._define(name)
            yield "\n".join(self._source.lines[statement.lineno - 1 : _last(statement)])

    def _define(self, name: str) -> None:
        self._names.take(name, f"{self._source.name}.{name}", self._source.name)

    def _explained(self, name: str, note: Note, outermost: str) -> str:
        """A note of a class, a method or a function, under its name."""
        title, rest = _titled(note.text)
        short = f"`{name.rpartition('.')[2]}`"
        if name == outermost:
            heading = f"### {title or short}"
        else:
            heading = f"#### {title} · {short}" if title else f"#### {short}"
        return f"{heading}\n\n{self._markdown(rest)}".strip()

    def _markdown(self, text: str, deeper: int = 1) -> str:
        return self._wording.markdown(text, self._source, self._page, deeper=deeper)

    def _rewritten(
        self, node: Definition, dropped: Collection[str]
    ) -> tuple[str, list[tuple[str, Note]]]:
        """The code of a definition, and the notes taken out of it, with what they explain."""
        first, last = first_line(node), _last(node)
        notes: list[tuple[str, Note]] = []
        replaced: dict[int, tuple[int, list[str]]] = {}
        for owner, name in _documented(node, ""):
            note = self._notes.get(owner.body[0].lineno)
            if note is None or not note.text or ast.get_docstring(owner) is None:
                continue
            kept = self._kept(owner, note, outermost=owner is node)
            if kept is not None:
                notes.append((name, note))
                replaced[note.span.first] = (note.span.last, kept)
        for line, note in self._notes.items():
            if first < line <= last and line not in replaced and note.kind == "comment":
                replaced[line] = (note.span.last, self._comment(note))
        code = "\n".join(_joined(self._source.lines, first, last, replaced))
        return stand_alone(code, dropped), notes

    def _kept(self, owner: Definition, note: Note, *, outermost: bool) -> list[str] | None:
        """What stays of a docstring; None if it stays as it is."""
        title, rest = _titled(note.text)
        rich = _RICH.search(note.text) or note.text.count("\n") >= _SHORT
        indent = " " * owner.body[0].col_offset
        if not outermost and not rich:
            plain = self._plain(note.text, WIDTH - len(indent) - 6)
            return None if plain == note.text else _docstring(plain, indent)
        if title:
            title = self._plain(title)
            end = "" if title.endswith((".", "?", "!", ":")) else "."
            return _docstring(title + end, indent)
        if len(owner.body) == 1:
            return _docstring(self._plain(rest.split("\n\n")[0].replace("\n", " ")), indent)
        return []

    def _plain(self, text: str, width: int = 10_000) -> str:
        return self._wording.comment(text, self._source, width)

    def _comment(self, note: Note) -> list[str]:
        line = self._source.lines[note.span.first - 1]
        indent = line[: len(line) - len(line.lstrip())]
        text = self._plain(note.text, WIDTH - len(indent) - 2)
        return [f"{indent}# {words}".rstrip() for words in text.split("\n")] if text else []


def _titled(text: str) -> tuple[str, str]:
    """The heading that opens a note, or nothing, and the rest."""
    match = _TITLE.match(text)
    return (match[1], text[match.end() :].strip("\n")) if match else ("", text)


def _last(node: ast.stmt | Note) -> int:
    return node.span.last if isinstance(node, Note) else node.end_lineno or node.lineno


def _bound(statement: ast.stmt) -> list[str]:
    """Names that an assignment binds."""
    inside = ast.walk(statement) if isinstance(statement, Assignment) else ()
    stored = [node for node in inside if isinstance(node, ast.Name)]
    return [node.id for node in stored if isinstance(node.ctx, ast.Store)]


def _documented(node: Definition, prefix: str) -> Iterator[tuple[Definition, str]]:
    """A definition and those directly inside of classes, with their qualified names."""
    yield node, prefix + node.name
    for statement in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(statement, Definition):
            yield from _documented(statement, f"{prefix}{node.name}.")


def _docstring(text: str, indent: str) -> list[str]:
    mark = 'r"""' if "\\" in text else '"""'
    lines = text.split("\n")
    if len(lines) == 1 and len(indent) + len(text) + len(mark) + 3 <= WIDTH:
        return [f'{indent}{mark}{text}"""']
    return [indent + mark, *(f"{indent}{line}".rstrip() for line in lines), f'{indent}"""']


def _joined(
    lines: Sequence[str], first: int, last: int, replaced: Mapping[int, tuple[int, list[str]]]
) -> Iterator[str]:
    """Lines with some replaced; after what vanished no blank line is left."""
    number = first
    while number <= last:
        end, new = replaced.get(number, (number, [lines[number - 1]]))
        yield from new
        number = end + 1
        while not new and number <= last and not lines[number - 1].strip():
            number += 1
