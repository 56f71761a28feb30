"""Two processes that learn what one learns, and what is said when they cannot."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import distributed_worker as worker
import pytest
import torch
from two_processes import environment, free_port

from labml_nn.experiments.checkpoint import RunError, load_run
from labml_nn.experiments.distributed import Loss, World
from labml_nn.experiments.trainer import Trainer

SCRIPT = Path(worker.__file__)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What each of two processes saw."""
    path, port = tmp_path_factory.mktemp("two") / "seen", free_port()
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "error", SCRIPT, path],
            env=environment(rank, 2, port),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [child.communicate(timeout=120)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], "\n".join(said)
    return [torch.load(f"{path}{rank}") | {"path": path} for rank in range(2)]


@pytest.mark.parametrize("name", worker.MODELS)
def test_two_processes_train_what_one_trains(two, tmp_path, name):
    """Both curves, all parameters, and the files and events of one process."""
    folder = tmp_path / "one"
    train, validation, parameters, _ = worker.train(World(), name, folder)
    assert train[0][1] != train[-1][1]
    for seen in two:
        mine = seen[name]
        assert mine[3] == "finished"
        for ours, theirs in ((train, mine[0]), (validation, mine[1])):
            assert [(p[0], p[4]) for p in ours] == [(p[0], p[4]) for p in theirs]
            losses = [[point[1] for point in points] for points in (ours, theirs)]
            torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
        torch.testing.assert_close(mine[2], parameters, rtol=1e-5, atol=1e-8)
    first, second = (seen[name][2] for seen in two)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    folders = [folder, Path(f"{two[0]['path']}-{name}")]
    files = [sorted(p.relative_to(f) for p in f.rglob("*")) for f in folders]
    assert files[0] == files[1]
    assert [load_run(f).about["world_size"] for f in folders] == [1, 2]
    # `find_unused_parameters` is off: one without a gradient would be waited for.
    model, batch = worker.new_model(name), worker.new_task(name).batch(0)
    model.loss(batch.tokens, batch.targets).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_a_run_of_two_goes_on_with_one(two, tmp_path):
    """The checkpoint knows nothing of processes."""
    run = load_run(shutil.copytree(f"{two[0]['path']}-autoregressive", tmp_path / "run"))
    model, task = run.new_model().double(), worker.new_task("autoregressive")
    trainer = Trainer(model, task, run.training, run.folder.path)
    trainer.resume()
    assert trainer.history.step == 4
    assert trainer.validate() == pytest.approx(two[0]["autoregressive"][1][-1][1])


def test_one_process_sends_nothing():
    world, model = World(), worker.new_model("elman")
    batch, wrapped = worker.new_task("elman").batch(0), World().wrap(model)
    assert type(wrapped) is Loss
    with world.no_sync(wrapped):
        assert wrapped(batch.tokens, batch.targets) == model.loss(batch.tokens, batch.targets)
    assert world.sum(1.5, 2.0) == (1.5, 2.0)
    world.barrier()
    world.leave()
    assert World.join(torch.device("cpu")) == world


def test_shares_are_the_batch():
    assert [World(rank, 3).share(12, 2) for rank in range(3)] == [(0, 4), (4, 8), (8, 12)]
    for size, batch_size, accumulate, more in ((2, 13, 3, 18), (1, 3, 4, 4), (5, 32, 1, 35)):
        with pytest.raises(ValueError, match=f"divisible by {size * accumulate}.* try {more}"):
            World(0, size).share(batch_size, accumulate)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"WORLD_SIZE": "", "RANK": ""}, None),
        ({"WORLD_SIZE": "1", "RANK": "0"}, World()),
        ({}, World(4, 6, 1)),
        ({"RANK": ""}, "announces 6 processes (WORLD_SIZE), but RANK is ''; start with torchrun"),
        ({"MASTER_PORT": ""}, "but MASTER_PORT is ''"),
        ({"LOCAL_RANK": "one"}, "but LOCAL_RANK is 'one'"),
    ],
)
def test_the_environment_is_read(given, outcome, monkeypatch):
    usual = {"WORLD_SIZE": "6", "RANK": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    for name, value in {**usual, "MASTER_PORT": "29", **given}.items():
        monkeypatch.setenv(name, value)
    if outcome is None:
        monkeypatch.delenv("WORLD_SIZE")
        outcome = World()
    if isinstance(outcome, World):
        assert World.announced() == outcome
    else:
        with pytest.raises(ValueError) as caught:
            World.announced()
        assert outcome in str(caught.value)


def test_nobody_to_meet(monkeypatch):
    """A world of two in which the other never comes."""
    for name, value in environment(1, 2, free_port()).items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings(), pytest.raises(RunError) as caught:
        warnings.simplefilter("ignore")
        World.join(torch.device("cpu"), patience=0.3)
    assert "process 1 of 2 did not reach the others at 127.0.0.1:" in str(caught.value)
    assert "start all of them with torchrun" in str(caught.value)


def test_a_gpu_for_each(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert World(3, 4, 1).device(cuda) == torch.device("cuda", 1)
    assert World(3, 4, 1).device(cpu) == cpu
    assert World().device(torch.device("cuda", 1)) == torch.device("cuda", 1)
    for device in (cuda, torch.device("cuda", 1)):
        with pytest.raises(ValueError, match="this one number 2 of 2; use the device 'cuda'"):
            World(2, 3, 2).device(device)


def test_silence_is_told_and_other_errors_pass():
    lost = "[gloo/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234. Good luck!\nmore"
    with pytest.raises(RunError) as caught, World(1, 2).together():
        raise RuntimeError(lost)
    assert str(caught.value).startswith("process 1 of 2 lost the others: one of them has ended")
    assert "(Connection closed by peer [127.0.0.1]:1234)" in str(caught.value)
    assert "--resume" in str(caught.value)
    for world, words in ((World(1, 2), "shapes cannot be multiplied"), (World(), lost)):
        with pytest.raises(RuntimeError) as passed, world.together():
            raise RuntimeError(words)
        assert type(passed.value) is RuntimeError
