"""The programs that notes show: fenced blocks of Python, in docstrings and in comments."""

import re
from collections.abc import Iterator

#: The opening fence, behind the indentation of a docstring or the ``# `` of a comment.
FENCE = re.compile(r"( *(?:# )?)```python")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of every fenced block of Python."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if fence := FENCE.fullmatch(line):
            prefix = fence[1]
            # An empty line of a comment is a bare `#`.
            body = [
                line.removeprefix(prefix if line.startswith(prefix) else prefix.rstrip())
                for line in lines[number:]
            ]
            yield number, "\n".join(body[: body.index("```")])


def is_program(code: str) -> bool:
    """Whether a block is a whole program: it brings its own imports."""
    return code.startswith(("import ", "from "))
