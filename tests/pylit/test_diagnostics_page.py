"""Every code that a build can print is explained to the one who reads it."""

import re
from pathlib import Path

from pylit.diagnostics import CODES

PAGE = Path(__file__).parents[2] / "docs_src/pages/diagnostics.md"
HEADING = re.compile(
    r"^### `([a-z-]+)` \{#([a-z-]+)\}\n\n(.+?)(?=\n##|\Z)", re.MULTILINE | re.DOTALL
)


def explained() -> dict[str, str]:
    return {code: text for code, _, text in HEADING.findall(PAGE.read_text(encoding="utf-8"))}


def test_each_code_has_a_paragraph() -> None:
    assert set(CODES) - set(explained()) == set(), "say what these mean on the page"
    assert set(explained()) - set(CODES) == set(), "these are no codes any more"
