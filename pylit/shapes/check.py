"""What signatures and notes declare of shapes, compared with what ran.

Notes declare ``* `x` has shape `[T, B, C]` ``, and tables of symbols have a column of shapes. Only
what is surely meant is read: a name and a shape in the same breath. A text that says it in another
way is left alone, for a wrong complaint is worse than none.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pylit.diagnostics import Diagnostic
from pylit.model import Module, Note
from pylit.shapes.lines import Axes, Run, Traced
from pylit.shapes.names import Names, alternatives, evaluate, names, parse, text_of
from pylit.shapes.plan import (
    CATEGORIES,
    Function,
    Plan,
    annotation,
    elements,
    last_name,
    options,
    tensor,
)
from pylit.shapes.tracer import Leaf, Value

#: The axes of one shape, each with the texts that it may be: ``("T", "1")`` for ``[T|1]``.
Shape = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a note says that a name's shape is; one of several, where it gives several."""

    #: ``""`` is what a function returns.
    name: str
    shapes: tuple[Shape, ...]
    line: int
    #: The qualified name of a function or class; empty if it has to be found by the line.
    scope: str
    #: As written, for messages.
    text: str
    #: Whether it stands in a table of symbols, and speaks of the whole module; then `scope` is the
    #: bare name of a function, or empty.
    table: bool = False


_SHAPE = re.compile(r"`\[([^\]`\n]+)\]`")
_CODE = re.compile(r"`([^`\n]+)`")
_NAME = r"`[A-Za-z_][\w.]*(?:\[\w+\])?`"
_ITEM = re.compile(rf"[*-] +({_NAME}(?:(?:, and |, | and ){_NAME})*)(.*)", re.DOTALL)
_LINK = r",?(?: (?:is|are|has|have))?(?: of| the)?(?: shapes?)?:? *"
# "The rows of `tokens`" are not `tokens`.
_PLAIN = re.compile(rf"(?<!of )({_NAME}){_LINK}(`\[[^\]`\n]+\]`)")
#: What stands right before the shape of something.
_SAID = re.compile(r"(?:[,:(]|\b(?:is|are|Returns?|shapes?|tensor|vectors|mask))\s*$")
_RETURNS = re.compile(r"(?:^|(?<=\s))Returns?\b(.*?)(?:\bRaises\b|\.\s+[A-Z`]|\Z)", re.DOTALL)
#: A paragraph or an item of a list; what is fenced begins with its fence.
_BLOCK = re.compile(r"```.*?(?:```|\Z)|(?:[*-] )?\S.*?(?=\n\s*(?:\n|[*-] |```)|\Z)", re.DOTALL)
_OF = re.compile(r"\bof `(\w+)`")
_SEQUENCES = frozenset({"list", "List", "Sequence", "Iterable", "Iterator", "Collection"})


def claims(module: Module, words: Mapping[str, str]) -> Iterator[Claim]:
    """All claims of a module's notes; `words` maps what notes call an axis to its letter."""
    for index, section in enumerate(module.sections):
        for note in section.notes:
            if index == 0 and note.kind == "docstring" and not section.definition:
                yield from _tables(note, words)
                continue
            # A comment inside a function is of that function, which its line tells.
            for block in _BLOCK.finditer(note.text):
                for offset, name, said, first in _said(block[0], bool(section.definition)):
                    if shapes := _shapes(said, words):
                        line = note.first_line + note.text.count("\n", 0, block.start() + offset)
                        yield Claim(name, shapes, line, section.definition, first.strip("`"))


def _said(text: str, defines: bool) -> Iterator[tuple[int, str, str, str]]:
    """Of one paragraph: where something is said, of which name, in which text, the first shape."""
    if text.startswith("```"):
        return
    if item := _ITEM.match(text):
        first = _SHAPE.search(text, item.start(2))
        before = text[item.start(2) : first.start()] if first else ""
        if first and _SAID.search(before) and not _CODE.search(before):
            for name in _CODE.findall(item[1]):
                yield first.start(), name, item[2], first[0]
        return
    for plain in _PLAIN.finditer(text):
        yield plain.start(), plain[1].strip("`"), plain[2], plain[2]
    returns = _RETURNS.search(text) if defines else None
    first = _SHAPE.search(text, returns.start()) if returns else None
    if returns and first and _SAID.search(text[: first.start()]):
        yield first.start(), "", returns[1], first[0]


