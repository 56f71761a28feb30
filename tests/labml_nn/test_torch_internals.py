"""Private names of PyTorch may go: results remain right, and kernels step back where they must."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from kernel_cases import CASES, assert_same, observe

from labml_nn import kernels, torch_internals
from labml_nn.checks import has_values
from labml_nn.transformers.mha import MultiHeadAttention

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
#: Whether the kernel of attention runs without the name.
NAMES = {
    "_C._are_functorch_transforms_active": False,
    "_C._len_torch_dispatch_stack": False,
    "_C._get_tracing_state": False,
    "_C._len_torch_function_stack": False,
    "overrides._get_current_function_mode_stack": True,
    "utils._device": True,
    "autograd.forward_ad._current_level": False,
    "nn.modules.module._global_forward_hooks": False,
    "nn.modules.module._global_forward_pre_hooks": False,
    "nn.modules.module._global_backward_hooks": False,
    "nn.modules.module._global_backward_pre_hooks": False,
    "_fused_sdp_choice": True,
    f"ops.aten.{ATTENTION}": True,
    f"ops.aten.{ATTENTION}_backward": True,
    "_softmax_backward_data": True,
}


class Without:
    """PyTorch, or a module of it, in which a name is missing."""

    def __init__(self, module: Any, path: str) -> None:
        self._module, self._names = module, path.split(".")

    def __getattr__(self, name: str) -> Any:
        if name != self._names[0]:
            return getattr(self._module, name)
        if len(self._names) == 1:
            raise AttributeError(name=name, obj=self._module)
        return Without(getattr(self._module, name), ".".join(self._names[1:]))


@pytest.fixture(params=NAMES)
def missing(request, monkeypatch):
    monkeypatch.setattr(torch_internals, "torch", Without(torch, request.param))
    monkeypatch.setattr(torch_internals, "_GLOBAL_HOOKS", torch_internals._global_hooks())
    return request.param


def test_all_are_there():
    """In the versions that are tested, so that nobody waits for kernels that never run."""
    for path in NAMES:
        found: Any = torch
        for name in path.removesuffix("utils._device").split("."):
            found = getattr(found, name) if name else found
    assert torch_internals.observer() is None


def test_attention(missing):
    """Also where a default device is set, which is a mode of PyTorch."""
    case = CASES[MultiHeadAttention][0]
    attention, inputs = case.make()
    x = inputs["query"]
    is_mode = missing.startswith(("utils", "overrides"))
    for switch, runs in (
        (nullcontext(), NAMES[missing]),
        (torch.device("cpu"), NAMES[missing] and not is_mode),
    ):
        with switch:
            said = kernels.explain(attention.forward, query=x, key=x, value=x)
            assert said.startswith("The kernel") == runs
            with kernels.disabled():
                expected = observe(case, attention, inputs)
            assert_same(observe(case, attention, inputs), expected, case)
    if not NAMES[missing] and "hooks" not in missing:
        assert missing.split(".")[-1] in said


def test_values_are_not_read_where_it_is_unknown_whether_they_are_there(missing):
    assert has_values(torch.zeros(3)) == (missing != "_C._are_functorch_transforms_active")
