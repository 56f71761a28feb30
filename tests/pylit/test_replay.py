"""Replays: the steps of a run, the values of its tensors, and the file that a page asks for."""

import ast
import json
import re
import sys
from pathlib import Path
from textwrap import dedent

import torch
from hypothesis import given
from hypothesis import strategies as st
from shape_tools import HEAD, unpack
from site_tools import build, edit, make_site, read, succeed

from pylit.diagnostics import Report
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.recorder import (
    FEW,
    LEVELS,
    MAX_ELEMENTS,
    NOT_REAL,
    TOO_LARGE,
    Recorder,
    pack,
)
from pylit.runs.shapes.replay import read_replay


def record(code, call):
    """The steps of a call, each with its line's code, its event and its values by name."""
    text = HEAD + dedent(code)
    names = {"__name__": "m"}
    exec(compile(text, "m.py", "exec"), names)
    recorder = Recorder(read_plan(text), lambda name: name == "m.py")
    sys.settrace(recorder)
    try:
        eval(call, names)
    finally:
        sys.settrace(None)
    found, lines = json.loads(json.dumps(recorder.recorded())), text.split("\n")
    for step in found["steps"]:
        step["code"] = lines[step["line"] - 1].strip()
        step["values"] = {
            ".".join(filter(None, (name or "returns", path))): number
            if number < 0
            else unpack(found["tensors"][number]).tolist()
            for _, _, name, path, number in step["values"]
        }
    return found["steps"]


def told(steps):
    return [(step["code"], step["event"], step["values"]) for step in steps]


def test_each_line_that_ran_is_a_step_after_what_it_called():
    steps = record(
        """
        def double(x):
            return 2 * x


        def work(x, way):
            if way:
                y = double(
                    x
                )
            else:
                y = x
            return y
        """,
        "work(torch.tensor([1, 2]), True)",
    )
    assert told(steps) == [
        ("def work(x, way):", "call", {"x": [1, 2]}),
        ("if way:", "line", {}),
        ("def double(x):", "call", {"x": [1, 2]}),
        ("return 2 * x", "return", {"returns": [2, 4]}),
        ("y = double(", "line", {"y": [2, 4]}),
        ("return y", "return", {"returns": [2, 4]}),
    ]
    assert [step["stack"] for step in steps[1:4]] == [
        ["work"],
        ["work", "double"],
        ["work", "double"],
    ]


def test_loops_say_which_turn_of_how_many():
    steps = record(
        """
        def work(x):
            total = torch.zeros(())
            for t, row in enumerate(x):
                for one in row:
                    if one < 0:
                        break
                    total = total + one
            for never in ():
                pass
            return total
        """,
        "work(torch.tensor([[1.0, 2.0], [4.0, -1.0], [3.0, 5.0]]))",
    )
    added = [step for step in steps if step["code"] == "total = total + one"]
    assert [step["loop"] for step in added] == [
        [["t, row", 1, 3], ["one", 1, 2]],
        [["t, row", 1, 3], ["one", 2, 2]],
        [["t, row", 2, 3], ["one", 1, 2]],
        [["t, row", 3, 3], ["one", 1, 2]],
        [["t, row", 3, 3], ["one", 2, 2]],
    ]
    assert [step["before"] == {} for step in added] == [False] * 5
    assert [step["values"]["row"] for step in steps if "row" in step["values"]] == [
        [1, 2],
        [4, -1],
        [3, 5],
    ]
    assert [step["event"] for step in steps if step["code"].startswith("for never")] == ["line"]


def test_attributes_changes_in_place_and_what_modules_keep():
    steps = record(
        """
        class Inner(nn.Module):
            def forward(self, x):
                self.seen = x + 1
                return x


        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                self.kept = x
                x.add_(10)
                x[0] = 0
                apply = lambda z: self.inner(z)
                return apply(x)


        outer = Outer()
        """,
        "outer(torch.tensor([1, 2]))",
    )
    values = {step["code"]: step["values"] for step in steps if step["event"] != "call"}
    assert values["self.kept = x"] == {"self.kept": [1, 2]}
    assert values["x.add_(10)"] == {"x": [11, 12]}
    assert values["x[0] = 0"] == {"x": [0, 12]}
    assert values["self.seen = x + 1"] == {"self.seen": [1, 13]}
    assert values["return apply(x)"] == {"returns": [0, 12]}
    lambdas = [step["values"] for step in steps if step["stack"][-1] == "lambda"]
    assert lambdas == [{"returns": [0, 12]}]


