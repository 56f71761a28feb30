"""Notes on a module that others have written, each with the place in the code that it speaks of.

``docs_src/notes/torch/nn/modules/activation.md`` has our notes on ``torch.nn.modules.activation``:
front matter, what is read first, and a block for each note (`blocks`). Its head is the name of a
definition, or a name and a line of it, or enough of the line to know it by::

    # MultiheadAttention.forward

    What it does.

    # MultiheadAttention.forward, "if self.batch_first and is_batched:"

    What happens from here on.

    # MultiheadAttention.forward, "return" after "if any_nested"

A line may be anywhere in its definition, so it keeps its note when it moves. The page shows the
definitions that have notes; their docstrings and all else are folded, with their own line numbers.
A quoted line without a note ends the note above it, and the block ``# For reference`` stands behind
the code. See decision 051.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property
from itertools import groupby
from pathlib import PurePath

from pylit.config import NOTES
from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.languages.blocks import Block, digest_of, head_of, read_blocks
from pylit.model import Definition, Module, Note, Package, Section, SourceFile, Span
from pylit.source.pages import split_front_matter
from pylit.source.parse import first_line
from pylit.source.scopes import decorators, definitions, read_scopes

#: The folder of these files, in that of the site's documents.
FOLDER = PurePath(NOTES).name
#: The block that stands behind the code.
REFERENCE = "For reference"
#: From how many lines on a docstring, or another text in the code, is folded.
LONG_TEXT = 4
#: Names and letters in the summary of what is folded.
_NAMES, _LETTERS = 5, 70
_PLACE = re.compile(
    r'(?P<name>[\w.]*)(?:(?:^|, )"(?P<quote>.+?)"(?: after "(?P<after>.+)")?)?', re.ASCII
)


@dataclass(frozen=True, slots=True)
class Found:
    """The place of a block in the code: its first line, or why there is none, and a way out."""

    block: Block
    #: The name of the definition; empty for the module.
    name: str = ""
    #: What the block speaks of: a definition, or the statement of its line.
    span: Span = Span(0, 0)  # noqa: RUF009 - an immutable value
    #: The line that it stands beside, and whether the block quotes it.
    line: int = 0
    quotes: bool = False
    message: str = ""
    hint: str = ""


class Code:
    """The code of a module: where its definitions, its statements and its long texts are."""

    def __init__(self, source: SourceFile) -> None:
        self.lines = source.lines
        self._tree = read_scopes(source).tree
        self._constants = read_scopes(source).constants

    @cached_property
    def spans(self) -> dict[str, Span]:
        """The lines of each definition, decorators included."""
        found = {name: _span(node) for name, node in self._constants.items()}
        nodes = [(n, node) for n, node in definitions(self._tree) if "<locals>" not in n]
        # The first of several definitions of a name has it, unless that is an `@overload`.
        for name, node in sorted(nodes, key=lambda pair: "overload" in decorators(pair[1])):
            found.setdefault(name, _span(node))
        return found

    @cached_property
    def bodies(self) -> dict[str, int]:
        """The first line of the body of each class and function."""
        nodes = [(n, node) for n, node in definitions(self._tree) if "<locals>" not in n]
        return {name: max(first_line(node.body[0]), node.lineno + 1) for name, node in nodes}

    @cached_property
    def texts(self) -> list[Span]:
        """Docstrings, and other strings of many lines."""
        found = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                last = node.end_lineno or node.lineno
                if last - node.lineno + 1 >= LONG_TEXT:
                    found.append(Span(node.lineno, last))
        return sorted(found, key=lambda span: span.first)

    def paragraph(self, line: int) -> Span | None:
        """The lines around one of a long text, up to blank ones; None for a line of code."""
        text = next((t for t in self.texts if t.first <= line <= t.last), None)
        if text is None:
            return None
        first = last = line
        while last < text.last and self.lines[last].strip():
            last += 1
        return Span(first, last)

    def statement(self, line: int) -> Span:
        """The outermost statement that begins on a line, else the innermost one around it.

        A comment speaks of what follows it.
        """
        while self.lines[line - 1].lstrip().startswith("#") and line < len(self.lines):
            line += 1
        nodes = [node for node in ast.walk(self._tree) if isinstance(node, ast.stmt)]
        around = [s for s in map(_span, nodes) if s.first <= line <= s.last]
        begins = [span for span in around if span.first == line]
        if begins:
            return max(begins, key=lambda span: span.last)
        return min(around, key=lambda span: span.last - span.first, default=Span(line, line))

    def text(self, span: Span) -> str:
        """The source of some lines."""
        return "\n".join(self.lines[span.first - 1 : span.last])

    def find(self, block: Block) -> Found:
        """The place of a block."""
        place = _PLACE.fullmatch(block.place)
        if place is None:
            hint = 'write a name, `Layer.forward`, or a name and a line, `Layer.forward, "x = 1"`'
            return Found(block, message=f"`{block.place}` names no place in code", hint=hint)
        name, quote, after = place["name"], place["quote"], place["after"]
        if name and name not in self.spans:
            hint = _nearest(name, self.spans) or "name one of its definitions"
            return Found(block, message=f"there is no definition `{name}`", hint=hint)
        span = self.spans[name] if name else Span(1, len(self.lines))
        if not quote:
            return Found(block, name, span, span.first)
        numbers = range(span.first, span.last + 1)
        if after:
            begin = self._matches(after, numbers)
            if len(begin) != 1:
                return self._lost(block, name, after, numbers, begin)
            numbers = range(begin[0] + 1, span.last + 1)
        found = self._matches(quote, numbers)
        if not found or (len(found) > 1 and not after):
            return self._lost(block, name, quote, numbers, found)
        line = found[0]
        passage = self.paragraph(line) or self.statement(line)
        return Found(block, name, passage, line, quotes=True)

    def _matches(self, quote: str, numbers: Iterable[int]) -> list[int]:
        """The lines that are quoted: whole ones, else those that begin so, else with it in them."""
        wanted = " ".join(quote.split())
        lines = {number: " ".join(self.lines[number - 1].split()) for number in numbers}
        for same in (str.__eq__, str.startswith, str.__contains__):
            if found := [number for number, line in lines.items() if same(line, wanted)]:
                return found
        return []

    def _lost(
        self, block: Block, name: str, quote: str, numbers: Sequence[int], found: Sequence[int]
    ) -> Found:
        """A quoted line that is nowhere, or in several places."""
        where = f"`{name}`" if name else "the module"
        if found:
            places = " and ".join(map(str, (*found[:3],)))
            message = f"{where} has `{quote}` {len(found)} times, in the lines {places}"
            hint = 'quote more of the line, or say what stands before it: `"…" after "…"`'
            return Found(block, name, message=message, hint=hint)
        lines = {" ".join(self.lines[number - 1].split()): number for number in numbers}
        near = max(lines, key=lambda line: SequenceMatcher(None, quote, line).ratio())
        message = f"{where} has no line `{quote}`"
        return Found(block, name, message=message, hint=f"nearest, line {lines[near]}: `{near}`")


def _span(node: ast.stmt) -> Span:
    return Span(first_line(node), node.end_lineno or node.lineno)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else ""


def annotated(module: Module, file: SourceFile, package: Package, report: Report) -> Module:
    """A module with the notes of a file, in sections as the page shows them.

    Args:
        module: The module as it is parsed, with notes of its own authors.
        file: The file of our notes.
        package: The package that it is a part of.
        report: Notes without a place are errors; in a version that the notes were not written for,
            warnings.
    """
    values, rest, taken = split_front_matter(file.text, report, (file.display, 1, 0))
    before, blocks = read_blocks(rest, translation=False)
    code, left = Code(module.source), 0

    def note(text: str, line: int, span: Span) -> tuple[Note, ...]:
        lead = len(text) - len(text.lstrip("\n"))
        written = Note("docstring", span, text.strip("\n"), line + lead, 0, path=file.display)
        return (written,) * bool(text.strip())

    def fault(found: Found, message: str, hint: str, *, harmless: bool) -> None:
        line = found.block.head + taken
        severity = Severity.WARNING if harmless else Severity.ERROR
        place = file.display, line, 1, "note-place", message, hint
        report.add(Diagnostic(*place, file.lines[line - 1], severity))

    cuts: dict[int, tuple[Found, tuple[Note, ...]]] = {}
    behind: list[Note] = []
    for block in blocks:
        if block.place == REFERENCE:
            behind += note(block.text, block.line + taken, Span(1, 1))
            continue
        found = code.find(block)
        if found.message:
            left += 1
            fault(found, found.message, found.hint, harmless=not package.fits)
        elif block.text or found.quotes:
            if block.hash and digest_of(code.text(found.span)) != block.hash:
                message = f"the code of `{block.place}` has changed since this note was written"
                hint = (
                    "read the note beside the code of today, delete the digits, run `pylit notes`"
                )
                fault(found, message, hint, harmless=True)
            line = found.line
            if line in cuts:
                other = cuts[line][0].block.place
                message = f"there are two notes on line {line} of the code; the other is `{other}`"
                fault(found, message, "make one of them", harmless=False)
            cuts[line] = found, note(block.text, block.line + taken, Span(line, line))
    first = Section(note(before, taken + 1, Span(1, 1)), None)
    sections = [first] if first.notes else []
    sections += _sections(code, module.definitions, cuts)
    sections += [Section(tuple(behind), None)] if behind else []
    shown = {section.definition for section in sections}
    return replace(
        module,
        front_matter=values,
        sections=tuple(sections),
        definitions=tuple(d for d in module.definitions if not d.qualname or d.qualname in shown),
        apart=file,
        package=replace(package, left=left),
    )


def _sections(
    code: Code,
    known: Sequence[Definition],
    cuts: dict[int, tuple[Found, tuple[Note, ...]]],
) -> Iterator[Section]:
    """The code of a module, cut at its notes, and folded where it has none."""
    total = len(code.lines)
    #: What is folded with what: 0 for what is shown.
    labels = [1] * (total + 2)
    names = {found.name for found, _ in cuts.values() if found.name}
    opened = {0: ""}
    for name in sorted(names, key=lambda name: code.spans[name].first):
        for owner in _owners(name):
            _label(labels, Span(code.spans[owner].first, code.bodies[owner] - 1), 0)
            opened[code.spans[owner].first] = owner
        span = code.spans[name]
        opened[span.first] = name
        _label(labels, span, 0)
        for other, inner in code.spans.items():
            if other.startswith(f"{name}.") and other not in names:
                _label(labels, inner, 1)
    for found, _ in cuts.values():
        if not found.name:
            _label(labels, found.span, 0)
    quoted = [line for line in cuts if cuts[line][0].quotes]
    for number, text in enumerate(code.texts, 2):
        if labels[text.first] == 0:
            _label(labels, text, number)
            for line in quoted:
                if text.first <= line <= text.last and (shown := code.paragraph(line)):
                    _label(labels, shown, 0)
    filled = [number for number in range(1, total + 1) if code.lines[number - 1].strip()]
    part, parts = 0, []
    last = -1
    for number in filled:
        part += labels[number] != last or number in cuts or number in opened
        last = labels[number]
        parts.append((part, number))
    for _, group in groupby(parts, key=lambda pair: pair[0]):
        numbers = [number for _, number in group]
        span = Span(numbers[0], numbers[-1])
        _, notes = cuts.get(span.first, (None, ()))
        folded = _summary(code, known, span) if labels[span.first] else ""
        yield Section(notes, span, "" if folded else opened.get(span.first, ""), folded)


def _owners(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _label(labels: list[int], span: Span, label: int) -> None:
    labels[span.first : span.last + 1] = [label] * (span.last - span.first + 1)


def _summary(code: Code, known: Sequence[Definition], span: Span) -> str:
    """The names that are defined in some lines, else the first words there."""
    inside = [d for d in known if span.first <= d.line <= span.last and d.kind != "constant"]
    outer = {d.qualname for d in inside}
    names = [n for n in outer if n and not any(owner in outer for owner in _owners(n))]
    names.sort(key=lambda name: code.spans[name].first if name in code.spans else 0)
    if names:
        return ", ".join(names[:_NAMES]) + ", …" * (len(names) > _NAMES)
    words = re.sub(r"^\s*[rRuUbB]{0,2}(\"{3}|'{3}|\"|')\s*", "", code.text(span)).split("\n")[0]
    return words.strip()[:_LETTERS] or code.lines[span.first - 1].strip()[:_LETTERS] or "…"


def refreshed(source: SourceFile, file: SourceFile, report: Report) -> tuple[str, list[Found]]:
    """The file of notes with the digests of today, and the blocks without a place.

    A note whose code has changed gets both digests; who has read it again leaves the last one.
    """
    _, rest, taken = split_front_matter(file.text, report, (file.display, 1, 0))
    _, blocks = read_blocks(rest, translation=False)
    code, lines, lost = Code(source), file.text.split("\n"), []
    for block in blocks:
        if block.place == REFERENCE:
            continue
        found = code.find(block)
        if found.message:
            lost.append(replace(found, block=replace(block, head=block.head + taken)))
        elif block.text:
            digest = digest_of(code.text(found.span))
            lines[block.head + taken - 1] = head_of(block.place, digest, block.hash)
    return "\n".join(lines), lost


def begun(module: Module, names: Sequence[str]) -> str:
    """Blocks without text, for the definitions of a module: those named, else the public ones."""
    public = [d.qualname for d in module.definitions if d.kind in ("class", "function", "method")]
    public = [name for name in public if module.is_public(name)]
    return "".join(f"\n# {name}\n" for name in names or public)
