"""Results of runs: what is read, what is refused, and what they say side by side."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from labml_nn.experiments.results import (
    LONGEST_CURVE,
    Spread,
    at_equal,
    comparable,
    final,
    read_result,
    small,
    thinned,
)

RESULT: dict[str, Any] = {
    "run": {
        "experiment": "elman",
        "variant": None,
        "preset": "tiny",
        "model": {"name": "elman", "config": {"n_vocab": 65}},
        "training": {"seed": 3, "steps": 20},
        "task": "text",
        "corpus": {"name": "A text", "sha256": "ab" * 32, "path": "/home/me/text.txt"},
        "versions": {"torch": "2.13.0"},
        "commit": "abc",
        "hardware": {"device": "cpu", "name": "A processor", "cores": 2, "threads": 1},
    },
    "parameters": 1234,
    "result": {
        "step": 20,
        "train_loss": 2.05,
        "validation_loss": 2.5,
        "best_validation_loss": 2.5,
        "seconds": 9.123456,
        "process_seconds": 8.0,
        "tokens": 2000,
        "stopped": "finished",
    },
    "curve": {
        "train": [[5, 3.9, 2.0, 2.0, 500], [20, 2.05, 9.0, 8.0, 2000]],
        "validation": [
            [0, 4.1, 0.0, 0.0, 0],
            [10, 3.0, 4.0, 3.0, 1000],
            [20, 2.5, 9.0, 8.0, 2000],
        ],
    },
    "samples": [{"step": 10, "text": "a"}, {"step": 20, "text": "b"}],
}


@pytest.fixture
def data() -> dict[str, Any]:
    return copy.deepcopy(RESULT)


def written(folder: Path, data: Any, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_result_is_what_the_file_says(tmp_path: Path, data: dict[str, Any]):
    found = read_result(written(tmp_path, data))
    assert (found.loss, found.parameters, found.corpus) == (2.5, 1234, "A text")
    assert found.finished
    assert found.last == (20, 2.5, 9.0, 8.0, 2000)
    assert [point.step for point in found.train] == [5, 20]
    assert found.samples[-1]["text"] == "b"


def test_between_two_points_a_curve_is_straight(tmp_path: Path, data: dict[str, Any]):
    found = read_result(written(tmp_path, data))
    assert found.loss_at(10, "step") == 3.0
    assert found.loss_at(15, "step") == pytest.approx(2.75)
    assert found.loss_at(500, "tokens") == pytest.approx(3.55)
    # Of 3 to 8 seconds of the processor one is a fifth, and of 4 to 9 on the wall none.
    assert found.loss_at(4.0, "process_seconds") == pytest.approx(2.9)
    assert found.loss_at(4.0, "seconds") == 3.0
    assert found.loss_at(20, "step") == 2.5


@pytest.mark.parametrize("amount", [-1, 21])
def test_what_was_not_measured_is_not_known(amount: int, tmp_path: Path, data: dict[str, Any]):
    found = read_result(written(tmp_path, data))
    with pytest.raises(ValueError, match=rf"between 0 and 20 step, and none at {amount}"):
        found.loss_at(amount, "step")


def test_points_that_cost_nothing_are_no_division_by_zero(tmp_path: Path, data: dict[str, Any]):
    data["curve"]["validation"][1][3] = 0.0
    found = read_result(written(tmp_path, data))
    assert found.loss_at(0.0, "process_seconds") == 3.0
    del data["curve"]["validation"][1:]
    assert read_result(written(tmp_path, data)).loss_at(0.0, "seconds") == 4.1


@pytest.mark.parametrize("place", ["run", "parameters", "result", "curve"])
def test_a_file_without_a_part_is_no_result(place: str, tmp_path: Path, data: dict[str, Any]):
    del data[place]
    with pytest.raises(ValueError, match=f"result.json is no result of a run: it has no '{place}'"):
        read_result(written(tmp_path, data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["run"].pop("corpus"), "it has no 'corpus'"),
        (lambda d: d["result"].pop("stopped"), "it has no 'stopped'"),
        (lambda d: d["curve"].pop("validation"), "it has no 'validation'"),
        (lambda d: d["curve"].update(validation=[]), "has no validation loss"),
        (lambda d: d["curve"].update(train=7), "of another kind than the trainer writes"),
        (lambda d: d.update(run=None), "of another kind than the trainer writes"),
        (lambda d: d["curve"]["validation"].reverse(), "goes back from update 20 to 10"),
        (lambda d: d["curve"]["train"].append([1, 2]), "of another kind than the trainer writes"),
        (lambda d: d["curve"]["train"][0].__setitem__(1, "x"), "of another kind than"),
    ],
)
def test_what_cannot_be_is_named(change: Any, message: str, tmp_path: Path, data: dict[str, Any]):
    change(data)
    with pytest.raises(ValueError, match=message):
        read_result(written(tmp_path, data))


def test_files_that_are_not_there_or_no_json(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no result"):
        read_result(tmp_path / "no.json")
    torn = tmp_path / "torn.json"
    torn.write_text('{"run": ', encoding="utf-8")
    with pytest.raises(ValueError, match=r"torn\.json is no JSON that can be read"):
        read_result(torn)
    torn.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"torn\.json is no JSON that can be read"):
        read_result(torn)


def test_spreads():
    spread = Spread.of([1.7, 1.9, 1.5])
    assert spread.mean == pytest.approx(1.7)
    assert (spread.low, spread.high, spread.n) == (1.5, 1.9, 3)
    assert spread.apart(Spread.of([2.0])) and Spread.of([1.0, 1.4]).apart(spread)
    assert not spread.apart(Spread.of([1.9, 2.5]))
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])


def seeds(folder: Path, data: dict[str, Any], losses: list[float]) -> list[Any]:
    found = []
    for seed, loss in enumerate(losses):
        data["curve"]["validation"][-1][1] = loss
        found.append(read_result(written(folder, data, f"seed{seed}.json")))
    return found


def test_runs_side_by_side(tmp_path: Path, data: dict[str, Any]):
    runs = seeds(tmp_path, data, [2.0, 2.2, 2.4])
    assert final(runs) == (pytest.approx(2.2), 2.0, 2.4, 3)
    halfway = at_equal(runs, 15, "step")
    assert (halfway.low, halfway.high) == (pytest.approx(2.5), pytest.approx(2.7))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["run"]["corpus"].update(name="A text (cut)"),
            r"seed1.json and .*seed0.json are of another text \(A text \(cut\), abab",
        ),
        (lambda d: d["run"]["corpus"].update(sha256="cd" * 32), "of another text"),
        (lambda d: d["run"].update(task="replies"), r"of another task \(replies and text\)"),
        (lambda d: d["result"].update(stopped="interrupted"), r"before its end \(interrupted\)"),
    ],
)
def test_what_is_not_alike_is_not_compared(
    change: Any, message: str, tmp_path: Path, data: dict[str, Any]
):
    first = read_result(written(tmp_path, data, "seed0.json"))
    change(data)
    second = read_result(written(tmp_path, data, "seed1.json"))
    with pytest.raises(ValueError, match=message):
        comparable([first, second])
    with pytest.raises(ValueError, match="nothing to compare"):
        comparable([])


def test_what_is_kept_is_short_and_says_nothing_of_a_disk(tmp_path: Path, data: dict[str, Any]):
    data["curve"]["train"] = [[i, 4 - i / 997, 0.123456 * i, i, 7 * i] for i in range(997)]
    kept = small(data)
    text = json.dumps(kept)
    assert "/home/me" not in text and kept["run"]["corpus"]["path"] is None
    assert len(text) < 5_000 and "123456" not in text
    assert kept["curve"]["train"][-1][0] == 996
    assert kept["result"]["seconds"] == 9.1235
    assert kept["samples"] == [{"step": 20, "text": "b"}]
    assert read_result(written(tmp_path, kept)).loss == 2.5
    # What was given is as it was.
    assert data["run"]["corpus"]["path"] == "/home/me/text.txt"


@pytest.mark.parametrize("count", [0, 1, 59, 60, 61, 119, 120, 1000])
def test_thinned_curves_keep_both_ends(count: int):
    rows = thinned(list(range(count)))
    assert len(rows) <= LONGEST_CURVE
    assert rows[:1] + rows[-1:] == ([0, count - 1] if count else [])
    assert rows == sorted(set(rows))
