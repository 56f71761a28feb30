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
from contextlib import suppress
from itertools import groupby

from pylit.model import Module, Note
from pylit.notebooks import NotebookError
from pylit.notebooks.note_text import NoteText
from pylit.parse import first_line

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
#: Lines that are gone, and blank ones around them, of which one stays, and none behind a colon.
_GONE = re.compile(r"(:\n|\n\n|)\0\n[\0\n]*")


class Names:
    """The names of a notebook, made of some `chapters` of all `modules`, and where each is from."""

    def __init__(self, chapters: Collection[str], modules: Collection[str]) -> None:
        self._chapters, self._modules = chapters, modules
        #: A name, and the dotted name of what it is.
        self.origins: dict[str, str] = {}

    def take(self, name: str, origin: str, where: str) -> None:
        """Give a name to what it stands for. Raises `NotebookError` if it is something else."""
        if self.origins.setdefault(name, origin) != origin:
            raise NotebookError(
                f"{where}: `{name}` is {origin}, and in the same notebook it is "
                f"{self.origins[name]}; rename one of the two, or take one module less apart"
            )

    def imported(self, code: str) -> None:
        """What a cell of the recipe imports need not be imported again."""
        # Not even Python, such as `%timeit`: what it is shows when it runs.
        with suppress(SyntaxError):
            for statement in ast.parse(code).body:
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


def _imported(statement: ast.stmt) -> Iterator[tuple[str, str, ast.alias]]:
    """The names that an import binds, and what they are."""
    home = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
    for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else ():
        name = alias.asname or alias.name.partition(".")[0]
        yield name, home + (alias.name if alias.asname or home else name), alias


