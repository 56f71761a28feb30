"""Notes on the code of a package that others have written, and that is never imported."""

import json
import re
from pathlib import Path

import pytest
from site_tools import build, cache, edit, figures, golden, listing, make_site, read, succeed

from pylit.addresses import replay_url
from pylit.cli import main
from pylit.source.installed import fits, package_of

NOTES = "docs_src/notes/theirs/deep.md"
PAGE = "theirs/deep.html"
CODE, TEXT = golden("annotated-code"), golden("annotated-notes")
METADATA = "theirs_dist-1.2.3.dist-info/METADATA"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with notes on a package that is installed, and fails when it is imported."""
    packages = {
        "theirs/__init__.py": "raise SystemExit",
        "theirs/deep.py": CODE,
        "theirs_dist-1.2.3.dist-info/top_level.txt": "theirs\n",
        METADATA: "Name: theirs-dist\nVersion: 1.2.3\nLicense-Expression: BSD-3-Clause\n",
    }
    monkeypatch.syspath_prepend(str(make_site(tmp_path / "installed", packages)))
    return make_site(tmp_path / "mine", {NOTES: TEXT})


def edit_theirs(site: Path, old: str, new: str, name: str = "theirs/deep.py") -> None:
    edit(site.parent / "installed", name, old, new)


def faults(site: Path) -> list[str]:
    return [str(fault) for fault in build(site).report]


def test_notes_stand_beside_the_code_as_it_is_installed(site: Path) -> None:
    succeed(site)
    assert listing(read(site, PAGE)) == golden("annotated")
    # A line that moves keeps its note.
    edit_theirs(site, "def unread", "# more\n\n\ndef unread")
    succeed(site)
    assert "Here it subtracts.\n21         z = y - 3" in listing(read(site, PAGE))


def test_a_note_without_a_place_is_a_fault_that_names_what_is_near(site: Path) -> None:
    edit(site, NOTES, "# Layer.run\n", "# Layer.rum\n")
    edit_theirs(site, "z = y - 3", "z = y - 4")
    edit(site, NOTES, '"if" after "z = y - 3"', '"if"')
    unknown, gone, twice = faults(site)
    assert "there is no definition `Layer.rum`" in unknown and "mean `Layer.run`?" in unknown
    assert gone.startswith(f"{NOTES}:14:1: error[note-place]: `Layer.run` has no line `z = y - 3`")
    assert '\n    # Layer.run, "z = y - 3"\n' in gone and "nearest, line 18: `z = y - 4`" in gone
    assert "has `if` 2 times, in the lines 16 and 19" in twice


def test_another_version_shows_the_notes_that_still_fit(site: Path) -> None:
    edit(site, NOTES, ">=1.2, <2", "<1.2")
    edit(site, NOTES, '"z = y - 3"\n\nHere', '"z = y - 5"\n\nHere')
    (only,) = faults(site)
    assert "warning[note-place]" in only and "z = y - 5" in only
    assert "1 of them are left out" in read(site, PAGE) and "second condition" in read(site, PAGE)


def test_without_the_package_the_page_is_left_out(site: Path) -> None:
    edit(run_site(site), NOTES, "package: theirs-dist", "package: no-such-dist")
    (only,) = faults(site)
    assert "warning[note-place]: `no-such-dist` is not installed" in only
    assert not (site / "site" / PAGE).exists()


def test_the_command_begins_notes_and_marks_those_whose_code_has_changed(site: Path, capsys):
    def noted(*names: str) -> tuple[int, str]:
        return main(["notes", *names], home=site), capsys.readouterr().out

    assert "0 to read again" in noted("theirs.deep")[1]
    assert (site / NOTES).read_text(encoding="utf-8").count(" · ") == 3
    succeed(site)
    edit_theirs(site, "            return None", "            return x")
    assert [f for f in faults(site) if "has changed since" in f]
    assert "2 to read again, 0 without a place" in noted("theirs.deep")[1]
    edit_theirs(site, "z = y - 3", "z = y - 4")
    assert f"{NOTES}:14: `Layer.run` has no line" in noted("theirs.deep")[1]
    (site / NOTES).unlink()
    assert noted("theirs.deep", "Layer")[0] == 0
    text = (site / NOTES).read_text(encoding="utf-8")
    assert "\n# Layer\n" in text and 'package: theirs-dist\nversions: "==1.2.*"\n' in text
    assert noted("theirs.deeper")[0] == 2


RUNS = """import sys

import numpy as np

sys.path.insert(0, "{packages}")
from theirs.deep import Layer

def trace(T, C):
    Layer().run(np.ones((1, C)))

def replay():
    '''Their layer runs

    What it makes of ones.

    * Subtract, `z = y - 3`: It subtracts.
    '''
    yield {{"T": ["a", "b"]}}
    Layer().run(np.ones(1))
