"""Figures in a whole build: what pages show, what is kept, and every fault with both its places."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from site_tools import build, edit, faults, make_site, read, succeed

from pylit.runs import tasks as runs

FIGURES = '''\
"""Figures."""
from pkg.two import two
from pylit.figures.draw import Figure, Plot, Table

def twice():
    plot = Plot((0, 2), (0, 4))
    plot.line([0, 1, 2], [0, 1, two()])
    return Figure([plot.panel()], f"It ends at {two()}.", Table(["x"], [[str(two())]]))

def sums():
    return Table(["a|b", "sum"], [["one", "3"], ["two", "5"]], notes=["In units."])

def bare():
    return Figure([Plot((0, 1), (0, 1)).panel()], "Nothing.")
'''
NOTES = """\
# Notes

![Up to `One`, in $x$ steps.](figure:growth.twice)

![All [sums](../../pkg/two.py).](table:growth.sums)
"""
SITE = {"docs_src/figures/growth.py": FIGURES, "docs_src/pages/notes.md": NOTES}


def test_a_page_shows_what_functions_drew_and_its_text_has_the_numbers_of_tables(tmp_path: Path):
    succeed(make_site(tmp_path, SITE))
    text = read(tmp_path, "notes.html")
    figure = text.partition('<figure class="fig">')[2].partition("</figure>")[0]
    assert figure.startswith('<div class="panels" role="img" aria-label="It ends at 2."><svg')
    assert '<a class="x" href="pkg/one.html#One"' in figure and "<mjx-container" in figure
    assert figure.index("</svg>") < figure.index("<figcaption>Up to")
    assert "<details><summary>The numbers</summary>" in figure
    assert '<th scope="row">2</th>' in figure
    assert "\ue002" not in text
    table = "| a\\|b | sum |\n| :-- | --: |\n| one | 3 |\n| two | 5 |\n\nIn units."
    for name in ("notes.html.md", "llms-full.txt"):
        text = read(tmp_path, name)
        assert f"sums](pkg/two.html.md).\n\n{table}" in text and "table:" not in text


#: Figures that read what no import names: a module, a file, a folder, and a file yet to be made.
READERS = """\
from importlib import import_module
from pathlib import Path
from pylit.figures.draw import Figure, Plot, Table

HERE = Path(__file__)
RESULTS = HERE.parents[1] / "results"

def hidden():
    import_module("pkg.hidden").here()
    plot = Plot((0, 1), (0, 1), title=HERE.with_name("data.txt").read_text())
    return Figure([plot.panel()], "It.")

def results():
    rows = [[path.stem, path.read_text()] for path in sorted(RESULTS.glob("*.json"))]
    return Table(["run", "loss"], rows)

def study():
    try:
        loss = (RESULTS / "of/a/study.json").read_text()
    except FileNotFoundError:
        loss = "still to be made"
    return Table(["run", "loss"], [["study", loss]])
"""
CHANGING = SITE | {
    "docs_src/figures/deep/readers.py": READERS,
    "docs_src/figures/sums.py": READERS,
    "docs_src/figures/study.py": READERS,
    "docs_src/figures/deep/data.txt": "Alpha",
    "docs_src/results/first.json": "1.5",
    "docs_src/pages/more.md": "# More\n\n![H.](figure:deep.readers.hidden)\n",
    "docs_src/pages/sums.md": "# Sums\n\n![R.](table:sums.results)\n",
    "docs_src/pages/study.md": "# Study\n\n![S.](table:study.study)\n",
    "pkg/hidden.py": "def here():\n    return 1\n",
}
ONE, TWO, GROWTH = "pkg/one.py", "pkg/two.py", "docs_src/figures/growth.py"
NOTED, RESULTS = "docs_src/pages/notes.md", "docs_src/results"


#: Edits, one after the other: what runs again, how many pages are rendered, and what one shows.
EDITS = [
    # A module that a figure imports by way of another: the page with the figure is new, too.
    (ONE, "return 1", "return 1.5", ["growth.twice"], 2, "It ends at 3.0."),
    # What a figure reads changes, and what it shows does not.
    (TWO, "2 * One", "1 * 2 * One", ["growth.twice"], 1, "It ends at 3.0."),
    (TWO, "Twice one", "Two times one", [], 1, "It ends at 3.0."),
    (GROWTH, "Nothing.", "None.", ["growth.twice", "growth.sums"], 0, "It ends at 3.0."),
    # One more figure of a file whose others are kept.
    (NOTED, "# Notes", "# Notes\n\n![B.](figure:growth.bare)", ["growth.bare"], 2, '"None."'),
    ("pkg/hidden.py", "1", "2", ["deep.readers.hidden"], 1, ""),
    ("docs_src/figures/deep/data.txt", "Alpha", "Beta", ["deep.readers.hidden"], 1, ">Beta<"),
    (f"{RESULTS}/first.json", "1.5", "1.25", ["sums.results"], 1, '<td class="r">1.25<'),
    (f"{RESULTS}/second.json", "", "1.75", ["sums.results"], 1, '<th scope="row">second'),
    # In a folder that was not there either; and one more entry in a folder that was listed.
    (f"{RESULTS}/of/a/study.json", "", "1.5", ["study.study", "sums.results"], 1, ">study</th>"),
]


def test_only_what_reads_a_change_runs_again(tmp_path: Path, started: list[list[str]]):
    succeed(make_site(tmp_path, CHANGING))
    assert started.pop() == [
        "deep.readers.hidden",
        "growth.twice",
        "growth.sums",
        "study.study",
        "sums.results",
    ]
    for name, old, new, ran, rendered, shown in EDITS:
        edit(tmp_path, name, old, new)
        assert (name, succeed(tmp_path).rendered) == (name, rendered)
        assert started == ([ran] if ran else [])
        site = (tmp_path / "site").rglob("*.html")
        assert any(shown in page.read_text(encoding="utf-8") for page in site)
        started.clear()
    assert succeed(tmp_path).rendered == 0
    assert started == []


def test_only_own_pages_that_ask_for_a_figure_start_a_child(tmp_path, started):
    succeed(make_site(tmp_path, {"docs_src/figures/growth.py": "raise SystemExit\n"}))
    root = make_site(tmp_path, {"pkg/one.py": '"""![A](figure:growth.twice)"""\n', **SITE})
    outcome = build(root, sources=(root / "pkg",))
    assert started == [] and not outcome.report.failed
    assert "<figure" not in read(root, "pkg/one.html")


BROKEN = """\
from pkg.two import two
from pylit.figures.draw import Figure, Plot

