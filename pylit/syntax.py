r"""What notes may hold beyond Markdown: rules for the parser, each of which makes a kind of token.

Mathematics is ``$x$``, ``\(x\)``, ``$$x$$`` and bare ``\begin{align} … \end{align}``. Its rules run
before those of Markdown, so that nothing inside a formula is taken for emphasis or an escape. What
a dollar sign means is guessed the way pandoc does it, with care for shells: ``$5``, ``$HOME/$PATH``
and ``a $ b`` stay text.

Citations have pandoc's syntax as well, ``[@vaswani2017attention, §3.2.1]``: several works share
brackets, ``[@a; @b, §2]``, and a sign before a key leaves out the authors, for a sentence that has
named them: "Elman ([-@elman1990finding]) gave it a memory".
"""

import re
from collections.abc import Callable

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

InlineRule = Callable[[StateInline, bool], bool]

#: What a citation looks like, and each of the parts between semicolons.
BRACKETS = re.compile(r"\[(-?@[^\[\]]+)\](?![(\[])")
PART = re.compile(
    r"\s*(?P<bare>-?)@(?P<key>[A-Za-z](?:[\w.:-]*\w)?)(?:\s*,\s*(?P<place>[^;]*[^;\s]))?\s*"
)

#: Environments that are formulas by themselves, and those that people write without dollars.
_ENVIRONMENTS = (
    "align|alignat|aligned|alignedat|array|bmatrix|Bmatrix|cases|dcases|eqnarray|equation|flalign|"
    "gather|gathered|matrix|multline|pmatrix|smallmatrix|split|subequations|vmatrix|Vmatrix"
)
_BEGIN = re.compile(rf"\\begin\{{((?:{_ENVIRONMENTS})\*?)\}}")
_DOLLAR = re.compile(r"(?<!\\)(?:\\\\)*\$")
#: ``$HOME/`` before ``$PATH``: capitals like a shell variable's, and then another name.
_SHELL = re.compile(r"\{?[A-Z_][A-Z0-9_]+\}?[^\s\\{}^=]*")
#: Formulas of a note that nothing closes; behind them none is looked for, as each costs a search.
MOST = 100
_ANCHOR = re.compile(r"""<a\s+(?:id|name)=(["'])([^"'\s<>]+)\1\s*>\s*</a>""")
_PROMPT = re.compile(r">>>(?:\s|$)")


def anchor(state: StateInline, silent: bool) -> bool:
    """``<a id="name"></a>``, which marks a place; understood in everybody's notes."""
    match = _ANCHOR.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("anchor", "", 0).content = match[2]
    state.pos = match.end()
    return True


def citation(state: StateInline, silent: bool) -> bool:
    """Works in brackets."""
    match = BRACKETS.match(state.src, state.pos, state.posMax)
    parts = [PART.fullmatch(part) for part in match[1].split(";")] if match else []
    if match is None or not all(parts):
        return False
    if not silent:
        token = state.push("citation", "", 0)
        token.content = match[0]
        token.meta["parts"] = [part.groupdict() for part in parts if part is not None]
    state.pos = match.end()
    return True


def math_inline(state: StateInline, silent: bool) -> bool:
    """A formula within a line of text; ``meta["display"]`` says how it is shown."""
    found = formula_span(state.src, state.pos, state.posMax)
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


def formula_span(text: str, pos: int, limit: int) -> tuple[int, int, int, bool] | None:
    """First and last offset of the TeX at `pos`, the offset after its end mark, and its kind."""
    for opening, closing in (("$$", "$$"), ("\\(", "\\)")):
        if text.startswith(opening, pos):
            stop = text.find(closing, pos + 2, limit)
            empty = stop < 0 or not text[pos + 2 : stop].strip()
            return None if empty else (pos + 2, stop, stop + 2, opening == "$$")
    if text.startswith("$", pos):
        return _dollar_span(text, pos, limit)
    begin = _BEGIN.match(text, pos, limit)
    if begin is not None:
        depth = 0
        name = re.escape(begin[1])
        for match in re.finditer(rf"\\(begin|end)\{{{name}\}}", text[pos:limit]):
            depth += 1 if match[1] == "begin" else -1
            if depth == 0:
                return pos, pos + match.end(), pos + match.end(), True
    return None


