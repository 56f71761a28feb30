r"""
---
title: How a command fails
summary: From an error to a sentence and an exit code.
---

A traceback is a message from a program to its author. Whoever types a command did not
write the program, and wants to know what to do. So an error that reaches the end of a
command becomes a sentence, and a number that scripts can ask for (`$?`):

| Code | What happened |
|:--|:--|
| 0 | all is well |
| 1 | a run failed: its numbers, its disk, its memory, its other processes |
| 2 | what was asked for cannot be: a flag, a value, a file |
| 130 | somebody pressed Ctrl-C (128 and the number of the signal, as in shells) |

The sentences themselves are written where a value enters, by those who know what it is
for. `--debug`, or `LABML_NN_DEBUG=1`, shows the traceback all the same.
"""

import errno

import torch

from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.devices import is_memory

FAILED, REFUSED, INTERRUPTED = 1, 2, 130

__all__ = ["FAILED", "INTERRUPTED", "REFUSED", "told"]


def told(error: BaseException) -> tuple[int, str]:
    """
    ## What to say

    * `error` is what ended a command

    Returns the exit code and the text. An error that nobody has foreseen is a fault of
    this library; its text is seldom fit to be shown, so it is shown with its name.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if is_memory(error):
        on_gpu = isinstance(error, torch.OutOfMemoryError)
        return FAILED, (
            f"the memory{' of the GPU' if on_gpu else ''} is full; take a smaller "
            "--batch-size, --seq-len or model (--d-model, --n-layers), read the batch "
            "in pieces with --accumulate, or see what else runs there"
            + (" (nvidia-smi)" if on_gpu else "")
        )
    if isinstance(error, RunError):
        return FAILED, str(error)
    if isinstance(error, OSError):
        return _of_files(error)
    if isinstance(error, ValueError | TypeError):
        return REFUSED, str(error) or type(error).__name__
    if isinstance(error, ImportError) and error.name:
        return FAILED, (
            f"{error.name} is not installed; pip install 'labml-nn[train]' brings all "
            "that training needs"
        )
    return FAILED, (
        f"{type(error).__name__}: {error}\nnobody has foreseen this, so it is a fault "
        "of this library; --debug shows where it happened"
    )


# ## Files
#
# An error of ours has its sentence. One of the system has a number, a few words and a
# path, and `str` would show them as `[Errno 13] Permission denied: 'x'`.
def _of_files(error: OSError) -> tuple[int, str]:
    if error.errno is None:
        return REFUSED, str(error)
    if error.errno == errno.ENOSPC:
        return FAILED, (
            f"the disk is full{_where(error)}; make room, or write elsewhere with --out"
        )
    return REFUSED, f"{(error.strerror or str(error)).lower()}{_where(error)}"


def _where(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""
