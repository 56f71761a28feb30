"""Files of checkpoints: whole or not at all, and read with distrust."""

import errno
import os
import pickle

import pytest
import torch

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.checkpoint import (
    check_belongs,
    read_checkpoint,
    write_checkpoint,
)

STATE = {
    "about": {"model": "elman"},
    "model": {"weight": torch.arange(6.0)},
    "update": {"optimizers": [{"lr": 0.5, "betas": (0.9, 0.99)}]},
    "history": {"step": 3},
}


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, STATE)
    state = read_checkpoint(path)
    assert torch.equal(state["model"]["weight"], torch.arange(6.0))
    assert state["update"] == STATE["update"] and state["history"] == {"step": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("where", ["write", "fsync", "rename"])
def test_a_full_disk_costs_nothing_old(tmp_path, monkeypatch, where):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, STATE)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    elif where == "rename":
        monkeypatch.setattr(type(path), "replace", full)
    else:
        monkeypatch.setattr(type(path), "open", full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(path, {**STATE, "history": {"step": 4}})
    monkeypatch.undo()
    assert read_checkpoint(path)["history"] == {"step": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95])
def test_half_a_file_is_damaged(tmp_path, share):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, STATE)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(RunError, match=r"checkpoint.pt is damaged .* the best model of the run"):
        read_checkpoint(path)


def test_a_file_of_something_else_is_damaged(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save([1, 2, 3], path)
    with pytest.raises(RunError, match="is damaged"):
        read_checkpoint(path)
    torch.save({"format": 1, "model": {}}, path)
    with pytest.raises(RunError, match=r"is damaged .*without about, update, history"):
        read_checkpoint(path)


class Dangerous:
    def __reduce__(self):
        return os.mkdir, (str(Dangerous.path),)


def test_nothing_in_it_is_run(tmp_path):
    Dangerous.path = tmp_path / "made"
    path = tmp_path / "checkpoint.pt"
    torch.save({"format": 1, **STATE, "history": Dangerous()}, path)
    with pytest.raises(RunError, match="is damaged"):
        read_checkpoint(path)
    path.write_bytes(pickle.dumps(Dangerous()))
    with pytest.raises(RunError, match="is damaged"):
        read_checkpoint(path)
    assert not Dangerous.path.exists()


def test_none_is_there(tmp_path):
    with pytest.raises(RunError, match=r"there is no .*checkpoint.pt to go on from; start the run"):
        read_checkpoint(tmp_path / "checkpoint.pt")


def test_one_of_the_future_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"format": 2, **STATE}, path)
    with pytest.raises(RunError, match="has format 2, and this version of labml-nn reads 1"):
        read_checkpoint(path)


OURS = {
    "model": "elman",
    "model_config": {"d_hidden": 14},
    "training": {"learning_rate": 0.1, "device": "cpu", "save_every": 5},
    "corpus": "86c4",
}


def test_what_may_differ(tmp_path):
    other = {**OURS, "training": {"learning_rate": 0.1, "device": "cuda", "save_every": 9}}
    check_belongs(tmp_path, OURS, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "feedback"}, "model: 'elman' there and 'feedback' here"),
        ({"corpus": "ffff"}, "corpus: '86c4' there and 'ffff' here"),
        ({"model_config": {"d_hidden": 15}}, "d_hidden: 14 there and 15 here"),
        ({"model_config": {}}, "d_hidden: 14 there and None here"),
        (
            {"training": {"learning_rate": 0.2, "device": "cpu", "save_every": 5}},
            "learning_rate: 0.1 there and 0.2 here",
        ),
    ],
)
def test_what_may_not(tmp_path, changes, message):
    with pytest.raises(RunError, match=r"belongs to another run:\n  .*\ngo on with") as error:
        check_belongs(tmp_path / "checkpoint.pt", OURS, {**OURS, **changes})
    assert message in str(error.value)
