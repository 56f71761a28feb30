"""What notes say of shapes, compared with what ran.

Notes declare ``* `x` has shape `[T, B, C]` ``, and tables of symbols have a column of shapes. Only
a name directly followed by its shape is read: a false diagnostic is worse than a missing one. The
shapes in signatures are jaxtyping's, which checks them in the tests of a package.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pylit.diagnostics import Diagnostic
from pylit.model import Module, Note
from pylit.notes.symbols import table_rows
from pylit.runs.shapes.lines import Axes, Run, Traced
from pylit.runs.shapes.plan import Plan
from pylit.runs.shapes.sizes import Namer, distinct_shapes, evaluate, parse, symbols, text_of
from pylit.runs.shapes.tracer import TensorRecord, Value

#: The axes of one shape; ``[T|1, B]`` is two shapes.
Shape = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """The shapes that a note allows for a name."""

    #: ``""`` is the result of a function.
    name: str
    shapes: tuple[Shape, ...]
    line: int
    #: The qualified name of a function or class.
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
#: What a cell of names may have beside them; other words choose among several tensors.
_BESIDE_NAMES = re.compile(r"`[^`]*`|[,…\s]|\b(?:and|of)\b")


def claims(module: Module, plan: Plan, words: Mapping[str, str]) -> Iterator[Claim]:
    """All claims of a module's notes; `words` maps names of axes in notes to letters."""
    for index, section in enumerate(module.sections):
        for note in section.notes:
            # Of notes that stand apart, those without code have tables, too.
            opens = index == 0 or (note.path and not section.code)
            if opens and note.kind == "docstring" and not section.definition:
                yield from _tables(note, words)
                continue
            for block in _BLOCK.finditer(note.text):
                found = _block_claims(block[0], bool(section.definition))
                for offset, name, declared, first in found:
                    line = note.first_line + note.text.count("\n", 0, block.start() + offset)
                    # A comment inside a function belongs to that function.
                    around = plan.function_at(note.span.first if note.path else line)
                    scope = section.definition or (around.qualname if around else "")
                    if shapes := _shapes(declared, words):
                        yield Claim(name, shapes, line, scope, first.strip("`"))


def _block_claims(text: str, defines: bool) -> Iterator[tuple[int, str, str, str]]:
    """The claims of a block: offset, name, text with the shapes, and the first shape."""
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
    """The claims of tables with a column "Code" and a column "Shape"."""
    for row, names in table_rows(note):
        if "shape" not in row or _BESIDE_NAMES.sub("", row["code"]):
            continue
        texts = [match[0] for match in _SHAPE.finditer(row["shape"])]
        texts *= len(names) if len(texts) == 1 else 1
        for name, text in zip(names, texts, strict=False) if len(names) == len(texts) else ():
            if shapes := _shapes(text, words):
                path = ".".join(name.path) + "[]" * ("[" in name.text)
                yield Claim(path, shapes, name.line, name.within, text.strip("`"), table=True)


def _shapes(text: str, words: Mapping[str, str]) -> tuple[Shape, ...]:
    """The shapes in a text; an empty tuple if one of them cannot be read."""
    found: list[Shape] = []
    for match in _SHAPE.finditer(text):
        letters = re.sub(r"\w+", lambda word: words.get(word[0], word[0]), match[1])
        letters = letters.replace("…", "...")
        choices = (re.split(r"\\?\||\bor\b", axis) for axis in letters.split(","))
        axes = [[part.strip() for part in choice] for choice in choices]
        if any(part != "..." and parse(part) is None for axis in axes for part in axis):
            return ()
        found += product(*axes)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Named:
    """A name with its values in both runs; the name ``""`` is what a function returned."""

    #: The qualified name of its function or class.
    owner: str
    name: str
    line: int
    values: tuple[tuple[Value, ...], tuple[Value, ...]]
    traced: Traced


def check(module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes) -> list[Diagnostic]:
    """The shapes in a module's notes that differ from its runs."""
    written, known = module.written, [named for one in traced for named in _all_named(plan, one)]
    found = []
    for claim in claims(module, plan, axes.words):
        about = [named for each in known if (named := _described(claim, each))]
        # A claim is wrong if its name has values, and none of them has the shape.
        if about and not any(_holds(claim, named, axes.lengths) for named in about):
            what = f"`{claim.name}`" if claim.name else "what is returned"
            part, text = "part of " * ("[" in claim.name), written.lines[claim.line - 1]
            first, one = about[0], about[0].traced
            message = (
                f"{what} is said to be `{claim.text}`; it was {part}{_shape_text(first)} "
                f"at {module.source.display}:{first.line}, run by {one.place}"
            )
            place = written.display, claim.line, max(text.find(claim.text), 0) + 1
            hint = "correct the declared shape, or the run"
            found.append(Diagnostic(*place, "shape-note", message, hint, text))
    return found


