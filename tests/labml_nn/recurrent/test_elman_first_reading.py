"""The numbers that the pages on Elman networks tell are those that the code computes."""

import math
import re

import pytest
import torch
from lesson_pages import Page, numbers
from stages import check_stage
from torch import nn

from docs_src.figures import elman as figures
from docs_src.figures import results as tables
from docs_src.figures import trained
from docs_src.tasks import elman as task
from docs_src.tasks import results
from labml_nn.recurrent import elman
from labml_nn.recurrent.elman import ElmanConfig, ElmanLanguageModel, bptt

LESSON, BPTT = Page(elman), Page(bptt)
LETTERS = figures.LETTERS
POWERS = figures._read()[3][2].exp()
#: A model of the usual size; its projection and the weights of its first layer.
MODEL = ElmanLanguageModel(ElmanConfig(n_vocab=65))
P, W = MODEL.input_projection.weight, MODEL.elman.layers[0].cell.input.weight


def losses(memory):
    """The losses of ello after hell."""
    targets = torch.tensor([LETTERS.index(c) for c in "ello"])
    logits = figures._read(memory=memory)[3]
    return nn.functional.cross_entropy(logits, targets, reduction="none")


WRONG = losses(memory=0.0)[3]


def test_numbers_on_the_way():
    LESSON.has(
        f"{POWERS[2]:.2f} / {POWERS.sum():.2f} = {POWERS[2] / POWERS.sum():.2f}",
        rf"$-\ln 0.96 = {losses(1.0)[2]:.2f}$",
        f"Our network pays {losses(1.0).mean():.2f}",
        rf"$\ln 4 = {math.log(4):.2f}$ nats",
        f"a probability of {WRONG.neg().exp():.2f} and pays {WRONG:.2f} nats",
        rf"$\ln 2 = {math.log(2):.2f}$ nats twice",
        f"For $u = 0.9$ that is {0.9**50:.3f}",
        f"you get {1.1**50:.0f}. The gradient **explodes**",
        f"only {100 * 0.9**44:.0f} % of the values would survive 44 steps",
        f"only {100 * 0.58**10:.1f} % of a small state",
        rf"1/\sqrt 3 \approx {3**-0.5:.2f}",
        f"sequences of {task.STEPS} steps",
        f"learning rate {figures.RATE}",
        f"{len(W) * P.shape[1]:,} weights instead of {P.numel() + W.numel():,}",
        f"{sum(p.numel() for p in MODEL.parameters()) / 1000:.0f},000 parameters",
    )
    BPTT.has(
        f"that is {0.9**50:.3f} for $u = 0.9$, but {1.1**50:.0f} for",
        f"h_1 = u h_0 = {0.9 * 0.5:.2f}, \\qquad h_2 = u h_1 = {0.9**2 * 0.5:.3f}",
        # The slope of u² h_0, in two parts.
        f"The gradient is their *sum*, {2 * 0.9 * 0.5:.2f}",
    )


def test_the_steps_of_the_word():
    _, from_state, states, *_ = figures._read()
    points = LESSON.points[:4]
    assert "-1 to unit 2, and tanh makes -0.76" in points[0]
    assert states[0, 1].item() == pytest.approx(-0.76, abs=0.005)
    for point, state in zip(points[1:], states[1:], strict=True):
        told = numbers(re.search(r"state is \((.*?)\)", point)[1])
        assert told == pytest.approx(state.tolist(), abs=0.005)
    assert f"twice that is {from_state[1, 0]:.2f}" in points[1]
    assert f"which is {from_state[3, 0]:.2f}" in points[3]


def test_without_memory_both_letters_l_are_alike():
    _, _, states, logits, _ = figures._read(memory=0.0)
    torch.testing.assert_close(states[2], states[3])
    assert LETTERS[logits[3].argmax()] == "l"


def test_the_stage_computes_what_the_layer_computes():
    """For each word, step and share of U."""
    place = figures.STEP

    def computed(step, word, memory):
        text = figures.WORDS[word]
        from_letter, from_state, states, _, shares = figures._read(text[:-1], memory)
        targets = [LETTERS.index(one) for one in text[1:]]
        p = torch.stack([shares[t, i] for t, i in enumerate(targets)])
        return {
            "word": [*text[:-1]],
            "letter": from_letter,
            "memory": from_state,
            "unit": states,
            "bar height": (shares * place["high"]).clamp(min=1),
            f"bar .p-t{figures.RIGHT}": [i == target for target in targets for i in range(4)],
            "share": p,
            "says": [
                f"After {text[: step + 1]} the right letter, {text[step + 1]},",
                f"costs {-p.log().mean():.2f} nats",
            ],
        }

    check_stage(figures.hello(), computed)


def test_memory_decides_whether_the_lamp_is_known():
    found = results("elman", "by_step")
    last = {model: [run[-1] for run in runs] for model, runs in found.items()}
    assert last["recurrence"] == [1.0] * 5
    for model in ("window", "no recurrence"):
        assert all(0.45 < share < 0.55 for share in last[model])
    # A window that reaches back to the beginning knows, and guesses from the next step on.
    fifth = task.TESTED.index(task.WINDOW + 1)
    assert all(min(run[:2]) > 0.95 and max(run[fifth:]) < 0.6 for run in found["window"])


# Training and the gradient.
def test_the_program_learns_the_word():
    made = figures._program()
    assert len(made["losses"]) == 50
    assert made["shares"]["hel"]["l"] > 0.95 and made["shares"]["hell"]["o"] > 0.95
    assert len(made["letters"]) == 9 and "which has nine different characters" in LESSON.text


def test_the_trained_row_of_the_table():
    (told,) = (row for row in BPTT.rows(r"Radius $\rho$ |") if row[0] == "trained")
    found = [figures._trained_lengths()[steps - 1] for steps in (1, 10, 30, 100)]
    assert [float(cell) for cell in told[1:]] == pytest.approx(found, rel=0.15)


def test_the_trained_network_is_saturated_and_its_radius_says_nothing():
    network, states = figures._trained_states()
    matrices = [layer.cell.recurrent.weight.detach() for layer in network.layers]
    radii = [torch.linalg.eigvals(matrix).abs().max() for matrix in matrices]
    for page in (LESSON, BPTT):
        page.says("spectral radii of {:.1f} and {:.1f}", *radii)
    assert 0.64 < (states.abs() > 0.95).double().mean() < 0.70  # "two thirds of its units"


# What was measured.
def test_the_comparison_with_its_condition():
    table = {row[0]: row for row in tables._models_table().rows}
    for column, after in ((3, "after 800 updates"), (6, "after 13 seconds")):
        ours, other = (float(table[name][column]) for name in ("Elman", "transformer"))
        assert ours < other
        assert re.search(rf"{ours:.2f} against {other:.2f}[a-z ]*{after}", LESSON.text)


def test_the_first_letter_of_a_word_surprises_the_trained_network():
    told = LESSON.numbers(r"word costs it ([\d.]+) nats on average, and each later one ([\d.]+\d)")
    assert told == numbers(" ".join(re.findall(r"\d\.\d\d", trained.surprise_of_elman().alt)))
