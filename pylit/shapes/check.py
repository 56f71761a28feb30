"""What signatures and notes declare of shapes, compared with what ran.

Notes declare ``* `x` has shape `[T, B, C]` ``, and tables of symbols have a column of shapes. Only
a name directly followed by its shape is read: a false diagnostic is worse than a missing one.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pylit.diagnostics import Diagnostic
from pylit.model import Module, Note
from pylit.scopes import name_of
from pylit.shapes.lines import Axes, Traced
from pylit.shapes.plan import (
    CATEGORIES,
    Function,
    Plan,
    annotation,
    elements,
    tensor,
    union_members,
)
from pylit.shapes.sizes import Namer, distinct_shapes, evaluate, parse, symbols, text_of
from pylit.shapes.tracer import TensorRecord, Value

#: The axes of one shape; ``[T|1, B]`` is two shapes.
Shape = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """The shapes that a note allows for a name."""

    #: ``""`` is the result of a function.
    name: str
    shapes: tuple[Shape, ...]
    line: int
    #: The qualified name of a function or class; empty if it has to be found by the line.
    scope: str
    #: As written, for messages.
    text: str
    #: Whether it is from a table of symbols, for the whole module; then `scope` is the name of a
    #: function without its class, or empty.
    table: bool = False


_SHAPE = re.compile(r"`\[([^\]`\n]+)\]`")
_CODE = re.compile(r"`([^`\n]+)`")
_NAME = r"`[A-Za-z_][\w.]*(?:\[\w+\])?`"
_ITEM = re.compile(rf"[*-] +({_NAME}(?:(?:, and |, | and ){_NAME})*)(.*)", re.DOTALL)
_LINK = r",?(?: (?:is|are|has|have))?(?: of| the)?(?: shapes?)?:? *"
# "The rows of `tokens`" are not `tokens`.
_NAME_AND_SHAPE = re.compile(rf"(?<!of )({_NAME}){_LINK}(`\[[^\]`\n]+\]`)")
#: The text directly before a declared shape.
_BEFORE_SHAPE = re.compile(r"(?:[,:(]|\b(?:is|are|Returns?|shapes?|tensor|vectors|mask))\s*$")
_RETURNS = re.compile(r"(?:^|(?<=\s))Returns?\b(.*?)(?:\bRaises\b|\.\s+[A-Z`]|\Z)", re.DOTALL)
#: A paragraph or an item of a list; what is fenced begins with its fence.
_BLOCK = re.compile(r"```.*?(?:```|\Z)|(?:[*-] )?\S.*?(?=\n\s*(?:\n|[*-] |```)|\Z)", re.DOTALL)
_OF_FUNCTION = re.compile(r"\bof `(\w+)`")
_SEQUENCES = frozenset({"list", "List", "Sequence", "Iterable", "Iterator", "Collection"})


def claims(module: Module, words: Mapping[str, str]) -> Iterator[Claim]:
    """Yield all claims of a module's notes; `words` maps names of axes in notes to letters."""
    for index, section in enumerate(module.sections):
        for note in section.notes:
            if index == 0 and note.kind == "docstring" and not section.definition:
                yield from _tables(note, words)
                continue
            # A comment inside a function belongs to that function, which is found by its line.
            for block in _BLOCK.finditer(note.text):
                for offset, name, declared, first in _block_claims(
                    block[0], bool(section.definition)
                ):
                    if shapes := _shapes(declared, words):
                        line = note.first_line + note.text.count("\n", 0, block.start() + offset)
                        yield Claim(name, shapes, line, section.definition, first.strip("`"))