"""


def run_site(site: Path) -> Path:
    """The site with a run of their layer, which is imported for it."""
    edit_theirs(site, "raise SystemExit", "", "theirs/__init__.py")
    runs = RUNS.format(packages=site.parent / "installed")
    return make_site(site, {NOTES: TEXT, "docs_src/traces/theirs/deep.py": runs})


def test_lines_of_others_have_the_shapes_of_a_run_and_a_replay_of_their_version(site, started):
    succeed(run_site(site))
    assert re.search(r"z = .*?<samp><i><b>z</b> \[1, C\]", read(site, PAGE))
    script = read(site, replay_url(PAGE))
    data = json.loads(script[script.index("(") + 1 : script.rindex(")")])
    # What is folded, as `unread`, has no steps, though it ran.
    assert {step["stack"][-1] for step in data["steps"]} == {"Layer.run"}
    assert data["stops"][0]["name"] == "Subtract"
    edit(site, NOTES, "Read this first.", "Read this before.")
    succeed(site)
    assert len(started) == 1
    edit_theirs(site, "Version: 1.2.3", "Version: 1.2.4", METADATA)
    succeed(site)
    assert len(started) == 2


def test_shapes_that_did_not_run_are_faults_in_the_notes(site: Path) -> None:
    edit(run_site(site), NOTES, "Here it subtracts.", "* `z` has shape `[C, 1]`.")
    table = "| Symbol | Code | Shape |\n|--|--|--|\n| $z$ | `z` | `[C]` |"
    edit(site, NOTES, "Behind the code.", table)
    for fault, line in zip(faults(site), (16, 26), strict=True):
        assert fault.startswith(f"{NOTES}:{line}:")
        assert "error[shape-note]: `z` is said to be" in fault and "at theirs/deep.py:18" in fault


def test_notes_show_figures_and_are_compared(site: Path) -> None:
    text = TEXT.replace("Read this first.", "![One bar.](figure:bars.one)")
    ours = "class Layer:\n    def run(self, x):\n        z = x - 3\n        return z\n"
    files = {"pkg/ours.py": ours, "docs_src/figures/bars.py": figures(one="A bar.")}
    make_site(site, files | {NOTES: text.replace("title:", "compare: pkg.ours\ntitle:")})
    succeed(site)
    assert "A bar." in read(site, PAGE) and "pkg.ours...theirs.deep.html" in read(site, PAGE)
    assert "subtracts" in read(site, "compare/pkg.ours...theirs.deep.html")
    edit(site, NOTES, "compare: pkg.ours", "compare: pkg.yours")
    (only,) = faults(site)
    assert only.startswith(f"{NOTES}:4:10: error[front-matter]: there is no module `pkg.yours`")


def test_a_comment_that_is_quoted_speaks_of_what_follows_it(site: Path) -> None:
    edit_theirs(site, "        z = y", "        # less\n        z = y")
    edit(site, NOTES, '"z = y - 3"\n\nHere', '"# less" · 00000000\n\nHere')
    (only,) = faults(site)
    assert "has changed since this note was written" in only
    assert main(["notes", "theirs.deep"], home=site) == 0
    edit(site, NOTES, "00000000 → ", "")
    succeed(site)
    edit_theirs(site, "y = x + 1", "y = x + 2")
    assert not [fault for fault in faults(site) if "# less" in fault]


def test_a_folder_with_notes_alone_is_a_site(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = site.parent / "alone"
    (alone / NOTES).parent.mkdir(parents=True)
    (alone / NOTES).write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(alone)
    assert main(["build", "--cache", str(cache(alone)), "--jobs", "1"]) == 0
    assert "Here it subtracts" in read(alone, PAGE)
    home = read(alone, "index.html")
    assert "Notes on theirs" in home and f'href="{PAGE}"' in home
    (alone / "mine.py").touch()
    assert main(["init", "mine.py"]) == 0 and (alone / "docs_src/site.toml").is_file()


def test_notes_are_translated_as_any_page(site: Path) -> None:
    assert main(["translate", "zh", "theirs.deep"], home=site) == 0
    file = "docs_src/locale/zh/theirs/deep.md"
    edit(site, file, "> Here it subtracts.\n", "> Here it subtracts.\n\n这里做减法。\n")
    build(site)
    html = read(site, f"zh/{PAGE}")
    assert html.index("这里做减法") < html.index('id="L18"') and "The second condition" in html


def test_the_package_of_a_module_and_ranges_of_its_versions() -> None:
    assert (package_of("torch.nn"), package_of("json.decoder")) == ("torch", "python")
    assert fits("2.13.0+cpu", ">=2.13, <2.14") and not fits("2.14", ">=2.13, <2.14")
    assert fits("1.0", "==1") and fits("1.0", "about one") is None
