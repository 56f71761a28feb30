"""The block of YAML, fenced by ``---``, that may open a page or a module.

    ---
    title: Multi-head attention
    summary: >
      Folded over several lines, as YAML does it, and `|` keeps the lines apart.
    ---

Every value is text: ``no`` stays ``no``, and ``1.10`` stays ``1.10``.
"""

import re

import yaml

from pylit.diagnostics import Report

_KEY = re.compile(r"[A-Za-z_][\w.-]*[ \t]*:(?:[ \t]|$)")


def split(
    text: str,
    report: Report,
    path: str = "",
    first_line: int = 1,
    column: int = 0,
    *,
    own: bool = True,
) -> tuple[dict[str, str], str, int]:
    """Take the front matter off `text`: its values, the rest, and how many lines were taken.

    Line 0 of the rest is line `n` of `text`. Blank lines may stand before the opening ``---``,
    which may also be a horizontal rule: it opens front matter only if a key follows it.
    Without front matter the result is ``({}, text, 0)``. Faults are reported as if line 0 of `text`
    stood on `first_line` of `path`, `column` characters from the left.
    """
    lines = text.split("\n")
    opening = next((i for i, line in enumerate(lines) if line.strip()), 0)
    below = range(opening + 1, len(lines))
    key = next((lines[i] for i in below if lines[i] and not lines[i].startswith("#")), "")
    if lines[opening].rstrip() != "---" or not _KEY.match(key):
        return {}, text, 0
    closing = next((i for i in below if lines[i].rstrip() in ("---", "...")), -1)
    values: dict[str, str] = {}
    fault = None
    try:
        # Without types, so that what looks like a number or a date stays the text that it is.
        found = yaml.load("\n".join(lines[opening + 1 : max(closing, 0)]), yaml.BaseLoader) or {}
        values = {key: value.strip() for key, value in found.items() if isinstance(value, str)}
        if closing < 0:
            fault = opening, "front matter is never closed", "end it with a line `---`"
        elif other := next(iter(found.keys() - values.keys()), ""):
            fault = opening, f"`{other}` is not text", "put its value in quotes"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = opening + 1 + min(mark.line if mark else 0, closing - opening - 2)
        message = f"it is not YAML: {getattr(error, 'problem', error)}"
        fault = line, message, "write `key: value`, with quotes around a colon"
    if fault:
        index, message, hint = fault
        place = path, first_line + index, column + 1
        report.fault(own, place, "front-matter", message, hint, " " * column + lines[index])
    return values, "\n".join(lines[closing + 1 :]), closing + 1
