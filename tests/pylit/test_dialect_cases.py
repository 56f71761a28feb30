"""The grammar of each dialect of docstrings, as one table of cases, from its own specification:
what an author writes, and what a reader sees.

What is seen is in a short form, block by block: ``[Args]`` is the title of a section, and
``x int = text`` a term with its type and description; ``<code>`` is a block of code, ``# Title`` a
headline, ``* item`` an item of a list, and ``(Note) text`` an alert. The cases of a dialect are a
file of ``golden/dialects``: a docstring, ``=>``, and its blocks, a line each; ``====`` parts cases.
"""

import re
from html import unescape
from pathlib import Path

import pytest
from note_tools import render

from pylit.notes.dialects import dialect_of

GOLDEN = Path(__file__).parent / "golden/dialects"


#: Tags, and what they are in the short form. A paragraph goes on where a term or an item begins.
SHORT = {
    r'<p class="label">(.*?)</p>': r"\n[\1]",
    r'<p class="markdown-alert-title">(.*?)</p>\s*(<p>)?': r"\n(\1) ",
    r"</dt>\s*<dd>\s*(<p>)?": " = ",
    r"<li>\s*(<p>)?": r"\n* ",
    r"<h\d[^>]*>": r"\n# ",
    r"<hr[^>]*>": r"\n--",
    r"<pre.*?>(.*?)\s*</code></pre>": "\n\ue000\\1\ue001",
    r"<(p|dt|summary|div)\b[^>]*>": r"\n",
    r"<[^>]*>": "",
}


def seen(text: str, dialect: str) -> list[str]:
    """What a reader sees of a docstring, in the short form."""
    shown = render(text.strip("\n"), docstrings=dialect, own=False).html.replace("\n", " ")
    for tags, short in SHORT.items():
        shown = re.sub(tags, short, shown)
    shown = unescape(shown).replace("\ue000", "<").replace("\ue001", ">")
    blocks = (" ".join(block.split()).removesuffix(" =") for block in shown.split("\n"))
    return [*filter(None, blocks)]


def cases(dialect: str) -> list[tuple[str, list[str]]]:
    text = (GOLDEN / f"{dialect}.txt").read_text("utf-8")
    parted = (one.partition("=>\n") for one in text.split("====\n"))
    return [(docstring, blocks.splitlines()) for docstring, _, blocks in parted]


CASES = [(name, *case) for name in ("google", "numpy", "sphinx") for case in cases(name)]


@pytest.mark.parametrize(("dialect", "text", "blocks"), CASES)
def test_what_a_reader_sees(dialect: str, text: str, blocks: list[str]) -> None:
    assert seen(f"\n{text}", dialect) == blocks


def test_each_of_these_docstrings_is_recognised() -> None:
    # A section that no specification knows gives no docstring away.
    others = [text for name, text, _ in CASES if dialect_of(text.strip("\n"), "auto") != name]
    assert all("Shape:" in text for text in others), others
