"""Numbers of the page about memory are those of the runs that are kept."""

import math
import re
from statistics import median

import pytest
import torch
from torch.nn import functional as F

from docs_src.figures import memory
from docs_src.results.memory_causes import RUNS, kept
from docs_src.results.studies import RESULTS, results_of
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.recurrent.linear_attention import linear_attention_loop
from labml_nn.recurrent.mamba2 import Mamba2


def test_models_with_a_list_have_not_learned_the_look_up():
    """Finding both values of a key, blindly, would be a loss of ln 2; 64 values are ln 64."""
    runs = results_of("overwrite", RESULTS)
    attention, feedback = ([run.loss for run in runs[n]] for n in ("autoregressive", "feedback"))
    assert 3.35 < median(attention) < 3.45 and min(attention) > 2 * math.log(2)
    assert sum(abs(loss - math.log(64)) < 0.02 for loss in feedback) == 4


PAGE = " ".join((RESULTS.parent / "pages/memory.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("DeltaNet, rate 0.003", r"DeltaNet has (\d+) % right at 0.003"),
        ("Gated DeltaNet, rate 0.01", r"Gated DeltaNet at 0.01 has (\d+) %"),
        ("Gated DeltaNet, slow forgetting", r"58 % become (\d+) %"),
        ("Gated DeltaNet, no output gate", r"Without that gate (\d+) % are right"),
        ("feedback, rate 0.003", r"At 0.003 it has (\d+) % right, at a loss of ([\d.]+)\. So"),
        ("feedback, four times the updates", r"After 3,200 updates (\d+) % are right"),
        ("transformer, rate 0.01", r"At a rate of 0.01 it has (\d+) %"),
        ("transformer, four times the updates", r"7 %, after 3,200 updates (\d+) %,"),
        ("transformer, 4 keys", r"in place of sixteen (\d+) %, at a loss of ([\d.]+)\. But"),
    ],
)
def test_one_thing_changed(label, sentence):
    """With the first seed, beside the run without the change."""
    run = next(each for each in kept() if each["label"] == label)
    share, *loss = (float(number) for number in re.search(sentence, PAGE).groups())
    assert share == round(100 * run["accuracy"]) and loss in ([], [round(run["loss"], 1)])
    assert RUNS[label].task == run["task"]


def test_what_the_first_seed_does_without_a_change():
    first = results_of("recall", RESULTS)["gated_delta_net"][0]
    assert first.result["accuracy"] == pytest.approx(0.58, abs=0.005)


def test_sizes_of_the_models_on_the_tasks():
    runs = [run for each in results_of("overwrite", RESULTS).values() for run in each]
    sizes = [run.parameters for run in runs]
    assert min(sizes) >= 115_000 and max(sizes) <= 121_000


def test_new_memories_of_mamba_fade_as_fast_as_those_of_a_gated_delta_net():
    torch.manual_seed(0)
    kept = [
        (-layer.A_log.exp() * F.softplus(layer.dt_bias)).exp().median().item()
        for layer in (GatedDeltaNet(4096, 4096), Mamba2(4096, heads=4096))
    ]
    assert all(0.91 < each < 0.95 for each in kept) and abs(kept[0] - kept[1]) < 0.02


def test_keys_that_are_no_right_angle_apart_are_read_exactly_with_other_queries():
    rows = [[[1.0, 0], [0.6, 0.8]], [[1, -0.75], [0, 1.25]], [[3, 1], [5, 0]]]
    k, q, v = torch.tensor(rows)[:, :, None, None]
    _, memory = linear_attention_loop(k, k, v, torch.zeros(1, 1, 2, 2))
    torch.testing.assert_close(torch.einsum("tbhd,bhde->tbhe", q, memory), v)


# Its pictures.


def test_one_line_in_each_memory():
    assert [[round(one) for one in state] for state in memory._added()] == [[1, 1], [2, 1], [3, 2]]
    rewritten = memory._rewritten()
    assert all(len(set(row)) == 3 for row in zip(*rewritten, strict=True))
    for name, told in (
        ("summed", "(3, 0), then (3, 2), then (8, 2)"),
        ("faded", "(3, 0), then (1.5, 2), then (5.75, 1)"),
        ("corrected", "(3, 0), then (3, 2), then (5, 2)"),
        ("emptied", "(3, 2), then (5, 2), then (0.5, 0.2)"),
        ("appended", "the answer is 4."),
    ):
        assert told in getattr(memory, name)().alt, name


def test_states_are_drawn_at_one_scale():
    found = {name: after for name, (_, after) in memory._states().items()}
    features, tokens = memory.FEATURES, len(memory.ROWS)
    vectors, lists = ("elman", "gru", "lstm"), ("autoregressive", "feedback")
    for name, state in found.items():
        size = features * {"lstm": 2, "elman": 1, "gru": 1}.get(name, features)
        assert state.numel() == (2 * features * tokens if name in lists else size), name
    assert found.keys() == memory.KEEPS.keys() == memory.NAMES.keys() >= {*vectors, *lists}


def test_areas_of_the_squares():
    """After 8,192 tokens the side is √8 times as long."""
    sizes = memory._sizes("autoregressive")
    assert round(math.sqrt(sizes[2] / sizes[1]), 1) == 2.8
    grow = [name for name in memory.NAMES if len(set(memory._sizes(name))) > 1]
    assert grow == ["autoregressive", "feedback"]
