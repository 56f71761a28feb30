"""The picture of losses."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.experiments.training.curve import Line, _marks, curve_svg, lines_of

SVG = "{http://www.w3.org/2000/svg}"
RESULT = {
    "curve": {
        "train": [[1, 4.0, 0.5, 0.6, 10], [2, 3.0, 1.0, 1.2, 20]],
        "validation": [[2, 3.5, 1.0, 1.2, 20], [3, None, 1.5, 1.8, 30]],
    }
}


def drawn(*lines, **words):
    return ElementTree.fromstring(curve_svg(lines, **words))


def test_the_lines_of_a_run():
    train, validation = lines_of(RESULT)
    assert (train.name, train.faint, train.points) == ("training", True, [(1.0, 4.0), (2.0, 3.0)])
    assert (validation.name, validation.points) == ("validation", [(2.0, 3.5)])
    assert lines_of(RESULT, "small", train=False, x="seconds") == [Line("small", [(1.0, 3.5)])]
    assert lines_of(RESULT, x="tokens")[0].points == [(10.0, 4.0), (20.0, 3.0)]


def test_points_stand_where_they_should():
    """The middle of two values is in the middle of the axis between them."""
    picture = drawn(Line("a", [(0, 1.0), (50, 2.0), (100, 3.0)]))
    dots = [(float(c.get("cx")), float(c.get("cy"))) for c in picture.iter(f"{SVG}circle")]
    assert dots[0][0] < dots[1][0] < dots[2][0] and dots[0][1] > dots[1][1] > dots[2][1]
    assert dots[1][0] == pytest.approx((dots[0][0] + dots[2][0]) / 2, abs=0.11)
    assert dots[1][1] == pytest.approx((dots[0][1] + dots[2][1]) / 2, abs=0.11)


def test_names_do_not_lie_on_each_other():
    lines = [Line(f"run {i}", [(0, 3.0), (9, 1.0 + 0.001 * i)], i) for i in range(8)]
    names = [text for text in drawn(*lines).iter(f"{SVG}text") if "name" in text.get("class")]
    heights = sorted(float(text.get("y")) for text in names)
    assert len(heights) == 8
    assert all(b - a >= 14.9 for a, b in pairwise(heights))
    assert heights[-1] <= 360


def test_it_says_what_it_shows():
    picture = drawn(Line("x < y", [(1, 2.0), (1200, 1.25)]), title="A & B", x="seconds", y="bits")
    assert picture.find(f"{SVG}title").text == "A & B"
    assert picture.find(f"{SVG}desc").text == "bits over seconds: x < y ends at 1.250 after 1,200."
    assert picture.get("role") == "img" and picture.get("viewBox") == "0 0 720 400"


def test_bands_and_faint_lines():
    picture = drawn(
        Line("mean", [(0, 2.0), (9, 1.0)], 2, band=[(0, 1.5, 2.5), (9, 0.5, 1.5)]),
        Line("", [(0, 3.0), (9, 2.0)], faint=True),
    )
    classes = [path.get("class") for path in picture.iter(f"{SVG}path")]
    assert "band c2" in classes and "line c2" in classes and "thin c0" in classes
    names = [text for text in picture.iter(f"{SVG}text") if "name" in text.get("class", "")]
    assert len(names) == 1


def test_both_themes_have_all_colours():
    text = curve_svg([Line("a", [(0, 1.0), (1, 0.5)])])
    style = re.search(r"<style>(.*?)</style>", text).group(1)
    used = set(re.findall(r"var\((--curve-\w+)\)", style))
    assert used and "prefers-color-scheme:dark" in style and '[data-theme="dark"]' in style
    for name in used:
        assert style.count(f"{name}:") >= 4  # two themes, by the system and by choice
    assert all(
        rule.startswith((".loss-curve", "@media", "[", ".vscode"))
        for rule in re.findall(r"(?:^|})([^{}]+){", style)
        if rule.strip()
    )


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="there is nothing to draw: no line has a point"):
        curve_svg([Line("a", [])])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-100, 100)), min_size=1, max_size=12))
def test_every_curve_is_a_picture(points):
    text = curve_svg([Line("a", sorted(points))], title="t")
    ElementTree.fromstring(text)
    assert "nan" not in text and "inf" not in text


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e4), st.integers(3, 8))
def test_marks_are_round_and_inside(low, size, about):
    marks = _marks(low, low + size, about)
    assert len(marks) <= about + 1
    assert all(low - 1e-6 <= mark <= low + size + 1e-6 for mark in marks)
    if len(marks) > 1:
        step = marks[1] - marks[0]
        first = step / 10 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(first - n) for n in (1, 2, 5, 10)) < 1e-3
