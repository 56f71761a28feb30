r"""
---
title: The folder of a run
summary: >
  What a training leaves behind, file by file, and how to go on with it: load the model,
  read its numbers, ask it something.
---

A trained model without its story is half a model. On what text? With which numbers? How
good was it, and how long did it take? A run keeps all of it in one folder:

```text
runs/feedback/
    run.json           what was trained, on what, how, where
    vocabulary.json    which character has which number
    model/             the best model so far: config.json, model.safetensors
    checkpoint.pt      how to go on with the training
    log.jsonl          everything that happened, a line each
    samples.txt        what the model wrote on its way
    curve.svg          the losses, as a picture
    result.json        what came out: numbers, curves, samples
```

The first three are enough to use the model, and `result.json` to compare it. Models
that are shipped have these four.

`model` is not the last model but the one with the lowest loss on the validation split.
A small text is learned by heart in the end, and then the last one is not the best.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from labml_nn.experiments.data import read_corpus
from labml_nn.experiments.data.vocabulary import Vocabulary
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.task import TASKS, WORDINGS, Task, Wording
from labml_nn.language_model import LanguageModel
from labml_nn.registry import load, models
from labml_nn.saving import replace

__all__ = ["Run", "RunFolder", "load_run", "read_json", "write_json"]


class RunFolder:
    """
    ## Where everything is

    Names of files, and nothing is opened.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """`path` need not exist."""
        self.path = Path(path)
        self.run_file = self.path / "run.json"
        self.vocabulary = self.path / "vocabulary.json"
        self.model = self.path / "model"
        self.checkpoint = self.path / "checkpoint.pt"
        self.log = self.path / "log.jsonl"
        self.samples = self.path / "samples.txt"
        self.curve = self.path / "curve.svg"
        self.result = self.path / "result.json"

    def check_new(self) -> None:
        """
        ### Nobody's work is overwritten

        Raises `RunError` if there is something in the folder.
        """
        if self.run_file.exists():
            raise RunError(
                f"there is a run in {self.path} already; go on with it (--resume), or "
                "choose another folder (--out)"
            )
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another folder (--out)")
        if self.path.exists() and any(self.path.iterdir()):
            raise RunError(
                f"{self.path} is not empty, and what is in it is no run; choose "
                "another folder (--out)"
            )

    @classmethod
    def create(
        cls, path: str | PathLike[str], about: Mapping[str, Any], vocabulary: Vocabulary
    ) -> "RunFolder":
        """
        ### A new run

        * `about` is what `run.json` will say

        Raises `RunError` for a folder that is not empty or cannot be made.
        """
        folder = cls(path)
        folder.check_new()
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_json(folder.vocabulary, {"characters": vocabulary.characters})
            write_json(folder.run_file, about)
        except OSError as error:
            raise RunError(
                f"nothing can be written to {folder.path}: {error.strerror}; choose "
                "another folder (--out)"
            ) from error
        return folder

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "RunFolder":
        """
        ### A run that is there

        Raises `RunError` if it is not.
        """
        folder = cls(path)
        if not folder.run_file.is_file():
            what = "no run in it" if folder.path.exists() else "not there"
            raise RunError(
                f"{folder.path} is {what}; expected the folder that a training wrote, "
                "such as runs/feedback"
                if what == "not there"
                else f"{folder.path} has {what}; expected a folder with run.json, as a "
                "training writes it"
            )
        return folder


