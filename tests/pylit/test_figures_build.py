"""Figures in a whole build: what pages show, what is kept, and every fault with both its places."""

import time
from pathlib import Path

import pytest
from site_tools import build, count, faults, make_site, succeed

from pylit.figures import gallery
from pylit.runs import Limits, Runner

FIGURES = '''\
"""Figures."""

from pkg.two import two
from pylit.figures.draw import Figure, Plot, Table


def twice():
    plot = Plot((0, 2), (0, 4))
    plot.line([0, 1, 2], [0, 1, two()])
    return Figure([plot.panel()], f"It ends at {two()}.", Table(["x"], [[str(two())]]))


def bare():
    return Figure([Plot((0, 1), (0, 1)).panel()], "Nothing.")
'''
NOTES = "# Notes\n\n![Up to `One`, in $x$ steps.](figure:growth.twice)\n"
SITE = {"docs_src/figures/growth.py": FIGURES, "docs_src/pages/notes.md": NOTES}


def page(root: Path, name: str = "notes.html") -> str:
    return (root / "site" / name).read_text(encoding="utf-8")


def edit(root: Path, name: str, old: str, new: str) -> None:
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The figures that each child process was given."""
    started: list[list[str]] = []

    count(monkeypatch, started, lambda task: f"{task.owner}.{task.function}")
    return started


def test_a_page_shows_what_the_function_drew(tmp_path: Path):
    succeed(make_site(tmp_path, SITE))
    text = page(tmp_path)
    start, end = text.index('<figure class="fig">'), text.index("</figure>")
    figure = text[start:end]
    assert '<div class="panels" role="img" aria-label="It ends at 2."><svg width="288"' in figure
    assert '<a class="x" href="pkg/one.html#One"' in figure
    assert "<mjx-container" in figure
    assert figure.index("</svg>") < figure.index("<figcaption>Up to")
    assert "<details><summary>The numbers</summary>" in figure
    assert "<td>2</td>" in figure
    assert "\ue002" not in text


def test_only_what_has_changed_runs_again(tmp_path: Path, children: list[list[str]]):
    other = FIGURES.replace("from pkg.two import two", "two = int").replace("two()", "2")
    files = SITE | {
        "docs_src/figures/deep/other.py": other,
        "pkg/one.py": '"""Has one.\n\n![None.](figure:deep.other.bare)\n"""\n\n\nclass One:\n'
        "    def say(self):\n        return 1\n",
    }
    succeed(make_site(tmp_path, files))
    assert children.pop() == ["deep.other.bare", "growth.twice"]
    assert succeed(tmp_path).tally.rendered == 0
    assert children == []

    # A module that a figure reads by way of another: the page with the figure is made anew.
    edit(tmp_path, "pkg/one.py", "return 1", "return 1.5")
    assert succeed(tmp_path).tally.rendered == 2
    assert children.pop() == ["growth.twice"]
    assert "It ends at 3.0." in page(tmp_path)

    # What a figure reads changes, and what it shows does not: no page is made anew but its own.
    edit(tmp_path, "pkg/two.py", "2 * One", "1 * 2 * One")
    assert succeed(tmp_path).tally.rendered == 1
    assert children.pop() == ["growth.twice"]
    edit(tmp_path, "pkg/two.py", "Twice one", "Two times one")
    assert succeed(tmp_path).tally.rendered == 1
    assert children == []

    edit(tmp_path, "docs_src/figures/growth.py", "Nothing.", "None.")
    assert succeed(tmp_path).tally.rendered == 0
    assert children.pop() == ["growth.twice"]

    # One more figure of a file that is kept: only that one runs.
    edit(tmp_path, "docs_src/pages/notes.md", "# Notes\n", "# Notes\n\n![B.](figure:growth.bare)\n")
    succeed(tmp_path)
    assert children.pop() == ["growth.bare"]
    assert children == []


def test_what_is_imported_by_name_and_files_that_are_opened_count_too(
    tmp_path: Path, children: list[list[str]]
):
    figures = FIGURES.replace(
        "    plot = Plot((0, 2), (0, 4))",
        '    import_module("pkg.hidden").here()\n'
        "    data = Path(__file__).with_name('data.txt').read_text()\n"
        "    plot = Plot((0, 2), (0, 4), title=data)",
    ).replace('"""Figures."""', "from importlib import import_module\nfrom pathlib import Path\n")
    files = {
        "docs_src/figures/growth.py": figures,
        "docs_src/figures/data.txt": "Alpha",
        "pkg/hidden.py": "def here():\n    return 1\n",
    }
    succeed(make_site(tmp_path, SITE | files))
    succeed(tmp_path)
    assert len(children) == 1
    edit(tmp_path, "pkg/hidden.py", "1", "2")
    succeed(tmp_path)
    assert len(children) == 2
    edit(tmp_path, "docs_src/figures/data.txt", "Alpha", "Beta")
    succeed(tmp_path)
    assert len(children) == 3
    assert ">Beta</text>" in page(tmp_path)
    succeed(tmp_path)
    assert len(children) == 3


def test_without_figures_there_is_no_child(tmp_path: Path, children: list[list[str]]):
    succeed(make_site(tmp_path))
    succeed(make_site(tmp_path, {"docs_src/figures/growth.py": "raise SystemExit\n"}))
    assert children == []


def test_a_package_of_somebody_else_has_no_figures(tmp_path: Path, children: list[list[str]]):
    root = make_site(tmp_path, {"pkg/one.py": '"""![A](figure:growth.twice)"""\n', **SITE})
    outcome = build(root, sources=(root / "pkg",))
    assert children == []
    assert "<figure" not in page(root, "pkg/one.html")
    assert not outcome.report.failed


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


def test_each_figure_that_fails_says_where_in_the_note_and_where_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gallery, "Limits", lambda: Limits(seconds=0.5))
    names = ("fails", "slow", "after", "nothing", "torn", "silent", "lost")
    notes = "# Notes\n\n" + "".join(f"![It {name}.](figure:broken.{name})\n\n" for name in names)
    files = {"docs_src/pages/notes.md": notes, "docs_src/figures/broken.py": BROKEN}
    outcome = build(make_site(tmp_path, files))
    assert faults(outcome) == [
        ("docs_src/pages/notes.md", line, code)
        for line, code in (
            (3, "figure-failed"),
            (5, "figure-slow"),
            (9, "figure-failed"),
            (11, "figure-failed"),
            (13, "figure-alt"),
            (15, "figure-unknown"),
        )
    ]
    places = [message.rpartition(":")[2] for message in (d.message for d in outcome.report)]
    assert places[:5] == ["6", "10", "18", "22", "28"]
    assert not (tmp_path / "site").exists()


SLEEPER = """
import os
import time
from pathlib import Path
from pylit.figures.draw import Figure, Plot


