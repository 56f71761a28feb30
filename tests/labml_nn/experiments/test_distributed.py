"""Two processes that learn what one learns, and what is said when they cannot."""

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import processes
import pytest
import torch
from processes import codes, start_two
from small_commands import SMALL
from small_runs import MODELS
from sweeps import swept

from labml_nn.experiments.checkpoint import RunError, load_run
from labml_nn.experiments.distributed import Loss, World
from labml_nn.experiments.trainer import Trainer

FEW = ("autoregressive", "encoder_decoder", "elman")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What each of two processes saw of a model, and the path of its files."""
    known = {}

    def train(names):
        if names not in known:
            path = tmp_path_factory.mktemp("two") / "seen"
            children = start_two("train_together", path, *names, said=f"{path}-said")
            assert codes(*children) == [0, 0], Path(f"{path}-said0").read_text()
            known[names] = path
        return known[names]

    def seen(name):
        path = train(FEW if name in FEW else tuple(MODELS))
        return [torch.load(f"{path}{rank}")[name] for rank in range(2)], Path(f"{path}-{name}")

    return seen


@pytest.mark.parametrize("name", swept(MODELS, *FEW))
def test_two_processes_train_what_one_trains(two, tmp_path, name):
    """Both curves, all parameters, and the files and events of one process."""
    both, theirs = two(name)
    train, validation, parameters, _ = processes.train(World(), name, tmp_path / "one")
    assert train[0][1] != train[-1][1]
    for mine in both:
        assert mine[3] == "finished"
        for one, other in ((train, mine[0]), (validation, mine[1])):
            assert [(p[0], p[4]) for p in one] == [(p[0], p[4]) for p in other]
            losses = [[point[1] for point in points] for points in (one, other)]
            torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
        torch.testing.assert_close(mine[2], parameters, rtol=1e-5, atol=1e-8)
    assert all(map(torch.equal, both[0][2], both[1][2]))
    folders = [tmp_path / "one", theirs]
    files = [sorted(p.relative_to(f) for p in f.rglob("*")) for f in folders]
    assert files[0] == files[1]
    assert [load_run(f).about["world_size"] for f in folders] == [1, 2]


def test_a_run_of_two_goes_on_with_one(two, tmp_path):
    """The checkpoint knows nothing of processes."""
    both, folder = two("autoregressive")
    run = load_run(shutil.copytree(folder, tmp_path / "run"))
    model, task = run.new_model().double(), processes.new_task("autoregressive")
    trainer = Trainer(model, task, run.training, run.folder.path)
    trainer.resume()
    assert trainer.history.step == 4
    assert trainer.validate() == pytest.approx(both[0][1][-1][1])


# The command line.
def command(name, out, text, *more):
    words = ["train", name, *SMALL[name], "--text", text, "--out", out, "--preset", "tiny", *more]
    return list(map(str, words))


def check_run_of_two(folder, said, alone):
    """The losses of one process, one set of files, and one process that talks."""
    assert "parameters on 2 x cpu" in said
    for once in ("a model with ", "6 updates in", "step 6: validation loss"):
        assert said.count(once) == 1
    runs = load_run(folder), load_run(alone)
    for kind in ("train", "validation"):
        losses = [[p[1] for p in run.result()["curve"][kind]] for run in runs]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_command_in_two_processes(tmp_path, text_file, trained):
    words = command("elman", tmp_path / "run", text_file)
    children = start_two("command_line", *words, said=tmp_path / "said")
    assert codes(*children) == [0, 0]
    said = "".join((tmp_path / f"said{rank}").read_text() for rank in range(2))
    check_run_of_two(tmp_path / "run", said, trained("elman"))


@pytest.mark.sweep
def test_torchrun(tmp_path, text_file, trained):
    """As a user would start it."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = command("elman", tmp_path / "run", text_file)
    child = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", "-m", "labml_nn", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(processes.ROOT)},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    check_run_of_two(tmp_path / "run", child.stdout + child.stderr, trained("elman"))


def test_when_one_is_killed_the_other_ends_and_the_checkpoint_is_good(tmp_path, text_file):
    out, checkpoint = tmp_path / "run", tmp_path / "run" / "checkpoint.pt"
    more = ("--steps", "1000000", "--save-every", "5", "--evaluate-every", "0", "--quiet")
    words = command("elman", out, text_file, *more, "--sample-every", "0")
    children = start_two("command_line", *words, said=tmp_path / "said")
    seen = set()
    while len(seen) < 3:
        assert children[0].is_alive(), (tmp_path / "said0").read_text()
        time.sleep(0.05)
        seen |= {checkpoint.stat().st_mtime_ns} if checkpoint.exists() else set()
    children[1].kill()
    assert codes(*children) == [1, -signal.SIGKILL]
    said = (tmp_path / "said0").read_text()
    assert "process 0: error: process 0 of 2 lost the others" in said
    assert "--resume" in said and "Traceback" not in said

    run = load_run(out)
    trainer = Trainer(run.new_model(), run.task(), run.training, out)
    trainer.resume()
    assert trainer.history.step > 0 and trainer.history.step % 5 == 0
    assert trainer.validate() < 4


# In one process.
def test_one_process_sends_nothing():
    world, model = World(), processes.new_model("elman")
    batch, wrapped = processes.new_task("elman").batch(0), World().wrap(model)
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
        ({"WORLD_SIZE": "1", "RANK": "0"}, World()),
        ({}, World(4, 6, 1)),
        ({"RANK": ""}, r"6 processes \(WORLD_SIZE\), but RANK is ''; start with torchrun"),
        ({"MASTER_PORT": ""}, "but MASTER_PORT is ''"),
        ({"LOCAL_RANK": "one"}, "but LOCAL_RANK is 'one'"),
    ],
)
def test_the_environment_is_read(given, outcome, monkeypatch):
    usual = {"WORLD_SIZE": "6", "RANK": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    for name, value in {**usual, "MASTER_PORT": "29", **given}.items():
        monkeypatch.setenv(name, value)
    if isinstance(outcome, World):
        assert World.announced() == outcome
    else:
        with pytest.raises(ValueError, match=outcome):
            World.announced()


def test_the_other_process_never_comes(monkeypatch):
    for name, value in processes.environment(1, 2, processes.free_port()).items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings(), pytest.raises(RunError) as caught:
        warnings.simplefilter("ignore")
        World.join(torch.device("cpu"), patience=0.3)
    assert "process 1 of 2 did not reach the others at 127.0.0.1:" in str(caught.value)


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
    for part in ("process 1 of 2 lost", "(Connection closed by peer [127.0.0.1]:1234)", "--resume"):
        assert part in str(caught.value)
    for world, words in ((World(1, 2), "shapes cannot be multiplied"), (World(), lost)):
        with pytest.raises(RuntimeError) as passed, world.together():
            raise RuntimeError(words)
        assert type(passed.value) is RuntimeError
