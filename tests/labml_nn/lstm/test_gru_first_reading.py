"""What the page of the GRU says of its numbers."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch
from shown_programs import blocks as shown
from stages import check_first, numbers, play

from docs_src.figures import gru as figures
from docs_src.gates import disc
from docs_src.tasks import lstm as task
from docs_src.tasks import results
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU

ROOT = Path(__file__).parents[3]
LESSON = (ROOT / "labml_nn/lstm/gru.py").read_text(encoding="utf-8")


def flat(text):
    """A page as one line, without the marks of comments."""
    return " ".join(re.sub(r"(?m)^ *# ?", "", text).split())


def test_an_elman_unit_would_need_two_inputs_for_one_token():
    near = {1: math.tanh(2), -1: math.tanh(-2)}
    assert all(math.tanh(2 * h) == pytest.approx(h, abs=0.01) for h in near.values())
    assert round(math.tanh(2 - 4), 2) == -0.96 and round(math.tanh(-2 + 4), 2) == 0.96


def test_a_line_by_hand():
    found = figures._follow('⏎a"b"c"⏎')
    rounded = {name: [round(value, 2) + 0 for value in values] for name, values in found.items()}
    assert rounded == {
        "z": [0, 1, 0, 1, 0, 1, 0, 0],
        "r": [0, 0, 1, 0, 1, 0, 1, 0],
        "g": [-1, 0, 1, 0, -1, 0, 1, -1],
        "h": [-1, -1, 1, 1, -1, -1, 1, -1],
    }
    # The steps of the stage tell these numbers.
    points = [flat(one) for one in re.findall(r"(?ms)^\d\. (The .*?)\n\n", LESSON)]
    assert len(points) == len(figures.MOMENTS) == 5
    for point, t in zip(points[:4], figures.MOMENTS, strict=False):
        z, g = found["z"][t], found["g"][t]
        old = found["h"][t - 1] if t else 0
        shares = re.findall(
            r"(\d) \\cdot \(?(-?\d)\)? \+ (\d) \\cdot \(?(-?\d)\)? = \(?(-?\d)", point
        )
        (told,) = ([float(part) for part in one] for one in shares)
        assert told == pytest.approx([z, old, 1 - z, g, found["h"][t]], abs=1e-3)


def test_a_line_that_begins_without_an_end_has_no_answer():
    assert figures._follow(figures.LINES[2])["h"][:6] == pytest.approx([0] * 6)


@pytest.mark.parametrize(
    ("share", "counted"),
    [(0.5, [0.5, 0.75, 0.875]), (0.9, [0.1, 0.19, 0.271]), (0.98, [0.02, 0.0396, 0.0588])],
)
def test_a_cell_that_tries_to_count_forgets_what_it_writes_over(share, counted):
    states, kept = figures._counted('⏎a"b"c"⏎', share)
    first, second, third = counted
    assert states == pytest.approx([0, 0, first, first, second, second, third, 0], abs=1e-3)
    assert kept == pytest.approx([0, 0, 1, 1, 2, 2, 3, 0], abs=1e-3)
    assert max(figures._counted("⏎" + '"' * 500, share)[0]) <= 1


def test_what_the_trained_model_wrote_and_its_loss():
    ours, lstm = (
        json.loads((ROOT / f"docs_src/results/{name}/result.json").read_text(encoding="utf-8"))
        for name in ("gru", "lstm")
    )
    quoted = " ".join(re.findall(r"(?m)^# > (.*)$", LESSON)).split()
    assert len(quoted) > 20
    assert " ".join(quoted) in " ".join(ours["samples"][0]["text"].split())
    losses = [f"{one['result']['validation_loss']:.2f}" for one in (ours, lstm)]
    assert losses == ["1.57", "1.65"] and ours["run"]["training"] == lstm["run"]["training"]
    assert round(100 * (1 - ours["parameters"] / lstm["parameters"])) == 23


# The whole in code.


def bare():
    """The class that the page shows as the whole, and what the listing has made."""
    (listing,) = (one for _, one in shown(LESSON) if "class GRU(nn.Module)" in one)
    made: dict = {}
    exec(listing, made)
    return made


@pytest.mark.parametrize(("T", "B", "C", "N"), [(1, 1, 4, 1), (7, 3, 5, 6), (13, 2, 9, 4)])
def test_the_bare_network_is_the_module(T, B, C, N):
    network, module = bare()["GRU"](C, N), GRU(C, N, 1)
    module.cells[0].input_lin.load_state_dict(network.W.state_dict())
    module.cells[0].hidden_lin.load_state_dict(network.U.state_dict())
    x, h = torch.randn(T, B, C), torch.rand(B, N) - 0.5
    states, last = module(x, h[None])
    torch.testing.assert_close(network(x, h), (states, last[0]))


def test_the_listing_reads_the_line_by_hand():
    made = bare()
    h = made["by_hand"](made["line"], made["zero"])[0].flatten()
    expected = torch.tensor(figures._follow(figures.LINES[0])["h"], dtype=torch.float)
    torch.testing.assert_close(h, expected, atol=1e-5, rtol=0)


# The stage.


def test_the_stage_computes_what_the_module_computes():
    """For each step and each line, with gates turned at random."""
    figure = figures.line_by_hand()
    check_first(figure)
    chosen = random.Random(0)
    shares = {
        name: [1.0, 0.0, 0.3] + [chosen.randrange(11) / 10 for _ in range(12)]
        for name in ("keep", "reset")
    }
    settings = [
        {"step": i % 5, "line": i % 3, **{name: one[i] for name, one in shares.items()}}
        for i in range(15)
    ]
    for setting, seen in zip(settings, play(figure, *settings), strict=True):
        line = figures.LINES[setting["line"]]
        turned = {name: setting[name] for name in shares}
        found, t = figures._follow(line, **turned), figures.MOMENTS[setting["step"]]
        assert seen.numbers("all-h") == pytest.approx(found["h"], abs=0.051)
        assert seen.numbers("made-all") == pytest.approx(found["g"], abs=0.051)
        assert seen.texts("tokens") == [*line]
        assert seen.texts("token") == [line[t]]
        old = found["h"][t - 1] if t else 0
        z, r, g = (found[name][t] for name in "zrg")
        for name, value in (
            ("old", old),
            ("new", found["h"][t]),
            ("made", g),
            ("own", figures.SUMS[2][figures.KINDS.get(line[t], 0)]),
            ("kept", z * old),
            ("added", (1 - z) * g),
            ("gate-z-number", z),
            ("gate-r-number", r),
            ("gate-write-number", 1 - z),
        ):
            assert seen.numbers(name) == pytest.approx([value], abs=0.006), name
        for name, place, value in (("z", "keep", z), ("r", "reset", r), ("write", "write", 1 - z)):
            seen_disc = seen.elements[f"gate-{name}"][0].attributes["d"]
            x, y = figures.CELL[place]
            drawn = disc(x, y, figures.CELL["r"], value)
            assert unsigned(seen_disc) == pytest.approx(unsigned(drawn), abs=0.11)
        for name, y in zip("zr", figure.stage.data["rows"], strict=True):
            assert seen.numbers(f"gates-{name}-number") == pytest.approx(found[name], abs=0.006)
            x = figure.stage.data["left"] + t * figure.stage.data["step"]
            drawn = disc(x, y, figure.stage.data["small"], found[name][t])
            seen_disc = seen.elements[f"gates-{name}"][t].attributes["d"]
            assert unsigned(seen_disc) == pytest.approx(unsigned(drawn), abs=0.11)
        (at,) = seen.places("at", "x")
        left, step = figure.stage.data["left"], figure.stage.data["step"]
        assert at == pytest.approx(left + t * step - step / 2)
        told = numbers(seen.said.partition("The state")[2])
        assert told == pytest.approx([old, g, found["h"][t]], abs=0.006)


def unsigned(text):
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


# The task, and what both cost.


def test_what_the_task_says():
    by_depth, trained = results("lstm", "by_depth"), results("lstm", "trained")
    at = task.TESTED.index
    assert min(trained["GRU"]) == 0.998
    at_25 = [run[at(25)] for run in by_depth["GRU"]]
    assert (math.floor(100 * min(at_25)), math.ceil(100 * max(at_25))) == (8, 65)
    assert max(run[at(30)] for run in by_depth["GRU"]) <= 0.01
    assert min(run[at(25)] for run in by_depth["LSTM"]) >= 0.99
    assert max(max(run) for run in by_depth["Elman, 34 units"]) <= 0.1
    sizes = [sum(p.numel() for p in one(3, 16, 1).parameters()) for one in (GRU, LSTM)]
    assert sizes == [1008, 1280]


@pytest.mark.parametrize(("C", "N"), [(3, 16), (7, 5)])
def test_weights_and_states_of_both(C, N):
    gru, lstm, x = GRU(C, N, 1), LSTM(C, N, 1), torch.randn(2, 1, C)
    sizes = [sum(p.numel() for p in one.parameters()) for one in (gru, lstm)]
    assert sizes == [3 * N * (C + N + 2), 4 * N * (C + N + 1)]
    assert gru(x)[1].numel() == N and sum(part.numel() for part in lstm(x)[1]) == 2 * N


def test_the_notebook_begins_with_it():
    recipe = (ROOT / "docs_src/notebooks/gru.md").read_text(encoding="utf-8")
    (listing,) = (one for _, one in shown(LESSON) if "class GRU(nn.Module)" in one)
    forward = re.search(r"    def forward.*?return [^\n]*\n", listing, re.DOTALL)[0]
    assert forward in recipe.partition("<!-- chapters -->")[0]
