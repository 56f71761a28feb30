"""Which benchmarks `make bench` runs, and what it does with one that fails."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as room
from benchmarks.__main__ import commands, main


def test_the_usual_ones_with_two_threads_and_with_one(monkeypatch):
    monkeypatch.setattr(room, "_exists", lambda name: name in ("feedback", "build"))
    assert commands([]) == [
        ["benchmarks.feedback", "--threads", "2"],
        ["benchmarks.feedback", "--threads", "1", "--tables", "speed"],
        ["benchmarks.build"],
    ]


def test_what_the_page_shows_once_is_measured_once():
    assert commands(["generation"]) == [["benchmarks.generation", "--threads", "2"]]
    assert commands(["generation", "--threads", "1"]) == [
        ["benchmarks.generation", "--threads", "1"]
    ]


def test_some_tables_with_all_threads():
    own = ["--tables", "growth", "memory"]
    assert commands(["elman", "build", "--tables", "growth", "memory"]) == [
        ["benchmarks.elman", "--threads", "2", *own],
        ["benchmarks.elman", "--threads", "1", *own],
        ["benchmarks.build", *own],
    ]


def test_on_a_gpu_those_that_can_and_once(monkeypatch):
    monkeypatch.setattr(room, "_exists", lambda name: name in ("feedback", "build"))
    on = ["--device", "cuda"]
    assert commands(on) == [["benchmarks.feedback", "--threads", "2", *on]]


def test_flags_are_handed_on():
    asked = ["elman", "attention", "--quick", "--threads", "8", "--rounds", "3"]
    assert commands(asked) == [
        [f"benchmarks.{name}", "--threads", "8", "--quick", "--rounds", "3"]
        for name in ("elman", "attention")
    ]
    assert commands(["training", "--minutes=90"]) == [["benchmarks.training", "--minutes=90"]]


def test_no_such_benchmark(capsys):
    with pytest.raises(SystemExit):
        commands(["feedbck"])
    assert "'feedbck' is no benchmark; there are feedback, elman" in capsys.readouterr().err


def test_one_that_fails_stops_no_other(monkeypatch, capsys):
    ran = []

    def run(command, **kept):
        ran.append(command[2])
        return SimpleNamespace(returncode=int(command[2] == "benchmarks.elman"))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "elman", "attention", "--threads", "1"])
    assert main() == 1
    assert ran == ["benchmarks.elman", "benchmarks.attention"]
    told = capsys.readouterr().out
    assert "benchmarks.elman ended with 1; the others go on" in told
    assert "Numbers are in docs_src/results/performance; `make site`" in told


def test_nothing_is_said_of_numbers_that_were_not_kept(monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", lambda command, **kept: SimpleNamespace(returncode=0))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "elman", "--quick"])
    assert main() == 0
    assert "Numbers" not in capsys.readouterr().out
