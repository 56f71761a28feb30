"""What a preview shows of a definition."""

import pytest
from pylit_sources import draft, golden_cases, parse

from pylit.notes.tex import Rendered
from pylit.pages.previews import previews
from pylit.source.names import targets


def shown(text, name=".f"):
    """The code and the note of a definition of ``pkg.mod``."""
    module = parse(text)
    found = targets(module, "pkg/mod.html")

    def typeset(tex, display):
        return Rendered(f"<m>{tex}</m>")

    return dict(previews(found.values(), draft(module), typeset))[f"pkg.mod{name}"]


def test_a_preview_shows_the_signature():
    signature, note = shown("def f(x: int) -> int:\n    return x\n")
    assert signature.startswith('<span class="hk">def</span> <span class="hd">f</span>(')
    assert note == ""
    assert shown("class C(nn.Module): ...", ".C")[0].startswith('<span class="hk">class</span>')
    assert shown("", "")[0] == "pkg.mod"


@pytest.mark.parametrize(("text", "expected"), golden_cases("previews"))
def test_a_preview_shows_the_first_paragraph_of_a_note(text, expected):
    assert shown(text)[1] == expected.rstrip("\n")


def test_of_a_module_it_shows_the_summary():
    text = '"""\n---\nsummary: A *sum*.\n---\nMore.\n"""'
    assert shown(text, "")[1] == "<p>A <em>sum</em>.</p>"
    assert shown('"""What it is.\n\nMore.\n"""', "")[1] == "<p>What it is.</p>"
