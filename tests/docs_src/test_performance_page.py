"""The page of performance: it is made of what was measured, and says of it what is so."""

import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from test_figures_data import load

from benchmarks import tables
from pylit.figures.figure import Figure
from pylit.figures.table import Table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs_src/results"
PAGE = (ROOT / "docs_src/pages/performance.md").read_text(encoding="utf-8")
MEASURED = sorted((RESULTS / "performance").glob("*.json"))
ABLATION = RESULTS / "training_ablation.json"


ASKED = re.findall(r"\((?:figure|table):(\w+\.\w+)\)", PAGE)


@pytest.mark.parametrize("name", ASKED)
def test_where_nothing_was_measured_a_line_says_so(name, monkeypatch, tmp_path):
    file, function = name.split(".")
    module = load(file)
    monkeypatch.setattr(module if file == "ablation" else tables, "RESULTS", tmp_path)
    made = getattr(module, function)()
    if isinstance(made, Table):
        assert made.rows[0][0] == "not measured here"
        assert "make bench" in made.notes[0]
    else:
        assert isinstance(made, Figure)
        assert re.search("nothing", made.alt, re.IGNORECASE)


def test_no_number_was_typed_in():
    """But those of versions, sizes and the words of the method."""
    prose = re.sub(r"```.*?```|\$.*?\$|\(.*?\)|`.*?`", "", PAGE, flags=re.DOTALL)
    prose = re.sub(r"\b\d+\.\d+\.\d+\b", "", prose)
    assert not re.search(r"\d\.\d", prose)
    assert not re.search(r"\d ?(ms|%|MiB|times)", prose.replace("100 %", "").replace("3 times", ""))


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_says_nothing_of_places(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'"/|~/|[A-Z]:\\\\', text)
    assert len(text) < 120_000
    for table in json.loads(text)["tables"]:
        assert {"table", "threads", "machine", "matmul_gflops", "date", "rows"} <= set(table)
        assert table["rows"], table["table"]


def rows(name: str, table: str) -> list[dict[str, Any]]:
    """With the most threads."""
    path = RESULTS / "performance" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{name} was not measured")
    every = json.loads(path.read_text(encoding="utf-8"))["tables"]
    found = [t for t in every if t["table"] == table]
    if not found:
        pytest.skip(f"{table} of {name} was not measured")
    best: list[dict[str, Any]] = max(found, key=lambda t: int(t["threads"]))["rows"]
    return best


# What the page says of the feedback transformer.


def test_each_form_of_the_feedback_transformer_is_faster_than_the_one_before_it():
    for setting in ("A", "B"):
        for work in ("train", "forward"):
            times = {
                row["form"]: row["ms"]
                for row in rows("feedback", "speed")
                if (row["setting"], row["work"]) == (setting, work)
            }
            if times:
                assert times["ours, kernel"] < times["ours, by hand"] < times["labml-nn, KV"]


def test_shares_of_the_limit_are_at_most_a_little_above_one():
    for path in MEASURED:
        for table in json.loads(path.read_text(encoding="utf-8"))["tables"]:
            assert all((row.get("share") or 0) < 1.1 for row in table["rows"]), path.stem


# What the page says of training.


@pytest.fixture(scope="module")
def losses() -> dict[str, list[float]]:
    if not ABLATION.exists():
        pytest.skip("the ablation was not made")
    found: dict[str, list[float]] = {}
    for made in json.loads(ABLATION.read_text(encoding="utf-8"))["runs"]:
        found.setdefault(made["recipe"], []).append(made["validation_loss"])
    return found


def test_a_third_of_the_time_is_enough(losses):
    assert max(losses["the preset, a third of the time"]) < min(losses["nanoGPT"])
    assert mean(losses["the preset"]) < 1.58


def test_muon_and_rotary_positions_are_worth_most_then_sizes_and_qk_norm(losses):
    worth = {name: mean(of) - mean(losses["every part"]) for name, of in losses.items()}
    first = ("AdamW for all parameters", "learned positions")
    second = ("the peer's shape", "the peer's batch", "no QK norm")
    others = ("GELU", "layer norm", "no zeros at the start", "with biases")
    assert min(worth[name] for name in first) > max(worth[name] for name in second)
    assert min(worth[name] for name in second) > max(0.005, *(worth[name] for name in others))
    assert all(min(losses[name]) > max(losses["every part"]) for name in first)


def test_three_parts_have_not_earned_their_place_and_the_preset_does_without(losses):
    means = {name: mean(of) for name, of in losses.items()}
    for name in ("GELU", "layer norm", "no zeros at the start"):
        assert means[name] < means["every part"]
    assert min(means, key=lambda name: means[name]) == "the preset"
