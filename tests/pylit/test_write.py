"""The folder of a site: written whole or not at all, with nothing lost that is not ours."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pylit.diagnostics import Report
from pylit.outputs.folder import MANIFEST, Output

FIRST = {"index.html": b"one", "a/b.html": b"two", "assets/site.css": b"three"}


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def publish(out, files, report):
    with Output(out, report) as output:
        if not report.failed:
            output.update(files)
        return output.publish()


def write(out, files):
    report = Report()
    result = publish(out, files, report)
    assert not report.failed, [str(d) for d in report]
    return sorted(result.written), result.deleted


def refused(out, files):
    before = tree(out) if out.is_dir() else None
    report = Report()
    result = publish(out, files, report)
    assert report.failed and not result.written and not result.deleted
    assert before is None or tree(out) == before
    (fault,) = report
    assert fault.code == "output" and fault.hint
    return fault.message


@pytest.fixture
def site(tmp_path):
    """A folder with the first site."""
    out = tmp_path / "new" / "site"
    assert write(out, FIRST) == (sorted(FIRST), [])
    return out


def test_only_what_differs_is_written_and_what_is_no_more_goes_with_its_folder(site):
    stamp = (site / "index.html").stat().st_mtime_ns
    assert write(site, FIRST | {"a/b.html": b"other"}) == (["a/b.html"], [])
    assert (site / "index.html").stat().st_mtime_ns == stamp
    assert (site / "a/b.html").read_bytes() == b"other"
    assert write(site, {"index.html": b"one"}) == ([], ["a/b.html", "assets/site.css"])
    assert sorted(p.name for p in site.iterdir()) == [MANIFEST, "index.html"]


def test_foreign_files_and_pages_that_were_edited_by_hand_stay(site):
    theirs = {"CNAME": "example.org", "a/note.txt": "mine", "a/b.html": "hours of work"}
    for name, text in theirs.items():
        (site / name).write_text(text)
    report = Report()
    publish(site, {"index.html": b"one"}, report)
    assert {name: (site / name).read_text() for name in theirs} == theirs
    (warning,) = report
    assert "edited by hand" in warning.message and not report.failed


@pytest.mark.parametrize(
    ("new", "block"),
    [
        ("new.html", lambda path: path.write_text("mine")),
        ("new.html", lambda path: path.mkdir()),
        ("docs/x.html", lambda path: path.parent.symlink_to(path.parents[2])),
    ],
    ids=["file", "folder", "link out of the site"],
)
def test_what_is_foreign_in_the_place_of_a_page_is_refused(site, new, block):
    block(site / new)
    assert "in the way" in refused(site, FIRST | {new: b"ours"})
    assert [path.name for path in site.parent.iterdir()] == ["site"]


def test_a_folder_that_is_not_ours_or_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "not empty" in refused(tmp_path, FIRST)
    if Path("/proc/self").exists():  # a file system that nobody can write
        assert "cannot be written" in refused(Path("/proc/pylit-site"), FIRST)


def test_a_full_disk_leaves_the_site_that_stands(site, monkeypatch):
    real = Path.write_bytes

    def full(self, data):
        if data == b"second":
            raise OSError(28, "No space left on device", str(self))
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left" in refused(site, {"index.html": b"first", "a/b.html": b"second"})


@pytest.mark.parametrize("damage", ["{ nonsense", "", '{"files": {}}'])
def test_a_damaged_manifest_costs_nothing_that_was_not_built(site, damage):
    (site / MANIFEST).write_text(damage)
    new = {path: b"new " + data for path, data in FIRST.items()}
    assert "in the way of a page" in refused(site, new)
    assert write(site, FIRST) == ([], [])
    assert write(site, new) == (sorted(new), [])


def test_a_manifest_that_names_files_elsewhere_deletes_none_of_them(site):
    victim = site.parent / "victim.txt"
    victim.write_bytes(b"years of work")
    (site / "out").symlink_to(site.parent)
    names = ["../victim.txt", str(victim), "a/../../victim.txt", "out/victim.txt"]
    digests = [hashlib.sha256(b"years of work").hexdigest()]
    (site / MANIFEST).write_text(json.dumps({"files": dict.fromkeys(names, digests)}))
    write(site, FIRST)
    assert victim.exists()


KILLED = """
import sys
from pathlib import Path
from pylit.diagnostics import Report
from pylit.outputs.folder import Output
print("ready", flush=True)
for turn in range(10**6):
    files = {f"d{i % 7}/p{i}.html": b"%d " % (turn % 2) * 500 for i in range(60)}
    with Output(Path(sys.argv[1]), Report()) as output:
        output.update(files)
        output.publish()
"""


def test_killed_at_any_moment_every_file_is_whole_and_the_next_build_recovers(tmp_path):
    whole = {b"%d " % turn * 500 for turn in (0, 1, 2)}
    final = {f"d{i % 7}/p{i}.html": b"2 " * 500 for i in range(0, 60, 2)}
    write(tmp_path / "clean", final)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "site")]
    for delay in (0.003, 0.011, 0.029):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
            child.stdout.readline()
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
        pages = {path: data for path, data in tree(tmp_path / "site").items() if "html" in path}
        assert set(pages.values()) <= whole
        write(tmp_path / "site", final)
        assert tree(tmp_path / "site") == tree(tmp_path / "clean")


@pytest.mark.parametrize("built", [False, True], ids=["first build", "nothing to write"])
def test_what_a_killed_build_leaves_behind_is_removed(tmp_path, built):
    page = {"a.html": b"a"}
    if built:
        write(tmp_path / "site", page)
    (tmp_path / "site/.pylit-staging").mkdir(parents=True)
    (tmp_path / "site/.pylit-staging/0").write_bytes(b"half")
    (tmp_path / "site/.pylit-manifest.json.new").write_text('{"files"')
    write(tmp_path / "site", page)
    write(tmp_path / "clean", page)
    assert tree(tmp_path / "site") == tree(tmp_path / "clean")


def test_the_manifest_is_widened_before_the_first_page_moves(tmp_path, monkeypatch):
    """Killed between two renames: what moved is known as ours, so the next build may replace it."""
    write(tmp_path, {"old.html": b"old"})
    real = Path.replace
    moved = []

    def die_after_one(self, target):
        if Path(target).suffix == ".html":
            if moved:
                raise KeyboardInterrupt
            moved.append(target)
        return real(self, target)

    new = {"a.html": b"a", "b.html": b"b"}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", die_after_one)
        publish(tmp_path, new, Report())
    assert json.loads((tmp_path / MANIFEST).read_text())["files"].keys() == {"old.html", *new}
    assert (tmp_path / "old.html").exists()
    assert write(tmp_path, new) == (["b.html"], ["old.html"])


def test_an_interrupt_while_a_folder_is_begun_leaves_none(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pylit.outputs.folder.folder_lock", interrupted)
    with pytest.raises(KeyboardInterrupt), Output(tmp_path / "out", Report()):
        pass
    assert not (tmp_path / "out").exists()
