r"""
---
title: What a run says of itself
summary: >
  Model, numbers, text, versions, machine: what has to stand beside a result for anybody
  to get it again.
---

"Our model reaches 1.5." With which numbers, on which text, with which version of the
program, on what? Asked a year later, nobody knows any more. So it is written down when
the run begins, by the program and not by hand.
"""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from labml_nn.experiments.distributed import World
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.devices import hardware
from labml_nn.experiments.training.task import Task
from labml_nn.language_model import LanguageModel

__all__ = ["commit", "describe", "now"]


def describe(
    model: LanguageModel[Any],
    task: Task,
    config: TrainingConfig,
    device: torch.device,
    world: World,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """
    ## All of it

    * `about` says which `experiment`, `variant` and `preset` it is, if it is one

    Returns the content of `run.json`.
    """
    path = task.corpus.path
    return {
        "experiment": about.get("experiment"),
        "variant": about.get("variant"),
        "preset": about.get("preset"),
        "model": {"name": model.name, "config": fields_of(model.config)},
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
            "labml_nn": _version(),
        },
        "commit": commit(),
        "hardware": hardware(device),
        "started": now(),
        "world_size": world.size,
    }


def fields_of(config: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


def now() -> str:
    """The time of the whole world, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version() -> str | None:
    try:
        return metadata.version("labml-nn")
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """
    ## Which version of the source

    The commit of the library's own checkout, with `-dirty` behind it if files differ
    from it. `None` where it was installed in another way, or where there is no git.
    """
    here = Path(__file__).resolve()
    git = ("git", "-C", str(here.parent))
    try:
        # Installed into somebody else's repository, this file is not one of its own.
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", here.name],
            check=True,
            capture_output=True,
            timeout=5,
        )
        told = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            check=True,
            capture_output=True,
            timeout=5,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None
