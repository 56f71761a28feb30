"""The runner of studies: what is begun, kept, left for another time, and told."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from test_results import RESULT

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.results import read_result
from labml_nn.experiments.studies import STUDIES, Job, Run, Study, jobs
from labml_nn.experiments.studies import runner as module
from labml_nn.experiments.studies.runner import LARGEST, Runner, keep, main, plan, write_json
from labml_nn.experiments.training.folder import load_run
from labml_nn.experiments.training.task import TextTask

HEADS = [Job("heads", label, seed) for label, seed in (("1", 1), ("2", 2), ("8", 3))]


def result_of(job: Job) -> dict[str, Any]:
    """What a run of this job would have left."""
    data: dict[str, Any] = copy.deepcopy(RESULT)
    data["run"]["experiment"] = job.run.experiment
    data["run"]["training"] = {**job.run.training, "seed": job.seed}
    data["run"]["model"]["config"] = {"n_vocab": 65, **job.run.model}
    return data


def script(code: str) -> subprocess.Popen[str]:
    """A process in the place of a run."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_all_are_made_two_at_a_time_and_one_that_fails_takes_no_other_with_it(
    capsys: pytest.CaptureFixture[str],
):
    codes = dict(zip(HEADS, ("print('1.5')", "raise SystemExit('no memory')", ""), strict=True))
    kept: list[Job] = []
    most = 0

    def start(job: Job) -> subprocess.Popen[str]:
        nonlocal most
        most = max(most, len(runner.running) + 1)
        return script(codes[job])

    runner = Runner(HEADS, start, kept.append, count=2)
    assert not runner.run()
    assert sorted(kept) == [HEADS[0], HEADS[2]]
    assert runner.failed == [HEADS[1]] and not runner.stopped
    assert most == 2
    told = capsys.readouterr().out
    assert "heads/1/seed1: 1.5\n" in told
    assert "heads/2/seed2: no memory\n" in told
    assert "heads/8/seed3: it ended with status 0" in told


def test_the_longest_is_begun_first():
    todo = [Job("feedback_depth", f"feedback-{layers}", 1) for layers in (1, 8, 2)]
    runner = Runner(todo, lambda _: script(""), lambda _: None, count=1)
    assert [job.label for job in runner.todo] == ["feedback-8", "feedback-2", "feedback-1"]


ASLEEP = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
print("ready", flush=True)
time.sleep(60)
"""


def test_when_time_is_up_those_that_run_are_asked_to_save(capsys: pytest.CaptureFixture[str]):
    kept: list[Job] = []

    def start(_: Job) -> subprocess.Popen[str]:
        process = script(ASLEEP)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    runner = Runner(HEADS, start, kept.append, count=2, minutes=0.005)
    begun = time.monotonic()
    assert not runner.run()
    assert time.monotonic() - begun < 20
    assert kept == [] and sorted(runner.stopped) == HEADS and not runner.running
    assert "time is up" in capsys.readouterr().out


def test_ctrl_c_saves_those_that_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    looks = iter([KeyboardInterrupt])
    look = Runner._look

    def interrupted(runner: Runner) -> None:
        for error in looks:
            raise error
        look(runner)

    monkeypatch.setattr(Runner, "_look", interrupted)
    runner = Runner(HEADS[:1], lambda _: script(ASLEEP), lambda _: None)
    assert not runner.run()
    assert runner.stopped == HEADS[:1]
    assert "interrupted" in capsys.readouterr().out


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job whose run is over, of a study that ships."""
    run = Run("elman", {}, {"steps": 20})
    monkeypatch.setitem(STUDIES, "shipped", Study("?", {"elman": run}, (1,), ships=True))
    job = Job("shipped", "elman", 1)
    folder = tmp_path / "runs" / str(job)
    (folder / "model").mkdir(parents=True)
    (folder / "model/config.json").write_text("{}")
    (folder / "model/model.safetensors").write_bytes(b"1234")
    (folder / "vocabulary.json").write_text('{"characters": "ab"}')
    (folder / "checkpoint.pt").write_bytes(b"large")
    (folder / "result.json").write_text(json.dumps(RESULT))
    (folder / "run.json").write_text(json.dumps(RESULT["run"]))
    return job


def test_a_model_that_comes_along_has_four_things(tmp_path: Path, finished: Job):
    path = keep(finished, tmp_path / "runs", tmp_path / "results")
    assert path == tmp_path / "results/elman/result.json"
    found = sorted(p.relative_to(path.parent).as_posix() for p in path.parent.rglob("*"))
    assert found == [
        "model",
        "model/config.json",
        "model/model.safetensors",
        "result.json",
        "run.json",
        "vocabulary.json",
    ]
    assert "/home/me" not in (path.parent / "run.json").read_text()
    assert json.loads((path.parent / "run.json").read_text())["experiment"] == "elman"
    assert read_result(path).loss == 2.5


def test_a_model_that_is_too_large_stays_at_home(tmp_path: Path, finished: Job):
    model = tmp_path / "runs" / str(finished) / "model/model.safetensors"
    model.write_bytes(bytes(LARGEST))
    with pytest.raises(RunError, match=r"takes 2,000,002 bytes and may take 2,000,000"):
        keep(finished, tmp_path / "runs", tmp_path / "results")
    assert not (tmp_path / "results/elman/model").exists()


