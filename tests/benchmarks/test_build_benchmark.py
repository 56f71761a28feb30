"""The benchmark of the generator: its edits, its rows, and what it leaves out."""

from pathlib import Path

import pytest

from benchmarks import build
from benchmarks.peers import MissingPeer

NOTED = '''\
class A:
    """
    A text that says what it
    will return to you.
    """

    def f(self):
        # Why.
        #
        # Because.
        return 1
'''


def test_edits_of_notes_change_no_code(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text(NOTED)
    build.note_edited(path, 1)
    build.note_edited(path, 2)
    assert path.read_text() == NOTED.replace("Why.", "Why. Edit 2.")


def test_edits_of_code_change_one_statement(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text(NOTED)
    build.code_edited(path, 1)
    build.code_edited(path, 2)
    assert path.read_text() == NOTED.replace("    return 1", "    edited = 2\n        return 1")


@pytest.mark.parametrize("file", [build.LEAF, build.TRUNK])
def test_real_files_can_be_edited(file: str, tmp_path: Path):
    text = (build.ROOT / file).read_text(encoding="utf-8")
    path = tmp_path / "a.py"
    for edit in (build.note_edited, build.code_edited):
        path.write_text(text, encoding="utf-8")
        edit(path, 1)
        once = path.read_text(encoding="utf-8")
        compile(once, file, "exec")
        edit(path, 2)
        twice = path.read_text(encoding="utf-8")
        assert len({text, once, twice}) == 3
        assert twice == once.replace("Edit 1.", "Edit 2.").replace("edited = 1", "edited = 2")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules, and generators that write a file for each."""
    package = tmp_path / "pkg"
    package.mkdir()
    for name in ("__init__.py", "one.py"):
        (package / name).write_text("x = 1\n")

    def write(command, cwd=None, path=None):
        out = next(
            Path(part)
            for part in command
            if "site" in Path(part).name and "." not in str(part)[-3:]
        )
        out.mkdir(parents=True, exist_ok=True)
        for page in ("a.html", "b.html", "c.css"):
            (out / page).write_text("x" * 1000)

    monkeypatch.setattr(build, "run", write)
    monkeypatch.setattr(build, "peer_folder", lambda name: tmp_path / name)
    return package


def test_rows_say_what_came_of_each(small: Path, tmp_path: Path):
    tables = build.measure_foreign(tmp_path / "work", 2, 1, small)
    forms = [build.PYCCO, build.PDOC, build.FIRST, build.NEXT, build.AGAIN]
    assert [row["form"] for row in tables["speed"]] == forms
    assert {row["setting"] for row in tables["speed"]} == {"pkg, 2 modules"}
    assert [row["form"] for row in tables["sites"]] == forms[:3]
    for row in tables["sites"]:
        assert row["pages"] == 2 and row["mb"] == pytest.approx(0.003)
        assert row["pages_a_second"] > 0


def test_peers_that_are_missing_are_left_out(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def missing(name):
        raise MissingPeer(f"{name} is not installed")

    monkeypatch.setattr(build, "peer_folder", missing)
    tables = build.measure_foreign(tmp_path / "work", 1, 1, small)
    assert tables["speed"][0]["form"] == build.FIRST
    assert "pycco is not installed" in capsys.readouterr().out


def test_every_build_has_an_edit_of_its_own():
    edits: list[int] = []
    seen: dict[str, list[int]] = {"new process": [], "process that serves": []}
    builds = {form: (lambda form=form: seen[form].append(edits[-1])) for form in seen}
    rows = build._edited("a note", builds, edits.append, 2, build.ROUNDS)
    assert [(row["edited"], row["form"], row["rounds"]) for row in rows] == [
        ("a note", form, 2) for form in seen
    ]
    assert sorted(seen["new process"] + seen["process that serves"]) == edits
    assert len(set(edits)) == 2 * (2 + 1)
    long = build._edited("code", builds, edits.append, 2, 1)
    assert [row["rounds"] for row in long] == [1, 1] and len(edits) == 8


def test_a_generator_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"(?s)ended with 3:\nno\n"):
        build.run(["-c", "import sys; print('no', file=sys.stderr); sys.exit(3)"])
