r"""
---
title: References and their kernels
summary: >
  A lesson marks a method as a reference, and a kernel is registered for it. This page
  decides at each call which of the two runs, and can say why.
---

Lessons and [kernels](kernels/__init__.py) both import this module, and it imports
neither. A lesson says `@reference` above a method. A kernel says `@kernel_for` with
that method. What do the two need to agree on? A kernel computes what the method would
compute for a module that is exactly as its class made it. So each call asks first
whether [something was changed](#objection), which takes about 10 microseconds for a
`MultiHeadAttention` with its nine submodules.
"""

import copy
import functools
import operator
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, overload

import torch
from torch import Tensor, nn

from labml_nn.torch_internals import observer

__all__ = [
    "Declined",
    "Kernel",
    "Recorded",
    "disabled",
    "explain",
    "is_unmodified",
    "kernel_for",
    "objection",
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
      method returns, or `Declined` for arguments that it does not support
    * `children` are the names of the direct submodules to examine; `None` is all
    * `definition` are the classes of the owner and of the submodules that the kernel
      computes itself, each with its methods as they were at registration
    * `readers` read all methods of such a class in one call, and have what they then
      returned, because every call of a module asks this
    """

    method: Callable[..., Any]
    owner: type[nn.Module]
    function: Callable[..., Any]
    children: tuple[str, ...] | None
    definition: dict[type[nn.Module], dict[str, Any]]
    readers: tuple[tuple[type[nn.Module], Callable[[Any], Any], tuple[Any, ...]], ...]


class Declined(str):
    """
    ## The answer of a kernel that does not run

    A kernel returns `Declined("there is a mask")` in place of a result, a reason as the
    half of a sentence, and the reference runs. It may also return `NotImplemented`,
    which gives no reason.
    """

    __slots__ = ()


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
            if is_enabled and objection(args[0], kernel) is None:
                result: Result = kernel.function(*args, **kwargs)
                if result is not NotImplemented and type(result) is not Declined:
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
    found = _reference_of(method)
    if found is None:
        raise ValueError(
            f"`{method.__qualname__}` has no reference to replace; decorate the method "
            "with `labml_nn.kernels.reference` first"
        )
    definition = {cls: _methods(cls) for cls in {owner, *(submodules or ())}}
    readers = tuple(
        (cls, operator.attrgetter(*methods), tuple(methods.values()))
        for cls, methods in definition.items()
    )
    children = () if submodules is None else only

    def register(function: Function) -> Function:
        kernel = Kernel(found, owner, function, children, definition, readers)
        _KERNELS[found].insert(0, kernel)
        return function

    return register


# The key of a method in the table, below whatever else decorates it.
def _reference_of(method: Any) -> Any:
    while method not in _KERNELS:
        if not hasattr(method, "__wrapped__"):
            return None
        method = method.__wrapped__
    return method


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

    Whether there is no [objection](#objection).
    """
    return objection(module, kernel) is None


def objection(module: Any, kernel: Kernel) -> str | None:
    """
    ## What was changed?

    A kernel may run only if calling the methods of the owner and of its submodules
    would do nothing else. Returns the first reason against it, as the half of a
    sentence, or `None`. This takes about 10 microseconds for a `MultiHeadAttention`
    with its nine submodules.
    """
    if type(module) is not kernel.owner:
        mine, other = kernel.owner.__name__, type(module).__name__
        return f"it computes for `{mine}`, and the module is a `{other}`"

    # Transforms and tracers must see every operation of the definition, and so must
    # modes that intercept operations and forward-mode differentiation.
    if (observed := observer()) is not None:
        return observed
    if nn.Module.__call__ is not _MODULE_CALL:
        return "`torch.nn.Module.__call__` was replaced"

    # A method may have been replaced on the class: `MultiHeadAttention.attend = mine`.
    for cls, read, methods in kernel.readers:
        if read(cls) != methods:
            for name, method in kernel.definition[cls].items():
                if getattr(cls, name) is not method:
                    return f"`{cls.__name__}.{name}` was replaced"

    # Hooks on the module itself run around its `forward`, whatever computes that.
    own = module.__dict__
    change = kernel.method.__name__ != "forward" and _hook(own)
    change = change or _replaced(own, kernel.definition[kernel.owner])
    if change:
        return f"the module {change}"
    children = own["_modules"]
    for name in children if kernel.children is None else kernel.children:
        if name not in children:  # deleted, and a function set in its place
            return f"`{name}` is no submodule any more"
        child = children[name]
        if child is not None and (change := _change(child, kernel.definition)):
            return f"`{name}{change}"
    return None


_MODULE_CALL = nn.Module.__call__


# Returns where and what, as `.linear` has a hook` without the first of the two signs. A
# parametrization changes the class of a module, and old-style weight norm and pruning
# are pre-hooks.
def _change(module: nn.Module, definition: dict[type[nn.Module], Any]) -> str | None:
    own = module.__dict__
    methods = definition.get(type(module))
    if methods is None:
        return f"` is a `{type(module).__name__}`, which the kernel does not know"
    if (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    ):
        return f"` {_hook(own)}"
    if change := _replaced(own, methods):
        return f"` {change}"
    for name, child in own["_modules"].items():
        if child is not None and (change := _change(child, definition)):
            return f".{name}{change}"
    return None


def _hook(own: dict[str, Any]) -> str | None:
    for kind in ("forward", "forward_pre", "backward", "backward_pre"):
        if own[f"_{kind}_hooks"]:
            return f"has a {kind.replace('_', ' ')} hook"
    return None


# No method replaced on the instance, and parameters that are plain tensors.
def _replaced(own: dict[str, Any], methods: dict[str, Any]) -> str | None:
    for name in methods:
        if name in own:
            return f"has its own `{name}` in place of the class's"
    for name, tensor in own["_parameters"].items():
        if type(tensor) not in _TENSORS:
            return f"has a `{name}` that is a `{type(tensor).__name__}`"
    return None


_TENSORS = (nn.Parameter, Tensor, type(None))


def explain(method: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """
    ## Why did no kernel run?

    * `method` is a method of a module, such as `attention.forward`
    * the others are the arguments of the call in question

    Returns one sentence that says what runs, and one for each kernel that does not run.
    A kernel knows its arguments only when it is called, so `explain` calls it, with
    copies of the module's state and of objects such as caches. Raises what the kernel
    raises, and `ValueError` if `method` is not the method of a module.
    """
    module = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "")
    if not isinstance(module, nn.Module) or not name:
        raise ValueError(
            f"`method` is {method!r}; expected a method of a module, such as "
            "`model.forward`; does the instance have a function in its place?"
        )
    called = f"`{type(module).__name__}.{name}`"
    found = _reference_of(getattr(type(module), name))
    if found is None:
        owners = {type(each) for each in module.modules()}
        inside = {k.method.__qualname__ for k in registered() if k.owner in owners}
        more = f" Kernels exist for {', '.join(sorted(inside))}." if inside else ""
        return f"{called} is no reference method, so it has no kernel.{more}"
    if torch.compiler.is_compiling() or (disabled := _DISABLED.get()) is None:
        return "The reference runs. Kernels are switched off."
    said = []
    for kernel in _KERNELS[found]:
        label = f"{kernel.function.__module__}.{kernel.function.__name__}"
        label = f"`{label.removeprefix('labml_nn.')}`"
        if kernel.owner is not type(module) and any(
            other.owner is type(module) for other in _KERNELS[found]
        ):
            continue  # a kernel of another class says nothing about this one
        if kernel.function.__module__ in disabled:
            said.append(f"{label}: its module is switched off.")
            continue
        reason = objection(module, kernel) or _answer(kernel, module, args, kwargs)
        if reason is None:
            return " ".join([f"The kernel {label} runs.", *said])
        said.append(f"{label}: {reason}.")
    return " ".join(["The reference runs.", *(said or [f"{called} has no kernel."])])


# The call is made for its answer alone: attributes of the module, random numbers and
# objects that are no tensors, such as caches, are afterwards what they were.
def _answer(
    kernel: Kernel, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    before = dict(module.__dict__)
    tensors = {id(x): x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)}
    args, kwargs = copy.deepcopy((args, kwargs), dict[int, Any](tensors))
    try:
        with torch.random.fork_rng(devices=[]):
            result = kernel.function(module, *args, **kwargs)
    finally:
        module.__dict__.clear()
        module.__dict__.update(before)
    if result is NotImplemented:
        return "it does not support these arguments"
    return str(result) if type(result) is Declined else None
