"""Tables that functions of figures return: in notes, in pages, and every fault."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from note_tools import render
from site_tools import count, make_site, succeed

from pylit.figures.draw import Table
from pylit.model import FigureUse, figure_slot

ROWS, BELOW = figure_slot("sums.all", "picture"), figure_slot("sums.all", "below")


def parsed(table: Table) -> ET.Element:
    return ET.fromstring(f"<table>{table.cells()}</table>")


def test_cells_are_announced_with_their_headers_and_stand_where_align_says():
    table = Table(["model", "size & more", "kind"], [["one", "1", "a"], ["<b>", "2", "c"]])
    root = parsed(table)
    assert [(c.tag, c.get("scope")) for c in root.iterfind("thead/tr/*")] == [("th", "col")] * 3
    rows = [[(c.tag, c.get("scope"), c.get("class"), c.text) for c in row] for row in root[1]]
    assert rows[1] == [
        ("th", "row", None, "<b>"),
        ("td", None, "r", "2"),
        ("td", None, "r", "c"),
    ]
    (row,) = parsed(Table(["a", "b", "c"], [["1", "2", "3"]], align="rcl"))[1]
    assert [cell.get("class") for cell in row] == ["r", "m", None]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table(["a", "b"], [["1", "2"], ["3"]]), "row 2 has 1 cells and the head 2"),
        (Table(["a", "b"], [["1", "2"]], align="lrr"), "must be 2 of the letters l, r and c"),
        (Table([], []), "the table is empty"),
    ],
)
def test_what_is_no_table(table: Table, message: str):
    with pytest.raises(ValueError, match=message):
        table.cells()


def test_a_paragraph_becomes_a_table_that_its_caption_names():
    note = render("Before.\n\n![Sums of $x$.](table:sums.all)\n\nAfter.\n")
    assert '<figure class="tab"><figcaption id="table-sums-all">Sums of ' in note.html
    assert (
        '.</figcaption><div class="table-scroll"><table aria-labelledby="table-sums-all">'
        f"{ROWS}</table></div>{BELOW}</figure>\n<p>After.</p>"
    ) in note.html
    assert note.figures == (FigureUse("sums.all", 3, 1, "table"),)
    assert "Sums of x" in note.text


TABLES = """\
import json
from pathlib import Path

from pylit.figures.draw import Figure, Plot, Table

RESULTS = Path(__file__).parents[1] / "results"


def every():
    found = sorted(RESULTS.glob("*.json"))
    rows = [[path.stem, str(json.loads(path.read_text())["loss"])] for path in found]
    return Table(["run", "loss"], rows, notes=["In nats."])


def ragged():
    return Table(["a", "b"], [["1"]])


def named():
    try:
        loss = json.loads((RESULTS / "of/a/study.json").read_text())["loss"]
    except FileNotFoundError:
        loss = "still to be made"
    return Table(["run", "loss"], [["study", str(loss)]])


def drawn():
    return Figure([Plot((0, 1), (0, 1)).panel()], "A plot.")
"""
SITE = {
    "docs_src/figures/sums.py": TABLES,
    "docs_src/pages/notes.md": "# Notes\n\n![Every run.](table:sums.every)\n",
    "docs_src/results/first.json": '{"loss": 1.5}',
}


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    started: list[list[str]] = []

    count(monkeypatch, started, lambda task: task.function)
    return started


def test_a_table_is_made_anew_when_a_result_changes_or_is_added(
    tmp_path: Path, children: list[list[str]]
):
    def page() -> str:
        return (tmp_path / "site/notes.html").read_text(encoding="utf-8")

    succeed(make_site(tmp_path, SITE))
    assert '<th scope="row">first</th><td class="r">1.5</td></tr></tbody></table></div>' in page()
    assert "<p>In nats.</p></figure>" in page()
    assert succeed(tmp_path).tally.rendered == 0
    assert children == [["every"]]

    (tmp_path / "docs_src/results/first.json").write_text('{"loss": 1.25}')
    succeed(tmp_path)
    assert '<td class="r">1.25</td>' in page()

    (tmp_path / "docs_src/results/second.json").write_text('{"loss": 1.75}')
    succeed(tmp_path)
    assert '<th scope="row">second</th><td class="r">1.75</td>' in page()
    assert children == [["every"]] * 3
    assert succeed(tmp_path).tally.rendered == 0
    assert children == [["every"]] * 3


def test_a_table_is_made_anew_when_a_file_is_there_that_it_had_asked_for(tmp_path: Path):
    """In folders, too, that were not there either."""
    notes = "# Notes\n\n![It.](table:sums.named)\n"
    succeed(make_site(tmp_path, SITE | {"docs_src/pages/notes.md": notes}))
    page = tmp_path / "site/notes.html"
    assert "still to be made" in page.read_text(encoding="utf-8")
    result = tmp_path / "docs_src/results/of/a/study.json"
    result.parent.mkdir(parents=True)
    result.write_text('{"loss": 1.5}')
    succeed(tmp_path)
    assert '<td class="r">1.5</td>' in page.read_text(encoding="utf-8")
