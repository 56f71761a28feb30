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


def test_what_was_not_measured_stops_the_build(monkeypatch, tmp_path):
    module = load("performance")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    for name in set(SHOWN) - {"machines"}:
        with pytest.raises(LookupError, match="make bench"):
            getattr(module, name)()


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_was_recorded(name):
    made = getattr(load("performance"), name)()
    table = getattr(made, "table", made)
    assert table.rows and all(len(row) == len(table.head) for row in table.rows)


def test_the_ratio_of_a_sentence_is_that_of_the_record():
    text = (ROOT / "docs_src/results/performance/feedback.json").read_text(encoding="utf-8")
    (speed,) = [one for one in json.loads(text)["tables"] if one["table"] == "speed"]
    rows = [row for row in speed["rows"] if row["work"] == "train" and "C++" in row["form"]]
    says = load("performance").feedback_chart().says
    assert [f"{row['ratio']:.1f}" for row in rows] == re.findall(r"\d\d\.\d", says)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_no_place_on_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert "/home/" not in text and "/root/" not in text and "/tmp/" not in text
