"""What was recorded, in tables and curves for pages."""

import pytest

from benchmarks import device
from benchmarks import tables as room
from benchmarks.record import record
from benchmarks.tables import beside, exponents, growth, memory, number, origin, widest


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(room, "RESULTS", tmp_path)
    monkeypatch.setattr(device, "matmul_gflops", lambda threads: 100.0 * threads)
    return tmp_path / "performance"


def row(form, ms, ratio, **about):
    times = {"low": 0.9 * ms, "high": 1.3 * ms, "processor_ms": ms, "processor_ratio": ratio}
    return {**about, "form": form, "name": form, "ms": ms, "ratio": ratio, "rounds": 5, **times}


def test_nothing_was_measured():
    for table in (beside("mill"), memory("mill"), exponents("mill")):
        assert table.rows[0][0] == "not measured here"
    assert "Nothing was measured yet" in growth("mill").alt


def test_forms_beside_each_other(folder):
    about = {"setting": "A", "work": "grind", "d_model": 8, "layers": 1}
    rows = [
        row("wind", 30.0, 1, **about, share=0.1),
        row("ours, water", 6.0, 5.0, **about, share=0.5),
    ]
    record("mill", {"speed": rows}, threads=2, folder=folder)
    record("mill", {"speed": rows[:1]}, threads=1, folder=folder)
    table = beside("mill")
    assert table.head == ["setting", "threads", "wind, ms", "× water", "of limit"]
    assert table.rows == [
        ["grind, 8 wide", "2", "30.0", "5.00", "50 %"],
        ["grind, 8 wide", "1", "30.0", "—", "10 %"],
    ]
    assert "limit 200 GFLOP/s" in table.notes[1]
    assert "within 40 % of each other" in table.notes[2]


def test_the_most_threads_count(folder):
    for threads in (1, 4, 2):
        rows = [{"length": 3, "form": "wind", "mib": float(threads)}]
        record("mill", {"memory": rows}, threads=threads, folder=folder)
    best = widest("mill", "memory")
    assert best is not None and best["threads"] == 4
    assert memory("mill").rows == [["wind", "4"]]
    assert memory("mill").head == ["form", "3 steps"]


def test_growth_and_its_powers(folder):
    rows = [row("wind", 10.0 * n, 1, axis="stones", size=n) for n in (2, 4)]
    fits = [{"axis": "stones", "form": "wind", "sizes": [2, 4], "exponent": 1.0}]
    record("mill", {"growth": rows, "exponents": fits}, threads=1, folder=folder)
    assert "wind, stones 2 to 4: 20.0 to 40.0 ms" in growth("mill").alt
    assert exponents("mill").rows == [["wind", "1.00"]]
    assert exponents("mill").notes == ["stones from 2 to 4."]


def test_one_place_is_told_once(folder):
    record(
        "mill", {"a": [row("wind", 1.0, 1)], "b": [row("wind", 1.0, 1)]}, threads=1, folder=folder
    )
    both = [widest("mill", name) for name in "ab"]
    (told,) = origin([table for table in both if table])
    assert told.endswith("; 1 thread.")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "—"),
        (0.0123, "0.012"),
        (0.5, "0.50"),
        (-1.0, "−1.00"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1e4, "10,000"),
    ],
)
def test_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(("texts", "shown"), [(1, "train, 1 text"), (11, "train, 11 texts")])
def test_one_is_singular(texts, shown):
    assert room.place_of({"work": "train", "texts": texts, "ms": 1.0}) == shown


def test_what_a_gpu_did(folder):
    counted = {"tokens_s": 81234.5, "launches": 2.0, "kernels": 19000.0, "share": 0.25}
    made = [
        {**row("labml-nn, KV", 40.0, 1.0, setting="A", work="train"), **counted},
        {**row("ours, graphs", 10.0, 4.0, setting="A", work="train"), **counted},
    ]
    record("feedback-cuda", {"speed": made}, threads=1, folder=folder)
    table = room.on_gpu(("feedback", "speed"), ("elman", "speed"))
    assert table.head[3:] == ["×", "tokens a second", "launches", "kernels", "of limit"]
    cells = ["A, train", "ours, graphs", "10.0", "4.00", "81,234", "2", "19,000", "25 %"]
    assert table.rows[1] == cells


def test_no_gpu_has_done_anything():
    table = room.on_gpu(("feedback", "speed"))
    assert table.rows[0][0] == "not measured here"
    assert table.notes == ['make bench FLAGS="--device cuda" measures it, where there is one.']