def test_rows_of_numbers_are_lines(tmp_path: Path):
    data = copy.deepcopy(RESULT) | {"empty": [], "words": ["1", "two"], "small": [1.5e-07]}
    write_json(tmp_path / "a.json", data)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == data
    assert "   [10, 3.0, 4.0, 3.0, 1000],\n" in text
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_plan_counts_what_is_missing():
    todo = list(jobs(["heads"]))
    lines = plan(todo).splitlines()
    minutes = sum(job.run.minutes for job in todo)
    assert lines[-1].split()[:4] == ["all", str(len(todo)), "runs", f"{minutes:.1f}"]
    (depths,) = (line for line in lines if line.startswith("feedback_depth"))
    # Four heads are the transformer of four layers, which the other study makes.
    assert depths.split()[1] == "3"


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.update(experiment="elman"),
        lambda run: run["training"].update(seed=2),
        lambda run: run["training"].update(learning_rate=1e-3),
        lambda run: run["training"].pop("steps"),
        lambda run: run["model"]["config"].update(heads=4),
    ],
)
def test_a_run_with_other_numbers_is_another_run(change: Any):
    job = Job("heads", "8", 3)
    about = result_of(job)["run"]
    assert job.describes(about)
    change(about)
    assert not job.describes(about)
    # Fields of a preset count where there is one.
    shipped = Job("shipped", "elman", 1)
    assert not shipped.describes(result_of(shipped)["run"])


def test_the_command_makes_what_is_missing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    started: list[Job] = []

    def process(job: Job, folders: Path, text: str | None) -> subprocess.Popen[str]:
        started.append(job)
        folder = folders / str(job)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(result_of(job)))
        assert text == "my.txt"
        return script("")

    monkeypatch.setattr(module, "process", process)
    results, flags = tmp_path / "results", ["--only", "heads", "--text", "my.txt"]
    flags += ["--results", str(results), "--folders", str(tmp_path / "runs"), "--jobs", "4"]
    there = Job("heads", "8", 3).kept(results)
    there.parent.mkdir(parents=True)
    write_json(there, result_of(Job("heads", "8", 3)))
    # A result with other numbers than those of the study is made again.
    other = Job("heads", "1", 2).kept(results)
    write_json(other, result_of(Job("heads", "1", 1)))
    assert main([*flags, "--plan"]) == 0 and not started
    assert main(flags) == 0
    assert len(started) == 11 and Job("heads", "8", 3) not in started
    assert "11 runs made, 0 failed, 0 left" in capsys.readouterr().out
    assert main(flags) == 0
    assert len(started) == 11


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "haeds"], "error: there is no study 'haeds'; did you mean 'heads'?"),
        (["--make", "heads/3/seed1"], "error: there is no run of heads '3'"),
        (["--only", "heads", "--results", "no/where/results"], "no/where is no folder; start this"),
    ],
)
def test_bad_input_of_the_command(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main(flags) == 2
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told


def test_a_process_has_one_thread_and_a_session_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: dict[str, object] = {}

    class Seen(subprocess.Popen[str]):
        def __init__(self, command: list[str], **more: object):
            seen.update(more, command=command)
            super().__init__([sys.executable, "-S", "-c", ""], text=True)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    with module.process(HEADS[0], tmp_path, None) as process:
        assert process.wait() == 0
    command, env = seen["command"], seen["env"]
    assert isinstance(command, list) and isinstance(env, dict)
    assert command[2:5] == ["labml_nn.experiments.studies", "--make", "heads/1/seed1"]
    assert env["OMP_NUM_THREADS"] == "1" and seen["start_new_session"] is True
    assert "--text" not in command


SMALL = {
    "steps": 6,
    "batch_size": 2,
    "seq_len": 9,
    "learning_rate": 1e-2,
    "evaluate_every": 3,
    "save_every": 2,
    "sample_tokens": 5,
    "device": "cpu",
}


def test_a_run_is_made_kept_and_loaded_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "text.txt"
    text.write_text("to be, or not to be, that is the question: " * 9, encoding="utf-8")
    model = {"d_model": 6, "d_hidden": 10, "n_layers": 1}

    def declare(**changes: Any) -> Job:
        run = Run("elman", model, {**SMALL, **changes})
        monkeypatch.setitem(STUDIES, "shipped", Study("?", {"elman": run}, (5,), ships=True))
        return Job("shipped", "elman", 5)

    batch = TextTask.batch

    def interrupted(task: TextTask, step: int, seq_len: int | None = None) -> Any:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(task, step, seq_len)

    job = declare()
    folders, results = tmp_path / "runs", tmp_path / "results"
    threads = torch.get_num_threads()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(TextTask, "batch", interrupted)
            assert not module.make(job, folders, str(text))
        assert (folders / str(job) / "checkpoint.pt").exists()
        assert module.make(job, folders, str(text))
        path = keep(job, folders, results)
        kept = read_result(path)
        assert kept.last.step == 6 and job.describes(kept.run)
        assert not module.is_missing(job, results)
        assert load_run(path.parent).model().config.n_vocab == len(set(text.read_text()))
        assert str(tmp_path) not in path.read_text() + (path.parent / "run.json").read_text()

        # The same job with another number does not go on from what is there.
        job = declare(steps=4, learning_rate=2e-2)
        assert module.is_missing(job, results)
        flags = ["--make", str(job), "--folders", str(folders), "--text", str(text)]
        assert main(flags) == 0
        assert "nats after 4 updates" in capsys.readouterr().out
    finally:
        torch.set_num_threads(threads)
