"""Formulas typeset by MathJax: what comes out, what is wrong and where, style sheet and fonts."""

import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from pylit import fontcut
from pylit.model import formula_slot
from pylit.node.packages import NodeError
from pylit.tex.maths import FONTS, MathRenderer, Rendered, fill, math_fonts, stylesheet

INLINE = False
DISPLAY = True


@pytest.fixture(scope="module")
def maths() -> Iterator[MathRenderer]:
    with MathRenderer(None) as it:
        yield it


class Elements(HTMLParser):
    """The elements of some HTML: names, and the attributes of each."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.depth = 0
        self.feed(html)
        assert self.depth == 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += 1
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def spoken(rendered: Rendered) -> str:
    match = re.search(r"<math.*</math>", rendered.html)
    assert match
    return match[0]


def test_a_formula_is_seen_heard_and_copied(maths: MathRenderer) -> None:
    html = maths.result("a < b_1", INLINE).html
    elements = Elements(html).all
    assert elements[0] == ("mjx-container", {"data-tex": "a < b_1"})
    assert elements[1][0] == "mjx-math"
    assert elements[1][1]["aria-hidden"] == "true"
    assert "<math><mi>a</mi><mo>&lt;</mo><msub><mi>b</mi><mn>1</mn></msub></math>" in html
    assert Elements(maths.result("x", DISPLAY).html).all[0][1]["display"] == "true"


@pytest.mark.parametrize(
    ("tex", "mathml"),
    [
        (r"\mathop{Attention}(Q)", "<math><mi>Attention</mi><mo>\u2061</mo><mo>(</mo>"),
        (r"{}^{2}x", "<math><msup><mrow></mrow><mn>2</mn></msup><mi>x</mi></math>"),
        (r"\mathcal{L}", '<math><mi mathvariant="script">L</mi></math>'),
        (r"\text{if } x", "<math><mtext>if\xa0</mtext><mi>x</mi></math>"),
    ],
)
def test_what_a_screen_reader_gets(maths: MathRenderer, tex: str, mathml: str) -> None:
    assert spoken(maths.result(tex, INLINE)).startswith(mathml)


def test_a_number_is_read_after_its_equation(maths: MathRenderer) -> None:
    heard = spoken(maths.result(r"x=y\tag{3}", DISPLAY))
    assert heard.index("<mi>y</mi>") < heard.index("3")
    assert "mlabeledtr" not in heard
    assert "NaN" not in maths.result(r"x=y\tag{3}", DISPLAY).html


def test_symbols_are_marked_where_they_are_seen_and_no_other_class_is_given(
    maths: MathRenderer,
) -> None:
    rendered = maths.result(r"\class{y1}{Q}\,\class{y22}{K_{ij}} \class{NCM-x}{u}", INLINE)
    classes = [given.get("class") or "" for _, given in Elements(rendered.html).all]
    for name in ("y1", "y22"):
        assert sum(name in given.split() for given in classes) == 1
    assert "NCM-x" not in rendered.html.replace(r"\class{NCM-x}", "")
    assert all((FONTS / name).is_file() for name in stylesheet([rendered])[1])


@pytest.mark.parametrize(
    ("tex", "offset", "message"),
    [
        (r"a + \foo b", 4, r"Undefined control sequence \foo"),
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
        ("x" * 20_001, 0, "a formula of more than 20,000 characters"),
    ],
)
def test_errors_say_what_and_where(
    maths: MathRenderer, tex: str, offset: int, message: str
) -> None:
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
    again = maths.result(r"\bm{R}_1 ", INLINE).html
    assert again.replace(r"\bm{R}_1 ", r"\bm{R}_1") == alone.html
    for number in "12":
        assert not maths.result(rf"x\tag{{{number}}}\label{{same}}", DISPLAY).error


@pytest.mark.parametrize(
    "tex", [r"\href{javascript:x}{y}", r"\require{physics}x", r"\definecolor{a}"]
)
def test_commands_that_reach_out_do_not_exist(maths: MathRenderer, tex: str) -> None:
    assert maths.result(tex, INLINE).error.startswith("Undefined control sequence")


def test_a_formula_cannot_leave_its_place(maths: MathRenderer) -> None:
    html = maths.result(r"\style{position:fixed; color:red}{x} \cssId{main}{y}", INLINE).html
    attributes = [given for _, given in Elements(html).all]
    assert [given["style"] for given in attributes if "style" in given] == ["color:red"]
    assert not any("id" in given for given in attributes)


def test_every_formula_that_deep_learning_needs(maths: MathRenderer) -> None:
    cases = (Path(__file__).parent / "golden" / "formulas.txt").read_text(encoding="utf-8")
    formulas = [line for line in cases.splitlines() if line]
    maths.submit((tex, DISPLAY) for tex in formulas)
    assert len(formulas) >= 50
    assert {tex: maths.result(tex, DISPLAY).error for tex in formulas} == dict.fromkeys(
        formulas, ""
    )


def test_the_style_sheet_does_not_depend_on_the_order(maths: MathRenderer) -> None:
    formulas = [r"\frac{a}{b}", r"\sqrt{x}", r"\left(\sum_i \hat{x}\right)", "a=b", r"\mathcal{L}"]
    rendered = [maths.result(tex, INLINE) for tex in formulas]
    css, fonts = stylesheet(rendered)
    assert stylesheet(reversed(rendered)) == (css, fonts)
    assert stylesheet([*rendered, *rendered]) == (css, fonts)
    for one in rendered:
        assert all(rule[1:] in css for rule in one.css if rule[0] != "0")
    assert "/*" not in css
    assert css.count("{") == css.count("}")


def test_fonts_are_files_and_the_large_one_is_cut_once(
    maths: MathRenderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = [maths.result(tex, INLINE) for tex in (r"\sqrt{x_1}", r"\mathcal{L} = \mathbb{R}")]
    css, fonts = stylesheet(rendered)
    large = "mjx-ncm-n.woff2"
    assert {large, "mjx-ncm-c.woff2"} <= fonts
    assert set(re.findall(r"url\(fonts/([^)]*)\)", css)) == fonts
    files = math_fonts(fonts, rendered, tmp_path)
    assert files.keys() == fonts
    assert {data[:4] for data in files.values()} == {b"wOF2"}
    used = {rule[1] for one in rendered for rule in one.css if rule[0] == "0"}
    assert {"𝑥", "√", "1"} <= used
    whole = (FONTS / large).read_bytes()
    held, all_of_it = (
        set(TTFont(io.BytesIO(font)).getBestCmap()) for font in (files[large], whole)
    )
    assert {ord(character) for character in used} & all_of_it <= held
    assert len(held) < len(used) + 5 and len(files[large]) < len(whole) / 4
    with monkeypatch.context() as patch:
        patch.delattr(fontcut, "cut")
        assert math_fonts(fonts, rendered, tmp_path) == files
        with pytest.raises(AttributeError):
            math_fonts(fonts, rendered[:1], tmp_path)


def test_formulas_go_where_their_slots_are() -> None:
    html = f"<p>{formula_slot(1)} and {formula_slot(0)} and {formula_slot(1)}</p>"
    rendered = [Rendered("<i>0</i>"), Rendered(r"<i>\1</i>")]
    assert fill(html, rendered) == r"<p><i>\1</i> and <i>0</i> and <i>\1</i></p>"


def test_node_is_not_started_for_what_the_cache_holds(tmp_path: Path) -> None:
    formulas = [(r"\frac{a}{b}", DISPLAY), (r"\foo", INLINE)]
    with MathRenderer(tmp_path) as first:
        fresh = [first.result(*formula) for formula in formulas]
    with MathRenderer(tmp_path, script=tmp_path / "missing.mjs") as second:
        second.submit(formulas)
        assert [second.result(*formula) for formula in formulas] == fresh
        with pytest.raises(NodeError):
            second.result("new", INLINE)


def test_a_formula_that_ends_or_occupies_node_is_marked_and_no_other(tmp_path: Path) -> None:
    script = tmp_path / "fragile.mjs"
    script.write_text(
        """
        import { createInterface } from "node:readline";
        for await (const line of createInterface({ input: process.stdin })) {
          const [tex] = JSON.parse(line);
          if (tex === "end") process.exit(9);
          if (tex === "forever") for (;;);
          console.log(JSON.stringify({ html: `<i>${tex}</i>`, css: [] }));
        }
        """,
        encoding="utf-8",
    )
    formulas = [(tex, INLINE) for tex in ("a", "end", "b", "forever", "end ", "c")]
    with MathRenderer(tmp_path, script=script, patience=1.5) as fragile:
        fragile.submit(formulas)
        failed = [tex for tex, display in formulas if fragile.result(tex, display).error]
        assert failed == ["end", "forever"]
        assert "1.5 s" in fragile.result("forever", INLINE).error
        assert fragile.result("d", INLINE).html == "<i>d</i>"
    # Another day, or another machine, may have the time.
    with MathRenderer(tmp_path, script=tmp_path / "missing.mjs") as later:
        assert later.result("d", INLINE).html == "<i>d</i>"
        with pytest.raises(NodeError):
            later.result("forever", INLINE)


def test_when_node_dies_the_error_names_the_formula(tmp_path: Path) -> None:
    script = tmp_path / "die.mjs"
    script.write_text("console.error('no more'); process.exit(1);", encoding="utf-8")
    with (
        MathRenderer(None, script=script) as broken,
        pytest.raises(NodeError, match=r"at or before `x\^2`: .*no more"),
    ):
        broken.result("x^2", INLINE)
