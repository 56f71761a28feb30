"""What templates get of a page, and what readers find of it."""

import re
from pathlib import Path

import pytest
from page_tools import SITE
from pylit_sources import draft, parse

from pylit.addresses import paper_url
from pylit.config import SiteConfig
from pylit.diagnostics import Report
from pylit.notes.tex import Rendered, formula_faults
from pylit.pages.draft import TEMPLATE_IDS, Drafter
from pylit.pages.navigation import Place, place
from pylit.pages.render import Renderer, page_view
from pylit.site.inputs import front_matter_faults
from pylit.site.options import THEME
from pylit.source.names import targets

REPOSITORY = Path(__file__).parents[2]
TEXT = '''"""
---
title: A *title* with $t$
summary: A summary with `code` and $s$.
paper: 1706.03762
---

An opening.
"""

class Memory:
    """
    ## What is remembered, $m$

    All of it.
    """

    def read(self) -> int:
        """Read it."""
        return 1

    def _hidden(self) -> int:
        return 2

def helper() -> Memory:
    """Make a `Memory`; see [the notes](../notes.md)."""
    return Memory()
'''


def typeset(tex, display):
    if "bad" in tex:
        return Rendered("?", error="Missing close brace", offset=tex.index("bad"))
    return Rendered(f"<math>{tex}</math>", (f"1rule-{tex}",))


def view_of(text):
    module = parse(text)
    return page_view(draft(module), module, Place(), typeset)


def test_front_matter_and_outline():
    view = view_of(TEXT)
    assert view.draft.title == "A title with t"
    assert view.title == "A <em>title</em> with <math>t</math>"
    assert view.draft.summary == "A summary with code and s."
    assert view.summary == "A summary with <code>code</code> and <math>s</math>."
    assert paper_url(view.draft.front_matter["paper"]) == "https://arxiv.org/abs/1706.03762"
    assert list(view.outline) == [
        (2, "what-is-remembered-m", "What is remembered, <math>m</math>"),
        (3, "Memory.read", "<code>read</code>"),
        (2, "helper", "<code>helper</code>"),
    ]
    # Names stand for what has only small headings, too.
    small = (
        '"""\n# Page\n## A\n### B\n#### C\n"""\ndef f():\n    """F.\n\n    ###### Deep\n    """\n'
    )
    assert [entry[1] for entry in view_of(small).outline] == ["a", "b", "f"]


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("What it is,\nin a line.\n\nMore.", "What it is, in a line."),
        ("word " * 41, "word " * 39 + "word …"),
        ("x" * 300, "x" * 200 + " …"),
    ],
)
def test_without_a_summary_the_first_paragraph_stands_for_it(text, summary):
    assert view_of(f'"""\n{text}\n"""\n').draft.summary == summary


def test_a_draft_stands_while_the_answers_do():
    module = parse("from pkg.other import thing\nthing()\n")
    before, moved, gone = (
        targets(parse(f"{text}\n    pass\n", name="pkg.other"), "pkg/other.html")
        for text in ("def thing():", "\n\n# Moved.\ndef thing(x):", "def things():")
    )
    page, own = draft(module, before), targets(module, "pkg/mod.html")
    assert page.answers
    assert Drafter(own | moved).is_current(page) and draft(module, moved) == page
    assert not Drafter(own | gone).is_current(page) and draft(module, gone).stamp != page.stamp


def test_headings_leave_the_ids_of_the_templates_alone():
    templates = "".join(path.read_text(encoding="utf-8") for path in THEME.glob("*.html"))
    assert {*re.findall(r'\bid="([\w-]+)"', templates)} == TEMPLATE_IDS
    assert 'id="results-section"' in view_of('"""\n## Results\n"""\n').sections[0].note


