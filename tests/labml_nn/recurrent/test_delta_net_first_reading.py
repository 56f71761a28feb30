"""What the page of DeltaNet says of its numbers."""

import json
import random
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play
from torch import nn
from torch.nn.functional import normalize

from docs_src.figures import delta_net as figures
from docs_src.figures import memory as tasks
from docs_src.figures import results
from docs_src.matrix_memory import PALE, STRONG
from docs_src.tasks import delta_net as task
from docs_src.tasks import results as measured
from labml_nn.recurrent.delta_net import DeltaNet, delta_rule_chunk, delta_rule_loop
from labml_nn.recurrent.gated_delta_net import (
    GatedDeltaNet,
    gated_delta_rule_chunk,
    gated_delta_rule_loop,
)
from labml_nn.transformers.mha import MultiHeadAttention

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/recurrent/delta_net.py").read_text(encoding="utf-8")
KEYS = {"Ann": (1.0, 0.0), "Ben": (0.0, 1.0), "Cleo": (0.6, 0.8)}
ROW = re.compile(r"^\| (Ann|Ben|Cleo), (.*) \|$", re.MULTILINE)


def numbers(cell):
    return [float(number) for number in cell.replace("−", "-").strip("() ").split(",")]


def table():
    """The rows of the page: name, value, answer, error, and the memory afterwards."""
    for name, cells in ROW.findall(LESSON):
        value, answer, error, *memory = map(numbers, cells.split(" | "))
        yield name, value, answer, error, memory


def pairs():
    """Keys and values of the table, `[T, B, H, D]`, rates of 1, and an empty memory."""
    rows = list(table())
    k = torch.tensor([KEYS[name] for name, *_ in rows], dtype=torch.double)[:, None, None]
    v = torch.tensor([value for _, value, *_ in rows], dtype=torch.double)[:, None, None]
    one = torch.ones(k.shape[:-1], dtype=torch.double)
    return k, k, v, one, torch.zeros(1, 1, 2, 2, dtype=torch.double)


def test_the_table_by_hand():
    memory, rows = torch.zeros(2, 2, dtype=torch.double), list(table())
    assert [name for name, *_ in rows] == ["Ann", "Ben", "Ann", "Cleo"]
    for name, value, answer, error, after in rows:
        key = torch.tensor(KEYS[name], dtype=torch.double)
        assert (key @ memory).tolist() == pytest.approx(answer)
        assert [v - a for v, a in zip(value, answer, strict=True)] == pytest.approx(error)
        memory = memory + key[:, None] * torch.tensor(error, dtype=torch.double)
        assert memory.tolist() == [pytest.approx(row) for row in after]
    found, last = delta_rule_loop(*pairs())
    torch.testing.assert_close(last[0, 0], memory)
    assert found[-1].flatten().tolist() == pytest.approx([5, 0])


def test_the_sum_adds_both_values_of_ann():
    k, _, v, *_ = pairs()
    added = torch.einsum("tbhd,tbhe->de", k[:3], v[:3])
    assert added.tolist() == [[4, 2], [2, 4]]


def test_the_errors_without_a_memory(monkeypatch):
    k, _, v, *_ = pairs()
    overlaps = (k[:, 0, 0] @ k[:, 0, 0].T).tril()
    rows = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0.6, 0.8, 0.6, 1]]
    torch.testing.assert_close(overlaps, torch.tensor(rows, dtype=torch.double))
    errors = torch.linalg.solve(overlaps, v[:, 0, 0])
    assert errors.tolist() == [pytest.approx(error) for *_, error, _ in table()]

    solved = []
    solve = torch.linalg.solve_triangular
    monkeypatch.setattr(
        torch.linalg, "solve_triangular", lambda *a, **b: solved.append(solve(*a, **b)) or solved[0]
    )
    delta_rule_chunk(*pairs())
    torch.testing.assert_close(solved[0][0, 0], errors)


def test_what_a_key_of_length_two_does():
    # It finds four times what was written, and the next error is minus three times the first.
    k, v = torch.full((2, 1, 1, 1), 2.0), torch.ones(2, 1, 1, 1)
    one, empty = torch.ones(2, 1, 1), torch.zeros(1, 1, 1, 1)
    found, memory = delta_rule_loop(k, k, v, one, empty)
    assert found[0].item() == 4 * v[0].item() and memory.item() == 2 * (1 - 3)


