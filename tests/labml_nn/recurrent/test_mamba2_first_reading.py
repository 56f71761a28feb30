"""What the page of Mamba-2 says of its numbers."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play, sliders
from torch.nn import functional as F

from docs_src.figures import mamba2 as figures
from docs_src.tasks import mamba2 as task
from docs_src.tasks import results
from labml_nn.recurrent.mamba2 import Mamba2, ssd_loop, ssd_table

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/recurrent/mamba2.py").read_text(encoding="utf-8")
#: Without the marks of comments, in one line.
TEXT = " ".join(re.sub(r"(?m)^ *# ?", "", LESSON).split())
WORDS = [7, 1, 1, 1, 9, 1]  # 7 er well so 9 er


def bucket(deltas, a=-3.0):
    """What is in the bucket after each word, by hand."""
    h, found = 0.0, []
    for word, delta in zip(WORDS, deltas, strict=True):
        h = math.exp(a * delta) * h + delta * word
        found.append(h)
    return found


# The bucket.


def test_the_bucket_is_the_loop():
    for deltas in ([1] * 6, [0.1] * 6, figures._deltas()):
        assert figures._fill(deltas) == pytest.approx(bucket(deltas))


def test_the_same_time_for_all_words():
    """An er of a second washes the 7 away; with a tenth of it a part of the old stays."""
    assert f"$e^{{-3}} = {math.exp(-3):.2f}$ of the water is left" in TEXT
    alt = figures.bucket().alt
    assert "0.05 of it, 0.35; then 1 more, 1.35" in alt and round(bucket([1] * 6)[1], 2) == 1.35
    assert f"so that {math.exp(-0.3):.2f} of the water is left" in TEXT
    found = bucket([0.1] * 6)
    old = math.exp(-0.3) * found[3]
    told = f"there is {found[4]:.2f} in the bucket, and {old:.2f} of it is still from before"
    assert told in TEXT


def test_the_steps_of_the_sentence():
    """Each point of the list tells the numbers of its step."""
    points = [" ".join(one.split()) for one in re.findall(r"(?ms)^\d\. (.*?)\n\n", LESSON)[:4]]
    found, kept = bucket(figures._deltas()), [math.exp(-3 * d) for d in figures._deltas()]
    assert "1 · 7 = 7 runs in" in points[0] and found[0] == 7
    assert f"leaves {kept[1]:.2f} of the water, and adds 0.01" in points[1]
    own = 7 * math.exp(-0.09)
    assert f"there is {found[3]:.2f} in the bucket, and {own:.2f} of it is of the 7" in points[1]
    old = f"leaves {kept[4]:.2f} of the {found[3]:.2f}, which is {kept[4] * found[3]:.2f}"
    assert old in points[2] and "adds 9" in points[2]
    assert found[5] == pytest.approx(9, abs=0.1)


def test_the_stage_is_the_loop():
    """At each step, and for random settings of its sliders, it draws what the loop computes."""
    figure = figures.tap()
    check_first(figure)
    generator = random.Random(0)
    settings = [{"step": step} for step in range(4)]
    for _ in range(30):
        drawn = {
            knob.name: round(generator.uniform(knob.low, knob.high) / knob.step) * knob.step
            for knob in sliders(figure)
        }
        settings.append({"step": generator.randrange(4), **drawn})
    for setting, shown_ in zip(settings, play(figure, *settings), strict=True):
        values = {"step": 0, "number": 1, "other": 0.01, "drain": 3} | setting
        deltas = figures._deltas(values["number"], values["other"])
        levels = figures._fill(deltas, -values["drain"])
        before = [0.0, *levels[:-1]]
        kept = [math.exp(-values["drain"] * delta) for delta in deltas]
        assert shown_.numbers("level") == pytest.approx(levels, abs=0.0051)
        assert shown_.numbers("left") == pytest.approx(kept, abs=0.0051)
        added = [delta * x for delta, x in zip(deltas, figures.STREAMS, strict=True)]
        assert shown_.numbers("plus") == pytest.approx(added, abs=0.0051)
        old = [share * level for share, level in zip(kept, before, strict=True)]
        full, high, foot = figures.FULL, figures.TAP["high"], figures.TAP["foot"]
        below = [min(one, full) for one in old]
        above = [min(one, full - low) for one, low in zip(added, below, strict=True)]
        for name, amounts in (("old", below), ("new", above)):
            heights = [float(one.attributes["height"]) for one in shown_.elements[name]]
            assert heights == pytest.approx([high * one for one in amounts], abs=0.051)
        tops = [foot - high * (a + b) for a, b in zip(below, above, strict=True)]
        drawn = [float(one.attributes["y"]) for one in shown_.elements["new"]]
        assert drawn == pytest.approx(tops, abs=0.051)
        turns = [
            float(re.match(r"rotate\(([\d.]+)", one.attributes["transform"])[1])
            for one in shown_.elements["valve"]
        ]
        assert turns == pytest.approx([90 * d for d in deltas for _ in range(2)], abs=0.051)
        last = [t for t, step in enumerate(figures.STEP_OF) if step == values["step"]][-1]
        said = f"After {figures.WORDS[last]} the bucket holds {levels[last]:.2f}:"
        assert shown_.said.startswith(said)
        frames = [float(one.attributes["stroke-opacity"]) for one in shown_.elements["at"]]
        assert frames == [float(step == values["step"]) for step in figures.STEP_OF]


def test_no_single_time_keeps_the_7_and_loses_it_at_the_9():
    """As the stage asks: more than half of the 7 up to the 9, and then less than a fifth old."""
    for delta in [i / 100 for i in range(1, 101)]:
        found, kept = bucket([delta] * 6), math.exp(-3 * delta)
        of_seven = delta * 7 * kept**3 / found[3]
        assert not (of_seven > 0.5 and kept * found[3] / found[4] < 0.2)
    found = bucket(figures._deltas())
    assert 7 * math.exp(-0.09) / found[3] > 0.5 and 0.05 * found[3] / found[4] < 0.2


def test_the_sums_that_give_two_times_and_the_drain():
    alt = figures.positive().alt
    for delta in (0.01, 1):
        total = math.log(math.expm1(delta))
        assert math.log1p(math.exp(total)) == pytest.approx(delta)
        assert f"{total:.2f}".replace("-", "−") in alt
    assert f"{math.log(3):.2f} becomes −3" in alt


# Ann, a night, Ben.


@pytest.mark.parametrize("form", [ssd_loop, ssd_table])
def test_a_line_by_hand(form):
    found, after = figures._night(form)
    expected = [[3, 1], [0.15, 0.05], [0.14, 0.05]]
    assert [[round(x, 2) for x in row] for row in found.tolist()] == expected
    assert [[round(x, 2) for x in row] for row in after.tolist()] == [[0.14, 0.05], [2, 4]]
    torch.testing.assert_close(figures._matrices()[-1], after)
    assert f"$e^{{-0.1 \\cdot 30}} = {math.exp(-3):.2f}$" in TEXT
    assert "0.05 · 0.90 = 0.045 of it is left" in TEXT
    assert round(math.exp(-3.1), 3) == 0.045


def test_the_table_by_hand():
    units = torch.eye(3).double()[:, None, None]
    # With unit vectors as values the output is the table itself.
    weights, _ = figures._night(ssd_table, units)
    expected = [[1, 0, 0], [0.05, 0, 0], [0.045, 0, 0]]
    torch.testing.assert_close(weights, torch.tensor(expected).double(), atol=3e-4, rtol=0)
    assert "(1, 0, 0); (0.050, 0, 0); (0.045, 0, 0)" in figures.table().alt


def test_the_three_triangles():
    """Ones without decay; bands with one Δ; and a chapter that the 9 closes."""
    assert figures._decays(figures._deltas(), 0.0).tolist() == torch.ones(6, 6).tril().tolist()
    bands = figures._decays([0.1] * 6)
    for i in range(6):
        for j in range(i + 1):
            assert bands[i, j].item() == pytest.approx(math.exp(-0.3 * (i - j)))
    chosen = figures._decays(figures._deltas())
    assert chosen[4:, :4].max() < 0.05 and chosen[5, 4] > 0.9 and chosen[3, 0] > 0.9
    assert "only 0.05 of the first four words" in figures.triangles().alt


def test_chunks_have_as_many_products_as_they_are_told_to_have():
    alt = "".join(panel.svg() for panel in figures.chunks().panels)

    def triangle(n):
        return n * (n + 1) // 2

    assert f"3 · {triangle(4)} = {3 * triangle(4)}" in alt and f">{triangle(12)}<" in alt
    told = "".join(panel.svg() for panel in figures.two_ways().panels)
    assert f"{triangle(8)} numbers" in told and f"has {triangle(16)} of them" in told


# The whole in code.


def bare():
    """The class that the page shows as the whole layer."""
    (listing,) = (one for _, one in shown(LESSON) if "class Mamba2(" in one)
    made: dict = {}
    exec(listing, made)
    network = listing[listing.index("class Mamba2(") : listing.index("print(")]
    assert 12 <= len([line for line in network.split("\n") if line.strip()]) <= 20
    return made["Mamba2"]


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/mamba2.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class Mamba2(" in one)
    forward = re.search(r"    def forward.*?return [^\n]*\n", listing, re.DOTALL)[0]
    assert forward in recipe.partition("<!-- chapters -->")[0]


@pytest.mark.parametrize(
    ("T", "C", "H", "D", "DV"), [(1, 8, 2, 3, 4), (7, 6, 3, 5, 2), (70, 12, 4, 7, 6)]
)
@torch.no_grad()
def test_the_bare_layer_is_the_module(T, C, H, D, DV):
    torch.manual_seed(0)
    network, mixer = bare()(C, H, D, DV), Mamba2(C, H, D, DV)
    mixer.load_state_dict(network.state_dict(), strict=True)
    x = torch.randn(T, C)
    expected, _ = mixer(x[:, None])
    torch.testing.assert_close(network(x), expected[:, 0], atol=2e-6, rtol=0)


# The task.


def test_delta_decides_whether_the_last_digit_is_known():
    found = results("mamba2", "by_gap")
    within, one = task.GAPS.index(task.STEPS), task.GAPS.index(1)
    assert all(run[: within + 1] == [1.0] * (within + 1) for run in found["chosen"])
    assert all(run[-1] < 0.5 for run in found["chosen"])
    assert f"$0.99^{{512}} = {0.99**512:.3f}$" in TEXT and task.GAPS[-1] == 512
    # "the first noise already costs a fifth of the answers or more", "it costs two thirds"
    assert all(run[0] == 1 and run[one] < 0.8 for run in found["constant"])
    assert all(0.65 < 1 - run[one] < 0.72 for run in found["no decay"])
    assert f"texts of {task.STEPS} tokens" in TEXT and "all five runs are right" in TEXT


def test_what_heads_keep_at_noise_and_at_digits():
    noise = results("mamba2", "kept_by_noise")["chosen"]
    digits = results("mamba2", "kept_by_digits")["chosen"]
    assert sum(one >= 0.92 for run in noise for one in run) == 18
    assert all(len(run) == 4 and min(run) <= 0.02 for run in digits)
    assert "18 of the 20 heads keep 0.92 or more" in TEXT
    assert "one head in each run keeps 0.02 or less" in TEXT


def test_the_two_texts_have_the_answers_that_are_drawn():
    for tokens in figures.HEARD:
        assert len(tokens) == 10 and tokens[0]
    # A sample of the task: noise repeats the answer, a digit is its own.
    tokens, targets = task.sample(50, 4, torch.Generator().manual_seed(0))
    for heard, answers in zip(tokens.T.tolist(), targets.T.tolist(), strict=True):
        last = 0
        for token, answer in zip(heard, answers, strict=True):
            last = token or last
            assert answer == last - 1


# Reference.


def test_a_running_sum_loses_digits_after_a_long_night():
    steps = torch.tensor([-3000.0, -0.1, -0.1]).cumsum(0).diff()
    assert [f"{step:.4f}" for step in steps.tolist()] == ["-0.1001", "-0.0999"]


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
    quoted = " ".join(re.findall(r"(?m)^# > (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    losses = [f"{one['result']['validation_loss']:.2f}" for one in (ours, lstm)]
    assert losses == ["1.63", "1.65"] and ours["result"]["step"] == lstm["result"]["step"]
    assert 1.9 < lstm["parameters"] / ours["parameters"] < 2.2
    assert 150 < ours["result"]["process_seconds"] < 210  # about three minutes
