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
from labml_nn.recurrent.elman import ElmanConfig, ElmanLanguageModel, ElmanLayer, bptt

LESSON, BPTT = Page(elman), Page(bptt)
LETTERS = figures.LETTERS


def losses(memory=1.0):
    """The losses of ello after hell."""
    targets = torch.tensor([LETTERS.index(c) for c in "ello"])
    logits = figures._read(memory=memory)[3]
    return nn.functional.cross_entropy(logits, targets, reduction="none")


# The word by hand.


def test_the_steps_of_the_word():
    from_letter, from_state, states, *_ = figures._read()
    points = LESSON.points[:4]
    assert "-1 to unit 2, and tanh makes -0.76" in points[0]
    assert (from_letter[0, 1], round(states[0, 1].item(), 2)) == (-1, -0.76)
    for point, state in zip(points[1:], states[1:], strict=True):
        told = numbers(re.search(r"state is \((.*?)\)", point)[1])
        assert told == pytest.approx(state.tolist(), abs=0.005)
    assert f"twice that is {from_state[1, 0]:.2f}" in points[1]
    assert f"which is {from_state[3, 0]:.2f}" in points[3]
    torch.testing.assert_close(from_letter[2], from_letter[3])
    assert not torch.allclose(states[2], states[3])


def test_predictions_and_losses_with_memory_and_without():
    powers, found = figures._read()[3][2].exp(), losses()
    LESSON.says("{:.2f} / {:.2f} = {:.2f}", powers[2], powers.sum(), powers[2] / powers.sum())
    LESSON.says(r"$-\ln 0.96 = {:.2f}$", found[2])
    LESSON.says("Our network pays {:.2f}", found.mean())
    LESSON.says(r"$\ln 4 = {:.2f}$ nats", math.log(4))
    _, _, states, logits, _ = figures._read(memory=0.0)
    torch.testing.assert_close(states[2], states[3])
    assert states[3].tolist() == pytest.approx([0, 0.96], abs=0.005)
    assert LETTERS[logits[3].argmax()] == "l"
    wrong = losses(memory=0.0)[3]
    LESSON.says("a probability of {:.2f} and pays {:.2f} nats", wrong.neg().exp(), wrong)
    # One distribution for two targets: the best gives a half to each.
    p = torch.linspace(0.01, 0.99, 99)
    assert p[(-(p.log() + (1 - p).log())).argmin()] == pytest.approx(0.5)
    LESSON.says(r"$\ln 2 = {:.2f}$ nats twice", math.log(2))


@pytest.mark.parametrize(
    ("page", "sentence", "values"),
    [
        (LESSON, "For $u = 0.9$ that is {:.3f}", [0.9**50]),
        (LESSON, "you get {:.0f}. The gradient **explodes**", [1.1**50]),
        (LESSON, "only {:.0f} % of the values would survive 44 steps", [100 * 0.9**44]),
        (LESSON, "only {:.1f} % of a small state", [100 * 0.58**10]),
        (BPTT, "that is {:.3f} for $u = 0.9$, but {:.0f} for", [0.9**50, 1.1**50]),
        (BPTT, "h_1 = u h_0 = {:.2f}, \\qquad h_2 = u h_1 = {:.3f}", [0.9 * 0.5, 0.9**2 * 0.5]),
        # The slope of u² h_0, in two parts.
        (BPTT, "The gradient is their *sum*, {:.2f}", [2 * 0.9 * 0.5]),
    ],
)
def test_numbers_on_the_way(page, sentence, values):
    page.says(sentence, *values)


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
            "ground fill-opacity": place["pale"] + place["strong"] * states.abs(),
            "bar height": (shares * place["high"]).clamp(min=1),
            f"bar .p-t{figures.RIGHT}": [i == target for target in targets for i in range(4)],
            "share": p,
            "at stroke-opacity": [float(t == step) for t in range(4)],
            "says": [
                f"After {text[: step + 1]} the right letter, {text[step + 1]},",
                f"costs {-p.log().mean():.2f} nats",
            ],
        }

    check_stage(figures.hello(), computed)


# The whole in code.


