"""What signatures and notes declare of shapes, compared with what ran.

Notes declare ``* `x` has shape `[T, B, C]` ``, and tables of symbols have a column of shapes. Only
what is surely meant is read: a name and a shape in the same breath. A text that says it in another
way is left alone, for a wrong complaint is worse than none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pylit.diagnostics import Diagnostic
from pylit.model import Module, Note, Section
from pylit.shapes.lines import Axes, Run, Traced
from pylit.shapes.names import Names, alternatives, evaluate, names, parse, text_of
from pylit.shapes.plan import (
    CATEGORIES,
    Function,
    Many,
    Plan,
    Product,
    Tensor,
    Type,
    Union,
    read,
    written,
)
from pylit.shapes.tracer import Leaf, Value

#: One axis: the texts that it may be, ``("T", "1")`` for ``[T|1]``.
Axis = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a note says that a name's shape is; one of several, where it gives several."""

    #: ``""`` is what a function returns.
    name: str
    shapes: tuple[tuple[Axis, ...], ...]
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
_CELL = re.compile(r"(?<!\\)\|")
_OF = re.compile(r"\bof `(\w+)`")


def claims(module: Module, words: Mapping[str, str]) -> Iterator[Claim]:
    """All claims of a module's notes; `words` maps what notes call an axis to its letter."""
    for index, section in enumerate(module.sections):
        for note in section.notes:
            if index == 0 and note.kind == "docstring" and not section.definition:
                yield from _tables(note, words)
            else:
                yield from _prose(note, section, words)


