"""The rows of the benchmark of Elman nets."""

import sys

import pytest
import torch

from benchmarks import command, device
from benchmarks.elman import Size, check_equal, contenders, growth, main, memory, speed

TINY = Size(units=8, steps=5, texts=3, layers=2)
FORMS = ("nn.RNN", "loop of nn.Linear", "ours, loop", "ours, unrolled")


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """All but the kernel, which may not be there, and no measured limit."""
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    monkeypatch.setattr(device, "matmul_gflops", lambda threads: 1.0)


def test_speed():
    rows = speed({"A": TINY}, rounds=1)
    assert [(row["work"], row["form"]) for row in rows] == [
        (work, form) for work in ("train", "forward") for form in FORMS
    ]
    for row in rows:
        operations = TINY.operations() * (3 if row["work"] == "train" else 1)
        assert row["share"] == pytest.approx(operations / 1e6 / row["ms"])


def test_operations():
    """Two products of a vector and a matrix, each a multiplication and an addition an entry."""
    assert Size(units=3, steps=5, texts=2, layers=7).operations() == 5 * 2 * 7 * 2 * (2 * 3 * 3)


def test_a_form_that_computes_something_else_is_not_measured():
    forms = contenders(TINY)
    check_equal(forms)
    with torch.no_grad():
        forms["ours, loop"].model.layers[0].cell.recurrent.weight += 0.1
    with pytest.raises(AssertionError, match=r"ours, loop is .* away from nn\.RNN"):
        check_equal(forms)


def test_growth():
    rows, fits = growth(TINY, {"steps": (4, 7)}, rounds=1).values()
    assert [(row["size"], row["form"]) for row in rows] == [
        (size, form) for size in (4, 7) for form in ("nn.RNN", "ours, unrolled")
    ]
    assert [fit["sizes"] for fit in fits] == [[4, 7], [4, 7]]


def test_memory_grows():
    rows = memory(TINY, (4, 40))
    assert [(row["length"], row["form"]) for row in rows] == [
        (length, form) for length in (4, 40) for form in FORMS
    ]
    assert rows[-1]["mib"] > rows[3]["mib"] > 0


def test_the_whole_of_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["elman", "--quick", "--threads", "1", "--rounds", "1"])
    monkeypatch.setattr(command, "record", lambda *tables, **threads: pytest.fail("recorded"))
    main()
    told = capsys.readouterr().out
    for title in ("Milliseconds", "Growth", "Exponents", "MiB"):
        assert f"\n{title}" in told
