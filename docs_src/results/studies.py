"""The studies: which runs answer which question of the page of results, and one command that makes
those that are missing.

``python -m docs_src.results.studies --plan`` says what is missing, and ``--jobs 2`` makes it, two
runs at a time. A run whose result is kept is not repeated, as long as its study declares the same
values, and an interrupted one is resumed. The runs of a study are the lines of ``STUDY.jsonl``, and
a model that ships has a folder. ``--check`` repeats the beginning of a run of each model, and
compares the losses with those that are kept.

All models see one text and one order of batches, with five seeds. Each has the best of
five learning rates, chosen on a seed that is not used again. Models of different kinds have equal
parameters, within 2 %, and are compared at equal updates and at equal CPU time of one thread, each
run in a process of its own.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import environ
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, Literal, NamedTuple

import torch

from labml_nn.checks import check_known
from labml_nn.experiments.checkpoint import RunError, read_json
from labml_nn.experiments.data import read_corpus
from labml_nn.experiments.presets import PRESETS, TASKS, Preset, experiments
from labml_nn.experiments.trainer import Trainer
from labml_nn.saving import replace as write_files

RESULTS, FOLDERS = Path(__file__).parent, Path("runs/studies")
LARGEST = 2_000_000  # bytes of a model that is shipped
LONGEST_CURVE = 60  # points of a training curve that is kept
SEEDS = (1, 2, 3, 4, 5)
TOLERANCE = 0.01  # nats that mean nothing: by so much rounding may change an early loss


# --- Results
class Point(NamedTuple):
    """A point of a curve: what was spent so far, and the loss in nats per token."""

    step: int
    loss: float
    seconds: float
    process_seconds: float
    tokens: int


Spent = Literal["step", "seconds", "process_seconds", "tokens"]


@dataclass(frozen=True)
class RunResult:
    """
    * `source` is its file
    * `run` is the content of `run.json`
    * `parameters` is the number of parameters
    * `result` are its final losses and times
    * `train`, `validation` are the curves
    """

    source: str
    run: Mapping[str, Any]
    parameters: int
    result: Mapping[str, Any]
    train: tuple[Point, ...]
    validation: tuple[Point, ...]

    @property
    def last(self) -> Point:
        """The last validation loss."""
        return self.validation[-1]

    @property
    def loss(self) -> float:
        """The last validation loss, in nats per token."""
        return self.last.loss

    @property
    def corpus(self) -> str:
        """The name of the text."""
        return str(self.run["corpus"]["name"])

    def loss_at(self, amount: float, spent: Spent) -> float:
        """
        The validation loss after `amount` of updates, seconds or tokens, interpolated
        linearly. Raises `ValueError` outside of the curve.
        """
        first, last = getattr(self.validation[0], spent), getattr(self.last, spent)
        if not first <= amount <= last:
            raise ValueError(
                f"{self.source} has losses between {first:g} and {last:g} {spent}, and "
                f"none at {amount:g}"
            )
        for left, right in pairwise(self.validation):
            x0, x1 = getattr(left, spent), getattr(right, spent)
            if x0 <= amount <= x1 and x0 < x1:
                share = float((amount - x0) / (x1 - x0))
                return left.loss + (right.loss - left.loss) * share
        return self.loss


def read_result(path: Path | str) -> RunResult:
    """
    Reads a `result.json`. Raises `FileNotFoundError` if there is none, and `ValueError`
    for a file that is damaged or of a run without validation loss.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no result {path}; a run writes it at its end")
    return _as_result(str(path), path.read_text(encoding="utf-8"))


def _as_result(source: str, text: str) -> RunResult:
    try:
        data = json.loads(text)
        curves = [tuple(Point(*r) for r in data["curve"][k]) for k in ("train", "validation")]
        found = RunResult(*(source, data["run"], int(data["parameters"]), data["result"]), *curves)
        found.last.loss + found.last.process_seconds  # numbers, and not none of them
        _question(found)
        found.result["stopped"]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{source} is not the result of a run: {error!r}") from None
    return found


