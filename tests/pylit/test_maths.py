"""Formulas typeset by MathJax: what comes out, what is wrong and where, style sheet and fonts."""

import io
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fontTools.ttLib import TTFont

from pylit.model import Formula, formula_slot
from pylit.node.process import NodeError
from pylit.notes.tex import FONT_FOLDER, MathRenderer, Rendered, fill
from pylit.outputs.assets import math_fonts, math_style_sheet

INLINE = False
DISPLAY = True


@pytest.fixture(scope="module")
def maths() -> Iterator[MathRenderer]:
    with closing(MathRenderer(None)) as it:
        yield it


def elements(rendered: Rendered) -> list[dict[str, str]]:
    """The attributes of the elements of a formula, whose HTML is XML as well."""
    return [element.attrib for element in ElementTree.fromstring(rendered.html).iter()]


def test_a_formula_is_seen_heard_and_copied(maths: MathRenderer) -> None:
    outer, visible, *_ = elements(maths.result("a < b_1", INLINE))
    assert outer == {"data-tex": "a < b_1"} and visible["aria-hidden"] == "true"
    assert elements(maths.result("x", DISPLAY))[0]["display"] == "true"


@pytest.mark.parametrize(
    ("tex", "mathml"),
    [
        ("a < b_1", "<mi>a</mi><mo>&lt;</mo><msub><mi>b</mi><mn>1</mn></msub></math>"),
        (r"\mathop{Attention}(Q)", "<mi>Attention</mi><mo>\u2061</mo><mo>(</mo>"),
        (r"{}^{2}x", "<msup><mrow></mrow><mn>2</mn></msup><mi>x</mi></math>"),
        (r"\mathcal{L}", '<mi mathvariant="script">L</mi></math>'),
        (r"\text{if } x", "<mtext>if\xa0</mtext><mi>x</mi></math>"),
        # A number is read after its equation.
        (r"x=y\tag{3}", "<mi>x</mi><mo>=</mo><mi>y</mi></mtd><mtd"),
    ],
)
def test_what_a_screen_reader_gets(maths: MathRenderer, tex: str, mathml: str) -> None:
    seen, _, heard = maths.result(tex, DISPLAY).html.partition("<math")
    assert mathml in heard
    assert "NaN" not in seen and "mlabeledtr" not in heard


def test_nothing_leaves_its_formula_but_the_marks_of_symbols(maths: MathRenderer) -> None:
    tex = r"\class{y1}{Q}\,\class{y22}{K_{ij}} \class{NCM-x}{u} \cssId{main}{y}"
    rendered = maths.result(tex + r"\style{position:fixed; color:red}{x}", INLINE)
    given = elements(rendered)
    classes = [one.get("class", "").split() for one in given]
    assert [sum(name in one for one in classes) for name in ("y1", "y22", "NCM-x")] == [1, 1, 0]
    styles = [one.get("style", "") for one in given]
    assert "color:red" in styles and not any("fixed" in style for style in styles)
    assert not any("id" in one for one in given)
    assert all((FONT_FOLDER / name).is_file() for name in math_style_sheet([rendered])[1])


@pytest.mark.parametrize(
    ("tex", "offset", "message"),
    [
        (r"a + \foo b", 4, r"Undefined control sequence \foo"),
        (r"\href{javascript:x}{y}", 0, r"Undefined control sequence \href"),
        (r"\require{physics}x", 0, r"Undefined control sequence \require"),
        (r"\definecolor{a}", 0, r"Undefined control sequence \definecolor"),
        (r"\text{$\foo$}", 7, r"Undefined control sequence \foo"),
        (r"a+\frac{1}{2", 2, "Missing close brace"),
        (r"a+\sqrt{x_1_2}", 11, "Double subscripts: use braces to clarify"),
        ("a &= b", 2, "Misplaced &"),
        ("\\begin{align}\na &= b \\\\\nc &= \\frac{1\n\\end{align}", 29, "Missing close brace"),
        (r"x \bm{R} \bm{y_1_2} z", 9, "Double subscripts: use braces to clarify"),
        (r"\toggle{a}{b}\endtoggle", 0, r"Undefined control sequence \toggle"),
        (r"x\mathtip{a}{b}", 1, r"Undefined control sequence \mathtip"),
        ('\\char"110000', 0, "MathJax cannot typeset it: Invalid code point 1114112"),
        ("{" * 2000 + "x" + "}" * 2000, 0, "MathJax cannot typeset it: nested too deeply"),
        (r"\sqrt{" * 2000 + "x" + "}" * 2000, 0, "MathJax cannot typeset it: nested too deeply"),
    ],
)
def test_errors_say_what_and_where(maths: MathRenderer, tex: str, offset: int, message: str):
    found = maths.result(tex, DISPLAY)
    assert (found.error, found.offset) == (message, offset)
    assert found.css == ()
    assert found.html.startswith('<code class="math-error">')