@pytest.mark.parametrize(
    ("T", "B", "V", "C", "N"), [(1, 1, 4, 8, 16), (7, 3, 11, 5, 6), (13, 2, 65, 9, 4)]
)
def test_the_bare_network_is_the_module(T, B, V, C, N):
    network = LESSON.made["RNN"](V, C, N)
    layer = ElmanLayer(C, N)
    layer.cell.input.load_state_dict(network.W.state_dict())
    layer.cell.recurrent.load_state_dict(network.U.state_dict())
    tokens, h = torch.randint(V, (T, B)), torch.rand(B, N) - 0.5
    states, last = layer(network.embedding(tokens), h)
    torch.testing.assert_close(network(tokens, h), (network.R(states), last), atol=1e-6, rtol=0)


def test_the_bare_network_is_the_language_model_of_one_layer():
    """With equal widths there are no projections, and embeddings are scaled."""
    V, N, T, B = 11, 6, 9, 3
    network = LESSON.made["RNN"](V, N, N)
    config = ElmanConfig(n_vocab=V, d_model=N, d_hidden=N, n_layers=1, tied=False)
    model = ElmanLanguageModel(config).eval()
    weights = {
        "embedding.weight": network.embedding.weight / math.sqrt(N),
        "output_weight": network.R.weight,
        "output_bias": network.R.bias,
        "elman.layers.0.cell.input.weight": network.W.weight,
        "elman.layers.0.cell.input.bias": network.W.bias,
        "elman.layers.0.cell.recurrent.weight": network.U.weight,
    }
    model.load_state_dict({**model.state_dict(), **weights})
    tokens = torch.randint(1, V, (T, B))
    with torch.no_grad():
        expected, _ = network(tokens, torch.zeros(B, N))
        torch.testing.assert_close(model(tokens)[0], expected, atol=1e-6, rtol=0)


# The task.


def test_memory_decides_whether_the_lamp_is_known():
    found = results("elman", "by_step")
    last = {model: [run[-1] for run in runs] for model, runs in found.items()}
    assert last["recurrence"] == [1.0] * 5
    for model in ("window", "no recurrence"):
        assert all(0.45 < share < 0.55 for share in last[model])
    # A window that reaches back to the beginning knows, and guesses from the next step on.
    fifth = task.TESTED.index(task.WINDOW + 1)
    assert all(min(run[:2]) > 0.95 and max(run[fifth:]) < 0.6 for run in found["window"])
    # Before that it has not learned all that it could know, as the page says.
    assert all(min(run[2:fifth]) < 0.95 for run in found["window"])
    LESSON.says("sequences of {} steps", task.STEPS)


def test_two_windows_are_the_same_and_the_lamps_are_not():
    first, second = figures.PRESSES
    assert first[-task.WINDOW :] == second[-task.WINDOW :]
    assert first.count("1") % 2 != second.count("1") % 2


# Training and the gradient.


def test_the_program_learns_the_word():
    """Its text is the one that is drawn."""
    made = figures._program()
    assert len(made["losses"]) == 50
    for prompt, target in (("hel", "l"), ("hell", "o")):
        assert made["shares"][prompt][target] > 0.95
    assert len(made["letters"]) == 9 and "which has nine different characters" in LESSON.text
    plots = "".join(panel.svg() for panel in figures.learning().panels)
    assert f"ln 9 = {math.log(9):.2f}" in plots
    assert "tokens[t : t + 10]" in LESSON.text and "chunks of ten" in figures.chunks().alt.lower()


def test_clipping_does_not_save_an_infinite_gradient():
    weights = nn.Parameter(torch.ones(3))
    weights.grad = torch.tensor([1.0, math.inf, -2.0])
    nn.utils.clip_grad_norm_([weights], 1.0)
    assert weights.grad.isnan().tolist() == [False, True, False]
    assert r"then the factor is 0, and $0 \cdot \infty$ is NaN" in LESSON.text


def test_an_update_from_the_wall():
    """The slope of the loss that the figure on clipping draws, and the update that it makes."""
    u = figures.START
    slope = 2 * (u**50 - figures.WANTED) * 50 * u**49
    assert figures._slope() == pytest.approx(slope)
    LESSON.says("learning rate {}", figures.RATE)
    moved = f"u = {u - figures.RATE * slope:.0f}".replace("-", "−")
    assert moved in figures.clipping().panels[1].svg()


