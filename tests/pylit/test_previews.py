"""What a preview shows of a definition."""

import pytest
from pylit_sources import draft, parse

from pylit.notes.tex import Rendered
from pylit.pages.previews import previews
from pylit.source.names import targets


def shown(text: str, name: str) -> list[str]:
    """The code and the note of a definition of ``pkg.mod``."""
    module = parse(text)
    found = targets(module, "pkg/mod.html")

    def typeset(tex: str, display: bool) -> Rendered:
        return Rendered(f"<m>{tex}</m>")

    return dict(previews(found.values(), draft(module), typeset))[f"pkg.mod{name}"]


def test_a_preview_shows_the_signature() -> None:
    signature, note = shown("def f(x: int) -> int:\n    return x\n", ".f")
    assert signature.startswith('<span class="hk">def</span> <span class="hd">f</span>(')
    assert note == ""
    assert shown("class C(nn.Module): ...", ".C")[0].startswith('<span class="hk">class</span>')
    assert shown("", "")[0] == "pkg.mod"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('def f():\n    """\n    ## Title\n\n    A `1`.\n\n    2.\n    """', "A <code>1</code>."),
        ("# Above.\n@x\ndef f(): ...", "Above."),
        ('# Above.\ndef f():\n    """Below."""\n    return 1', "Below."),
        ("# Above.\n# fmt: off\ndef f(): ...", "Above."),
        ("# Not mine.\n\ndef f(): ...", ""),
        ("# Above.\nf = 1", "Above."),
        ("# > Said.\n#\n# ```\n# x\n# ```\n#\n# Prose.\nf = 1", "Prose."),
        ("# ## Heading\nf = 1", "Heading"),
        ("# Is $a<b$.\nf = 1", "Is <m>a<b</m>."),
        ("# | Symbol | Code |\n# |---|---|\n# | $x$ | `f` |\n#\n# The $x$ in `f`.\nf = 1",
         "The <m>x</m> in <code>f</code>."),
    ],
)  # fmt: skip
def test_a_preview_shows_the_first_paragraph(text: str, note: str) -> None:
    assert shown(text, ".f")[1] == (note and f"<p>{note}</p>")


def test_a_preview_shows_arguments() -> None:
    text = "# * `x`: it\n#\n# More.\nf = 1"
    assert shown(text, ".f")[1] == "<ul>\n<li><code>x</code>: it</li>\n</ul>"


def test_of_a_module_it_shows_the_summary() -> None:
    assert shown('"""\n---\nsummary: A *sum*.\n---\nMore.\n"""', "")[1] == "<p>A <em>sum</em>.</p>"
    assert shown('"""What it is.\n\nMore.\n"""', "")[1] == "<p>What it is.</p>"


def test_a_preview_holds_no_links_and_no_anchors() -> None:
    text = "# See [it](https://example.org) and `g`.[^1]\n#\n# [^1]: Note.\nf = g = 1"
    note = shown(text, ".f")[1]
    assert "<a" not in note
    assert " id=" not in note