def test_what_a_module_keeps_of_its_call_is_a_value_of_the_line_that_called_it():
    steps = record(
        """
        class Kept(nn.Module):
            def forward(self, x):
                self.seen = x + 1
                return x


        def work(kept, x):
            for _ in range(2):
                x = kept(x)
            return kept, x
        """,
        "work(Kept(), torch.tensor([1, 2]))",
    )
    values = [step["values"] for step in steps if step["code"] == "x = kept(x)"]
    assert values == [{"x": [1, 2], "kept.seen": [2, 3]}] * 2
    assert "kept.seen" not in steps[-1]["values"]


def test_a_line_that_raises_is_a_step_that_made_nothing():
    steps = record(
        """
        def fail(x):
            y = x.view(7)
            return y


        def work(x):
            try:
                x = fail(x)
            except RuntimeError:
                x = -x
            return x
        """,
        "work(torch.tensor([1, 2]))",
    )
    assert ("y = x.view(7)", "line", {}) in told(steps)
    assert ("x = fail(x)", "line", {}) in told(steps)
    assert told(steps)[-1] == ("return x", "return", {"returns": [-1, -2]})
    assert not [step for step in steps if step["code"] == "return y"]


def test_values_within_values_and_none_too_large():
    steps = record(
        f"""
        from dataclasses import dataclass


        @dataclass
        class Pair:
            keys: Tensor
            values: Tensor


        def work(x):
            pair = Pair(x, -x)
            several = [x, (x + 1, "text")]
            large = torch.zeros({MAX_ELEMENTS + 1})
            odd = torch.tensor([1j])
            nested = torch.nested.as_nested_tensor([x], layout=torch.jagged)
            return pair
        """,
        "work(torch.tensor([3]))",
    )
    values = {step["code"]: step["values"] for step in steps}
    assert values["pair = Pair(x, -x)"] == {"pair.keys": [3], "pair.values": [-3]}
    assert values['several = [x, (x + 1, "text")]'] == {"several.0": [3], "several.1.0": [4]}
    assert [*values.values()][3] == {"large": TOO_LARGE}
    assert values["odd = torch.tensor([1j])"] == {"odd": NOT_REAL}
    assert values["nested = torch.nested.as_nested_tensor([x], layout=torch.jagged)"] == {}
    assert values["return pair"] == {"returns.keys": [3], "returns.values": [-3]}


def test_a_generator_has_a_step_for_each_value_that_it_yields():
    steps = record(
        """
        def rows(x):
            for row in x:
                sent = yield row


        def work(x):
            for row in rows(x):
                y = row + 1
            return y
        """,
        "work(torch.tensor([[1], [2]]))",
    )
    turn = ["for row in x:", "sent = yield row", "for row in rows(x):", "y = row + 1"]
    codes = [step["code"] for step in steps if step["event"] != "call"]
    assert codes == [*turn, "sent = yield row", *turn, "sent = yield row", "return y"]
    yielded = [step for step in steps if step["event"] == "yield"]
    assert [step["values"] for step in yielded] == [{"returns": [1]}, {"returns": [2]}]
    assert [step["stack"] for step in yielded] == [["work", "rows"]] * 2


@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.booleans())
def test_numbers_are_right_to_half_a_level(numbers, are_many):
    numbers *= 1 + FEW * are_many
    packed = pack(torch.tensor(numbers))
    found, exact = unpack(packed), torch.tensor(numbers, dtype=torch.float64)
    finite = exact.isfinite()
    assert found.isnan().equal(exact.isnan())
    assert found[~finite & ~exact.isnan()].equal(exact[~finite & ~exact.isnan()])
    assert isinstance(packed["data"], str) == are_many
    half = (packed["high"] - packed["low"]) / LEVELS / (2 if are_many else 100)
    assert ((found - exact)[finite].abs() <= half * (1 + 1e-9) + 1e-300).all()


