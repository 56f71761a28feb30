r"""
---
title: Checkpoints
summary: >
  A training in a file: everything that decides how it goes on, so that a run that was
  interrupted ends exactly where the other would have.
---

Power fails, somebody needs the machine, a free GPU is taken away after hours. A
training of any length is interrupted sooner or later, and should not care.

Suppose only the model is saved. When it goes on, AdamW has forgotten how large
gradients usually are, the learning rate starts from its peak, the texts of the first
minute come again, and the curve has a kink that nobody can explain later. A checkpoint
is all that decides what comes next, or it is none.

| What | Where it is |
|:--|:--|
| parameters and buffers | in the file |
| means of gradients and of their squares | in the file |
| scaler of mixed precision | in the file |
| past: step, curves, best loss, samples | in the file, as [plain numbers](history.py) |
| learning rate | a function of the step |
| which texts come next | a function of seed and step |
| random numbers of dropout | a function of seed, step and process |

The last three are nowhere, because they need not be. What is computed from the step
cannot be out of step with it. On a processor the run that goes on is the same as the
one that was never interrupted, bit for bit; the tests hold all models to it.

**A file that can be trusted.** It is written beside the old one and renamed when the
disk says that it has it. A full disk or a pulled plug costs what happened since the
last one, and not the last one. It holds tensors and plain values, and is read with
`weights_only=True`: nothing in it is ever run.
"""

import io
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from labml_nn.experiments.errors import RunError
from labml_nn.saving import replace

__all__ = ["check_belongs", "read_checkpoint", "whole", "write_checkpoint"]

FORMAT = 1
PARTS = ("about", "model", "update", "history")

# What may differ between the beginning of a run and its continuation: it changes how
# long an update takes, or how often somebody looks, and not what is learned.
FREE = {
    *("evaluate_every", "sample_every", "save_every", "sample_tokens"),
    *("device", "compile", "accumulate"),
}


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """
    ## To write

    * `path` is where; what is there stays until the new one is whole
    * `state` holds tensors and plain values

    Raises `OSError` if the disk refuses. Then the old file is as it was.
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    replace({path: buffer.getvalue()})


def read_checkpoint(path: Path) -> dict[str, Any]:
    """
    ## To read

    Its tensors live on the processor, whatever device wrote them. Raises `RunError` for
    a file that is not there, is damaged, or was written by a newer version of the
    library.
    """
    if not path.exists():
        raise RunError(
            f"there is no {path} to go on from; start the run anew, in another folder"
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(path, map_location="cpu", weights_only=True)
        version = state["format"]
        missing = [name for name in PARTS if name not in state]
    except (OSError, EOFError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from error
    if version != FORMAT:
        raise RunError(
            f"{path} has format {version}, and this version of labml-nn reads "
            f"{FORMAT}; use the version that wrote it, or start anew in another folder"
        )
    if missing:
        raise _damaged(path, KeyError(f"without {', '.join(missing)}"))
    return dict(state)


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """
    ### A file may be readable, and lack something

    Inside of this, what does not fit or is not there is the `RunError` of a damaged
    `path`.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return RunError(
        f"{path} is damaged ({reason}); the best model of the run is in "
        f"{path.with_name('model')}, and a training can start anew in another folder"
    )


def check_belongs(
    path: Path, written: Mapping[str, Any], ours: Mapping[str, Any]
) -> None:
    """
    ## Does it belong to this training?

    * `path` is the checkpoint, for messages
    * `written` and `ours` hold, by the same names, what both say of `model`,
      `model_config`, `training` and `corpus`

    A checkpoint of another model would not fit, or worse, would. Raises `RunError` with
    everything that differs.
    """
    faults = []
    for part in ("model", "corpus"):
        if written[part] != ours[part]:
            faults.append(f"{part}: {written[part]!r} there and {ours[part]!r} here")
    for part in ("model_config", "training"):
        theirs, mine = written[part], ours[part]
        faults += [
            f"{name}: {theirs.get(name)!r} there and {mine.get(name)!r} here"
            for name in {**theirs, **mine}
            if name not in FREE and theirs.get(name) != mine.get(name)
        ]
    if faults:
        listed = "\n  ".join(faults)
        raise RunError(
            f"{path} belongs to another run:\n  {listed}\n"
            "go on with what it began with, or begin a new run in another folder"
        )
