"""Every registered kernel against its reference, and whatever users do to modules has its effect.

Cases stand in `kernel_cases.py`, by the class that owns the kernel.
"""

import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from kernel_cases import CASES, LESSONS, Case, Observed, observe, tensors
from sweeps import swept
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrizations, prune

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


def assert_same(actual: Observed, expected: Observed, case: Case, what: str = "") -> None:
    tolerance = case.tolerance * (1e-3 if case.dtype == torch.float64 else 1.0)
    torch.testing.assert_close(
        {"outputs": actual.outputs, **actual.gradients},
        {"outputs": expected.outputs, **expected.gradients},
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda message: f"{what}: {message}",
    )


# Kernels.
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_case_that_it_runs_in(name):
    kernel = KERNELS[name]
    cases = CASES.get(kernel.owner, [])
    assert cases, f"no case for {kernel.owner.__name__} in kernel_cases.py, whose kernel is {name}"
    with only(kernel) as supported:
        for case in cases:
            module, inputs = case.make()
            assert type(module) is kernel.owner
            case.call(module, **inputs)
    assert any(supported), f"{name} supports none of its cases"


@pytest.mark.parametrize(("kernel", "case"), PAIRS)
def test_kernel_equals_reference(kernel, case):
    """Outputs and gradients, also after the same call inside of inference mode."""
    module, inputs = case.make()
    with kernels.disabled():
        expected = observe(case, module, inputs)
    with only(kernel):
        with torch.inference_mode():
            inside = observe(case, module, inputs)
        actual = observe(case, module, inputs)
        assert_same(actual, expected, case)
        assert_same(observe(case, module, inputs), actual, case, "second call")
    assert_same(inside, replace(expected, gradients={}), case, "inference mode")


def shown(kernel: kernels.Kernel, module: nn.Module, mask: Tensor | None) -> dict[str, Tensor]:
    """The weights of the last call, by submodule, without those of padding in feedback models."""
    found = {name: getattr(part, "attn", None) for name, part in module.named_modules()}
    found = {name: attn for name, attn in found.items() if isinstance(attn, Tensor)}
    assert not any(attn.requires_grad for attn in found.values())
    if kernel.method.__name__ == "read" and mask is not None:
        found = {name: attn * mask[-1, :, None] for name, attn in found.items()}
    return found


@pytest.mark.parametrize(
    ("kernel", "case"),
    [pair for pair in PAIRS if pair.values[0].method.__name__ in ("attend", "forward", "read")],
)
def test_attention_weights_of_the_last_call_are_there_with_a_kernel(kernel, case):
    """In training and in inference mode, and in a copy."""
    module, inputs = case.make()
    mask = inputs.get("mask")
    with kernels.disabled():
        case.call(module, **inputs)
        expected = shown(kernel, copy.deepcopy(module), mask)
    for mode in (torch.enable_grad, torch.inference_mode):
        with only(kernel), mode():
            case.call(module, **inputs)
            twin = copy.deepcopy(module)
        for each in (module, twin):
            found = shown(kernel, each, mask)
            torch.testing.assert_close(found, expected, rtol=case.tolerance, atol=case.tolerance)


# Interventions.
class Change:
    """Changes all floating-point tensors in nested containers, and knows whether there were any."""

    def __init__(self) -> None:
        self.made = False

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
            self.made = True
            noise = torch.arange(value.numel(), dtype=value.dtype).view(value.shape).cos()
            return 1.5 * value + 0.1 * noise
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {name: self(each) for name, each in value.items()}
        return value


class NotApplicable(Exception):
    """This cannot be done to that module."""


@dataclass
class Target:
    """A submodule of a model, known by its name, and what is done to it."""

    model: nn.Module
    path: str
    change: Change
    patch: pytest.MonkeyPatch

    @property
    def module(self) -> Any:
        return self.model.get_submodule(self.path)

    @property
    def weighted(self) -> Any:
        """The module, which has a matrix of its own."""
        weight = getattr(self.module, "_parameters", {}).get("weight")
        if weight is None or weight.dim() < 2:
            raise NotApplicable
        return self.module

    def changed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.change(function(*args, **kwargs))

    def subclass(self, **methods: Any) -> None:
        if not methods:
            raise NotApplicable
        cls = type(self.module)
        self.module.__class__ = type(f"My{cls.__name__}", (cls,), methods)

    def replace(self, made: Callable[[nn.Module, Change], nn.Module]) -> None:
        parent, _, name = self.path.rpartition(".")
        if not name:
            raise NotApplicable
        setattr(self.model.get_submodule(parent), name, made(self.module, self.change))

    @torch.no_grad()
    def grow(self, parameter: Tensor) -> None:
        parameter.mul_(1.5)
        self.change.made = True

    def evaluate(self, module: nn.Module) -> None:
        self.model.eval()
        self.change.made = True


