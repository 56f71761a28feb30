"""The rows of the benchmark of generation."""

import sys

import pytest
import torch

from benchmarks import generation as room
from benchmarks.generation import growth, main, per_token, state, tokens, written
from benchmarks.writers import (
    COMPILED,
    LEAN,
    REREADING,
    STATES,
    check_equal,
    elman,
    feedback,
    gpt,
    replies,
)
from labml_nn.transformers.autoregressive import AutoregressiveTransformer


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def small_gpt(context, texts, device="cpu"):
    return gpt(context, texts, device, d_model=12, heads=3, n_layers=2)


def test_all_ways_agree_and_stay_where_they_are():
    reply = replies(6, 3, d_model=12, heads=3, n_layers=1)
    for ways in (small_gpt(6, 3), reply, elman(6, 3, units=8)):
        check_equal(ways)
        for way in ways.values():
            torch.testing.assert_close(way(), way())


def test_ways_of_the_feedback_transformer_agree():
    ways = feedback(5, 2, d_model=16, heads=2, n_layers=2)
    assert {STATES, LEAN} <= set(ways)
    check_equal(ways)


def test_the_one_that_reads_all_again_does(monkeypatch):
    ways = small_gpt(6, 2)
    monkeypatch.setattr(AutoregressiveTransformer, "forward", None)
    assert ways[REREADING]().shape == (2, 65)


def test_a_difference_is_found():
    one, other = torch.zeros(2, 3), torch.full((2, 3), 0.1)
    with pytest.raises(SystemExit, match="nothing was measured"):
        check_equal({"one": lambda: one, "other": lambda: other})


def test_rows_are_for_one_token():
    row = {"name": "b", "ms": 8.0, "low": 4.0, "high": 12.0, "processor_ms": 6.0}
    found = per_token({**row, "ratio": 2.0, "processor_ratio": 3.0}, {"a": 1, "b": 4}, "a")
    assert (found["ms"], found["low"], found["processor_ms"]) == (2.0, 1.0, 1.5)
    assert (found["ratio"], found["processor_ratio"]) == (8.0, 12.0)


def test_tokens_growth_and_state(monkeypatch):
    monkeypatch.setattr(room, "MODELS", {"GPT": small_gpt})
    rows = tokens((4, 9), (1,), rounds=1)
    forms = [row["form"] for row in rows if (row["context"], row["texts"]) == (9, 1)]
    assert forms[:3] == [REREADING, STATES, LEAN] and set(forms[3:]) <= {COMPILED}
    assert {(row["model"], row["contexts"][0]) for row in growth(rows)} == {("GPT", 4)}
    taken = {row["form"]: row["mib"] for row in state((40,))}
    assert taken[REREADING] > taken[STATES] > taken[LEAN]


def test_texts_are_written(monkeypatch):
    monkeypatch.setattr(room, "TEXTS", (1,))
    rows = written(2, rounds=1)
    assert [row["model"] for row in rows] == [
        *("autoregressive", "encoder_decoder", "feedback", "elman")
    ]
    assert all(row["ms"] > 0 for row in rows)


def test_the_whole_of_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["generation", "--quick", "--threads", "1", "--rounds", "1"])
    monkeypatch.setattr(room, "MODELS", {"GPT": small_gpt})
    monkeypatch.setattr(room, "TEXTS", (1,))
    main()
    printed = capsys.readouterr().out
    assert "| GPT | 4 | 1 |" in printed and "recorded" not in printed
