"""Benchmarks: fair rounds, equal results first, records that replace older ones, a command."""

import json

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import attention, harness, mixers, peers


def test_every_round_runs_each_candidate_once_and_ratios_are_over_the_first():
    calls = []
    runs = {name: lambda name=name: calls.append(name) for name in ("a", "b")}
    rows = harness.compare(runs, rounds=4, setting="x")
    assert calls == ["a", "b"] * 5  # once before the rounds
    seen = [(row["form"], row["setting"], row["rounds"]) for row in rows]
    assert seen == [("a", "x", 4), ("b", "x", 4)]
    assert rows[0]["ratio"] == 1
    assert all(0 < row["low"] <= row["ms"] <= row["high"] < 1e3 for row in rows)
    assert all(0 <= row["cpu_ms"] < 1e3 for row in rows)


def test_nothing_is_timed_unless_results_are_equal():
    one = torch.ones(3)
    harness.check_equal({"a": [one], "b": [one + 1e-6]})
    for other in (one + 0.1, one * torch.nan):
        with pytest.raises(SystemExit, match="differ"):
            harness.check_equal({"a": [one], "b": [other]})


def test_peak_memory_counts_what_is_alive_at_once():
    mib = 2**18  # float32 numbers

    def run():
        kept = torch.empty(3 * mib)
        for _ in range(4):
            torch.empty(2 * mib)
        del kept

    assert harness.peak_memory(run) == pytest.approx(5, abs=0.1)


def test_a_record_replaces_the_table_of_the_same_name_and_threads(tmp_path):
    for number, (table, threads) in enumerate([("s", 2), ("s", 1), ("t", 2), ("s", 2)]):
        harness.record("x", table, [{"ms": number / 3}], threads, tmp_path)
    tables = json.loads((tmp_path / "x.json").read_text())["tables"]
    found = [(one["table"], one["threads"], one["rows"][0]["ms"]) for one in tables]
    assert found == [("s", 1, 0.33333), ("s", 2, 1.0), ("t", 2, 0.66667)]
    assert not list(tmp_path.glob("*.part"))


def test_a_peer_that_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    with pytest.raises(peers.MissingPeer, match="make bench"):
        peers.peer("pycco")
    with pytest.raises(ValueError, match="nothing"):
        peers.peer("nothing")


def test_the_published_package_and_ours_live_side_by_side():
    theirs = peers.published("labml_nn.transformers.mha")
    assert theirs.MultiHeadAttention is not attention.MultiHeadAttention
    assert attention.MultiHeadAttention.__module__ == "labml_nn.transformers.mha"


@pytest.mark.parametrize("kind", attention.KINDS)
def test_attention_candidates_compute_the_same(kind):
    size = attention.Size(d_model=12, heads=3, length=5, batch=2, kind=kind)
    attention.check(attention.attentions(size, ("labml-nn", "PyTorch", "ours")))


def test_every_form_of_every_mixer_is_timed():
    tables = dict(mixers.measure(quick=True, rounds=1))
    forms = {row["form"] for row in tables["speed"]}
    for name in mixers.MIXERS:
        assert {f"{name}, chunks", f"{name}, loop"} <= forms, name
    state = {(row["form"], row["length"]): row["bytes"] for row in tables["tokens"]}
    short, long = mixers.TINY
    for name in {row["form"] for row in tables["tokens"]}:
        grows = state[name, long] > state[name, short]
        assert grows == (name == "attention"), name


def test_the_forms_of_a_mixer_are_what_runs(monkeypatch):
    """A form that computes something else stops the benchmark."""
    module = mixers.import_module("labml_nn.recurrent.linear_attention")

    def wrong(q, k, v, memory):
        found, after = module.linear_attention_table(q, k, v, memory)
        return found + 1, after

    monkeypatch.setattr(module, "linear_attention_loop", wrong)
    with pytest.raises(SystemExit, match="linear attention, loop and linear attention, chunks"):
        list(mixers.measure(quick=True, rounds=1))


def test_the_command_runs_a_whole_benchmark_and_refuses_unknown_names(capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    command.main(["elman", "--quick", "--rounds", "1"])
    said = capsys.readouterr().out
    assert "| setting | work |" in said
    assert all(form in said for form in ("nn.RNN", "ours, reference", "ours, C++ kernel"))
    with pytest.raises(SystemExit):
        command.main(["elmann"])
    assert "there is no benchmark 'elmann'" in capsys.readouterr().err
