"""The replays of the lessons: every value is torch's, and every guided stop is true of them."""

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


@cache
def traces(run):
    """The module of traces of a lesson, its last replay or another one, and its path."""
    lesson, _, which = run.partition(" ")
    which = int(which or -1)
    path = ROOT / "docs_src/traces" / LESSONS[lesson].relative_to(ROOT)
    spec = importlib.util.spec_from_file_location(f"traces_of_{lesson}_{which}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    functions, report = read_traces(path.read_text(encoding="utf-8"), path.name, Axes())
    assert not report
    replays = [function.replay for function in functions if function.replay]
    return module, replays[which], LESSONS[lesson]


def play(lesson, tracer):
    """Run a replay; the tracer sees what stands behind its `yield`."""
    module, replay, _ = traces(lesson)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with kernels.disabled(), ExitStack() as end:
        end.callback(torch.use_deterministic_algorithms, False)
        run = getattr(module, replay.name)()
        texts = next(run)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            next(run, None)
        finally:
            sys.settrace(before)
    return texts


@cache
def recorded(lesson):
    """The replay as a page gets it."""
    _, replay, path = traces(lesson)
    text = path.read_text(encoding="utf-8")
    recorder = Recorder(read_plan(text), lambda name: name == str(path))
    answer = {"texts": play(lesson, recorder), **recorder.recorded()}
    lines = text.split("\n")
    now = {line: line for line in range(1, len(lines) + 1)}
    script, problems = replay_script(replay, json.loads(json.dumps(answer)), now, [], text)
    assert not problems
    data = json.loads(script.removeprefix("pylitReplay(").removesuffix(");\n"))
    return SimpleNamespace(**data, path=path)


def stop(lesson, number):
    """The values of the line at which a guided stop is, as the panel shows them."""
    data = recorded(lesson)
    step = data.steps[data.stops[number]["step"]]
    return {name: unpack(data.tensors[n]) for name, n in step["values"]}


class Comparison:
    """Another run, under another tracer: each step is held beside the live tensors."""

    def __init__(self, lesson):
        self.data = recorded(lesson)
        self.plan = read_plan(self.data.path.read_text(encoding="utf-8"))
        self.running, self.position, self.compared = {}, 0, set()
        play(lesson, self)

    def __call__(self, frame, event, result):
        code = frame.f_code
        if code.co_filename != str(self.data.path) or code.co_name in ("<listcomp>", "<genexpr>"):
            return None
        is_lambda = code.co_name == "<lambda>"
        if event == "call" and not is_lambda:
            function = self.plan.functions[code.co_firstlineno]
            self.compare(function.node.lineno, frame.f_locals)
        elif event == "line" and not is_lambda:
            statement = self.plan.statements.get(frame.f_lineno)
            if statement is not self.running.get(frame):
                self.finish(frame)
                self.running[frame] = statement
        elif event == "return" and is_lambda:
            self.compare(code.co_firstlineno, {**frame.f_locals, "returns": result})
        elif event == "return":
            self.finish(frame, returns=result)
        return self

    def finish(self, frame, **result):
        if statement := self.running.pop(frame, None):
            self.compare(statement.first, {**frame.f_locals, **result})

    def compare(self, line, names):
        """With the next step, if that is at this line: the end of a loop has none."""
        steps = self.data.steps[self.position : self.position + 1]
        for step in steps if steps and steps[0]["line"] == line else ():
            self.position += 1
            for name, number in step["values"]:
                self.compared.add(number)
                packed, exact = self.data.tensors[number], found(names, name).detach().double()
                shown = unpack(packed).double()
                level = (packed["high"] - packed["low"]) / LEVELS if "low" in packed else 0
                finite = exact.isfinite()
                assert shown.shape == exact.shape
                torch.testing.assert_close(shown[~finite], exact[~finite], equal_nan=True)
                errors = (shown - exact)[finite].abs()
                assert (errors <= level / 2 * (1 + 1e-9) + 1e-12).all(), (line, name)


def found(names, path):
    """What a path such as ``returns.1.keys`` is."""
    first, *others = path.split(".")
    value = names[first]
    for part in others:
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


@pytest.mark.parametrize("lesson", RUNS)
def test_each_value_of_each_step_is_that_of_another_run_to_half_a_level(lesson):
    comparison = Comparison(lesson)
    assert comparison.position == len(comparison.data.steps)
    assert comparison.compared == set(range(len(comparison.data.tensors)))


@pytest.mark.parametrize("lesson", RUNS)
def test_exactly_the_lines_that_ran_have_steps(lesson):
    data, ran = recorded(lesson), set()
    plan = read_plan(data.path.read_text(encoding="utf-8"))

    def trace(frame, event, _):
        if frame.f_code.co_filename != str(data.path):
            return None
        if event == "line":
            ran.add(frame.f_lineno)
        return trace

    play(lesson, trace)
    shown = {line for step in data.steps for line in range(step["line"], step["last"] + 1)}
    assert ran <= shown
    statements = {plan.statements[line].first for line in ran if line in plan.statements}
    stepped = {step["line"] for step in data.steps if step["event"] != "call"}
    # A lambda is a part of a statement, and has steps of its own. From Python 3.12 on, a line with
    # nothing but `if (` does not run; its statement does, and is one step.
    assert statements <= stepped <= statements | ran


@pytest.mark.parametrize("lesson", RUNS)
def test_it_is_small_and_has_three_to_eight_named_stops(lesson):
    data = recorded(lesson)
    assert 3 <= len(data.stops) <= 8
    stops = [one["step"] for one in data.stops]
    assert stops == sorted(set(stops))
    names = [one["name"] for one in data.stops]
    assert len(set(names)) == len(names)
    assert all("`" not in name and len(name) <= 16 for name in names)
    assert sum(len(tensor["data"]) for tensor in data.tensors) < 150_000


def test_stops_of_attention():
    queries, _, _, raw, scaled, masked, weights, result = (stop("mha", n) for n in range(8))
    assert queries["returns"].shape == (14, 1, 4, 22)
    half = 55 / LEVELS
    torch.testing.assert_close(raw["scores"] / 22**0.5, scaled["scores"], rtol=0, atol=half)
    later = torch.ones(14, 14, dtype=torch.bool).triu(1)
    hidden = masked["scores"].squeeze(2).permute(2, 0, 1)
    assert hidden.isneginf().equal(later.expand(4, 14, 14))
    rows = weights["attn"].sum(1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=14 / LEVELS / 2)
    assert (weights["attn"][0, 0] == 1).all() and (weights["attn"][0, 1:] == 0).all()
    assert result["returns"].shape == (14, 1, 4, 22)


def test_stops_of_the_example_of_attention():
    queries, keys, values, raw, scaled, weights, result = (stop("mha 0", n) for n in range(7))
    tired = [made["returns"][2].flatten().tolist() for made in (queries, keys, values, result)]
    assert tired[:3] == [[2, 2, 0, 0], [-1, 1, 0, 1], [10, 10]]
    assert raw["scores"][2].flatten().tolist() == [4, 2, 0]
    assert scaled["scores"][2].flatten().tolist() == [2, 1, 0]
    assert weights["attn"][2].flatten().tolist() == pytest.approx([0.665, 0.245, 0.090], abs=5e-4)
    assert tired[3] == pytest.approx([7.55, 3.35], abs=0.01)


def test_stops_of_the_example_of_the_encoder():
    words, attended, added, weights, fed, memory = (stop("encoder_decoder 0", n) for n in range(6))
    assert words["embedded"][0].flatten().tolist() == [1, -1, 1, -1]
    assert attended["returns"][0].flatten().tolist() == pytest.approx([0, 1.702, 0, 0], abs=5e-4)
    assert added["added"][0].flatten().tolist() == pytest.approx([1, 0.702, 1, -1], abs=5e-4)
    shares = weights["attend.attn"][0].flatten().tolist()
    assert shares == pytest.approx([0.117, 0.867, 0.016], abs=5e-4)
    assert fed["added"][0].flatten().tolist() == pytest.approx([1.71, 0.702, 1, -1], abs=5e-3)
    assert memory["encoded"].mean(-1).abs().max() < 1e-5


def test_stops_of_a_decoder_layer():
    attended, looked, crossed, _ = (stop("encoder_decoder", n) for n in range(4))
    assert attended["attend.attn"].shape == (8, 8, 1, 4)
    assert "returns" in looked
    weights = crossed["look.attn"]
    assert weights.shape == (8, 11, 1, 4)
    rows = weights.sum(1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=11 / LEVELS / 2)


def test_stops_of_the_positional_encoding():
    frequencies, angles, table, rows, added = (stop("positional_encoding", n) for n in range(5))
    torch.testing.assert_close(
        frequencies["frequencies"], torch.tensor([1.0, 0.01]).double(), rtol=0, atol=2e-3
    )
    expected = torch.outer(torch.arange(3.0), torch.tensor([1, 0.01])).double()
    torch.testing.assert_close(angles["angles"], expected, rtol=0, atol=5e-3)
    second = torch.tensor([0.84, 0.54, 0.01, 1.00]).double()
    torch.testing.assert_close(table["encodings"][1], second, rtol=0, atol=0.012)
    assert rows["encodings"].shape == (13, 1, 88) == added["encoded"].shape


def test_stops_of_the_example_of_elman():
    one_hot, x, *states, logits = (stop("elman 0", n) for n in range(7))
    assert one_hot["e"][:, 0].argmax(-1).tolist() == [0, 1, 2, 2]
    assert x["x"][:, 0].tolist() == [[0, -1], [0, 0], [0, 2], [0, 2]]
    expected = [[0, -0.76], [-0.91, 0], [0, 0.96], [0.96, 0.96]]
    for made, state in zip(states, expected, strict=True):
        assert made["new"].flatten().tolist() == pytest.approx(state, abs=5e-3)
    assert logits["logits"][:, 0].argmax(-1).tolist() == [1, 2, 2, 3]


def test_stops_of_the_elman_network():
    zero, first, third, fourth, logits = (stop("elman", n) for n in range(5))
    assert zero["h"].abs().max() == 0 and first["new"].abs().max() > 0.5
    assert (third["new"] - fourth["new"]).abs().max() > 0.3
    best = logits["logits"][:, 0].argmax(1)
    letters = recorded("elman").texts["V"]
    assert len(letters) == 65 and (letters[best[0]], letters[best[2]]) == ("e", "l")


def test_stops_of_the_lstm_that_counts():
    first, second, letter, last, end = (stop("lstm", n) for n in range(5))
    kept = [one["c"].item() for one in (first, second, letter, last)]
    assert kept == pytest.approx([1, 2, 2, 0], abs=0.01)
    assert end["returns.0"].flatten().tolist() == pytest.approx(
        [0, 0.76, 0.76, 0.96, 0.96, 0.76, 0], abs=0.01
    )


def test_stops_of_the_two_cells_with_one_gate_each():
    letter, candidates, first, second, end = (stop("gru", n) for n in range(5))
    assert letter["z"].flatten().tolist() == pytest.approx([1, 1], abs=0.01)
    assert first["returns"].flatten().tolist() == pytest.approx([1, 0.5], abs=0.01)
    assert second["returns"].flatten().tolist() == pytest.approx([-1, 0.75], abs=0.01)
    assert candidates["g"].flatten().tolist() == pytest.approx([1, 1], abs=0.01)
    opened, counted = end["returns.0"][:, 0].t().tolist()
    assert opened == pytest.approx([-1, -1, 1, 1, -1, -1, 1], abs=0.01)
    assert counted == pytest.approx([0, 0, 0.5, 0.5, 0.75, 0.75, 0.875], abs=0.01)


def test_stops_of_the_memory_that_is_corrected():
    error, row, last, overlaps, written = (stop("delta_net", n) for n in range(5))
    assert error["error"].flatten().tolist() == pytest.approx([-2, 0], abs=0.05)
    assert row["memory"].flatten().tolist() == pytest.approx([1, 1, 2, 4], abs=0.05)
    assert last["memory"].flatten().tolist() == pytest.approx([2.68, -1.28, 4.24, 0.96], abs=0.05)
    assert overlaps["overlaps"][0, 0].tril(-1)[3].tolist() == pytest.approx(
        [0.6, 0.8, 0.6, 0], abs=0.01
    )
    torch.testing.assert_close(
        written["written"][0, 0],
        torch.tensor([[3, 1], [2, 4], [-2, 0], [2.8, -3.8]]).double(),
        rtol=0,
        atol=0.05,
    )


def test_stops_of_the_memory_that_a_night_empties():
    ann, night, ben, end = (stop("mamba2", n) for n in range(4))
    assert ann["h"].flatten().tolist() == pytest.approx([3, 1, 0, 0], abs=0.01)
    assert night["h"].flatten().tolist() == pytest.approx([0.15, 0.05, 0, 0], abs=0.01)
    assert ben["h"].flatten().tolist() == pytest.approx([0.14, 0.05, 2, 4], abs=0.01)
    assert end["returns.0"].flatten().tolist() == pytest.approx(
        [3, 1, 0.15, 0.05, 0.14, 0.05], abs=0.01
    )


def test_stops_of_the_memory_by_hand():
    *written, asked = (stop("linear_attention", n) for n in range(4))
    memories = [[[3, 1], [0, 0]], [[3, 1], [2, 4]], [[6, 1], [6, 4]]]
    for shown, memory in zip(written, memories, strict=True):
        expected = torch.tensor(memory).double()
        torch.testing.assert_close(shown["memory"][0, 0], expected, rtol=0, atol=6 / LEVELS)
    found = torch.tensor([6.0, 1.0]).double()
    torch.testing.assert_close(asked["found.3"].flatten(), found, rtol=0, atol=6 / LEVELS)


def test_stops_of_the_example_of_feedback():
    shares, vector, slot, match, scores, weights, average = (
        stop("feedback 0", n) for n in range(7)
    )
    assert shares["shares"].tolist() == pytest.approx([0.05, 0.05, 0.9], abs=1e-6)
    data = recorded("feedback 0")
    (_, number), *_ = data.steps[data.stops[0]["step"]]["values"]
    assert data.tensors[number]["along"] == ["levels"]
    assert vector["vector"].flatten().tolist() == pytest.approx([7, 0], abs=1e-5)
    assert slot["memory.values"][:, 0].flatten().tolist() == pytest.approx([3, 0, 0, 5, 7, 0])
    assert match["content"].flatten().tolist() == [4, 0, 4]
    assert scores["returns"].flatten().tolist() == [0, -2, 4]
    assert weights["self.attn"].sum().item() == pytest.approx(1, abs=1e-6)
    assert average["heads"].flatten().tolist() == pytest.approx([6.686, 0.067], abs=5e-4)


def test_stops_of_the_feedback_memory():
    data = recorded("feedback")
    shares, empty, slot, one, four = (stop("feedback", n) for n in range(5))
    assert shares["shares"].sum().item() == pytest.approx(1, abs=0.01)
    assert empty == {} and slot["memory.keys"].shape == (1, 1, 4, 24)
    assert (one["self.attn"] == 1).all()
    step = data.steps[data.stops[3]["step"]]
    assert step["stack"][-1] == "FeedbackAttention.forward"
    assert four["self.attn"].shape == (4, 1, 4)
    sums = four["self.attn"].sum(0)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=4 / LEVELS / 2)
