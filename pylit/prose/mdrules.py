"""Rules of our own for the Markdown parser, beside those of mathematics."""

import re
from collections.abc import Callable

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

InlineRule = Callable[[StateInline, bool], bool]
BlockRule = Callable[[StateBlock, int, int, bool], bool]

ANCHOR = re.compile(r"""<a\s+(?:id|name)=(["'])([^"'\s<>]+)\1\s*>\s*</a>""")
SUMMARY = re.compile(r"<summary>(?P<summary>.*)</summary>", re.IGNORECASE)
DETAILS = re.compile(rf"<details(?P<open> open)?>\s*(?:{SUMMARY.pattern})?", re.IGNORECASE)
PROMPT = re.compile(r">>>(?:\s|$)")
TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)")
#: Elements of HTML and of the pictures inside it that prose may hold.
ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        """
        a abbr address article aside audio b bdi bdo blockquote br button canvas caption circle
        cite code col colgroup data dd defs del desc details dfn div dl dt ellipse em figcaption
        figure footer g h1 h2 h3 h4 h5 h6 header hr i img input ins kbd label li line
        lineargradient main mark marker math meter nav ol option output p path picture polygon
        polyline pre progress q rect rp rt ruby s samp section select small source span stop
        strong style sub summary sup svg symbol table tbody td template text textpath tfoot th
        thead time title tr track tspan u ul use var video wbr
        """,
    )
)


def anchor(state: StateInline, silent: bool) -> bool:
    """``<a id="name"></a>``, which marks a place; understood in everybody's notes."""
    match = ANCHOR.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("anchor", "", 0)
        token.content = match[2]
    state.pos = match.end()
    return True


def doctest(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """An interactive session, up to a blank line: ``>>>`` is a prompt, not three quotations."""
    if state.is_code_block(start_line) or not PROMPT.match(_line(state, start_line)):
        return False
    if silent:
        return True
    end = start_line + 1
    while end < end_line and not state.isEmpty(end) and state.sCount[end] >= state.blkIndent:
        end += 1
    token = state.push("fence", "code", 0)
    token.info, token.map = "pycon", [start_line, end]
    token.content = state.getLines(start_line, end, state.sCount[start_line], False) + "\n"
    state.line = end
    return True


def details(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """``<details><summary>…</summary>`` up to its ``</details>``, for notes without raw HTML.

    One that is not closed stays text, so that no note can swallow the rest of its page.
    """
    opening = (
        None if state.is_code_block(start_line) else DETAILS.fullmatch(_line(state, start_line))
    )
    end = _end_of_details(state, start_line, end_line) if opening else 0
    if opening is None or not end:
        return False
    if silent:
        return True
    body, summary = start_line + 1, opening["summary"]
    below = SUMMARY.fullmatch(_line(state, body)) if summary is None else None
    if below:
        body, summary = body + 1, below["summary"]
    token = state.push("details_open", "details", 1)
    token.block, token.map = True, [start_line, end + 1]
    token.meta["open"] = bool(opening["open"])
    state.push("summary_open", "summary", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = summary or "Details", [body - 1, body], []
    state.push("summary_close", "summary", -1)
    outer, state.lineMax = state.lineMax, end
    state.md.block.tokenize(state, body, end)
    state.lineMax = outer
    state.push("details_close", "details", -1).block = True
    state.line = end + 1
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()


def _end_of_details(state: StateBlock, start_line: int, end_line: int) -> int:
    """The line that closes what the first one opens; 0 if none does.

    Found for all lines in one pass and remembered: thousands may be open at once.
    """
    known = state.env.setdefault("details", {}).setdefault((end_line, state.blkIndent), {})
    if start_line not in known:
        waiting: list[int] = []
        for line in range(start_line, end_line):
            text = _line(state, line)
            # Outside of the list or quotation that they began in, nothing can close them.
            if text and state.sCount[line] < state.blkIndent:
                break
            if DETAILS.fullmatch(text):
                waiting.append(line)
                known[line] = 0
            elif text.lower() == "</details>" and waiting:
                known[waiting.pop()] = line
    return int(known.get(start_line, 0))


def known_element(text: str, pos: int) -> bool:
    """Whether the tag at `pos` is one of HTML: ``<T>`` and ``<module>`` are words of a programmer.

    What is no tag, such as a comment, counts as known; so does an element with a hyphen, which an
    author can only mean as one of their own.
    """
    match = TAG.match(text, pos)
    return match is None or match[1].lower() in ELEMENTS or "-" in match[1]


def known_inline(rule: InlineRule) -> InlineRule:
    """A rule for raw HTML in a line, for elements that exist."""
    return lambda state, silent: known_element(state.src, state.pos) and rule(state, silent)


def known_block(rule: BlockRule) -> BlockRule:
    """A rule for blocks of raw HTML, for elements that exist."""

    def wrapped(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        begin = state.bMarks[start_line] + state.tShift[start_line]
        return known_element(state.src, begin) and rule(state, start_line, end_line, silent)

    return wrapped


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