def test_the_table_of_a_memory_that_fades():
    page = (ROOT / "labml_nn/recurrent/gated_delta_net.py").read_text(encoding="utf-8")
    table = re.findall(r"^\| (Ann|Ben|Cleo), (.*?) \| (.*) \|$", page, re.M)
    rows = [(name, numbers(value), re.split(r" *\| *", cells)) for name, value, cells in table]
    assert [name for name, *_ in rows] == ["Ann", "Ben", "Cleo"]
    k = [KEYS[name] for name, *_ in rows]
    v, beta = [value for _, value, _ in rows], [1.0] * len(rows)
    alpha = [float(cells[0]) for *_, cells in rows]
    k, v, beta, alpha = (
        torch.tensor(part, dtype=torch.double)[:, None, None] for part in (k, v, beta, alpha)
    )
    given = k, k, v, beta, alpha.log(), torch.zeros(1, 1, 2, 2, dtype=torch.double)
    for n, (_, value, (_, answer, error, *after)) in enumerate(rows, 1):
        # The table has the answer after fading, and what is left of the value.
        both = zip(numbers(answer), numbers(error), strict=True)
        assert [old + new for old, new in both] == pytest.approx(value)
        *stepped, memory = given
        _, memory = gated_delta_rule_loop(*(part[:n] for part in stepped), memory)
        assert memory[0, 0].tolist() == [pytest.approx(numbers(row)) for row in after]
    found, memory = gated_delta_rule_chunk(*given)
    assert found[-1].flatten().tolist() == pytest.approx([5, 0])
    # The error of Cleo, from those of Ann and Ben.
    error = v[-1] - 0.06 * v[0] - 0.08 * v[1]
    assert error.flatten().tolist() == pytest.approx(numbers(rows[-1][2][2]))


def test_what_the_figure_says():
    sums, deltas, slow = (
        [figures._rewritten(rate, n) for n in (1, 2, 8)] for rate in figures.RULES.values()
    )
    assert sums[0] > 0.95 and sums[1] < 0.5 and sums[2] < 0.1
    assert (f"{deltas[2]:.2f}", f"{slow[2]:.2f}") == ("0.85", "0.69")
    assert min(deltas) > 0.8 and figures.KEYS * figures.ROUNDS[-1] == figures.PAIRS == 64
    summed, corrected, kept = (figures._by_age(rate) for rate in figures.RULES.values())
    assert max(summed) - min(summed) < 0.1
    assert corrected[0] > 0.99 and corrected[-1] < 0.05
    old = figures.AGES.index(24)
    assert kept[old] > 3 * corrected[old]


def test_values_of_more_features_are_easier_to_tell_apart():
    """64 random keys of 16 features, and 8 keys that are written 8 times; values have 64."""
    generator, shares = torch.Generator().manual_seed(5), []
    directions = partial(torch.randn, generator=generator)
    keys = normalize(directions(64, 40, 1, 16), dim=-1)
    values = normalize(directions(64, 40, 1, 64), dim=-1)
    empty, one = torch.zeros(40, 1, 16, 64), torch.ones(64, 40, 1)

    def share(k, memory, first):
        found = torch.einsum("tbhd,bhdv->btv", k, memory)
        nearest = torch.cdist(found, values[:, :, 0].transpose(0, 1)).argmin(-1)
        return (nearest == torch.arange(first, 64)).float().mean().item()

    summed = torch.einsum("tbhd,tbhv->bhdv", keys, values)
    assert share(keys, summed, 0) == pytest.approx(0.75, abs=0.03)
    again = keys[:8].repeat(8, 1, 1, 1)
    for beta in (0.3, 1.0):
        _, memory = delta_rule_loop(again, again, values, beta * one, empty)
        shares.append(share(again[-8:], memory, 56))
    assert shares[0] > shares[1] + 0.01


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.dim() == 2)


def test_cost():
    C, H = 64, 4
    attention = parameters(MultiHeadAttention(H, C))
    assert parameters(DeltaNet(C, H)) - attention == H * C  # the projection of beta
    assert parameters(GatedDeltaNet(C, H)) - attention == C**2 + 2 * H * C
    _, state = DeltaNet(C, H)(torch.randn(3, 1, C))
    assert state.memory.numel() == C**2 // H == 2 * C * 8


def test_a_new_layer_forgets_slowly():
    torch.manual_seed(0)
    steps = nn.functional.softplus(GatedDeltaNet(2, 1000, 1, 1).dt_bias)
    assert 0.001 < steps.min() < 0.0011 and 0.09 < steps.max() < 0.1001


