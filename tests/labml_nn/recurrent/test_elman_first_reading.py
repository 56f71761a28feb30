"""The numbers that the pages on Elman networks tell are those that the code computes."""

import inspect
import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play
from torch import nn

from docs_src.figures import elman as figures
from docs_src.figures import results as tables
from docs_src.figures import trained
from docs_src.tasks import elman as task
from docs_src.tasks import results
from labml_nn.recurrent import elman
from labml_nn.recurrent.elman import ElmanCell, ElmanConfig, ElmanLanguageModel, ElmanLayer, bptt

LESSON, BPTT = inspect.getsource(elman), inspect.getsource(bptt)
LETTERS = figures.LETTERS


def numbers(text):
    """The numbers of a cell or a formula; a minus may be typographic."""
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", plain(text))]


def plain(text):
    return text.replace("−", "-").replace(",000", "000")


def flat(text):
    """A page as one line, without the marks of comments."""
    return " ".join(re.sub(r"(?m)^ *# ?", "", text).split())


def rows(text, first):
    """The rows of the table whose header begins with the cell `first`."""
    lines = [line.removeprefix("# ") for line in text.split("\n")]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return found
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def losses(memory=1.0):
    """The losses of ello after hell."""
    targets = torch.tensor([LETTERS.index(c) for c in "ello"])
    logits = figures._read(memory=memory)[3]
    return nn.functional.cross_entropy(logits, targets, reduction="none")


def close(told, computed, digits=2):
    assert [round(float(c), digits) + 0.0 for c in computed] == told


def test_the_steps_of_the_word():
    """Each point of the list tells the numbers of its step."""
    points = [flat(one) for one in re.findall(r"(?ms)^\d\. (The .*?)\n\n", LESSON)]
    from_letter, from_state, states, *_ = figures._read()
    assert len(points) == 4
    assert "−1 to unit 2, and tanh makes −0.76" in points[0]
    close([-1.0, -0.76], [from_letter[0, 1], states[0, 1]])
    for point, state in zip(points[1:], states[1:], strict=True):
        close(numbers(re.search(r"The state is \((.*?)\)", point)[1]), state)
    assert "twice that is −1.52" in points[1] and "which is 1.93" in points[3]
    close([-1.52, 1.93], [from_state[1, 0], from_state[3, 0]])
    torch.testing.assert_close(from_letter[2], from_letter[3])
    assert not torch.allclose(states[2], states[3])


def test_one_prediction_and_its_loss():
    powers = figures._read()[3][2].exp()
    text = flat(LESSON)
    assert f"{powers[2]:.2f} / {powers.sum():.2f} = {powers[2] / powers.sum():.2f}" in text
    found = losses()
    assert rf"$-\ln 0.96 = {found[2]:.2f}$" in text
    assert re.search(r"Our network pays ([\d.]+)", text)[1] == f"{found.mean():.2f}"
    assert rf"$\ln 4 = {math.log(4):.2f}$ nats" in text


def test_without_memory_the_second_l_is_wrong():
    _, _, states, logits, _ = figures._read(memory=0.0)
    torch.testing.assert_close(states[2], states[3])
    close([0.0, 0.96], states[3])
    assert LETTERS[logits[3].argmax()] == "l"
    text, found = flat(LESSON), losses(memory=0.0)
    told = re.search(r"a probability of ([\d.]+) and pays ([\d.]+) nats", text)
    close(numbers(told[1] + " " + told[2]), [found[3].neg().exp(), found[3]])
    # One distribution for two targets: the best gives a half to each.
    p = torch.linspace(0.01, 0.99, 99)
    assert p[(-(p.log() + (1 - p).log())).argmin()] == pytest.approx(0.5)
    assert rf"$\ln 2 = {math.log(2):.2f}$ nats twice" in text


# The whole in code.


def bare():
    """The class that the page shows as the whole model."""
    (listing,) = (one for _, one in shown(LESSON) if "class RNN" in one)
    made: dict = {}
    exec(listing, made)
    assert 12 <= len([line for line in listing.split("\n") if line.strip()]) <= 22
    return made["RNN"]


def test_the_notebook_begins_with_it():
    recipe = Path("docs_src/notebooks/elman.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class RNN" in one)
    network = re.search(r"class RNN.*?return [^\n]*\n", listing, re.DOTALL)[0]
    assert network in recipe.partition("<!-- chapters -->")[0]


