"""What the page of the LSTM says of its numbers."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from docs_src.figures import lstm as figures
from labml_nn.lstm import LSTM

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/lstm/__init__.py").read_text(encoding="utf-8")
KINDS = {"(": 1, ")": 2, "\n": 3}
SUMS = [[-10, 10, 10, -10], [10, 10, 10, -10], [0, 10, -10, 0], [10, 10, 10, 10]]


def follow(text):
    """The cell states and hidden states of the table, one for each character."""
    lstm = LSTM(4, 1, 1).double()
    with torch.no_grad():
        cell = lstm.cells[0]
        cell.input_lin.weight.copy_(torch.tensor(SUMS))
        cell.hidden_lin.weight.zero_()
        cell.hidden_lin.bias.zero_()
        state, kept, shown = None, [], []
        for one in text:
            x = torch.zeros(1, 1, 4).double()
            x[0, 0, KINDS.get(one, 0)] = 1
            _, state = lstm(x, state)
            kept.append(state.c.item())
            shown.append(state.h.item())
    return kept, shown


def test_the_elman_unit_cannot_count():
    h, states = 0.0, []
    for one in "((()))":
        h = math.tanh(h + (1 if one == "(" else -1))
        states.append(round(h, 2))
    assert states == [0.76, 0.94, 0.96, -0.04, -0.78, -0.94]


def test_a_line_by_hand():
    kept, shown = follow("f(g(x))\n")
    assert [abs(round(c, 2)) for c in kept] == [0, 1, 1, 2, 2, 1, 0, 0]
    assert [abs(round(h, 2)) for h in shown] == [0, 0.76, 0.76, 0.96, 0.96, 0.76, 0, 0]
    assert round(kept[6], 4) == -0.0003


def test_a_number_is_kept_over_a_hundred_letters():
    kept, _ = follow("(" + "x" * 100)
    assert kept[-1] / kept[0] == pytest.approx(0.995, abs=5e-4)
    gate = torch.sigmoid(torch.tensor(10.0, dtype=torch.double)).item()
    assert round(gate, 5) == 0.99995 and round(1 - gate, 5) == 0.00005
    assert round((1 - 0.96**2) ** 3, 4) == 0.0005


def test_how_far_the_gradient_reaches():
    at = figures.FAR.index
    zero, one, three = (figures._arriving(bias) for bias in figures.BIASES)
    elman = figures._arriving(None)
    assert zero[at(30)] < elman[at(30)]
    assert one[at(30)] / elman[at(30)] == pytest.approx(10, abs=2)
    assert three[at(50)] == pytest.approx(0.5, abs=0.05)
    # Without the second way, the forget gates alone.
    assert round((1 / (1 + math.exp(-3))) ** 50, 2) == 0.09
    three, one = (figures._arriving(bias, cut=True) for bias in (3.0, 1.0))
    assert three[at(50)] == pytest.approx(0.07, abs=0.005)
    assert elman[at(30)] / 3 < one[at(30)] < elman[at(30)]


def test_small_steps_are_shown_apart():
    told = [round(math.tanh(step * n), 3) for step in (1, 0.3) for n in (2, 3)]
    assert told == [0.964, 0.995, 0.537, 0.716]


def test_a_tanh_at_each_step_loses_a_count_of_small_steps():
    h = 0.0
    for _ in range(3):
        h = math.tanh(h + 0.1)
    assert round(h, 2) == 0.29
    for _ in range(100):
        h = math.tanh(h)
    assert round(h, 2) == 0.11


def test_what_the_trained_model_wrote_and_its_loss():
    ours, elman = (
        json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))
        for name in ("lstm", "elman")
    )
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    losses = [f"{one['result']['validation_loss']:.2f}" for one in (ours, elman)]
    assert losses == ["1.65", "1.59"] and ours["result"]["step"] == elman["result"]["step"]
    assert round(100 * (elman["parameters"] / ours["parameters"] - 1)) == 39
    assert 100 < ours["result"]["process_seconds"] < 140  # about two minutes