def test_a_page_knows_its_place():
    config = SiteConfig(title="t", summary="s", base_url="https://e.org/", repository="me/repo")
    module = parse("x = 1\n", name="pkg.sub.mod")
    page, urls = draft(module), {"pkg": "pkg/index.html", "pkg.sub.mod": "…"}
    where, outside = (
        place(page, (module.source.path,) * 2, Path(root), config, urls) for root in ("/", "/else")
    )
    assert where.crumbs == (("pkg", "pkg/index.html"), ("sub", ""), ("mod", ""))
    assert where.source_url == "https://github.com/me/repo/blob/main/src/pkg/sub/mod.py"
    assert outside.source_url == ""


def test_faults_of_the_front_matter(tmp_path):
    module = parse(
        '"""\n---\ntitel: T\npaper: somewhere\nnotebook: none.ipynb\nsummary: s\n---\n"""\n'
    )
    front_matter_faults(draft(module), module.source, tmp_path, report := Report())
    assert {(d.line, d.code) for d in report} == {(line, "front-matter") for line in (3, 4, 5)}
    assert ["`title`" in d.hint for d in report if d.line == 3] == [True]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('"""\nSee $x + bad$.\n"""\n', 2, 10),
        ('"""\n    $$\n    a\n    + bad\n    $$\n"""\n', 4, 7),
        ("def f():\n    # So $bad$.\n    return 1\n", 2, 11),
        ('"""\n---\ntitle: A $bad$\n---\n"""\n', 3, 11),
    ],
)
def test_a_bad_formula_is_found_in_its_source(text, line, column):
    module = parse(text)
    formula_faults(draft(module), module.source, typeset, report := Report())
    (fault,) = report
    assert (fault.path, fault.line, fault.column) == ("pkg/mod.py", line, column)
    assert text.split("\n")[line - 1][column - 1 :].startswith("bad")
    assert "Missing close brace" in fault.message


LESSON = """
r'''
---
title: Lesson
---

{reading}

## In numbers

{reading}
'''
import a
import b
import c


def step(x: int, *, y: "b.Y | None" = None) -> a.X:
    '''
    ## A step
    '''
    check_size(x)
    size: int = x
    return size


# ## Symbols
#
# Words.
#
# ## Exercises
#
# **1.** Why?
"""


def page_of(reading):
    text = LESSON.format(reading=reading)
    return Renderer((THEME,), SITE).page(view_of(text.strip()))


def test_a_long_first_reading_ends_at_a_border_before_the_code():
    page = page_of("word " * 440)
    order = ["<h1>", 'id="in-numbers"', 'id="line-by-line"', "Imports", 'id="step"', 'id="symbols"']
    places = [page.index(part, page.index("<main")) for part in order]
    assert places == sorted(places)
    head, border = page[places[0] : places[1]], page[places[2] : places[3]]
    # Four minutes of words; what only readers of the code need stands here.
    assert "(4 minutes)" in border and "pkg/mod.py" in border and "pkg/mod.py" not in head
    assert 'class="import"' in border and page.count('class="import"') == 1
    assert 'href="#symbols"' in border and 'href="#exercises"' in border
    ways = re.search(r'<nav class="kicker".*?</nav>', page, re.DOTALL)
    assert re.findall(r'href="#([\w-]+)">(\w[\w ]*) <small>(\d+)', ways[0]) == [
        ("main-content", "First reading", "4"),
        ("line-by-line", "Code", "1"),
        ("symbols", "Reference", "1"),
    ]
    # The outline has the same three parts, each with its entries.
    outline = page[page.index('id="outline-title"') : page.index("<main")]
    entries = re.findall(r'<(p|li class="o2")><a href="#([\w-]+)"', outline)
    assert [("  " * tag.startswith("li")) + anchor for tag, anchor in entries] == [
        *("main-content", "  in-numbers", "line-by-line", "  a-step"),
        *("symbols", "  symbols", "  exercises"),
    ]


def test_a_short_introduction_has_no_end():
    page = page_of("word " * 100)
    assert "line-by-line" not in page
    assert page.index('class="import"') < page.index('id="in-numbers"')
