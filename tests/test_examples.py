"""The programs shown in notes, on prose pages and in the README run as they stand.

A fenced block of Python that begins with an import is a whole program: it is executed in
a namespace of its own, and its assertions speak for themselves.
"""

from pathlib import Path

import pytest
import torch
from shown_programs import blocks, is_program

ROOT = Path(__file__).parents[1]
SHOWN = [
    *sorted((ROOT / "labml_nn").rglob("*.py")),
    *sorted((ROOT / "docs_src/pages").glob("*.md")),
    ROOT / "README.md",
]


PROGRAMS = [
    pytest.param(code, id=f"{path.relative_to(ROOT).as_posix()}:{number}")
    for path in SHOWN
    for number, code in blocks(path.read_text(encoding="utf-8"))
    if is_program(code)
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_program(code):
    torch.manual_seed(0)
    exec(compile(code, "example", "exec"), {"__name__": "example"})


def test_programs_are_found_in_docstrings_and_in_comments():
    text = "    ```python\n    import a\n\n    # why\n    a.b()\n    ```\n"
    comment = "# ```python\n# import c\n#\n# c.d(\n#     e)\n# ```\n"
    found = [(1, "import a\n\n# why\na.b()"), (7, "import c\n\nc.d(\n    e)")]
    assert [*blocks(text + comment)] == found and len(PROGRAMS) > 50
