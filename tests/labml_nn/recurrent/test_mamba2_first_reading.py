"""What the page of Mamba-2 says of its numbers."""

import math

import pytest
import torch
from lesson_pages import Page, result
from stages import check_stage
from torch import tensor

from docs_src.figures import mamba2 as figures
from docs_src.tasks import mamba2 as task
from docs_src.tasks import results
from labml_nn.recurrent import mamba2
from labml_nn.recurrent.mamba2 import ssd_loop, ssd_table

PAGE = Page(mamba2)
WORDS = [7, 1, 1, 1, 9, 1]  # 7 er well so 9 er
CHOSEN = figures._deltas()


def bucket(deltas, a=-3.0):
    """What is in the bucket after each word, by hand."""
    h, found = 0.0, []
    for word, delta in zip(WORDS, deltas, strict=True):
        h = math.exp(a * delta) * h + delta * word
        found.append(h)
    return found


# The bucket.

#: With a tenth of a second for each word, and with a time that each word chooses.
TENTHS, FILLED = bucket([0.1] * 6), bucket(CHOSEN)
OLD = math.exp(-0.3) * TENTHS[3]
KEPT = [math.exp(-3 * delta) for delta in CHOSEN]
#: How much each head of each run keeps at noise.
BY_NOISE = [one for run in results("mamba2", "kept_by_noise")["chosen"] for one in run]
OWN = 7 * math.exp(-0.09)  # what is left of the 7 before the 9


def test_the_bucket_is_the_loop():
    for deltas in ([1] * 6, [0.1] * 6, CHOSEN):
        assert figures._fill(deltas) == pytest.approx(bucket(deltas))


def test_numbers_on_the_way():
    PAGE.has(
        "$e^{-0.69}$ is a half",
        f"$e^{{-3}} = {math.exp(-3):.2f}$ of the water is left",
        f"so that {math.exp(-0.3):.2f} of the water is left",
        f"there is {TENTHS[4]:.2f} in the bucket, and {OLD:.2f} of it is still from before",
        f"leaves {KEPT[1]:.2f} of the water, and adds {CHOSEN[1] * WORDS[1]:.2f}",
        f"there is {FILLED[3]:.2f} in the bucket, and {OWN:.2f} of it is of the 7",
        f"leaves {KEPT[4]:.2f} of the {FILLED[3]:.2f}, which is {KEPT[4] * FILLED[3]:.2f}, and add",
        f"$e^{{-0.1 \\cdot 30}} = {math.exp(-3):.2f}$",
        f"0.05 · {math.exp(-0.1):.2f} = {math.exp(-3.1):.3f} of it is left",
        f"begins at 0, $\\Delta$ is {math.log(2):.1f}",
        f"keeps {100 * math.exp(-8 * math.log(2)):.1f} % in a step",
        f"only $0.99^{{512}} = {0.99**512:.3f}$ is left",
        "comes out as {:.4f} or {:.4f}".format(*tensor([-3000.0, -0.1, -0.1]).cumsum(0).diff()),
        f"texts of {task.STEPS} tokens",
        f"{sum(one >= 0.92 for one in BY_NOISE)} of the 20 heads keep 0.92 or more",
    )


def test_the_stage_is_the_loop():
    """At each step, and for random settings of its sliders, it draws what the loop computes."""

    def computed(step, case, number, other, drain):
        deltas = figures._deltas(number, other)
        levels = figures._fill(deltas, -drain)
        kept = [math.exp(-drain * delta) for delta in deltas]
        added = [delta * x for delta, x in zip(deltas, figures.STREAMS, strict=True)]
        last = [t for t, own in enumerate(figures.STEP_OF) if own == step][-1]
        return {
            "level": levels,
            "left": kept,
            "plus": added,
            "says": [f"After {figures.WORDS[last]} the bucket holds {levels[last]:.2f}:"],
        }

    check_stage(figures.tap(), computed)


# Ann, a night, Ben.
@pytest.mark.parametrize("form", [ssd_loop, ssd_table])
def test_a_line_by_hand(form):
    found, after = figures._night(form)
    expected = torch.tensor([[3, 1], [0.15, 0.05], [0.14, 0.05]]).double()
    torch.testing.assert_close(found, expected, atol=0.005, rtol=0)
    after_ben = torch.tensor([[0.14, 0.05], [2, 4]]).double()
    torch.testing.assert_close(after, after_ben, atol=0.005, rtol=0)
    torch.testing.assert_close(figures._matrices()[-1], after)


def test_the_table_by_hand():
    units = torch.eye(3).double()[:, None, None]
    # With unit vectors as values the output is the table itself.
    weights, _ = figures._night(ssd_table, units)
    expected = [[1, 0, 0], [0.05, 0, 0], [0.045, 0, 0]]
    torch.testing.assert_close(weights, torch.tensor(expected).double(), atol=3e-4, rtol=0)
    assert "(1, 0, 0); (0.050, 0, 0); (0.045, 0, 0)" in figures.table().alt


# The task.
def test_delta_decides_whether_the_last_digit_is_known():
    found = results("mamba2", "by_gap")
    within, one = task.GAPS.index(task.STEPS), task.GAPS.index(1)
    assert all(run[: within + 1] == [1.0] * (within + 1) for run in found["chosen"])
    assert all(run[-1] < 0.5 for run in found["chosen"]) and task.GAPS[-1] == 512
    # "the first noise already costs a fifth of the answers or more", "it costs two thirds"
    assert all(run[0] == 1 and run[one] < 0.8 for run in found["constant"])
    assert all(0.65 < 1 - run[one] < 0.72 for run in found["no decay"])


def test_a_head_of_each_run_forgets_at_digits():
    for run in results("mamba2", "kept_by_digits")["chosen"]:
        assert len(run) == 4 and min(run) <= 0.02
    PAGE.says("one head in each run keeps 0.02 or less")


def test_the_lstm_has_twice_as_many_parameters():
    ours, lstm = result("mamba2"), result("lstm")
    assert ours["result"]["step"] == lstm["result"]["step"]
    assert 1.9 < lstm["parameters"] / ours["parameters"] < 2.2