@pytest.mark.parametrize(
    ("T", "B", "V", "C", "N"), [(1, 1, 4, 8, 16), (7, 3, 11, 5, 6), (13, 2, 65, 9, 4)]
)
def test_the_bare_network_is_the_module(T, B, V, C, N):
    network = bare()(V, C, N)
    layer = ElmanLayer(C, N)
    layer.cell.input.load_state_dict(network.W.state_dict())
    layer.cell.recurrent.load_state_dict(network.U.state_dict())
    tokens, h = torch.randint(V, (T, B)), torch.rand(B, N) - 0.5
    states, last = layer(network.embedding(tokens), h)
    logits, state = network(tokens, h)
    torch.testing.assert_close(logits, network.R(states), atol=1e-6, rtol=0)
    torch.testing.assert_close(state, last, atol=1e-6, rtol=0)


def test_the_bare_network_is_the_language_model_of_one_layer():
    """With equal widths there are no projections, and embeddings are scaled."""
    V, N, T, B = 11, 6, 9, 3
    network = bare()(V, N, N)
    config = ElmanConfig(n_vocab=V, d_model=N, d_hidden=N, n_layers=1, tied=False, padding_token=0)
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
    # A shorter sequence with padding behind it: its last state is that of its last token.
    tokens[5:, 1] = 0
    with torch.no_grad():
        logits, state = model(tokens)
        expected, _ = network(tokens, torch.zeros(B, N))
        _, short = network(tokens[:5, 1:2], torch.zeros(1, N))
    torch.testing.assert_close(logits[:, ::2], expected[:, ::2], atol=1e-6, rtol=0)
    torch.testing.assert_close(logits[:5, 1], expected[:5, 1], atol=1e-6, rtol=0)
    torch.testing.assert_close(state[0, 1], short[0], atol=1e-6, rtol=0)


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
    assert f"sequences of {task.STEPS} steps" in flat(LESSON)


def test_two_windows_are_the_same_and_the_lamps_are_not():
    first, second = figures.PRESSES
    assert first[-task.WINDOW :] == second[-task.WINDOW :]
    assert first.count("1") % 2 != second.count("1") % 2


# Training and the gradient.


def test_the_program_learns_the_word():
    made = figures._program()
    assert len(made["losses"]) == 50
    for prompt, target in (("hel", "l"), ("hell", "o")):
        assert made["shares"][prompt][target] > 0.95


def test_the_text_that_is_learned_is_the_one_that_is_drawn():
    """Its characters are counted where a guess among them is told, and chunks are ten long."""
    made = figures._program()
    assert len(made["letters"]) == 9 and "which has nine different characters" in flat(LESSON)
    plots = "".join(panel.svg() for panel in figures.learning().panels)
    assert f"ln 9 = {math.log(9):.2f}" in plots
    assert "tokens[t : t + 10]" in LESSON and "chunks of ten" in figures.chunks().alt.lower()


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


def test_copies_add_up():
    """The gradient of shared weights is the sum of what one copy a step contributes."""
    layer, x = ElmanLayer(3, 4), torch.randn(6, 2, 3)
    U = layer.cell.recurrent.weight
    states, _ = layer(x)
    (shared,) = torch.autograd.grad(states.square().sum(), U)
    copies = [U.detach().clone().requires_grad_() for _ in x]
    h, loss = layer.initial(2), 0.0
    for x_t, copy in zip(x, copies, strict=True):
        h = torch.tanh(layer.cell.input(x_t) + h @ copy.T)
        loss = loss + h.square().sum()
    torch.testing.assert_close(sum(torch.autograd.grad(loss, copies)), shared)