class Spread(NamedTuple):
    """
    of several seeds. With so few a standard deviation would be a guess; where
    the ranges of two models overlap, their order means nothing.
    """

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Raises `ValueError` without values."""
        found = list(values)
        if not found:
            raise ValueError("no values: a mean needs at least one")
        return cls(fmean(found), min(found), max(found), len(found))


def final(results: Iterable[RunResult]) -> Spread:
    """The last losses of comparable runs."""
    return Spread.of(result.loss for result in comparable(results))


def at_equal(results: Iterable[RunResult], amount: float, spent: Spent) -> Spread:
    """The losses of comparable runs after the same `amount`."""
    return Spread.of(result.loss_at(amount, spent) for result in comparable(results))


def comparable(results: Iterable[RunResult]) -> list[RunResult]:
    """Raises `ValueError` unless all runs finished, on one text and with one task."""
    found = list(results)
    for result in found:
        if result.result["stopped"] != "finished":
            raise ValueError(f"{result.source} was stopped before its end; resume it")
        if _question(result) != _question(found[0]):
            raise ValueError(
                f"{result.source} and {found[0].source} differ in text or task "
                f"({_question(result)} and {_question(found[0])}), so their losses "
                "cannot be compared"
            )
    return found


def _question(result: RunResult) -> tuple[str, str, str]:
    corpus, task = result.run["corpus"], result.run["task"]
    return corpus["name"], corpus["sha256"][:12], task


# --- Declarations
@dataclass(frozen=True)
class Run:
    """
    * `experiment` is its name
    * `model`, `training` are fields by name
    * `cost` is about how many milliseconds an update takes, for plans. Two runs that differ
      in nothing else are the same
    * `preset` has the other fields; `None` takes the defaults of the configurations, so
      that a tuned preset does not change the study
    * `task` is the name of a memory task; `None` is the task of the experiment
    """

    experiment: str
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    cost: float = field(default=40.0, compare=False)
    preset: str | None = None
    task: str | None = None

    @property
    def minutes(self) -> float:
        """CPU time, about."""
        return float(self.cost * (self.suits | self.training)["steps"]) / 60_000

    @property
    def suits(self) -> dict[str, Any]:
        """The hyperparameters that the memory task brings."""
        return dict(TASKS[self.task].training) if self.task else {}


@dataclass(frozen=True)
class Study:
    """
    Its `question`, its `runs` by label, the `seeds` of each, and whether the trained
    model `ships` with the project.
    """

    question: str
    runs: Mapping[str, Run]
    seeds: Sequence[int] = SEEDS
    ships: bool = False


COMMON: dict[str, Any] = {
    "steps": 800,
    "batch_size": 16,
    "seq_len": 64,
    "learning_rate": 4e-3,
    "warmup_steps": 50,
    "evaluate_every": 200,
    "sample_every": 0,
    "save_every": 200,
    "device": "cpu",
    "precision": "float32",
    "compile": "no",
}
WIDTH: dict[str, Any] = {"d_model": 64, "heads": 4, "dropout_prob": 0.0}
FOUR_LAYERS: dict[str, Any] = {**WIDTH, "n_layers": 4}
TWO_LAYERS: dict[str, Any] = {"d_model": 64, "n_layers": 2, "dropout_prob": 0.0}


def transformer(cost: float = 36.0, **fields: Any) -> Run:
    """The transformer that several studies share, with `fields` changed."""
    model = {**WIDTH, "n_layers": 4, "positions": "rotary", **fields}
    return Run("autoregressive", model, COMMON, cost)


def changed(run: Run, **training: Any) -> Run:
    """The run with other hyperparameters."""
    return replace(run, training={**run.training, **training})


# About 204,000 parameters each. The learning rate is constant: with one that decays, a
# point in the middle of a curve is worse than the end of a shorter run would be, which
# is unfair to a slow model at equal time.
MODELS: dict[str, Run] = {
    "elman": Run("elman", {**TWO_LAYERS, "d_hidden": 208}, COMMON, 25.0),
    "gru": Run("gru", {**TWO_LAYERS, "d_hidden": 135}, COMMON, 45.0),
    "lstm": Run("lstm", {**TWO_LAYERS, "d_hidden": 116}, COMMON, 20.0),
    "autoregressive": transformer(),
    "feedback": Run("feedback", {**FOUR_LAYERS, "d_ff": 271}, COMMON, 35.0),
    "linear_attention": Run("linear_attention", {**FOUR_LAYERS, "d_ff": 245}, COMMON, 60.0),
    "delta_net": Run("delta_net", {**FOUR_LAYERS, "d_ff": 243}, COMMON, 65.0),
    "gated_delta_net": Run("delta_net", {**FOUR_LAYERS, "d_ff": 209, "gated": True}, COMMON, 65.0),
    "mamba2": Run("mamba2", {**FOUR_LAYERS, "d_ff": 145}, COMMON, 75.0),
    "encoder_decoder": Run("encoder_decoder", {**WIDTH, "d_ff": 192, "n_layers": 2}, COMMON, 47.0),
}
#: How tables call them.
NAMES = {
    "elman": "Elman",
    "gru": "GRU",
    "lstm": "LSTM",
    "autoregressive": "transformer",
    "feedback": "feedback",
    "linear_attention": "linear attention",
    "delta_net": "DeltaNet",
    "gated_delta_net": "Gated DeltaNet",
    "mamba2": "Mamba-2",
    "encoder_decoder": "encoder–decoder",
}
#: What a model keeps of the tokens before, for those whose loss is that of a text that goes on.
STATES = {
    **dict.fromkeys(("elman", "gru", "lstm"), "vector"),
    **dict.fromkeys(("autoregressive", "feedback"), "list"),
    **dict.fromkeys(("linear_attention", "delta_net", "gated_delta_net", "mamba2"), "matrix"),
}
STEADY = {"final_learning_rate": 1.0, "evaluate_every": 100}
SHORT = {"steps": 300, "evaluate_every": 0}
RATES = (2e-3, 4e-3, 8e-3, 16e-3, 32e-3)
# Of the rates whose losses are within TOLERANCE of the best, the smallest: which of them comes out
# ahead is chance, and a large rate that stays constant harms a longer run.
BEST_RATE = {**dict.fromkeys(MODELS, 4e-3), "elman": 2e-3, "lstm": 16e-3}

# What does a model remember? About 116,000 parameters each on the task of recall, within
# 2 %. The matrices of the two transformers begin larger than usual: with those of GPT-2 the
# one did not learn to recall in 1,500 updates, and the other not in 800.
SMALL: dict[str, Any] = {"d_model": 64, "n_layers": 2, "dropout_prob": 0.0}
SMALL_HEADS: dict[str, Any] = {**SMALL, "heads": 4}
ON_MEMORY: dict[str, Any] = {
    "evaluate_every": 0,
    "sample_every": 0,
    "save_every": 0,
    **{name: COMMON[name] for name in ("device", "precision", "compile")},
}
LARGER: dict[str, Any] = {"init_lower": -0.15, "init_upper": 0.15}
MEMORY: dict[str, Run] = {
    "elman": Run("elman", {**SMALL, "d_hidden": 148}, ON_MEMORY, 15.0),
    "gru": Run("gru", {**SMALL, "d_hidden": 92}, ON_MEMORY, 20.0),
    "lstm": Run("lstm", {**SMALL, "d_hidden": 80}, ON_MEMORY, 20.0),
    "autoregressive": Run(
        "autoregressive",
        {
            **SMALL_HEADS,
            "d_ff": 254,
            "positions": "rotary",
            "tied": False,
            **LARGER,
        },
        ON_MEMORY,
        30.0,
    ),
    "feedback": Run(
        "feedback", {**SMALL_HEADS, "d_ff": 262, "tied": False, **LARGER}, ON_MEMORY, 50.0
    ),
    "linear_attention": Run("linear_attention", {**SMALL_HEADS, "d_ff": 256}, ON_MEMORY, 35.0),
    "delta_net": Run("delta_net", {**SMALL_HEADS, "d_ff": 250}, ON_MEMORY, 45.0),
    "gated_delta_net": Run(
        "delta_net", {**SMALL_HEADS, "d_ff": 216, "gated": True}, ON_MEMORY, 45.0
    ),
    "mamba2": Run("mamba2", {**SMALL_HEADS, "d_ff": 152}, ON_MEMORY, 45.0),
}
MEMORY_RATES = (1e-3, 3e-3, 1e-2)
HALF: dict[str, Any] = {
    "recall": {"steps": 400, "grow_steps": 320},
    "parity": {"steps": 200, "grow_steps": 160},
}
# Whose rates each task uses.
CHOSEN_ON = {"recall": "recall", "overwrite": "recall", "parity": "parity"}
BEST_MEMORY_RATE: dict[str, dict[str, float]] = {
    "recall": {
        **dict.fromkeys(MEMORY, 1e-2),
        **dict.fromkeys(("autoregressive", "gated_delta_net"), 3e-3),
        "elman": 1e-3,
    },
    "parity": {**dict.fromkeys(MEMORY, 1e-2), "autoregressive": 3e-3, "feedback": 1e-3},
}


def on_task(task: str, run: Run, **training: Any) -> Run:
    """The run, on a memory task."""
    return replace(changed(run, **training), task=task)


# Layers, and milliseconds of an update without and with feedback.
DEPTHS = {1: (9.0, 9.0), 2: (16.0, 15.0), 4: (32.0, 28.0), 8: (62.0, 55.0)}
ALONE: dict[str, Any] = {
    **{name: COMMON[name] for name in ("device", "precision", "compile")},
    "evaluate_every": 250,
    "sample_every": 0,
}


def _shipped(name: str, steps: int, cost: float, **model: Any) -> Run:
    return Run(name, model, {"steps": steps, **ALONE}, cost, "tiny")


STUDIES: dict[str, Study] = {
    "memory_rates": Study(
        "Which learning rate for each model, on tasks of memory?",
        {
            f"{task}-{name}-{rate:g}": on_task(task, run, **half, learning_rate=rate)
            for task, half in HALF.items()
            for name, run in MEMORY.items()
            for rate in MEMORY_RATES
        },
        seeds=(0,),
    ),
    **{
        task: Study(
            f"What does each model remember: {task}?",
            {
                name: on_task(task, run, learning_rate=BEST_MEMORY_RATE[like][name])
                for name, run in MEMORY.items()
            },
        )
        for task, like in CHOSEN_ON.items()
    },
    "rates": Study(
        "Which learning rate for each model?",
        {
            f"{name}-{rate:g}": changed(run, **STEADY | SHORT, learning_rate=rate)
            for name, run in MODELS.items()
            for rate in RATES
        },
        seeds=(0,),
    ),
    "models": Study(
        "Which model, at equal parameters?",
        {
            name: changed(run, **STEADY, learning_rate=BEST_RATE[name])
            for name, run in MODELS.items()
        },
    ),
    "feedback_depth": Study(
        "Does feedback help, and less with more layers?",
        {
            label: run
            for n, (ordinary, feedback) in DEPTHS.items()
            for label, run in (
                (f"transformer-{n}", transformer(ordinary, n_layers=n)),
                (
                    f"feedback-{n}",
                    Run("feedback", {**WIDTH, "n_layers": n}, COMMON, feedback),
                ),
            )
        },
    ),
    "heads": Study(
        "How many heads, at equal width?",
        {str(heads): transformer(heads=heads) for heads in (1, 2, 4, 8)},
    ),
    "positions": Study(
        "Which positional encoding?",
        {
            positions: transformer(positions=positions)
            for positions in ("rotary", "sinusoidal", "learned", "none")
        },
    ),
    "shipped": Study(
        "Which trained models ship with the project?",
        {
            "autoregressive": _shipped("autoregressive", 1500, 100.0),
            "encoder_decoder": _shipped("encoder_decoder", 1000, 150.0, d_model=88),
            "feedback": _shipped("feedback", 2400, 35.0),
            "elman": _shipped("elman", 2000, 60.0),
            "lstm": _shipped("lstm", 2000, 40.0),
            "gru": _shipped("gru", 2000, 40.0),
            "linear_attention": _shipped("linear_attention", 1250, 110.0),
            "delta_net": _shipped("delta_net", 3000, 170.0),
            "mamba2": _shipped("mamba2", 2000, 60.0),
        },
        seeds=(1,),
        ships=True,
    ),
}


class Job(NamedTuple):
    """
    Written `heads/2/seed1`.
    """

    study: str
    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.study}/{self.label}/seed{self.seed}"

    @classmethod
    def of(cls, name: str) -> "Job":
        """Raises `ValueError` for a run that is not declared."""
        check_known("run", name, map(str, jobs()))
        study, label, seed = name.split("/")
        return cls(study, label, int(seed.removeprefix("seed")))

    @property
    def run(self) -> Run:
        """What is to be run."""
        return STUDIES[self.study].runs[self.label]

    @property
    def first(self) -> "Job":
        """The job that makes the same run: this one, or one of an earlier study."""
        for name, study in STUDIES.items():
            for label, run in study.runs.items():
                same = (run, study.ships) == (self.run, STUDIES[self.study].ships)
                if same and self.seed in study.seeds:
                    return Job(name, label, self.seed)
        return self

    def describes(self, about: Mapping[str, Any]) -> bool:
        """Whether a run with this `run.json` is the one that is declared now."""
        preset = self.run.preset
        experiment = experiments()[self.run.experiment]
        known = experiment.preset(preset) if preset else Preset()
        model = {**known.model, **self.run.model}
        training = {**known.training, **self.run.suits, **self.run.training, "seed": self.seed}
        config, said = about["model"]["config"], about["training"]
        return (
            about["experiment"] == self.run.experiment
            and about["task"] == (self.run.task or experiment.task)
            and {name: config.get(name) for name in model} == model
            and {name: said.get(name) for name in training} == training
        )

    def kept(self, results: Path) -> Path:
        """The file below the folder `results` that has its result: a line of a study's."""
        job = self.first
        if STUDIES[job.study].ships:
            return results / job.label / "result.json"
        return results / f"{job.study}.jsonl"

    def result(self, results: Path) -> RunResult | None:
        """Its result that is kept; `None` if there is none."""
        job, path = self.first, self.kept(results)
        if STUDIES[job.study].ships:
            return read_result(path) if path.exists() else None
        line = _lines(path).get((job.label, job.seed))
        return None if line is None else _as_result(f"{path}, {job}", line)


