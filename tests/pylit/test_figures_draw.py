"""What authors of figures draw with: short, exact where it matters, and well-formed."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
import torch

from pylit.figures.draw import (
    WIDTH,
    Figure,
    Knob,
    Panel,
    Plane,
    Plot,
    Stage,
    Table,
    arc,
    element,
    frame,
    grid,
    hatch,
    heat_map,
    hook,
    letter,
    listed,
    loop,
    polyline,
    ribbon,
    short,
    shown,
    word,
)


def parsed(panel: Panel) -> ET.Element:
    return ET.fromstring(panel.svg())


def words(panel: Panel) -> list[str]:
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


def test_what_a_page_gets_of_a_figure():
    knob = Knob("n", "How <many>", 0, 3, 0.5, 1)
    stage = Stage("draw", [knob], {"end": "</script>"}, "One & all.")
    table = Table(["a", "b"], [["1", "<2>"]], title="Its numbers")
    panel = Panel(10, 20, (element("rect", "f"),))
    figure = Figure([panel, panel], 'Two "bars"\n  and more.', table, stage)
    picture = figure.picture()
    assert picture.startswith('<div class="panels" role="img" aria-label="Two &quot;bars&quot; and')
    assert picture.count("<svg") == 2
    assert '<div class="knobs js" data-stage="draw"><p><label>How &lt;many&gt;<input' in picture
    assert 'name="n" min="0" max="3" step="0.5" value="1"' in picture
    assert "<output>One &amp; all.</output>" in picture
    assert picture.count("</script>") == 1
    opened = '<details><summary>Its numbers</summary><div class="table-scroll"><table>'
    assert figure.below() == f"{opened}{table.cells()}</table></div></details>"
    bare = Figure([panel], "One.")
    assert bare.below() == "" and "knobs" not in bare.picture()


def table_of(table: Table) -> ET.Element:
    return ET.fromstring(f"<table>{table.cells()}</table>")


def test_cells_are_announced_with_their_headers_and_stand_where_align_says():
    table = Table(["model", "size & more", "kind"], [["one", "1", "a"], ["<b>", "2", "c"]])
    root = table_of(table)
    assert [(c.tag, c.get("scope")) for c in root.iterfind("thead/tr/*")] == [("th", "col")] * 3
    rows = [[(c.tag, c.get("scope"), c.get("class"), c.text) for c in row] for row in root[1]]
    assert rows[1] == [
        ("th", "row", None, "<b>"),
        ("td", None, "r", "2"),
        ("td", None, "r", "c"),
    ]
    (row,) = table_of(Table(["a", "b", "c"], [["1", "2", "3"]], align="rcl"))[1]
    assert [cell.get("class") for cell in row] == ["r", "m", None]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: short(float("nan")), "nan is no length that can be drawn"),
        (lambda: polyline([(0, 0), (1, float("inf"))]), "inf is no length"),
        (lambda: Panel(1, 1, ("<g>",)).svg(), "the drawing is no SVG: mismatched tag"),
        (lambda: Table(["a", "b"], [["1", "2"], ["3"]]).cells(), "row 2 has 1 cells and the"),
        (lambda: Table(["a", "b"], [["1", "2"]], align="lrr").cells(), "must be 2 of the letters"),
        (lambda: Table([], []).cells(), "the table is empty"),
    ],
)
def test_what_cannot_be_drawn(draw: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        draw()


def drawn(*parts: str) -> ET.Element:
    return parsed(Panel(300, 200, parts))


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
    assert shown(value, digits) == expected
    assert listed([value, 1], digits or 2) == f"({shown(value, digits or 2)}, 1)"


def numbers_of(root: ET.Element) -> dict[tuple[float, float], str]:
    """What stands where in a grid, letter by letter where an element has a place for each."""
    found = {}
    for node in root.iter("text"):
        xs, ys = (list(map(float, (node.get(axis) or "").split())) for axis in "xy")
        parts = list(node.text or "") if len(xs) > 1 else [node.text or ""]
        found |= dict(zip(zip(xs, ys, strict=True), parts, strict=True))
    return found


def grounds_of(root: ET.Element) -> dict[tuple[float, float], float]:
    """The opacity of each cell of a grid, by its corner."""
    found = {}
    for node in root.iter("path"):
        if "p-k" in (node.get("class") or "").split():
            for corner in re.findall(r"M([\d.]+) ([\d.]+)", node.get("d") or ""):
                x, y = map(float, corner)
                found[x, y] = float(node.get("fill-opacity") or 0)
    return found


def test_a_grid_shows_a_tensor_the_stronger_the_larger():
    matrix = torch.tensor([[2.0, 0, -1], [0.5, -4, 3]])
    root = drawn(*grid(10, 20, matrix, 1, 30, 40, digits=1))
    words = numbers_of(root)
    expected = [["2.0", "0", "−1.0"], ["0.5", "−4.0", "3.0"]]
    for i, row in enumerate(expected):
        for j, number in enumerate(row):
            assert words.pop((10 + 30 * j + 15, 20 + 40 * i + 24)) == number
    assert words == {}
    grounds = grounds_of(root)
    strengths = [grounds[11 + 30 * j, 21 + 40 * i] for i in range(2) for j in range(3)]
    by_size = sorted(range(6), key=lambda at: matrix.flatten()[at].abs())
    assert [strengths[at] for at in by_size] == sorted(strengths)
    assert strengths[1] < 0.1 < strengths[4]


def test_rows_of_a_grid_may_be_dim_and_cells_hidden():
    kept = [[True, True], [True, True]]
    full = grounds_of(drawn(*grid(0, 0, [[3, 3], [3, 3]], 0, 20, 24)))
    dim = grounds_of(drawn(*grid(0, 0, [[3, 3], [3, 3]], 0, 20, 24, dim=(1,))))
    assert dim[1, 1] == full[1, 1] and dim[1, 25] < full[1, 25]
    hidden = [[False, True], [False, False]]
    root = drawn(*grid(0, 0, kept, 0, 20, 24, hidden=hidden, sign="−∞", step=50))
    assert sorted(numbers_of(root).values()) == ["1", "1", "1", "−∞"]
    assert set(grounds_of(root)) == {(1, 1), (1, 25), (51, 25)}
    assert [node.get("class") for node in root.iter("path")].count("p-x") == 1
    bare = drawn(*grid(0, 0, kept, 0, digits=0))
    assert numbers_of(bare) == {} and len(grounds_of(bare)) == 4


@pytest.mark.parametrize("size", [(60, 30), (30, 60), (17, 17)])
def test_hatching_stays_in_its_frame(size: tuple[float, float]):
    (path,) = drawn(hatch(10, 20, *size)).iter("path")
    lines = re.findall(r"M([\d.]+) ([\d.]+)l([\d.]+) (-[\d.]+)", path.get("d") or "")
    assert len(lines) >= sum(size) // 8 - 1
    for x, y, right, up in (map(float, line) for line in lines):
        assert 10 <= x < x + right <= 10 + size[0] + 0.1
        assert 20 - 0.1 <= y + up < y <= 20 + size[1]


@pytest.mark.parametrize(
    "line",
    [
        lambda weight: ribbon(1, 2, 30, 40, weight, 2, 12),
        lambda weight: arc(100, 20, 60, 40, weight, 2, 12),
        lambda weight: loop(100, 60, 40, weight, 2, 12),
    ],
)
def test_a_weight_is_the_thickness_of_a_line(line: Callable[[float], str]):
    widths = [
        float(path.get("stroke-width") or 0)
        for weight in (0.0, 0.25, 1.0)
        for path in drawn(line(weight)).iter("path")
    ]
    # Nothing is still there, as a hair.
    assert widths == [0.7, 3, 12]


def test_symbols_are_set_as_in_formulas():
    root = drawn(letter(5, 6, ("W", 3, "Q"), " · ", ("x", None), at="middle"))
    (node,) = root.iter("text")
    parts = [(part.text, part.get("class")) for part in node]
    assert parts[:2] == [("W", "p-t3"), ("Q", "p-t3")]
    assert parts[3:] == [(" · ", "p-u"), ("x", None)]
    # What comes after an exponent stands on the line again.
    assert sum(float(part.get("dy") or 0) for part in node) == 0
    assert node.get("text-anchor") == "middle"


def test_a_script_finds_what_it_changes():
    root = drawn(hook(word(9, 8, "dog", "end", "mid"), "name"), frame(1, 2, 3, 4, 0))
    (node,) = (node for node in root.iter() if node.get("data-p") == "name")
    assert node.text == "dog" and (node.get("class") or "").split() == ["p-w", "p-mid", "p-end"]


def test_a_point_of_a_plane_is_where_its_axes_say():
    plane = Plane((-1, 3), (-2, 2), unit=20, left=30, top=10)
    root = drawn(*plane.axes(2), plane.point(3, 2, 2), plane.vector(1, -2, 3, "v"))
    (dot,) = root.iter("circle")
    assert (float(dot.get("cx") or 0), float(dot.get("cy") or 0)) == (110, 10) == plane.at(3, 2)
    assert sorted(node.text or "" for node in root.iter("text")) == ["0", "0", "2", "2", "−2"]
    (vector,) = (node for node in root.iter("path") if node.get("data-p") == "v")
    assert (vector.get("d") or "").startswith("M50 50L70 90")
