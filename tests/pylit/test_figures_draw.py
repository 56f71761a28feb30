"""What authors of figures draw with: short, exact where it matters, and well-formed."""

import math
import re
import xml.etree.ElementTree as ET

import pytest

from pylit.figures.draw import (
    Demo,
    Figure,
    Knob,
    Panel,
    Plot,
    Table,
    arrow,
    bar_list,
    element,
    heat_map,
    polyline,
    short,
    text,
)
from pylit.figures.plot import thinned
from pylit.figures.svg import WIDTH


def parsed(panel: Panel) -> ET.Element:
    return ET.fromstring(panel.svg())


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (-0.04, "0"), (1.0, "1"), (2.25, "2.2"), (-3.46, "-3.5"), (1e4, "10000")],
)
def test_a_number_is_short(number: float, expected: str):
    assert short(number) == expected


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_cannot_be_drawn(number: float):
    with pytest.raises(ValueError, match=f"{number} is no length that can be drawn"):
        short(number)
    with pytest.raises(ValueError, match="no length"):
        polyline([(0, 0), (1, number)])


def ends(d: str) -> list[tuple[float, float]]:
    """The points of a path that `polyline` wrote."""
    start, _, rest = d[1:].partition("l")
    x, y = map(float, start.split())
    found, numbers = [(x, y)], re.findall(r"-?[\d.]+", rest)
    for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + float(dx), y + float(dy)
        found.append((x, y))
    return found


def test_differences_add_up_to_the_points():
    points = [(i * 1.234567, 50 - i * i * 0.0771) for i in range(100)]
    found = ends(polyline(points))
    assert len(found) == len(points)
    for (x, y), (u, v) in zip(points, found, strict=True):
        assert abs(x - u) < 0.051 and abs(y - v) < 0.051


def test_thinned_lines_look_the_same():
    straight = [(float(i), 2.0 * i) for i in range(50)]
    assert thinned(straight) == [straight[0], straight[-1]]
    corner = [(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (20.0, 10.0)]
    assert thinned(corner) == [(0.0, 0.0), (20.0, 0.0), (20.0, 10.0)]
    assert thinned(corner[:2]) == corner[:2]
    assert thinned([]) == []
    back = [(0.0, 0.0), (30.0, 0.0), (10.0, 0.0)]  # beyond the end is far from the line, too
    assert thinned(back) == back


def test_a_smooth_curve_of_many_points_stays_a_curve():
    points = [(x / 10, 50 + 50 * math.cos(x / 10 / 250 * math.pi)) for x in range(2501)]
    kept = thinned(points)
    assert 8 < len(kept) < 60
    for x, y in points:
        before = max((p for p in kept if p[0] <= x), key=lambda p: p[0])
        after = min((p for p in kept if p[0] >= x), key=lambda p: p[0])
        share = (x - before[0]) / ((after[0] - before[0]) or 1.0)
        assert abs(before[1] + share * (after[1] - before[1]) - y) < 0.3


def words(panel: Panel) -> list[str]:
    return [node.text or "" for node in parsed(panel).iter("text")]


@pytest.mark.parametrize(
    ("ends", "log", "expected"),
    [
        ((-1, 1), False, ["−1", "−0.5", "0", "0.5", "1"]),
        ((0, 64), False, ["0", "20", "40", "60"]),
        ((0, 0.03), False, ["0", "0.01", "0.02", "0.03"]),
        ((0, 40_000), False, ["0", "10,000", "20,000", "30,000", "40,000"]),
        ((1e-20, 1e4), True, ["10,000", "0.01", "10⁻⁸", "10⁻¹⁴", "10⁻²⁰"]),
        ((1e-2, 1e2), True, ["100", "10", "1", "0.1", "0.01"]),
    ],
)
def test_ticks_are_round_numbers(ends: tuple[float, float], log: bool, expected: list[str]):
    plot = Plot((0, 1), ends, log=log, x_ticks=())
    assert words(plot.panel()) == expected


def test_a_point_is_where_the_axes_say():
    plot = Plot((10, 20), (-1, 1))
    (left, bottom), (right, top) = plot.at(10, -1), plot.at(20, 1)
    assert plot.at(15, 0) == pytest.approx(((left + right) / 2, (top + bottom) / 2))
    log = Plot((0, 1), (1e-4, 1), log=True)
    assert log.at(0, 1e-2)[1] == pytest.approx((log.at(0, 1e-4)[1] + log.at(0, 1)[1]) / 2)
    # What is below the axis stays on it.
    assert log.at(0, 0) == log.at(0, 1e-4)


def test_a_plot_holds_what_was_drawn_into_it():
    plot = Plot((0, 4), (0, 4), title="Title", x_label="steps", y_label="size & more")
    plot.line([0, 1, 4], [0, 3, 1], 2, label="curve", dashed=True, hook="it")
    plot.dots([1], [2], 1)
    plot.bars([0, 2, 4], [1, 2, 4])
    plot.note(2, 2, "here")
    plot.add(element("circle", "f t0", cx=1, cy=2, r=3))
    panel = plot.panel()
    assert {"Title", "steps", "size & more", "curve", "here"} <= set(words(panel))
    root = parsed(panel)
    assert len(list(root.iter("circle"))) == 2
    (curve,) = (node for node in root.iter("path") if node.get("data-p") == "it")
    assert curve.get("class") == "p-l p-t2 p-d"
    assert (panel.width, root.get("width")) == (WIDTH, "288")
    assert root.get("viewBox") == f"0 0 288 {root.get('height')}"


def test_lists_of_bars():
    panel = bar_list(["one", "three"], [1, 3], ["1 k", "3 k"], title="Sizes", room=60, hook="b")
    bars = list(parsed(panel).iter("rect"))
    widths = [float(bar.get("width") or 0) for bar in bars]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.2)
    assert float(bars[1].get("x") or 0) + widths[1] + 60 == pytest.approx(WIDTH)
    assert words(panel) == ["Sizes", "one", "1 k", "three", "3 k"]
    assert [bar.get("data-p") for bar in bars] == ["b", "b"]