def _prose(note: Note, section: Section, words: Mapping[str, str]) -> Iterator[Claim]:
    # A comment inside a function is of that function, which its line tells.
    scope = section.definition
    for begin, text in _paragraphs(note.text):
        for offset, claim in _claims_of(text, scope, words):
            line = note.first_line + begin + text[:offset].count("\n")
            yield replace(claim, line=line)


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items, with the line they begin on; not what is fenced."""
    fenced = False
    current: list[str] = []
    begin = 0
    for number, line in enumerate([*text.split("\n"), ""]):
        stripped = line.strip()
        opens = stripped.startswith(("* ", "- "))
        if (not stripped or opens or stripped.startswith("```")) and current:
            yield begin, "\n".join(current)
            current = []
        if stripped.startswith("```"):
            fenced = not fenced
        elif stripped and not fenced:
            begin = begin if current else number
            current.append(stripped)


def _claims_of(text: str, scope: str, words: Mapping[str, str]) -> Iterator[tuple[int, Claim]]:
    """Claims of one paragraph, each with its offset in it."""
    item = _ITEM.match(text)
    if item:
        first = _SHAPE.search(item[2])
        before = item[2][: first.start()] if first else ""
        if first and _SAID.search(before) and not _CODE.search(before):
            shapes = _shapes(item[2], words)
            offset = item.start(2) + first.start()
            if shapes:
                for name in _CODE.findall(item[1]):
                    yield offset, Claim(name, shapes, 0, scope, first[0].strip("`"))
        return
    for match in _PLAIN.finditer(text):
        shapes = _shapes(match[2], words)
        if shapes:
            name = match[1].strip("`")
            yield match.start(), Claim(name, shapes, 0, scope, match[2].strip("`"))
    returns = _RETURNS.search(text) if scope else None
    first = _SHAPE.search(text, returns.start()) if returns else None
    if returns and first and _SAID.search(text[: first.start()]):
        shapes = _shapes(returns[1], words)
        if shapes:
            yield first.start(), Claim("", shapes, 0, scope, first[0].strip("`"))


def _tables(note: Note, words: Mapping[str, str]) -> Iterator[Claim]:
    """Rows of tables with a column "Code" and a column "Shape"."""
    columns: list[str] = []
    for number, row in enumerate(note.text.split("\n"), start=note.first_line):
        if not row.strip().startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in _CELL.split(row.strip().strip("|"))]
        if not columns:
            columns = [cell.lower() for cell in cells]
        elif {"code", "shape"} <= set(columns) and len(cells) == len(columns):
            code, shape = cells[columns.index("code")], cells[columns.index("shape")]
            yield from _row(code, shape, number, words)


def _row(code: str, shape: str, line: int, words: Mapping[str, str]) -> Iterator[Claim]:
    of = _OF.search(code)
    named = _OF.sub("", code)
    # Other words beside the names say which of several things is meant; who knows.
    if re.sub(r"`[^`]*`|[,…\s]|\band\b", "", named):
        return
    names: list[str] = []
    for name in _CODE.findall(named):
        owner = names[-1].rpartition(".")[0] if names else ""
        names.append(owner + name if name.startswith(".") else name)
    texts = [match[0] for match in _SHAPE.finditer(shape)]
    if len(texts) == 1:
        texts *= len(names)
    if not texts or len(texts) != len(names):
        return
    for name, text in zip(names, texts, strict=True):
        if shapes := _shapes(text, words):
            yield Claim(name, shapes, line, of[1] if of else "", text.strip("`"), table=True)


def _shapes(text: str, words: Mapping[str, str]) -> tuple[tuple[Axis, ...], ...]:
    """The shapes in a text; none at all if one of them cannot be read."""
    found = []
    for match in _SHAPE.finditer(text):
        axes = tuple(_axis(part, words) for part in match[1].split(","))
        if not all(axes):
            return ()
        found.append(axes)
    return tuple(found)


def _axis(text: str, words: Mapping[str, str]) -> Axis:
    """What an axis may be; empty for what is none."""
    options = []
    for option in re.split(r"\\?\||\bor\b", text):
        name = option.strip()
        if name not in ("...", "…"):
            name = re.sub(r"\w+", lambda word: words.get(word[0], word[0]), name)
            if parse(name) is None:
                return ()
        options.append("..." if name == "…" else name)
    return tuple(options)


class Matcher:
    """Compares with the sizes of one run; what names stand for lasts as long as a call.

    A letter in a signature is a letter of the site where the run gave it a size, and then the sizes
    must be equal. The letter of a length, T or S, may stand for any length, but never for what is
    another axis altogether. Any other name is the call's own: whatever it is, it stays the same.

    Args:
        sizes: The axes of the run.
        lengths: Letters that stand for any length.
        bound: Names that have got their sizes, for `names of the call's own`.
    """

    def __init__(self, sizes: Mapping[str, int], lengths: frozenset[str]) -> None:
        self._sizes = sizes
        self._lengths = lengths
        self._others = {size for axis, size in sizes.items() if axis not in lengths}
        self.bound: dict[str, int] = {}

    def fits(self, declared: Type, value: Value) -> bool:
        """Whether a value is what an annotation says; what it does not speak of fits."""
        match declared:
            case Union(members=members):
                return any(self._tried(member, value) for member in members)
            case Product(items=items):
                return all(self.fits(item, _item(value, i)) for i, item in enumerate(items))
            case Many(item=item):
                single = len(value) == 1 and value[0].times is not None
                return self.fits(item, (value[0]._replace(times=None),)) if single else True
            case Tensor(category=category, tokens=tokens):
                if len(value) != 1 or value[0].path or value[0].times is not None:
                    return True
                leaf = value[0]
                if leaf.dims is None:
                    return True
                kinds = CATEGORIES[category]
                return (not kinds or leaf.dtype.startswith(kinds)) and self.sizes_fit(
                    tokens, leaf.dims
                )
        return True

    def _tried(self, declared: Type, value: Value) -> bool:
        before = dict(self.bound)
        if self.fits(declared, value):
            return True
        self.bound = before
        return False

    def sizes_fit(self, tokens: Sequence[str], dims: Sequence[int]) -> bool:
        """Whether sizes are those of some axes; ``*name`` and ``...`` are any number of them."""
        tokens = [token.partition("=")[2] or token for token in tokens]
        many = [i for i, token in enumerate(tokens) if token.startswith("*") or token == "..."]
        if not many:
            return len(tokens) == len(dims) and self._all(tokens, dims)
        before, after = tokens[: many[0]], tokens[many[0] + 1 :]
        if len(before) + len(after) > len(dims):
            return False
        end = len(dims) - len(after)
        return self._all(before, dims) and self._all(after, dims[end:])

    def _all(self, tokens: Sequence[str], dims: Sequence[int]) -> bool:
        return all(self._axis(token, size) for token, size in zip(tokens, dims, strict=False))

    def _axis(self, token: str, size: int) -> bool:
        name = token.lstrip("#?")
        if name.startswith("_") or ("#" in token and size == 1):
            return True
        if not name.isidentifier():
            known = {**self._sizes, **self.bound}
            expected = evaluate(name, known)
            # Within a call, `T` may have become another length; then so has `T-1`.
            free = expected is None or names(name) & self._lengths
            return expected == size or bool(free and names(name))
        if name in self.bound:
            return self.bound[name] == size
        self.bound[name] = size
        if name in self._lengths:
            return size not in self._others or size == self._sizes.get(name)
        return name not in self._sizes or self._sizes[name] == size


def _item(value: Value, index: int) -> Value:
    """The part of a tuple's description that is about one of its items."""
    own = [leaf for leaf in value if leaf.path.split(".")[0] == str(index)]
    return tuple(leaf._replace(path=leaf.path.partition(".")[2]) for leaf in own)


