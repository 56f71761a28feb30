"""`train` under torchrun, as a user would start it; and what happens when one is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from small_commands import SMALL
from two_processes import ROOT, environment, free_port

from labml_nn.experiments.checkpoint import load_run
from labml_nn.experiments.trainer import Trainer


def command(name, out, text, *more):
    words = ["train", name, *SMALL[name], "--text", text, "--out", out, "--preset", "tiny", *more]
    return ["-m", "labml_nn", *map(str, words)]


def test_torchrun_trains_as_one_process_does(tmp_path, text_file, trained):
    """The same losses, one set of files, and one process that talks."""
    child = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", *command("encoder_decoder", tmp_path / "run", text_file)),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("a model with ") == 1 and child.stdout.count("6 updates in") == 1
    assert "parameters on 2 x cpu" in child.stdout
    assert child.stderr.count("step 6: validation loss") == 1
    ours, one = load_run(tmp_path / "run"), load_run(trained("encoder_decoder"))
    assert (ours.about["world_size"], one.about["world_size"]) == (2, 1)
    for kind in ("train", "validation"):
        losses = [[p[1] for p in run.result()["curve"][kind]] for run in (ours, one)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_when_one_is_killed_the_other_ends_and_the_checkpoint_is_good(tmp_path, text_file):
    out = tmp_path / "run"
    steps = ("--steps", "1000000", "--save-every", "5", "--evaluate-every", "0", "--quiet")
    words = command("elman", out, text_file, *steps, "--sample-every", "0")
    port = free_port()
    children = [
        subprocess.Popen(
            [sys.executable, *words],
            env=environment(rank, 2, port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
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
