r"""
---
title: Kernels
summary: >
  Lessons define what is computed; kernels compute the same faster. A kernel is attached
  to a lesson's reference method from outside.
---

A lesson is written to be read. Its loops are Python loops, its attention stores every
weight, and each line is one step of the idea. A **kernel** is a second implementation
of one of its methods, written to be fast: one call of a fused operation, a backward
pass by hand, or a loop in C++. The lesson knows nothing of it:

```python
import torch
from torch import nn
from labml_nn import kernels

class Square(nn.Module):                     # the lesson
    @kernels.reference
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * row for row in x])

@kernels.kernel_for(Square.forward, owner=Square)
def square_at_once(module: Square, x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2:
        return NotImplemented                # the reference runs
    return x.square()

x = torch.randn(5, 3)
with kernels.disabled():
    expected = Square()(x)
torch.testing.assert_close(Square()(x), expected)
```

**What you read defines the result.** A test drives every registered kernel against its
reference, values and gradients, over a table of sizes, masks and dtypes. So a kernel is
tested from the moment it is registered.

**What you do to a module has its effect.** A kernel computes what the class computes.
As soon as a module differs from its class, the reference runs: for a subclass, a hook,
a replaced method or submodule, a parametrization (weight norm, spectral norm, pruning,
an adapter), a parameter of another tensor type, and under `torch.func`,
`torch.compile`, `torch.export` and dispatch modes. [One function](#is_unmodified)
decides that, for all kernels.

**One switch.** `with labml_nn.kernels.disabled():` turns all kernels off inside the
block, and the environment variable `LABML_NN_KERNELS=0` for a whole process.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

__all__ = [
    "Kernel",
    "disabled",
    "is_unmodified",
    "kernel_for",
    "reference",
    "registered",
]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Kernel:
    """
    ## A registered kernel

    * `method` is the reference method, as `Class.method`
    * `owner` is the class whose instances the kernel computes for; subclasses are not
    * `submodules` are the classes of the submodules that it computes itself, without
      calling them
    * `function` takes the module and the method's arguments, and returns what the
      method returns, or `NotImplemented` for arguments that it does not support
    """

    method: Callable[..., Any]
    owner: type[nn.Module]
    submodules: frozenset[type[nn.Module]]
    function: Callable[..., Any]
    # The attributes of all these classes as they were at registration; see
    # `is_unmodified`.
    definition: tuple[tuple[type, tuple[Any, ...]], ...]


# All kernels of each reference method. The one that was registered last is asked first.
_KERNELS: dict[Callable[..., Any], list[Kernel]] = {}
_ENABLED: ContextVar[bool] = ContextVar(
    "kernels_enabled", default=os.environ.get("LABML_NN_KERNELS", "1") != "0"
)


def reference(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """
    ## A method that a kernel may compute

    Decorates a method of a `torch.nn.Module`. A call goes to the first registered
    kernel that supports the module and the arguments, and to the method itself if there
    is none.
    """
    kernels: list[Kernel] = []

    @functools.wraps(method)
    def dispatch(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        # A compiler must see the definition, and its check comes first, so that it
        # never traces the rest.
        if not torch.compiler.is_compiling() and kernels and _ENABLED.get():
            for kernel in kernels:
                if is_unmodified(args[0], kernel):
                    result: Result = kernel.function(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
        return method(*args, **kwargs)

    _KERNELS[dispatch] = kernels
    return dispatch


def kernel_for(
    method: Callable[..., Any],
    *,
    owner: type[nn.Module],
    submodules: set[type[nn.Module]] | None = None,
) -> Callable[[Function], Function]:
    """
    ## Register a kernel

    * `method` is a method decorated with `reference`
    * `owner` is the class whose instances the kernel supports, exactly this class
    * `submodules` are the classes of submodules whose parameters the kernel reads
      instead of calling them; with `None` it reads none, and the module's submodules
      are not examined

    Returns a decorator. Raises `ValueError` if the method was not decorated with
    `reference`.
    """
    found: Any = method
    while found not in _KERNELS and hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    if found not in _KERNELS:
        raise ValueError(
            f"`{method.__qualname__}` has no reference to replace; decorate the method "
            "with `labml_nn.kernels.reference` first"
        )
    inside = frozenset(submodules or ())
    classes = {
        each
        for cls in {owner, *inside}
        for each in cls.__mro__[: cls.__mro__.index(nn.Module)]
    }
    definition = tuple((each, tuple(vars(each).values())) for each in classes)

    def register(function: Function) -> Function:
        kernel = Kernel(found, owner, inside, function, definition)
        _KERNELS[found].insert(0, kernel)
        return function

    return register


def registered() -> tuple[Kernel, ...]:
    """
    ## All registered kernels

    By reference method. The tests and the pages of the site are driven by this list.
    """
    return tuple(kernel for kernels in _KERNELS.values() for kernel in kernels)


@contextmanager
def disabled() -> Iterator[None]:
    """
    ## Without kernels

    Inside the block every reference method runs as it is written, in this thread.
    """
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def is_unmodified(module: Any, kernel: Kernel) -> bool:
    """
    ## Is the module exactly what its class made it?

    A kernel computes what the owner's methods and those of its submodules define. It
    may run only if calling them would do nothing else. This function is the only place
    where that is decided; it takes about 6 microseconds for a `MultiHeadAttention` with
    its nine submodules.
    """
    # Transforms and tracers must see every operation of the definition, and so must
    # modes that intercept operations (counters of operations, fake tensors, the tracer
    # of `torch.fx`).
    if (
        type(module) is not kernel.owner
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or nn.Module.__call__ is not _MODULE_CALL
        or any(_GLOBAL_HOOKS)
    ):
        return False

    # A method may have been replaced on the class: `MultiHeadAttention.attend = mine`.
    for cls, attributes in kernel.definition:
        if tuple(vars(cls).values()) != attributes:
            return False
    if kernel.submodules:
        return _is_plain_tree(module, kernel.owner, kernel.submodules)
    return _is_plain(module)


_MODULE_CALL = nn.Module.__call__
_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)
_TENSORS = (nn.Parameter, Tensor, type(None))


def _is_plain_tree(
    module: nn.Module, owner: type[nn.Module], submodules: frozenset[type[nn.Module]]
) -> bool:
    if not _is_plain(module):
        return False
    for child in module.__dict__["_modules"].values():
        if child is None:
            continue
        if type(child) not in submodules and type(child) is not owner:
            return False
        if not _is_plain_tree(child, owner, submodules):
            return False
    return True


# No hooks, no method replaced on the instance, and parameters that are plain tensors. A
# parametrization changes the module's class; old-style weight norm and pruning are
# pre-hooks.
def _is_plain(module: nn.Module) -> bool:
    own = module.__dict__
    if (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    ):
        return False
    if not _methods(type(module)).isdisjoint(own):
        return False
    return all(type(tensor) in _TENSORS for tensor in own["_parameters"].values())


_METHODS: dict[type[nn.Module], frozenset[str]] = {}


def _methods(cls: type[nn.Module]) -> frozenset[str]:
    if cls not in _METHODS:
        names = dir(cls)
        _METHODS[cls] = frozenset(n for n in names if callable(getattr(cls, n, None)))
    return _METHODS[cls]
