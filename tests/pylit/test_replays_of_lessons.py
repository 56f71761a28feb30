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
    torch.set_deterministic_debug_mode("warn")
    with kernels.disabled(), ExitStack() as end:
        end.callback(torch.set_deterministic_debug_mode, "default")
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
    assert queries["returns"].shape == result["returns"].shape == (14, 1, 4, 22)
    half = 55 / LEVELS
    torch.testing.assert_close(raw["scores"] / 22**0.5, scaled["scores"], rtol=0, atol=half)
    later = torch.ones(14, 14, dtype=torch.bool).triu(1)
    hidden = masked["scores"].squeeze(2).permute(2, 0, 1)
    assert hidden.isneginf().equal(later.expand(4, 14, 14))
    assert (weights["attn"][0, 0] == 1).all() and (weights["attn"][0, 1:] == 0).all()


@pytest.mark.parametrize(
    ("lesson", "number", "name", "axis", "shape"),
    [
        ("mha", 6, "attn", 1, (14, 14, 1, 4)),
        ("encoder_decoder", 2, "look.attn", 1, (8, 11, 1, 4)),
        ("feedback", 4, "self.attn", 0, (4, 1, 4)),
    ],
)
def test_weights_of_a_stop_sum_to_one(lesson, number, name, axis, shape):
    weights = stop(lesson, number)[name]
    sums = weights.sum(axis)
    assert weights.shape == shape
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=shape[axis] / LEVELS / 2)


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


@pytest.mark.parametrize("lesson", SAID)
def test_a_stop_shows_the_numbers_of_its_note(lesson):
    for number, name, part, expected, error in SAID[lesson]:
        shown = stop(lesson, number)[name][part].flatten().tolist()
        assert shown == pytest.approx(expected, rel=0, abs=error), (number, name)


def test_letters_of_the_elman_networks():
    one_hot, logits = stop("elman 0", 0)["e"], stop("elman 0", 6)["logits"]
    assert one_hot[:, 0].argmax(-1).tolist() == [0, 1, 2, 2]
    assert logits[:, 0].argmax(-1).tolist() == [1, 2, 2, 3]
    zero, first, third, fourth, logits = (stop("elman", n) for n in range(5))
    assert zero["h"].abs().max() == 0 and first["new"].abs().max() > 0.5
    assert (third["new"] - fourth["new"]).abs().max() > 0.3
    best = logits["logits"][:, 0].argmax(1)
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
