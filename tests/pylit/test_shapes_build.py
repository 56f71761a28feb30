"""Runs in a whole build: the child process, its limits, what is kept, and what readers get."""

import re
from pathlib import Path

from shape_tools import plain
from site_tools import build, edit, make_site, read, succeed, tree

from pylit.runs import tasks as runs

AXES = 'lengths = ["T", "S"]\npage = "notes.html"\n\n[derived]\nC = "H*K"\n'
WORK = '''\
"""
---
title: Work
---

Sums.
"""

import numpy as np


def total(x):
    """
    * `x` has shape `[T, C]`
    """
    kept = x.sum(axis=0, dtype=np.float32)
    if kept is None:
        kept = 0
    return kept
'''
RUN = '''\
"""Runs."""

import numpy as np

from pkg.work import total


def trace_total(T, H, K, C):
    total(np.ones((T, C), dtype=np.float32))
'''
SITE = {
    "docs_src/traces/axes.toml": AXES,
    "docs_src/traces/pkg/work.py": RUN,
    "pkg/work.py": WORK,
}
CHIPS = ["x [T, C]", "kept [C]", "returns [C]"]


def chips(root: Path, page: str = "pkg/work.html") -> list[str]:
    return [plain(found) for found in re.findall(r"<samp[^>]*>(.*?)</samp>", read(root, page))]


def test_a_page_shows_what_its_run_made(tmp_path):
    succeed(make_site(tmp_path, SITE))
    assert chips(tmp_path) == CHIPS
    page = read(tmp_path, "pkg/work.html")
    assert page.count('class="n u"') == 1 and 'class="n u" id="L18"' in page
    assert 'id="shapes-button"' in page
    assert '<a href="../notes.html">What the letters mean</a>' in page
    other = read(tmp_path, "pkg/one.html")
    assert "<samp" not in other and "shapes-button" not in other and ' u"' not in other


def test_a_build_starts_a_child_for_what_has_changed_and_nothing_else(tmp_path, started):
    files = SITE | {
        "pkg/base.py": "def double(x):\n    return x + x\n",
        "pkg/more.py": "import pkg.base\n\n\ndef more(x):\n    return pkg.base.double(x)\n",
        "docs_src/traces/pkg/more.py": "import numpy as np\nfrom pkg.more import more\n\n\n"
        'def trace_it(T): more(np.ones(T, dtype="float32"))\n',
    }
    work, more = "pkg.work.trace_total", "pkg.more.trace_it"
    succeed(make_site(tmp_path, files))
    before = chips(tmp_path)
    assert started.pop() == [more, work]
    for name, old, new, again in (
        ("pkg/two.py", "Twice one", "Two times one", []),
        ("docs_src/pages/notes.md", "A page", "One page", []),
        # Notes of the module itself move what ran to other lines, and that is all.
        ("pkg/work.py", "Sums.", "Sums of rows.\n\nAll of them.", []),
        ("pkg/work.py", "    if kept", "    # Never.\n    if kept", []),
        ("pkg/work.py", "kept = 0", "kept = 1", [work]),
        ("pkg/base.py", "x + x", "2 * x", [more]),
        ("pkg/base.py", "def double", "LIMIT = 3\n\n\ndef double", [more]),
        # What is written about code is no part of what others run.
        ("pkg/base.py", "    return", '    """Twice."""\n\n    # Sum.\n    return', []),
        ("docs_src/traces/pkg/more.py", "np.ones(T,", "np.ones((T, 2),", [more]),
        ("docs_src/traces/axes.toml", "C =", "D =", [more, work]),
    ):
        edit(tmp_path, name, old, new)
        succeed(tmp_path)
        assert started == ([again] if again else []), (name, old)
        assert "Never" not in new or chips(tmp_path) == before
        started.clear()
    assert re.findall(r'class="n u" id="L(\d+)"', read(tmp_path, "pkg/work.html")) == ["21"]
    assert chips(tmp_path, "pkg/more.html") == ["x [T, 2]", "returns [T, 2]"]