def test_clipping_does_not_save_an_infinite_gradient():
    weights = nn.Parameter(torch.ones(3))
    weights.grad = torch.tensor([1.0, math.inf, -2.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([weights], 1.0, error_if_nonfinite=True)
    nn.utils.clip_grad_norm_([weights], 1.0)
    assert weights.grad.isnan().tolist() == [False, True, False]
    assert r"then the factor is 0, and $0 \cdot \infty$ is NaN" in flat(LESSON)


def test_an_update_from_the_wall():
    """The slope of the loss that the figure on clipping draws, and the update that it makes."""
    u = figures.START
    slope = 2 * (u**50 - figures.WANTED) * 50 * u**49
    assert figures._slope() == pytest.approx(slope)
    assert f"learning rate {figures.RATE}" in flat(LESSON)
    assert (
        f"u = {u - figures.RATE * slope:.0f}".replace("-", "−")
        in figures.clipping().panels[1].svg()
    )


def test_most_eigenvalues_are_complex():
    torch.manual_seed(0)
    values = torch.linalg.eigvals(nn.RNN(4, 128).weight_hh_l0.detach())
    assert (values.imag.abs() > 1e-6).float().mean() > 0.8


def test_the_comparison_with_its_condition():
    table = {row[0]: row for row in tables._models_table().rows}
    text = flat(LESSON)
    for column, after in ((3, "after 800 updates"), (6, "after 13 seconds")):
        ours, other = (float(table[name][column]) for name in ("Elman", "transformer"))
        assert ours < other
        assert re.search(rf"{ours:.2f} against {other:.2f}[a-z ]*{after}", text)


@pytest.mark.parametrize("page", [LESSON, BPTT], ids=["lesson", "bptt"])
def test_the_gradient_of_one_number(page):
    text = flat(page)
    assert f"{0.9**50:.3f}" in text and f"{1.1**50:.0f}" in text
    assert (f"{0.9**50:.3f}", f"{1.1**50:.0f}") == ("0.005", "117")


def test_two_contributions_to_one_weight():
    u = torch.tensor(0.9, requires_grad=True)
    h_0 = 0.5
    h_1 = u * h_0
    h_2 = u * h_1
    (gradient,) = torch.autograd.grad(h_2, u)
    text = flat(BPTT)
    assert f"h_1 = u h_0 = {h_1.item():.2f}" in text and f"h_2 = u h_1 = {h_2.item():.3f}" in text
    assert f"their *sum*, {gradient.item():.2f}" in text
    assert gradient.item() == pytest.approx(h_1.item() + 0.9 * h_0)


def test_the_trained_row_of_the_table():
    told = next(row for row in rows(BPTT, r"Radius $\rho$") if row[0] == "trained")
    lengths = figures._trained_lengths()
    for number, steps in zip(told[1:], (1, 10, 30, 100), strict=True):
        (number,) = numbers(number)
        assert lengths[steps - 1] == pytest.approx(number, rel=0.15), steps


def test_the_trained_network_is_saturated_and_its_radius_says_nothing():
    network, states = figures._trained_states()
    radii = [
        torch.linalg.eigvals(layer.cell.recurrent.weight.detach()).abs().max().item()
        for layer in network.layers
    ]
    for page in (LESSON, BPTT):
        told = re.search(r"spectral radii of (\d\.\d) and (\d\.\d)", flat(page))
        assert [f"{radius:.1f}" for radius in radii] == [told[1], told[2]]
        assert "two thirds of its units" in flat(page).lower()
    assert 0.64 < (states.abs() > 0.95).double().mean() < 0.70
    assert (1 - states**2).median() < 0.02
    assert figures._trained_lengths()[29] == pytest.approx(0.000005, rel=0.15)
    assert "0.000005 of it is left" in flat(LESSON)


def test_what_the_curves_of_new_networks_do():
    x = torch.randn(150, 8, 1, generator=torch.Generator().manual_seed(0))
    left = {rho: figures._arriving(figures._layer(rho), x, [30])[0] for rho in (1.0, 1.5, 2.0)}
    assert 0.0003 < left[1.0] < 0.003  # "about a thousandth"
    assert 0.3 < left[1.5] < 1.3 and left[2.0] > 10
    for rho in (1.0, 1.5):  # with larger inputs less is left
        assert figures._arriving(figures._layer(rho), 3 * x, [30])[0] < left[rho] / 3


def test_what_one_product_with_a_recurrent_matrix_can_do():
    weight = ElmanCell(4, 16).recurrent.weight.detach()
    torch.testing.assert_close(torch.linalg.svdvals(weight), torch.ones(16))
    torch.manual_seed(0)
    assert torch.linalg.matrix_norm(nn.RNN(4, 128).weight_hh_l0.detach(), 2) > 1


def test_the_radius_of_torchs_initialisation():
    torch.manual_seed(0)
    weight = nn.RNN(4, 512).weight_hh_l0.detach()
    assert torch.linalg.eigvals(weight).abs().max() == pytest.approx(3**-0.5, abs=0.04)
    assert f"{100 * 0.58**10:.1f}" == "0.4"


def test_what_the_network_wrote_and_when():
    result = json.loads((figures.TRAINED / "result.json").read_text(encoding="utf-8"))
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(result["samples"][0]["text"].split())
    assert 120 < result["result"]["seconds"] < 180  # a little more than two minutes


def test_two_maps_in_a_row_could_be_one():
    """The projection and the first layer: the same inputs from a third of the weights."""
    model = ElmanLanguageModel(ElmanConfig(n_vocab=65))
    P, W = model.input_projection.weight, model.elman.layers[0].cell.input.weight
    text = flat(LESSON)
    assert f"{P.numel() + W.numel():,}" in text and f"{(W @ P).numel():,}" in text
    e, b = torch.randn(5, 128), model.elman.layers[0].cell.input.bias
    both = model.elman.layers[0].cell.input(model.input_projection(e))
    torch.testing.assert_close(both, e @ (W @ P).T + W @ model.input_projection.bias + b)
    assert f"{sum(p.numel() for p in model.parameters()) / 1000:.0f},000 parameters" in text


def test_dropout_at_every_step_would_leave_nothing():
    assert round(100 * 0.9**44) == 1


def test_tanh_is_a_stretched_sigmoid():
    a = torch.linspace(-4, 4, 33)
    torch.testing.assert_close(a.tanh(), 2 * (2 * a).sigmoid() - 1)


def test_a_linear_recurrence_is_a_sum():
    """Without an activation function all steps can be computed at once."""
    W, U, b = torch.randn(3, 2).double(), torch.randn(3, 3).double() / 3, torch.randn(3).double()
    x, h = torch.randn(6, 2).double(), torch.zeros(3).double()
    for x_t in x:
        h = W @ x_t + U @ h + b
    unrolled = sum(torch.linalg.matrix_power(U, k) @ (W @ x[5 - k] + b) for k in range(6))
    torch.testing.assert_close(unrolled, h)


def test_the_effect_of_a_letter_depends_on_the_state():
    cell = ElmanCell(4, 2)
    letter = torch.eye(4)[[2]]
    with torch.no_grad():
        first, second = (cell(letter, torch.full((1, 2), h)) for h in (0.0, 0.9))
    assert not torch.allclose(first, second)


# Errors.


@pytest.fixture
def by_hand(unhooked):
    """The classes without shape checks of the test suite, as users import them."""
    return unhooked("labml_nn.recurrent.elman")


@pytest.mark.parametrize(
    ("x", "state", "message"),
    [
        ((7, 4), None, r"\[7, 4\]; expected \[T, B, C\].*x\[:, None\]"),
        ((0, 2, 4), None, r"\[0, 2, 4\]; expected \[T, B, C\] with at least one step"),
        ((7, 2, 4), (2, 5), r"`state` has shape \[2, 5\]; expected \[1, 2, 5\]"),
        ((7, 2, 4), (2, 2, 5), r"\[2, 2, 5\]; expected \[1, 2, 5\]"),
        ((7, 2, 4), (1, 1, 5), r"\[1, 1, 5\]; expected \[1, 2, 5\]"),
        ((7, 2, 4), (1, 2, 6), r"\[1, 2, 6\]; expected \[1, 2, 5\], \[L, B, N\]"),
    ],
)
def test_wrong_inputs_and_states_are_explained(by_hand, x, state, message):
    network = by_hand.Elman(4, 5)
    with pytest.raises(ValueError, match=message):
        network(torch.randn(x), None if state is None else torch.randn(state))


def test_a_layer_explains_a_wrong_state(by_hand):
    with pytest.raises(ValueError, match=r"\[1, 5\]; expected \[2, 5\], \[B, N\]"):
        by_hand.ElmanLayer(4, 5)(torch.randn(7, 2, 4), torch.randn(1, 5))


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.zeros(0, 2).long(), ValueError, "empty"),
        (torch.zeros(5, 2), TypeError, "integers"),
        (torch.zeros(5).long(), ValueError, r"tokens\[:, None\]"),
        (torch.full((5, 2), 11), ValueError, "holds 11; expected numbers from 0 to 10"),
        (torch.full((5, 2), -1), ValueError, "holds -1"),
    ],
)
def test_wrong_tokens_are_explained(by_hand, tokens, error, message):
    model = by_hand.ElmanLanguageModel(by_hand.ElmanConfig(n_vocab=11, d_model=4, d_hidden=5))
    with pytest.raises(error, match=message):
        model(tokens)


