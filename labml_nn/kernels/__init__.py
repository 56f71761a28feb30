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
pass by hand, or a loop in C++. It is attached from outside:

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
reference, values and gradients, over a table of sizes, masks and dtypes.

**What you do to a module has its effect.** As soon as a module differs from its class,
the reference runs: for a subclass, a hook, a replaced method or submodule, a
parametrization (weight norm, spectral norm, pruning, an adapter), a parameter of
another tensor type, and under `torch.func`, `torch.compile`, `torch.export` and
dispatch modes. [One function](#is_unmodified) decides that, for all kernels.

**One switch.** `with labml_nn.kernels.disabled():` turns all kernels off inside the
block, and the environment variable `LABML_NN_KERNELS=0` for a whole process.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

__all__ = [
    "Kernel",
    "Recorded",
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
    * `function` takes the module and the method's arguments, and returns what the
      method returns, or `NotImplemented` for arguments that it does not support
    * `children` are the names of the direct submodules to examine; `None` is all
    * `definition` are the classes of the owner and of the submodules that the kernel
      computes itself, each with its methods as they were at registration
    """

    method: Callable[..., Any]
    owner: type[nn.Module]
    function: Callable[..., Any]
    children: tuple[str, ...] | None
    definition: dict[type[nn.Module], dict[str, Any]]


# All kernels of each reference method. The one that was registered last is asked first.
_KERNELS: dict[Callable[..., Any], list[Kernel]] = {}

# The names of modules whose kernels are switched off; `None` is all of them.
_DISABLED: ContextVar[frozenset[str] | None] = ContextVar(
    "disabled",
    default=None if os.environ.get("LABML_NN_KERNELS", "1") == "0" else frozenset(),
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
        if torch.compiler.is_compiling() or (disabled := _DISABLED.get()) is None:
            return method(*args, **kwargs)
        for kernel in kernels:
            is_enabled = kernel.function.__module__ not in disabled
            if is_enabled and is_unmodified(args[0], kernel):
                result: Result = kernel.function(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        return method(*args, **kwargs)

    _KERNELS[dispatch] = kernels
    return dispatch


class Recorded:
    """
    ## What a lesson shows of its last call

    `attn = Recorded()` in the body of a class makes an attribute that holds a tensor,
    or `None`. The reference method sets it. A kernel that has not computed the tensor
    sets a `functools.partial` that would, and the first look at the attribute calls it.

    The value stands in the module's `__dict__` under the name of the attribute. A
    parameter, a buffer or a submodule of that name takes its place, as always.
    """

    def __set_name__(self, owner: type[nn.Module], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, module: None, owner: Any) -> "Recorded": ...

    @overload
    def __get__(self, module: nn.Module, owner: Any) -> Tensor | None: ...

    def __get__(self, module: Any, owner: Any) -> "Recorded | Tensor | None":
        if module is None:
            return self
        if self.name not in module.__dict__:
            raise AttributeError(self.name)  # `nn.Module.__getattr__` looks elsewhere
        found: Any = module.__dict__[self.name]
        if isinstance(found, functools.partial):
            found = module.__dict__[self.name] = found()
        tensor: Tensor | None = found
        return tensor

    def __set__(self, module: nn.Module, value: Tensor | None) -> None:
        module.__dict__[self.name] = value

    def __delete__(self, module: nn.Module) -> None:
        del module.__dict__[self.name]


def kernel_for(
    method: Callable[..., Any],
    *,
    owner: type[nn.Module],
    submodules: set[type[nn.Module]] | None = None,
    only: tuple[str, ...] | None = None,
) -> Callable[[Function], Function]:
    """
    ## Register a kernel

    * `method` is a method decorated with `reference`
    * `owner` is the class whose instances the kernel supports, exactly this class
    * `submodules` are the classes of submodules whose parameters the kernel reads
      instead of calling them; with `None` it reads none, and the module's submodules
      are not examined
    * `only` names the direct submodules to examine, for a kernel that leaves the others
      alone; with `None` all are examined

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
    definition = {cls: _methods(cls) for cls in {owner, *(submodules or ())}}
    children = () if submodules is None else only

    def register(function: Function) -> Function:
        _KERNELS[found].insert(0, Kernel(found, owner, function, children, definition))
        return function

    return register


# The methods and properties that a class and its ancestors define, and what every call
# of a module goes through.
def _methods(cls: type[nn.Module]) -> dict[str, Any]:
    names = {"__call__", "_call_impl", "forward"}
    for each in cls.__mro__[: cls.__mro__.index(nn.Module)]:
        for name, value in vars(each).items():
            if callable(value) or isinstance(value, property):
                names.add(name)
    names -= {"__init__", "__setstate__", "extra_repr", "reset_parameters"}
    return {name: getattr(cls, name) for name in names}


def registered() -> tuple[Kernel, ...]:
    """
    ## All registered kernels

    By reference method. The tests and the pages of the site are driven by this list.
    """
    return tuple(kernel for kernels in _KERNELS.values() for kernel in kernels)


@contextmanager
def disabled(*modules: ModuleType) -> Iterator[None]:
    """
    ## Without kernels

    Inside the block every reference method runs as it is written, in this thread. With
    `modules`, such as `labml_nn.kernels.feedback_cpp`, only the kernels of these are
    switched off.
    """
    outside, names = _DISABLED.get(), {module.__name__ for module in modules}
    inside = outside | names if outside is not None and modules else None
    token = _DISABLED.set(inside)
    try:
        yield
    finally:
        _DISABLED.reset(token)


def is_unmodified(module: Any, kernel: Kernel) -> bool:
    """
    ## Is the module exactly what its class made it?

    A kernel may run only if calling the methods of the owner and of its submodules
    would do nothing else. This takes about 5 microseconds for a `MultiHeadAttention`
    with its nine submodules; `any` and `all` would take twice as long.
    """
    # Transforms and tracers must see every operation of the definition, and so must
    # modes that intercept operations (counters of operations, fake tensors, the tracer
    # of `torch.fx`) and forward-mode differentiation, which fused operations lack.
    if (
        type(module) is not kernel.owner
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or (torch._C._len_torch_function_stack() and not _only_devices())
        or forward_ad._current_level >= 0
        or nn.Module.__call__ is not _MODULE_CALL
        or any(_GLOBAL_HOOKS)
    ):
        return False

    # A method may have been replaced on the class: `MultiHeadAttention.attend = mine`.
    for cls, methods in kernel.definition.items():
        for name, method in methods.items():
            if getattr(cls, name) is not method:
                return False

    # Hooks on the module itself run around its `forward`, whatever computes that.
    own = module.__dict__
    if kernel.method.__name__ != "forward" and _is_hooked(own):
        return False
    if not _is_plain(own, kernel.definition[kernel.owner]):
        return False
    children = own["_modules"]
    for name in children if kernel.children is None else kernel.children:
        if name not in children:  # deleted, and a function set in its place
            return False
        child = children[name]
        if child is not None and not _is_plain_tree(child, kernel.definition):
            return False
    return True


_MODULE_CALL = nn.Module.__call__


# A `TorchFunctionMode` may replace any function that the definition calls. The one that
# PyTorch itself uses, for `torch.set_default_device`, only says where tensors are made.
def _only_devices() -> bool:
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return all(type(mode) is DeviceContext for mode in modes)


_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


# A parametrization changes the class of a module, and old-style weight norm and pruning
# are pre-hooks.
def _is_plain_tree(module: nn.Module, definition: dict[type[nn.Module], Any]) -> bool:
    own = module.__dict__
    methods = definition.get(type(module))
    if methods is None or _is_hooked(own) or not _is_plain(own, methods):
        return False
    for child in own["_modules"].values():
        if child is not None and not _is_plain_tree(child, definition):
            return False
    return True


def _is_hooked(own: dict[str, Any]) -> bool:
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )


# No method replaced on the instance, and parameters that are plain tensors.
def _is_plain(own: dict[str, Any], methods: dict[str, Any]) -> bool:
    for name in methods:
        if name in own:
            return False
    for tensor in own["_parameters"].values():
        if type(tensor) is not nn.Parameter and type(tensor) not in _TENSORS:
            return False
    return True


_TENSORS = (Tensor, type(None))
