r"""
---
title: What it can write by now
summary: Texts that a model writes while it learns, and the file that keeps them.
---

A loss of 2.5 says nothing to most people. A page on which letters become words, words
become names, and names begin to speak, does.

Each time the model starts from the same prompt, and draws with random numbers
of its own. So the texts of a run can be compared, and writing them does not change what
is learned.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.task import Task
from labml_nn.language_model import LanguageModel
from labml_nn.sampling import Temperature, generate

__all__ = ["Samples", "sample"]

# A little bolder than the model: its own probabilities give every odd letter a chance,
# and two hundred letters are two hundred chances.
SAMPLER = Temperature(0.8)


def sample(
    model: LanguageModel[Any],
    task: Task,
    n: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> str:
    """
    ## A text

    * `n` is how many tokens to write
    * `seed` is that of the draws
    * `device` is where the model lives

    Returns the prompt of the task and what the model wrote behind it.
    """
    prompt = task.prompt(task.sample_prompt).to(device)
    written = generate(model, prompt, n, SAMPLER, seed=seed)
    return task.sample_prompt + task.joint + task.decode(written[:, 0].cpu())


class Samples(Reporter):
    """
    ## In a file

    All texts of a run, each under the number of updates that came before it. A disk
    that is full ends no training: the texts are in the checkpoint as well.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the file."""
        self.path = path

    def begin(self, trainer: Any) -> None:
        """Only what the run knows of, if it goes on from a checkpoint."""
        texts = trainer.history.samples
        if self.path.exists() or texts:
            self._write("w", *texts)

    def sampled(self, step: int, text: str) -> None:
        """One more."""
        self._write("a", {"step": step, "text": text})

    def _write(self, mode: str, *texts: dict[str, Any]) -> None:
        with (
            suppress(OSError),
            self.path.open(mode, encoding="utf-8", newline="\n") as file,
        ):
            for each in texts:
                file.write(f"--- after {each['step']} updates\n{each['text']}\n\n")
