"""From runs to the lines of a page: the chip at a line's end, and lines that nothing came to."""

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType

from pylit.shapes.annotations import shown, written
from pylit.shapes.model import Key, ModuleShapes, Traced
from pylit.shapes.naming import Names
from pylit.shapes.plan import Plan
from pylit.shapes.rendering import MORE, NONE_PARTS, Parts, alternatives, named_parts, text_of

#: Letters of a chip: as many as fit into the narrowest column of code that stands beside a note.
_LONGEST = 76

#: The forms that a name had on a line.
Forms = Mapping[Key, list[Parts]]


def module_lines(text: str, plan: Plan, traced: Sequence[Traced]) -> ModuleShapes:
    """Chips and unreached lines of a module, from all of its runs."""
    forms = _forms(traced)
    lines = text.split("\n")
    by_line: dict[int, list[tuple[str, list[Parts]]]] = {}
    for (line, kind, name), found in forms.items():
        if _worth_saying(line, kind, name, found, forms, plan):
            by_line.setdefault(line, []).append((name or "returns", found))
    chips, widths = {}, {}
    for line, entries in by_line.items():
        texts = list(_entries(entries))
        chips[line] = " ".join(
            f"<b>{html.escape(n)}</b> {html.escape(s)}".strip() for n, s in texts
        )
        # Two blanks before the chip; its letters are a little smaller than the code's.
        letters = sum(len(name) + len(shape) + 2 for name, shape in texts)
        widths[line] = len(lines[line - 1]) + 2 + math.ceil(letters * 12 / 13)
    return ModuleShapes(chips, widths, _unreached(plan, traced))


def _forms(traced: Iterable[Traced]) -> dict[Key, list[Parts]]:
    """What each name was on each line. A run tells of that where no run before it did.

    So the first function of a file tells its story alone, and the others fill in what it left out:
    a tensor where it had None, and None where it had one.
    """
    forms: dict[Key, list[Parts]] = {}
    for one in traced:
        first, second = one.runs
        names = Names(first.sizes, second.sizes)
        for key, values in first.values.items():
            found = alternatives(values, second.values.get(key, ()), names)
            known = forms.setdefault(key, [])
            if known in ([], [NONE_PARTS]) or key[1] == "arg":
                fill = found if known in ([], [NONE_PARTS]) else [NONE_PARTS]
                known += [parts for parts in found if parts in fill and parts not in known]
    return forms


def _worth_saying(
    line: int, kind: str, name: str, found: list[Parts], forms: Forms, plan: Plan
) -> bool:
    """Whether a reader learns something: not what the line itself says, not None of an int."""
    if not found:
        return False
    if kind == "change":
        return (line, "set", name) not in forms and (line, "loop", name) not in forms
    if kind != "arg":
        return found != [NONE_PARTS] or _ever_tensor(name, forms)
    function = plan.function_at(line)
    annotation = written(function.node, name) if function else None
    tensors = [parts for parts in found if parts != NONE_PARTS]
    if not tensors:
        return annotation is not None and shown(annotation) != ""
    return annotation is None or shown(annotation) != text_of(tensors)


def _ever_tensor(name: str, forms: Forms) -> bool:
    """Whether a name that was None is that of a tensor elsewhere in the module."""
    return bool(name) and any(
        key[2] == name and found != [NONE_PARTS] for key, found in forms.items()
    )


def _entries(entries: list[tuple[str, list[Parts]]]) -> Iterator[tuple[str, str]]:
    """Names and texts of a chip. The tensors of one value have names of their own: ``.weight``."""
    pairs: list[tuple[str, str]] = []
    for name, found in entries:
        named = named_parts(found[0]) if len(found) == 1 else []
        # Of the only value of a line, the line itself says the name.
        prefix = name if len(entries) > 1 and name != "returns" else ""
        if named and all(path for path, _ in named):
            pairs += [(prefix + path, text) for path, text in named]
        else:
            pairs.append((name, text_of(found)))
    room = _LONGEST
    for name, text in pairs:
        room -= len(name) + len(text) + 2
        if room < 0:
            yield MORE, ""
            return
        yield name, text


def _unreached(plan: Plan, traced: Sequence[Traced]) -> frozenset[int]:
    """Lines of functions that hold code which ran in none of the runs."""
    ran = frozenset(line for one in traced for run in one.runs for line in run.lines)
    code = _code_lines(plan.code, inside=False)
    found: set[int] = set()
    for line in code:
        statement = plan.statements.get(line)
        if statement is not None and not statement.inert:
            lines = range(statement.first, statement.last + 1)
            if ran.isdisjoint(lines):
                found.update(lines)
    return frozenset(found)


def _code_lines(code: CodeType, *, inside: bool) -> set[int]:
    """The lines that functions have code for."""
    found = {line for *_, line in code.co_lines() if line} if inside else set()
    # Where a function begins is not in it: its header runs where it is defined.
    found -= {code.co_firstlineno} if code.co_name != "<lambda>" else set()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            function = bool(constant.co_flags & 0x2)  # CO_NEWLOCALS: not the body of a class
            is_class = "__module__" in constant.co_names and "__qualname__" in constant.co_names
            found |= _code_lines(constant, inside=function and not is_class)
    return found
