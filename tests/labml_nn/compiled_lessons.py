"""Lessons under `torch.compile`, for `test_changes.py`, without the checks of shapes.

The names of the lessons are the program's arguments.

No kernel may be called, the whole call is one graph, and values and gradients are the reference's.
"""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from kernel_cases import LESSONS, Case, observe

from labml_nn import kernels
from labml_nn.language_model import LanguageModel


def called(case: Case, wrap: Any, model: Any, **inputs: Any) -> Any:
    """The case's call of the wrapped module; the loss of a language model."""
    if isinstance(model, LanguageModel):
        return wrap(model.loss)(inputs["tokens"], inputs["targets"])
    return case.call(wrap(model), **inputs)


def forbidden(*args: Any) -> bool:
    raise AssertionError("a kernel was about to run")


def identity(function: Any) -> Any:
    return function


def main(*lessons: str) -> None:
    asked = kernels.is_unmodified
    compiled = partial(torch.compile, fullgraph=True, backend="eager")
    for name in lessons:
        case = LESSONS[name]
        model, inputs = case.make()
        # Whether a module is unmodified is asked before each kernel.
        kernels.is_unmodified = forbidden
        actual = observe(replace(case, call=partial(called, case, compiled)), model, inputs)
        kernels.is_unmodified = asked
        with kernels.disabled():
            expected = observe(replace(case, call=partial(called, case, identity)), model, inputs)
        assert actual.gradients.keys() == expected.gradients.keys() != set()
        torch.testing.assert_close(actual.outputs, expected.outputs, msg=name)
        torch.testing.assert_close(actual.gradients, expected.gradients, msg=name)
        print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