def sleeps():
    child = os.fork()
    if not child:
        time.sleep(600)
    Path(__file__).with_name("pid").write_text(str(child))
    return Figure([Plot((0, 1), (0, 1)).panel()], "Asleep.")
"""


def test_processes_that_a_figure_leaves_behind_end_with_it(tmp_path: Path):
    files = {
        "docs_src/pages/notes.md": "# Notes\n\n![It sleeps.](figure:left.sleeps)\n",
        "docs_src/figures/left.py": SLEEPER,
    }
    succeed(make_site(tmp_path, files))
    left = int((tmp_path / "docs_src/figures/pid").read_text())
    # A killed process whose parent is gone may stay in the table for a moment, dead.
    state = Path(f"/proc/{left}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the fork still runs")


def test_the_child_ends_with_a_build_that_does_not_come_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[Runner] = []
    real = Runner.start

    def kept(self, tasks):
        real(self, tasks)
        started.append(self)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "start", kept)
    monkeypatch.setattr("pylit.pipeline.stages.Stages.draft", fail)
    with pytest.raises(KeyboardInterrupt):
        build(make_site(tmp_path, SITE))
    assert started[-1]._process.returncode is not None


TABLES = """\
import json
from pathlib import Path

from pylit.figures.draw import Table

FOLDER = Path(__file__).parents[1] / "results"


def every():
    found = sorted(FOLDER.glob("*.json"))
    rows = [[path.stem, str(json.loads(path.read_text())["loss"])] for path in found]
    return Table(["run", "loss"], rows, notes=["In nats."])


def named():
    try:
        loss = json.loads((FOLDER / "of/a/study.json").read_text())["loss"]
    except FileNotFoundError:
        loss = "still to be made"
    return Table(["run", "loss"], [["study", str(loss)]])


"""
RESULTS = {
    "docs_src/figures/sums.py": TABLES,
    "docs_src/pages/notes.md": "# Notes\n\n![Every run.](table:sums.every)\n",
    "docs_src/results/first.json": '{"loss": 1.5}',
}


def test_a_table_is_made_anew_when_a_result_changes_or_is_added(
    tmp_path: Path, children: list[list[str]]
):
    succeed(make_site(tmp_path, RESULTS))
    assert '<th scope="row">first</th><td class="r">1.5</td></tr></tbody></table></div>' in page(
        tmp_path
    )
    assert "<p>In nats.</p></figure>" in page(tmp_path)
    assert succeed(tmp_path).tally.rendered == 0
    assert children == [["sums.every"]]

    (tmp_path / "docs_src/results/first.json").write_text('{"loss": 1.25}')
    succeed(tmp_path)
    assert '<td class="r">1.25</td>' in page(tmp_path)

    (tmp_path / "docs_src/results/second.json").write_text('{"loss": 1.75}')
    succeed(tmp_path)
    assert '<th scope="row">second</th><td class="r">1.75</td>' in page(tmp_path)
    assert children == [["sums.every"]] * 3
    assert succeed(tmp_path).tally.rendered == 0
    assert children == [["sums.every"]] * 3


def test_a_table_is_made_anew_when_a_file_is_there_that_it_had_asked_for(tmp_path: Path):
    """In folders, too, that were not there either."""
    notes = "# Notes\n\n![It.](table:sums.named)\n"
    succeed(make_site(tmp_path, RESULTS | {"docs_src/pages/notes.md": notes}))
    page = tmp_path / "site/notes.html"
    assert "still to be made" in page.read_text(encoding="utf-8")
    result = tmp_path / "docs_src/results/of/a/study.json"
    result.parent.mkdir(parents=True)
    result.write_text('{"loss": 1.5}')
    succeed(tmp_path)
    assert '<td class="r">1.5</td>' in page.read_text(encoding="utf-8")
