r"""
---
title: "Checkpoints and run folders"
summary: >
  Everything that determines how a training continues, in one file that is replaced
  atomically; and the folder that a run leaves behind.
---

A training of any length is interrupted sooner or later. If only the model were saved,
AdamW would lose its moments, the warm-up would start again, and the same batches would
come twice. A **checkpoint** holds everything that determines the next update:

| What | Where |
|:--|:--|
| parameters and buffers | in the file |
| optimizer moments, scaler of mixed precision | in the file |
| step, curves, best loss, samples | in the file |
| learning rate | a function of the step |
| next batch | a function of seed and step |
| random numbers of dropout | a function of seed, step and process |

On a CPU a resumed run equals the uninterrupted one bit for bit. The file is written
under another name, flushed to the disk and renamed, so that a crash or a full disk
never costs the previous checkpoint. It is read with `weights_only=True`: no code in it
runs.

A run keeps all its files in one folder:

```text
runs/feedback/
    run.json           model, hyperparameters, text, versions, machine
    vocabulary.json    the characters or words in the order of their tokens
    model/             the best model so far: config.json, model.safetensors
    checkpoint.pt      the state of the training
    samples.txt        samples generated during the training
    labml/             losses and speed during the training, if labml is installed
    curve.svg          training and validation loss
    result.json        the final losses, times and curves
```

`model` has the lowest validation loss, which need not be the last model: a small text
is overfitted in the end.

## Fine-tune a saved model

Do you have a text of your own that is too short to train on? Begin with a model that
has read another one. **Fine-tuning** is ordinary training that starts from saved
parameters, with a smaller learning rate, so that little of what they know is lost. The
model keeps its tokens: the new text is encoded by the vocabulary of the run, and a
character that it lacks is an error.

```python
from dataclasses import replace
from tempfile import TemporaryDirectory

from labml_nn.experiments import Corpus, Trainer, experiments, load_run
from labml_nn.experiments.data import TextTask
from labml_nn.experiments.trainer import validation_loss

long = Corpus.of("a proverb", "the course of true love never did run smooth. " * 40)
short = Corpus.of("a song", "the river runs to the end of the sun. " * 12)
with TemporaryDirectory() as folder:
    # The run that there is.
    model, task, config = experiments()["elman"].build(
        "tiny",
        corpus=long,
        model={"d_model": 16, "d_hidden": 32, "n_layers": 1},
        training={"steps": 60, "batch_size": 4, "seq_len": 12},
    )
    Trainer(model, task, config, folder).train()

    run = load_run(folder)
    model, tokens = run.model(), run.vocabulary
    task = TextTask(short, batch_size=4, seq_len=12, vocabulary=tokens)
    before = validation_loss(model, task, "cpu")
    gently = replace(run.training, learning_rate=run.training.learning_rate / 3)
    result = Trainer(model, task, gently).train()
    assert result.validation_loss < before
```

A third of the rate is where to begin, and no rule. If the loss on the old text rises
too much, go on with a smaller rate or fewer steps.
"""

import copy
import io
import json
import os
import pickle
import platform
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from labml_nn.checks import check_known
from labml_nn.experiments.data import Task, Vocabulary, Words, read_corpus
from labml_nn.experiments.presets import TASKS, TrainingConfig
from labml_nn.language_model import LanguageModel
from labml_nn.registry import create, load, models
from labml_nn.saving import replace as write_files
from labml_nn.saving import user_path

__all__ = ["Run", "RunError", "RunFolder", "Saver", "load_run", "read_checkpoint"]

FORMAT = 1
UNITS = {"characters": Vocabulary, "words": Words}  # of `vocabulary.json`
PARTS = ("about", "model", "update", "history")
# Hyperparameters that affect time and output, not learning, may change on resuming.
FREE = {
    *("evaluate_every", "sample_every", "save_every", "sample_tokens"),
    *("device", "compile", "accumulate"),
}
DAMAGED = (
    *(OSError, EOFError, RuntimeError, KeyError, TypeError, ValueError, AttributeError),
    *(pickle.UnpicklingError, zipfile.BadZipFile),
)


