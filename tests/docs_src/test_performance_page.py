"""The page "Performance" shows what was recorded, and nothing else."""

import json
import re
from pathlib import Path

import pytest
from drawn_figures import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs_src/pages/performance.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"\((?:table|figure):performance\.(\w+)\)", PAGE)
RECORDS = sorted((ROOT / "docs_src/results/performance").glob("*.json"))


@pytest.mark.parametrize("name", [name for name in SHOWN if name != "machines"])
def test_what_was_not_measured_stops_the_build(name, monkeypatch, tmp_path):
    module = load("performance")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    with pytest.raises(LookupError, match="make bench"):
        getattr(module, name)()


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_was_recorded(name):
    made = getattr(load("performance"), name)()
    table = getattr(made, "table", made)
    assert table.rows and all(len(row) == len(table.head) for row in table.rows)


def test_each_section_begins_with_a_chart_and_a_sentence_from_the_record():
    """Tables are folded, and the machine is named once."""
    sections = PAGE.split("\n## ")
    charted = [section for section in sections if "_chart)" in section]
    assert len(charted) == 5
    for section in charted:
        figure = re.search(r"\(figure:performance\.(\w+)\)", section)
        assert figure and section.split("\n\n")[2].startswith("![")
        says = getattr(load("performance"), figure[1])().says
        assert re.search(r"\d", says) and says.endswith(".")
    open_tables = re.sub(r"<details>.*?</details>", "", PAGE, flags=re.DOTALL)
    assert re.findall(r"\(table:(\S+)\)", open_tables) == ["performance.machines"]


def test_the_ratio_of_a_sentence_is_that_of_the_record():
    rows = [
        row
        for path in RECORDS
        if path.stem == "feedback"
        for table in json.loads(path.read_text(encoding="utf-8"))["tables"]
        for row in table["rows"]
        if table["table"] == "speed" and row["work"] == "train" and "C++" in row["form"]
    ]
    says = load("performance").feedback_chart().says
    assert [f"{row['ratio']:.1f}" for row in rows] == re.findall(r"\d\d\.\d", says)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_no_place_on_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert "/home/" not in text and "/root/" not in text and "/tmp/" not in text
