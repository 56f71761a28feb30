"""What authors of figures draw with: short, exact where it matters, and well-formed."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial

import pytest
import torch

from pylit.figures import draw


def parsed(panel: draw.Panel) -> ET.Element:
    return ET.fromstring(panel.svg())


def words(panel: draw.Panel) -> list[str]:
    return [node.text or "" for node in parsed(panel).iter("text")]


@pytest.mark.parametrize(
    ("ends", "log", "expected"),
    [
        ((-1, 1), False, ["−1", "−0.5", "0", "0.5", "1"]),
        ((0, 0.03), False, ["0", "0.01", "0.02", "0.03"]),
        ((0, 40_000), False, ["0", "10,000", "20,000", "30,000", "40,000"]),
        ((1e-20, 1e4), True, ["10,000", "0.01", "10⁻⁸", "10⁻¹⁴", "10⁻²⁰"]),
    ],
)
def test_ticks_are_round_numbers(ends: tuple[float, float], log: bool, expected: list[str]):
    plot = draw.Plot((0, 1), ends, log=log, x_ticks=())
    assert words(plot.panel()) == expected


def test_a_point_is_where_the_axes_say():
    plot = draw.Plot((10, 20), (-1, 1))
    (left, bottom), (right, top) = plot.at(10, -1), plot.at(20, 1)
    assert plot.at(15, 0) == pytest.approx(((left + right) / 2, (top + bottom) / 2))
    log = draw.Plot((0, 1), (1e-4, 1), log=True)
    assert log.at(0, 1e-2)[1] == pytest.approx((log.at(0, 1e-4)[1] + log.at(0, 1)[1]) / 2)
    # What is below the axis stays on it.
    assert log.at(0, 0) == log.at(0, 1e-4)


def test_a_plot_holds_what_was_drawn_into_it():
    plot = draw.Plot((0, 4), (0, 4), title="Title", x_label="steps", y_label="size & more")
    plot.line([0, 1, 4], [0, 3, 1], 2, label="curve", dashed=True, hook="it")
    plot.dots([1], [2], 1)
    plot.note(2, 2, "here")
    plot.add(draw.element("circle", "f t0", cx=1, cy=2, r=3))
    panel = plot.panel()
    assert {"Title", "steps", "size & more", "curve", "here"} <= set(words(panel))
    root = parsed(panel)
    assert len(list(root.iter("circle"))) == 2
    (curve,) = (node for node in root.iter("path") if node.get("data-p") == "it")
    assert curve.get("class") == "p-l p-t2 p-d"
    assert [root.get(name) for name in ("width", "height")] == ["288", "199"]
    assert root.get("viewBox") == "0 0 288 199"


def test_a_heat_map_has_a_stroke_for_each_run_of_equal_numbers():
    """A stroke is as wide as a cell, and has the second tone below 0."""
    panel = draw.heat_map([[1, 1, -0.5], [0, 0.25, 1]], title="Map", down="rows", across="columns")
    strokes = [
        '<path class="p-c p-t0" d="M1 1.5h1" stroke-opacity="0.25" stroke-width="1"/>',
        '<path class="p-c p-t0" d="M0 0.5h2M2 1.5h1" stroke-opacity="1" stroke-width="1"/>',
        '<path class="p-c p-t1" d="M2 0.5h1" stroke-opacity="0.5" stroke-width="1"/>',
    ]
    assert f'scale(22 22)">{"".join(strokes)}</g>' in panel.svg()
    assert words(panel) == ["Map", "↓ rows, → columns", "below 0", "above 0"]


def test_what_a_page_gets_of_a_figure():
    knob = draw.Knob("n", "How <many>", 0, 3, 0.5, 1)
    stage = draw.Stage("make", [knob], {"end": "</script>"}, "One & all.")
    table = draw.Table(["a", "b"], [["1", "<2>"]], title="Its numbers")
    panel = draw.Panel(10, 20, (draw.element("rect", "f"),))
    figure = draw.Figure([panel, panel], 'Two "bars"\n  and more.', table, stage)
    picture = figure.picture()
    assert picture.startswith('<div class="panels" role="img" aria-label="Two &quot;bars&quot; and')
    assert picture.count("<svg") == 2 and picture.count("</script>") == 1
    assert '<div class="knobs js" data-stage="make"><p><label>How &lt;many&gt;<input' in picture
    assert 'name="n" min="0" max="3" step="0.5" value="1"' in picture
    assert "<output>One &amp; all.</output>" in picture
    opened = '<details><summary>Its numbers</summary><div class="table-scroll"><table>'
    assert figure.below() == f"{opened}{table.cells()}</table></div></details>"
    bare = draw.Figure([panel], "One.")
    assert bare.below() == "" and "knobs" not in bare.picture()


def test_cells_are_announced_with_their_headers_and_stand_where_align_says():
    table = draw.Table(["model", "size & more"], [["<b>", "2"]])
    assert table.cells() == (
        '<thead><tr><th scope="col">model</th><th scope="col" class="r">size &amp; more</th></tr>'
        '</thead><tbody><tr><th scope="row">&lt;b&gt;</th><td class="r">2</td></tr></tbody>'
    )
    aligned = draw.Table(["a", "b", "c"], [["1", "2", "3"]], align="rcl").cells()
    assert '<th scope="row" class="r">1</th><td class="m">2</td><td>3</td>' in aligned


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: draw.short(float("nan")), "nan is no length that can be drawn"),
        (lambda: draw.polyline([(0, 0), (1, float("inf"))]), "inf is no length"),
        (lambda: draw.Panel(1, 1, ("<g>",)).svg(), "the drawing is no SVG: mismatched tag"),
        (lambda: draw.Table(["a", "b"], [["1", "2"], ["3"]]).cells(), "row 2 has 1 cells and the"),
        (lambda: draw.Table(["a", "b"], [["1", "2"]], align="lrr").cells(), "2 of the letters"),
        (lambda: draw.Table([], []).cells(), "the table is empty"),
    ],
)
def test_what_cannot_be_drawn(make: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (4.0, None, "4"),
        (-0.5, None, "−0.5"),
        (-0.0, None, "0"),
        (2 / 3, None, "0.67"),
        (1, 2, "1"),
        (-0.001, 2, "0.00"),
        (-1.5, 1, "−1.5"),
    ],
)
def test_a_number_is_written_as_pictures_write_it(value: float, digits: int | None, expected: str):
    assert draw.shown(value, digits) == expected
    assert draw.listed([value, 1], digits or 2) == f"({draw.shown(value, digits or 2)}, 1)"


def test_a_grid_shows_a_tensor_the_stronger_the_larger():
    assert draw.grid(10, 20, torch.tensor([[2.0, 0, -0.5]]), 1, 30, 40, digits=1) == [
        '<path class="p-k p-t1" d="M11 21h28v38h-28z" fill-opacity=".4"/>',
        '<path class="p-k p-t1" d="M71 21h28v38h-28z" fill-opacity=".12"/>',
        '<path class="p-k p-t1" d="M41 21h28v38h-28z" fill-opacity=".04"/>',
        '<text class="p-n" x="25" y="44">2.0</text>',
        '<text class="p-n" x="85" y="44">−0.5</text>',
        '<text class="p-z" x="55" y="44">0</text>',
    ]
    # Numbers of one letter are one element.
    assert draw.grid(0, 0, [[3, 4]], 1)[-1] == '<text class="p-n" x="12 36" y="16 16">34</text>'
    assert len(draw.grid(0, 0, [[3, 4]], 1, digits=0)) == 2


def test_rows_of_a_grid_may_be_dim_and_cells_hidden():
    look = {"dim": (1,), "hidden": [[False, True], [False, False]], "sign": "−∞", "step": 50}
    assert draw.grid(0, 0, [[12, 5], [3, 0]], 0, 20, **look) == [
        '<path class="p-k p-t0 p-far" d="M1 25h18v22h-18z" fill-opacity=".08"/>',
        '<path class="p-k p-t0 p-far" d="M51 25h18v22h-18z" fill-opacity=".04"/>',
        '<path class="p-k p-t0" d="M1 1h18v22h-18z" fill-opacity=".4"/>',
        '<text class="p-n" x="10" y="16">12</text>',
        draw.hatch(51, 1, 18, 22),
        '<text class="p-n p-halo" x="60" y="16">−∞</text>',
        '<text class="p-z" x="10 60" y="40 40">30</text>',
    ]


def test_hatching_stays_in_its_frame():
    wide = "M10 20h20v12h-20zM10 28l8 -8M14 32l12 -12M22 32l8 -8"
    high = "M10 20h12v20h-12zM10 28l8 -8M10 36l12 -12M14 40l8 -8"
    assert draw.hatch(10, 20, 20, 12) == f'<path class="p-x" d="{wide}"/>'
    assert draw.hatch(10, 20, 12, 20) == f'<path class="p-x" d="{high}"/>'


def test_a_weight_is_the_thickness_of_a_line():
    fixed = partial(draw.ribbon, 1, 2, 30, 40), partial(draw.arc, 100, 20, 60, 40)
    for make in (*fixed, partial(draw.loop, 100, 60, 40)):
        lines = [make(weight, 2, 12) for weight in (0.0, 0.25, 1.0)]
        # Nothing is still there, as a hair.
        assert re.findall(r'stroke-width="(.*?)"', "".join(lines)) == ["0.7", "3", "12"]


def test_symbols_are_set_as_in_formulas():
    assert draw.letter(5, 6, ("W", 3, "Q"), " · ", ("x", None), at="middle") == (
        '<text class="p-m" x="5" y="6" text-anchor="middle"><tspan class="p-t3">W</tspan>'
        '<tspan class="p-t3" dy="-5" font-size="75%">Q</tspan><tspan dy="5">\u200b</tspan>'
        '<tspan class="p-u"> · </tspan><tspan>x</tspan></text>'
    )


def test_a_script_finds_what_it_changes():
    word = draw.hook(draw.word(9, 8, "dog", "end", "mid"), "name")
    assert word == '<text data-p="name" class="p-w p-mid p-end" x="9" y="8">dog</text>'


def test_a_point_of_a_plane_is_where_its_axes_say():
    plane = draw.Plane((-1, 3), (-2, 2), unit=20, left=30, top=10)
    assert plane.at(3, 2) == (110, 10)
    assert plane.point(3, 2, 2) == '<circle class="p-f p-t2" cx="110" cy="10" r="5"/>'
    assert plane.vector(1, -2, 3, "v").startswith(
        '<path data-p="v" class="p-l p-t3 p-thick" d="M50'
    )
    numbers = re.findall(">([^<>]+)<", "".join(plane.axes(2)))
    assert numbers == ["0", "2", "−2", "0", "2"]
