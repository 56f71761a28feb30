"""What the page of the LSTM says of its numbers."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, play

from docs_src.figures import live
from docs_src.figures import lstm as figures
from docs_src.gates import disc
from docs_src.tasks import last_bracket, results
from docs_src.tasks import lstm as task
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.elman import Elman

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/lstm/__init__.py").read_text(encoding="utf-8")


def follow(text):
    """The cell states and hidden states of the line by hand, one for each character."""
    found = figures._follow(text.replace("\n", "⏎"))
    return found["c"], found["h"]


def flat(text):
    """A page as one line, without the marks of comments."""
    return " ".join(re.sub(r"(?m)^ *# ?", "", text).split())


def test_the_elman_unit_cannot_count():
    h, states = 0.0, []
    for one in "((()))":
        h = math.tanh(h + (1 if one == "(" else -1))
        states.append(round(h, 2))
    assert states == [0.76, 0.94, 0.96, -0.04, -0.78, -0.94]


def test_a_line_by_hand():
    kept, shown = follow("f(g(x))\n")
    assert [abs(round(c, 2)) for c in kept] == [0, 1, 1, 2, 2, 1, 0, 0]
    assert [abs(round(h, 2)) for h in shown] == [0, 0.76, 0.76, 0.96, 0.96, 0.76, 0, 0]
    assert abs(kept[6]) < 0.001
    # The steps of the stage tell these numbers.
    points = [flat(one) for one in re.findall(r"(?ms)^\d\. (The .*?)\n\n", LESSON)]
    assert len(points) == len(figures.MOMENTS) == 5
    told = [re.search(r"= (\d)\$", point) for point in points[:4]]
    assert [int(one[1]) for one in told] == [round(kept[t]) for t in figures.MOMENTS[:4]]
    assert f"tanh(1) = {math.tanh(1):.2f}" in points[0]
    assert all(follow(line[:-1])[0][-1] > 0.9 for line in figures.LINES[1:])


def test_a_number_is_kept_over_a_hundred_letters():
    kept, _ = follow("(" + "x" * 100)
    assert kept[-1] == pytest.approx(kept[0], abs=5e-4)
    gate = torch.sigmoid(torch.tensor(10.0, dtype=torch.double)).item()
    assert round(gate, 5) == 0.99995 and round(1 - gate, 5) == 0.00005
    assert round(gate**100, 3) == 0.995


def test_a_tanh_at_each_letter_loses_the_gradient():
    h, left, seen = figures._unit("(((")[-1], 1.0, []
    for _ in range(100):
        h = math.tanh(h)
        left *= 1 - h**2
        seen.append((h, left))
    assert round(seen[0][0], 2) == 0.74 and round(seen[0][1], 2) == 0.45 == round(1 - 0.74**2, 2)
    assert round(seen[2][1], 2) == 0.18 and round(seen[99][1], 3) == 0.002
    assert "0.18 of the gradient, and a hundred leave 0.002" in flat(LESSON)


def test_a_second_cell_closes_the_gate_in_a_comment():
    outside, mark, inside = figures._follow_comments("(#(")
    assert [round(one[3], 2) for one in (outside, mark, inside)] == [1, 1, 1]  # the count
    assert round(mark[4], 2) == round(inside[4], 2) == 0.76  # what the second cell shows
    assert inside[0] == 10 and round(inside[2], 1) == -12.8 == round(10 - 30 * 0.76, 1)
    assert "$10 - 30 \\cdot 0.76 = -12.8$" in flat(LESSON)
    assert torch.sigmoid(torch.tensor(inside[2])) < 1e-4


def test_how_far_the_gradient_reaches():
    at = figures.FAR.index
    zero, one, three = (figures._arriving(bias) for bias in figures.BIASES)
    elman = figures._arriving(None)
    # Along the cell states alone, the product of the gates; more arrives in fact.
    text = flat(LESSON)
    gates = [f"{1 / (1 + math.exp(-bias)):.2f}".removesuffix("0") for bias in figures.BIASES]
    assert "{} for a bias of 0, {} for 1, and {} for 3".format(*gates) in text
    assert round(0.5**10, 3) == 0.001 == round(figures._arriving(0.0, cut=True)[at(10)], 3)
    assert f"The graph has more, {zero[at(10)]:.3f}" in text
    assert "with 3 about half is left after 50" in text
    assert zero[at(30)] < elman[at(30)]
    assert one[at(30)] / elman[at(30)] == pytest.approx(10, abs=2)
    assert three[at(50)] == pytest.approx(0.5, abs=0.05) and three[at(30)] > 0.5
    # Without the second way, the forget gates alone.
    assert round((1 / (1 + math.exp(-3))) ** 50, 2) == 0.09
    three, one = (figures._arriving(bias, cut=True) for bias in (3.0, 1.0))
    assert three[at(50)] == pytest.approx(0.07, abs=0.005)
    assert elman[at(30)] / 3 < one[at(30)] < elman[at(30)]


def test_small_steps_are_shown_apart():
    told = [round(math.tanh(step * n), 3) for step in (1, 0.3) for n in (2, 3)]
    assert told == [0.964, 0.995, 0.537, 0.716]
    six, seven = (f"{math.tanh(0.3 * n):.2f}" for n in (6, 7))
    assert f"six and seven are shown as {six} and {seven}" in flat(LESSON)


@torch.no_grad()
def test_when_the_trained_cell_is_hidden():
    """At the first letter of many words, and at the colon behind a name, where it rises."""
    read = (
        "KING RICHARD II:\nWhat must the king do now? must he submit?\nThe king shall do it: must "
        "he be deposed?\n\nROMEO:\nBut, soft! what light through yonder window breaks?"
    )
    model, vocabulary = live._trained("lstm")
    first, cell = model.lstm.cells
    below = above = h = c = torch.zeros(1, model.config.d_hidden)
    shown, kept = [], []
    for x in live._embedded(model, vocabulary, read):
        below, above = first(x, below, above)
        sums = cell.hidden_lin(h) + cell.input_lin(below)
        h, c = cell(below, h, c)
        shown.append(torch.sigmoid(sums.view(4, -1)[3, 56]).item())
        kept.append(c[0, 56].item())
    speech, hidden = [], []
    for begin, end in ((m.start(), m.end()) for m in re.finditer(r"[^\n]+", read)):
        if end - begin < 20:  # a name
            assert max(kept[begin:end]) == kept[end - 2] > 2 * kept[begin]
            assert read[end - 1] == ":" and shown[end - 1] < 0.06
        else:
            speech += [t for t in range(begin + 1, end) if read[t - 1] == " "]
            hidden += [t for t in range(begin + 1, end) if shown[t] < 0.5]
            assert kept[end - 1] < 0.4 < kept[begin + 1] / 3
    assert set(hidden) < set(speech) and len(hidden) > len(speech) / 2


def test_a_tanh_at_each_step_loses_a_count_of_small_steps():
    h = 0.0
    for _ in range(3):
        h = math.tanh(h + 0.1)
    assert round(h, 2) == 0.29
    for _ in range(100):
        h = math.tanh(h)
    assert round(h, 2) == 0.11


def test_what_the_trained_model_wrote_and_its_loss():
    ours, elman = (
        json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))
        for name in ("lstm", "elman")
    )
    quoted = " ".join(re.findall(r"(?m)^> (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    losses = [f"{one['result']['validation_loss']:.2f}" for one in (ours, elman)]
    assert losses == ["1.65", "1.59"] and ours["result"]["step"] == elman["result"]["step"]
    assert round(100 * (elman["parameters"] / ours["parameters"] - 1)) == 39
    assert 100 < ours["result"]["process_seconds"] < 140  # about two minutes


# The whole in code.


def bare():
    """The class that the page shows as the whole, and what the listing has made."""
    (listing,) = (one for _, one in shown(LESSON) if "class LSTM(nn.Module)" in one)
    made: dict = {}
    exec(listing, made)
    return made


@pytest.mark.parametrize(("T", "B", "C", "N"), [(1, 1, 4, 1), (7, 3, 5, 6), (13, 2, 9, 4)])
def test_the_bare_network_is_the_module(T, B, C, N):
    network, module = bare()["LSTM"](C, N), LSTM(C, N, 1)
    module.cells[0].input_lin.load_state_dict(network.W.state_dict())
    module.cells[0].hidden_lin.load_state_dict(network.U.state_dict())
    x, h, c = torch.randn(T, B, C), torch.rand(B, N) - 0.5, torch.randn(B, N)
    states, last = module(x, (h[None], c[None]))
    torch.testing.assert_close(network(x, h, c), (states, *(part[0] for part in last)))


def test_the_listing_reads_the_line_by_hand():
    made = bare()
    assert made["by_hand"].W.weight.tolist() == [list(row) for row in figures.SUMS]
    h = made["by_hand"](made["line"], made["zero"], made["zero"])[0].flatten()
    expected = torch.tensor(figures._follow(figures.LINES[0])["h"], dtype=torch.float)
    torch.testing.assert_close(h, expected, atol=1e-5, rtol=0)


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/lstm.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class LSTM(nn.Module)" in one)
    forward = re.search(r"    def forward.*?return [^\n]*\n", listing, re.DOTALL)[0]
    assert forward in recipe.partition("<!-- chapters -->")[0]


# The stage.


def test_the_stage_computes_what_the_module_computes():
    """For each step and each line, with valves turned at random."""
    figure = figures.line_by_hand()
    check_first(figure)
    chosen = random.Random(0)
    shares = {
        name: [1.0, 0.0, 0.3] + [chosen.randrange(11) / 10 for _ in range(12)]
        for name in ("write", "keep", "show")
    }
    settings = [
        {"step": i % 5, "line": i % 3, **{name: one[i] for name, one in shares.items()}}
        for i in range(15)
    ]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        line = figures.LINES[setting["line"]]
        turned = {name: setting[name] for name in shares}
        found, t = figures._follow(line, **turned), figures.MOMENTS[setting["step"]]
        close = {"abs": 0.006}
        assert seen.numbers("all-c") == pytest.approx(found["c"], **close)
        assert seen.numbers("all-h") == pytest.approx(found["h"], **close)
        assert seen.numbers("made-all") == pytest.approx(found["g"], **close)
        assert seen.texts("tokens") == [*line]
        assert seen.texts("token") == [line[t]]
        old = found["c"][t - 1]
        for name, value in (
            ("old", old),
            ("new", found["c"][t]),
            ("made", found["g"][t]),
            ("shown", found["h"][t]),
            ("kept", found["f"][t] * old),
            ("added", found["i"][t] * found["g"][t]),
            *((f"gate-{gate}-number", found[gate][t]) for gate in "ifo"),
        ):
            assert seen.numbers(name) == pytest.approx([value], **close), name
        rows = dict(zip("ifo", figure.stage.data["rows"], strict=True))
        for gate, key in (("i", "input"), ("f", "forget"), ("o", "output")):
            seen_disc = seen.elements[f"gate-{gate}"][0].attributes["d"]
            x, y = figures.CELL[key]
            drawn = disc(x, y, figures.CELL["r"], found[gate][t])
            assert numbers(seen_disc) == pytest.approx(numbers(drawn), abs=0.11)
            discs = seen.elements[f"gates-{gate}"]
            assert len(discs) == len(line)
            x = figure.stage.data["left"] + t * figure.stage.data["step"]
            drawn = disc(x, rows[gate], figure.stage.data["small"], found[gate][t])
            assert numbers(discs[t].attributes["d"]) == pytest.approx(numbers(drawn), abs=0.11)
            assert seen.numbers(f"gates-{gate}-number") == pytest.approx(found[gate], **close)
        (at,) = seen.places("at", "x")
        left, step = figure.stage.data["left"], figure.stage.data["step"]
        assert at == pytest.approx(left + t * step - step / 2)
        cell_state = [round(value, 2) + 0 for value in (old, found["c"][t])]
        told = re.search(r"was (\S+) and is (\S+) now", seen.said)
        assert numbers(" ".join(told.groups())) == pytest.approx(cell_state, abs=0.011)


def numbers(text):
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


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
    for model in ("Elman", "Elman, 34 units"):
        for wrong in results("last_bracket", "late")[model]:
            # Mostly wrong at the last bracket, and noticed a few letters later.
            assert wrong[0] > 0.6 and wrong[last_bracket.LATER.index(8)] < 0.05
            assert wrong[last_bracket.LATER.index(4)] < 0.15
    sizes = [sum(p.numel() for p in one.parameters()) for one in (LSTM(3, 16, 1), Elman(3, 16))]
    sizes.append(sum(p.numel() for p in Elman(3, 34).parameters()))
    assert "has 1,280 weights and biases without it" in flat(LESSON)
    assert sizes == [1280, 320, 1292] and GRU(3, 16, 1)


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
