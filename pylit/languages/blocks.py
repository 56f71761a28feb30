"""A text that stands apart from what it speaks of, in blocks: how it is read and written.

A block has a heading of level 1, which says what it speaks of, and ends in eight digits: a digest
of that. It changes with the words of what it was made from, and not with the ends of its lines::

    # Layer.forward, 2 · 1f3a9c04

    Text.

Translations (`translations`) quote the passage that they translate above the text. In notes on the
code of others (`annotations`) the digits may be missing, until ``pylit notes`` writes them. A
command that finds another digest writes ``1f3a9c04 → 77d2b10e``: who has read the text again leaves
only the last one.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import dropwhile, takewhile
from pathlib import Path

_DIGITS = r"(?:(?P<made>[0-9a-f]{8}) → )?(?P<hash>[0-9a-f]{8})"
_DATED = re.compile(rf"# (?P<place>\S.*?) · {_DIGITS}[ \t]*")
_ANY = re.compile(rf"# (?P<place>\S.*?)(?: · {_DIGITS})?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file: what it speaks of, the digest that it was made from, and its text."""

    place: str
    hash: str
    #: The quoted original of a translation.
    original: str
    text: str
    #: Lines of its head and of its text.
    head: int
    line: int


def digest_of(text: str) -> str:
    """Eight digits that change with the words of a text, not with the ends of its lines."""
    return sha256(" ".join(text.split()).encode()).hexdigest()[:8]


def outside_fences(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not in a block of code, by their numbers from 0."""
    fence = ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        if not fence:
            yield number, line


def read_blocks(text: str, *, translation: bool = True) -> tuple[str, list[Block]]:
    """What stands before the first block of a file, and its blocks.

    The head of a translation has a digest, and the original is quoted below it.
    """
    lines, head = text.split("\n"), _DATED if translation else _ANY
    found = [(n, match) for n, line in outside_fences(lines) if (match := head.fullmatch(line))]
    ends = [*(number for number, _ in found[1:]), len(lines)]
    blocks = []
    for (number, match), end in zip(found, ends, strict=False):
        rest = [*dropwhile(_is_blank, lines[number + 1 : end])]
        quote = [*takewhile(lambda line: line.startswith(">"), rest)] if translation else []
        written = [*dropwhile(_is_blank, rest[len(quote) :])]
        original = "\n".join(line[1:].removeprefix(" ") for line in quote)
        made, body = match["made"] or match["hash"] or "", "\n".join(written).rstrip()
        first = end - len(written) + 1
        blocks.append(Block(match["place"], made, original, body, number + 1, first))
    return "\n".join(lines[: found[0][0]] if found else lines), blocks


def head_of(place: str, digest: str, made: str = "") -> str:
    """The head of a block; `made` is the digest that its text was made from, if that is another."""
    return f"# {place} · {made} → {digest}" if made not in ("", digest) else f"# {place} · {digest}"


def save(path: Path, text: str) -> None:
    """Write a file of blocks. On a full disk the text of before remains."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8", newline="\n")
    new.replace(path)


def _is_blank(line: str) -> bool:
    return not line.strip()
