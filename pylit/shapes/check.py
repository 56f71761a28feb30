"""What signatures and notes declare, compared with what ran."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pylit.diagnostics import Diagnostic
from pylit.model import Module
from pylit.shapes.annotations import read, written
from pylit.shapes.claims import Axis, Claim, claims
from pylit.shapes.matching import Matcher
from pylit.shapes.model import Axes, Run, Traced
from pylit.shapes.naming import Names
from pylit.shapes.plan import Function, Plan
from pylit.shapes.rendering import alternatives, text_of
from pylit.shapes.values import Leaf, Value


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
    names = Names(one.runs[0].sizes, one.runs[1].sizes)
    found = alternatives(ours, theirs, names)
    texts = [text_of([parts]) for parts in found]
    return " or ".join(f"`{text}`" for text in texts) or "something else"
