"""The tasks of the lessons: every run is kept, and of the program as it is now."""

import json
import math
from pathlib import Path

import pytest

from docs_src import tasks
from docs_src.tasks import __main__ as command
from docs_src.tasks import digest, kept, load, names, results, seeds


@pytest.mark.parametrize("name", names())
def test_every_run_is_kept_and_finite(name):
    found = kept(name)
    assert [(run.model, run.seed) for run in found] == [
        (model, seed) for model in load(name).MODELS for seed in seeds(name)
    ]
    assert len(seeds(name)) >= 5
    assert {run.digest for run in found} == {digest(name)}, "make the runs of the new program"
    for value in (value for run in found for value in run.measured.values()):
        assert all(map(math.isfinite, value if isinstance(value, list) else [value]))


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task that needs no training."""
    (tmp_path / "counting.py").write_text(
        'MODELS, SEEDS = ("with", "without"), (3, 4)\n\n\n'
        "def run(model, seed):\n"
        '    """Counts."""\n'
        '    return {"accuracy": seed / 8 if model == "with" else 0.0, "curve": [1.0, seed]}\n'
    )
    monkeypatch.setattr(tasks, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(tasks, "__path__", [str(tmp_path)])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path / "counting.py"


def measure() -> None:
    found = {run: command.measure("counting", *run) for run in command.jobs("counting")}
    command.write("counting", found)


def test_results_by_model(counting: Path):
    with pytest.raises(ValueError, match=r"no result of with with seed 3, .*docs_src.tasks count"):
        results("counting", "accuracy")
    measure()
    assert results("counting", "accuracy") == {"with": [3 / 8, 0.5], "without": [0.0, 0.0]}
    assert command.check("counting")


def test_a_changed_program_and_a_changed_result_are_found(counting: Path):
    measure()
    before = digest("counting")
    counting.write_text(counting.read_text().replace('"""Counts."""', '"""Counts up."""'))
    assert digest("counting") == before
    counting.write_text(counting.read_text().replace("seed / 8", "seed / 9"))
    assert digest("counting") != before
    lines = counting.with_suffix(".jsonl").read_text().splitlines()
    changed = json.loads(lines[0])
    changed["measured"]["curve"] = [1.0, 2.0]
    counting.with_suffix(".jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]))
    assert not command.check("counting")