def jobs(only: Sequence[str] = ()) -> Iterator[Job]:
    """All jobs, or those of some studies, each run once."""
    for name in only:
        check_known("study", name, STUDIES)
    found = {
        Job(name, label, seed).first: None
        for name, study in STUDIES.items()
        if name in (only or STUDIES)
        for label in study.runs
        for seed in study.seeds
    }
    yield from found


def results_of(study: str, results: Path) -> dict[str, list[RunResult]]:
    """The results of a study by label, as far as they are there."""
    check_known("study", study, STUDIES)
    seeds = STUDIES[study].seeds
    return {
        label: [run for seed in seeds if (run := Job(study, label, seed).result(results))]
        for label in STUDIES[study].runs
    }


def _lines(path: Path) -> dict[tuple[str, int], str]:
    """The lines of a study by label and seed; none if there is no file."""
    try:  # opening the file tells the generator that a page depends on it
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found = {}
    for line in lines:
        head = _HEAD.match(line)
        if head is None:
            raise ValueError(f'{path} has a line that does not begin {{"label": …, "seed": …')
        found[head[1], int(head[2])] = line
    return found


_HEAD = re.compile(r'\{"label": "([^"]*)", "seed": (\d+), ')


# --- Making the runs
def make(job: Job, folders: Path, text: str | None) -> bool:
    """Makes or resumes a run. Returns whether it finished."""
    torch.set_num_threads(1)
    folder, run = folders / str(job), job.run
    begun = (folder / "checkpoint.pt").exists()
    begun = begun and job.describes(read_json(folder / "run.json"))
    if folder.exists() and not begun:
        shutil.rmtree(folder)
    experiment = experiments()[run.experiment]
    if run.preset is None:
        presets = {name: Preset() for name in PRESETS}
        experiment = replace(experiment, presets=presets)
    model, task, config = experiment.build(
        run.preset or PRESETS[0],
        corpus=None if run.task else read_corpus(text),
        model=run.model,
        training={**run.training, "seed": job.seed},
        task=run.task,
    )
    about = {"experiment": run.experiment, "preset": run.preset}
    trainer = Trainer(model, task, config, folder, about=about)
    if begun:
        trainer.resume()
    return trainer.train().stopped == "finished"


