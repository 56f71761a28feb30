"""What the page of the GRU says of its numbers."""

import math
import re

import pytest
import torch
from lesson_pages import Page, result
from stages import check_stage

from docs_src.figures import gru as figures
from docs_src.tasks import lstm as task
from docs_src.tasks import results
from labml_nn.lstm import LSTM, gru
from labml_nn.lstm.gru import GRU

PAGE = Page(gru)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


BY_DEPTH = results("lstm", "by_depth")
OURS, THEIRS = result("gru"), result("lstm")
AT_25 = [100 * run[task.TESTED.index(25)] for run in BY_DEPTH["GRU"]]


def test_numbers_on_the_way():
    PAGE.has(
        rf"$\tanh(2) = {math.tanh(2):.2f}$ and $\tanh(-2) = {math.tanh(-2):.2f}$",
        rf"$\tanh(2 - 4) = {math.tanh(2 - 4):.2f}$",
        rf"$0.5 \cdot 0.5 = {0.5 * 0.5:.2f}$ stays",
        f"the state is {0.5 * 0.5 + 0.5:.2f}",
        f"in the task {parameters(GRU(3, 16, 1)):,} and {parameters(LSTM(3, 16, 1)):,}",
        f"has {100 - 100 * OURS['parameters'] / THEIRS['parameters']:.0f} % fewer parameters",
        f"at least {100 * min(results('lstm', 'trained')['GRU']):.1f} % of the lines",
        f"the GRUs {math.floor(min(AT_25))} to {math.ceil(max(AT_25))} %",
    )


def test_only_the_lstm_counts_far():
    last = {model: [run[task.TESTED.index(30)] for run in runs] for model, runs in BY_DEPTH.items()}
    assert max(last["GRU"]) <= 0.01
    assert min(run[task.TESTED.index(25)] for run in BY_DEPTH["LSTM"]) >= 0.99
    assert OURS["run"]["training"] == THEIRS["run"]["training"]


def test_a_line_by_hand():
    found = figures._follow('⏎a"b"c"⏎')
    rounded = {name: [round(value, 2) + 0 for value in values] for name, values in found.items()}
    assert rounded == {
        "z": [0, 1, 0, 1, 0, 1, 0, 0],
        "r": [0, 0, 1, 0, 1, 0, 1, 0],
        "g": [-1, 0, 1, 0, -1, 0, 1, -1],
        "h": [-1, -1, 1, 1, -1, -1, 1, -1],
    }
    # The steps of the stage tell these numbers.
    shares = re.compile(r"(\d) \\cdot \(?(-?\d)\)? \+ (\d) \\cdot \(?(-?\d)\)? = \(?(-?\d)")
    for point, t in zip(PAGE.points[:4], figures.MOMENTS[:4], strict=True):
        z, g = found["z"][t], found["g"][t]
        old = found["h"][t - 1] if t else 0
        told = [float(part) for part in shares.search(point).groups()]
        assert told == pytest.approx([z, old, 1 - z, g, found["h"][t]], abs=1e-3)


def test_the_listing_reads_the_line_by_hand():
    h = PAGE.made["by_hand"](PAGE.made["line"], PAGE.made["zero"])[0].flatten()
    assert h.tolist() == pytest.approx(figures._follow(figures.LINES[0])["h"], abs=1e-5)


def test_the_stage_computes_what_the_module_computes():
    """For each step and each line, with gates turned at random."""

    def computed(step, line, **turned):
        text, t = figures.LINES[line], figures.MOMENTS[step]
        found = figures._follow(text, **turned)
        old = found["h"][t - 1] if t else 0
        z, r, g, h = (found[name][t] for name in "zrgh")
        seen = {
            "all-h": found["h"],
            "made-all": found["g"],
            "tokens": [*text],
            "token": [text[t]],
            "old": [old],
            "new": [h],
            "made": [g],
            "own": [figures.SUMS[2][figures.KINDS.get(text[t], 0)]],
            "kept": [z * old],
            "added": [(1 - z) * g],
            "gate-z-number": [z],
            "gate-r-number": [r],
            "gate-write-number": [1 - z],
        }
        seen |= {f"gates-{valve}-number": found[valve] for valve in "zr"}
        return seen

    check_stage(figures.line_by_hand(), computed, within={"all-h": 0.051, "made-all": 0.051})


@pytest.mark.parametrize(("C", "N"), [(3, 16), (7, 5)])
def test_weights_and_states_of_both(C, N):
    both, x = (GRU(C, N, 1), LSTM(C, N, 1)), torch.randn(2, 1, C)
    assert [*map(parameters, both)] == [3 * N * (C + N + 2), 4 * N * (C + N + 1)]
    assert both[0](x)[1].numel() == N and sum(part.numel() for part in both[1](x)[1]) == 2 * N