@dataclass(frozen=True)
class Run:
    """
    ## A run to work with

    * `folder` is where it is
    * `about` is what `run.json` says, whole
    * `vocabulary` is that of its text
    """

    folder: RunFolder
    about: Mapping[str, Any]
    vocabulary: Vocabulary

    @property
    def experiment(self) -> str | None:
        """Which experiment it was."""
        name: str | None = self.about["experiment"]
        return name

    @property
    def variant(self) -> str | None:
        """Which variant of it, if it has some."""
        name: str | None = self.about["variant"]
        return name

    @property
    def preset(self) -> str | None:
        """With which preset it was begun."""
        name: str | None = self.about["preset"]
        return name

    @property
    def training(self) -> TrainingConfig:
        """How it was trained."""
        return TrainingConfig.of(self.about["training"])

    @property
    def model_name(self) -> str:
        """The name of its model, in the table of models."""
        name: str = self.about["model"]["name"]
        return name

    @property
    def model_config(self) -> Mapping[str, Any]:
        """The fields of its model's configuration."""
        fields: Mapping[str, Any] = self.about["model"]["config"]
        return fields

    @property
    def corpus(self) -> Mapping[str, Any]:
        """Name, checksum and path of the text."""
        corpus: Mapping[str, Any] = self.about["corpus"]
        return corpus

    @property
    def wording(self) -> Wording:
        """How to talk to the model, without its text."""
        return WORDINGS[self.about["task"]](self.vocabulary)

    def prompt(self, text: str) -> Int[Tensor, "S 1"]:
        """A text as the model wants it."""
        return self.wording.prompt(text)

    def decode(self, tokens: Tensor) -> str:
        """What the model wrote."""
        return self.wording.decode(tokens)

    def model(self, device: torch.device | str | None = None) -> LanguageModel[Any]:
        """
        The best model of the run, in training mode like any new one. Raises `RunError`
        if it has none yet, `ValueError` if its files are damaged.
        """
        if not self.folder.model.is_dir():
            raise RunError(
                f"the run in {self.folder.path} has no model yet; train on with "
                "--resume"
            )
        return load(self.folder.model, device=device)

    def new_model(self) -> LanguageModel[Any]:
        """A model like that of the run, with random parameters, for `resume`."""
        return models()[self.model_name].load_class().from_config(self.model_config)

    def task(self, text: str | PathLike[str] | None = None) -> Task:
        """
        Its task, with its text read again.

        * `text` is the file to read; `None` is where it was read before

        Raises `RunError` for a text other than that of the training.
        """
        known = self.corpus
        path = known["path"] if text is None else text
        if text is None and path is not None and not Path(path).exists():
            path = None  # it was another machine: the text may be in a usual place
        corpus = read_corpus(None if path is None else Path(path))
        # Another text has other characters, and so other numbers for them. The model
        # knows those of its own text.
        vars(corpus)["vocabulary"] = self.vocabulary
        if text is None and corpus.sha256 != known["sha256"]:
            raise RunError(
                f"the model was trained on {known['name']} ({known['sha256'][:12]}), "
                f"and what is found now is {corpus.name} ({corpus.sha256[:12]}); give "
                "the file that is meant with --text"
            )
        config = self.training
        return TASKS[self.about["task"]](
            corpus,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            seed=config.seed,
        )

    def result(self) -> dict[str, Any]:
        """What came out. Raises `RunError` if the run is not over."""
        if not self.folder.result.exists():
            raise RunError(
                f"the run in {self.folder.path} has no result yet; train on with "
                "--resume"
            )
        return read_json(self.folder.result)


# What `run.json` has to hold.
PARTS = {
    "model": dict,
    "training": dict,
    "task": str,
    "corpus": dict,
    "experiment": str | None,
    "variant": str | None,
    "preset": str | None,
}
CORPUS = ("name", "sha256", "path")


def load_run(path: str | PathLike[str]) -> Run:
    """
    ## Load a run

    * `path` is its folder

    Returns the run; its model and its text are read when they are asked for. Raises
    `RunError` for a folder that is not there, is no run, or is damaged.
    """
    folder = RunFolder.open(path)
    about = read_json(folder.run_file)
    for name, kind in PARTS.items():
        if name not in about or not isinstance(about[name], kind):
            raise RunError(
                f"{folder.run_file} is damaged, or was written by another program: "
                f"{name!r} is missing or of another kind"
            )
    _check_fields(folder.run_file, about)
    characters = read_json(folder.vocabulary).get("characters")
    if not isinstance(characters, str):
        raise RunError(f"{folder.vocabulary} is damaged: it has no 'characters'")
    return Run(folder, about, Vocabulary(characters))


def _check_fields(path: Path, about: Mapping[str, Any]) -> None:
    if about["task"] not in TASKS:
        raise RunError(
            f"{path} is damaged, or was written by another version: the task "
            f"{about['task']!r} is none of {', '.join(TASKS)}"
        )
    for part, names in (("model", ("name", "config")), ("corpus", CORPUS)):
        missing = [name for name in names if name not in about[part]]
        if missing:
            raise RunError(
                f"{path} is damaged, or was written by another program: {part!r} says "
                f"nothing of {', '.join(missing)}"
            )


# ## JSON
#
# Written in one step or not at all, with a line for each field, and read with an error
# that says which file is meant.
def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Raises `OSError` if the disk refuses, `ValueError` for what JSON cannot hold."""
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for name, value in values.items()
    )
    replace({path: f"{{\n{lines}\n}}\n".encode()})


def read_json(path: Path) -> dict[str, Any]:
    """Raises `RunError` for a file that is not there, or is damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"there is no {path}: the run is not whole") from None
    except (ValueError, OSError) as error:
        raise RunError(f"{path} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise RunError(f"{path} is damaged: it holds no fields")
    return values
