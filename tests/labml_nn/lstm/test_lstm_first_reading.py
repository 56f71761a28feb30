"""What the page of the LSTM says of its numbers."""

import math
import re

import pytest
import torch
from lesson_pages import Page, result
from stages import check_stage

from docs_src.figures import lstm as figures
from docs_src.tasks import last_bracket, results
from docs_src.tasks import lstm as task
from labml_nn import lstm
from labml_nn.lstm import LSTM
from labml_nn.recurrent.elman import Elman

PAGE = Page(lstm)


def worn(state, steps):
    """What a tanh at each step leaves of a state."""
    for _ in range(steps):
        state = math.tanh(state)
    return state


def left(steps):
    """How much of a gradient comes back through letters after three brackets."""
    h, found = figures._unit("(((")[-1], 1.0
    for _ in range(steps):
        h = math.tanh(h)
        found *= 1 - h**2
    return found


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def gate(bias):
    return 1 / (1 + math.exp(-bias))


STEP_OF_A_TENTH = figures._unit("(((", 0.1)[-1]
SIZES = {name: result(name)["parameters"] for name in ("elman", "lstm")}
UNIT = figures._unit("((()))")


def test_numbers_on_the_way():
    PAGE.has(
        rf"$\tanh(0 + 1) = {UNIT[0]:.2f}$",
        rf"$\tanh(0.76 + 1) = {math.tanh(0.76 + 1):.2f}$",
        f"look nearly the same, {UNIT[1]:.2f} and {UNIT[2]:.2f}",
        f"it is at {UNIT[5]:.2f}",
        f"three brackets give {STEP_OF_A_TENTH:.2f}",
        f"has become {worn(STEP_OF_A_TENTH, 100):.2f}",
        rf"$1 \cdot \tanh(2) = {math.tanh(2):.2f}$",
        rf"an open gate is {gate(10):.5f}, and a closed one {gate(-10):.5f}.",
        rf"$0.99995^{{100}} = {gate(10) ** 100:.3f}$ arrives",
        f"a letter makes {worn(UNIT[2], 1):.2f} of 0.96",
        f"$1 - 0.74^2 = {left(1):.2f}$",
        f"Three letters leave {left(3):.2f} of the gradient",
        f"a hundred leave {left(100):.3f}",
        f"Two brackets are shown as {math.tanh(2):.2f} and three as {math.tanh(3):.3f}",
        f"two are 0.6, shown as {math.tanh(0.6):.2f}",
        f"three are 0.9, shown as {math.tanh(0.9):.2f}",
        f"six and seven are shown as {math.tanh(1.8):.2f} and {math.tanh(2.1):.2f}",
        rf"$10 - 30 \cdot 0.76 = {10 - 30 * 0.76:.1f}$",
        f"0.5 for a bias of 0, {gate(1):.2f} for 1, and {gate(3):.2f} for 3",
        f"about $0.5^{{10}} = {0.5**10:.3f}$",
        f"with {100 * SIZES['elman'] / SIZES['lstm'] - 100:.0f} % more parameters",
        f"has {parameters(LSTM(3, 16, 1)):,} weights and biases without it",
        f"the Elman layer of 16 units {parameters(Elman(3, 16))}",
        f"that of 34 units {parameters(Elman(3, 34)):,}",
    )


def test_a_line_by_hand():
    found = figures._follow("f(g(x))⏎")
    assert [abs(round(c, 2)) for c in found["c"]] == [0, 1, 1, 2, 2, 1, 0, 0]
    assert found["h"] == pytest.approx([math.tanh(c) for c in found["c"]], abs=0.005)
    # The steps of the stage tell these numbers.
    told = [re.search(r"= (\d)\$", point) for point in PAGE.points[:4]]
    assert [int(one[1]) for one in told] == [round(found["c"][t]) for t in figures.MOMENTS[:4]]
    assert f"tanh(1) = {math.tanh(1):.2f}" in PAGE.points[0]
    assert all(figures._follow(line[:-1])["c"][-1] > 0.9 for line in figures.LINES[1:])


