"""Every registered kernel against its reference.

Cases stand in `kernel_cases.py`, by the class that owns the kernel.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from kernel_cases import CASES, assert_same, observe
from torch import Tensor, nn

from labml_nn import kernels
from labml_nn import reference as registry

KERNELS = {
    f"{k.function.__name__} for {k.method.__qualname__} of {k.owner.__name__}": k
    for k in kernels.registered()
    # Those of a device that is not there cannot run.
    if torch.cuda.is_available() or not k.function.__name__.endswith("_on_cuda")
}
PAIRS = [
    pytest.param(kernel, case, id=f"{name}: {case.name}")
    for name, kernel in KERNELS.items()
    for case in CASES.get(kernel.owner, ())
]


@contextmanager
def only(kernel: kernels.Kernel) -> Iterator[list[bool]]:
    """No other kernel runs inside; yields whether it supported the arguments, call by call."""
    supported: list[bool] = []

    def spy(*args: Any, **kwargs: Any) -> Any:
        result = kernel.function(*args, **kwargs)
        supported.append(result is not NotImplemented)
        return result

    lists = registry._KERNELS
    saved = {method: list(each) for method, each in lists.items()}
    try:
        for each in lists.values():
            each.clear()
        lists[kernel.method].append(replace(kernel, function=spy))
        yield supported
    finally:
        for method, each in saved.items():
            lists[method][:] = each


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_case_that_it_runs_in(name):
    kernel = KERNELS[name]
    cases = CASES.get(kernel.owner, [])
    assert cases, f"no case for {kernel.owner.__name__} in kernel_cases.py, whose kernel is {name}"
    with only(kernel) as supported:
        for case in cases:
            module, inputs = case.make()
            case.call(module, **inputs)
            if any(supported):
                return
    raise AssertionError(f"{name} supports none of its cases")


def weights(kernel: kernels.Kernel, module: nn.Module, mask: Tensor | None) -> dict[str, Tensor]:
    """Of the last call, by submodule, without those of padding in feedback models."""
    found = {name: getattr(part, "attn", None) for name, part in module.named_modules()}
    found = {name: attn for name, attn in found.items() if isinstance(attn, Tensor)}
    assert not any(attn.requires_grad for attn in found.values())
    if kernel.method.__name__ == "read" and mask is not None:
        found = {name: attn * mask[-1, :, None] for name, attn in found.items()}
    return {name: attn.clone() for name, attn in found.items()}


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("kernel", "case"), PAIRS)
def test_kernel_equals_reference(kernel, case):
    """Outputs, gradients and the attention weights of the last call, which a copy has, too."""
    module, inputs = case.make()
    assert type(module) is kernel.owner
    mask, close = inputs.get("mask"), {"rtol": case.tolerance, "atol": case.tolerance}
    with kernels.disabled():
        expected = observe(case, module, inputs)
        shown = weights(kernel, module, mask)
    for mode in (torch.inference_mode, torch.enable_grad, torch.enable_grad):
        with only(kernel), mode():
            actual = observe(case, module, inputs)
            twin = copy.deepcopy(module)
        has_gradients = mode is torch.enable_grad
        assert_same(actual, expected if has_gradients else replace(expected, gradients={}), case)
        if kernel.method.__name__ == "decoding_step":
            continue  # a step records no weights
        for each in (module, twin):
            torch.testing.assert_close(weights(kernel, each, mask), shown, **close)


def test_a_kernel_needs_a_reference():
    class Module(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="has no reference to replace"):
        kernels.kernel_for(Module.forward, owner=Module)
