"""Symbols of a table in formulas: which are the same, what is marked, and that nothing moves."""

import re
import string
from contextlib import closing
from pathlib import Path

import pytest

from pylit.model import Formula
from pylit.notes.symbols import Symbol, marked, read_symbol
from pylit.notes.tex import FONT_FOLDER, MathRenderer, typeset_formula

GOLDEN = Path(__file__).parent / "golden/formulas.txt"
MARK = re.compile(r"\\class\{(\w+)\}\{((?:\\[a-z]+ ?)?(?:\{\w+\}|\w*))\}")


def table(*symbols):
    """Symbols with their own TeX as class; ``d_k = d_k`` gives one the name of its variable."""
    found = []
    for text in symbols:
        tex, _, variable = text.partition(" = ")
        symbol = read_symbol(tex, "y", [variable])
        assert symbol is not None, text
        found.append(Symbol(re.sub(r"\W", "", tex), symbol.atoms, symbol.literal))
    return found


def shown(tex, *symbols):
    """A formula with its symbols in guillemets; with several symbols, each with its class."""
    result = marked(tex, table(*symbols))
    mark = r"«\2»" if len(symbols) == 1 else r"«\1:\2»"
    assert marked(tex, []) == ""
    return MARK.sub(mark, result)


#: A symbol, and a formula with its marks in guillemets.
MARKED = r"""
Q; «Q»
Q; «Q»_{tbhk} + «Q»_t + «Q»_{t-1} + «Q»_{<t} + «Q»_1
Q; «Q»_{ts'} «Q»_{s(t)} «Q»_{w_t} «Q»_{T,S}
Q; «Q»^2 «Q»^{-1} «Q»^{l+1} «Q»_{T-1}
Q; \frac{«Q» K^\top}{\sqrt{«Q»}}
Q; \begin{align} a &= «Q» \\[2pt] b &= «Q» \end{align}
Q; \underbrace{«Q»}_{\text{Q}}
Q; e^{«Q»_t} + 2^{-«Q»}
W^Q; «W»^Q_h W W_h W^K
x_t^l; «x»_t^l «x»^{l-1}_{t+1} «x»_j^L «x»^2_0
x_t^l; x_t x^l x X_t^l «x»_t^l{}'
m_t; «m»_t «m»_{t-\tau} «m»_{T-1} «m»_0 m «m»_t^l
h_0; «h»_0 h_1 h «h»_{0}
\sigma^2; «\sigma»^2 \sigma \sigma^3
\hat{x}; «\hat{x}»_t «\hat x» \hat{y} x
PE; «P»«E»_{p,2i} «P» «E»_p P
K_{<t}; «K»_{<t} K_{<s} K_t K
d_k = d_k; «d»_k d_v d «d»_k^2
d_k = width; «d»_k «d»_v d
"""


@pytest.mark.parametrize("line", MARKED.strip().split("\n"))
def test_a_symbol_is_found_with_any_index_but_those_of_the_table(line):
    symbol, expected = line.split("; ")
    assert shown(re.sub("[«»]", "", expected), symbol) == expected


@pytest.mark.parametrize(
    "tex",
    [
        "Q'", "Q''", "Q_t'", "W^Q", "W_Q", "x^{Q}", "Q^K", "Q_K", r"Q_{\text{max}}", r"Q^{(1)}",
        r"\hat{Q}", r"\hat Q", r"\mathbf{Q}", r"\mathrm{Q}", r"\text{Q}", r"\operatorname{Q}",
        r"\operatorname*{Q}_x", r"\mathrm{Q}_t", r"\tag{Q}", r"\color{Q} x", r"\unknown{Q}{Q}",
        r"\frac Qx", r"\sqrt Q", r"\sqrt[Q]{x}", r"\def\a{Q} Q", r"\verb|Q|", "{Q",
        r"\class{a}{Q}", r"\begin{CD} Q @>Q>> x \end{CD}", r"\begin{Q", "q", r"\Q",
        "Q}", "Q^", r"\hat", "Q^*", "Q_{Kt}",
    ],
)  # fmt: skip
def test_what_is_no_such_symbol_or_in_doubt_is_left_alone(tex):
    assert marked(tex, table("Q")) == ""


def test_what_says_more_wins_and_a_draw_is_nobodys():
    both = ("x_t^0", "x_t^l", "x")
    assert shown("x^0_t x_t^1 x_t x", *both) == "«x_t0:x»^0_t «x_tl:x»_t^1 «x:x»_t «x:x»"
    assert shown("PE P", "P", "PE") == "«PE:P»«PE:E» «P:P»"
    assert shown("Q % Q\n + Q", "Q") == "«Q» % Q\n + «Q»", "a comment ends with its line"
    assert shown("d_k d_v d_j", "d_k", "d_v") == "«d_k:d»_k «d_v:d»_v d_j"


def plain(html):
    """The HTML of a formula without marks."""
    return re.sub(r' class="y\d+"|\by\d+ (?=[\w-])', "", html)


@pytest.fixture(scope="module")
def maths():
    if not FONT_FOLDER.is_dir():
        pytest.skip("npm packages are not installed")
    with closing(MathRenderer(None)) as renderer:
        yield renderer


def test_marks_change_nothing_but_classes(maths):
    """Every letter of every formula marked: the same elements, sizes and MathML, and no error."""
    greek = r"\alpha \tau \sigma \omega \hat{x} \vec{v}"
    names = [*string.ascii_letters, *greek.split()]
    symbols = [s for i, name in enumerate(names) if (s := read_symbol(name, f"y{i}"))]
    formulas = [
        Formula(tex, display, 1, 1, marked(tex, symbols))
        for tex in GOLDEN.read_text(encoding="utf-8").splitlines()
        for display in (True, False)
    ]
    maths.submit((f.tex, f.display) for f in formulas)
    maths.submit((f.marked, f.display) for f in formulas if f.marked)
    compared = 0
    for formula in formulas:
        bare = maths.result(formula.tex, formula.display)
        if formula.marked and not bare.error:
            result = typeset_formula(formula, maths.result)
            assert plain(result.html) == bare.html, formula.marked
            assert result.css == bare.css
            compared += result.html != bare.html
    assert compared > 60


def test_marks_are_seen_and_not_heard(maths):
    tex = r'Q_{t} < \text{"\&"}'
    formula = Formula(tex, False, 1, 1, marked(tex, [read_symbol("Q", "y1")]))
    html = typeset_formula(formula, maths.result).html
    seen, heard = html.split("<math>")
    assert '<mjx-c class="y1 ' in seen and "y1" not in heard
    assert 'data-tex="Q_{t} &lt; \\text{&quot;\\&amp;&quot;}"' in seen and "\\class" not in seen
