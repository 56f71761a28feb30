r"""
---
title: The command generate
summary: A trained model writes, letter by letter, on your screen.
---

```text
python -m labml_nn generate runs/feedback --prompt "ROMEO:" --tokens 300
```

A letter is printed as soon as it is drawn, so that one sees the model at work. What can
be changed is how it draws, explained under [sampling](../../sampling.py). The
settings are a dataclass of their own, and become flags as the configurations do.

A model of replies answers the prompt; the others continue it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from labml_nn.checks import check_sizes
from labml_nn.experiments.command_line import program
from labml_nn.experiments.command_line.flags import (
    Parser,
    add_flags,
    flags_of,
    given,
)
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.devices import pick_device
from labml_nn.experiments.training.folder import Run, RunFolder, load_run
from labml_nn.experiments.training.task import Wording
from labml_nn.language_model import LanguageModel
from labml_nn.sampling import (
    Chain,
    Greedy,
    Nucleus,
    Sampler,
    Temperature,
    TopK,
    generate,
)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """
    ## How to write

    * `prompt` is what the model continues, or replies to; without one, a text begins
      with a new line
    * `tokens` is the number of letters to write, at most
    * `temperature` makes likely letters likelier, below 1, or less likely, above; 0
      always takes the likeliest
    * `top_k` draws from that many of the likeliest letters only
    * `top_p` draws from as few of the likeliest letters as have this probability
      together
    * `seed` makes the text repeatable
    * `count` is the number of texts
    * `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`, or `"auto"` for the fastest
      that there is
    """

    prompt: str = ""
    tokens: int = 300
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    count: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        check_sizes(tokens=self.tokens, count=self.count)
        if self.temperature < 0:
            raise ValueError(
                f"`temperature` ({self.temperature}) must be at least 0; 0.8 is a good "
                "start, 0 always takes the likeliest letter"
            )
        if self.top_k is not None:
            check_sizes(top_k=self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(
                f"`top_p` ({self.top_p}) must be above 0 and at most 1; 0.95 is usual, "
                "and `temperature` 0 always takes the likeliest letter"
            )

    @property
    def sampler(self) -> Sampler:
        """What draws. A tail is cut off after the temperature has made it."""
        if self.temperature == 0:
            return Greedy()
        steps: list[Sampler] = [Temperature(self.temperature)]
        if self.top_k is not None:
            steps.append(TopK(self.top_k))
        if self.top_p is not None:
            steps.append(Nucleus(self.top_p))
        return Chain(*steps)


FLAGS = flags_of(Writing, {})


def run(words: Sequence[str]) -> int:
    """
    ## The command

    * `words` are those behind `generate`
    """
    parser = Parser(
        "Let a trained model write, or reply. A model of replies answers the prompt; "
        "the others continue it.",
        f"{program()} generate",
    )
    parser.add_argument("run", metavar="RUN", help="the folder of a run: runs/feedback")
    add_flags(parser, "how it writes", FLAGS)
    values = parser.read(words)
    writing = Writing(**given(values, FLAGS))
    device = device_of(writing.device)
    trained = run_in(values.run)
    prompt = prompt_of(trained, writing.prompt)
    model = trained.model(device)
    tokens = trained.wording.prompt(prompt).to(device)
    for i in range(writing.count):
        if i:
            print(f"\n--- {i + 1} of {writing.count} ---")
        if not replies(trained):
            show(prompt)
        write(model, trained.wording, tokens, writing, i, show)
        print()
    return 0


def run_in(folder: str) -> Run:
    """
    ## Which run?

    * `folder` is what was typed

    Returns the run in it. Where there is none, the runs nearby are named: an experiment
    with variants has one in each of the folders below, and names are misspelt. Raises
    `RunError`.
    """
    path = Path(folder)
    if not RunFolder(path).run_file.is_file():
        files = [*path.glob("*/run.json"), *path.glob("*/*/run.json")]
        below = sorted(str(file.parent) for file in files)
        beside = [str(file.parent) for file in path.parent.glob("*/run.json")]
        close = get_close_matches(str(path), beside, n=1)
        if below:
            listed = ", ".join(below[:8]) + (", ..." if len(below) > 8 else "")
            raise RunError(f"{path} is not a run, but there are some in it: {listed}")
        if RunFolder(path.parent).run_file.is_file():
            raise RunError(f"{path} is a part of a run; give {path.parent}")
        if close and not path.exists():
            raise RunError(f"there is no {path}; did you mean {close[0]}?")
    return load_run(path)


def write(
    model: LanguageModel[Any],
    wording: Wording,
    tokens: Any,
    writing: Writing,
    number: int,
    listener: Callable[[str], None],
) -> None:
    """
    ## One text

    * `number` is the place of the text among several; each has a seed of its own
    * `listener` gets the text in the pieces in which it comes into being
    """
    generate(
        model,
        tokens,
        writing.tokens,
        writing.sampler,
        seed=None if writing.seed is None else writing.seed + number,
        on_token=lambda _, token: listener(wording.decode([token])),
    )


def show(text: str) -> None:
    """At once, and not when a line is full."""
    sys.stdout.write(text)
    sys.stdout.flush()


def device_of(name: str) -> torch.device:
    """The device of this name. Raises `ValueError` if there is no such, or not here."""
    return pick_device(TrainingConfig(device=name).device)


def replies(trained: Run) -> bool:
    """Whether the model replies to a text, and does not continue it."""
    return bool(trained.about["task"] == "replies")


def prompt_of(trained: Run, prompt: str) -> str:
    r"""
    ## From what is typed to what is read

    * `prompt` is what was typed, perhaps nothing

    Nothing can be continued: a text may begin, behind a new line. It cannot be replied
    to. Raises `ValueError` for that, for letters that the model has never seen, and for
    a `\n`, which a shell passes on as two letters.
    """
    vocabulary = trained.vocabulary
    if not prompt and replies(trained):
        raise ValueError(
            "this model replies, and nothing was said; try --prompt "
            '"What is your name?"'
        )
    if not prompt and "\n" not in vocabulary.characters:
        raise ValueError(
            "this model has never seen a new line, with which a text would begin; give "
            f'it a letter to begin with: --prompt "{vocabulary.characters[0]}"'
        )
    check_backslash(trained, prompt)
    return prompt or "\n"


def check_backslash(trained: Run, text: str) -> None:
    r"""Raises `ValueError` for a `\n` that a shell has passed on as two letters."""
    if "\\" in text and "\\" not in trained.vocabulary.characters:
        raise ValueError(
            f"the text ({text!r}) holds a backslash, which this model has never seen; "
            "for a new line, write $'ROMEO:\\n', with single quotes behind a dollar "
            "sign (bash, zsh)"
        )
