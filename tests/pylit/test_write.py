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
from pylit.outputs.folder import MANIFEST, Output, Written

FIRST = {"index.html": b"one", "a/b.html": b"two", "assets/site.css": b"three"}


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def publish(out: Path, files: dict[str, bytes], report: Report) -> Written:
    with Output(out, report) as output:
        if not report.failed:
            output.update(files)
        return output.publish()


def write(out: Path, files: dict[str, bytes]) -> tuple[list[str], list[str]]:
    report = Report()
    result = publish(out, files, report)
    assert not report.failed, [str(d) for d in report]
    return sorted(result.written), result.deleted


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    out = tmp_path / "new" / "site"
    assert write(out, FIRST) == (sorted(FIRST), [])
    stamp = (out / "index.html").stat().st_mtime_ns
    assert write(out, FIRST | {"a/b.html": b"other"}) == (["a/b.html"], [])
    assert (out / "index.html").stat().st_mtime_ns == stamp
    assert (out / "a/b.html").read_bytes() == b"other"


def test_a_page_that_is_no_more_goes_and_its_empty_folder_with_it(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    assert write(tmp_path, {"index.html": b"one"}) == ([], ["a/b.html", "assets/site.css"])
    assert sorted(p.name for p in tmp_path.iterdir()) == [MANIFEST, "index.html"]


def test_foreign_files_beside_ours_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    theirs = {"CNAME": "example.org", "a/note.txt": "mine"}
    for name, text in theirs.items():
        (tmp_path / name).write_text(text)
    write(tmp_path, {"index.html": b"one"})
    assert {name: (tmp_path / name).read_text() for name in theirs} == theirs


def test_a_stale_page_that_was_edited_by_hand_stays_and_is_named(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    (tmp_path / "a/b.html").write_bytes(b"hours of work")
    report = Report()
    publish(tmp_path, {"index.html": b"one"}, report)
    assert (tmp_path / "a/b.html").read_bytes() == b"hours of work"
    (warning,) = report
    assert "edited by hand" in warning.message and not report.failed


def refused(out: Path, files: dict[str, bytes]) -> str:
    before = tree(out) if out.is_dir() else None
    report = Report()
    result = publish(out, files, report)
    assert report.failed and not result.written and not result.deleted
    assert before is None or tree(out) == before
    (fault,) = report
    assert fault.code == "output" and fault.hint
    return fault.message


def test_a_folder_with_somebody_elses_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "not empty" in refused(tmp_path, FIRST)


def test_a_foreign_file_in_the_place_of_a_page_is_refused(tmp_path: Path) -> None:
    write(tmp_path, FIRST)
    (tmp_path / "new.html").write_text("mine")
    assert "in the way" in refused(tmp_path, FIRST | {"new.html": b"ours"})
    (tmp_path / "new.html").unlink()
    (tmp_path / "new.html").mkdir()
    assert "in the way" in refused(tmp_path, FIRST | {"new.html": b"ours"})


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "site", FIRST)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "site/docs").symlink_to(tmp_path / "elsewhere")
    assert "in the way" in refused(tmp_path / "site", FIRST | {"docs/x.html": b"ours"})
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system nobody can write")
def test_a_folder_that_cannot_be_written_is_an_error_not_a_traceback() -> None:
    assert "cannot be written" in refused(Path("/proc/pylit-site"), FIRST)


def test_a_full_disk_leaves_the_site_that_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, FIRST)
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if data == b"second":
            raise OSError(28, "No space left on device", str(self))
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    message = refused(tmp_path, {"index.html": b"first", "a/b.html": b"second"})
    assert "No space left" in message


@pytest.mark.parametrize("damage", ["{ nonsense", "", '{"files": {}}'])
def test_a_damaged_manifest_costs_nothing_that_was_not_built(tmp_path: Path, damage: str) -> None:
    write(tmp_path, FIRST)
    (tmp_path / MANIFEST).write_text(damage)
    new = {path: b"new " + data for path, data in FIRST.items()}
    assert "in the way of a page" in refused(tmp_path, new)
    assert write(tmp_path, FIRST) == ([], [])
    assert write(tmp_path, new) == (sorted(new), [])


def test_a_manifest_that_names_files_elsewhere_deletes_none_of_them(tmp_path: Path) -> None:
    write(tmp_path / "site", FIRST)
    victim = tmp_path / "victim.txt"
    victim.write_bytes(b"years of work")
    (tmp_path / "site/out").symlink_to(tmp_path)
    names = ["../victim.txt", str(victim), "a/../../victim.txt", "out/victim.txt"]
    digests = [hashlib.sha256(b"years of work").hexdigest()]
    (tmp_path / "site" / MANIFEST).write_text(json.dumps({"files": dict.fromkeys(names, digests)}))
    write(tmp_path / "site", FIRST)
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


def test_killed_at_any_moment_every_file_is_whole_and_the_next_build_recovers(
    tmp_path: Path,
) -> None:
    whole = {b"0 " * 500, b"1 " * 500}
    final = {f"d{i % 7}/p{i}.html": b"2 " * 500 for i in range(0, 60, 2)}
    write(tmp_path / "clean", final)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "site")]
    for delay in (0.003, 0.011, 0.029):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
        pages = {path: data for path, data in tree(tmp_path / "site").items() if "html" in path}
        assert set(pages.values()) <= whole | {b"2 " * 500}
        write(tmp_path / "site", final)
        assert tree(tmp_path / "site") == tree(tmp_path / "clean")


@pytest.mark.parametrize("built", [False, True], ids=["first build", "nothing to write"])
def test_what_a_killed_build_leaves_behind_is_removed(tmp_path: Path, built: bool) -> None:
    if built:
        write(tmp_path / "site", {"a.html": b"a"})
    (tmp_path / "site/.pylit-staging").mkdir(parents=True)
    (tmp_path / "site/.pylit-staging/0").write_bytes(b"half")
    (tmp_path / "site/.pylit-manifest.json.new").write_text('{"files"')
    write(tmp_path / "site", {"a.html": b"a"})
    write(tmp_path / "clean", {"a.html": b"a"})
    assert tree(tmp_path / "site") == tree(tmp_path / "clean")


def test_the_manifest_is_widened_before_the_first_page_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two renames: what moved is known as ours, so the next build may replace it."""
    write(tmp_path, {"old.html": b"old"})
    real = Path.replace
    moved: list[str] = []

    def die_after_one(self: Path, target: Path) -> Path:
        if Path(target).suffix == ".html":
            if moved:
                raise KeyboardInterrupt
            moved.append(Path(target).name)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", die_after_one)
    new = {"a.html": b"a", "b.html": b"b"}
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, new, Report())
    monkeypatch.undo()
    assert json.loads((tmp_path / MANIFEST).read_text())["files"].keys() == {"old.html", *new}
    assert (tmp_path / "old.html").exists()
    assert write(tmp_path, new) == (["b.html"], ["old.html"])


def test_an_interrupt_while_a_folder_is_begun_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pylit.outputs.folder.folder_lock", interrupted)
    with pytest.raises(KeyboardInterrupt), Output(tmp_path / "out", Report()):
        pass
    assert not (tmp_path / "out").exists()