def keep(job: Job, folders: Path, results: Path) -> Path:
    """
    Keeps what a finished run measured, rounded and without paths, and the model if it
    ships. Raises `RunError` for a model that is too large.
    """
    folder, path, job = folders / str(job), job.kept(results), job.first
    path.parent.mkdir(parents=True, exist_ok=True)
    made = small(read_json(folder / "result.json"))
    if STUDIES[job.study].ships:
        size = sum(file.stat().st_size for file in (folder / "model").iterdir())
        if size > LARGEST:
            raise RunError(f"the model of {job} has {size:,} bytes, above {LARGEST:,}")
        shutil.copytree(folder / "model", path.parent / "model", dirs_exist_ok=True)
        shutil.copy(folder / "vocabulary.json", path.parent)
        _write(path.parent / "run.json", _without_path(read_json(folder / "run.json")))
        _write(path, made)
        return path
    with _KEEPING:  # several runs of a study may end at once
        lines = _lines(path)
        lines[job.label, job.seed] = json.dumps(
            {"label": job.label, "seed": job.seed, **made}, ensure_ascii=False
        )
        # What the study no longer declares goes.
        order = [(one.label, one.seed) for one in jobs([job.study]) if one.study == job.study]
        text = "".join(f"{lines[run]}\n" for run in order if run in lines)
        write_files({path: text.encode()})
    return path


