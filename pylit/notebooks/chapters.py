"""A module as a chapter of a notebook: its notes and its code, in the order of its page."""

import ast
import re
from collections.abc import Iterator, Sequence

from pylit.model import Module, Note
from pylit.notebooks.model import Cell
from pylit.notebooks.names import Namespace, Read
from pylit.notebooks.rewriting import Definition, Rewriter, Rewritten, title_of
from pylit.notebooks.standalone import stand_alone, used_names
from pylit.notebooks.wording import Wording, path_url
from pylit.source.definitions import first_line

#: How much deeper the headings of a module lie in a notebook, where the module is a chapter.
DEEPER = 1
Assignment = ast.Assign | ast.AnnAssign
_EXERCISES = re.compile(r"^## Exercises[ \t]*$", re.MULTILINE)
_SAME_LEVEL = re.compile(r"^##? ", re.MULTILINE)


class Chapter:
    """The cells of one module.

    Args:
        read: The module and its tree.
        names: The names of the notebook so far.
        wording: What notes say in a notebook.
        base_url: Absolute address of the site.
        choice: The definitions to take, or those to leave out, with a minus before their names;
            empty for all of the module.
    """

    def __init__(
        self,
        read: Read,
        names: Namespace,
        wording: Wording,
        base_url: str,
        choice: Sequence[str] = (),
    ) -> None:
        self._module, self._tree = read
        self._left_out = {name[1:] for name in choice if name.startswith("-")}
        self._taken = {name for name in choice if not name.startswith("-")}
        self._names = names
        self._wording = wording
        self._source = self._module.source
        self._page = path_url(self._source.display)
        self._base = base_url
        self._notes = {note.span.first: note for note in _notes(self._module)}
        self._rewrite = Rewriter(self._source, self._notes, wording)

    def cells(self) -> Iterator[Cell]:
        """Everything but the exercises."""
        text: list[str] = [self._opening()]
        code: list[str] = []
        items = list(self._chosen())
        dropped = self._left_out | self._names.dropped(self._tree)
        cells = {
            item.lineno: self._rewritten(item, dropped)
            for item in items
            if isinstance(item, Definition)
        }
        kept = [cell.code for cell in cells.values()]
        kept += [
            ast.unparse(item) for item in items if isinstance(item, ast.Assign | ast.AnnAssign)
        ]
        used = set[str]().union(*map(used_names, kept))
        for item in items:
            if isinstance(item, Note):
                yield from self._code(code)
                text.append(self._markdown(_without_exercises(item.text)))
            elif isinstance(item, Definition):
                yield from self._code(code)
                self._names.define(self._source.name, item.name)
                rewritten = cells[item.lineno]
                text += [self._explained(*pair, item.name) for pair in rewritten.notes]
                yield from self._text(text)
                yield self._cell("code", rewritten.code)
            else:
                written = list(self._statement(item, used))
                if written:
                    yield from self._text(text)
                    apart = code and not self._source.lines[item.lineno - 2].strip()
                    code += ["", *written] if apart else written
        yield from self._code(code)
        yield from self._text(text)

    def _rewritten(self, item: Definition, dropped: set[str]) -> Rewritten:
        result = self._rewrite(item)
        result.code = stand_alone(result.code, dropped)
        return result

    def _chosen(self) -> Iterator[Note | ast.stmt]:
        """The items that the notebook takes, with the notes that introduce them."""
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

    def exercises(self) -> str:
        """The exercises of the module, as Markdown; empty if there are none."""
        for note in self._notes.values():
            start = _EXERCISES.search(note.text)
            if start:
                end = _SAME_LEVEL.search(note.text, start.end())
                return self._markdown(note.text[start.end() : end.start() if end else None], 0)
        return ""

    def _opening(self) -> str:
        matter = self._module.front_matter
        title = matter.get("title", self._source.name)
        summary = " ".join(matter.get("summary", "").split())
        page = "The page of this chapter"
        if self._base:
            page = f"[{page}]({self._base}{self._page})"
        return f"## {title}\n\n{summary} {page} has its notes beside the code."

    def _items(self) -> Iterator[Note | ast.stmt]:
        """Statements, and the notes between them, in order."""
        body = self._tree.body
        inside = [(first_line(s, self._source.lines), s.end_lineno or s.lineno) for s in body]
        docstring = ast.get_docstring(self._tree, clean=False) is not None
        items: list[tuple[int, Note | ast.stmt]] = [
            (first, statement) for (first, _), statement in zip(inside, body, strict=True)
        ]
        if docstring:
            del items[0], inside[0]
        for line, note in self._notes.items():
            if note.text and not any(first <= line <= last for first, last in inside):
                items.append((line, note))
        return (item for _, item in sorted(items, key=lambda item: item[0]))

    def _statement(self, statement: ast.stmt, used: set[str]) -> Iterator[str]:
        """The lines of a statement that stays; of imports those of `used` names."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from self._names.imports(self._module, statement, used)
            return
        bound = _bound(statement)
        if bound == ["__all__"]:
            return
        for name in bound:
            self._names.define(self._source.name, name)
        last = statement.end_lineno or statement.lineno
        yield "\n".join(self._source.lines[statement.lineno - 1 : last])

    def _explained(self, name: str, note: Note, outermost: str) -> str:
        """A note of a class, a method or a function, under its name."""
        title, rest = title_of(note.text)
        short = name.rpartition(".")[2]
        level = "###" if name == outermost else "####"
        if name == outermost:
            heading = title or f"`{short}`"
        else:
            heading = f"{title} · `{short}`" if title else f"`{short}`"
        return f"{level} {heading}\n\n{self._markdown(rest)}".strip()

    def _markdown(self, text: str, deeper: int = DEEPER) -> str:
        return self._wording.markdown(text, self._source, self._page, deeper=deeper)

    def _text(self, parts: list[str]) -> Iterator[Cell]:
        filled = [part.strip("\n") for part in parts if part.strip()]
        parts.clear()
        if filled:
            yield self._cell("markdown", "\n\n".join(filled))

    def _code(self, parts: list[str]) -> Iterator[Cell]:
        if parts:
            yield self._cell("code", "\n".join(parts))
        parts.clear()

    def _cell(self, kind: str, text: str) -> Cell:
        return Cell("code" if kind == "code" else "markdown", text, self._source.name)


def _notes(module: Module) -> Sequence[Note]:
    return [note for section in module.sections for note in section.notes]


def _without_exercises(text: str) -> str:
    start = _EXERCISES.search(text)
    if start is None:
        return text
    end = _SAME_LEVEL.search(text, start.end())
    return text[: start.start()].rstrip() + ("\n\n" + text[end.start() :] if end else "")


def _bound(statement: ast.stmt) -> list[str]:
    """Names that a statement binds at module level."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]