BASE = """\
from functools import lru_cache

WIDTH = 2

def decorated(function):
    return function

@lru_cache
def called(x, n=1):
    def inner():
        return WIDTH * n
    return inner()

def never(x):
    return 3

class Base:
    size = 4

    @decorated
    def grow(self, x):
        return self.size * called(1)

    def shrink(self, x):
        return 1
"""
MORE = """\
import numpy as np
from pkg.base import Base, called

def more(x):
    return np.ones(called(1) + Base().grow(x), dtype="float32")

def less(x):
    return np.ones(called(1), dtype="float32")
"""


def test_a_function_that_changes_runs_what_has_called_it(tmp_path, started):
    """What it shows in the end is what a first build shows."""
    run = "import numpy as np\nfrom pkg import more\n\n\n"
    run += "".join(f"def trace_{n}(T):\n    more.{n}(np.ones(T))\n\n\n" for n in ("less", "more"))
    files = SITE | {"pkg/base.py": BASE, "pkg/more.py": MORE, "docs_src/traces/pkg/more.py": run}
    root = make_site(tmp_path / "one", files)
    succeed(root)
    both = ["pkg.more.trace_less", "pkg.more.trace_more"]
    for old, new, again in (
        ("return 3", "return 4", []),
        ("return 1\n", "return 2\n", []),
        ("return self.size * called(1)", "return called(1)", both[1:]),
        ("size = 4", "size = 5", both),
        ("WIDTH = 2", "WIDTH = 3", both),
        ("n=1", "n=2", both),
        ("WIDTH * n", "WIDTH + n", both),
        ("    return function", "    function.x = 1\n    return function", both),
        ("def never(x)", "def never(x, y)", both),
        ("    @decorated\n", "", both),
        ("import lru_cache", "import cache as lru_cache", both),
    ):
        edit(root, "pkg/base.py", old, new)
        started.clear()
        succeed(root)
        assert started == ([again] if again else []), (old, new)
    text = (root / "pkg/base.py").read_text()
    clean = make_site(tmp_path / "two", files | {"pkg/base.py": text})
    succeed(clean)
    assert read(root, "pkg/more.html") == read(clean, "pkg/more.html")


