"""The grammar of each dialect of docstrings, as one table of cases, from its own specification:
what an author writes, and what a reader sees.

What is seen is in a short form, block by block: ``[Args]`` is the title of a section, and
``x int = text`` a term with its type and description; ``<code>`` is a block of code, ``# Title`` a
headline, ``* item`` an item of a list, and ``(Note) text`` an alert. The cases of a dialect are a
file of ``golden/dialects``: a docstring, ``=>``, and its blocks, a line each; ``====`` parts cases.
"""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from note_tools import render

from pylit.notes.dialects import dialect_of

GOLDEN = Path(__file__).parent / "golden/dialects"


class Seen(HTMLParser):
    """The blocks of a note in the short form."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._open: list[str] = []
        self._title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("class") or ""
        opened = self._open[-1:] == ["dd"] and self.blocks[-1].endswith("= ")
        begins = {"dt": "", "li": "* ", "pre": "<", "h1": "# ", "h2": "# ", "h3": "# ", "hr": "--"}
        begins["p"] = "[" if name == "label" else "(" if name == "markdown-alert-title" else ""
        alert = self.blocks and self.blocks[-1].endswith(") ")
        item = self._open[-1:] == ["li"] and self.blocks[-1] == "* "
        if tag in begins and not (tag == "p" and (opened or alert or item)):
            self.blocks.append(begins[tag])
        if tag == "dd":
            self.blocks[-1] += " = "
        if tag == "p":
            self._title = begins["p"]
        if tag not in ("hr", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()
        if tag == "p" and self._title:
            self.blocks[-1] += {"[": "]", "(": ") "}[self._title]
            self._title = ""
        if tag == "pre":
            self.blocks[-1] = f"{self.blocks[-1].rstrip()}>"

    def handle_data(self, data: str) -> None:
        if self._open and (data.strip() or self._open[-1] not in ("dl", "dd", "ul", "div")):
            self.blocks[-1] += data


def seen(text: str, dialect: str) -> list[str]:
    """What a reader sees of a docstring, in the short form."""
    read = Seen()
    read.feed(render(text.strip("\n"), docstrings=dialect, own=False).html)
    blocks = (" ".join(block.split()).removesuffix(" =") for block in read.blocks)
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
