"""Notes on the code of a package that others have written, and that is never imported."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from site_tools import build, edit, make_site, succeed

from pylit.cli import main
from pylit.source.installed import fits

NOTES = "docs_src/notes/theirs/deep.md"
CODE = '''"""Their module."""

raise SystemExit("imported")


def unread(x):
    return x


class Layer:
    """Their layer.

    It has a docstring
    of several lines.
    """

    def run(self, x):
        y = x + 1
        if y:
            y = y * 2
        z = y - 3
        if z:
            return None
        return z

    def other(self):
        return 0
'''
TEXT = """---
package: theirs-dist
versions: ">=1.2, <2"
title: Their layer
summary: What it does.
---

Read this first.

# Layer.run

The whole of it.

# Layer.run, "z = y - 3"

Here it subtracts.

# Layer.run, "if" after "z = y - 3"

The second condition.

# For reference

Behind the code.
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site with notes on a package that is installed, in a folder of its own."""
    packages = tmp_path / "installed"
    make_site(
        packages,
        {
            "theirs/__init__.py": "raise SystemExit",
            "theirs/deep.py": CODE,
            "theirs_dist-1.2.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: theirs-dist\n"
            "Version: 1.2.3\nLicense-Expression: BSD-3-Clause\n",
        },
    )
    monkeypatch.syspath_prepend(str(packages))
    yield make_site(tmp_path / "mine", {NOTES: TEXT})


def page(site: Path) -> str:
    return (site / "site/theirs/deep.html").read_text(encoding="utf-8")


def faults(site: Path) -> list[str]:
    return [str(fault) for fault in build(site).report]


def test_notes_stand_beside_the_code_as_it_is_installed(site: Path) -> None:
    succeed(site)
    html = page(site)
    order = ["Read this first", "The whole of it", "L18", "Here it subtracts", "second condition"]
    places = [html.index(text) for text in [*order, "Behind the code"]]
    assert places == sorted(places)
    assert "theirs-dist 1.2.3, BSD-3-Clause" in html
    assert "Lines 1 to 7</summary>" not in html and "Lines 1 to 7 <code>unread" in html
    assert 'id="Layer.run"' in html and 'id="Layer.other"' not in html
    # Every line is there once, with its number.
    assert all(html.count(f'id="L{n}"') == bool(t) for n, t in enumerate(CODE.split("\n"), 1) if t)


def test_a_line_that_moved_keeps_its_note_and_one_that_is_gone_is_a_fault(site: Path) -> None:
    edit(site.parent, "installed/theirs/deep.py", "def unread", "# more\n\n\ndef unread")
    succeed(site)
    assert page(site).index("Here it subtracts") < page(site).index('id="L24"')
    edit(site.parent, "installed/theirs/deep.py", "z = y - 3", "z = y - 4")
    first, second = faults(site)
    assert first.startswith(f"{NOTES}:14:1: error[note-place]: `Layer.run` has no line `z = y - 3`")
    assert "nearest, line 24: `z = y - 4`" in first
    assert f"{NOTES}:18:1" in second


def test_a_line_that_is_there_twice_and_an_unknown_name_are_faults(site: Path) -> None:
    edit(site, NOTES, '"if" after "z = y - 3"', '"if"')
    edit(site, NOTES, "# Layer.run\n", "# Layer.rum\n")
    first, second = faults(site)
    assert "there is no definition `Layer.rum`" in first and "did you mean `Layer.run`?" in first
    assert "has `if` 2 times, in the lines 19 and 22" in second


def test_another_version_shows_the_notes_that_still_fit(site: Path) -> None:
    edit(site, NOTES, ">=1.2, <2", "<1.2")
    edit(site, NOTES, '"z = y - 3"\n\nHere', '"z = y - 5"\n\nHere')
    (only,) = faults(site)
    assert "warning[note-place]" in only and "z = y - 5" in only
    assert "1 of them are left out" in page(site) and "second condition" in page(site)


def test_without_the_package_the_page_is_left_out(site: Path) -> None:
    edit(site, NOTES, "package: theirs-dist", "package: no-such-dist")
    (only,) = faults(site)
    assert "warning[note-place]: `no-such-dist` is not installed" in only
    assert not (site / "site/theirs/deep.html").exists()


def test_the_command_begins_notes_and_marks_those_whose_code_has_changed(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site)
    assert main(["notes", "theirs.deep"]) == 0
    text = (site / NOTES).read_text(encoding="utf-8")
    assert text.count(" · ") == 3 and "0 to read again" in capsys.readouterr().out
    succeed(site)
    edit(site.parent, "installed/theirs/deep.py", "            return None", "            return x")
    assert [f for f in faults(site) if "has changed since" in f]
    assert main(["notes", "theirs.deep"]) == 0
    assert "2 to read again, 0 without a place" in capsys.readouterr().out
    (site / NOTES).unlink()
    assert main(["notes", "theirs.deep", "Layer"]) == 0
    assert "\n# Layer\n" in (site / NOTES).read_text(encoding="utf-8")
    assert main(["notes", "theirs.deeper"]) == 2


def test_ranges_of_versions() -> None:
    assert fits("2.13.0+cpu", ">=2.13, <2.14") and not fits("2.14", ">=2.13, <2.14")
    assert fits("1.0", "==1") and fits("1.0", "about one") is None
