"""What a preview shows of a definition."""

import pytest
from pylit_sources import draft, parse

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
        # There are neither links nor anchors in it.
        ("# See [it](https://a.org) and `g`.[^1]\n#\n# [^1]: Note.\nf = g = 1",
         'See it and <code>g</code>.<sup class="footnote-ref">[1]</sup>'),
    ],
)  # fmt: skip
def test_a_preview_shows_the_first_paragraph(text, note):
    assert shown(text)[1] == (note and f"<p>{note}</p>")


def test_a_preview_shows_arguments_and_the_summary_of_a_module():
    text = "# * `x`: it\n#\n# More.\nf = 1"
    assert shown(text)[1] == "<ul>\n<li><code>x</code>: it</li>\n</ul>"
    summary = '"""\n---\nsummary: A *sum*.\n---\nMore.\n"""'
    assert shown(summary, "")[1] == "<p>A <em>sum</em>.</p>"
    assert shown('"""What it is.\n\nMore.\n"""', "")[1] == "<p>What it is.</p>"
