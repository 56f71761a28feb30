"""What the page of Gated DeltaNet says of its numbers, beside its table."""

import random
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play

from docs_src.figures import gated_delta_net as figures
from docs_src.matrix_memory import PALE, PEOPLE, STRONG
from docs_src.tasks import gated_delta_net as task
from docs_src.tasks import results as measured
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet, gated_delta_rule_loop

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/recurrent/gated_delta_net.py").read_text(encoding="utf-8")
TEXT = " ".join(re.sub(r"(?m)^ *# ?", "", LESSON).split())


def test_the_steps_of_cleo():
    answer, error, memory = figures._read()
    assert answer == pytest.approx([0.34, 0.38]) and error == pytest.approx([4.66, -0.38])
    assert "= (0.34, 0.38)$" in TEXT and "= (4.66, -0.38)$" in TEXT
    assert memory[0] == pytest.approx([3.096, -0.128])
    # In an empty memory.
    assert figures._read((figures.CLEO,), 1.0)[2] == [pytest.approx([3, 0]), pytest.approx([4, 0])]


def test_what_cleo_finds_before_anything_is_said_of_her():
    key, memory = torch.tensor(PEOPLE["Cleo"]), torch.tensor(figures._before())
    assert (key @ memory).tolist() == pytest.approx([3.4, 3.8])
    assert "(3.4, 3.8)" in figures.chapters().alt and "(0.34, 0.38)" in figures.chapters().alt
    assert "(3.960, −1.280)" in figures.fresh().alt and "otherwise (3.96, −1.28)" in TEXT


def test_powers_and_gates():
    assert f"$0.9^{{0.1}} = {0.9**0.1:.2f}$" in TEXT and f"$0.9^{{16}} = {0.9**16:.2f}$" in TEXT
    # After five letters of 0.86 half is gone.
    assert 0.86**4 > 0.5 > 0.86**5
    gates = torch.nn.functional.silu(torch.tensor(figures.SUMS))
    assert figures.listed(gates * torch.tensor(figures.FOUND), 2) in figures.second_gate().alt
    # The same number, in the letters of the paper.
    z, a = torch.tensor(0.3), torch.tensor(1.7)
    alpha = torch.exp(-a * torch.nn.functional.softplus(z))
    torch.testing.assert_close(torch.sigmoid(-z) ** a, alpha)


def test_what_is_left_after_ten_tokens():
    assert f"$0.9^{{10}} = {0.9**10:.2f}$ is left, and with 0.99 it is {0.99**10:.2f}" in TEXT


# The whole in code.


def bare():
    """The class that the page shows as the whole model."""
    (listing,) = (one for _, one in shown(LESSON) if "class GatedDeltaNet" in one)
    made: dict = {}
    exec(listing, made)
    lines = listing[listing.index("class Gated") : listing.index("print(")].split("\n")
    assert 12 <= len([line for line in lines if line.strip()]) <= 20
    return made["GatedDeltaNet"]


@pytest.mark.parametrize(("T", "C", "H"), [(1, 6, 1), (7, 12, 3), (45, 8, 2)])
def test_the_bare_layer_is_the_module(T, C, H):
    """By the loop for a token, and in chunks for more of them."""
    layer, x = GatedDeltaNet(C, H), torch.randn(T, C)
    own, weights = bare()(C, H), layer.state_dict()
    names = "query.weight", "key.weight", "value.weight"
    weights["qkv.weight"] = torch.cat([weights.pop(name) for name in names])
    weights["alpha.bias"] = weights.pop("dt_bias")
    own.load_state_dict(weights)
    torch.testing.assert_close(own(x), layer(x[:, None])[0][:, 0], atol=2e-6, rtol=0)


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/gated_delta_net.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class GatedDeltaNet" in one)
    layer = listing[listing.index("class Gated") : listing.index("print(")].rstrip()
    assert layer in recipe.partition("<!-- chapters -->")[0]


# The task.


def test_only_a_memory_that_fades_turns_the_page():
    found = measured("gated_delta_net", "all")
    assert min(found["with α"]) >= 0.99

    def told(name):
        shares = [round(100 * share) for share in measured("gated_delta_net", name)["without α"]]
        return f"{min(shares)} to {max(shares)} %"

    assert f"they are right in {told('all')}. What do they do?" in TEXT
    assert f"That is right in {told('none')} of the cases in which a name has nothing" in TEXT
    assert f"they find it in only {told('have')}" in TEXT
    # "these are about half of all cases"
    assert {*measured("gated_delta_net", "nothing")["without α"]} == {0.472}
    assert f"There are {task.NAMES} names and {task.NUMBERS} numbers" in TEXT


def test_what_is_asked_is_of_this_chapter():
    generator = torch.Generator().manual_seed(0)
    names, numbers, marks, asked, answers, pairs = task.sample(30, 20, generator)
    for column in range(20):
        for t in range(30):
            starts = [s for s in range(t + 1) if marks[s, column]]
            first = starts[-1] if starts else 0
            assert pairs[t, column] == t - first + 1
            own = [s for s in range(first, t + 1) if names[s, column] == asked[t, column]]
            right = numbers[own[-1], column] if own else task.NUMBERS
            assert answers[t, column] == right


# The stage.


def test_the_stage_computes_what_the_rule_computes():
    figure = figures.rule()
    check_first(figure)
    chosen = random.Random(0)
    settings = [
        {
            "step": step,
            "alpha": chosen.randrange(21) / 20,
            "key": chosen.choice([0, 0.8, 1, chosen.randrange(11) / 10]),
            "apples": chosen.randrange(7),
            "pears": chosen.randrange(7),
        }
        for step in (0, 1, 2, 3) * 4
    ]
    before = torch.tensor(figures._before())
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        second = setting["key"]
        key = torch.tensor([(1 - second**2) ** 0.5, second])
        value = torch.tensor([setting["apples"], setting["pears"]]).float()
        k, v, one = key.view(1, 1, 1, 2), value.view(1, 1, 1, 2), torch.ones(1, 1, 1)
        alpha = torch.tensor(setting["alpha"])
        _, after = gated_delta_rule_loop(k, k, v, one, one * alpha.log(), before[None, None])
        faded, answer = alpha * before, key @ (alpha * before)
        close = partial(pytest.approx, abs=0.0061)
        assert seen.numbers("faded") == close(faded.flatten().tolist())
        assert seen.numbers("memory") == close(faded.flatten().tolist())
        assert seen.numbers("key") == close(key.tolist() * 2)
        assert seen.numbers("answer") == close(answer.tolist() * 2)
        assert seen.numbers("value") == close(value.tolist())
        assert seen.numbers("error") == close((value - answer).tolist() * 2)
        assert seen.numbers("after") == close(after.flatten().tolist())
        olds = [[float(one) for one in words.split(" · ")] for words in seen.texts("old")]
        assert olds == [close([alpha.item(), one.item()]) for one in before.flatten()]
        grounds = PALE + STRONG * (after.abs() / 5).clamp(max=1)
        drawn = seen.places("after-ground", "fill-opacity")
        assert drawn == pytest.approx(grounds.flatten().tolist(), abs=0.006)


@pytest.mark.parametrize("name", PEOPLE)
def test_a_name_of_the_stage_brings_its_key(name):
    choice = next(knob for knob in figures.rule().stage.knobs if knob.name == "who")
    assert choice.sets[choice.options.index(name)]["key"] == PEOPLE[name][1]