def test_kinds():
    assert pack(torch.tensor(True))["kind"] == "bool"
    assert pack(torch.tensor([[2**40, -3]]))["data"] == [2**40, -3]
    weights = torch.rand(3, 5, 2).softmax(1)
    assert pack(weights)["kind"] == "weights" and pack(weights)["one"] == 1
    # All of so many may be nearer to zero than to the first level.
    assert pack(torch.full((2, 1000), 1 / 1000))["kind"] == "real"
    assert pack(weights.masked_fill(torch.arange(3)[:, None, None] == 1, 0.0))["kind"] == "weights"
    # Where nothing sums to one, small numbers are no weights.
    assert pack(torch.full((3, 2), 1e-5))["kind"] == "real"
    assert pack(weights + 0.01)["kind"] == "real" == pack(torch.zeros(3, 5))["kind"]
    assert pack(torch.empty(2, device="meta")) is None
    assert pack(torch.empty(0, 3))["data"] == []


WORK = '''\
"""
---
title: Work
---

Sums.
"""

import numpy as np


def total(x):
    """One sum for each column."""
    scaled = x * 2.0
    kept = scaled.sum(axis=0)
    return kept
'''
RUNS = '''\
import numpy as np

from pkg.work import total


def trace_total(T, C):
    total(np.ones((T, C), dtype=np.float32))


def replay_total():
    """Two words

    They have *three* features each.

    * `x * 2.0`: Twice as large.
    * `return`: The `sum` of each column.
    """
    total(np.zeros((4, 3), dtype=np.float32))
    yield {"T": ["two", "words"]}
    total(np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32))
'''
SITE = {
    "docs_src/traces/axes.toml": "",
    "docs_src/traces/pkg/work.py": RUNS,
    "pkg/work.py": WORK,
}


def replays(root):
    """What the page of `WORK` gets of each of its replays."""
    found = re.findall(r"pylitReplay\((.*)\);\n", read(root, "replays/pkg/work.js"))
    return [json.loads(one) for one in found]


def test_a_page_names_the_file_of_its_replays_which_come_in_their_order(
    tmp_path: Path, started: list[list[str]]
):
    second = RUNS[RUNS.index("def replay_total") :].replace("replay_total", "replay_again")
    second = second.replace("Two words", "Once more").replace("* `return`:", "* Sum, `return`:")
    succeed(make_site(tmp_path, SITE | {"docs_src/traces/pkg/work.py": f"{RUNS}\n\n{second}"}))
    data, other = replays(tmp_path)
    assert (data["title"], data["texts"]) == ("Two words", {"T": ["two", "words"]})
    assert data["text"] == "<p>They have <em>three</em> features each.</p>"
    lines = WORK.split("\n")
    codes = [lines[step["line"] - 1].strip() for step in data["steps"]]
    assert codes == [
        "def total(x):",
        "scaled = x * 2.0",
        "kept = scaled.sum(axis=0)",
        "return kept",
    ]
    scaled = data["tensors"][data["steps"][1]["values"][0][1]]
    assert (scaled["axes"], scaled["along"]) == (["T", "C"], ["T", ""])
    exact = torch.tensor([[2.0, 4, 6], [8, 10, 12]], dtype=torch.float64)
    torch.testing.assert_close(unpack(scaled), exact, rtol=0, atol=10 / LEVELS / 2)
    assert [stop["step"] for stop in data["stops"]] == [1, 3]
    assert data["stops"][1]["note"] == "<p>The <code>sum</code> of each column.</p>"
    # A stop without a name is called by its code.
    assert (data["stops"][1]["name"], other["stops"][1]["name"]) == ("return", "Sum")
    assert 'data-replay="../replays/pkg/work.js"' in read(tmp_path, "pkg/work.html")
    assert "data-replay" not in read(tmp_path, "pkg/one.html")
    # An edited note records nothing, and moves the steps.
    started.clear()
    edit(tmp_path, "pkg/work.py", "Sums.", "Sums.\n\nOf columns.")
    succeed(tmp_path)
    moved, _ = replays(tmp_path)
    assert [s["line"] - 2 for s in moved["steps"]] == [s["line"] for s in data["steps"]]
    assert not any(started)
    edit(tmp_path, "docs_src/traces/pkg/work.py", "Twice", "Now twice")
    succeed(tmp_path)
    assert "Now twice as large." in replays(tmp_path)[0]["stops"][0]["note"]


