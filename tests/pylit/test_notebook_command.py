"""``python -m pylit.notebooks``: makes, runs, checks, and says what is wrong."""

import json
from pathlib import Path

import notebook_tools as tools
import pytest
from notebook_tools import replace

from pylit.notebooks import command
from pylit.notebooks.model import NotebookError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tools.tree(tmp_path)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the notebooks that were run; running takes no time here."""
    found: list[str] = []

    def executed(made):
        name = made["metadata"]["labml_nn"]["notebook"]
        found.append(name)
        run = {
            "date": "d",
            "hardware": "h",
            "preset": "p",
            "python": "3",
            "seconds": 2,
            "torch": "2",
        }
        made["metadata"]["labml_nn"]["run"] = run
        return made

    monkeypatch.setattr(command, "executed", executed)
    return found


def run(root: Path, *arguments: str) -> int:
    return command.main(["--root", str(root), *arguments])


def test_what_has_changed_is_made_and_run(root: Path, runs: list[str], capsys):
    file = root / "notebooks" / "grow.ipynb"
    assert run(root, "--check") == 1
    assert "grow.ipynb is not what its sources say; run `make notebooks`" in capsys.readouterr().err
    assert run(root) == 0
    assert runs == ["grow"]
    first = file.read_bytes()
    assert run(root, "--check") == run(root) == 0
    assert runs == ["grow"] and file.read_bytes() == first

    replace(root / "pkg/leaf.py", "It *doubles*", "It *really doubles*")
    assert run(root, "--check") == 1
    assert run(root, "grow") == 0
    assert runs == ["grow"] and b"really" in file.read_bytes()

    replace(root / "pkg/leaf.py", "FACTOR = 2", "FACTOR = 4")
    assert run(root) == 0 and runs == ["grow"] * 2
    assert run(root, "--execute") == 0 and runs == ["grow"] * 3
    assert [path.name for path in file.parent.iterdir()] == ["grow.ipynb"]


def test_what_is_wrong_is_said_and_nothing_is_lost(
    root: Path, runs: list[str], capsys, monkeypatch
):
    assert run(root) == 0
    before = (root / "notebooks/grow.ipynb").read_bytes()
    assert run(root, "gorw") == 1
    assert "there is no notebook 'gorw'; did you mean grow?" in capsys.readouterr().err

    def failing(made):
        raise NotebookError("grow: a cell failed\nZeroDivisionError")

    monkeypatch.setattr(command, "executed", failing)
    replace(root / "pkg/leaf.py", "FACTOR = 2", "FACTOR = 0")
    assert run(root) == 1
    assert "error: grow: a cell failed\nZeroDivisionError" in capsys.readouterr().err
    assert (root / "notebooks/grow.ipynb").read_bytes() == before

    def interrupted(made):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "executed", interrupted)
    assert run(root) == 130
    (root / "notebooks/grow.ipynb").write_text("{")
    assert run(root) == 1
    assert "grow.ipynb cannot be read" in capsys.readouterr().err


def test_a_real_run_and_one_that_fails(root: Path, capsys):
    """In a process of its own, with what it printed, and where and when that was."""
    assert run(root) == 0
    made = json.loads((root / "notebooks/grow.ipynb").read_text())
    *_, last, _ = (cell for cell in made["cells"] if cell["cell_type"] == "code")
    assert last["outputs"] == [
        {"name": "stdout", "output_type": "stream", "text": ["15.14 of root 3\n"]}
    ]
    told = made["metadata"]["labml_nn"]["run"]
    assert told["seconds"] > 0 and told["hardware"] and told["python"]
    assert told["hardware"] in "".join(made["cells"][1]["source"])

    replace(root / "docs_src/notebooks/grow.md", "x = 3", "x = 0")
    assert run(root) == 1
    assert "grow: a cell failed" in (told := capsys.readouterr().err)
    assert "ValueError: zero" in told
