"""The page "Performance" shows what was recorded, and says where nothing was."""

import re
from pathlib import Path

import pytest
from test_figures_data import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs_src/pages/performance.md").read_text(encoding="utf-8")
TABLES = re.findall(r"\(table:performance\.(\w+)\)", PAGE)
RECORDS = sorted((ROOT / "docs_src/results/performance").glob("*.json"))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_a_record_says_how_to_measure(name, monkeypatch, tmp_path):
    module = load("performance")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    table = getattr(module, name)()
    assert table.rows[0][0] == "not measured here"
    assert len(table.rows[0]) == len(table.head)
    assert "make bench" in table.notes[0]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_shows_what_was_recorded(name):
    benchmark = "generation" if name == "text" else name.partition("_")[0]
    table = getattr(load("performance"), name)()
    recorded = benchmark in {path.stem for path in RECORDS}
    measured = table.rows[0][0] != "not measured here"
    assert recorded or not measured
    assert all(len(row) == len(table.head) for row in table.rows)
    assert any("commit" in note for note in table.notes) == measured


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_no_place_on_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert "/home/" not in text and "/root/" not in text and "/tmp/" not in text
