"""A module as a chapter of a notebook: its notes and its code, in the order of its page.

A class is one cell, and the notes of its methods are in the cell above, under their names, with
their formulas. A long docstring is reduced to its title, by which its note is found. Comments in a
function stay in it, as plain text.

A notebook needs PyTorch and no package of ours. Checks of arguments, decorators of kernels, and
jaxtyping's annotations are therefore removed; shapes become comments.

All cells share one namespace. Imports of other chapters are removed, other imports come once. Two
objects of one name are an error, because the later would replace the earlier.
"""

import ast
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import groupby

from docs_src.notebooks import NotebookError
from docs_src.notebooks.note_text import NoteText
from pylit.model import HAN, Module, Note
from pylit.source.parse import first_line

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign

#: Columns of the library's code.
WIDTH = 88
#: Modules whose names are removed, with the statements, decorators and annotations that use them.
DROPPED = (
    "labml_nn.checks",
    "labml_nn.transformers.checks",
    "labml_nn.kernels",
    "labml_nn.reference",
    "jaxtyping",
)
#: A docstring of a method stays in the code if it has fewer line breaks and no rich Markdown.
_SHORT = 3
_RICH = re.compile(r"^\s*(?:\* |\| |\$\$|```|#|>)|!\[", re.MULTILINE)
_TITLE = re.compile(r"(?:#{1,6} (.+?)(?:\s*\{#[\w.-]+\})?\s*(?:\n|$))?(.*)", re.DOTALL)
#: The exercises of a page, which end at the next heading of their level or above; a comment in code
#: is none.
_EXERCISES = re.compile(
    r"^## (?:Exercises|练习)[ \t]*\n((?:^```.*?^```$|.)*?)(?=^##? |\Z)", re.MULTILINE | re.DOTALL
)
_IMPORT = re.compile(r"^from labml_nn[\w.]* import (\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_SHAPED = re.compile(r'\b(?:Float|Int|Bool)\[\s*Tensor,\s*"([^"]*)"\s*\]')
_NAMED = re.compile(rf"(\w+): (?=[^,)]*?{_SHAPED.pattern})")
#: Removed lines with the blank lines around them; one blank line stays, but none after a colon.
_REMOVED = re.compile(r"(:\n|\n\n|)\0\n[\0\n]*")


class Names:
    """The names of a notebook, made of some `chapters` of all `modules`, and their origins."""

    def __init__(self, chapters: Collection[str], modules: Collection[str]) -> None:
        self._chapters, self._modules = chapters, modules
        #: The dotted name of the object that each name stands for.
        self.origins: dict[str, str] = {}

    def bind(self, name: str, origin: str, where: str) -> None:
        """Bind a name. Raises `NotebookError` if it stands for another object already."""
        if self.origins.setdefault(name, origin) != origin:
            raise NotebookError(
                f"{where}: `{name}` is {origin}, and in the same notebook it is "
                f"{self.origins[name]}; rename one of the two, or leave one of the modules out"
            )

    def imported(self, code: str) -> None:
        """Bind the names that a cell of the recipe imports."""
        # A cell may have commands that are not Python, such as `%timeit`.
        with suppress(SyntaxError):
            for statement in ast.parse(code).body:
                self.origins |= {name: origin for name, origin, _ in _imported(statement)}

    def imports(self, statement: ast.stmt, used: Collection[str], where: str) -> Iterator[str]:
        """The lines that an import of a chapter needs, for those of its names that are used."""
        home = statement.module if isinstance(statement, ast.ImportFrom) else None
        needed = []
        for name, origin, alias in _imported(statement):
            if name not in used:
                continue
            if home in self._chapters:
                # Another cell defines it; under another name it needs an assignment.
                if name != alias.name and name not in self.origins:
                    yield f"{name} = {alias.name}"
            elif home in self._modules or origin in self._modules:
                raise NotebookError(
                    f"{where} uses `{name}` of {home}, and a notebook has nothing of the "
                    f"package; take `{home}` as a chapter before it"
                )
            elif name not in self.origins:
                needed.append(alias)
            self.bind(name, origin, where)
        if needed:
            yield ast.unparse(ast.ImportFrom(home, needed, 0) if home else ast.Import(needed))


def _imported(statement: ast.stmt) -> Iterator[tuple[str, str, ast.alias]]:
    """The names that an import binds, with their origins."""
    home = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ():
        name = alias.asname or alias.name.partition(".")[0]
        yield name, home + (alias.name if alias.asname or home else name), alias


class Lesson:
    """The cells of one module, in a notebook that has `names` so far.

    `choice` names the definitions to include or, with a minus before each, to leave out; by default
    all are included. If the notes are translated, `original` is the module in English, and the
    cells are divided as those in English.
    """

    def __init__(
        self,
        module: Module,
        names: Names,
        note_text: NoteText,
        choice: Collection[str] = (),
        original: Module | None = None,
    ) -> None:
        self._source, self._front_matter = module.source, module.front_matter
        self._names, self.note_text = names, note_text
        self._translated = original is not None
        self._tree = ast.parse(module.source.text)
        self._excluded = {"__all__", *(name[1:] for name in choice if name.startswith("-"))}
        self._included = {name for name in choice if name and not name.startswith("-")}
        imports = (one for one in ast.walk(self._tree) if isinstance(one, ast.ImportFrom))
        found = (name for one in imports if one.module in DROPPED for name, *_ in _imported(one))
        self._dropped = self._excluded.union(found)
        notes = (note for section in module.sections for note in section.notes)
        self._notes = {note.span.first: note for note in notes}
        written = (note for section in (original or module).sections for note in section.notes)
        self._written = {note.span.first: note.text for note in written}

    def cells(self) -> Iterator[tuple[str, str]]:
        """Kinds and texts of the cells without the exercises; neighbours of a kind are joined."""
        for (kind, _), found in groupby(self._pieces(), key=lambda piece: piece[:2]):
            glue = "\n\n" if kind == "markdown" else "\n"
            yield kind, glue.join(piece[2] for piece in found).strip("\n")

    def exercises(self) -> str:
        """The exercises of the module as Markdown, without imports of the notebook's own names."""

        def needed(match: re.Match[str]) -> str:
            defined = self._names.origins.keys()
            return "" if set(re.findall(r"\w+", match[1])) <= defined else match[0]

        found = filter(None, (_EXERCISES.search(note.text) for note in self._notes.values()))
        return next((_IMPORT.sub(needed, self.note_text.markdown(one[1], 0)) for one in found), "")

    def _pieces(self) -> Iterator[tuple[str, int, str]]:
        """Kinds, line numbers and texts; what has a cell of its own has a line number."""
        items = self._chosen()
        kept = [item for item in items if isinstance(item, Definition | Assignment)]
        walked = (node for item in kept for node in ast.walk(item))
        used = {node.id for node in walked if isinstance(node, ast.Name)} - self._dropped
        where, page = self._source.name, self.note_text.page("The page of this chapter")
        title = self._front_matter.get("title", where)
        summary = " ".join(self._front_matter.get("summary", "").split())
        head = f"## {title}\n\n{summary} {page} has its notes beside the code."
        yield "markdown", 0, self.note_text.say(head)
        for item in items:
            if isinstance(item, Note):
                if text := self.note_text.markdown(_EXERCISES.sub("", item.text)):
                    yield "markdown", 0, text
                continue
            for name in _bound(item):
                self._names.bind(name, f"{where}.{name}", where)
            if isinstance(item, Definition):
                notes, code = self._rewritten(item)
                yield from (("markdown", 0, text) for text in notes)
                yield "code", item.lineno, code
                continue
            lines = self._source.lines[item.lineno - 1 : _last(item)]
            if isinstance(item, ast.Import | ast.ImportFrom):
                lines = [*self._names.imports(item, used, where)]
            if lines:
                above = self._source.lines[item.lineno - 2].strip()
                yield "code", 0, "\n".join(lines if above else ["", *lines])

    def _chosen(self) -> list[Note | ast.stmt]:
        """The statements in the notebook, each after the notes that introduce it."""
        body = self._tree.body[ast.get_docstring(self._tree, clean=False) is not None :]
        found: dict[int, Note | ast.stmt] = {first_line(one): one for one in body}
        inside = {line for one in body for line in range(first_line(one), _last(one) + 1)}
        found |= {at: note for at, note in self._notes.items() if note.text and at not in inside}
        # From the end, since a note belongs to the statement after it.
        chosen, included = [], not self._included
        for _, item in sorted(found.items(), reverse=True):
            if not isinstance(item, Note):
                names = set(_bound(item))
                wanted = names & self._included if self._included else not names & self._excluded
                included = not names or bool(wanted)
            chosen += [item] if included else []
        return chosen[::-1]

    def _rewritten(self, node: Definition) -> tuple[list[str], str]:
        """The notes of a definition and of its methods as Markdown, and its code without them."""
        first, last = first_line(node), _last(node)
        lines = {at: self._source.lines[at - 1] for at in range(first, last + 1)}

        def put(begin: int, end: int, text: str) -> None:
            for at in range(begin, end + 1):
                lines.pop(at, None)
            lines[begin] = text or "\0"

        inside = (note for at, note in self._notes.items() if first < at <= last)
        comments = {note.span.last: note for note in inside if note.kind == "comment"}
        for note in comments.values():
            mark = self._source.lines[note.span.first - 1].partition("#")[0] + "# "
            text = self.note_text.comment(note.text, WIDTH - len(mark))
            words = (f"{mark}{words}".rstrip() for words in text.split("\n") if text)
            put(note.span.first, note.span.last, "\n".join(words))
        notes = []
        methods = node.body if isinstance(node, ast.ClassDef) else ()
        for owner in (node, *(one for one in methods if isinstance(one, Definition))):
            docstring = self._notes.get(owner.body[0].lineno)
            if docstring is None or not docstring.text:
                continue
            title, rest = _TITLE.findall(docstring.text)[0]
            written = self._written[docstring.span.first]
            short = self._docstring(owner, written, title, rest, outermost=owner is node)
            if short is None and self._translated:
                plain = self.note_text.comment(docstring.text, WIDTH)
                put(docstring.span.first, docstring.span.last, _quoted(plain, owner))
            elif short is not None:
                put(docstring.span.first, docstring.span.last, short)
                heading = f"### {title or f'`{node.name}`'}"
                if owner is not node:
                    heading = f"#### {f'{title} · ' if title else ''}`{owner.name}`"
                notes.append(f"{heading}\n\n{self.note_text.markdown(rest)}".strip())
        for one in ast.walk(node):
            if isinstance(one, ast.stmt) and self._checks(one):
                put(one.lineno, _last(one), "")
            names = one.decorator_list if isinstance(one, Definition) else []
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
                # Such as `attn = Recorded()`.
                names = [one.value.func]
            for name in names:
                if isinstance(name, ast.Name) and name.id in self._dropped:
                    # A comment above it is about it.
                    above = comments.get(name.lineno - 1)
                    put(above.span.first if above else name.lineno, name.lineno, "")
        code = "".join(f"{text}\n" for _, text in sorted(lines.items()))
        code = _REMOVED.sub(lambda match: match[1] or "\n" * ("\n\n" in match[0]), code)
        return notes, _with_shapes(code.removesuffix("\n"))

    def _checks(self, statement: ast.stmt) -> bool:
        """Whether a statement only checks arguments."""
        if isinstance(statement, ast.If | ast.For) and not statement.orelse:
            return all(map(self._checks, statement.body))
        called = statement.value if isinstance(statement, ast.Expr) else None
        function = called.func if isinstance(called, ast.Call) else None
        return isinstance(function, ast.Name) and function.id in self._dropped

    def _docstring(
        self, owner: Definition, text: str, title: str, rest: str, *, outermost: bool
    ) -> str | None:
        """The docstring in the code; None if it is short, and therefore unchanged."""
        indent = " " * owner.body[0].col_offset
        if not outermost and not _RICH.search(text) and text.count("\n") < _SHORT:
            plain = self.note_text.comment(text, WIDTH - len(indent) - 6)
            if plain == text or self._translated:
                return None
        elif title or len(owner.body) == 1:
            plain = self.note_text.comment(title or " ".join(rest.split("\n\n")[0].split()))
            end = "。" if HAN.match(plain[-1:]) else "."
            plain += end * (not plain.endswith((".", "?", "!", ":", "。", "？", "！", "：")))
        else:
            return ""
        return _quoted(plain, owner)


def _quoted(plain: str, owner: Definition) -> str:
    """The docstring of a definition, in its code."""
    indent = " " * owner.body[0].col_offset
    mark = 'r"""' if "\\" in plain else '"""'
    if "\n" not in plain and len(indent) + len(plain) + len(mark) + 3 <= WIDTH:
        return f'{indent}{mark}{plain}"""'
    lines = (f"{indent}{line}".rstrip() for line in plain.split("\n"))
    return "\n".join([indent + mark, *lines, f'{indent}"""'])


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _bound(statement: ast.stmt) -> list[str]:
    """Names that a definition or an assignment binds."""
    if isinstance(statement, Definition):
        return [statement.name]
    inside = ast.walk(statement) if isinstance(statement, Assignment) else ()
    names = (node for node in inside if isinstance(node, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _with_shapes(code: str) -> str:
    """Code with plain tensors as annotations, and their shapes in comments."""
    lines = _SHAPED.sub(lambda match: " ".join(match[0].split()), code).split("\n")
    for number, line in enumerate(lines):
        arguments, _, returned = line.partition("->")
        shapes, results = (list(map(_shape, _SHAPED.findall(x))) for x in (arguments, returned))
        named = [f"{name} {_shape(axes)}" for name, axes in _NAMED.findall(arguments)]
        comment = ", ".join(shapes + results)
        if named and len(shapes + results) > 1:
            comment = ", ".join(named) + (f" -> {', '.join(results)}" if results else "")
        if comment:
            lines[number] = f"{_SHAPED.sub('Tensor', line)}  # {comment}"
    return "\n".join(lines)


def _shape(axes: str) -> str:
    """``#T S _ *rest`` as ``[T|1, S, ·, …]``."""
    plain = re.sub(r"\*\S+", "…", re.sub(r"#(\S+)", r"\1|1", axes.replace("_", "·")))
    return f"[{', '.join(plain.split())}]"
