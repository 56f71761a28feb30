"""The block of ``key: value`` lines, fenced by ``---``, that may open a page or a module.

    ---
    title: Multi-head attention
    summary: >
      Folded over several lines, as YAML does it, and `|` keeps the lines apart.
    ---

Every value is text. That much of YAML is all that authors of this style use, and it needs no
library, no surprise (``no`` stays ``no``, ``1.10`` stays ``1.10``) and has a line for every fault.
"""

import re
from dataclasses import dataclass, field

from pylit.diagnostics import Diagnostic, Report, Severity

_KEY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)$")
_BLOCK = re.compile(r"[>|][+-]?$")


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one line, counted from 0."""

    index: int
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key with what stands on its line and on the indented lines below it."""

    key: str
    head: str
    more: list[str] = field(default_factory=list)

    @property
    def value(self) -> str:
        """The value as text: quotes removed, lines folded as the head asks for."""
        if _BLOCK.match(self.head):
            lines = _dedent(self.more)
            return "\n".join(lines).strip("\n") if self.head[0] == "|" else _fold(lines)
        if self.head[:1] in ("'", '"') or self.more:
            return _unquote(_fold([self.head, *_dedent(self.more)]))
        return self.head


def split(
    text: str,
    *,
    path: str = "",
    first_line: int = 1,
    column: int = 0,
    own: bool = True,
    report: Report | None = None,
) -> tuple[dict[str, str], str, int]:
    """Take the front matter off `text`: its values, the rest, and how many lines were taken.

    Line 0 of the rest is line `n` of `text`. Blank lines may stand before the opening ``---``.
    Without front matter the result is ``({}, text, 0)``. Faults go to `report`, placed at `path`
    as if line 0 of `text` stood on `first_line`, `column` characters from the left.
    """
    lines = text.split("\n")
    fences = _fences(lines)
    if fences is None:
        return {}, text, 0
    opening, closing = fences
    faults: list[_Fault] = []
    if closing < 0:
        values, taken = {}, 0
        faults.append(_Fault(opening, "front matter is never closed", "end it with a line `---`"))
    else:
        values, taken = _values(lines, opening + 1, closing, faults), closing + 1
    if report is None:
        report = Report()
    for fault in faults:
        diagnostic = Diagnostic(
            path=path,
            line=first_line + fault.index,
            column=column + 1,
            code="front-matter",
            message=fault.message,
            hint=fault.hint,
            source_line=" " * column + lines[fault.index],
            severity=Severity.ERROR if own else Severity.WARNING,
        )
        report.add(diagnostic)
    return values, "\n".join(lines[taken:]), taken


def _fences(lines: list[str]) -> tuple[int, int] | None:
    """Where the block opens and closes; closing is -1 when nothing closes it.

    A first ``---`` may also be a horizontal rule: it opens front matter only if a key follows it.
    """
    opening = next((i for i, line in enumerate(lines) if line.strip()), -1)
    if opening < 0 or lines[opening].rstrip() != "---":
        return None
    closing = -1
    for index in range(opening + 1, len(lines)):
        if lines[index].rstrip() in ("---", "..."):
            closing = index
            break
    inside = [line.rstrip() for line in lines[opening + 1 : closing if closing > 0 else None]]
    first = next((line for line in inside if line), "")
    # Directly below the rule, the first line may be the faulty one.
    adjacent = bool(inside and inside[0]) and closing > 0
    if _KEY.match(first) or (adjacent and any(map(_KEY.match, inside))):
        return opening, closing
    return None


def _values(lines: list[str], start: int, end: int, faults: list[_Fault]) -> dict[str, str]:
    """The values between two fences; what is not ``key: value`` is added to `faults`."""
    entries: dict[str, _Entry] = {}
    last: _Entry | None = None
    for index in range(start, end):
        line = lines[index].rstrip()
        if not line or line[0] in " \t":
            if last is not None:
                last.more.append(line)
            elif line:
                faults.append(_Fault(index, "an indented line before the first key", "unindent"))
            continue
        if line.startswith("#"):
            continue
        match = _KEY.match(line)
        if match is None:
            hint = "write `key: value`, or indent what continues a value"
            faults.append(_Fault(index, f"`{line}` is not `key: value`", hint))
            continue
        key, head = match[1], (match[2] or "").strip()
        if key in entries:
            faults.append(_Fault(index, f"`{key}` is given twice", "keep one of the two"))
        last = _Entry(key, head)
        entries.setdefault(key, last)
    return {key: entry.value for key, entry in entries.items()}


def _dedent(lines: list[str]) -> list[str]:
    """`lines` without their common indentation and without blank lines at the end."""
    margin = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    dedented = [line[margin:] for line in lines]
    while dedented and not dedented[-1]:
        dedented.pop()
    return dedented


def _fold(lines: list[str]) -> str:
    """Lines joined to paragraphs; a blank line separates two of them."""
    paragraphs = re.split(r"\n{2,}", "\n".join(line.strip() for line in lines).strip("\n"))
    return "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def _unquote(value: str) -> str:
    """`value` without the quotes around it, if it has both."""
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", value[1:-1])
    return value
