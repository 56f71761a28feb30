"""What needs a process without checks of shapes in which nothing has been computed.

`test_changes.py` starts it with names of lessons; it prints what succeeded.
"""

import sys
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from kernel_cases import LESSONS, SMALL, Case, V, language_model, observe

from labml_nn import kernels
from labml_nn.language_model import LanguageModel
from labml_nn.sampling import generate


def train_after_generation() -> None:
    """Nothing that was allocated in inference mode is used when gradients are needed."""
    models = [language_model(name) for name in SMALL]
    models += [language_model(name).double() for name in SMALL]
    tokens = torch.randint(3, V, (4, 2))
    for model in models:
        generate(model, tokens, 10, stop=())  # beyond the context
        with torch.inference_mode():
            model.loss(tokens, tokens)
    for model in models:
        model.train().loss(tokens, tokens).backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
    print("training after generation")


def compile_and_compare(lessons: list[str]) -> None:
    """No kernel may be called, the call is one graph, its results are those of the reference."""
    compiled = partial(torch.compile, fullgraph=True, backend="eager")
    for name in lessons:
        case = LESSONS[name]
        model, inputs = case.make()

        def call(model: Any, wrap: Any = lambda one: one, case: Case = case, **inputs: Any) -> Any:
            """The case's call of the wrapped module; the loss of a language model."""
            is_language_model = isinstance(model, LanguageModel)
            return (
                wrap(model.loss)(**inputs)
                if is_language_model
                else case.call(wrap(model), **inputs)
            )

        # Whether a module is unmodified is asked before each kernel.
        with mock.patch.object(kernels, "is_unmodified", side_effect=AssertionError):
            actual = observe(replace(case, call=partial(call, wrap=compiled)), model, inputs)
        with kernels.disabled():
            expected = observe(replace(case, call=call), model, inputs)
        assert actual.gradients.keys() == expected.gradients.keys() != set()
        torch.testing.assert_close(actual.outputs, expected.outputs, msg=name)
        torch.testing.assert_close(actual.gradients, expected.gradients, msg=name)
        print(name)


if __name__ == "__main__":
    train_after_generation()
    compile_and_compare(sys.argv[1:])