_KEEPING = Lock()


def small(data: Mapping[str, Any]) -> dict[str, Any]:
    """A `result.json` with rounded numbers, a thinned curve and the last sample."""

    def rounded(value: Any) -> Any:
        return round(value, 4) if isinstance(value, float) else value

    curve, rows = data["curve"], data["curve"]["train"]
    if len(rows) > LONGEST_CURVE:
        rows = [*rows[: -1 : -(-len(rows) // (LONGEST_CURVE - 1))], rows[-1]]
    curves = {"train": rows, "validation": curve["validation"]}
    return {
        **data,
        "run": _without_path(data["run"]),
        "result": {name: rounded(value) for name, value in data["result"].items()},
        "curve": {k: [[rounded(x) for x in row] for row in c] for k, c in curves.items()},
        "samples": list(data.get("samples", ()))[-1:],
    }


def _without_path(run: Mapping[str, Any]) -> dict[str, Any]:
    return {**run, "corpus": {**run["corpus"], "path": None}}


def _write(path: Path, data: Any) -> None:
    # Rows of numbers on one line each.
    text = json.dumps(data, ensure_ascii=False, indent=1)
    row = re.compile(r"\[\s+((?:-?[\d.e+-]+,?\s+)+)\]")
    text = row.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    write_files({path: (text + "\n").encode()})


def make_all(
    todo: Sequence[Job],
    start: Callable[[Job], tuple[int, str]],
    finish: Callable[[Job], object],
    count: int,
) -> bool:
    """
    Makes `todo`, `count` at a time: `start` runs a job and returns its exit code and
    output, `finish` keeps its result. Returns whether all succeeded. Each seed is run
    with all models before the next one, so that a busy hour slows all models alike; for
    one seed the longest are first.
    """
    succeeded = []

    def one(job: Job) -> None:
        code, said = start(job)
        if code == 0:
            finish(job)
            succeeded.append(job)
        lines = said.strip().splitlines() or [f"exit code {code}"]
        print(f"{job}: {lines[-1]}", flush=True)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, sorted(todo, key=lambda job: (job.seed, -job.run.minutes))))
    print(f"{len(succeeded)} of {len(todo)} runs made", flush=True)
    return len(succeeded) == len(todo)


def process(job: Job, folders: Path, text: str | None) -> tuple[int, str]:
    """A run in a process of its own, with one thread. Ctrl-C reaches it too."""
    command = [sys.executable, "-m", "docs_src.results.studies", "--make", str(job)]
    command += ["--folders", str(folders)] + (["--text", text] if text else [])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environ, **threads},
        check=False,
    )
    return done.returncode, done.stdout