def test_formulas_know_nothing_of_one_another(maths: MathRenderer) -> None:
    alone = maths.result(r"\bm{R}_1", INLINE)
    assert not maths.result(r"\newcommand{\z}{z}\def\bm{r}\z \bm", INLINE).error
    assert not maths.result(r"\newenvironment{zz}{(}{)}\begin{zz}x\end{zz}", INLINE).error
    assert maths.result(r"\z", INLINE).error
    assert maths.result(r"\begin{zz}x\end{zz}", INLINE).error
    assert maths.result(r"\bm{R}_1 ", INLINE).html == alone.html.replace("R}_1", "R}_1 ")
    for number in "12":
        assert not maths.result(rf"x\tag{{{number}}}\label{{same}}", DISPLAY).error


def test_every_formula_that_deep_learning_needs(maths: MathRenderer) -> None:
    cases = (Path(__file__).parent / "golden" / "formulas.txt").read_text(encoding="utf-8")
    formulas = [line for line in cases.splitlines() if line]
    maths.submit((tex, DISPLAY) for tex in formulas)
    assert len(formulas) >= 50
    errors = {tex: maths.result(tex, DISPLAY).error for tex in formulas}
    assert not {tex: error for tex, error in errors.items() if error}


def test_formulas_go_where_their_slots_are(maths: MathRenderer) -> None:
    found = [Formula(tex, False, 1, 1) for tex in (r"\frac{a}{b}", r"\sqrt{x}")]
    first, second = (maths.result(formula.tex, INLINE).html for formula in found)
    html = f"<p>{formula_slot(1)} and {formula_slot(0)}</p>"
    shown = fill(html, found, lambda formula: maths.result(formula.tex, INLINE))
    assert shown == f"<p>{second} and {first}</p>"


def test_the_style_sheet_knows_no_order_and_the_large_font_is_cut_once(
    maths: MathRenderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = [maths.result(tex, INLINE) for tex in (r"\sqrt{x_1}", r"\mathcal{L} = \mathbb{R}")]
    css, fonts = math_style_sheet(rendered)
    assert math_style_sheet([*reversed(rendered), *rendered]) == (css, fonts)
    assert all(rule[1:] in css for one in rendered for rule in one.css if rule[0] != "0")
    assert "/*" not in css and css.count("{") == css.count("}")
    large = "mjx-ncm-n.woff2"
    assert {large, "mjx-ncm-c.woff2"} <= fonts
    assert set(re.findall(r"url\(fonts/([^)]*)\)", css)) == fonts
    files = math_fonts(fonts, rendered, tmp_path)
    assert files.keys() == fonts
    assert {data[:4] for data in files.values()} == {b"wOF2"}
    used = {rule[1] for one in rendered for rule in one.css if rule[0] == "0"}
    assert {"𝑥", "√", "1"} <= used
    whole = (FONT_FOLDER / large).read_bytes()
    held, known = (set(TTFont(io.BytesIO(font)).getBestCmap()) for font in (files[large], whole))
    assert {ord(character) for character in used} & known <= held
    assert len(held) < len(used) + 5 and len(files[large]) < len(whole) / 4
    monkeypatch.setattr("pylit.outputs.fonts._cut", lambda *_, **__: pytest.fail("cut again"))
    assert math_fonts(fonts, rendered, tmp_path) == files
    with pytest.raises(pytest.fail.Exception):
        math_fonts(fonts, rendered[:1], tmp_path)


FRAGILE = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const [tex] = JSON.parse(line);
  if (tex === "end") process.exit(9);
  if (tex === "forever") await new Promise(() => setInterval(() => {}, 1000));
  console.log(JSON.stringify({ html: `<i>${tex}</i>`, css: [] }));
}
"""


def test_a_formula_that_ends_or_occupies_node_is_marked_and_no_other(tmp_path: Path) -> None:
    script = tmp_path / "fragile.mjs"
    script.write_text(FRAGILE, encoding="utf-8")
    formulas = [(tex, INLINE) for tex in ("a", "end", "b", "forever", "end ", "c")]
    with closing(MathRenderer(tmp_path, script=script, timeout=3.0)) as fragile:
        fragile.submit(formulas)
        failed = [tex for tex, display in formulas if fragile.result(tex, display).error]
        assert failed == ["end", "forever"]
        assert "3 s" in fragile.result("forever", INLINE).error
        assert fragile._node is not None
        fragile._node.kill()
        fragile._node.wait()
        assert fragile.result("d", INLINE).html == "<i>d</i>", "it died while nothing was asked"
    # Node is not started for what the cache holds. Another day there may be time for the others.
    with closing(MathRenderer(tmp_path, script=tmp_path / "missing.mjs")) as later:
        later.submit([("a", INLINE), ("d", INLINE)])
        assert later.result("d", INLINE).html == "<i>d</i>"
        with pytest.raises(NodeError):
            later.result("forever", INLINE)


def test_when_node_dies_the_error_names_the_formula(tmp_path: Path) -> None:
    script = tmp_path / "die.mjs"
    script.write_text("console.error('no more'); process.exit(1);", encoding="utf-8")
    with (
        closing(MathRenderer(None, script=script)) as broken,
        pytest.raises(NodeError, match=r"at or before `x\^2`: .*\(exit status 1\): no more"),
    ):
        broken.result("x^2", INLINE)
