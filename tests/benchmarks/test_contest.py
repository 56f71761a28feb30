"""Runs take turns, and ratios are taken within a round."""

import gc

import pytest

from benchmarks import contest as room
from benchmarks.contest import Taken, contest


@pytest.fixture
def clocked(monkeypatch):
    """A clock that shows what the runs return: seconds by the clock, and of the processor."""
    monkeypatch.setattr(room, "clock", lambda run: Taken(*run()))


def series(*times):
    """A run that takes these times, one after the other."""
    left = iter(times)
    return lambda: next(left)


def test_runs_take_turns():
    calls = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    rows = contest(runs, first="a", rounds=3, warm_up=2)
    assert calls == ["a", "b"] * 5
    assert [(row["name"], row["rounds"]) for row in rows] == [("a", 3), ("b", 3)]


def test_ratio_is_a_median_of_rounds(clocked):
    runs = {
        "slow": series((9.0, 9.0), (12.0, 10.0), (30.0, 10.0), (40.0, 10.0)),
        "fast": series((9.0, 9.0), (3.0, 5.0), (10.0, 4.0), (4.0, 2.0)),
    }
    slow, fast = contest(runs, first="slow", rounds=3)
    assert (slow["ms"], slow["ratio"], slow["processor_ratio"]) == (30.0, 1.0, 1.0)
    # Ratios of the rounds: 4, 3, 10. The ratio of medians would be 7.5.
    assert (fast["ms"], fast["ratio"]) == (4.0, 4.0)
    assert (fast["processor_ms"], fast["processor_ratio"]) == (4.0, 2.5)


def test_quartiles(clocked):
    run = series(*((float(n), 1.0) for n in (5, 1, 4, 2, 3)))
    (row,) = contest({"only": run}, first="only", rounds=5, warm_up=0)
    assert (row["low"], row["ms"], row["high"]) == (2.0, 3.0, 4.0)


def test_one_round(clocked):
    (row,) = contest({"only": series((7.0, 6.0))}, first="only", rounds=1, warm_up=0)
    assert (row["low"], row["ms"], row["high"], row["processor_ms"]) == (7.0, 7.0, 7.0, 6.0)


def test_a_run_shorter_than_the_processors_clock_can_tell(clocked):
    (row,) = contest({"only": series((0.1, 0.0))}, first="only", rounds=1, warm_up=0)
    assert row["processor_ratio"] == 0.0


def test_nothing_is_collected_while_the_clock_runs():
    seen = []
    contest({"a": lambda: seen.append(gc.isenabled())}, first="a", rounds=1, warm_up=0)
    assert (seen, gc.isenabled()) == ([False], True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first": "b"}, r"`first` \('b'\) must be one of the runs: a"),
        ({"first": "a", "rounds": 0}, r"`rounds` \(0\) must be at least 1"),
    ],
)
def test_impossible(arguments, message):
    with pytest.raises(ValueError, match=message):
        contest({"a": lambda: None}, **arguments)


def test_a_slow_contest_ends_after_a_few_rounds(monkeypatch):
    monkeypatch.setattr(room, "PATIENCE", -1.0)
    counted = []
    rows = room.contest({"slow": lambda: counted.append(1)}, first="slow", rounds=9, warm_up=2)
    assert (rows[0]["rounds"], len(counted)) == (3, 5)
    monkeypatch.setattr(room, "PATIENCE", 1000.0)
    assert room.contest({"quick": list}, first="quick", rounds=9)[0]["rounds"] == 9
