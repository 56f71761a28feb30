"""Why do three models not answer everything? Runs of the page about memory, with one thing changed.

``python -m docs_src.results.memory_causes`` makes the runs that are missing and writes
``memory_causes.json`` beside it, a line each, in about ten minutes of one CPU thread. The runs
without a change are those of `studies.py`. So are models, hyperparameters and sequences.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from docs_src.results.studies import MEMORY, on_task
from labml_nn.experiments.presets import PRESETS, Preset, experiments
from labml_nn.experiments.trainer import Trainer
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet
from labml_nn.saving import replace as write_files

KEPT = Path(__file__).with_suffix(".json")
SEED = 1  # as the first of the runs without a change


class Open(nn.Module):
    """An output gate that lets everything through: SiLU(1.278…) = 1."""

    def __init__(self, features: int) -> None:
        """For so many `features`."""
        super().__init__()
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        """The same for each token."""
        return x.new_full((*x.shape[:-1], self.features), 1.2784645)


def slow_forgetting(model: nn.Module) -> None:
    """Each layer begins with a hundredth of its rates of forgetting. They are learned as before."""
    for layer in model.modules():
        if isinstance(layer, GatedDeltaNet):
            layer.A_log.data -= math.log(100)


def no_output_gate(model: nn.Module) -> None:
    """The layers show all that they find."""
    for layer in model.modules():
        if isinstance(layer, GatedDeltaNet):
            layer.gate = Open(layer.gate.out_features)  # type: ignore[assignment]


def neither(model: nn.Module) -> None:
    """Both changes."""
    slow_forgetting(model)
    no_output_gate(model)


class Changed(NamedTuple):
    """A run of a memory task: its model, hyperparameters, and what is done to the new model."""

    task: str
    model: str
    training: dict[str, Any]
    change: Callable[[nn.Module], None] | None = None


def _overwrite(model: str, rate: float = 3e-3, **training: Any) -> Changed:
    return Changed("overwrite", model, {"learning_rate": rate, **training})


LONG = {"steps": 3200, "grow_steps": 2560}
RUNS = {
    "DeltaNet, rate 0.003": Changed("recall", "delta_net", {"learning_rate": 3e-3}),
    "Gated DeltaNet, rate 0.01": Changed("recall", "gated_delta_net", {"learning_rate": 1e-2}),
    **{
        f"Gated DeltaNet, {change.__name__.replace('_', ' ')}": Changed(
            "recall", "gated_delta_net", {"learning_rate": 3e-3}, change
        )
        for change in (no_output_gate, slow_forgetting, neither)
    },
    "feedback, rate 0.003": _overwrite("feedback"),
    "feedback, 4 keys": _overwrite("feedback", seq_len=20),
    "feedback, 8 keys": _overwrite("feedback", seq_len=40),
    "feedback, four times the updates": _overwrite("feedback", **LONG),
    "transformer, rate 0.01": _overwrite("autoregressive", 1e-2),
    "transformer, 4 keys": _overwrite("autoregressive", seq_len=20),
    "transformer, four times the updates": _overwrite("autoregressive", **LONG),
}


def make(label: str) -> dict[str, Any]:
    """One run, and the share of questions that it answers."""
    run = RUNS[label]
    declared = on_task(run.task, MEMORY[run.model], **run.training)
    experiment = experiments()[declared.experiment]
    experiment = replace(experiment, presets={name: Preset() for name in PRESETS})
    model, task, config = experiment.build(
        PRESETS[0],
        model=declared.model,
        training={**declared.suits, **declared.training, "seed": SEED},
        task=run.task,
    )
    if run.change is not None:
        run.change(model)
    result = Trainer(model, task, config).train()
    if result.stopped != "finished":
        raise SystemExit(f"{label}: {result.stopped}")
    return {
        "label": label,
        "seed": SEED,
        "task": run.task,
        "steps": config.steps,
        "learning_rate": config.learning_rate,
        "accuracy": round(task.accuracy(model, "cpu") or 0.0, 3),
        "loss": round(result.validation_loss or 0.0, 3),
    }


def kept() -> Iterator[dict[str, Any]]:
    """The runs that were made."""
    if KEPT.exists():
        yield from json.loads(KEPT.read_text(encoding="utf-8"))


def main() -> None:
    """Make what is missing."""
    torch.set_num_threads(1)
    made = {run["label"]: run for run in kept()}
    for label in RUNS:
        if label not in made:
            made[label] = make(label)
            lines = ",\n".join(json.dumps(made[each]) for each in RUNS if each in made)
            write_files({KEPT: f"[\n{lines}\n]\n".encode()})
            print(made[label], flush=True)


if __name__ == "__main__":
    main()