def fails():
    two(1)

def slow():
    while True:
        pass

def after():
    return Figure([Plot((0, 1), (0, 1)).panel()], "Fine.")

def nothing():
    return "<svg></svg>"

def torn():
    plot = Plot((0, 1), (0, 1))
    plot.add("<g>")
    return Figure([plot.panel()], "Never.")

def silent():
    return Figure([Plot((0, 1), (0, 1)).panel()], " ")
"""


def test_each_figure_that_fails_says_where_in_the_note_and_where_in_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "SECONDS", 0.5)
    names = ("fails", "slow", "after", "nothing", "torn", "silent", "lost")
    notes = "# Notes\n\n" + "".join(f"![It {name}.](figure:broken.{name})\n\n" for name in names)
    outcome = build(make_site(tmp_path, {NOTED: notes, "docs_src/figures/broken.py": BROKEN}))
    codes = "3 failed, 5 slow, 9 failed, 11 failed, 13 alt, 15 unknown"
    expected = (code.replace(" ", " figure-") for code in codes.split(", "))
    assert [f"{line} {code}" for _, line, code in faults(outcome)] == [*expected]
    places = [fault.message.rpartition(":")[2] for fault in outcome.report]
    assert places[:5] == ["5", "8", "14", "17", "22"]
    assert not (tmp_path / "site").exists()


#: A figure whose process, or one that it has begun, leaves its number in a file and sleeps.
SLEEPS = """
import os
import time
from pathlib import Path
from pylit.figures.draw import Figure, Plot

def asleep(process):
    Path(__file__).with_name("pid").write_text(str(process))
    time.sleep(600)

"""
FORKED = """def sleeps():
    if not os.fork():
        asleep(os.getpid())
    while not Path(__file__).with_name("pid").exists():
        pass
    return Figure([Plot((0, 1), (0, 1)).panel()], "Asleep.")
"""
RUNNING = "def sleeps():\n    asleep(os.getpid())\n"
LOADING = "asleep(os.getpid())\n\n\ndef sleeps():\n    pass\n"
BUILD = """
import sys
from pathlib import Path
from site_tools import build
build(Path(sys.argv[1]), worker=None)
"""


def sleeping(root: Path, figure: str) -> Path:
    """A site with a figure that sleeps."""
    notes = "# Notes\n\n![It sleeps.](figure:left.sleeps)\n"
    return make_site(root, {NOTED: notes, "docs_src/figures/left.py": SLEEPS + figure})


def sleeper(root: Path) -> int:
    """The number of the process, as soon as it sleeps."""
    file = root / "docs_src/figures/pid"
    while not (file.exists() and file.read_text()):
        time.sleep(0.05)
    return int(file.read_text())


def ends(process: int) -> bool:
    """Whether a process ends within a few seconds."""
    state = Path(f"/proc/{process}/stat")
    for _ in range(100):
        # A killed process whose parent is gone may stay in the table for a moment, dead.
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_processes_that_a_figure_leaves_behind_end_with_it(tmp_path: Path):
    succeed(sleeping(tmp_path, FORKED))
    assert ends(sleeper(tmp_path))


def test_what_a_killed_build_has_begun_ends(tmp_path: Path):
    root = sleeping(tmp_path, RUNNING)
    build = subprocess.Popen([sys.executable, "-c", BUILD, root], cwd=Path(__file__).parent)
    process = sleeper(tmp_path)
    build.kill()
    build.wait()
    assert ends(process)


def test_what_is_still_loaded_when_a_build_ends_is_ended(tmp_path, monkeypatch):
    """It does not notice that nobody waits for it any more."""

    def fail(*_: object) -> None:
        sleeper(tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr("pylit.build.draft_pages", fail)
    with pytest.raises(KeyboardInterrupt):
        build(sleeping(tmp_path, LOADING), worker=None)
    assert ends(sleeper(tmp_path))


WAITS = """
import time
from pylit.runs.child import TimeLimitExceeded, limits
try:
    with limits(0.02, 2**30):
        time.sleep(0.6)
except TimeLimitExceeded as error:
    print(error)
"""


def test_a_run_that_only_waits_is_ended():
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("waits for what does not come\n", "")