def cells(panel: Panel, rows: int, columns: int) -> list[list[float]]:
    """The matrix that a heat map shows, with the second tone below 0."""
    found = [[0.0] * columns for _ in range(rows)]
    for path in parsed(panel).iter("path"):
        classes = (path.get("class") or "").split()
        if "p-c" not in classes:
            continue
        sign = 1 if "p-t0" in classes else -1
        side, ink = (float(path.get(f"stroke-{name}") or 0) for name in ("width", "opacity"))
        x = y = 0.0
        for kind, numbers in re.findall(r"([Mmh])([^Mmh]+)", path.get("d") or ""):
            given = list(map(float, numbers.split()))
            if kind == "h":
                first, last = round(x / side), round((x + given[0]) / side)
                for column in range(first, last):
                    assert found[int(y / side)][column] == 0
                    found[int(y / side)][column] = sign * ink
                x += given[0]
            else:
                x, y = (given[0], given[1]) if kind == "M" else (x + given[0], y + given[1])
    return found


def test_a_heat_map_shows_its_matrix():
    matrix = [[((7 * i + 3 * j) % 17 - 8) / 8 for j in range(13)] for i in range(5)]
    panel = heat_map(matrix, title="Map", down="rows", across="columns")
    assert cells(panel, 5, 13) == matrix
    assert words(panel) == ["Map", "↓ rows, → columns", "below 0", "above 0"]


def test_strengths_are_eighths_of_the_largest():
    assert cells(heat_map([[0.0, 1.0, 2.0, 4.0, 0.2]]), 1, 5) == [[0, 0.25, 0.5, 1, 0]]
    assert cells(heat_map([[2.0, 9.0]], most=4.0), 1, 2) == [[0.5, 1]]
    assert cells(heat_map([[0.0, 0.0]]), 1, 2) == [[0, 0]]


def test_a_map_of_booleans_with_labels():
    labels = ["a", "", "c"]
    panel = heat_map([[True, False, True]] * 3, rows=labels, columns=labels, frames=True)
    assert words(panel) == ["a", "c", "a", "c"]
    assert cells(panel, 3, 3) == [[1, 0, 1]] * 3
    assert any("p-g" in (node.get("class") or "") for node in parsed(panel).iter("path"))


def test_arrows_and_texts_are_escaped():
    panel = Panel(100, 50, (arrow(0, 0, 30, 40, "l"), text(1, 2, "a < b & c", "end", "h")))
    root = parsed(panel)
    (path,), (words,) = root.iter("path"), root.iter("text")
    assert (path.get("d") or "").startswith("M0 0L30 40M30 40l")
    assert words.text == "a < b & c"
    assert (words.get("text-anchor"), words.get("class")) == ("end", "p-h")


def test_what_a_page_gets_of_a_figure():
    knob = Knob("n", "How <many>", 0, 3, 0.5, 1)
    demo = Demo("draw", [knob], {"end": "</script>"}, "One & all.")
    table = Table(["a", "b"], [["1", "<2>"]], title="Its numbers")
    panel = Panel(10, 20, (element("rect", "f"),))
    figure = Figure([panel, panel], 'Two "bars"\n  and more.', table, demo)
    picture = figure.picture()
    assert picture.startswith('<div class="panels" role="img" aria-label="Two &quot;bars&quot; and')
    assert picture.count("<svg") == 2
    assert '<div class="knobs js" data-demo="draw"><p><label>How &lt;many&gt;<input' in picture
    assert 'name="n" min="0" max="3" step="0.5" value="1"' in picture
    assert "<output>One &amp; all.</output>" in picture
    assert picture.count("</script>") == 1
    assert figure.below() == (
        '<details><summary>Its numbers</summary><div class="table-scroll"><table>'
        "<thead><tr><th>a</th><th>b</th></tr></thead>"
        "<tbody><tr><td>1</td><td>&lt;2&gt;</td></tr></tbody></table></div></details>"
    )
    bare = Figure([panel], "One.")
    assert bare.below() == "" and "knobs" not in bare.picture()


def test_a_drawing_that_is_torn_is_refused():
    with pytest.raises(ValueError, match=r"the drawing is no SVG: mismatched tag"):
        Figure([Panel(1, 1, ("<g>",))], "x").picture()