class Lesson:
    """The cells of one module, in a notebook that has `names` so far.

    `choice` are the definitions to take, or those to leave out, with a minus before their names;
    all of the module if there are none.
    """

    def __init__(
        self, module: Module, names: Names, wording: NoteText, choice: Collection[str] = ()
    ) -> None:
        self._source, self._front_matter = module.source, module.front_matter
        self._names, self.wording = names, wording
        self._tree = ast.parse(module.source.text)
        self._left_out = {"__all__", *(name[1:] for name in choice if name.startswith("-"))}
        self._taken = {name for name in choice if name and not name.startswith("-")}
        imports = (one for one in ast.walk(self._tree) if isinstance(one, ast.ImportFrom))
        found = (name for one in imports if one.module in DROPPED for name, *_ in _imported(one))
        self._dropped = self._left_out.union(found)
        notes = (note for section in module.sections for note in section.notes)
        self._notes = {note.span.first: note for note in notes}

    def cells(self) -> Iterator[tuple[str, str]]:
        """Everything but the exercises: notes in a row are a cell, and so are statements."""
        for (kind, _), found in groupby(self._pieces(), key=lambda piece: piece[:2]):
            glue = "\n\n" if kind == "markdown" else "\n"
            yield kind, glue.join(piece[2] for piece in found).strip("\n")

    def exercises(self) -> str:
        """The exercises of the module, as Markdown; empty if there are none.

        Their programs do not import what the notebook defines.
        """

        def kept(match: re.Match[str]) -> str:
            defined = self._names.origins.keys()
            return "" if set(re.findall(r"\w+", match[1])) <= defined else match[0]

        found = filter(None, (_EXERCISES.search(note.text) for note in self._notes.values()))
        return next((_IMPORT.sub(kept, self.wording.markdown(one[1], 0)) for one in found), "")

    def _pieces(self) -> Iterator[tuple[str, int, str]]:
        """Kinds and texts in order. Those of one kind are a cell if their numbers are the same."""
        items = self._chosen()
        kept = [item for item in items if isinstance(item, Definition | Assignment)]
        walked = (node for item in kept for node in ast.walk(item))
        used = {node.id for node in walked if isinstance(node, ast.Name)} - self._dropped
        where, page = self._source.name, self.wording.page("The page of this chapter")
        title = self._front_matter.get("title", where)
        summary = " ".join(self._front_matter.get("summary", "").split())
        yield "markdown", 0, f"## {title}\n\n{summary} {page} has its notes beside the code."
        for item in items:
            if isinstance(item, Note):
                if text := self.wording.markdown(_EXERCISES.sub("", item.text)):
                    yield "markdown", 0, text
                continue
            for name in _bound(item):
                self._names.take(name, f"{where}.{name}", where)
            if isinstance(item, Definition):
                explained, code = self._rewritten(item)
                yield from (("markdown", 0, text) for text in explained)
                yield "code", item.lineno, code
                continue
            lines = self._source.lines[item.lineno - 1 : _last(item)]
            if isinstance(item, ast.Import | ast.ImportFrom):
                lines = [*self._names.imports(item, used, where)]
            if lines:
                above = self._source.lines[item.lineno - 2].strip()
                yield "code", 0, "\n".join(lines if above else ["", *lines])

    def _chosen(self) -> list[Note | ast.stmt]:
        """The statements that the notebook takes, each behind the notes that introduce it."""
        body = self._tree.body[ast.get_docstring(self._tree, clean=False) is not None :]
        found: dict[int, Note | ast.stmt] = {first_line(one): one for one in body}
        inside = {line for one in body for line in range(first_line(one), _last(one) + 1)}
        found |= {at: note for at, note in self._notes.items() if note.text and at not in inside}
        # What stands above imports introduces the module, and is in its docstring.
        chosen, taken = [], not self._taken
        for _, item in sorted(found.items(), reverse=True):
            if not isinstance(item, Note):
                names = set(_bound(item))
                wanted = names & self._taken if self._taken else not names & self._left_out
                taken = not names or bool(wanted)
            chosen += [item] if taken else []
        return chosen[::-1]

    def _rewritten(self, node: Definition) -> tuple[list[str], str]:
        """What a definition and its methods explain, as Markdown, and the code that is left."""
        first, last = first_line(node), _last(node)
        lines = {at: self._source.lines[at - 1] for at in range(first, last + 1)}

        def put(begin: int, end: int, text: str) -> None:
            for at in range(begin, end + 1):
                lines.pop(at, None)
            lines[begin] = text or "\0"

        inside = (note for at, note in self._notes.items() if first < at <= last)
        comments = {note.span.last: note for note in inside if note.kind == "comment"}
        for note in comments.values():
            put(note.span.first, note.span.last, self._comment(note))
        explained = []
        methods = node.body if isinstance(node, ast.ClassDef) else ()
        for owner in (node, *(one for one in methods if isinstance(one, Definition))):
            told = self._notes.get(owner.body[0].lineno)
            if told is None or not told.text:
                continue
            match = _TITLE.match(told.text)
            title, rest = (match[1], match.string[match.end() :]) if match else ("", told.text)
            stays = self._docstring(owner, told.text, title, rest, outermost=owner is node)
            if stays is not None:
                put(told.span.first, told.span.last, stays)
                heading = f"### {title or f'`{node.name}`'}"
                if owner is not node:
                    heading = f"#### {f'{title} · ' if title else ''}`{owner.name}`"
                explained.append(f"{heading}\n\n{self.wording.markdown(rest)}".strip())
        for one in ast.walk(node):
            if isinstance(one, ast.stmt) and self._checks(one):
                put(one.lineno, _last(one), "")
            for decorator in one.decorator_list if isinstance(one, Definition) else ():
                if isinstance(decorator, ast.Name) and decorator.id in self._dropped:
                    # A comment above a decorator speaks of what it attaches.
                    above = comments.get(decorator.lineno - 1)
                    put(above.span.first if above else decorator.lineno, decorator.lineno, "")
        code = "".join(f"{text}\n" for _, text in sorted(lines.items()))
        code = _GONE.sub(lambda match: match[1] or "\n" * ("\n\n" in match[0]), code)
        return explained, _commented(code.removesuffix("\n"))

    def _checks(self, statement: ast.stmt) -> bool:
        """Whether a statement only checks arguments."""
        if isinstance(statement, ast.If) and not statement.orelse:
            return all(map(self._checks, statement.body))
        called = statement.value if isinstance(statement, ast.Expr) else None
        function = called.func if isinstance(called, ast.Call) else None
        return isinstance(function, ast.Name) and function.id in self._dropped

    def _docstring(
        self, owner: Definition, text: str, title: str, rest: str, *, outermost: bool
    ) -> str | None:
        """What stays of a docstring; None if it stays as it is."""
        indent = " " * owner.body[0].col_offset
        if not outermost and not _RICH.search(text) and text.count("\n") < _SHORT:
            said = self.wording.comment(text, WIDTH - len(indent) - 6)
            if said == text:
                return None
        elif title or len(owner.body) == 1:
            said = self.wording.comment(title or " ".join(rest.split("\n\n")[0].split()))
            said += "." * (not said.endswith((".", "?", "!", ":")))
        else:
            return ""
        mark = 'r"""' if "\\" in said else '"""'
        if "\n" not in said and len(indent) + len(said) + len(mark) + 3 <= WIDTH:
            return f'{indent}{mark}{said}"""'
        lines = (f"{indent}{line}".rstrip() for line in said.split("\n"))
        return "\n".join([indent + mark, *lines, f'{indent}"""'])

    def _comment(self, note: Note) -> str:
        line = self._source.lines[note.span.first - 1]
        mark = line[: len(line) - len(line.lstrip())] + "# "
        text = self.wording.comment(note.text, WIDTH - len(mark))
        return "\n".join((mark + words).rstrip() for words in text.split("\n")) if text else ""


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _bound(statement: ast.stmt) -> list[str]:
    """Names that a definition or an assignment binds."""
    if isinstance(statement, Definition):
        return [statement.name]
    inside = ast.walk(statement) if isinstance(statement, Assignment) else ()
    names = (node for node in inside if isinstance(node, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _commented(code: str) -> str:
    """Code with plain tensors, and their shapes behind the lines that name them."""
    lines = _SHAPED.sub(lambda match: " ".join(match[0].split()), code).split("\n")
    for number, line in enumerate(lines):
        arguments, _, returned = line.partition("->")
        shapes, results = (list(map(_shape, _SHAPED.findall(x))) for x in (arguments, returned))
        names = [match[1] for match in _NAMED.finditer(arguments)]
        said = ", ".join(shapes + results)
        if names and len(shapes + results) > 1:
            said = ", ".join(map(" ".join, zip(names, shapes, strict=True)))
            said += f" -> {', '.join(results)}" if results else ""
        if said:
            lines[number] = f"{_SHAPED.sub('Tensor', line)}  # {said}"
    return "\n".join(lines)


def _shape(axes: str) -> str:
    """``#T S _ *rest`` as ``[T|1, S, ·, …]``."""
    plain = re.sub(r"\*\S+", "…", re.sub(r"#(\S+)", r"\1|1", axes.replace("_", "·")))
    return f"[{', '.join(plain.split())}]"
