"""The replays of the lessons: what every guided stop says is true of the recorded values."""

import importlib.util
import json
import re
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
SAID = (Path(__file__).parent / "golden/stops.txt").read_text(encoding="utf-8").split("\n\n")


@pytest.mark.parametrize("lines", SAID, ids=lambda lines: lines.split("\n")[0])
def test_a_stop_shows_the_numbers_of_its_note(lines):
    title, *stops = lines.strip().split("\n")
    for line in stops:
        number, name, part, numbers, error = re.match(
            r"(\d+) (.*)\[(.*)\] = (.*) ± (.*)", line
        ).groups()
        value = stop(title.removeprefix("# "), int(number))[name]
        shown = eval(f"value[{part}]", {"value": value}).flatten().tolist()
        expected = [float(one) for one in numbers.split()]
        assert shown == pytest.approx(expected, rel=0, abs=eval(error, {"LEVELS": LEVELS})), line


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
