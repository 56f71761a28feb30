"""A module as a chapter of a notebook: its notes and its code, in the order of its page.

A class cannot be spread over cells, so it is one, and what its methods have to say stands in the
cell above, under their names, with its formulas set. Of each long docstring its title stays, and
finds the two together. What is said between the lines of a function stays there, in plain words.

A notebook needs PyTorch and nothing of ours. So the checks of arguments, the decorators to which
kernels attach, and the shapes in annotations that a library of their own declares go; the shapes
stay as comments.

All cells write into one namespace. What a module imports from another chapter is there already, so
that import goes; what it imports from elsewhere stays, once. Two things of one name are an error:
the later one would silently take the place of the earlier.
"""

import ast
import re
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Literal

from pylit.model import Module, Note
from pylit.notebooks.recipe import Cell, NotebookError, Part
from pylit.notebooks.wording import Wording
from pylit.site.addresses import module_url
from pylit.source.parse import first_line

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign

#: Columns of the library's code.
WIDTH = 88
#: Modules whose names fall away with all that they do.
DROPPED = ("labml_nn.checks", "labml_nn.kernels", "jaxtyping")
#: A docstring of so few lines may stay where it is, unless more than a line of code can show.
_SHORT = 3
_RICH = re.compile(r"^\s*(?:\* |\| |\$\$|```|#|>)|!\[", re.MULTILINE)
_TITLE = re.compile(r"#{1,6} (.+?)(?:\s*\{#[\w.-]+\})?\s*(?:\n|$)")
#: The exercises of a page, which end at the next heading that is not below theirs.
_EXERCISES = re.compile(r"^## Exercises[ \t]*\n(.*?)(?=^##? |\Z)", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^from labml_nn[\w.]* import (\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_SHAPED = re.compile(r'\b(?:Float|Int|Bool)\[\s*Tensor,\s*"([^"]*)"\s*\]')
_NAMED = re.compile(rf"(\w+): (?=[^,)]*?{_SHAPED.pattern})")


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

    def take(self, name: str, origin: str, where: str) -> None:
        """Give a name to what it stands for. Raises `NotebookError` if it is something else."""
        if self.origins.setdefault(name, origin) != origin:
            raise NotebookError(
                f"{where}: `{name}` is {origin}, and in the same notebook it is "
                f"{self.origins[name]}; rename one of the two, or take one module less apart"
            )

    def cell(self, cell: Cell) -> None:
        """What a cell of the recipe imports need not be imported again."""
        for statement in ast.parse(cell.text).body if cell.kind == "code" else ():
            self.origins |= {name: origin for name, origin, _ in _imported(statement)}

    def imports(self, statement: ast.stmt, used: Collection[str], where: str) -> Iterator[str]:
        """The lines that stay of an import of a chapter, for the names that it still uses."""
        home = statement.module if isinstance(statement, ast.ImportFrom) else None
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
            yield ast.unparse(ast.ImportFrom(home, kept, 0) if home else ast.Import(kept))

    def not_imported(self, text: str) -> str:
        """Programs in the text of exercises without imports of what the notebook defines."""

        def kept(match: re.Match[str]) -> str:
            return "" if set(re.findall(r"\w+", match[1])) <= self.origins.keys() else match[0]

        return _IMPORT.sub(kept, text)


def _imported(statement: ast.stmt) -> Iterator[tuple[str, str, ast.alias]]:
    """The names that an import binds, and what they are."""
    for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ():
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}", alias
        else:
            name = alias.asname or alias.name.partition(".")[0]
            yield name, alias.name if alias.asname else name, alias


class Lesson:
    """The cells of one module.

    Args:
        module: The module.
        names: The names of the notebook so far.
        wording: What notes say in a notebook.
        part: The definitions to take, or those to leave out, with a minus before their names; all
            of the module if it names none.
    """

    def __init__(self, module: Module, names: Names, wording: Wording, part: Part) -> None:
        self._front_matter = module.front_matter
        self._source = module.source
        self._lines = module.source.lines
        self._tree = ast.parse(module.source.text)
        self._names = names
        self._wording = wording
        self._left_out = {name[1:] for name in part.choice if name.startswith("-")}
        self._taken = {name for name in part.choice if not name.startswith("-")}
        imports = (one for one in ast.walk(self._tree) if isinstance(one, ast.ImportFrom))
        aliases = (alias for one in imports if one.module in DROPPED for alias in one.names)
        self._dropped = self._left_out | {alias.asname or alias.name for alias in aliases}
        notes = (note for section in module.sections for note in section.notes)
        self._notes = {note.span.first: note for note in notes}

    def cells(self) -> Iterator[Cell]:
        """Everything but the exercises: notes in a row are a cell, and so are statements."""
        for (kind, _), found in groupby(self._pieces(), key=lambda piece: piece[:2]):
            glue = "\n\n" if kind == "markdown" else "\n"
            text = glue.join(piece[2] for piece in found).strip("\n")
            yield Cell(kind, text, self._source.name)

    def exercises(self) -> str:
        """The exercises of the module, as Markdown; empty if there are none."""
        found = filter(None, (_EXERCISES.search(note.text) for note in self._notes.values()))
        return next((self._markdown(match[1], 0) for match in found), "")

    def _pieces(self) -> Iterator[tuple[Literal["markdown", "code"], int, str]]:
        """Texts in order. Those of one kind are one cell if their numbers are the same."""
        items = list(self._chosen())
        definitions = [item for item in items if isinstance(item, Definition)]
        written = {item.lineno: self._rewritten(item) for item in definitions}
        kept = [ast.unparse(item) for item in items if isinstance(item, Assignment)]
        kept += [code for code, _ in written.values()]
        used = {name for code in kept for name in _used(code)}
        where, page = self._source.name, "The page of this chapter"
        if self._wording.base_url:
            page = f"[{page}]({self._wording.base_url}{module_url(self._source)})"
        title = self._front_matter.get("title", where)
        summary = " ".join(self._front_matter.get("summary", "").split())
        yield "markdown", 0, f"## {title}\n\n{summary} {page} has its notes beside the code."
        for item in items:
            if isinstance(item, Note):
                if text := self._markdown(_EXERCISES.sub("", item.text)):
                    yield "markdown", 0, text
            elif isinstance(item, Definition):
                self._names.take(item.name, f"{where}.{item.name}", where)
                code, notes = written[item.lineno]
                for name, note in notes:
                    yield "markdown", 0, self._explained(name, note, item.name)
                yield "code", item.lineno, code
            elif (bound := _bound(item)) != ["__all__"]:
                for name in bound:
                    self._names.take(name, f"{where}.{name}", where)
                lines = self._lines[item.lineno - 1 : _last(item)]
                if isinstance(item, ast.Import | ast.ImportFrom):
                    lines = [*self._names.imports(item, used, where)]
                if lines:
                    apart = "" if self._lines[item.lineno - 2].strip() else "\n"
                    yield "code", 0, apart + "\n".join(lines)

    def _chosen(self) -> Iterator[Note | ast.stmt]:
        """The statements that the notebook takes, with the notes that introduce them."""
        body = self._tree.body[ast.get_docstring(self._tree, clean=False) is not None :]
        found: dict[int, Note | ast.stmt] = {first_line(one): one for one in body}
        inside = {line for one in body for line in range(first_line(one), _last(one) + 1)}
        found |= {at: note for at, note in self._notes.items() if note.text and at not in inside}
        waiting: list[Note] = []
        for _, item in sorted(found.items()):
            if isinstance(item, Note):
                waiting.append(item)
                continue
            names = {item.name} if isinstance(item, Definition) else set(_bound(item))
            chosen = names & self._taken if self._taken else not names & self._left_out
            if chosen or not names:
                # What stands above imports introduces the module, and is in its docstring.
                yield from waiting
                yield item
            waiting.clear()
        if not self._taken:
            yield from waiting

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
        return self._wording.markdown(text, self._source, deeper=deeper)

    def _rewritten(self, node: Definition) -> tuple[str, list[tuple[str, Note]]]:
        """The code of a definition, and the notes taken out of it, with what they explain."""
        first, last = first_line(node), _last(node)
        notes: list[tuple[str, Note]] = []
        #: What stands instead of some lines: where they begin, where they end, and the new ones.
        new: dict[int, tuple[int, list[str]]] = {}
        for line, note in self._notes.items():
            if first < line <= last and note.kind == "comment":
                new[line] = note.span.last, self._comment(note)
        for owner, name in _documented(node):
            told = self._notes.get(owner.body[0].lineno)
            if told and told.text and ast.get_docstring(owner) is not None:
                kept = self._kept(owner, told, outermost=owner is node)
                if kept is not None:
                    notes.append((name, told))
                    new[told.span.first] = told.span.last, kept
        for one in ast.walk(node):
            if isinstance(one, ast.stmt) and self._falls(one):
                new[one.lineno] = _last(one), []
            for decorator in one.decorator_list if isinstance(one, Definition) else ():
                if isinstance(decorator, ast.Name) and decorator.id in self._dropped:
                    new[decorator.lineno] = decorator.lineno, []
                    # A comment above a decorator speaks of what it attaches.
                    for line, (end, _) in new.items():
                        if end == decorator.lineno - 1:
                            new[line] = end, []
        lines: list[str] = []
        gone = False
        while first <= last:
            end, instead = new.get(first, (first, [self._lines[first - 1]]))
            blank = end == first and instead == [""]
            # What vanished leaves no second blank line, and none behind a colon.
            if not (blank and gone and (lines[-1] == "" or lines[-1].endswith(":"))):
                lines += instead
            gone = not instead or (gone and blank)
            first = end + 1
        return _commented("\n".join(lines)), notes

    def _falls(self, statement: ast.stmt) -> bool:
        """Whether a statement only checks arguments."""
        if isinstance(statement, ast.If) and not statement.orelse:
            return all(map(self._falls, statement.body))
        called = statement.value if isinstance(statement, ast.Expr) else None
        function = called.func if isinstance(called, ast.Call) else None
        return isinstance(function, ast.Name) and function.id in self._dropped

    def _kept(self, owner: Definition, note: Note, *, outermost: bool) -> list[str] | None:
        """What stays of a docstring; None if it stays as it is."""
        title, rest = _titled(note.text)
        rich = _RICH.search(note.text) or note.text.count("\n") >= _SHORT
        indent = " " * owner.body[0].col_offset
        if not outermost and not rich:
            plain = self._plain(note.text, WIDTH - len(indent) - 6)
            return None if plain == note.text else _docstring(plain, indent)
        if title or len(owner.body) == 1:
            said = self._plain(title or " ".join(rest.split("\n\n")[0].split()))
            return _docstring(said + "." * (not said.endswith((".", "?", "!", ":"))), indent)
        return []

    def _plain(self, text: str, width: int = 10_000) -> str:
        return self._wording.comment(text, self._source, width)

    def _comment(self, note: Note) -> list[str]:
        line = self._lines[note.span.first - 1]
        indent = line[: len(line) - len(line.lstrip())]
        text = self._plain(note.text, WIDTH - len(indent) - 2)
        return [f"{indent}# {words}".rstrip() for words in text.split("\n")] if text else []


def _titled(text: str) -> tuple[str, str]:
    """The heading that opens a note, or nothing, and the rest."""
    match = _TITLE.match(text)
    return (match[1], text[match.end() :].strip("\n")) if match else ("", text)


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _bound(statement: ast.stmt) -> list[str]:
    """Names that an assignment binds."""
    inside = ast.walk(statement) if isinstance(statement, Assignment) else ()
    stored = [node for node in inside if isinstance(node, ast.Name)]
    return [node.id for node in stored if isinstance(node.ctx, ast.Store)]


def _used(code: str) -> Iterator[str]:
    """All names that a piece of code mentions, those in quoted annotations too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\b[A-Z]\w+\b", node.value)


def _documented(node: Definition, prefix: str = "") -> Iterator[tuple[Definition, str]]:
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


def _commented(code: str) -> str:
    """Code with plain tensors, and their shapes behind the lines that name them."""
    lines = _SHAPED.sub(lambda match: " ".join(match[0].split()), code).split("\n")
    for number, line in enumerate(lines):
        if not _SHAPED.search(line):
            continue
        arguments, _, returned = line.partition("->")
        shapes = [_shape(match[1]) for match in _SHAPED.finditer(arguments)]
        results = [_shape(match[1]) for match in _SHAPED.finditer(returned)]
        names = _NAMED.findall(arguments)
        said = ", ".join(shapes + results)
        if names and len(shapes + results) > 1:
            pairs = zip(names, shapes, strict=True)
            said = ", ".join(f"{name} {shape}" for (name, _), shape in pairs)
            said += f" -> {', '.join(results)}" if results else ""
        lines[number] = f"{_SHAPED.sub('Tensor', line)}  # {said}"
    return "\n".join(lines)


def _shape(axes: str) -> str:
    """``#T S _ *rest`` as ``[T|1, S, ·, …]``."""
    plain = re.sub(r"\*\S+", "…", re.sub(r"#(\S+)", r"\1|1", axes.replace("_", "·")))
    return f"[{', '.join(plain.split())}]"
