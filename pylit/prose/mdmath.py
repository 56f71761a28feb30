r"""Mathematics in Markdown: ``$x$``, ``\(x\)``, ``$$x$$`` and bare ``\begin{align} … \end{align}``.

The rules run before those of Markdown, so that nothing inside a formula is taken for emphasis or
an escape. What a dollar sign means is guessed the way pandoc does it, with care for shells: ``$5``,
``$HOME/$PATH`` and ``a $ b`` stay text.

Tokens: ``math_inline`` and ``math_block``, their TeX in `content`; for the first, ``meta["at"]`` is
where in the text of the block it begins, and ``meta["display"]`` how it is shown.
"""

import re

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

#: Environments that are formulas by themselves, and those that people write without dollars.
ENVIRONMENTS = (
    "align|alignat|aligned|alignedat|array|bmatrix|Bmatrix|cases|dcases|eqnarray|equation|flalign|"
    "gather|gathered|matrix|multline|pmatrix|smallmatrix|split|subequations|vmatrix|Vmatrix"
)
BEGIN = re.compile(rf"\\begin\{{((?:{ENVIRONMENTS})\*?)\}}")
DOLLAR = re.compile(r"(?<!\\)(?:\\\\)*\$")
#: ``$HOME/`` before ``$PATH``: capitals like a shell variable's, and then another name.
SHELL = re.compile(r"\{?[A-Z_][A-Z0-9_]+\}?[^\s\\{}^=]*")
BLOCK_END = ("paragraph", "reference", "blockquote", "list", "footnote_def")


def math_inline(state: StateInline, silent: bool) -> bool:
    """A formula within a line of text."""
    found = inline_span(state.src, state.pos, state.posMax)
    if found is None:
        return False
    start, stop, end, display = found
    if not silent:
        token = state.push("math_inline", "", 0)
        written = state.src[start:stop]
        token.content = written.strip()
        token.meta = {"at": start + written.index(token.content), "display": display}
    state.pos = end
    return True


def inline_span(text: str, pos: int, limit: int) -> tuple[int, int, int, bool] | None:
    """First and last offset of the TeX at `pos`, the offset after its end mark, and its kind."""
    if text.startswith("$$", pos):
        stop = text.find("$$", pos + 2, limit)
        return (pos + 2, stop, stop + 2, True) if text[pos + 2 : max(stop, 0)].strip() else None
    if text.startswith("$", pos):
        return dollar_span(text, pos, limit)
    if text.startswith("\\(", pos):
        stop = text.find("\\)", pos + 2, limit)
        return (pos + 2, stop, stop + 2, False) if text[pos + 2 : max(stop, 0)].strip() else None
    begin = BEGIN.match(text, pos, limit)
    if begin is not None:
        stop = environment_end(text, pos, begin[1])
        return (pos, stop, stop, True) if 0 < stop <= limit else None
    return None


def dollar_span(text: str, pos: int, limit: int) -> tuple[int, int, int, bool] | None:
    """A formula between single dollars, where that is what they mean."""
    before, after = text[pos - 1 : pos] if pos else "", text[pos + 1 : pos + 2]
    if before.isalnum() or not after or after.isspace():
        return None
    match = DOLLAR.search(text, pos + 1, limit)
    if match is None:
        return None
    stop = match.end() - 1
    tex, following = text[pos + 1 : stop], text[stop + 1 : stop + 2]
    if tex[-1:].isspace() or following.isdigit() or following == "$" or "`" in tex:
        return None
    if (following.isupper() or following in ("_", "{")) and SHELL.fullmatch(tex):
        return None
    return pos + 1, stop, stop + 1, False


def environment_end(text: str, pos: int, name: str) -> int:
    r"""Offset after the ``\end`` of the environment that begins at `pos`; -1 when it has none."""
    depth = 0
    for match in re.finditer(rf"\\(begin|end)\{{{re.escape(name)}\}}", text[pos:]):
        depth += 1 if match[1] == "begin" else -1
        if depth == 0:
            return pos + match.end()
    return -1


def math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A display formula on lines of its own, without the marks of the quotation it may be in."""
    if state.is_code_block(start_line):
        return False
    first = state.bMarks[start_line] + state.tShift[start_line]
    begin = BEGIN.match(state.src, first)
    if begin is None and not state.src.startswith("$$", first):
        return False
    if silent and inside_formula(state, first):
        return False
    name = begin[1] if begin is not None else ""
    text = formula_text(state, start_line, end_line, name)
    if text is None:
        state.env.setdefault("unclosed", {})[start_line] = begin[0] if begin is not None else "$$"
        return False
    start, stop = (0, environment_end(text, 0, name)) if name else (2, text.index("$$", 2))
    rest = text[stop if name else stop + 2 :]
    if rest.strip() or not text[start:stop].strip():
        return False
    if silent:
        return True
    state.line = start_line + text.count("\n") + 1
    token = state.push("math_block", "", 0)
    token.block = True
    token.content = text[start:stop]
    token.map = [start_line, state.line]
    return True


def formula_text(state: StateBlock, start_line: int, end_line: int, name: str) -> str | None:
    """The lines up to the one that closes environment `name` or, without a name, the ``$$``.

    None when nothing closes it. A blank line ends what stands between dollars, unclosed, unless an
    environment is open: there, blank lines only make the source easier to read.
    """
    lines: list[str] = []
    depth = 0
    begins, ends = (f"\\begin{{{name}}}", f"\\end{{{name}}}") if name else ("\\begin{", "\\end{")
    closing = ends if name else "$$"
    if state.src.find(closing, state.bMarks[start_line] + state.tShift[start_line] + 2) < 0:
        return None
    for line in range(start_line, end_line):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
        outside = lines and text and state.sCount[line] < state.blkIndent
        if outside or (not name and depth <= 0 and not text.strip()):
            return None
        depth += text.count(begins) - text.count(ends)
        lines.append(text)
        if (depth <= 0 and name) or (not name and "$$" in (text if len(lines) > 1 else text[2:])):
            return "\n".join(lines)
    return None


def inside_formula(state: StateBlock, stop: int) -> bool:
    """Whether the paragraph that may end at offset `stop` has opened a formula before it."""
    return state.src.count("$$", state.bMarks[state.line], stop) % 2 == 1
