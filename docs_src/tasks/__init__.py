"""The tasks of the lessons: small experiments in which the mechanism of a lesson decides.

A lesson shows one task, with its mechanism and without. Each is a module of this folder:

* `MODELS` names what is compared, for example ``("attention", "average")``;
* `SEEDS` are the seeds, `DEFAULT_SEEDS` unless the module has others;
* ``run(model, seed)`` trains one model on one thread, in seconds or a minute, and returns what came
  out: a mapping from names to numbers or lists of numbers. Equal arguments give equal results.

``python -m docs_src.tasks attention`` makes the runs that are missing and keeps them in
``attention.jsonl``, one line for each; figures draw them with `results`. A line also has the
digest of the module and what it ran on, so that a test finds results of an older program.
"""

import ast
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import torch

#: What a run gives.
Measured = Mapping[str, float | Sequence[float]]
DEFAULT_SEEDS = (1, 2, 3, 4, 5)
FOLDER = Path(__file__).parent


class LessonTask(Protocol):
    """A module of this folder."""

    MODELS: Sequence[str]
    run: Callable[[str, int], Measured]


@dataclass(frozen=True)
class Result:
    """A run that is kept: `measured` is what it gave, `seconds` is CPU time."""

    model: str
    seed: int
    measured: Measured
    seconds: float
    torch: str
    digest: str


def names() -> list[str]:
    """The tasks that there are."""
    files = (path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    return sorted(files)


def load(name: str) -> LessonTask:
    """The module of a task."""
    return cast(LessonTask, import_module(f"{__name__}.{name}"))


def seeds(name: str) -> Sequence[int]:
    """The seeds of a task."""
    return cast(Sequence[int], getattr(load(name), "SEEDS", DEFAULT_SEEDS))


def digest(name: str) -> str:
    """Eight digits that change with the program of a task, and not with its notes."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            # A body may not be empty.
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:8]


def kept(name: str) -> list[Result]:
    """The runs of a task that are kept, in the order of `MODELS` and of the seeds."""
    path = FOLDER / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Result(**json.loads(line)) for line in lines]


def measure(name: str, model: str, seed: int) -> Result:
    """One run, on one thread."""
    torch.set_num_threads(1)
    start = time.process_time()
    measured = load(name).run(model, seed)
    seconds = round(time.process_time() - start, 1)
    return Result(model, seed, measured, seconds, torch.__version__, digest(name))


def results(name: str, measure: str) -> dict[str, list[float | Sequence[float]]]:
    """One measure of a task: for each model, in their order, the values of all seeds.

    Raises `ValueError` if runs are missing, with the command that makes them.
    """
    found = {(result.model, result.seed): result.measured for result in kept(name)}
    wanted = {model: [(model, seed) for seed in seeds(name)] for model in load(name).MODELS}
    missing = [run for runs in wanted.values() for run in runs if run not in found]
    if missing:
        some = ", ".join(f"{model} with seed {seed}" for model, seed in missing[:3])
        raise ValueError(
            f"the task {name} has no result of {some}; run `python -m docs_src.tasks {name}`"
        )
    return {model: [found[run][measure] for run in runs] for model, runs in wanted.items()}
