r"""Syntax of notes beyond Markdown: rules for the parser, each of which makes one type of token.

Mathematics is ``$x$``, ``\(x\)``, ``$$x$$`` and bare ``\begin{align} … \end{align}``. Its rules run
before those of Markdown, so that nothing inside a formula is taken for emphasis or an escape.
Dollar signs are read as pandoc reads them, with care for shells: ``$5``, ``$HOME/$PATH``,
``${dir}/$name`` and ``a $ b`` stay text.

Citations have pandoc's syntax too, ``[@vaswani2017attention, §3.2.1]``: several works share
brackets, ``[@a; @b, §2]``, and a minus before a key leaves out the authors, for a sentence that has
named them: "Elman ([-@elman1990finding]) gave it a memory".
"""

import re
from collections.abc import Callable

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

InlineRule = Callable[[StateInline, bool], bool]

#: A citation, and each of its parts between semicolons.
CITATION = re.compile(r"\[(-?@[^\[\]]+)\](?![(\[])")
CITATION_PART = re.compile(
    r"\s*(?P<bare>-?)@(?P<key>[A-Za-z](?:[\w.:-]*\w)?)(?:\s*,\s*(?P<place>[^;]*[^;\s]))?\s*"
)
#: Unclosed display formulas of a note; after as many, no more are looked for.
MAX_UNCLOSED = 100

#: Environments that need no dollar signs around them.
_ENVIRONMENTS = (
    "align|alignat|aligned|alignedat|array|bmatrix|Bmatrix|cases|dcases|eqnarray|equation|flalign|"
    "gather|gathered|matrix|multline|pmatrix|smallmatrix|split|subequations|vmatrix|Vmatrix"
)
_BEGIN = re.compile(rf"\\begin\{{((?:{_ENVIRONMENTS})\*?)\}}")
_CLOSING = {"$$": "$$", "\\(": "\\)"}
_DOLLARS = re.compile(
    r"""(?<![^\W_])\$(?![\s$])
    (?!\{?[A-Z_][A-Z0-9_]+\}?[^\s\\{}^=$]*\$[A-Z_{])  # $HOME/$PATH
    ((?:\\.|[^\\$`])+)
    (?<!\s)\$(?![\d${])""",
    re.DOTALL | re.VERBOSE,
)
#: Between dollars this is no formula: an amount of money and words; what separates two variables of
#: a shell or a template, ``$prefix/$name``, before a letter; and a whole variable, before another.
_MONEY = re.compile(
    r"\d[\d.,]*[kKMB]?[^\\^_={}]*?\s(?:[a-z]{2,}\b[^\\^_={}]*|(?:US|AU|CA|HK|NZ|SG))\Z"
)
_BETWEEN = re.compile(r".*[/.,:;'\"@=&|<>(\[-]\Z", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_]\w{2,}\Z")
_SUFFIX = re.compile(r"(?:s|th|st|nd|rd|x|[dD])\b")
#: ``$$`` is a variable too, with words up to the next, or one that is no symbol.
_PLAIN = re.compile(
    r"\s*[A-Za-z]{2,}(?:[\s,.]+[A-Za-z]{2,})+\s*\Z|\s+(?:and|as|for|in|is|or|to|with)\s+\Z"
)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_ANCHOR = re.compile(r"""<a\s+(?:id|name)=(["'])([^"'\s<>]+)\1\s*>\s*</a>""")
_PROMPT = re.compile(r">>>(?:\s|$)")
#: Start and end of the TeX, end of the closing mark, and whether the formula is displayed.
_Span = tuple[int, int, int, bool]


def anchor(state: StateInline, silent: bool) -> bool:
    """``<a id="name"></a>``, also in the notes of other packages."""
    match = _ANCHOR.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("anchor", "", 0).content = match[2]
    state.pos = match.end()
    return True


def citation(state: StateInline, silent: bool) -> bool:
    """Works in brackets."""
    match = CITATION.match(state.src, state.pos, state.posMax)
    parts = [CITATION_PART.fullmatch(part) for part in match[1].split(";")] if match else []
    if match is None or not all(parts):
        return False
    if not silent:
        token = state.push("citation", "", 0)
        token.content = match[0]
        token.meta["parts"] = [part.groupdict() for part in parts if part is not None]
    state.pos = match.end()
    return True


def math_inline(state: StateInline, silent: bool) -> bool:
    """A formula within a paragraph, which may be a display formula."""
    span = _formula_span(state.src, state.pos, state.posMax)
    if span is None:
        return False
    if not silent:
        _set_formula(state.push("math_inline", "", 0), state.src, span)
    state.pos = span[2]
    return True


