"""The replays of the lessons: what every guided stop says is true of the recorded values."""

import importlib.util
import json
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from shape_tools import unpack

from docs_src.lessons import LESSONS
from labml_nn import kernels
from pylit.runs.shapes.lines import Axes
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.recorder import LEVELS, Recorder
from pylit.runs.shapes.replay import replay_script
from pylit.runs.shapes.trace import read_traces

ROOT = Path(__file__).parents[2]
#: A lesson, or one and which of its replays.
RUNS = [*LESSONS, "mha 0", "encoder_decoder 0", "elman 0", "feedback 0"]


def play(run, tracer):
    """Run a replay; the tracer sees what stands behind its `yield`."""
    torch.set_deterministic_debug_mode("warn")
    with kernels.disabled(), ExitStack() as end:
        end.callback(torch.set_deterministic_debug_mode, "default")
        steps = run()
        texts = next(steps)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            next(steps, None)
        finally:
            sys.settrace(before)
    return texts


@cache
def recorded(run):
    """The replay as a page gets it: the last of a lesson, or another one."""
    lesson, _, which = run.partition(" ")
    path = LESSONS[lesson]
    traces = ROOT / "docs_src/traces" / path.relative_to(ROOT)
    spec = importlib.util.spec_from_file_location(f"traces_of_{lesson}", traces)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    functions, report = read_traces(traces.read_text(encoding="utf-8"), traces.name, Axes())
    assert not report
    replay = [function.replay for function in functions if function.replay][int(which or -1)]
    text = path.read_text(encoding="utf-8")
    recorder = Recorder(read_plan(text), lambda name: name == str(path))
    answer = {"texts": play(getattr(module, replay.name), recorder), **recorder.recorded()}
    now = {line: line for line in range(1, text.count("\n") + 2)}
    script, problems = replay_script(replay, json.loads(json.dumps(answer)), now, [], text)
    assert not problems
    return SimpleNamespace(**json.loads(script.removeprefix("pylitReplay(").removesuffix(");\n")))


def stop(run, number):
    """The values of the line at which a guided stop is, as the panel shows them."""
    data = recorded(run)
    step = data.steps[data.stops[number]["step"]]
    return {name: unpack(data.tensors[n]) for name, n in step["values"]}


@pytest.mark.parametrize("run", RUNS)
def test_it_is_small_and_has_three_to_eight_named_stops(run):
    data = recorded(run)
    stops = [one["step"] for one in data.stops]
    assert 3 <= len(stops) <= 8 and stops == sorted(set(stops))
    names = [one["name"] for one in data.stops]
    assert len(set(names)) == len(names)
    assert all("`" not in name and len(name) <= 16 for name in names)
    assert sum(len(tensor["data"]) for tensor in data.tensors) < 150_000


def test_stops_of_attention():
    queries, _, _, raw, scaled, masked, weights, result = (stop("mha", n) for n in range(8))
    assert queries["returns"].shape == result["returns"].shape == (14, 1, 4, 22)
    half = 55 / LEVELS
    torch.testing.assert_close(raw["scores"] / 22**0.5, scaled["scores"], rtol=0, atol=half)
    later = torch.ones(14, 14, dtype=torch.bool).triu(1)
    hidden = masked["scores"].squeeze(2).permute(2, 0, 1)
    assert hidden.isneginf().equal(later.expand(4, 14, 14))
    assert (weights["attn"][0, 0] == 1).all() and (weights["attn"][0, 1:] == 0).all()
    sums = weights["attn"].sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=14 / LEVELS / 2)


