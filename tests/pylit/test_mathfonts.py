"""Fonts cut down to the characters of the site's formulas."""

import io
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from pylit import fontcut
from pylit.tex.mathfonts import math_fonts
from pylit.tex.maths import MathRenderer, Rendered, font_file, stylesheet

TEXT = "mjx-ncm-n.woff2"


@pytest.fixture(scope="module")
def rendered() -> list[Rendered]:
    formulas = [
        r"\sqrt{x_1 + \alpha}",
        r"\left(\frac{a}{\frac{b}{\frac{c}{d}}}\right) \in \mathcal{L}",
    ]
    with MathRenderer(None) as maths:
        return [maths.result(tex, True) for tex in formulas]


def characters(font: bytes) -> set[int]:
    return set(TTFont(io.BytesIO(font)).getBestCmap())


def test_the_text_font_holds_what_formulas_use_and_little_else(rendered: list[Rendered]) -> None:
    names = stylesheet(rendered)[1]
    files = math_fonts(names, rendered, None)
    assert files.keys() == names
    used = {rule[1] for one in rendered for rule in one.css if rule[0] == "0"}
    assert {"𝑥", "𝛼", "√", "+", "1"} <= used
    held = characters(files[TEXT])
    whole = characters(font_file(TEXT).read_bytes())
    assert {ord(character) for character in used} & whole <= held
    assert len(held) < len(used) + 5
    assert len(files[TEXT]) < len(font_file(TEXT).read_bytes()) / 4


def test_a_font_is_cut_once(
    rendered: list[Rendered], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = math_fonts([TEXT], rendered, tmp_path)
    with monkeypatch.context() as patch:
        patch.delattr(fontcut, "cut")
        assert math_fonts([TEXT], rendered, tmp_path) == first
        with pytest.raises(AttributeError):
            math_fonts([TEXT], rendered[:1], tmp_path)
    assert math_fonts([TEXT], rendered[:1], tmp_path) != first