def check(results: Path, text: str | None) -> bool:
    """
    Trains each model of the study of models with a seed that is kept, until the first
    loss that is kept: the learning rate is constant, so that this is the beginning of
    the whole run. Returns whether all losses agree.
    """
    torch.set_num_threads(1)
    corpus, all_agree = read_corpus(text), True
    for label, kept in results_of("models", results).items():
        run, first = STUDIES["models"].runs[label], kept[0]
        point, seed = first.validation[0], first.run["training"]["seed"]
        preset = Preset(run.model, {**run.training, "steps": point.step, "seed": seed})
        experiment = replace(experiments()[run.experiment], presets={PRESETS[0]: preset})
        fresh = Trainer(*experiment.build(PRESETS[0], corpus=corpus)).train()
        loss, spread = fresh.validation_loss or 0.0, at_equal(kept, point.step, "step")
        agrees = abs(loss - point.loss) <= TOLERANCE
        all_agree &= agrees
        print(
            f"{label:18}{point.step} updates, {fresh.process_seconds:.1f} s CPU, seed {seed}: "
            f"{loss:.4f}, kept {point.loss:.4f}"
            f" ({spread.low:.4f} to {spread.high:.4f} of {spread.n} seeds)"
            + ("" if agrees else "  DIFFERS"),
            flush=True,
        )
    return all_agree