def _tables(note: Note, words: Mapping[str, str]) -> Iterator[Claim]:
    """Rows of tables with a column "Code" and a column "Shape"."""
    columns: list[str] = []
    for number, row in enumerate(note.text.split("\n"), start=note.first_line):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
        if not row.strip().startswith("|"):
            columns = []
        elif not columns:
            columns = [cell.lower() for cell in cells]
        elif {"code", "shape"} <= set(columns) and len(cells) == len(columns):
            of = _OF.search(code := cells[columns.index("code")])
            named = _OF.sub("", code)
            # Other words beside the names say which of several things is meant; who knows.
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
    """The shapes in a text; none at all if one of them cannot be read."""
    found = []
    for match in _SHAPE.finditer(text):
        axes = []
        for axis in match[1].split(","):
            options = [part.strip().replace("…", "...") for part in re.split(r"\\?\||\bor\b", axis)]
            axes.append(
                tuple(re.sub(r"\w+", lambda word: words.get(word[0], word[0]), o) for o in options)
            )
            if any(option != "..." and parse(option) is None for option in axes[-1]):
                return ()
        found.append(tuple(axes))
    return tuple(found)


class Matcher:
    """Compares with the sizes of one run; what names stand for lasts as long as a call.

    A letter in a signature is a letter of the site where the run gave it a size, and then the sizes
    must be equal. The letter of a length, T or S, may stand for any length, but never for what is
    another axis altogether. Any other name is the call's own: whatever it is, it stays the same.
    """

    def __init__(self, sizes: Mapping[str, int], lengths: frozenset[str]) -> None:
        self._sizes = sizes
        self._lengths = lengths
        self._others = {size for axis, size in sizes.items() if axis not in lengths}
        #: Names that have got their sizes.
        self._bound: dict[str, int] = {}

    def fits(self, declared: ast.expr | None, value: Value) -> bool:
        """Whether a value is what an annotation says; what it does not speak of fits."""
        before = dict(self._bound)
        for one in (allowed := options(declared)):
            if self._is(one, value):
                return True
            # One wrong shape must not make others look wrong.
            self._bound = dict(before)
        return not allowed

    def _is(self, declared: ast.expr, value: Value) -> bool:
        single = len(value) == 1
        if found := tensor(declared):
            if not single or value[0].path or value[0].times is not None or value[0].dims is None:
                return True
            kinds = CATEGORIES[found[0]]
            fits = not kinds or value[0].dtype.startswith(kinds)
            return fits and self.sizes_fit(found[1], value[0].dims)
        if not isinstance(declared, ast.Subscript):
            return True
        name, parts = last_name(declared.value), elements(declared.slice)
        if name in _SEQUENCES and single and value[0].times is not None:
            return self.fits(parts[0], (value[0]._replace(times=None),))
        endless = any(isinstance(p, ast.Constant) and p.value is Ellipsis for p in parts)
        if name in ("tuple", "Tuple") and not endless:
            return all(self.fits(part, _item(value, str(i))) for i, part in enumerate(parts))
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
        return len(tokens) == len(dims) and all(map(self._axis, tokens, dims))

    def _axis(self, token: str, size: int) -> bool:
        name = token.lstrip("#?")
        if name.startswith("_") or ("#" in token and size == 1):
            return True
        if not name.isidentifier():
            expected = evaluate(name, {**self._sizes, **self._bound})
            # Within a call, `T` may have become another length; then so has `T-1`.
            free = expected is None or names(name) & self._lengths
            return expected == size or bool(free and names(name))
        if name in self._bound:
            return self._bound[name] == size
        self._bound[name] = size
        if name in self._lengths:
            return size not in self._others or size == self._sizes.get(name)
        return self._sizes.get(name, size) == size


def _item(value: Value, index: str) -> Value:
    """The part of a tuple's description that is about one of its items."""
    paths = [(leaf, *leaf.path.partition(".")) for leaf in value]
    return tuple(leaf._replace(path=rest) for leaf, first, _, rest in paths if first == index)


def check(
    module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes
) -> tuple[Diagnostic, ...]:
    """The disagreements of one module."""
    found = [*_signatures(module, plan, traced, axes)]
    known = [seen for one in traced for seen in _seen(plan, one)]
    for claim in claims(module, axes.words):
        found += _claimed(module, plan, claim, known, axes)
    return tuple(dict.fromkeys(found))


def _signatures(
    module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes
) -> Iterator[Diagnostic]:
    told: set[tuple[int, str]] = set()
    for one in traced:
        first, second = one.runs
        for line in sorted(first.calls.keys() & second.calls.keys() & plan.functions.keys()):
            function = plan.functions[line]
            ours, theirs = (dict(_misfits(function, run, line, axes)) for run in one.runs)
            for name in ours:
                node = annotation(function.node, name)
                if node is None or name not in theirs or (line, name) in told:
                    continue
                told.add((line, name))
                what = f"`{name}` of" if name else "the result of"
                ran = _named((ours[name],), (theirs[name],), one)
                yield Diagnostic(
                    module.source.display,
                    node.lineno,
                    node.col_offset + 1,
                    "shape-declared",
                    f"{what} `{function.qualname}` is declared otherwise than it ran: {ran}, "
                    f"at {one.place}",
                    "mend the declared shape, or the run",
                    module.source.lines[node.lineno - 1],
                )


