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
from torch.nn.modules.module import register_module_forward_hook

from labml_nn import kernels
from pylit.shapes.lines import Axes
from pylit.shapes.plan import read_plan
from pylit.shapes.recorder import LEVELS, Recorder
from pylit.shapes.replay import replay_script
from pylit.shapes.trace import read_traces

ROOT = Path(__file__).parents[2]
LESSONS = {
    "elman": "recurrent/elman/__init__.py",
    "feedback": "transformers/feedback/__init__.py",
    "mha": "transformers/mha.py",
    "models": "transformers/models.py",
    "positional_encoding": "transformers/positional_encoding.py",
}


class Keeping(Recorder):
    """A recorder that keeps the tensors themselves."""

    def __init__(self, plan, is_source):
        super().__init__(plan, is_source)
        self.kept = {}

    def _number(self, tensor):
        number = super()._number(tensor)
        if number is not None:
            self.kept.setdefault(number, tensor.detach().clone())
        return number


@cache
def traces(lesson):
    """The module of traces of a lesson, its replay, and the path of the lesson."""
    path = ROOT / "docs_src/traces/labml_nn" / LESSONS[lesson]
    spec = importlib.util.spec_from_file_location(f"traces_of_{lesson}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    functions, report = read_traces(path.read_text(encoding="utf-8"), path.name, Axes())
    assert not report
    (replay,) = (function.replay for function in functions if function.replay)
    return module, replay, ROOT / "labml_nn" / LESSONS[lesson]


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
    """The replay as a page gets it, and the tensors by their numbers."""
    _, replay, path = traces(lesson)
    text = path.read_text(encoding="utf-8")
    recorder = Keeping(read_plan(text), lambda name: name == str(path))
    answer = {"texts": play(lesson, recorder), **recorder.recorded()}
    lines = text.split("\n")
    now = {line: line for line in range(1, len(lines) + 1)}
    script, problems = replay_script(replay, json.loads(json.dumps(answer)), now, {}, lines)
    assert not problems
    data = json.loads(script.removeprefix("pylitReplay(").removesuffix(");\n"))
    return SimpleNamespace(**data, kept=recorder.kept, path=path)


def stop(lesson, number):
    """The values of the line at which a guided stop is, as the panel shows them."""
    data = recorded(lesson)
    step = data.steps[data.stops[number]["step"]]
    return {name: unpack(data.tensors[n]) for name, n in step["values"]}


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_value_is_right_to_half_a_level(lesson):
    data = recorded(lesson)
    assert len(data.kept) == len(data.tensors) > 10
    for number, packed in enumerate(data.tensors):
        shown, exact = unpack(packed), data.kept[number].double()
        assert shown.shape == exact.shape
        step = (packed["high"] - packed["low"]) / LEVELS if "low" in packed else 0
        finite = exact.isfinite()
        torch.testing.assert_close(shown[~finite].double(), exact[~finite], equal_nan=True)
        errors = (shown.double() - exact)[finite].abs()
        assert (errors <= step / 2 * (1 + 1e-9) + 1e-12).all()
        assert len(packed["data"]) < 60_000


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_modules_return_is_in_the_replay_in_order(lesson):
    """In a run without a recorder."""
    data = recorded(lesson)
    module = {"elman": "recurrent.elman", "feedback": "transformers.feedback"}
    name = f"labml_nn.{module.get(lesson, f'transformers.{lesson}')}"
    returned, started = [], []

    def keep(called, _, result):
        if type(called).__module__ == name and started:
            parts = result if isinstance(result, tuple) else (result,)
            returned.append([part.detach().double() for part in parts])

    handle = register_module_forward_hook(keep)
    try:
        play(lesson, lambda *_: started.append(1))
    finally:
        handle.remove()
    shown = [
        [unpack(data.tensors[number]).double() for _, number in step["values"]]
        for step in data.steps
        if step["event"] == "return" and step["stack"][-1].endswith(".forward")
    ]
    assert len(shown) == len(returned)
    for ours, theirs in zip(shown, returned, strict=True):
        for one, other in zip(ours, theirs, strict=False):
            step = (other.max() - other.min()).item() / LEVELS
            torch.testing.assert_close(one, other, rtol=0, atol=step / 2 + 1e-6)


@pytest.mark.parametrize("lesson", LESSONS)
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
    # A lambda is a part of a statement, and has steps of its own.
    assert statements <= stepped <= ran


@pytest.mark.parametrize("lesson", LESSONS)
def test_it_is_small_and_has_three_to_five_stops(lesson):
    data = recorded(lesson)
    assert 3 <= len(data.stops) <= 5
    stops = [one["step"] for one in data.stops]
    assert stops == sorted(set(stops))
    assert sum(len(tensor["data"]) for tensor in data.tensors) < 150_000


def test_stops_of_attention():
    queries, raw, scaled, masked, weights = (stop("mha", n) for n in range(5))
    assert queries["returns"].shape == (14, 1, 4, 22)
    half = 55 / LEVELS
    torch.testing.assert_close(raw["scores"] / 22**0.5, scaled["scores"], rtol=0, atol=half)
    later = torch.ones(14, 14, dtype=torch.bool).triu(1)
    hidden = masked["scores"].squeeze(2).permute(2, 0, 1)
    assert hidden.isneginf().equal(later.expand(4, 14, 14))
    rows = weights["attn"].sum(1)
    torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=14 / LEVELS / 2)
    assert (weights["attn"][0, 0] == 1).all() and (weights["attn"][0, 1:] == 0).all()


def test_stops_of_a_decoder_layer():
    attended, looked, crossed, _ = (stop("models", n) for n in range(4))
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


def test_stops_of_the_elman_network():
    zero, first, third, fourth, logits = (stop("elman", n) for n in range(5))
    assert zero["h"].abs().max() == 0 and first["new"].abs().max() > 0.5
    assert (third["new"] - fourth["new"]).abs().max() > 0.3
    best = logits["logits"][:, 0].argmax(1)
    letters = recorded("elman").texts["V"]
    assert len(letters) == 65 and (letters[best[0]], letters[best[2]]) == ("e", "l")


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
