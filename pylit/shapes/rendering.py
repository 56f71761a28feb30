"""Shapes of two runs as one text: ``[T, B, C]``, ``[1…T, B]``, ``L × [B, C]``."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pylit.shapes.naming import UNKNOWN, Names
from pylit.shapes.values import Value

#: Different shapes of one name that are shown, and letters of all of them.
MOST, LONG = 3, 54
#: What stands for forms that are too many to tell.
MORE = "…"
#: What most tensors hold: not worth a word.
USUAL = "float32"

Vector = tuple[int, ...]


class Part(NamedTuple):
    """One tensor of a value, as text; `shape` is ``None`` for None."""

    path: str
    shape: str
    dtype: str


Parts = tuple[Part, ...]
NONE_PARTS: Parts = (Part("", "None", ""),)


def alternatives(first: Sequence[Value], second: Sequence[Value], names: Names) -> list[Parts]:
    """The different forms of a value in two runs, those that differ in a number only as a range.

    A form that one of the runs did not have is left out: nobody could name it.
    """
    found = []
    for kind in dict.fromkeys(map(_kind, first)):
        ours = [_numbers(value) for value in first if _kind(value) == kind]
        theirs = [_numbers(value) for value in second if _kind(value) == kind]
        if ours and theirs:
            found += [_parts(kind, texts) for texts in _texts(ours, theirs, names)]
    return list(dict.fromkeys(found))


Kind = tuple[tuple[str, int | None, str, bool], ...]


def _kind(value: Value) -> Kind:
    """All of a value but its numbers."""
    return tuple(
        (leaf.path, None if leaf.dims is None else len(leaf.dims), leaf.dtype, leaf.times is None)
        for leaf in value
    )


def _numbers(value: Value) -> Vector:
    result: list[int] = []
    for leaf in value:
        result += [] if leaf.times is None else [leaf.times]
        result += leaf.dims or ()
    return tuple(result)


def _parts(kind: Kind, texts: Sequence[str]) -> Parts:
    rest = iter(texts)
    parts = []
    for path, rank, dtype, single in kind:
        if rank is None:
            parts.append(Part(path, "None", ""))
            continue
        count = "" if single else f"{next(rest)} × "
        sizes = [next(rest) for _ in range(rank)]
        shape = count + (f"[{', '.join(sizes)}]" if sizes else "scalar")
        if sizes and set(sizes) == {MORE}:
            shape = MORE
        parts.append(Part(path, shape, "" if dtype == USUAL else dtype))
    return tuple(parts)


def _texts(ours: list[Vector], theirs: list[Vector], names: Names) -> Iterator[Sequence[str]]:
    """What to say of vectors of the same length: one by one, or ranges of them."""
    if len(ours) == len(theirs) <= MOST and not _is_run(ours):
        pairs = [_named(a, b, names) for a, b in zip(ours, theirs, strict=True)]
        if not any(UNKNOWN in text for text in pairs):
            yield from pairs
            return
    ranged = _ranged(ours, theirs, names)
    if ranged:
        yield ranged
        return
    for index in range(len(ours[0])):
        clusters = _clusters(ours, index), _clusters(theirs, index)
        if len(clusters[0]) == len(clusters[1]) <= MOST:
            texts = [_ranged(a, b, names) for a, b in zip(*clusters, strict=True)]
            if all(texts):
                yield from (text for text in texts if text)
                return
    shown = [_named(a, b, names) for a, b in zip(ours, theirs, strict=False)][:MOST]
    yield from shown
    if len(shown) < max(len(ours), len(theirs)):
        yield [MORE] * len(ours[0])


def _named(first: Vector, second: Vector, names: Names) -> list[str]:
    return [names.name(a, b) for a, b in zip(first, second, strict=True)]


def _is_run(vectors: list[Vector]) -> bool:
    """Whether they are the steps of a loop: three or more, one more each time."""
    return len(vectors) >= 3 and any(
        len(column) > 2 and _contiguous(column) for column in map(set, zip(*vectors, strict=True))
    )


def _ranged(first: list[Vector], second: list[Vector], names: Names) -> list[str]:
    """One text for all, with a range where a number grows; empty where numbers jump."""
    texts = []
    for ours, theirs in zip(zip(*first, strict=True), zip(*second, strict=True), strict=True):
        mine, yours = set(ours), set(theirs)
        low = names.name(min(mine), min(yours))
        high = names.name(max(mine), max(yours))
        if len(mine) == len(yours) == 1:
            texts.append(low)
        elif _contiguous(mine) and _contiguous(yours):
            texts.append(f"{low}…{high}")
        else:
            return []
    return texts


def _contiguous(numbers: set[int]) -> bool:
    return max(numbers) - min(numbers) == len(numbers) - 1


def _clusters(vectors: list[Vector], index: int) -> list[list[Vector]]:
    """Vectors that differ at one place only, together."""
    found: dict[Vector, list[Vector]] = {}
    for vector in vectors:
        found.setdefault(vector[:index] + vector[index + 1 :], []).append(vector)
    return list(found.values())


def named_parts(parts: Parts) -> list[tuple[str, str]]:
    """Names, those of alike tensors that follow each other together, and texts."""
    found: list[tuple[str, str]] = []
    for part in parts:
        steps = [step for step in part.path.split(".") if step and not step.isdigit()]
        name, text = "".join(f".{step}" for step in steps), _with_dtype(part)
        if found and name and found[-1][0] and found[-1][1] == text:
            found[-1] = (f"{found[-1][0]}, {name}", text)
        else:
            found.append((name, text))
    return found


def text_of(found: list[Parts]) -> str:
    """``[T, B] | [S, B] | None``; a tuple's tensors are separated by commas."""
    forms = sorted(found, key=lambda parts: parts == NONE_PARTS)
    dtypes = {part.dtype for parts in forms for part in parts if parts != NONE_PARTS}
    # A kind of number that all forms share is said once, behind the last.
    shared = dtypes.pop() if len(dtypes) == 1 and all(len(parts) == 1 for parts in forms) else ""
    texts = []
    for parts in forms:
        whole = [f"{name} {text}".strip() for name, text in named_parts(parts)]
        while len(whole) > 1 and len(", ".join(whole)) > LONG:
            whole[-2:] = [MORE]
        texts.append(", ".join(whole).removesuffix(f" {shared}" if shared else ""))
    tensors = [text for text in texts if text != "None"]
    if shared:
        texts[len(tensors) - 1] += f" {shared}"
    shown = texts[:MOST]
    while len(shown) > 1 and sum(map(len, shown)) > LONG:
        shown.pop()
    return " | ".join([*shown, MORE] if len(shown) < len(texts) else shown)


def _with_dtype(part: Part) -> str:
    return f"{part.shape} {part.dtype}" if part.dtype else part.shape