def test_a_state_of_another_batch_is_explained(by_hand):
    model = by_hand.ElmanLanguageModel(by_hand.ElmanConfig(n_vocab=11, d_model=4, d_hidden=5))
    tokens = torch.zeros(3, 2).long()
    _, state = model(tokens)
    with pytest.raises(ValueError, match=r"\[2, 2, 5\]; expected \[2, 1, 5\]"):
        model(tokens[:, :1], state)
    with pytest.raises(TypeError, match=r"`state` is a tuple; expected what the model returned"):
        model(tokens, (state,))


def test_a_cell_without_an_output_size_can_replace_the_cell(by_hand):
    """Any module that takes and returns what `ElmanCell` does."""
    layer = by_hand.ElmanLayer(4, 5)
    layer.cell = nn.GRUCell(4, 5)
    states, _ = layer(torch.randn(7, 2, 4), torch.randn(2, 5))
    assert states.shape == (7, 2, 5)


def zeros(_, args, output):
    return torch.utils._pytree.tree_map(torch.zeros_like, output)


def test_hooks_of_submodules_have_their_effect():
    model = ElmanLanguageModel(ElmanConfig(n_vocab=11, d_model=4, d_hidden=5)).eval()
    tokens = torch.zeros(3, 2).long()
    before = model(tokens)[0]
    for module in (model.embedding, model.elman, model.elman.layers[1], model.output_projection):
        handle = module.register_forward_hook(zeros)
        assert not torch.allclose(model(tokens)[0], before)
        handle.remove()
    torch.testing.assert_close(model(tokens)[0], before)