def check(
    module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes
) -> tuple[Diagnostic, ...]:
    """The disagreements of one module."""
    found = [*_signatures(module, plan, traced, axes)]
    known = [(one, _seen(plan, one)) for one in traced]
    for claim in claims(module, axes.words):
        found += _claimed(module, plan, claim, known, axes)
    return tuple(dict.fromkeys(found))


def _signatures(
    module: Module, plan: Plan, traced: Sequence[Traced], axes: Axes
) -> Iterator[Diagnostic]:
    told: set[tuple[int, str]] = set()
    for one in traced:
        first, second = one.runs
        for line in sorted(first.calls.keys() & second.calls.keys()):
            function = plan.functions.get(line)
            if function is None:
                continue
            ours = dict(_misfits(function, first, line, axes))
            theirs = dict(_misfits(function, second, line, axes))
            for name in (name for name in ours if name in theirs and (line, name) not in told):
                told.add((line, name))
                ran = _named((ours[name],), (theirs[name],), one)
                yield _misdeclared(module, function, name, ran, one)


def _misfits(function: Function, run: Run, line: int, axes: Axes) -> Iterator[tuple[str, Value]]:
    """The parameters of a function, and "" for its result, that had another shape in some call."""
    for call in run.calls[line]:
        matcher = Matcher(run.sizes, axes.lengths)
        for name, value in call.items():
            before = dict(matcher.bound)
            if not matcher.fits(read(written(function.node, name)), value):
                # One wrong shape must not make others look wrong.
                matcher.bound = before
                yield name, value


