"""What authors of figures draw with: short, exact where it matters, and well-formed."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from pylit.figures.draw import (
    WIDTH,
    Demo,
    Figure,
    Knob,
    Panel,
    Plot,
    Table,
    element,
    heat_map,
    polyline,
    short,
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
        (
            lambda: Table(["a", "b"], [["1", "2"], ["3"]]).cells(),
            "row 2 has 1 cells and the head 2",
        ),
        (
            lambda: Table(["a", "b"], [["1", "2"]], align="lrr").cells(),
            "must be 2 of the letters l, w, r and c",
        ),
        (lambda: Table([], []).cells(), "the table is empty"),
    ],
)
def test_what_cannot_be_drawn(draw: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        draw()
