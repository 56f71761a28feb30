"""Terms: the glossary, and links to it from where a page first uses one."""

import re
from pathlib import Path

import pytest
from note_tools import render
from site_tools import REPOSITORY, build, edit, faults, golden, listing, make_site, read, succeed

from pylit.diagnostics import Report
from pylit.model import Module
from pylit.notes.glossary import SIGN, Term, Terms, read_glossary, term_targets
from pylit.source.pages import read_page

GLOSSARY = """\
---
title: Glossary
---

Some words before.

hidden state | hidden state, hidden states
: What is handed on; see [one](../pkg/one.py), and [two](../pkg/two.py).

key |
: A word with many meanings.

state
: All that is kept, $s$.
"""


TERMS = (
    Term("hidden state", ("hidden state", "hidden states"), "pkg/one.py", 7, "hidden-state"),
    Term("key", (), "", 10, "key"),
    Term("state", ("state",), "", 13, "state"),
)


def parsed(folder: Path) -> tuple[Module, tuple[Term, ...]]:
    """What is read of the glossary in a folder, which has no fault."""
    report = Report()
    page = read_page(folder / "glossary.md", folder, "docs_src", report)
    assert page is not None
    found = read_glossary(page, report)
    assert not len(report)
    return found


def test_terms_have_forms_and_pages_that_explain_them(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    module, terms = parsed(tmp_path)
    assert terms == TERMS
    # Lines stay where they are, or faults would be told at others.
    text = module.sections[0].notes[0].text
    assert text.split("\n")[7 - 4] == '<a id="hidden-state"></a>hidden state'


def linked(text: str, page: str = "pkg/x.py") -> list[tuple[str, str]]:
    """The terms that a note links to, and the words of the links."""
    note = render(text, terms=Terms(term_targets(TERMS)[SIGN], page, "g.html"))
    return re.findall(r'<a class="x g" href="g.html#([^"]*)" data-x>(.*?)</a>', note.html)


@pytest.mark.parametrize(
    ("text", "links"),
    [
        # The first use only, the longest form, a capital at the start of a sentence.
        ("A state and a state.", [("state", "state")]),
        ("The hidden state, the hidden state.", [("hidden-state", "hidden state")]),
        ("| a |\n|---|\n| state |", [("state", "state")]),
        # Whole words.
        ("Upstate, states, state-of, a.state, state's, STATE, in/state", []),
        # Not in code, formulas, headings, links, and lines with raw HTML.
        ("`state`, $state$, [the state](x.html), ![state](x.png)", []),
        ("## The state\n\n    state\n", []),
        ("<b>state</b>", []),
        ("# State\n\nThen a state.", [("state", "state")]),
    ],
)
def test_the_first_use_of_a_term_is_a_link(text: str, links: list[tuple[str, str]]) -> None:
    assert linked(text) == links
    # Not on the page that explains it.
    assert linked(text, "pkg/one.py") == [link for link in links if link[0] == "state"]


ONE = '''"""
---
title: One
summary: About the hidden state.
---

A hidden state is a state.
"""

class One:
    """Its state."""

    def say(self) -> int:
        # Another state.
        return 1
'''
FILES = {
    "docs_src/glossary.md": GLOSSARY,
    "pkg/one.py": ONE,
    "pkg/two.py": '"""Keeps hidden states, and `x`."""\n\nx = 1\n',
}


@pytest.fixture
def explained(tmp_path: Path) -> Path:
    return make_site(tmp_path, FILES)


def searched(root: Path) -> str:
    """What the search finds texts in."""
    return "".join(path.read_text() for path in (root / "site/assets/search").iterdir())


def test_pages_link_to_the_glossary_and_it_to_them_and_links_show_what_terms_mean(explained: Path):
    succeed(explained)
    assert listing(read(explained, "glossary.html")) == golden("glossary")
    one = read(explained, "pkg/one.html")
    link = '<a class="x g" href="../glossary.html#state" data-x>state</a>'
    assert f"A hidden state is a {link}" in one and one.count('class="x g"') == 1
    link = '<a class="x g" href="../glossary.html#hidden-state" data-x>hidden states</a>'
    assert link in read(explained, "pkg/two.html")
    script = read(explained, "assets/previews/glossary.js")
    meaning = "<b>hidden state<\\/b><p>What is handed on; see one, and two."
    assert f'"hidden-state":["","{meaning}' in script and "mjx-container" in script
    # The search has a term with its meaning, formulas in words.
    assert '["state","All that is kept, s.","state","t"]' in searched(explained)
    # Pages are made again when words change, and not when meanings do.
    edit(explained, "docs_src/glossary.md", "All that is kept", "Whatever is kept")
    meant = succeed(explained)
    assert (meant.drafted, meant.rendered) == (1, 1)
    assert "Whatever" in read(explained, "assets/previews/glossary.js")
    edit(explained, "docs_src/glossary.md", "$s$.\n", "$s$.\n\nsay | another\n: To tell.\n")
    succeed(explained)
    assert "#say" in read(explained, "pkg/one.html")
    build(explained, sources=(explained / "pkg",))
    assert not (explained / "site/glossary.html").exists(), "another's package has none"
    assert 'class="x g"' not in read(explained, "pkg/two.html")


def test_a_term_with_code_and_two_meanings_is_shown_as_on_its_page(explained: Path) -> None:
    text = "---\ntitle: G\n---\n\n`x`'s *state* |\n: One [a](../pkg/one.py).\n: Two.\n"
    succeed(make_site(explained, FILES | {"docs_src/glossary.md": text}))
    script = read(explained, "assets/previews/glossary.js")
    name = "<b><code>x<\\/code>’s <em>state<\\/em><\\/b>"
    assert f'["","{name}<p>One a.<\\/p>\\n<p>Two.<\\/p>"]' in script
    assert '"One a. Two.","x’s state","t"]' in searched(explained)


def test_a_glossary_with_a_fault_fails_the_build(explained: Path) -> None:
    text = GLOSSARY.replace("../pkg/two.py", "../pkg/too.py") + "\nlost |\n"
    make_site(explained, FILES | {"docs_src/glossary.md": text})
    outcome = build(explained)
    places = [(8, "link-broken"), (16, "glossary")]
    assert faults(outcome) == [("docs_src/glossary.md", *place) for place in places]
    assert [*outcome.report][1].source_line == "lost |"


def test_our_own_terms_are_in_order_and_each_is_explained_somewhere() -> None:
    _, terms = parsed(REPOSITORY / "docs_src")
    names = [term.name.replace("-", " ").lower() for term in terms]
    assert len(names) >= 40
    assert names == sorted(names)
    assert not [term.name for term in terms if not (REPOSITORY / term.explained).is_file()]
