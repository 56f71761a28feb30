"""Replays: the steps of a run, the values of its tensors, and the file that a page asks for."""

import ast
import json
import re
import sys
from textwrap import dedent

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pylit_sources import golden_cases
from shape_tools import HEAD, unpack
from site_tools import build, edit, make_site, read, succeed

from pylit.diagnostics import Report
from pylit.runs.shapes.plan import read_plan
from pylit.runs.shapes.recorder import FEW, LEVELS, Recorder, pack
from pylit.runs.shapes.replay import read_replay


def shown(step, lines, tensors):
    """A step in a line: its event, the functions that run, its code and the values."""
    loops = "".join(f" ({name}: {turn} of {count})" for name, turn, count in step["loop"] or ())
    values = "".join(
        f"  {'.'.join(filter(None, (name or 'returns', path)))} "
        f"{number if number < 0 else unpack(tensors[number]).tolist()}"
        for _, _, name, path, number in step["values"]
    )
    code = lines[step["line"] - 1].strip()
    return f"{step['event']:6} {' > '.join(step['stack'])}: {code}{loops}{values}"


@pytest.mark.parametrize(("text", "expected"), golden_cases("replay"))
def test_steps_of_a_call(text, expected):
    """The last line of the text is the call."""
    code, _, call = (HEAD + text.rstrip()).rpartition("\n")
    names = {"__name__": "m"}
    exec(compile(code, "m.py", "exec"), names)
    recorder = Recorder(read_plan(code), lambda name: name == "m.py")
    sys.settrace(recorder)
    try:
        eval(call, names)
    finally:
        sys.settrace(None)
    found, lines = json.loads(json.dumps(recorder.recorded())), code.split("\n")
    steps = [shown(step, lines, found["tensors"]) for step in found["steps"]]
    assert steps == expected.splitlines(), "\n".join(steps)


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
AXES, TRACES = "docs_src/traces/axes.toml", "docs_src/traces/pkg/work.py"
SITE = {AXES: "", TRACES: RUNS, "pkg/work.py": WORK}


def replays(root):
    """What the page of `WORK` gets of each of its replays."""
    found = re.findall(r"pylitReplay\((.*)\);\n", read(root, "replays/pkg/work.js"))
    return [json.loads(one) for one in found]


def test_a_page_names_the_file_of_its_replays_which_come_in_their_order(tmp_path, started):
    second = RUNS[RUNS.index("def replay_total") :].replace("replay_total", "replay_again")
    second = second.replace("Two words", "Once more").replace("* `return`:", "* Sum, `return`:")
    succeed(make_site(tmp_path, SITE | {TRACES: f"{RUNS}\n\n{second}"}))
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
    edit(tmp_path, TRACES, "Twice", "Now twice")
    succeed(tmp_path)
    assert "Now twice as large." in replays(tmp_path)[0]["stops"][0]["note"]


def test_axes_have_the_letters_that_suit_the_texts(tmp_path):
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
    succeed(make_site(tmp_path, SITE | {"pkg/work.py": dedent(work), TRACES: dedent(runs)}))
    (data,) = replays(tmp_path)
    by_name = {name: data["tensors"][i] for step in data["steps"] for name, i in step["values"]}
    assert (by_name["returns"]["axes"], by_name["returns"]["along"]) == (["T", "C"], ["T", ""])
    assert (by_name["kept"]["axes"], by_name["kept"]["along"]) == (["T", "H"], ["T", "H"])
    # To the last parenthesis.
    assert [(step["line"], step["last"]) for step in data["steps"]] == [(4, 4), (5, 8), (9, 9)]


def test_memory_that_was_never_written_is_not_a_number(tmp_path):
    body = "    kept = torch.empty(300)\n    kept[0] = 1\n    return kept\n"
    code = f"import torch\n\ndef total(x):\n{body}"
    runs = RUNS.replace("scaled", "kept").replace("`x * 2.0`", "`torch.empty`")
    succeed(make_site(tmp_path, SITE | {"pkg/work.py": code, TRACES: runs}))
    (data,) = replays(tmp_path)
    made, found = (unpack(data["tensors"][data["steps"][n]["values"][0][1]]) for n in (1, 2))
    assert made.isnan().all() and found[0] == 1 and found[1:].isnan().all()


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


def test_faults_have_their_place(tmp_path):
    files = {}
    for number, (old, new, *_) in enumerate(FAULTS):
        assert old in RUNS
        runs = RUNS.replace(old, new, 1).replace("pkg.work", f"pkg.work{number}")
        files |= {f"docs_src/traces/pkg/work{number}.py": runs, f"pkg/work{number}.py": WORK}
    report = build(make_site(tmp_path, files)).report
    for number, (_, _, line, said) in enumerate(FAULTS):
        place = (f"docs_src/traces/pkg/work{number}.py", line)
        found = [str(d) for d in report if (d.path, d.line) == place]
        assert any(re.search(said, each) for each in found), (said, found)


def test_a_replay_without_a_title_is_refused():
    node = ast.parse("def replay_it():\n    yield {}").body[0]
    assert read_replay(node, "traces/m.py", report := Report()) is None
    assert "needs a docstring" in str(next(iter(report)))