def test_what_the_trained_model_wrote_and_its_loss():
    ours, lstm = (
        json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))
        for name in ("delta_net", "lstm")
    )
    quoted = " ".join(re.findall(r"(?m)^# > (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    assert [f"{one['result']['validation_loss']:.2f}" for one in (ours, lstm)] == ["1.64", "1.65"]
    assert 120 < ours["result"]["process_seconds"] < 180
    assert [one["result"]["step"] for one in (ours, lstm)] == [3000, 2000]
    assert round(lstm["parameters"] / ours["parameters"]) == 2


def test_with_and_without_a_gate():
    losses = {row[0]: row[3] for row in results.ranges().table.rows}
    gated = (ROOT / "labml_nn/recurrent/gated_delta_net.py").read_text(encoding="utf-8")
    for name, page in (("DeltaNet", LESSON), ("Gated DeltaNet", LESSON), ("DeltaNet", gated)):
        assert f" {losses[name]}" in page.replace("\n", " ")
    assert f" {losses['linear attention']} " in LESSON and f" {losses['Gated DeltaNet']} " in gated
    answers = {row[0]: row[1] for row in tasks.bench().rows}
    recalled = [answers[name].split(" ")[0] for name in ("Gated DeltaNet", "DeltaNet")]
    assert "{} %, and {} %".format(*recalled) in gated


def flat(page):
    """A page as one line, without the marks of comments."""
    return " ".join(re.sub(r"(?m)^ *# ?", "", page).split())


# The whole in code.


def bare():
    """The class that the page shows as the whole model."""
    (listing,) = (one for _, one in shown(LESSON) if "class DeltaNet" in one)
    made: dict = {}
    exec(listing, made)
    lines = listing[listing.index("class DeltaNet") : listing.index("print(")].split("\n")
    assert 12 <= len([line for line in lines if line.strip()]) <= 21
    return made["DeltaNet"]


@pytest.mark.parametrize(("T", "C", "H"), [(1, 6, 1), (7, 12, 3), (45, 8, 2)])
def test_the_bare_layer_is_the_module(T, C, H):
    """By the loop for a token, and in chunks for more of them."""
    layer, x = DeltaNet(C, H), torch.randn(T, C)
    own = bare()(C, H)
    weights = layer.state_dict()
    names = "query.weight", "key.weight", "value.weight"
    weights["qkv.weight"] = torch.cat([weights.pop(name) for name in names])
    own.load_state_dict(weights)
    torch.testing.assert_close(own(x), layer(x[:, None])[0][:, 0], atol=2e-6, rtol=0)


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/delta_net.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class DeltaNet" in one)
    layer = listing[listing.index("class DeltaNet") : listing.index("print(")].rstrip()
    assert layer in recipe.partition("<!-- chapters -->")[0]


# The task.


def test_only_the_delta_rule_replaces():
    found = measured("delta_net", "by_times")
    assert found["delta rule"] == [[1.0] * len(task.TIMES)] * 5
    for run in found["addition"]:
        assert run[0] == 1.0 and 0.5 < run[1] < 0.55
        assert f"{100 * run[23]:.0f}" in ("16", "17")
    text = flat(LESSON)
    assert f"each of {task.NAMES} names, and a value for each of {task.NUMBERS} numbers" in text
    assert f"they read {task.STEPS} pairs, and in the test {task.LONG}" in text
    assert f"in {100 / task.NUMBERS:.0f} %" in text


def test_what_is_asked_is_the_last_number():
    generator = torch.Generator().manual_seed(0)
    names, numbers, asked, answers, times = task.sample(20, 30, generator)
    for column in range(30):
        for t in range(20):
            own = [s for s in range(t + 1) if names[s, column] == asked[t, column]]
            assert len(own) == times[t, column] > 0
            assert numbers[own[-1], column] == answers[t, column]


def test_what_a_full_memory_finds():
    """The first and the last of 64 pairs, as the picture and the words say."""
    first, last = (figures._by_age(None)[age] for age in (-1, 0))
    assert 0.25 < last < 1 / 3 and 0.25 < first < 1 / 3  # old ones as well as new ones
    first, last = (figures._by_age(1.0)[age] for age in (-1, 0))
    assert last == 1.0 and first < 0.03
    assert f"A guess finds {100 / figures.PAIRS:.1f} %" in LESSON
    assert f"finds {100 * figures._of_all(None):.0f} % of all pairs" in flat(LESSON)
    assert f"it is less, {100 * figures._of_all(1.0):.0f} %" in flat(LESSON)


# The numbers of the words and of the pictures.


def test_half_of_the_error():
    """With a rate of 0.5 Ann has two apples, and the transition halves her row."""
    assert figures._read(3, 0.5)[2][0] == [2.0, 1.0]
    key, memory = torch.tensor(KEYS["Ann"]), torch.tensor(figures._read(2)[2])
    left = (torch.eye(2) - 0.5 * key[:, None] * key) @ memory
    assert left.tolist() == [[1.5, 0.5], [2.0, 4.0]]
    drawing = figures.transition().alt
    assert "(1.5, 0.5), (2, 4)" in drawing and "(2, 1), (2, 4)" in drawing


def test_a_step_against_the_slope():
    """Half of the squared error of Ann's apples, its slope, and a step."""
    apples = torch.tensor(3.0, requires_grad=True)
    loss = (1 - apples) ** 2 / 2
    (slope,) = torch.autograd.grad(loss, apples)
    assert (loss.item(), slope.item()) == (2, 2)
    assert [figures._read(3, beta)[2][0][0] for beta in (0.5, 1.0)] == [3 - 0.5 * 2, 3 - 2]


def test_a_memory_that_adds_goes_down_a_line():
    """The write of linear attention is minus the gradient of −k S · v."""
    k, v = torch.randn(3), torch.randn(4)
    memory = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(-((k @ memory) * v).sum(), memory)
    torch.testing.assert_close(-gradient, k[:, None] * v)


# The stage.


def test_the_stage_computes_what_the_rule_computes():
    """For each step, memory before, and random keys, values and rates."""
    figure = figures.rule()
    check_first(figure)
    chosen = random.Random(0)
    settings = [
        {
            "step": step,
            "before": chosen.randrange(2),
            "key": chosen.choice([0, 0.8, 1, chosen.randrange(11) / 10]),
            "beta": chosen.randrange(11) / 10,
            "apples": chosen.randrange(7),
            "pears": chosen.randrange(7),
        }
        for step in (0, 1, 2, 3) * 4
    ]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        memory = torch.tensor(figures._read(2 + setting["before"])[2])
        second = setting["key"]
        key = torch.tensor([(1 - second**2) ** 0.5, second])
        value = torch.tensor([setting["apples"], setting["pears"]]).float()
        k, v = key.view(1, 1, 1, 2), value.view(1, 1, 1, 2)
        beta = torch.full((1, 1, 1), setting["beta"])
        found, after = delta_rule_loop(k, k, v, beta, memory[None, None])
        after, answer = after[0, 0], key @ memory
        close = partial(pytest.approx, abs=0.006)
        assert seen.numbers("memory") == close(memory.flatten().tolist())
        assert seen.numbers("key") == close(key.tolist() * 2)
        assert seen.numbers("answer") == close(answer.tolist() * 2)
        assert seen.numbers("error") == close((value - answer).tolist())
        assert seen.numbers("written") == close((beta.item() * (value - answer)).tolist())
        assert seen.numbers("after") == close(after.flatten().tolist())
        assert seen.numbers("found") == close(
            [*after.flatten().tolist(), *found.flatten().tolist()]
        )
        changes = [
            words.replace("− ", "−").replace("+ ", "").split() for words in seen.texts("change")
        ]
        for words, old, new in zip(changes, memory.flatten(), after.flatten(), strict=True):
            was, change = (float(word.replace("−", "-")) for word in words)
            assert (was, was + change) == pytest.approx((old.item(), new.item()), abs=0.012)
        has = [value if second == i else memory[i] for i in (0, 1)]
        assert seen.numbers("has") == close([*has[0].tolist(), *has[1].tolist(), *value.tolist()])
        off = [(a - b).abs().max() > 0.005 for a, b in zip(after, has, strict=True)]
        off.append((found.flatten() - value).abs().max() > 0.005)
        assert seen.places("off", "stroke-opacity") == [float(one) for one in off]
        for values, name in ((memory, "memory"), (after, "after")):
            grounds = PALE + STRONG * (values.abs() / 5).clamp(max=1)
            drawn = seen.places(f"{name}-ground", "fill-opacity")
            assert drawn == pytest.approx(grounds.flatten().tolist(), abs=0.006)
        assert f"and {figures.shown(setting['beta'])} of it is written" in seen.said


@pytest.mark.parametrize(("who", "answer"), [(0, (3, 1)), (1, (2, 4)), (2, (3.4, 3.8))])
def test_a_name_of_the_stage_moves_its_sliders(who, answer):
    """Each name brings its key; Cleo reads from both rows."""
    figure = figures.rule()
    choice = next(knob for knob in figure.stage.knobs if knob.name == "who")
    (seen,) = play(figure, dict(choice.sets[who]))
    assert seen.numbers("answer") == pytest.approx([*answer] * 2)
    assert choice.sets[who]["key"] == KEYS[choice.options[who]][1]
