"""`train` under torchrun, as a user would start it; and what happens when one is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_commands import SMALL

from labml_nn.experiments.checkpoint import load_run
from labml_nn.experiments.command_line import main
from labml_nn.experiments.trainer import Trainer

ROOT = Path(__file__).parents[3]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def command(name, out, text, *more):
    words = ["train", name, *SMALL[name], "--text", text, "--out", out, "--preset", "tiny", *more]
    return ["-m", "labml_nn", *map(str, words)]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torchrun(words, processes=2):
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(processes)),
            *words,
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_torchrun_trains_as_one_process_does(tmp_path, text_file, trained):
    """The same losses, one set of files, and one process that talks."""
    child = torchrun(command("encoder_decoder", tmp_path / "run", text_file))
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("a model with ") == 1 and child.stdout.count("6 updates in") == 1
    assert "parameters on 2 x cpu" in child.stdout
    assert child.stderr.count("step 6: validation loss") == 1
    ours, one = load_run(tmp_path / "run"), load_run(trained("encoder_decoder"))
    assert (ours.about["world_size"], one.about["world_size"]) == (2, 1)
    for kind in ("train", "validation"):
        losses = [[p[1] for p in run.result()["curve"][kind]] for run in (ours, one)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.fixture
def announce(monkeypatch):
    """Say what torchrun would say, in this process."""

    def set_variables(rank, size):
        variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        for name, value in {**variables, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
            monkeypatch.setenv(name, value)

    return set_variables


@pytest.mark.parametrize("rank", [0, 1])
def test_shares_that_are_unequal_are_refused_before_anyone_waits(
    capsys, tmp_path, text_file, announce, rank
):
    """And by one of them, for all."""
    announce(rank, 4)
    assert main(command("feedback", tmp_path / "run", text_file)[2:]) == 2
    said = capsys.readouterr().err
    message = "process 0: error: `batch_size` (6) must be divisible by 4, the number"
    assert said.startswith(message) if rank == 0 else said == ""
    assert not (tmp_path / "run").exists()


def start_two(words):
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *words],
            env=ENVIRONMENT
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def test_when_one_is_killed_the_other_ends_and_the_checkpoint_is_good(tmp_path, text_file):
    out = tmp_path / "run"
    steps = ("--steps", "1000000", "--save-every", "5", "--evaluate-every", "0", "--quiet")
    words = command("elman", out, text_file, *steps, "--sample-every", "0")
    children = start_two(words)
    try:
        first = saved_at(out, children)
        while saved_at(out, children) == first:
            time.sleep(0.05)
        children[1].send_signal(signal.SIGKILL)
        begun = time.monotonic()
        said = children[0].communicate(timeout=60)[1]
        assert time.monotonic() - begun < 20
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert children[0].returncode == 1
    assert "process 0: error: process 0 of 2 lost the others" in said
    assert "--resume" in said and "Traceback" not in said

    run = load_run(out)
    trainer = Trainer(run.new_model(), run.task(), run.training, out)
    trainer.resume()
    assert trainer.history.step > 0 and trainer.history.step % 5 == 0
    assert trainer.validate() < 4


def saved_at(folder, children):
    """When the checkpoint was written, as soon as there is one."""
    while not (folder / "checkpoint.pt").exists():
        ended = [child for child in children if child.poll() is not None]
        assert not ended, ended[0].communicate()[1]
        time.sleep(0.1)
    return (folder / "checkpoint.pt").stat().st_mtime_ns