def test_the_trained_row_of_the_table():
    (told,) = (row for row in BPTT.rows(r"Radius $\rho$ |") if row[0] == "trained")
    found = [figures._trained_lengths()[steps - 1] for steps in (1, 10, 30, 100)]
    assert [float(cell) for cell in told[1:]] == pytest.approx(found, rel=0.15)
    LESSON.says("after 30 steps 0.000005 of it is left")


def test_the_trained_network_is_saturated_and_its_radius_says_nothing():
    network, states = figures._trained_states()
    matrices = [layer.cell.recurrent.weight.detach() for layer in network.layers]
    radii = [torch.linalg.eigvals(matrix).abs().max() for matrix in matrices]
    for page in (LESSON, BPTT):
        page.says("spectral radii of {:.1f} and {:.1f}", *radii)
        assert "two thirds of its units" in page.text.lower()
    assert 0.64 < (states.abs() > 0.95).double().mean() < 0.70
    assert (1 - states**2).median() < 0.02  # half of the slopes


def test_what_the_curves_of_new_networks_do():
    x = torch.randn(150, 8, 1, generator=torch.Generator().manual_seed(0))
    left = {rho: figures._arriving(figures._layer(rho), x, [30])[0] for rho in (1.0, 1.5, 2.0)}
    assert 0.0003 < left[1.0] < 0.003  # "about a thousandth"
    assert 0.3 < left[1.5] < 1.3 and left[2.0] > 10
    for rho in (1.0, 1.5):  # with larger inputs less is left
        assert figures._arriving(figures._layer(rho), 3 * x, [30])[0] < left[rho] / 3


def test_the_matrix_of_a_new_network_of_torch():
    """Most eigenvalues are complex, and it can stretch a vector although its radius is small."""
    torch.manual_seed(0)
    weight = nn.RNN(4, 512).weight_hh_l0.detach()
    values = torch.linalg.eigvals(weight)
    assert values.abs().max() == pytest.approx(3**-0.5, abs=0.04)
    assert (values.imag.abs() > 1e-6).float().mean() > 0.8
    assert torch.linalg.matrix_norm(weight, 2) > 1
    LESSON.says(r"1/\sqrt 3 \approx {:.2f}", 3**-0.5)


# What was measured.


def test_the_comparison_with_its_condition():
    table = {row[0]: row for row in tables._models_table().rows}
    for column, after in ((3, "after 800 updates"), (6, "after 13 seconds")):
        ours, other = (float(table[name][column]) for name in ("Elman", "transformer"))
        assert ours < other
        assert re.search(rf"{ours:.2f} against {other:.2f}[a-z ]*{after}", LESSON.text)


def test_a_unit_of_the_trained_network_is_positive_at_most_vowels():
    run = figures.load_run(figures.TRAINED)
    model, letters = run.model().eval(), run.vocabulary.texts
    said = "My lord! What is the matter with you, that you are so sad?\nI am not of that mind."
    state, positive = None, {True: [], False: []}
    with torch.no_grad():
        for letter in said:
            _, state = model(torch.tensor([[letters.index(letter)]]), state)
            positive[letter in "aeiou"].append(state[0, 0, 59].item() > 0)
    vowels, others = (sum(found) / len(found) for found in positive.values())
    assert vowels > 0.75 and others < 0.25


def test_the_first_letter_of_a_word_surprises_the_trained_network():
    told = LESSON.numbers(r"word costs it ([\d.]+) nats on average, and each later one ([\d.]+\d)")
    assert told == numbers(" ".join(re.findall(r"\d\.\d\d", trained.surprise_of_elman().alt)))
    assert told[0] > 3 * told[1]


def test_two_maps_in_a_row_could_be_one():
    """The projection and the first layer: the same inputs from a third of the weights."""
    model = ElmanLanguageModel(ElmanConfig(n_vocab=65))
    P, W = model.input_projection.weight, model.elman.layers[0].cell.input.weight
    product = W @ P
    LESSON.says("with {:,} weights instead of {:,}", product.numel(), P.numel() + W.numel())
    LESSON.says("{:.0f},000 parameters", sum(p.numel() for p in model.parameters()) / 1000)