def _dollar_span(text: str, pos: int, limit: int) -> tuple[int, int, int, bool] | None:
    """A formula between single dollars, where that is what they mean."""
    before, after = text[pos - 1 : pos] if pos else "", text[pos + 1 : pos + 2]
    if before.isalnum() or not after or after.isspace():
        return None
    match = _DOLLAR.search(text, pos + 1, limit)
    if match is None:
        return None
    stop = match.end() - 1
    tex, following = text[pos + 1 : stop], text[stop + 1 : stop + 2]
    if tex[-1:].isspace() or following.isdigit() or following == "$" or "`" in tex:
        return None
    if (following.isupper() or following in ("_", "{")) and _SHELL.fullmatch(tex):
        return None
    return pos + 1, stop, stop + 1, False


def math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A display formula on lines of its own, without the marks of the quotation it may be in.

    A blank line ends what stands between dollars, unclosed, unless an environment is open: there,
    blank lines only make the source easier to read.
    """
    first = state.bMarks[start_line] + state.tShift[start_line]
    begin = _BEGIN.match(state.src, first)
    opening = begin[0] if begin else "$$"
    if state.is_code_block(start_line) or not state.src.startswith(opening, first):
        return False
    if silent and state.src.count("$$", state.bMarks[state.line], first) % 2:
        return False  # The paragraph that may end here has opened a formula before.
    closing = opening.replace("begin", "end")
    unclosed = state.env.setdefault("unclosed", {})
    closed = state.src.find(closing, first + 2) > 0 and len(unclosed) < MOST
    lines: list[str] = []
    depth = 0
    for line in range(start_line, end_line if closed else start_line):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]
        outside = lines and text and state.sCount[line] < state.blkIndent
        if outside or (not begin and depth <= 0 and not text.strip()):
            break
        lines.append(text)
        if begin:
            depth += text.count(opening) - text.count(closing)
        else:
            depth += text.count("\\begin{") - text.count("\\end{")
        if depth > 0 if begin else closing not in (text if len(lines) > 1 else text[2:]):
            continue
        whole = "\n".join(lines)
        found = formula_span(whole, 0, len(whole))
        if found is None or whole[found[2] :].strip():
            return False
        if not silent:
            token = _push(state, "math_block", start_line, line + 1)
            token.content = whole[found[0] : found[1]]
        return True
    unclosed[start_line] = opening
    return False


def doctest(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """An interactive session, up to a blank line: ``>>>`` is a prompt, not three quotations."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line) or not _PROMPT.match(state.src, first):
        return False
    if silent:
        return True
    end = start_line + 1
    while end < end_line and not state.isEmpty(end) and state.sCount[end] >= state.blkIndent:
        end += 1
    token = _push(state, "fence", start_line, end)
    token.info = "pycon"
    token.content = state.getLines(start_line, end, state.sCount[start_line], False) + "\n"
    return True


def _push(state: StateBlock, kind: str, first: int, end: int) -> Token:
    """A token for some lines, behind which the parser goes on."""
    token = state.push(kind, "", 0)
    token.block, token.map, state.line = True, [first, end], end
    return token


def located(rule: InlineRule) -> InlineRule:
    """A rule that also tells its tokens where in the text of the block they begin."""

    def wrapped(state: StateInline, silent: bool) -> bool:
        begin, before = state.pos, len(state.tokens)
        done = rule(state, silent)
        if done and not silent:
            for token in state.tokens[before:]:
                token.meta.setdefault("at", begin)
        return done

    return wrapped