def test_axes_have_the_letters_that_suit_the_texts(tmp_path: Path):
    """A function that was traced with S and with T rows is replayed with those of T."""
    work = """
    import numpy as np


    def total(x):
        kept = np.full(
            (2, 5),
            1.5,
        )
        return x
    """
    runs = """
    import numpy as np

    from pkg.work import total


    def trace_total(S, T, C):
        for rows in (S, T):
            total(np.ones((rows, C)))


    def replay_total():
        \"\"\"Two words\"\"\"
        yield {"S": ["a", "b", "c"], "T": ["two", "words"], "H": "12345"}
        total(np.zeros((2, 3)))
    """
    files = {"pkg/work.py": dedent(work), "docs_src/traces/pkg/work.py": dedent(runs)}
    succeed(make_site(tmp_path, SITE | files))
    (data,) = replays(tmp_path)
    by_name = {name: data["tensors"][i] for step in data["steps"] for name, i in step["values"]}
    assert (by_name["returns"]["axes"], by_name["returns"]["along"]) == (["T", "C"], ["T", ""])
    assert (by_name["kept"]["axes"], by_name["kept"]["along"]) == (["T", "H"], ["T", "H"])
    # To the last parenthesis.
    assert [(step["line"], step["last"]) for step in data["steps"]] == [(5, 5), (6, 9), (10, 10)]


def test_memory_that_was_never_written_is_not_a_number(tmp_path: Path):
    code = """
    import torch


    def total(x):
        kept = torch.empty(300)
        kept[0] = 1
        return kept
    """
    runs = RUNS.replace("scaled", "kept").replace("`x * 2.0`", "`torch.empty`")
    files = {"pkg/work.py": dedent(code), "docs_src/traces/pkg/work.py": runs}
    succeed(make_site(tmp_path, SITE | files))
    (data,) = replays(tmp_path)
    made, written = (data["steps"][n]["values"][0][1] for n in (1, 2))
    assert unpack(data["tensors"][made]).isnan().all()
    found = unpack(data["tensors"][written])
    assert found[0] == 1 and found[1:].isnan().all()


FAULTS = [
    ("`x * 2.0`", "`x * 3.0`", 10, r"0 steps at a line with `x \* 3.0`"),
    ("`return`:", "`return` (2):", 10, "1 steps at a line with `return`, .* for step 2"),
    ("* `return`:", "* return:", 10, "a stop without its code"),
    ('yield {"T": ["two", "words"]}', "print()", 10, "must `yield` once"),
    ("def replay_total()", "def replay_total(T)", 10, "takes no arguments"),
    ('{"T": ["two", "words"]}', "[]", 10, r"yields \[\], and not the texts"),
    ('["two", "words"]', "2", 10, "yields 2 for the axis `T`, and not a list"),
    ("    yield {", "    raise ValueError('no text')\n    yield {", 19, "no text"),
]


def test_faults_have_their_place(tmp_path: Path):
    files = {}
    for number, (old, new, *_) in enumerate(FAULTS):
        assert old in RUNS
        runs = RUNS.replace(old, new, 1).replace("pkg.work", f"pkg.work{number}")
        files |= {f"docs_src/traces/pkg/work{number}.py": runs, f"pkg/work{number}.py": WORK}
    report = build(make_site(tmp_path, files)).report
    for number, (_, _, line, said) in enumerate(FAULTS):
        here = [d for d in report if d.path == f"docs_src/traces/pkg/work{number}.py"]
        assert any(d.line == line and re.search(said, str(d)) for d in here), (said, here)


def test_a_replay_without_a_title_is_refused():
    node = ast.parse("def replay_it():\n    yield {}").body[0]
    report = Report()
    assert read_replay(node, "traces/m.py", report) is None
    assert "needs a docstring" in str(next(iter(report)))