def _misdeclared(
    module: Module, function: Function, name: str, ran: str, one: Traced
) -> Diagnostic:
    node = written(function.node, name)
    assert node is not None
    what = f"`{name}` of `{function.qualname}`" if name else f"the result of `{function.qualname}`"
    source = module.source.lines[node.lineno - 1]
    return Diagnostic(
        module.source.display,
        node.lineno,
        node.col_offset + 1,
        "shape-declared",
        f"{what} is declared otherwise than it ran: {ran}, at {one.place}",
        "mend the declared shape, or the run",
        source,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """A name with what it was, in both runs."""

    #: The function or class that it belongs to.
    owner: str
    #: ``""`` is what a function returned.
    name: str
    line: int
    values: tuple[tuple[Value, ...], tuple[Value, ...]]


def _seen(plan: Plan, one: Traced) -> list[_Seen]:
    """Everything that the runs know by name."""
    first, second = one.runs
    found = []
    for key, ours in first.values.items():
        line, kind, name = key
        function, theirs = plan.function_at(line), second.values.get(key)
        if function is None or not theirs:
            continue
        statement = plan.statements.get(line)
        # What a lambda returns is not what its function does.
        if kind != "return" or (statement is not None and statement.returns):
            found.append(_Seen(function.qualname, name, line, (ours, theirs)))
    for (owner, part), ours in first.fields.items():
        if theirs := second.fields.get((owner, part)):
            found.append(_Seen(owner, part, plan.classes[owner].lineno, (ours, theirs)))
    return found


def _claimed(
    module: Module,
    plan: Plan,
    claim: Claim,
    known: Sequence[tuple[Traced, list[_Seen]]],
    axes: Axes,
) -> Iterator[Diagnostic]:
    """A claim is wrong if its name is known, and never was what it says."""
    if not claim.scope and not claim.table:
        function = plan.function_at(claim.line)
        if function is None:
            return
        claim = replace(claim, scope=function.qualname)
    wrong: list[tuple[Traced, _Seen]] = []
    for one, entries in known:
        for seen in entries:
            if _concerns(claim, seen):
                if _ever(claim, seen, one, axes):
                    return
                wrong.append((one, seen))
    if wrong:
        yield _misnoted(module, claim, *wrong[0])


def _misnoted(module: Module, claim: Claim, one: Traced, seen: _Seen) -> Diagnostic:
    what = f"`{claim.name}`" if claim.name else "what is returned"
    part = "part of " if "[" in claim.name else ""
    ours, theirs = (_parts_of(values, claim, seen) for values in seen.values)
    source = module.source.lines[claim.line - 1]
    return Diagnostic(
        module.source.display,
        claim.line,
        max(source.find(claim.text), 0) + 1,
        "shape-note",
        f"{what} is said to be `{claim.text}`; it was {part}{_named(ours, theirs, one)} "
        f"at {module.source.display}:{seen.line}, run by {one.place}",
        "mend the note, or the run",
        source,
    )


def _concerns(claim: Claim, seen: _Seen) -> bool:
    """Whether a known name is the one that a note speaks of."""
    if claim.table:
        if claim.scope and seen.owner.rpartition(".")[2] != claim.scope:
            return False
    elif seen.owner != claim.scope and not seen.owner.startswith(f"{claim.scope}."):
        return False
    if not claim.name:
        return not seen.name and seen.owner == claim.scope
    # What a class's note says of a name is about its attributes, not some method's variable.
    if not claim.table and seen.owner != claim.scope and not seen.name.startswith("self."):
        return False
    return any(any(part) for part in _parts_of(seen.values[0], claim, seen))


def _parts_of(values: Sequence[Value], claim: Claim, seen: _Seen) -> tuple[Value, ...]:
    """Of each value, the tensors that a claim speaks of."""
    if not claim.name:
        return tuple(values)
    name = claim.name.partition("[")[0]
    wanted = {name, f"self.{name}"}
    parts = []
    for value in values:
        full = [(f"{seen.name}.{leaf.path}" if leaf.path else seen.name, leaf) for leaf in value]
        parts.append(
            tuple(
                leaf
                for text, leaf in full
                if text in wanted or (claim.table and "." in name and text.endswith(f".{name}"))
            )
        )
    return tuple(parts)


def _ever(claim: Claim, seen: _Seen, one: Traced, axes: Axes) -> bool:
    """Whether the name was what the claim says at any time; None is anything.

    A run that agrees is enough: sizes that meet by chance, as T+2 may meet B, do so in one.
    """
    for values, run in zip(seen.values, one.runs, strict=True):
        leaves = [leaf for value in _parts_of(values, claim, seen) for leaf in value]
        tensors = [leaf for leaf in leaves if leaf.dims is not None]
        if not tensors or any(_leaf_fits(claim, leaf, run, axes) for leaf in tensors):
            return True
    return False


def _leaf_fits(claim: Claim, leaf: Leaf, run: Run, axes: Axes) -> bool:
    dims = leaf.dims or ()
    part = "[" in claim.name
    forms = [dims[1:] if part and leaf.times is None else dims]
    if leaf.times is not None and not part:
        forms.append((leaf.times, *dims))
    return any(
        Matcher(run.sizes, axes.lengths).sizes_fit(tokens, form)
        for shape in claim.shapes
        for tokens in _choices(shape)
        for form in forms
    )


def _choices(shape: Sequence[Axis]) -> Iterable[tuple[str, ...]]:
    """``[T|1, S]`` is ``[T, S]`` or ``[1, S]``."""
    choices: list[tuple[str, ...]] = [()]
    for axis in shape:
        choices = [(*choice, option) for choice in choices for option in axis]
    return choices


def _named(ours: Sequence[Value], theirs: Sequence[Value], one: Traced) -> str:
    """What ran, in letters."""
    found = Names(one.runs[0].sizes, one.runs[1].sizes)
    texts = [text_of([parts]) for parts in alternatives(ours, theirs, found)]
    return " or ".join(f"`{text}`" for text in texts) or "something else"