def math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A display formula on lines of its own; an unclosed one is kept in ``env["unclosed"]``."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    begin = _BEGIN.match(state.src, first)
    opening = begin[0] if begin else "$$"
    unclosed = state.env.setdefault("unclosed", {})
    if not state.src.startswith(opening, first) or state.is_code_block(start_line):
        return False
    if len(unclosed) >= MAX_UNCLOSED:
        return False
    if silent and state.src.count("$$", state.bMarks[state.line], first) % 2:
        return False  # The paragraph before has opened a formula, which these dollars close.
    lines = range(start_line, _container_end(state, start_line, end_line))
    text = "\n".join(
        state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]] for line in lines
    )
    span = _formula_span(text, 0, len(text))
    if span is None:
        unclosed[start_line] = opening
        return False
    if text[span[2] :].partition("\n")[0].strip():
        return False
    if not silent:
        token = _push(
            state, "math_block", start_line, start_line + text.count("\n", 0, span[2]) + 1
        )
        token.content, token.children = text, [Token("math_inline", "", 0)]
        _set_formula(token.children[0], text, span)
    return True


def _formula_span(text: str, pos: int, limit: int) -> _Span | None:
    opening = text[pos : pos + 2]
    if closing := _CLOSING.get(opening):
        stop = text.find(closing, pos + 2, limit)
        tex = text[pos + 2 : stop]
        # Blank lines end it, except those of an environment.
        blank = _BLANK_LINE.search(tex)
        ends = blank is not None and "\\begin{" not in tex[: blank.start()]
        plain = opening == "$$" and _PLAIN.match(tex)
        found = stop >= 0 and tex.strip() and not ends and not plain
        return (pos + 2, stop, stop + 2, opening == "$$") if found else None
    if dollars := _DOLLARS.match(text, pos, limit):
        is_text = _is_text(dollars[1], text[dollars.end() : dollars.end() + 4])
        return None if is_text else (*dollars.span(1), dollars.end(), False)
    if begin := _BEGIN.match(text, pos, limit):
        depth = 0
        marks = re.compile(rf"\\(begin|end)\{{{re.escape(begin[1])}\}}")
        for mark in marks.finditer(text, pos, limit):
            depth += 1 if mark[1] == "begin" else -1
            if depth == 0:
                return pos, mark.end(), mark.end(), True
    return None


def _is_text(content: str, after: str) -> bool:
    """Whether dollars around `content` and before `after` are those of prices or variables."""
    if _MONEY.match(content) or (content[0] == after[:1] == "("):
        return True
    before_name = after[:1].isalpha() or after[:1] == "_"
    found = _BETWEEN.match(content) or _VARIABLE.match(content)
    return bool(before_name and found and not _SUFFIX.match(after))


def _set_formula(token: Token, text: str, span: _Span) -> None:
    start, stop, _, display = span
    token.content = text[start:stop].strip()
    token.meta = {"at": text.index(token.content, start), "display": display}


def doctest(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """An interactive session, up to a blank line: ``>>>`` is a prompt, not three quotations."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line) or not _PROMPT.match(state.src, first):
        return False
    if not silent:
        end = _container_end(state, start_line, end_line)
        end = next((line for line in range(start_line, end) if state.isEmpty(line)), end)
        token = _push(state, "fence", start_line, end)
        token.info = "pycon"
        token.content = state.getLines(start_line, end, state.sCount[start_line], False) + "\n"
    return True


def _container_end(state: StateBlock, start_line: int, end_line: int) -> int:
    """The line after a list item or another container that `start_line` is in."""
    for line in range(start_line + 1, end_line):
        if not state.isEmpty(line) and state.sCount[line] < state.blkIndent:
            return line
    return end_line


def _push(state: StateBlock, kind: str, first: int, end: int) -> Token:
    """A token for these lines; the parser continues after them."""
    token = state.push(kind, "", 0)
    token.block, token.map, state.line = True, [first, end], end
    return token


def located(rule: InlineRule) -> InlineRule:
    """A rule whose tokens also hold in ``meta["at"]`` where in the text of the block they begin."""

    def wrapped(state: StateInline, silent: bool) -> bool:
        begin, before = state.pos, len(state.tokens)
        done = rule(state, silent)
        if done and not silent:
            for token in state.tokens[before:]:
                token.meta.setdefault("at", begin)
        return done

    return wrapped
