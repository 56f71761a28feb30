r"""
---
title: Making the runs of a study
summary: >
  One process for each run and one thread for each process, so that runs disturb each
  other as little as they can, and what is killed loses only itself.
---

The [studies](__init__.py) declare some seventy runs. Somebody has to make them, on a
machine that may be switched off in between, and note what came out:

```text
python -m labml_nn.experiments.studies --plan               # what there is to do
python -m labml_nn.experiments.studies --jobs 2             # do it, two at a time
python -m labml_nn.experiments.studies --only heads --minutes 10
```

**A process for each run.** A run that fails, or that the system kills for want of
memory, takes no other with it. **One thread for each process.** Two runs with one
thread each are done sooner than the same two with two threads each, one after the
other: small matrices cannot keep two cores busy. And the processor time of a run is
then its own.

**Nothing is done twice.** A run whose result is kept is not made again, as long as its
study declares the same numbers. One that was interrupted goes on from its checkpoint.
So the command can be stopped at any time, and given again.

Time is measured in processor seconds, which stand still while another program has the
core. They are not quite independent of what else goes on, since programs share caches
and memory: that is one more reason for three seeds.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGINT
from typing import Any

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.experiment import PRESETS, Preset, experiments
from labml_nn.experiments.results import read_result, small
from labml_nn.experiments.studies import STUDIES, Job, Run, jobs

RESULTS, FOLDERS = Path("docs_src/results"), Path("runs/studies")
#: Bytes that a model may take which comes along.
LARGEST = 2_000_000
#: What a process ends with that was interrupted and can go on.
UNFINISHED = 3
#: A list of numbers, as `json` writes it with an indent.
ROW = re.compile(r"\[\s+((?:-?[\d.e+-]+,?\s+)+)\]")


# ## One run, in its own process
def make(job: Job, folders: Path, text: str | None) -> bool:
    """
    * `job` says which run
    * `folders` is where run folders are
    * `text` is a file to learn from; `None` is Tiny Shakespeare

    Returns whether the run came to its end; if not, its checkpoint is there, and the
    same call goes on with it.
    """
    import torch

    from labml_nn.experiments.data import read_corpus
    from labml_nn.experiments.training.trainer import Trainer

    torch.set_num_threads(1)
    folder = folders / str(job)
    begun = (folder / "checkpoint.pt").exists()
    if begun and not job.describes(read(folder / "run.json")):
        begun = False
    if folder.exists() and not begun:
        shutil.rmtree(folder)  # of another study, or with nothing to go on with
    run = job.run
    experiment = plain(run)
    model, task, config = experiment.build(
        run.preset or PRESETS[0],
        corpus=read_corpus(text),
        model=run.model,
        training={**run.training, "seed": job.seed},
    )
    about = {"experiment": run.experiment, "preset": run.preset, "variant": None}
    trainer = Trainer(model, task, config, folder, about={**about, "study": str(job)})
    if begun:
        trainer.resume()
    return bool(trainer.train().stopped == "finished")


def plain(run: Run) -> Any:
    """
    Its experiment, with presets that decide nothing if the run has decided everything.
    """
    experiment = experiments()[run.experiment]
    if run.preset is not None:
        return experiment
    return replace(
        experiment, presets={name: Preset("as a study says") for name in PRESETS}
    )


def is_missing(job: Job, results: Path) -> bool:
    """
    Whether there is no result of this run. One with other numbers than those that its
    study declares now is a result of another run. Raises `ValueError` for a file that
    is damaged.
    """
    path = job.kept(results)
    return not path.exists() or not job.describes(read_result(path).run)


def keep(job: Job, folders: Path, results: Path) -> Path:
    """
    ## Keep what was measured

    Copies the result of a finished run to where it is kept, rounded and without what is
    of no use elsewhere, and the model too if the study says so. Returns where. A file
    that is there is whole: it is written beside and renamed. Raises `RunError` for a
    model that is too large to come along.
    """
    folder, path = folders / str(job), job.kept(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    if STUDIES[job.study].ships:
        size = sum(file.stat().st_size for file in (folder / "model").iterdir())
        if size > LARGEST:
            raise RunError(
                f"the model of {job} takes {size:,} bytes and may take {LARGEST:,}; "
                "make it narrower in the study"
            )
        shutil.copytree(folder / "model", path.parent / "model", dirs_exist_ok=True)
        shutil.copy(folder / "vocabulary.json", path.parent)
        write_json(path.parent / "run.json", without_paths(read(folder / "run.json")))
    write_json(path, small(read(folder / "result.json")))
    return path


def read(path: Path) -> Any:
    """JSON of a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def without_paths(run: Mapping[str, Any]) -> dict[str, Any]:
    """What a run says of itself, but for the place of the text on this disk."""
    return {**run, "corpus": {**run["corpus"], "path": None}}


