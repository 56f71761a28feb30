"""Section rules, case by case and on arbitrary Python, and the promise that nothing is lost."""

import ast
import textwrap

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pylit_sources import check_whole, golden_cases, listing, parse

from pylit.diagnostics import Report


@pytest.mark.parametrize(("text", "expected"), golden_cases("sections"))
def test_golden(text, expected):
    report = Report()
    module = parse(text, report=report)
    assert module.parsed and not len(report)
    assert listing(module) == expected.rstrip("\n")
    check_whole(module)


# --- arbitrary Python -----------------------------------------------------------------------------

PARTS = [
    *("a = 1", "a = 1  # trailing", "a = 1  # noqa", "a = 1;", "b = 1 + \\\n  2  # trailing"),
    *("größe = f(\n    # split\n    1,\n\n)", "a = [f'{a}', # yes\n # é\n]", '_c = """é\n\n """'),
    *('"""doc"""', "r'''\n  doc\n\n more\n'''", "b'''x'''", "f'''{a}'''", "U'doc'"),
    *('"""doc"""  # noqa', '"""doc"""  # words', '"""doc"""; a', '""" # \'$:é\t"""', '""""""'),
    *("# words", "#", "##", "#######", "# ====", "#: doc", "# noqa", "# fmt: off", "#\t'\\ "),
    *("# a\n  # moved", "# a\n\n# b", "# a\n# b", "", "\f", "    "),
]
HEADERS = [
    *("class a:", "class b(\n# base\nA):", "if a:", "while (\n# until\na\n):"),
    "def größe(x, *, y: int = 1) -> int:  # why",
    "@a\nasync def _c(\n# an é\nx='#',\n):",
    "@(\na)\n@a\n# between\n@b(\n1)\ndef a():",
]


def nested(before: str, header: str, indent: str, body: str) -> str:
    return f"{before}\n{header}\n{textwrap.indent(body, indent)}\n{indent}pass\n"


BLOCKS = st.recursive(
    st.lists(st.sampled_from(PARTS), max_size=5).map("\n".join),
    lambda blocks: st.builds(
        nested, blocks, st.sampled_from(HEADERS), st.sampled_from(["  ", "\t", "    "]), blocks
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(BLOCKS)
def test_arbitrary_python_round_trips(text):
    try:
        ast.parse(text)
    except SyntaxError:
        assume(False)
    module = parse(text)
    assert module.parsed
    check_whole(module)
    names = [section.definition for section in module.sections if section.definition]
    assert len(names) == len(set(names))
    defined = {d.qualname for d in module.definitions if d.kind not in ("module", "constant")}
    # A constant has a section if it has a docstring.
    assert defined <= set(names) <= {d.qualname for d in module.definitions}


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet=st.sampled_from("ab=()[]:\"'#\\\n\t \f\0é;@"), max_size=60) | st.text())
def test_any_text_is_shown_whole(text):
    text = text.replace("\r", "\n")
    report = Report()
    module = parse(text, report=report)
    check_whole(module)
    assert module.parsed == (not len(report))
    assert not report.failed
