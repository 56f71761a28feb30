"""What is kept of a benchmark, and what is printed."""

import json

import pytest

from benchmarks import device
from benchmarks import record as room
from benchmarks.record import cell, commit, read, record, show


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(device, "matmul_gflops", lambda threads: 100.0 * threads)


def rows(path):
    return {(t["table"], t["threads"]): [row["ms"] for row in t["rows"]] for t in read(path)}


def test_a_table_says_where_it_comes_from(tmp_path):
    path = record(
        "mill", {"speed": [{"form": "wind", "ms": 1.23456789}]}, threads=2, folder=tmp_path
    )
    written = json.loads(path.read_text(encoding="utf-8"))
    assert (path.name, written["about"]) == ("mill.json", "python -m benchmarks.mill")
    (table,) = written["tables"]
    assert table["rows"] == [{"form": "wind", "ms": 1.2346}]
    assert (table["table"], table["threads"], table["matmul_gflops"]) == ("speed", 2, 200.0)
    assert {"machine", "date", "commit"} < set(table)


def test_only_what_was_measured_again_is_replaced(tmp_path):
    def keep(ms, threads, *tables):
        made = {name: [{"ms": ms}] for name in tables}
        return record("mill", made, threads=threads, folder=tmp_path)

    keep(1.0, 1, "speed", "memory")
    keep(2.0, 2, "speed")
    path = keep(3.0, 1, "speed")
    assert rows(path) == {("memory", 1): [1.0], ("speed", 1): [3.0], ("speed", 2): [2.0]}
    assert [file.name for file in tmp_path.iterdir()] == ["mill.json"]


def test_nothing_there(tmp_path):
    assert read(tmp_path / "none.json") == []


def test_a_commit_or_nothing(monkeypatch, tmp_path):
    assert len((commit() or "x" * 40).removesuffix("-dirty")) == 40
    monkeypatch.setattr(room, "ROOT", tmp_path)
    assert commit() is None


def test_a_table_in_markdown(capsys):
    show("Mills", [{"form": "wind", "ms": 1234.5}, {"form": "water"}], {"form": "mill", "ms": "ms"})
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Mills",
        "",
        "| mill | ms |",
        "|:--|--:|",
        "| wind | 1,234 |",
        "| water | — |",
    ]


def test_columns_of_numbers_are_aligned_right(capsys):
    show("Mills", [{"n": 3, "ms": 1.5}], ["n", "ms"])
    assert "|--:|--:|" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "—"), (5, "5"), ("a", "a"), (0.01234, "0.0123"), (1.234, "1.23"), (12.34, "12.3")],
)
def test_digits(value, shown):
    assert cell(value) == shown