def write_json(path: Path, data: Any) -> None:
    """Rows of numbers on a line each: short, and a change can be read as a change."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    text = ROW.sub(lambda row: f"[{' '.join(row[1].split())}]", text)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(path)


# ## Many runs, side by side
@dataclass
class Running:
    """A process that makes a run."""

    job: Job
    process: subprocess.Popen[str]


class Runner:
    """
    * `todo` are the jobs to make
    * `start` starts the process of a job; tests give another
    * `finish` is called with each job that came to its end
    * `count` is how many run at a time
    * `minutes` is after how many no run is begun, and those that run are asked to save
      what they have; 0 is never
    """

    def __init__(
        self,
        todo: Sequence[Job],
        start: Callable[[Job], subprocess.Popen[str]],
        finish: Callable[[Job], object],
        *,
        count: int = 2,
        minutes: float = 0.0,
    ) -> None:
        # The longest first: at the end no core waits for a long run begun last.
        self.todo = sorted(todo, key=lambda job: -job.run.minutes)
        self.start, self.finish, self.count = start, finish, count
        self.deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        self.running: list[Running] = []
        self.failed: list[Job] = []
        self.stopping = False
        self.stopped: list[Job] = []

    def run(self) -> bool:
        """Returns whether all jobs came to their end."""
        try:
            while self.todo or self.running:
                self._begin()
                time.sleep(0.2)
                self._look()
                if time.monotonic() > self.deadline:
                    print("time is up; what runs is saved and can go on", flush=True)
                    break
        except KeyboardInterrupt:
            print("interrupted; what runs is saved and can go on", flush=True)
        self.todo, left = [], self.todo
        self.stopped += left
        self._stop()
        return not (self.failed or self.stopped)

    def _begin(self) -> None:
        while self.todo and len(self.running) < self.count:
            job = self.todo.pop(0)
            self.running.append(Running(job, self.start(job)))

    def _look(self) -> None:
        for one in [one for one in self.running if one.process.poll() is not None]:
            self.running.remove(one)
            self._ended(one)

    def _ended(self, one: Running) -> None:
        told = (one.process.communicate()[0] or "").strip()
        status = one.process.returncode
        last = told.splitlines()[-1] if told else f"it ended with status {status}"
        if status == 0:
            self.finish(one.job)
        elif status == UNFINISHED or self.stopping:
            self.stopped.append(one.job)
        else:
            self.failed.append(one.job)
        print(f"{one.job}: {last}", flush=True)

    def _stop(self) -> None:
        """Ask those that run to save what they have, and wait for them."""
        self.stopping = True
        for one in self.running:
            one.process.send_signal(SIGINT)
        for one in self.running:
            try:
                one.process.wait(120)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        self._look()


def process(job: Job, folders: Path, text: str | None) -> subprocess.Popen[str]:
    """The process of a run, with one thread."""
    command = [sys.executable, "-m", "labml_nn.experiments.studies", "--make", str(job)]
    command += ["--folders", str(folders)] + (["--text", text] if text else [])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # In a session of its own: Ctrl-C comes to the runner, which tells the others once.
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **threads},
        start_new_session=True,
    )


# ## The command
def plan(todo: Sequence[Job]) -> str:
    """What there is to do, in minutes of one core, by the costs that studies name."""
    lines = []
    for name, study in STUDIES.items():
        of = [job for job in todo if job.study == name]
        minutes = sum(job.run.minutes for job in of)
        lines.append(f"{name:16}{len(of):4} runs {minutes:7.1f} min   {study.question}")
    total = sum(job.run.minutes for job in todo)
    lines.append(f"{'all':16}{len(todo):4} runs {total:7.1f} min   of one core, about")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = argparse.ArgumentParser(
        prog="python -m labml_nn.experiments.studies",
        description="Make the runs behind the page of results, those that are missing.",
    )
    flags.add_argument(
        "--only", action="append", default=[], metavar="STUDY", help="only this study"
    )
    flags.add_argument(
        "--jobs", type=int, default=2, help="runs side by side (%(default)s)"
    )
    flags.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="stop after so many; 0: when all is done",
    )
    flags.add_argument(
        "--plan", action="store_true", help="say what is missing, and end"
    )
    flags.add_argument(
        "--text", help="learn from this file; by default Tiny Shakespeare"
    )
    flags.add_argument(
        "--results", type=Path, default=RESULTS, help="keep results here (%(default)s)"
    )
    flags.add_argument(
        "--folders", type=Path, default=FOLDERS, help="run folders (%(default)s)"
    )
    flags.add_argument("--make", help=argparse.SUPPRESS)
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing is missing any more, 1 if something is, 2 for bad input."""
    given = parser().parse_args(arguments)
    try:
        if given.make:
            return _make(given)
        todo = [job for job in jobs(given.only) if is_missing(job, given.results)]
        print(plan(todo), flush=True)
        if given.plan or not todo:
            return 0
        return _make_all(todo, given)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _make(given: argparse.Namespace) -> int:
    job = Job.of(given.make)
    done = make(job, given.folders, given.text)
    path = given.folders / str(job) / "result.json"
    if not done:
        print("saved before its end")
        return UNFINISHED
    result = read(path)["result"]
    print(
        f"{result['validation_loss']:.4f} nats after {result['step']} updates, "
        f"{result['process_seconds']:.0f} s of the processor"
    )
    return 0


def _make_all(todo: Sequence[Job], given: argparse.Namespace) -> int:
    if not given.results.parent.is_dir():
        raise ValueError(
            f"{given.results.parent} is no folder; start this in the folder of the "
            "project, or say with --results where to keep what is measured"
        )
    runner = Runner(
        todo,
        lambda job: process(job, given.folders, given.text),
        lambda job: keep(job, given.folders, given.results),
        count=given.jobs,
        minutes=given.minutes,
    )
    whole = runner.run()
    done = len(todo) - len(runner.failed) - len(runner.stopped)
    print(
        f"{done} runs made, {len(runner.failed)} failed, {len(runner.stopped)} left",
        flush=True,
    )
    return 0 if whole else 1
