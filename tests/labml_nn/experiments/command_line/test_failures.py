"""From an error to a sentence and an exit code."""

import errno

import pytest
import torch

from labml_nn.experiments.command_line.failures import told
from labml_nn.experiments.command_line.flags import UsageError
from labml_nn.experiments.errors import RunError


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RunError("runs/a exists"), 1, "runs/a exists"),
        (ValueError("`heads` (0) must be at least 1"), 2, "`heads` (0) must be at least 1"),
        (ValueError(), 2, "ValueError"),
        (TypeError("`tied` ('no') must be"), 2, "`tied` ('no') must be"),
        (UsageError("there is no flag --x"), 2, "there is no flag --x"),
        (FileNotFoundError("there is no a/config.json"), 2, "there is no a/config.json"),
        (
            PermissionError(errno.EACCES, "Permission denied", "runs/a"),
            2,
            "permission denied: runs/a",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/a/log.jsonl"),
            1,
            "the disk is full: runs/a/log.jsonl; make room, or write elsewhere with --out",
        ),
        (
            ModuleNotFoundError("No module named 'tqdm'", name="tqdm"),
            1,
            "tqdm is not installed; pip install 'labml-nn[train]' brings all that training needs",
        ),
    ],
)
def test_what_is_said(error, code, text):
    assert told(error) == (code, text)


def test_full_memory_names_the_flags():
    code, text = told(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    assert code == 1
    assert "--batch-size" in text and "--accumulate" in text and "Tried" not in text
    assert "GPU" in text and "nvidia-smi" in text


def test_a_model_that_is_too_large_for_memory_is_no_fault_of_the_library():
    """Before a training begins nobody else has explained it."""
    try:
        torch.empty(2**55)
    except RuntimeError as error:
        code, text = told(error)
    assert code == 1
    assert text.startswith("the memory is full; take a smaller --batch-size")
    assert "--d-model" in text and "GPU" not in text and "nvidia" not in text


def test_what_nobody_has_foreseen_says_so():
    code, text = told(KeyError("epoch"))
    assert code == 1
    assert text.startswith("KeyError: 'epoch'\nnobody has foreseen this")
    assert "--debug" in text