def test_what_is_saved_while_a_build_runs_is_not_kept_for_what_it_has_read(tmp_path, monkeypatch):
    root = make_site(tmp_path, SITE)
    begin = runs.Runs.begin

    def saved(*given, **more):
        edit(root, "pkg/work.py", "\ndef total", "# Added.\n\n\ndef total")
        return begin(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(runs.Runs, "begin", saved)
        build(root)
    succeed(root)
    assert chips(root) == CHIPS


def test_a_run_that_reads_notes_runs_again_when_they_change(tmp_path, started):
    asked = ["two.__doc__", "inspect.getdoc(two)", "getattr(two, '__doc__')"]
    asked += ["inspect.getsource(two)", "Path(two.__code__.co_filename).read_text()"]
    head = "import inspect\nfrom pathlib import Path\nimport numpy as np\nfrom pkg.two import two\n"
    files = SITE.copy()
    for i, asks in enumerate(asked):
        work = WORK.replace("    kept = x", f"    n = np.ones(len({asks}))\n    kept = x")
        files[f"pkg/work{i}.py"] = work.replace("import numpy as np\n", head)
        files[f"docs_src/traces/pkg/work{i}.py"] = RUN.replace("pkg.work", f"pkg.work{i}")
    pages = [f"pkg/work{i}.html" for i in range(len(asked))]
    succeed(make_site(tmp_path, files))
    before = [chips(tmp_path, page)[1] for page in pages]
    assert all(chip.startswith("n ") for chip in before)
    edit(tmp_path, "pkg/two.py", "Twice one", "Two times one")
    succeed(tmp_path)
    assert started[1:] == [[f"pkg.work{i}.trace_total" for i in range(len(asked))]]
    assert not any(old in chips(tmp_path, page) for old, page in zip(before, pages, strict=True))


#: A module, the code of its run, and what each of its runs says.
BROKEN = {
    "slow": (
        "def slow():\n    while True:\n        try:\n            pass\n"
        "        except Exception:\n            pass\n",
        "import numpy\nfrom pkg.slow import slow\ndef trace_a(T): slow()\ndef trace_b(T): slow()\n",
        dict.fromkeys((3, 4), ("trace-slow", "the run took more than 0.5 s of processor time")),
    ),
    "hungry": (
        "import numpy\ndef hungry(): return numpy.ones(300_000_000, dtype='int8')\n",
        "from pkg.hungry import hungry\ndef trace_it(T): hungry()\n",
        {2: ("trace-memory", "the run asked for more than 0.25 GiB of memory")},
    ),
    "failing": (
        'def fail(n):\n    raise ValueError(f"not {n},\\nnever")\n',
        "from pkg.failing import fail\ndef trace_it(T): fail(T)\n",
        {2: ("trace-failed", "the run failed: ValueError: not 5,, at pkg/failing.py:2")},
    ),
    "lost": (
        "x = 1\n",
        "import pkg.lost.more\ndef trace_it(T): ...\n",
        {1: ("trace-failed", "the run failed: ModuleNotFoundError: No module named"
             " 'pkg.lost.more'; 'pkg.lost' is not a package")},
    ),
}  # fmt: skip


def test_runs_that_fail_each_say_where_and_why(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SECONDS", 0.5)
    monkeypatch.setattr(runs, "MEMORY", 2**28)
    files, expected = {"docs_src/traces/axes.toml": AXES}, {}
    for name, (module, trace, said) in BROKEN.items():
        traces = f"docs_src/traces/pkg/{name}.py"
        files |= {f"pkg/{name}.py": module, traces: trace}
        expected |= {(traces, line): fault for line, fault in said.items()}
    outcome = build(make_site(tmp_path, files))
    assert {(d.path, d.line): (d.code, d.message) for d in outcome.report} == expected
    assert not (tmp_path / "site").exists()
    assert all("Traceback" not in str(d) for d in outcome.report)


def test_a_file_that_ends_the_process_costs_its_own_runs_only(tmp_path, started):
    ends = "import os\n\n\ndef trace_a(T): ...\n\n\ndef trace_b(T): ...\n\n\nos._exit(4)\n"
    # What reads standard input must not take the orders of the next build with it.
    reads = "import sys\n\n\ndef trace_c(T): assert not sys.stdin.read()\n"
    traces = {"one": ends, "two": reads}
    files = {f"docs_src/traces/pkg/{name}.py": text for name, text in traces.items()}
    outcome = build(make_site(tmp_path, SITE | files), jobs=2)
    message = "the run failed: the process ended with status 4"
    found = [(d.path.rpartition("/")[2], d.line, d.message) for d in outcome.report]
    assert found == [("one.py", 4, message), ("one.py", 7, message)]
    ran = [sorted({run.rpartition(".")[0] for run in order}) for order in started]
    everything = ["pkg.one", "pkg.two", "pkg.work"]
    assert ran == [everything, everything, ["pkg.two", "pkg.work"]]


def test_a_wrong_shape_in_a_note_keeps_the_site_as_it_was(tmp_path):
    succeed(make_site(tmp_path, SITE))
    before = tree(tmp_path / "site")
    edit(tmp_path, "pkg/work.py", "[T, C]", "[C, T]")
    for _ in range(2):  # a second build has not forgotten
        (fault,) = build(tmp_path).report
        assert (fault.path, fault.line, fault.column) == ("pkg/work.py", 14, 22)
        assert fault.message == (
            "`x` is said to be `[C, T]`; it was `[T, C]` "
            "at pkg/work.py:12, run by docs_src/traces/pkg/work.py:8"
        )
    assert tree(tmp_path / "site") == before