def other_methods(at: Target) -> dict[str, Any]:
    return {
        name: at.changed(value)
        for cls in reversed(type(at.module).__mro__)
        if cls.__module__.startswith("labml_nn.")
        for name, value in vars(cls).items()
        if callable(value)
        and not isinstance(value, type | staticmethod)
        and not name.startswith("__")
        and name not in ("forward", "extra_repr")
    }


class Wrapper(nn.Module):
    """In place of another module, whose attributes it shows."""

    def __init__(self, inner: nn.Module, change: Change) -> None:
        super().__init__()
        self.inner, self.change = inner, change

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> nn.Module:
        return self.inner[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.change(self.inner(*args, **kwargs))


class LoRA(Wrapper):
    """A linear layer with a trainable update of rank 2."""

    def __init__(self, inner: nn.Module, change: Change) -> None:
        if not isinstance(inner, nn.Linear):
            raise NotApplicable
        super().__init__(inner, change)
        self.down = nn.Parameter(torch.randn(2, inner.in_features, dtype=inner.weight.dtype))
        self.up = nn.Parameter(torch.randn(inner.out_features, 2, dtype=inner.weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        self.change.made = True
        return self.inner(x) + 0.1 * x @ self.down.T @ self.up.T


def share_weight(at: Target) -> None:
    module = at.weighted
    for other in at.model.modules():
        if (
            type(other) is type(module)
            and other.weight.shape == module.weight.shape
            and other.weight is not module.weight
        ):
            module.weight = other.weight
            at.change.made = True
            return
    raise NotApplicable


def weight_as_a_tensor(at: Target) -> None:
    weight = at.weighted.weight.detach().mul(1.5)
    del at.module.weight
    at.module.weight = weight
    at.change.made = True


norm = torch.nn.utils
INTERVENTIONS: dict[str, Callable[[Target], Any]] = {
    "subclass overrides forward": lambda at: at.subclass(
        forward=at.changed(type(at.module).forward)
    ),
    "subclass overrides every other method": lambda at: at.subclass(**other_methods(at)),
    "method replaced on the class": lambda at: at.patch.setattr(
        type(at.module), "forward", at.changed(type(at.module).forward)
    ),
    "forward replaced on the instance": lambda at: setattr(
        at.module, "forward", at.changed(at.module.forward)
    ),
    "forward hook": lambda at: at.module.register_forward_hook(
        lambda module, args, output: at.change(output)
    ),
    "forward pre hook": lambda at: at.module.register_forward_pre_hook(
        lambda module, args, kwargs: (at.change(args), at.change(kwargs)), with_kwargs=True
    ),
    "backward hook": lambda at: at.module.register_full_backward_hook(
        lambda module, inner, outer: at.change(inner)
    ),
    "backward pre hook": lambda at: at.module.register_full_backward_pre_hook(
        lambda module, outer: at.change(outer)
    ),
    "weight norm": lambda at: at.grow(
        parametrizations.weight_norm(at.weighted).parametrizations.weight.original0
    ),
    "spectral norm": lambda at: at.evaluate(parametrizations.spectral_norm(at.weighted)),
    "old weight norm": lambda at: at.grow(norm.weight_norm(at.weighted).weight_g),
    "old spectral norm": lambda at: at.evaluate(norm.spectral_norm(at.weighted)),
    "pruning": lambda at: at.evaluate(prune.l1_unstructured(at.weighted, "weight", 0.5)),
    "low rank adapter": lambda at: at.replace(LoRA),
    "replaced submodule": lambda at: at.replace(Wrapper),
    "shared weight": share_weight,
    "weight replaced by a tensor": weight_as_a_tensor,
}


# Modules and parameters that a lesson has, but does not need for these outputs: whatever is done
# to a `key.linear.bias`, for example, the softmax takes it away.
def differs(actual: Observed, expected: Observed) -> bool:
    names = actual.gradients.keys() & expected.gradients.keys()
    pairs = list(zip(actual.outputs, expected.outputs, strict=True))
    pairs += [(actual.gradients[name], expected.gradients[name]) for name in names]
    return any(not torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


def submodules(lesson: str, name: str, model: nn.Module, every: bool) -> list[list[str]]:
    """Groups of paths: an intervention is tried on the first of each that it applies to.

    The layers of a stack are alike. One function finds what is changed in the submodules that a
    kernel asks it for. So hooks, which show whether a kernel asks for all, are tried at each place,
    which in an encoder is that in a decoder; other interventions on one submodule of each class,
    and in a language model on one alone, which is of another class each time.
    """
    groups: dict[Any, list[str]] = {}
    by_place = every or name == "forward hook"
    for path, module in reversed(list(model.named_modules())):
        place = re.sub(r"\d+", "N", path).split(".")[0 if every else -3 :]
        groups.setdefault(".".join(place) if by_place else type(module), []).append(path)
    found = list(groups.values())
    if by_place or "language model" not in lesson:
        return found
    turn = [*INTERVENTIONS].index(name) % len(found)
    return [[path for group in found[turn:] + found[:turn] for path in group]]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:Full backward hook is firing")
@pytest.mark.parametrize("every", swept([False, True], False), ids=["some", "every"])
@pytest.mark.parametrize("name", INTERVENTIONS)
@pytest.mark.parametrize("lesson", LESSONS)
def test_interventions_have_their_effect(lesson, name, every):
    """Values and gradients are those of the definition, and not the old ones."""
    case, intervene = LESSONS[lesson], INTERVENTIONS[name]
    case = replace(case, tolerance=max(1e-4, case.tolerance))
    with kernels.disabled():
        module, inputs = case.make()
        untouched = observe(case, module, inputs)
    applied = False
    for paths in submodules(lesson, name, module, every):
        for path in paths:
            model, inputs = case.make()
            change = Change()
            with pytest.MonkeyPatch.context() as patch:
                try:
                    intervene(Target(model, path, change, patch))
                except NotApplicable:
                    continue
                applied = True
                with kernels.disabled():
                    expected = observe(case, model, inputs)
                if change.made:
                    assert differs(expected, untouched), f"{name} of {path!r} changes nothing"
                assert_same(observe(case, model, inputs), expected, case, f"{name} of {path!r}")
            break
    # Where no two weights have one shape, none can be another's.
    shapes = [one.weight.shape for one in module.modules() if isinstance(one, nn.Linear)]
    assert applied or (name == "shared weight" and len(set(shapes)) == len(shapes))


@pytest.mark.parametrize("lesson", LESSONS)
def test_global_hooks_have_their_effect(lesson):
    case = LESSONS[lesson]
    model, inputs = case.make()
    untouched = observe(case, model, inputs)
    change = Change()
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: change(output)
    )
    try:
        actual = observe(case, model, inputs)
        with kernels.disabled():
            expected = observe(case, model, inputs)
    finally:
        handle.remove()
    assert differs(expected, untouched)
    assert_same(actual, expected, case)


def test_compiled_modules_run_the_reference():
    """In a process of its own: the compiler cannot see through the checks of shapes."""
    code = Path(__file__).with_name("compiled_lessons.py")
    paths = os.pathsep.join([str(code.parent), str(code.parents[2])])
    done = subprocess.run(
        [sys.executable, str(code)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(LESSONS)


@pytest.mark.parametrize("lesson", LESSONS)
def test_functional_transforms(lesson):
    """`functional_call`, `grad` and `vmap` over two sets of parameters."""
    case = LESSONS[lesson]
    model, inputs = case.make()
    model.eval()
    inputs = {name: x.detach() if isinstance(x, Tensor) else x for name, x in inputs.items()}
    ones = {name: p.detach() for name, p in model.named_parameters()}
    twos = {name: 1.1 * p for name, p in ones.items()}

    def call(parameters: dict[str, Tensor]) -> Tensor:
        class Calling(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self) -> Any:
                return loss_of(case, self.model, inputs)

        named = {f"model.{name}": p for name, p in parameters.items()}
        return functional_call(Calling(), named, ())

    def by_hand(parameters: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        twin = copy.deepcopy(model)
        twin.load_state_dict(parameters, strict=False)
        loss = loss_of(case, twin, inputs)
        loss.backward()
        return loss.detach(), {
            name: torch.zeros_like(p) if p.grad is None else p.grad
            for name, p in twin.named_parameters()
        }

    close = {"rtol": 1e-4, "atol": 1e-5}
    expected = [by_hand(each) for each in (ones, twos)]
    torch.testing.assert_close(call(twos), expected[1][0], **close)
    torch.testing.assert_close(torch.func.grad(call)(twos), expected[1][1], **close)
    stacked = {name: torch.stack([ones[name], twos[name]]) for name in ones}
    values = torch.func.vmap(call)(stacked)
    torch.testing.assert_close(values, torch.stack([loss for loss, _ in expected]), **close)


def loss_of(case: Case, model: nn.Module, inputs: dict[str, Any]) -> Any:
    return sum(x.square().sum() for x in tensors(case.call(model, **inputs)))


def test_a_kernel_needs_a_reference():
    class Module(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="has no reference to replace"):
        kernels.kernel_for(Module.forward, owner=Module)


def test_switches():
    class Module(nn.Module):
        @kernels.reference
        def forward(self, x):
            return x

    @kernels.kernel_for(Module.forward, owner=Module)
    def kernel(module, x):
        return NotImplemented if x < 0 else x + 1

    assert Module()(1) == 2 and Module()(-1) == -1
    with kernels.disabled():
        assert Module()(1) == 1
    assert Module()(1) == 2
    assert kernel in [each.function for each in kernels.registered()]
    registry._KERNELS.pop(Module.forward)