def test_the_first_letter_of_a_word_surprises_the_trained_network():
    told = re.search(
        r"word costs it ([\d.]+) nats on average, and each later one ([\d.]+\d)", flat(LESSON)
    )
    alt = trained.surprise_of_elman().alt
    assert told and list(told.groups()) == re.findall(r"\d\.\d\d", alt)
    assert float(told[1]) > 3 * float(told[2])


# The stage.


def test_the_stage_computes_what_the_layer_computes():
    """For each word, step and share of U."""
    figure, place = figures.hello(), figures.STEP
    check_first(figure)
    chosen = random.Random(0)
    settings = [
        {"step": step, "word": chosen.randrange(3), "memory": chosen.randrange(11) / 10}
        for step in (0, 1, 2, 3) * 3
    ]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        text, step = figures.WORDS[setting["word"]], setting["step"]
        from_letter, from_state, states, _, shares = figures._read(text[:-1], setting["memory"])
        assert seen.texts("word") == [*text[:-1]]
        assert seen.numbers("letter") == pytest.approx(from_letter.flatten().tolist())
        assert seen.numbers("memory") == pytest.approx(from_state.flatten().tolist(), abs=0.006)
        assert seen.numbers("unit") == pytest.approx(states.flatten().tolist(), abs=0.006)
        grounds = place["pale"] + place["strong"] * states.abs().flatten()
        assert seen.places("ground", "fill-opacity") == pytest.approx(grounds.tolist(), abs=1e-4)
        heights = (shares.flatten() * place["high"]).clamp(min=1)
        assert seen.places("bar", "height") == pytest.approx(heights.tolist(), abs=0.05)
        targets = [figures.LETTERS.index(one) for one in text[1:]]
        right = [f"p-t{figures.RIGHT}" in bar.classes for bar in seen.elements["bar"]]
        assert [i % 4 for i, is_right in enumerate(right) if is_right] == targets
        p = torch.stack([shares[t, i] for t, i in enumerate(targets)])
        assert seen.numbers("share") == pytest.approx(p.tolist(), abs=0.006)
        assert seen.places("at", "stroke-opacity") == [float(t == step) for t in range(4)]
        assert f"After {text[: step + 1]} the right letter, {text[step + 1]}," in seen.said
        assert f"costs {-p.log().mean():.2f} nats" in seen.said
