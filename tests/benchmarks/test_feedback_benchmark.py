"""The rows of the benchmark of the feedback transformer."""

import sys

import pytest

from benchmarks import command, device
from benchmarks import feedback as room
from benchmarks.feedback import growth, main, memory, models, speed
from benchmarks.feedback_models import Size

TINY = Size(width=32, heads=1, layers=2, steps=5, texts=3)
FORMS = ("ours, plain", "ours, by hand")


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """Two forms, and no measured limit."""
    monkeypatch.setattr(device, "matmul_gflops", lambda threads: 1.0)
    made = room.contenders

    def few(size, names=FORMS, device="cpu"):
        return made(size, names, device)

    monkeypatch.setattr(room, "contenders", few)
    monkeypatch.setattr(room, "GROWING", FORMS)
    monkeypatch.setattr(room, "NAMES", FORMS)


def test_speed():
    rows = speed({"A": TINY}, rounds=1)
    assert [(row["work"], row["form"]) for row in rows] == [
        (work, form) for work in ("train", "forward") for form in FORMS
    ]
    for row in rows:
        operations = TINY.operations() * (3 if row["work"] == "train" else 1)
        assert row["share"] == pytest.approx(operations / 1e6 / row["ms"])


def test_growth():
    rows, fits = growth(TINY, {"steps": (4, 7), "width": (32, 64)}, rounds=1).values()
    assert [(row["axis"], row["size"]) for row in rows[::2]] == [
        *(("steps", 4), ("steps", 7)),
        *(("width", 32), ("width", 64)),
    ]
    assert [(fit["axis"], fit["form"], fit["sizes"]) for fit in fits[:2]] == [
        ("steps", form, [4, 7]) for form in FORMS
    ]


def test_memory_grows():
    rows = memory(TINY, (4, 40))
    assert [(row["length"], row["form"]) for row in rows] == [
        (length, form) for length in (4, 40) for form in FORMS
    ]
    assert rows[2]["mib"] > rows[0]["mib"] > 0


def test_models():
    assert [row["form"] for row in models({"A": TINY})] == list(FORMS)


def test_the_whole_of_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["feedback", "--quick", "--threads", "1", "--rounds", "1"])
    monkeypatch.setattr(room, "TINY", {"A": TINY})
    monkeypatch.setattr(room, "QUICK", (TINY, {"steps": (4, 6)}))
    monkeypatch.setattr(command, "record", lambda *tables, **threads: pytest.fail("recorded"))
    main()
    told = capsys.readouterr().out
    for title in ("Parameters", "Milliseconds", "Growth", "Exponents", "MiB"):
        assert f"\n{title}" in told
