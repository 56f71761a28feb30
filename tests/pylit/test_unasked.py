"""Code of a site's folder runs only if its reader says so, and sees little of the environment."""

import os
import subprocess
import sys
import time

import pytest
from site_tools import build, make_site, succeed

from pylit import cli

TRACE = """
import os
from pathlib import Path
import numpy as np
from pkg.work import total

def trace_total(T):
    Path({!r}).write_text(repr(sorted(os.environ)))
    total(np.ones(T))
"""
NOTE = '"""\n---\ntitle: Work\n---\n\nA sum.\n\n![One.](figure:some.drawn)\n"""\n'
WORK = "def total(x):\n    return x.sum()\n"
FIGURE = """
from pathlib import Path
from pylit.figures.draw import Figure, Panel

def drawn():
    Path({!r}).write_text("")
    return Figure([Panel(10, 10, ())], "Nothing.")
"""


@pytest.fixture
def site(tmp_path):
    """A site whose trace and figure leave a file each."""
    left = tmp_path / "left"
    left.mkdir()
    files = {
        "docs_src/traces/pkg/work.py": TRACE.format(str(left / "trace")),
        "docs_src/figures/some.py": FIGURE.format(str(left / "figure")),
        "pkg/work.py": NOTE + WORK,
    }
    return make_site(tmp_path, files), left


def page(root):
    return (root / "site/pkg/work.html").read_text(encoding="utf-8")


def test_nothing_runs_unasked(site):
    root, left = site
    outcome = build(root, run=False)
    assert not list(left.iterdir())
    (found,) = outcome.report
    assert found.code == "not-run" and "1 trace and 1 figure did not run" in found.message
    assert "--run" in found.hint and not outcome.report.failed
    assert "<samp" not in page(root) and "One." in page(root)


def test_what_an_earlier_build_has_recorded_is_shown(site):
    root, left = site
    succeed(root)
    assert {path.name for path in left.iterdir()} == {"trace", "figure"}
    before = page(root)
    for path in left.iterdir():
        path.unlink()
    (root / "site/pkg/work.html").unlink()
    assert not build(root, run=False).report
    assert page(root) == before and "<samp" in before
    assert not list(left.iterdir())
    # The trace of other code has not run.
    (root / "pkg/work.py").write_text(WORK.replace("sum()", "sum() + 1"), encoding="utf-8")
    (found,) = build(root, run=False).report
    assert found.code == "not-run" and found.message.startswith("1 trace did not")
    assert "<samp" not in page(root)


def test_a_run_sees_no_secrets(site, monkeypatch):
    root, left = site
    monkeypatch.setenv("CLOUD_TOKEN", "secret")
    succeed(root, worker=None)
    seen = (left / "trace").read_text(encoding="utf-8")
    assert "CLOUD_TOKEN" not in seen and "'PATH'" in seen and "'HOME'" in seen


@pytest.mark.parametrize(
    ("arguments", "home", "expected"),
    [(["build"], False, False), (["build", "--run"], False, True), ([], True, True)],
)
def test_the_command_line_says_whether(site, monkeypatch, arguments, home, expected):
    root, _ = site
    given = []
    monkeypatch.setattr(cli, "build", lambda options, verbose: given.append(options.run) or 0)
    monkeypatch.chdir(root)
    assert cli.main(arguments, root if home else None) == 0
    assert given == [expected]


def test_python_m_pylit_and_the_version():
    command = [sys.executable, "-m", "pylit", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("pylit ") and run.stdout.strip()[-1].isdigit()


def test_a_killed_build_leaves_no_file(site, tmp_path):
    root, left = site
    begun, temporary = left / "begun", tmp_path / "temporary"
    work = f"    open({str(begun)!r}, 'w').close()\n    time.sleep(60)\n"
    (root / "docs_src/traces/pkg/work.py").write_text(f"import time\n\n\ndef trace(T):\n{work}")
    temporary.mkdir()
    command = [sys.executable, "-m", "pylit", "build", "--run", "--cache", str(tmp_path / "cache")]
    build = subprocess.Popen(command, cwd=root, env=os.environ | {"TMPDIR": str(temporary)})
    end = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.01)
    build.kill()
    build.wait()
    assert begun.exists() and not list(temporary.glob("*"))