def _misfits(function: Function, run: Run, line: int, axes: Axes) -> Iterator[tuple[str, Value]]:
    """The parameters of a function, and "" for its result, that had another shape in some call."""
    for call in run.calls[line]:
        matcher = Matcher(run.sizes, axes.lengths)
        for name, value in call.items():
            if not matcher.fits(annotation(function.node, name), value):
                yield name, value


@dataclass(frozen=True, slots=True)
class _Seen:
    """A name with what it was, in both runs."""

    #: The function or class that it belongs to.
    owner: str
    #: ``""`` is what a function returned.
    name: str
    line: int
    values: tuple[tuple[Value, ...], tuple[Value, ...]]
    traced: Traced


def _seen(plan: Plan, one: Traced) -> Iterator[_Seen]:
    """Everything that the runs know by name."""
    first, second = one.runs
    for key in (key for key in first.values if key in second.values):
        line, kind, name = key
        function, statement = plan.function_at(line), plan.statements.get(line)
        owner = function.qualname if function else ""
        if kind == "field":
            owner, _, name = name.rpartition(".")
        # What a lambda returns is not what its function does.
        if owner and (kind != "return" or (statement is not None and statement.returns)):
            yield _Seen(owner, name, line, (first.values[key], second.values[key]), one)


def _claimed(
    module: Module, plan: Plan, claim: Claim, known: Iterable[_Seen], axes: Axes
) -> Iterator[Diagnostic]:
    """A claim is wrong if its name is known, and never was what it says."""
    function = plan.function_at(claim.line)
    scope = claim.scope or (function.qualname if function and not claim.table else "")
    if not scope and not claim.table:
        return
    about = [seen for seen in known if _concerns(claim, scope, seen)]
    if not about or any(_ever(claim, seen, axes) for seen in about):
        return
    seen = about[0]
    what = f"`{claim.name}`" if claim.name else "what is returned"
    part = "part of " if "[" in claim.name else ""
    ours, theirs = (_parts_of(values, claim, seen) for values in seen.values)
    source = module.source.lines[claim.line - 1]
    yield Diagnostic(
        module.source.display,
        claim.line,
        max(source.find(claim.text), 0) + 1,
        "shape-note",
        f"{what} is said to be `{claim.text}`; it was {part}{_named(ours, theirs, seen.traced)} "
        f"at {module.source.display}:{seen.line}, run by {seen.traced.place}",
        "mend the note, or the run",
        source,
    )


def _concerns(claim: Claim, scope: str, seen: _Seen) -> bool:
    """Whether a known name is the one that a note speaks of."""
    if claim.table:
        inside = seen.owner.rpartition(".")[2] == scope or not scope
    else:
        # What a class's note says of a name is about its attributes, not some method's variable.
        attribute = seen.name.startswith("self.") and seen.owner.startswith(f"{scope}.")
        inside = attribute or seen.owner == scope
    if not inside or not claim.name:
        return inside and not seen.name
    return any(_parts_of(seen.values[0], claim, seen))


def _parts_of(values: Sequence[Value], claim: Claim, seen: _Seen) -> tuple[Value, ...]:
    """Of each value, the tensors that a claim speaks of."""
    if not claim.name:
        return tuple(values)
    name = claim.name.partition("[")[0]

    def meant(leaf: Leaf) -> bool:
        text = f"{seen.name}.{leaf.path}".rstrip(".")
        ends = claim.table and "." in name and text.endswith(f".{name}")
        return ends or text in (name, f"self.{name}")

    return tuple(tuple(filter(meant, value)) for value in values)


def _ever(claim: Claim, seen: _Seen, axes: Axes) -> bool:
    """Whether the name was what the claim says at any time; None is anything.

    A run that agrees is enough: sizes that meet by chance, as T+2 may meet B, do so in one.
    """
    tokens = [one for shape in claim.shapes for one in product(*shape)]
    for values, run in zip(seen.values, seen.traced.runs, strict=True):
        leaves = [leaf for value in _parts_of(values, claim, seen) for leaf in value]
        forms = [form for leaf in leaves for form in _forms(leaf, "[" in claim.name)]
        if not forms or any(
            Matcher(run.sizes, axes.lengths).sizes_fit(one, form)
            for one in tokens
            for form in forms
        ):
            return True
    return False


def _forms(leaf: Leaf, part: bool) -> list[tuple[int, ...]]:
    """The sizes of a tensor as a note may write them: those of a list with its length, or not."""
    if leaf.dims is None:
        return []
    if leaf.times is None:
        return [leaf.dims[1:] if part else leaf.dims]
    return [leaf.dims] if part else [leaf.dims, (leaf.times, *leaf.dims)]


def _named(ours: Sequence[Value], theirs: Sequence[Value], one: Traced) -> str:
    """What ran, in letters."""
    found = Names(one.runs[0].sizes, one.runs[1].sizes)
    texts = [text_of([parts]) for parts in alternatives(ours, theirs, found)]
    return " or ".join(f"`{text}`" for text in texts) or "something else"