class RunError(Exception):
    """
    ## A run that cannot start or continue

    A failure without a programming error: the text is missing, or the disk is full. A
    value that is out of range is a `ValueError`, as everywhere in the library.
    """


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Atomically, with one line for each field."""
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for name, value in values.items()
    )
    write_files({path: f"{{\n{lines}\n}}\n".encode()})


def read_json(path: Path) -> dict[str, Any]:
    """Raises `RunError` for a file that is missing or damaged."""
    with intact(path):
        return dict(json.loads(path.read_text(encoding="utf-8")).items())


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Atomically. Raises `OSError` if the disk refuses; the old file is kept then."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    write_files({path: buffer.getvalue()})


def read_checkpoint(path: Path) -> dict[str, Any]:
    """
    ## Read a checkpoint

    Its tensors are on the CPU. Raises `RunError` for a file that is missing, damaged,
    or of another version.
    """
    if not path.exists():
        raise RunError(
            f"there is no {path} to continue from; start a new run in another folder"
        )
    with intact(path), warnings.catch_warnings(action="ignore"):
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["format"] == FORMAT:
            return {name: state[name] for name in PARTS}
    raise RunError(
        f"{path} has format {state['format']}, and this version of labml-nn reads "
        f"{FORMAT}; use the version that wrote it, or start a new run in another folder"
    )


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Errors while reading `path` become the `RunError` of a damaged file."""
    try:
        yield
    except DAMAGED as error:
        # PyTorch's message for a file that is no checkpoint recommends to load it
        # unsafely, which is no advice for a damaged file.
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, pickle.UnpicklingError) or "weights_only" in said:
            said = "it is not a checkpoint"
        raise RunError(
            f"{path} is damaged ({said}); the best model of the run is in "
            f"{path.with_name('model')}, and a new run can start in another folder"
        ) from error


def check_belongs(
    path: Path, written: Mapping[str, Any], ours: Mapping[str, Any]
) -> None:
    """
    Raises `RunError` if the checkpoint `path` is of another model, text or
    configuration, with everything that differs.
    """
    theirs, mine = (
        {**one["model_config"], **one["training"], **one} for one in (written, ours)
    )
    names = [name for name in theirs if name in mine and name not in FREE]
    differ = [
        f"{name}: {theirs[name]!r} there and {mine[name]!r} here"
        for name in names
        if theirs[name] != mine[name] and not isinstance(mine[name], dict)
    ]
    if differ:
        listed = "\n  ".join(differ)
        raise RunError(
            f"{path} belongs to another run:\n  {listed}\n"
            "continue with the values it began with, or start a new run in another "
            "folder"
        )