def _block_claims(text: str, defines: bool) -> Iterator[tuple[int, str, str, str]]:
    """Yield the claims of a block: offset, name, text with the shapes, and the first shape."""
    if text.startswith("```"):
        return
    if item := _ITEM.match(text):
        first = _SHAPE.search(text, item.start(2))
        before = text[item.start(2) : first.start()] if first else ""
        if first and _BEFORE_SHAPE.search(before) and not _CODE.search(before):
            for name in _CODE.findall(item[1]):
                yield first.start(), name, item[2], first[0]
        return
    for plain in _NAME_AND_SHAPE.finditer(text):
        yield plain.start(), plain[1].strip("`"), plain[2], plain[2]
    returns = _RETURNS.search(text) if defines else None
    first = _SHAPE.search(text, returns.start()) if returns else None
    if returns and first and _BEFORE_SHAPE.search(text[: first.start()]):
        yield first.start(), "", returns[1], first[0]


def _tables(note: Note, words: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the claims of tables with a column "Code" and a column "Shape"."""
    columns: list[str] = []
    for number, row in enumerate(note.text.split("\n"), start=note.first_line):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
        if not row.strip().startswith("|"):
            columns = []
        elif not columns:
            columns = [cell.lower() for cell in cells]
        elif {"code", "shape"} <= set(columns) and len(cells) == len(columns):
            of = _OF_FUNCTION.search(code := cells[columns.index("code")])
            named = _OF_FUNCTION.sub("", code)
            # Other words beside the names choose among several tensors, which cannot be read.
            if re.sub(r"`[^`]*`|[,…\s]|\band\b", "", named):
                continue
            found: list[str] = []
            for name in _CODE.findall(named):
                owner = found[-1].rpartition(".")[0] if found and name.startswith(".") else ""
                found.append(owner + name)
            texts = [match[0] for match in _SHAPE.finditer(cells[columns.index("shape")])]
            texts *= len(found) if len(texts) == 1 else 1
            for name, text in zip(found, texts, strict=False) if len(found) == len(texts) else ():
                if shapes := _shapes(text, words):
                    yield Claim(name, shapes, number, of[1] if of else "", text.strip("`"), True)


def _shapes(text: str, words: Mapping[str, str]) -> tuple[Shape, ...]:
    """Return the shapes in a text; an empty tuple if one of them cannot be read."""
    found: list[Shape] = []
    for match in _SHAPE.finditer(text):
        letters = re.sub(r"\w+", lambda word: words.get(word[0], word[0]), match[1])
        letters = letters.replace("…", "...")
        axes = [
            [part.strip() for part in re.split(r"\\?\||\bor\b", axis)]
            for axis in letters.split(",")
        ]
        if any(part != "..." and parse(part) is None for axis in axes for part in axis):
            return ()
        found += product(*axes)
    return tuple(found)


class Matcher:
    """Compares declared shapes with the sizes of one call.

    A letter in a signature is a letter of the site where the run gave it a size, and then the sizes
    must be equal. The letter of a length, T or S, may stand for any length, but never for what is
    another axis altogether. Any other name is the call's own: whatever it is, it stays the same.
    """

    def __init__(self, sizes: Mapping[str, int], lengths: frozenset[str]) -> None:
        self._sizes = sizes
        self._lengths = lengths
        self._others = {size for axis, size in sizes.items() if axis not in lengths}
        #: Sizes of the names matched so far.
        self._bound: dict[str, int] = {}

    def fits(self, declared: ast.expr | None, value: Value) -> bool:
        """Whether a value matches an annotation; anything that is not annotated matches."""
        before = dict(self._bound)
        for one in (allowed := union_members(declared)):
            if self._matches(one, value):
                return True
            # A failed match must not bind names for later ones.
            self._bound = dict(before)
        return not allowed

    def _matches(self, declared: ast.expr, value: Value) -> bool:
        single = len(value) == 1
        if found := tensor(declared):
            if not single or value[0].path or value[0].times is not None or value[0].dims is None:
                return True
            kinds = CATEGORIES[found[0]]
            fits = not kinds or value[0].dtype.startswith(kinds)
            return fits and self.sizes_fit(found[1], value[0].dims)
        if not isinstance(declared, ast.Subscript):
            return True
        name, parts = name_of(declared.value), elements(declared.slice)
        if name in _SEQUENCES and single and value[0].times is not None:
            return self.fits(parts[0], (value[0]._replace(times=None),))
        endless = any(isinstance(p, ast.Constant) and p.value is Ellipsis for p in parts)
        if name in ("tuple", "Tuple") and not endless:
            items: defaultdict[str, list[TensorRecord]] = defaultdict(list)
            for record in value:
                index, _, path = record.path.partition(".")
                items[index].append(record._replace(path=path))
            return all(self.fits(part, tuple(items[str(i)])) for i, part in enumerate(parts))
        return True

    def sizes_fit(self, tokens: Sequence[str], dims: Sequence[int]) -> bool:
        """Whether sizes are those of some axes; ``*name`` and ``...`` are any number of them."""
        tokens = [token.partition("=")[2] or token for token in tokens]
        many = [i for i, token in enumerate(tokens) if token.startswith("*") or token == "..."]
        if many:
            at, more = many[0], len(dims) - len(tokens) + 1
            if more < 0:
                return False
            tokens = [*tokens[:at], *tokens[at + 1 :]]
            dims = [*dims[:at], *dims[at + more :]]
        return len(tokens) == len(dims) and all(map(self._axis_fits, tokens, dims))

    def _axis_fits(self, token: str, size: int) -> bool:
        name = token.lstrip("#?")
        if name.startswith("_") or ("#" in token and size == 1):
            return True
        if not name.isidentifier():
            expected = evaluate(name, {**self._sizes, **self._bound})
            # Within a call, `T` may have become another length; then so has `T-1`.
            free = expected is None or symbols(name) & self._lengths
            return expected == size or bool(free and symbols(name))
        if name in self._bound:
            return self._bound[name] == size
        self._bound[name] = size
        if name in self._lengths:
            return size not in self._others or size == self._sizes.get(name)
        return self._sizes.get(name, size) == size


def check(
    module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each declared shape of a module that differs from its runs."""
    source = module.source

    def diagnostic(line: int, column: int, code: str, message: str) -> Diagnostic:
        hint = "correct the declared shape, or the run"
        text = source.lines[line - 1]
        return Diagnostic(source.display, line, column + 1, code, message, hint, text)

    found: dict[object, Diagnostic] = {}
    for one in traced:
        for function, name, ours, theirs in _mismatches(plan, one, axes):
            if node := annotation(function.node, name):
                what = f"`{name}` of" if name else "the result of"
                message = (
                    f"{what} `{function.qualname}` is declared otherwise than it ran: "
                    f"{_shape_text((ours,), (theirs,), one)}, at {one.place}"
                )
                place = node.lineno, node.col_offset
                found.setdefault((function, name), diagnostic(*place, "shape-declared", message))
    known = [named_value for one in traced for named_value in _named_values(plan, one)]
    for claim in claims(module, axes.words):
        around = None if claim.table else plan.function_at(claim.line)
        scope = claim.scope or (around.qualname if around else "")
        about = [
            named_value for each in known if (named_value := _matching_tensors(claim, scope, each))
        ]
        # A claim is wrong if its name has values, and none of them has the shape.
        if about and not any(_holds(claim, named_value, axes) for named_value in about):
            named_value = about[0]
            what = f"`{claim.name}`" if claim.name else "what is returned"
            part = "part of " if "[" in claim.name else ""
            message = (
                f"{what} is said to be `{claim.text}`; it was "
                f"{part}{_shape_text(*named_value.values, named_value.traced)} "
                f"at {source.display}:{named_value.line}, run by {named_value.traced.place}"
            )
            column = max(source.lines[claim.line - 1].find(claim.text), 0)
            found.setdefault(claim, diagnostic(claim.line, column, "shape-note", message))
    return tuple(dict.fromkeys(found.values()))


def _mismatches(
    plan: Plan, one: Traced, axes: Axes
) -> Iterator[tuple[Function, str, Value, Value]]:
    """Yield parameters, and "" for results, with an undeclared shape in both runs."""
    first, second = one.runs
    for line in sorted(first.calls.keys() & second.calls.keys() & plan.functions.keys()):
        function = plan.functions[line]
        ours: dict[str, Value] = {}
        theirs: dict[str, Value] = {}
        for run, wrong in ((first, ours), (second, theirs)):
            for call in run.calls[line]:
                matcher = Matcher(run.sizes, axes.lengths)
                for name, value in call.items():
                    if not matcher.fits(annotation(function.node, name), value):
                        wrong[name] = value
        yield from ((function, name, ours[name], theirs[name]) for name in ours if name in theirs)


@dataclass(frozen=True, slots=True)
class _NamedValue:
    """A name with its values in both runs; the name ``""`` is what a function returned."""

    #: The qualified name of its function or class.
    owner: str
    name: str
    line: int
    values: tuple[tuple[Value, ...], tuple[Value, ...]]
    traced: Traced


def _named_values(plan: Plan, one: Traced) -> Iterator[_NamedValue]:
    """Yield all values of the runs that belong to a function or class."""
    first, second = one.runs
    for key in (key for key in first.values if key in second.values):
        line, kind, name = key
        function, statement = plan.function_at(line), plan.statements.get(line)
        owner = function.qualname if function else ""
        if kind == "field":
            owner, _, name = name.rpartition(".")
        # The result of a lambda is not the result of its function.
        if owner and (kind != "return" or (statement is not None and statement.returns)):
            yield _NamedValue(owner, name, line, (first.values[key], second.values[key]), one)


def _matching_tensors(claim: Claim, scope: str, named_value: _NamedValue) -> _NamedValue | None:
    """Return the tensors that a claim describes; None if it describes others."""
    if claim.table:
        inside = scope in ("", named_value.owner.rpartition(".")[2])
    else:
        # The note of a class is about its attributes, not about the variables of a method.
        attribute = named_value.name.startswith("self.") and named_value.owner.startswith(
            f"{scope}."
        )
        inside = bool(scope) and (attribute or named_value.owner == scope)
    if not inside or not claim.name:
        return named_value if inside and not named_value.name else None
    name = claim.name.partition("[")[0]

    def matches(record: TensorRecord) -> bool:
        text = f"{named_value.name}.{record.path}".rstrip(".")
        ends = claim.table and "." in name and text.endswith(f".{name}")
        return ends or text in (name, f"self.{name}")

    ours, theirs = (
        tuple(tuple(filter(matches, v)) for v in values) for values in named_value.values
    )
    return replace(named_value, values=(ours, theirs)) if any(ours) else None


def _holds(claim: Claim, named_value: _NamedValue, axes: Axes) -> bool:
    """Whether any value has a claimed shape; None has every shape.

    A run that agrees is enough: sizes that are equal by chance, as T+2 may be B, are so in one.
    """
    for values, run in zip(named_value.values, named_value.traced.runs, strict=True):
        records = (record for value in values for record in value)
        pairs = product(
            claim.shapes, [d for record in records for d in _possible_dims(record, claim.name)]
        )
        fits = [Matcher(run.sizes, axes.lengths).sizes_fit(*pair) for pair in pairs]
        if not fits or any(fits):
            return True
    return False


def _possible_dims(record: TensorRecord, name: str) -> list[tuple[int, ...]]:
    """Return the sizes that a note may declare: those of a list with or without its length."""
    if record.dims is None:
        return []
    whole = record.dims if record.times is None else (record.times, *record.dims)
    return [whole[1:]] if "[" in name else list({record.dims, whole})


def _shape_text(ours: Sequence[Value], theirs: Sequence[Value], one: Traced) -> str:
    """Return the shapes of two runs as text."""
    found = Namer(one.runs[0].sizes, one.runs[1].sizes)
    texts = [text_of([parts]) for parts in distinct_shapes(ours, theirs, found)]
    return " or ".join(f"`{text}`" for text in texts) or "something else"
