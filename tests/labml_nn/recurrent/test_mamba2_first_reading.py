"""What the page of Mamba-2 says of its numbers."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from docs_src.figures import mamba2 as figures
from labml_nn.recurrent.mamba2 import Mamba2, ssd_loop, ssd_table

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/recurrent/mamba2.py").read_text(encoding="utf-8")
WORDS = [7, 1, 1, 1, 9, 1]  # 7 er well so 9 er


def row_of_the_page(name):
    """The numbers of a row of a table, by its first cell."""
    (row,) = re.findall(rf"(?m)^\| {re.escape(name)} \|(.*)\|$", LESSON)
    return [float(cell) for cell in row.split("|")]


def bucket(deltas):
    h, found = 0.0, []
    for word, delta in zip(WORDS, deltas, strict=True):
        h = math.exp(-3 * delta) * h + delta * word
        found.append(round(h, 2))
    return found


def test_the_bucket():
    assert row_of_the_page(r"$\Delta = 1$ for all") == bucket([1] * 6)
    assert row_of_the_page(r"$\Delta = 0.1$ for all") == bucket([0.1] * 6)
    (deltas,) = re.findall(r"(?m)^\| \$\\Delta\$ \|([\d .|]*)\|$", LESSON)
    deltas = [float(cell) for cell in deltas.split("|")]
    assert row_of_the_page("$h$") == bucket(deltas)
    kept = row_of_the_page(r"kept, $e^{\Delta A}$")
    assert kept == [round(math.exp(-3 * delta), 2) for delta in deltas]
    # In the second row, of what is in the bucket after the 9, this share is from before.
    assert 0.25 < 0.51 * math.exp(-0.3) / 1.28 < 0.34


def night():
    """Queries for Ann, keys, values, logarithms of decays: Ann, a night, Ben."""
    delta = torch.tensor([1.0, 30, 1]).double()[:, None, None]
    q = torch.tensor([[1.0, 0]] * 3).double()[:, None, None]
    k = torch.tensor([[1.0, 0], [1, 1], [0, 1]]).double()[:, None, None]
    v = torch.tensor([[3.0, 1], [0, 0], [2, 4]]).double()[:, None, None]
    return q, k, delta[..., None] * v, -0.1 * delta


@pytest.mark.parametrize("form", [ssd_loop, ssd_table])
def test_a_line_by_hand(form):
    q, k, v, log_decay = night()
    h = torch.zeros(1, 1, 2, 2).double()
    found, after = form(q, k, v, log_decay, h)
    expected = [[3, 1], [0.15, 0.05], [0.14, 0.05]]
    assert [[round(x, 2) for x in row] for row in found[:, 0, 0].tolist()] == expected
    assert [[round(x, 2) for x in row] for row in after[0, 0].tolist()] == [[0.14, 0.05], [2, 4]]
    for row, second in zip(expected, ("0, 0", "0, 0", "2, 4"), strict=True):
        assert f"| ({row[0]}, {row[1]}) | ({second}) |" in LESSON


def test_the_table_by_hand():
    q, k, _, log_decay = night()
    units = torch.eye(3).double()[:, None, None]
    # With unit vectors as values the output is the table itself.
    weights, _ = ssd_table(q, k, units, log_decay, torch.zeros(1, 1, 2, 3).double())
    expected = [[1, 0, 0], [0.05, 1, 0], [0.045, 0.905, 0]]
    torch.testing.assert_close(weights[:, 0, 0], torch.tensor(expected).double(), atol=3e-4, rtol=0)


def test_a_running_sum_loses_digits_after_a_long_night():
    steps = torch.tensor([-3000.0, -0.1, -0.1]).cumsum(0).diff()
    assert [f"{step:.4f}" for step in steps.tolist()] == ["-0.1001", "-0.0999"]


def test_the_figure_shows_a_chapter_that_the_9_closes():
    assert "only 0.05 is left of the first four words, and all of the 9" in figures.decays().alt


def test_how_long_new_heads_remember():
    torch.manual_seed(0)
    mixer = Mamba2(8, 1000, 4, 4)
    rates = mixer.A_log.exp() * F.softplus(mixer.dt_bias)
    half_lives = math.log(2) / rates
    assert half_lives.min() < 1 and 300 < half_lives.max() < 700


def test_what_a_layer_that_begins_at_zero_keeps():
    assert round(math.log(2), 1) == 0.7 and round(100 * math.exp(-8 * math.log(2)), 1) == 0.4


def test_what_the_trained_model_wrote_and_its_loss():
    ours, lstm = (
        json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))
        for name in ("mamba2", "lstm")
    )
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    losses = [f"{one['result']['validation_loss']:.2f}" for one in (ours, lstm)]
    assert losses == ["1.63", "1.65"] and ours["result"]["step"] == lstm["result"]["step"]
    assert 1.9 < lstm["parameters"] / ours["parameters"] < 2.2
    assert 150 < ours["result"]["process_seconds"] < 210  # about three minutes