def test_how_far_the_gradient_reaches():
    at = figures.FAR.index
    zero, one, three = (figures._arriving(bias) for bias in figures.BIASES)
    elman = figures._arriving(None)
    # Along the cell states alone, the product of the gates; more arrives in fact.
    assert figures._arriving(0.0, cut=True)[at(10)] == pytest.approx(0.5**10, abs=5e-4)
    PAGE.has(f"The graph has more, {zero[at(10)]:.3f}")
    assert zero[at(30)] < elman[at(30)]
    assert one[at(30)] / elman[at(30)] == pytest.approx(10, abs=2)
    assert three[at(50)] == pytest.approx(0.5, abs=0.05), "with 3 about half is left after 50"


def test_the_listing_reads_the_line_by_hand():
    made = PAGE.made
    assert made["by_hand"].W.weight.tolist() == [list(row) for row in figures.SUMS]
    h = made["by_hand"](made["line"], made["zero"], made["zero"])[0].flatten()
    assert h.tolist() == pytest.approx(figures._follow(figures.LINES[0])["h"], abs=1e-5)


def test_the_stage_computes_what_the_module_computes():
    """For each step and each line, with valves turned at random."""

    def computed(step, line, **turned):
        text, t = figures.LINES[line], figures.MOMENTS[step]
        found = figures._follow(text, **turned)
        old, new = found["c"][t - 1], found["c"][t]
        seen = {
            "all-c": found["c"],
            "all-h": found["h"],
            "made-all": found["g"],
            "tokens": [*text],
            "token": [text[t]],
            "old": [old],
            "new": [new],
            "made": [found["g"][t]],
            "shown": [found["h"][t]],
            "kept": [found["f"][t] * old],
            "added": [found["i"][t] * found["g"][t]],
        }
        for valve in "ifo":
            seen[f"gate-{valve}-number"] = [found[valve][t]]
            seen[f"gates-{valve}-number"] = found[valve]
        return seen

    check_stage(figures.line_by_hand(), computed)


# The task.
def test_what_the_task_says():
    by_depth, trained = results("lstm", "by_depth"), results("lstm", "trained")
    deepest = task.TESTED.index(task.DEEPEST)
    for run in by_depth["LSTM"]:
        assert set(run[: deepest + 1]) == {1.0}  # every line with up to 20 brackets
        assert run[task.TESTED.index(25)] > 0.98
    assert set(trained["LSTM"]) == {1.0}
    assert sum(run[-1] < 0.5 for run in by_depth["LSTM"]) > 2  # at 40 most of them fail
    for model in ("Elman", "Elman, 34 units"):
        assert max(max(run) for run in by_depth[model]) <= 0.1  # one in ten at best
        for wrong in results("last_bracket", "late")[model]:
            # Mostly wrong at the last bracket, and noticed a few letters later.
            assert wrong[0] > 0.6 and wrong[last_bracket.LATER.index(8)] < 0.05
            assert wrong[last_bracket.LATER.index(4)] < 0.15


def test_the_lines_of_the_task_are_as_they_are_told():
    depths = torch.tensor([1, 3, 20])
    x, count = task.sample(depths, 200, torch.Generator().manual_seed(0))
    kinds = x.argmax(-1)
    assert torch.equal((kinds == 1).sum(0), depths) and torch.equal((kinds == 2).sum(0), depths)
    assert torch.equal((kinds == 1).cumsum(0) - (kinds == 2).cumsum(0), count)
    assert torch.equal(count.amax(0), depths) and not count[-1].any()
    # It opens all of them before it closes the first.
    last_opening = 199 - (kinds.flip(0) == 1).int().argmax(0)
    assert (last_opening < (kinds == 2).int().argmax(0)).all()