#: What notes of the worked examples say: stop, value, which part of it, the numbers of the note,
#: and how far from them a number may be.
SAID = {
    "mha 0": [
        (0, "returns", 2, [2, 2, 0, 0], 0),
        (1, "returns", 2, [-1, 1, 0, 1], 0),
        (2, "returns", 2, [10, 10], 0),
        (3, "scores", 2, [4, 2, 0], 0),
        (4, "scores", 2, [2, 1, 0], 0),
        (5, "attn", 2, [0.665, 0.245, 0.090], 5e-4),
        (6, "returns", 2, [7.55, 3.35], 0.01),
    ],
    "encoder_decoder 0": [
        (0, "embedded", 0, [1, -1, 1, -1], 0),
        (1, "returns", 0, [0, 1.702, 0, 0], 5e-4),
        (2, "added", 0, [1, 0.702, 1, -1], 5e-4),
        (3, "attend.attn", 0, [0.117, 0.867, 0.016], 5e-4),
        (4, "added", 0, [1.71, 0.702, 1, -1], 5e-3),
    ],
    "positional_encoding": [
        (0, "frequencies", ..., [1, 0.01], 2e-3),
        (1, "angles", ..., [0, 0, 1, 0.01, 2, 0.02], 5e-3),
        (2, "encodings", 1, [0.84, 0.54, 0.01, 1.00], 0.012),
    ],
    "elman 0": [
        (1, "x", ..., [0, -1, 0, 0, 0, 2, 0, 2], 0),
        (2, "new", ..., [0, -0.76], 5e-3),
        (3, "new", ..., [-0.91, 0], 5e-3),
        (4, "new", ..., [0, 0.96], 5e-3),
        (5, "new", ..., [0.96, 0.96], 5e-3),
    ],
    "lstm": [
        (0, "c", ..., [1], 0.01),
        (1, "c", ..., [2], 0.01),
        (2, "c", ..., [2], 0.01),
        (3, "c", ..., [0], 0.01),
        (4, "returns.0", ..., [0, 0.76, 0.76, 0.96, 0.96, 0.76, 0], 0.01),
    ],
    "gru": [
        (0, "z", ..., [1, 1], 0.01),
        (1, "g", ..., [1, 1], 0.01),
        (2, "returns", ..., [1, 0.5], 0.01),
        (3, "returns", ..., [-1, 0.75], 0.01),
        (4, "returns.0", (..., 0), [-1, -1, 1, 1, -1, -1, 1], 0.01),
        (4, "returns.0", (..., 1), [0, 0, 0.5, 0.5, 0.75, 0.75, 0.875], 0.01),
    ],
    "delta_net": [
        (0, "error", ..., [-2, 0], 0.05),
        (1, "memory", ..., [1, 1, 2, 4], 0.05),
        (2, "memory", ..., [2.68, -1.28, 4.24, 0.96], 0.05),
        (3, "overlaps", (0, 0, 3, slice(3)), [0.6, 0.8, 0.6], 0.01),
        (4, "written", ..., [3, 1, 2, 4, -2, 0, 2.8, -3.8], 0.05),
    ],
    "mamba2": [
        (0, "h", ..., [3, 1, 0, 0], 0.01),
        (1, "h", ..., [0.15, 0.05, 0, 0], 0.01),
        (2, "h", ..., [0.14, 0.05, 2, 4], 0.01),
        (3, "returns.0", ..., [3, 1, 0.15, 0.05, 0.14, 0.05], 0.01),
    ],
    "linear_attention": [
        (0, "memory", ..., [3, 1, 0, 0], 6 / LEVELS),
        (1, "memory", ..., [3, 1, 2, 4], 6 / LEVELS),
        (2, "memory", ..., [6, 1, 6, 4], 6 / LEVELS),
        (3, "found.3", ..., [6, 1], 6 / LEVELS),
    ],
    "feedback 0": [
        (0, "shares", ..., [0.05, 0.05, 0.9], 1e-6),
        (1, "vector", ..., [7, 0], 1e-5),
        (2, "memory.values", (slice(None), 0), [3, 0, 0, 5, 7, 0], 1e-5),
        (3, "content", ..., [4, 0, 4], 0),
        (4, "returns", ..., [0, -2, 4], 0),
        (6, "heads", ..., [6.686, 0.067], 5e-4),
    ],
}


@pytest.mark.parametrize("run", SAID)
def test_a_stop_shows_the_numbers_of_its_note(run):
    for number, name, part, expected, error in SAID[run]:
        shown = stop(run, number)[name][part].flatten().tolist()
        assert shown == pytest.approx(expected, rel=0, abs=error), (number, name)


def test_letters_of_the_elman_networks():
    one_hot, logits = stop("elman 0", 0)["e"], stop("elman 0", 6)["logits"]
    assert one_hot[:, 0].argmax(-1).tolist() == [0, 1, 2, 2]
    assert logits[:, 0].argmax(-1).tolist() == [1, 2, 2, 3]
    best = stop("elman", 4)["logits"][:, 0].argmax(1)
    letters = recorded("elman").texts["V"]
    assert len(letters) == 65 and (letters[best[0]], letters[best[2]]) == ("e", "l")


def test_stops_of_the_feedback_memory():
    data = recorded("feedback")
    shares, empty, slot, one, _ = (stop("feedback", n) for n in range(5))
    assert shares["shares"].sum().item() == pytest.approx(1, abs=0.01)
    assert empty == {} and slot["memory.keys"].shape == (1, 1, 4, 24)
    assert (one["self.attn"] == 1).all()
    assert data.steps[data.stops[3]["step"]]["stack"][-1] == "FeedbackAttention.forward"
    data = recorded("feedback 0")
    (_, number), *_ = data.steps[data.stops[0]["step"]]["values"]
    assert data.tensors[number]["along"] == ["levels"]