class RunFolder:
    """
    ## Run folder

    The paths of its files; `path` need not exist, and `~` in it is the home folder.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = user_path(path)
        self.run_file = self.path / "run.json"
        self.vocabulary = self.path / "vocabulary.json"
        self.model = self.path / "model"
        self.checkpoint = self.path / "checkpoint.pt"
        self.samples = self.path / "samples.txt"
        self.curve = self.path / "curve.svg"
        self.result = self.path / "result.json"

    def check_new(self) -> None:
        """Raises `RunError` if there is something in the folder."""
        if self.run_file.exists():
            raise RunError(
                f"there is a run in {self.path} already; continue it (--resume), or "
                "choose another folder (--out)"
            )
        is_file = self.path.exists() and not self.path.is_dir()
        if is_file or (self.path.exists() and any(self.path.iterdir())):
            what = "is a file" if is_file else "is not empty and holds no run"
            raise RunError(f"{self.path} {what}; choose another folder (--out)")

    def check_run(self) -> None:
        """Raises `RunError` if there is no run in the folder."""
        if not self.run_file.is_file():
            what = "has no run in it" if self.path.exists() else "does not exist"
            raise RunError(
                f"{self.path} {what}; expected the folder that a training wrote, such "
                "as runs/feedback, with a run.json in it"
            )


@dataclass(frozen=True)
class Run:
    """
    ## A run

    * `folder` has its files
    * `about` is the content of `run.json`
    * `vocabulary` is that of its text
    """

    folder: RunFolder
    about: Mapping[str, Any]
    vocabulary: Vocabulary

    @property
    def training(self) -> TrainingConfig:
        """Its hyperparameters, without those that only earlier versions had."""
        known = {field.name for field in fields(TrainingConfig)}
        values = self.about["training"].items()
        return TrainingConfig.of({k: v for k, v in values if k in known})

    @property
    def wording(self) -> Task:
        """Its task without the text, which encodes prompts and decodes samples."""
        return TASKS[self.about["task"]](None, vocabulary=self.vocabulary)

    def model(self, device: torch.device | str | None = None) -> LanguageModel[Any]:
        """The best model. Raises `RunError` if there is none yet."""
        return load(self._there(self.folder.model), device=device)

    def new_model(self, **changes: Any) -> LanguageModel[Any]:
        """A model of the same configuration, for `Trainer.resume`."""
        about = self.about["model"]
        return create(about["name"], **{**about["config"], **changes})

    def result(self) -> dict[str, Any]:
        """Its `result.json`. Raises `RunError` if the run has not ended."""
        return read_json(self._there(self.folder.result))

    def _there(self, path: Path) -> Path:
        if path.exists():
            return path
        raise RunError(
            f"the run in {self.folder.path} has no {path.stem} yet; continue it with "
            "--resume"
        )

    def task(self, text: str | PathLike[str] | None = None) -> Task:
        """
        Its task, with the text read again, from the file `text` if given. Raises
        `RunError` if the text found is not that of the training.
        """
        known, config = self.about["corpus"], self.training
        task, corpus = TASKS[self.about["task"]], None
        path = known.get("path") if text is None else text
        if text is None and path is not None and not Path(path).exists():
            path = None
        if task.reads_text:
            corpus = read_corpus(None if path is None else Path(path))
        if corpus and text is None and corpus.sha256 != known["sha256"]:
            raise RunError(
                f"the model was trained on {known['name']} ({known['sha256'][:12]}), "
                f"and what is found now is {corpus.name} ({corpus.sha256[:12]}); name "
                "the file with --text"
            )
        return task(
            corpus,
            batch_size=config.batch_size,
            seq_len=config.seq_len,
            seed=config.seed,
            vocabulary=self.vocabulary,
        )


def load_run(path: str | PathLike[str]) -> Run:
    """
    ## Load a run

    Model and text are read when they are asked for. Raises `RunError` for a folder
    without a run, and for damaged files.
    """
    folder = RunFolder(path)
    folder.check_run()
    about = read_json(folder.run_file)
    with intact(folder.run_file):
        _ = about["training"].items(), about["model"]["config"].items()
        _ = [about[name] for name in ("experiment", "preset")]
        _ = [about["corpus"][name].lower() for name in ("name", "sha256")]
        models()[about["model"]["name"]]
        check_known("task", about["task"], TASKS)
    with intact(folder.vocabulary):
        ((unit, texts),) = read_json(folder.vocabulary).items()
        vocabulary = UNITS[unit](texts if unit == "characters" else tuple(texts))
    return Run(folder, about, vocabulary)


class Saver:
    """
    ## Saving during the training

    A full disk does not end a training: the failure is reported, the training continues
    in memory, and saving is tried again at the next occasion. Only what could not be
    written at the end is an error.

    * `folder` is where to write; `None` writes nothing
    * `warn` is called with what the disk refused
    * `saved_at` is the step of the last complete checkpoint; -1: there is none
    """

    def __init__(self, folder: RunFolder | None, warn: Callable[[str], object]) -> None:
        self.folder, self.saved_at = folder, -1
        self._warn = warn
        self._refused: dict[str, str] = {}
        self._waiting: tuple[LanguageModel[Any], int] | None = None
        self._lock: int | None = None

    def create(self, about: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        """A new run. Raises `RunError` for a folder that is not empty."""
        if self.folder is None:
            return
        folder = self.folder
        folder.check_new()
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            folder.check_new()
            write_json(folder.vocabulary, {f"{vocabulary.unit}s": vocabulary.texts})
            write_json(folder.run_file, about)
        except OSError as error:
            raise RunError(
                f"nothing can be written to {folder.path}: {error.strerror}; choose "
                "another folder (--out)"
            ) from error

    def lock(self) -> None:
        """
        ### One training in a folder

        Two processes that continue one run would overwrite each other's files. The lock
        of the folder ends with the process, however it ends. Raises `RunError` if it is
        taken. Windows and some file systems have no such locks.
        """
        if self.folder is None or self._lock is not None:
            return
        with suppress(ImportError):
            from fcntl import LOCK_EX, LOCK_NB, flock

            self._lock = os.open(self.folder.path, os.O_RDONLY)
            try:
                flock(self._lock, LOCK_EX | LOCK_NB)
            except OSError as error:
                self.unlock()
                if isinstance(error, BlockingIOError):
                    raise RunError(
                        f"another process is training in {self.folder.path}; wait for "
                        "it, or choose another folder (--out)"
                    ) from None

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, step: int, state: Callable[[], Mapping[str, Any]]) -> bool:
        """
        ### Save a checkpoint

        `state` is called for what to save. Returns whether there is a new checkpoint.
        """
        self._retry()
        if self.folder is None or self.saved_at == step:
            return False
        with self.disk("the checkpoint", step):
            write_checkpoint(self.folder.checkpoint, state())
            self.saved_at = step
        return self.saved_at == step

    def keep(self, model: LanguageModel[Any], step: int) -> None:
        """
        ### Keep the best model

        If the disk refuses it, a copy waits for the next occasion.
        """
        if self.folder is not None:
            self._waiting = None
            with self.disk("the best model", step):
                model.save(self.folder.model)
                return
            self._waiting = copy.deepcopy(model), step

    def _retry(self) -> None:
        if self._waiting is not None:
            self.keep(*self._waiting)

    @contextmanager
    def disk(self, what: str, step: int) -> Iterator[None]:
        """What the disk refuses is reported and remembered until it is written."""
        try:
            yield
            self._refused.pop(what, None)
        except OSError as error:
            self._refused[what] = (
                f"the disk refused {what} after {step} updates "
                f"({error.strerror or error})"
            )
            self._warn(self._refused[what])

    def check(self) -> None:
        """Raises `RunError` if something is still not written."""
        self._retry()
        if self._refused:
            at, faults = self.saved_at, "; ".join(self._refused.values())
            there = f"that of step {at} is intact" if at >= 0 else "there is none yet"
            raise RunError(
                f"{faults}; of checkpoints {there}. Free some space, and continue with "
                "--resume"
            )


# ## Run record
#
def describe(
    model: LanguageModel[Any],
    task: Task,
    config: TrainingConfig,
    device: torch.device,
    world_size: int,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """
    Everything that is needed to repeat a run: the content of `run.json`. `about` names
    its `experiment` and `preset`.
    """
    path, version = task.corpus.path, None
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version("labml-nn")
    return {
        **{name: about.get(name) for name in ("experiment", "preset")},
        "model": {"name": model.name, "config": asdict(model.config)},
        "training": config.values(),
        "task": task.name,
        "corpus": {
            "name": task.corpus.name,
            "sha256": task.corpus.sha256,
            "path": None if path is None else str(path),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "labml_nn": version,
        },
        "hardware": hardware(device),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "world_size": world_size,
    }


def hardware(device: torch.device) -> dict[str, Any]:
    """The machine, for the record: a time means nothing without it."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE):
            name = found[1]
    on_gpu = device.type == "cuda"
    return {
        "device": str(device),
        "name": torch.cuda.get_device_name(device) if on_gpu else name,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
