r"""
---
title: Private names of PyTorch
summary: >
  PyTorch promises nothing about names that begin with an underscore. All that the
  library needs are here, each with its answer and what happens where it is missing.
---

A kernel must not run where somebody watches every operation: under a transform of
`torch.func`, in a mode, while a graph is traced. PyTorch knows whether that is so, and
has no public function for most of these questions. A later version may rename the
private ones. What then? **A question that cannot be answered counts as yes**: the
reference runs, as it does with [kernels switched off](kernels/__init__.py). Results
stay right, only slower, and `labml_nn.kernels.explain` names what is missing.

* `torch._C._are_functorch_transforms_active`: a transform of `torch.func`, such as
  `vmap`, is active. Without it the reference runs, and values of tokens are not
  checked.
* `torch._C._len_torch_dispatch_stack`: a mode sees each operation, such as a counter of
  operations. Without it the reference runs.
* `torch._C._get_tracing_state`: `torch.jit.trace` records. Without it the reference
  runs.
* `torch._C._len_torch_function_stack`: a mode may replace each function. Without it the
  reference runs.
* `torch.overrides._get_current_function_mode_stack` and
  `torch.utils._device.DeviceContext`: which modes these are. The mode of
  `torch.set_default_device` replaces nothing. Without them the reference runs while a
  default device is set.
* `torch.autograd.forward_ad._current_level`: derivatives are computed in forward mode,
  which fused operations lack. Without it the reference runs.
* `torch.nn.modules.module._global_forward_hooks` and the three like it: hooks for all
  modules. Without one of them the reference runs.
* `torch._fused_sdp_choice`, and
  `torch.ops.aten._scaled_dot_product_flash_attention_for_cpu` with its `_backward`:
  which implementation of attention PyTorch would choose, and the one without second
  derivatives. Without them attention that needs gradients stores its weights on a CPU,
  $T \cdot S$ numbers for each head.
* `torch._softmax_backward_data`: the backward pass of softmax into a given tensor.
  Without it the formula runs, in two operations.

A test removes each of them and compares results.
"""

from typing import Any

import torch
import torch.utils._device  # PyTorch loads it when a default device is set
from torch import Tensor
from torch.nn.attention import SDPBackend

__all__ = ["is_fused_on_cpu", "is_transformed", "observer", "softmax_backward"]


def observer() -> str | None:
    """
    ## Who watches each operation?

    Returns what does, as the subject of a sentence, or `None` if nothing does. Each
    call of a module with kernels asks this, and it takes about 1.4 microseconds.
    """
    try:
        if torch._C._are_functorch_transforms_active():
            return "a transform of `torch.func` is active"
        if torch._C._len_torch_dispatch_stack():
            return "a `TorchDispatchMode` is active"
        if torch._C._get_tracing_state():
            return "`torch.jit.trace` records"
        if torch._C._len_torch_function_stack() and not _only_devices():
            return "a `TorchFunctionMode` is active"
        if torch.autograd.forward_ad._current_level >= 0:
            return "forward-mode differentiation is active"
    except AttributeError as error:
        return f"this version of PyTorch lacks `{error.name}`"
    if any(_GLOBAL_HOOKS):
        return "a hook for all modules is registered"
    return None


# A `TorchFunctionMode` may replace any function that the definition calls. The one that
# PyTorch itself uses, for `torch.set_default_device`, only says where tensors are made.
def _only_devices() -> bool:
    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    device = torch.utils._device.DeviceContext
    return all(type(mode) is device for mode in modes)


_HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")


# The dictionaries stay the same, and hooks come and go in them. One that is missing
# counts as full.
def _global_hooks() -> tuple[Any, ...]:
    module: Any = torch.nn.modules.module
    return tuple(getattr(module, f"_global_{kind}", (None,)) for kind in _HOOKS)


_GLOBAL_HOOKS = _global_hooks()


def is_transformed() -> bool:
    """
    ## Are values only placeholders?

    Under a transform of `torch.func` a tensor stands for many, and no single value can
    be read.
    """
    try:
        return bool(torch._C._are_functorch_transforms_active())
    except AttributeError:
        return True


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def is_fused_on_cpu(query: Tensor, *arguments: Any, scale: float) -> bool | None:
    """
    ## Which attention would run?

    Takes the arguments of `torch.nn.functional.scaled_dot_product_attention`. Returns
    whether PyTorch would choose its fused implementation for CPUs, which has no second
    derivatives, or `None` if this version does not tell.
    """
    try:
        choose, aten = torch._fused_sdp_choice, torch.ops.aten
        _ = getattr(aten, _ATTENTION), getattr(aten, f"{_ATTENTION}_backward")
    except AttributeError:
        return None
    return bool(choose(query, *arguments, scale=scale) == _FUSED)


_FUSED = SDPBackend.FLASH_ATTENTION.value


def softmax_backward(grad: Tensor, weights: Tensor, out: Tensor) -> None:
    r"""
    ## The backward pass of softmax

    With weights $a$, $\delta_e = a \odot (\delta_a - \sum_s a_s \delta_{a_s})$ over the
    last axis. The result is written to `out`.
    """
    try:
        function = torch._softmax_backward_data
    except AttributeError:
        mean = (grad * weights).sum(-1, keepdim=True)
        torch.mul(weights, grad - mean, out=out)
    else:
        function(grad, weights, -1, grad.dtype, grad_input=out)