def _all_named(plan: Plan, one: Traced) -> Iterator[_Named]:
    """All values of two runs that belong to a function or class."""
    first, second = one.runs
    for key in (key for key in first.values if key in second.values):
        line, kind, name = key
        function, statement = plan.function_at(line), plan.statements.get(line)
        owner = function.qualname if function else ""
        if kind == "field":
            owner, _, name = name.rpartition(".")
        # The result of a lambda is not the result of its function.
        if owner and (kind != "return" or (statement is not None and statement.returns)):
            yield _Named(owner, name, line, (first.values[key], second.values[key]), one)


def _described(claim: Claim, named: _Named) -> _Named | None:
    """The tensors that a claim describes; None if it describes others."""
    if claim.table:
        inside = claim.scope in ("", named.owner.rpartition(".")[2])
    else:
        # The note of a class is about its attributes, not about the variables of a method.
        attribute = named.name.startswith("self.") and named.owner.startswith(f"{claim.scope}.")
        inside = bool(claim.scope) and (attribute or named.owner == claim.scope)
    if not inside or not claim.name:
        return named if inside and not named.name else None
    name = claim.name.partition("[")[0]

    def matches(record: TensorRecord) -> bool:
        text = f"{named.name}.{record.path}".rstrip(".")
        ends = claim.table and "." in name and text.endswith(f".{name}")
        return ends or text in (name, f"self.{name}")

    ours, theirs = (tuple(tuple(filter(matches, v)) for v in values) for values in named.values)
    return replace(named, values=(ours, theirs)) if any(ours) else None


def _holds(claim: Claim, named: _Named, lengths: frozenset[str]) -> bool:
    """Whether any value has a claimed shape; None has every shape.

    A run that agrees is enough: sizes that are equal by chance, as T+2 may be B, are so in one.
    """
    for values, run in zip(named.values, named.traced.runs, strict=True):
        records = (record for value in values for record in value if record.dims is not None)
        sizes = [dims for record in records for dims in _possible_dims(record, claim.name)]
        fits = [_fits(*pair, run, lengths) for pair in product(claim.shapes, sizes)]
        if not fits or any(fits):
            return True
    return False


def _possible_dims(record: TensorRecord, name: str) -> list[tuple[int, ...]]:
    """The sizes that a note may declare: those of a list with or without its length."""
    dims = record.dims or ()
    whole = dims if record.times is None else (record.times, *dims)
    return [whole[1:]] if "[" in name else list({dims, whole})


def _fits(shape: Shape, dims: tuple[int, ...], run: Run, lengths: frozenset[str]) -> bool:
    """Whether sizes are those of some axes; ``...`` is any number of them.

    A letter to which the run gave a size must have that size. That of a length, T or S, may stand
    for any length, but never for what is another axis altogether. Any other name is what it is.
    """
    if "..." in shape and len(dims) >= len(shape) - 1:
        at = shape.index("...")
        dims = dims[:at] + dims[at + len(dims) - len(shape) + 1 :]
        shape = shape[:at] + shape[at + 1 :]
    bound: dict[str, int] = {}
    others = {size for axis, size in run.sizes.items() if axis not in lengths}

    def fits(axis: str, size: int) -> bool:
        if not axis.isidentifier():
            expected = evaluate(axis, {**run.sizes, **bound})
            # `T` may have become another length; then so has `T-1`.
            free = expected is None or symbols(axis) & lengths
            return expected == size or bool(free and symbols(axis))
        if bound.setdefault(axis, size) != size:
            return False
        if axis in lengths:
            return size not in others or size == run.sizes.get(axis)
        return size == run.sizes.get(axis, size)

    return len(shape) == len(dims) and all(map(fits, shape, dims))


def _shape_text(named: _Named) -> str:
    first, second = named.traced.runs
    shapes = distinct_shapes(*named.values, Namer(first.sizes, second.sizes))
    return " or ".join(f"`{text_of([parts])}`" for parts in shapes) or "something else"
