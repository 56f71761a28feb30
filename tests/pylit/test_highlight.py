"""Code in, linked HTML out: line by line, and the files in ``golden/code``."""

import ast
import re
from html import unescape
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from linked_sources import Project

from pylit.model import Link
from pylit.source.highlight import MAX_LINE_LENGTH, highlight, highlight_block, quiet_spans

GOLDEN = Path(__file__).with_name("golden") / "code"
FILES = {
    "pkg/attention.py": (GOLDEN / "attention.py").read_text(encoding="utf-8"),
    "pkg/utils.py": "from . import masks\ndef clone_module_list(module, n): ...\n",
    "pkg/masks.py": "def causal(seq_len): ...\n",
}


def test_code_becomes_the_golden_html():
    links = Project(FILES).resolver("pkg/attention.py").tokens()
    shown = "\n".join(highlight(FILES["pkg/attention.py"], links, lambda link: link.url))
    assert shown == (GOLDEN / "attention.html").read_text(encoding="utf-8")


def text_of(html):
    """The text of HTML; fails where tags do not close as they opened."""
    opened = []
    for slash, tag in re.findall(r"<(/?)(\w+)", html):
        if slash:
            assert opened.pop() == tag, html
        else:
            opened.append(tag)
    assert not opened, html
    return unescape(re.sub("<[^>]*>", "", html))


LINKS = {
    (1, 4): Link("b.html#Linear", "b.Linear"),
    (2, 0): Link('https://example.org/?a&"b', "nn.Linear", external=True),
    (2, 7): Link("c.html", "c"),
    (3, 5): Link("d.html", "d"),
}


def test_links_identifiers_by_position():
    code = 'x = Linear\nLinear(print)\nf"{a}{b}"'
    assert highlight(code, LINKS, lambda link: link.url) == (
        'x = <a class="x" href="b.html#Linear" data-x="b.Linear">Linear</a>',
        '<a class="x e" href="https://example.org/?a&amp;&quot;b" title="nn.Linear">Linear</a>('
        '<a class="x hb" href="c.html" data-x="c">print</a>)',
        '<span class="hs">f"{</span>a<span class="hs">}{</span>b<span class="hs">}"</span>',
    )


def test_a_very_long_line_is_text():
    line = "x = " + "'<'," * MAX_LINE_LENGTH
    assert highlight(f"def f(): pass\n{line}\nreturn", {(2, 0): Link("a", "a")}, str) == (
        '<span class="hk">def</span> <span class="hd">f</span>(): <span class="hk">pass</span>',
        line.replace("<", "&lt;"),
        '<span class="hk">return</span>',
    )


FRAGMENTS = "&lt;|$|?|`|€|𝄞|\x0b|\x85|\x1c|"
FRAGMENTS += """def f|(|)|:|\n| |\t|'|f'{|}|#|\\|x|class|@|1|<|&|\r|\x0c|   \n|match x|é|\u2028"""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)
CODE = st.lists(st.sampled_from([*FRAGMENTS.split("|"), '"""']), max_size=40).map("".join)
PLACES = st.tuples(st.integers(1, 4), st.integers(0, 12))


@given(
    st.one_of(TEXT, CODE), st.dictionaries(PLACES, st.just(Link("a<b>.html", '<"a">')), max_size=4)
)
@settings(deadline=None, max_examples=150)
def test_the_lines_put_together_are_the_source(code, links):
    lines = highlight(code, links, lambda link: link.url)
    assert "\n".join(map(text_of, lines)) == code


@given(TEXT, st.sampled_from(["python", "bash", "toml", "text", "", "klingon"]))
@settings(deadline=None, max_examples=60)
def test_a_block_keeps_its_text(code, language):
    assert text_of(highlight_block(code, language)) == code


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=3))
def test_quiet_code_has_the_same_text(spans):
    line = 'def f(ä: "int", *b: C) -> D: return "x" + 1'
    found = [(min(span), max(span)) for span in spans]
    (shown,) = highlight(line, {}, str, quiet={1: found})
    assert text_of(shown) == line


QUIET = """\
if fast:
    check_size(x)
    _check_kind(
        x
    )
if slow:
    check_size(x)
    y = check_size(x)
    recheck_size(x)
def größe(é: int, *b: "b.Y | None") -> a.X:
    n: int = 1
"""
#: The same with a bracket around each part that is quiet.
MARKED = """\
[if fast:]
    [check_size(x)]
    [_check_kind(]
        [x]
    [)]
if slow:
    [check_size(x)]
    y = check_size(x)
    recheck_size(x)
def größe(é[: int], *b[: "b.Y | None"]) [-> a.X]:
    n[: int] = 1
"""


def test_annotations_and_checks_are_quiet_and_so_is_an_if_that_only_checks():
    found = highlight(QUIET, {}, str, quiet=quiet_spans(ast.parse(QUIET), QUIET.split("\n")))
    bare = re.sub(r'<span class="h\w">(.*?)</span>', r"\1", "\n".join(found))
    marked = re.sub(r'<span class="q">(.*?)</span>', r"[\1]", bare)
    assert unescape(marked) == MARKED