def plan(todo: Sequence[Job]) -> str:
    """The missing runs, with their estimated minutes of one core."""
    lines = []
    for name, study in STUDIES.items():
        of = [job for job in todo if job.study == name]
        minutes = sum(job.run.minutes for job in of)
        lines.append(f"{name:16}{len(of):4} runs {minutes:7.1f} min   {study.question}")
    total = sum(job.run.minutes for job in todo)
    return "\n".join([*lines, f"{'all':16}{len(todo):4} runs {total:7.1f} min"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if nothing is missing any more, 1 if something is, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m docs_src.results.studies",
        description="Make the runs behind the page of results that are missing.",
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="STUDY", help="only this study")
    add("--jobs", type=int, default=2, help="runs at a time (%(default)s)")
    add("--plan", action="store_true", help="print what is missing, and end")
    add("--check", action="store_true", help="compare short runs with what is kept")
    add("--text", help="train on this file (default: Tiny Shakespeare)")
    add("--results", type=Path, default=RESULTS, help="keep results here (%(default)s)")
    add("--folders", type=Path, default=FOLDERS, help="run folders (%(default)s)")
    add("--make", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    try:
        if given.make:
            job = Job.of(given.make)
            finished = make(job, given.folders, given.text)
            print("finished" if finished else "interrupted, and saved")
            return 0 if finished else 1
        if given.check:
            return 0 if check(given.results, given.text) else 1
        todo = [job for job in jobs(given.only) if is_missing(job, given.results)]
        print(plan(todo), flush=True)
        if given.plan or not todo:
            return 0
        if not given.results.is_dir():
            raise ValueError(f"there is no folder {given.results}; choose another with --results")
        whole = make_all(
            todo,
            lambda job: process(job, given.folders, given.text),
            lambda job: keep(job, given.folders, given.results),
            max(1, given.jobs),
        )
    except (ValueError, OSError, RunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, RunError) else 2
    return 0 if whole else 1


def is_missing(job: Job, results: Path) -> bool:
    """Whether there is no result of this run as it is declared now."""
    kept = job.result(results)
    return kept is None or not job.describes(kept.run)


if __name__ == "__main__":
    sys.exit(main())
