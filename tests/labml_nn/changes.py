"""What is changed of a module has its effect, whether or not a kernel is registered.

A change is a function of a `Subject`; `test_changes.py` runs this. With kernels and without, the
changed module gives the same results, or both raise.

``python changes.py`` makes changes of each kind on each lesson, and ``python changes.py FIRST
COUNT`` random changes of as many seeds. Both print a line for each change after which results
differ, and end with the numbers of changes by what came of them. A kernel that reads beyond the
end of a tensor ends the process; the last line of its errors then says which change it was.
"""

import copy
import dataclasses
import inspect
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any
from unittest import mock

import torch
from kernel_cases import CASES, LESSONS, Case, Observed, observe
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrizations, prune
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from labml_nn import kernels
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackMemory

#: Every case of every kernel, and the lessons as a whole.
SUBJECTS = [*LESSONS.values(), *(case for cases in CASES.values() for case in cases)]
LOW = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.complex64)


class NotApplicable(Exception):
    """A change that this module does not have."""


class Subject:
    """A module with its arguments, to be changed."""

    def __init__(self, case: Case, rng: random.Random) -> None:
        self.case, self.rng = case, rng
        self.model, self.inputs = case.make()
        #: Whether rounding is amplified, as by huge inputs.
        self.is_rough = False
        #: Parameters that replace those of the module during a call.
        self.given: dict[str, Tensor] = {}
        #: Takes back what is changed outside of the module.
        self.undo = ExitStack()

    def pick(self, values: Any) -> Any:
        values = list(values)
        if not values:
            raise NotApplicable
        return self.rng.choice(values)

    def other_size(self, size: int) -> int:
        return max(1, self.rng.choice([size + 1, size - 1, 2 * size, size // 2, size + 64]))

    @property
    def module(self) -> Any:
        return self.pick(self.model.modules())

    @property
    def weighted(self) -> Any:
        """A submodule that has a matrix of its own."""
        found = [m for m in self.model.modules() if m._parameters.get("weight") is not None]
        return self.pick(module for module in found if module.weight.dim() > 1)

    def child(self, *classes: type) -> tuple[nn.Module, str, Any]:
        """A submodule of one of the classes: its parent, its name and itself."""
        return self.pick(
            (parent, name, child)
            for parent in self.model.modules()
            for name, child in parent.named_children()
            if isinstance(child, classes or nn.Module)
        )

    def parameter(self) -> tuple[nn.Module, str, Tensor]:
        return self.pick(
            (module, name, parameter)
            for module in self.model.modules()
            for name, parameter in module.named_parameters(recurse=False)
        )

    def noisy(self, value: Any) -> Any:
        """Other numbers in all floating-point tensors of nested containers."""

        def changed(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point() or not x.numel():
                return x
            noise = torch.arange(x.numel(), dtype=x.dtype, device=x.device)
            return 1.5 * x + 0.1 * noise.view(x.shape).cos()

        return tree_map(changed, value)

    def with_noise(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.noisy(function(*args, **kwargs))


# Interventions: what users do to a submodule, all of whose sizes stay.
def subclass(module: Any, methods: dict[str, Any]) -> None:
    cls = type(module)
    module.__class__ = type(f"My{cls.__name__}", (cls,), methods)


def subclass_with_forward(at: Subject) -> None:
    module = at.module
    subclass(module, {"forward": at.with_noise(type(module).forward)})


def subclass_with_every_other_method(at: Subject) -> None:
    module = at.pick(m for m in at.model.modules() if type(m).__module__.startswith("labml_nn."))
    own = [cls for cls in type(module).__mro__[::-1] if cls.__module__.startswith("labml_nn.")]
    values = {name: value for cls in own for name, value in vars(cls).items() if name[:2] != "__"}
    subclass(
        module,
        {
            name: at.with_noise(value)
            for name, value in values.items()
            if inspect.isfunction(value) and name not in ("forward", "extra_repr")
        },
    )


def method_of_the_class(at: Subject) -> None:
    cls = type(at.module)
    at.undo.enter_context(mock.patch.object(cls, "forward", at.with_noise(cls.forward)))


def method_of_the_instance(at: Subject) -> None:
    module = at.module
    module.forward = at.with_noise(module.forward)


def global_hook(at: Subject) -> None:
    register = nn.modules.module.register_module_forward_hook
    at.undo.callback(register(lambda module, args, output: at.noisy(output)).remove)


@torch.no_grad()
def larger(at: Subject, parameter: Tensor) -> None:
    parameter.mul_(1.5)


def evaluated(at: Subject, module: nn.Module) -> None:
    at.model.eval()


class Wrapper(nn.Module):
    """In place of another module, whose attributes it shows."""

    def __init__(self, inner: nn.Module, at: Subject) -> None:
        super().__init__()
        self.inner, self.at = inner, at

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
        return self.at.noisy(self.inner(*args, **kwargs))


def wrapped(at: Subject, *classes: type) -> None:
    parent, name, child = at.child(*classes)
    setattr(parent, name, Wrapper(child, at))


def share_weight(at: Subject) -> None:
    module = at.weighted
    module.weight = at.pick(
        other.weight
        for other in at.model.modules()
        if type(other) is type(module)
        and other.weight.shape == module.weight.shape
        and other.weight is not module.weight
    )


def weight_as_a_tensor(at: Subject) -> None:
    module = at.weighted
    weight = module.weight.detach().mul(1.5)
    del module.weight
    module.weight = weight


norms = torch.nn.utils
INTERVENTIONS: dict[str, Callable[[Subject], Any]] = {
    "subclass overrides forward": subclass_with_forward,
    "subclass overrides every other method": subclass_with_every_other_method,
    "method replaced on the class": method_of_the_class,
    "forward replaced on the instance": method_of_the_instance,
    "forward hook": lambda at: at.module.register_forward_hook(
        lambda module, args, output: at.noisy(output)
    ),
    "forward pre hook": lambda at: at.module.register_forward_pre_hook(
        lambda module, args, kwargs: (at.noisy(args), at.noisy(kwargs)), with_kwargs=True
    ),
    "backward hook": lambda at: at.module.register_full_backward_hook(
        lambda module, inner, outer: at.noisy(inner)
    ),
    "backward pre hook": lambda at: at.module.register_full_backward_pre_hook(
        lambda module, outer: at.noisy(outer)
    ),
    "global hook": global_hook,
    "weight norm": lambda at: larger(
        at, parametrizations.weight_norm(at.weighted).parametrizations.weight.original0
    ),
    "spectral norm": lambda at: evaluated(at, parametrizations.spectral_norm(at.weighted)),
    "old weight norm": lambda at: larger(at, norms.weight_norm(at.weighted).weight_g),
    "old spectral norm": lambda at: evaluated(at, norms.spectral_norm(at.weighted)),
    "pruning": lambda at: evaluated(at, prune.l1_unstructured(at.weighted, "weight", 0.5)),
    "low rank adapter": lambda at: wrapped(at, nn.Linear),
    "replaced submodule": wrapped,
    "shared weight": share_weight,
    "weight replaced by a tensor": weight_as_a_tensor,
}


# Other sizes, types and values, which a module may refuse.
@torch.no_grad()
def filled(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.normal_(std=0.3)
    return module


def map_or_table(at: Subject) -> None:
    """A linear map or an embedding of another size."""
    parent, name, old = at.child(nn.Linear, nn.Embedding)
    rows, columns = old.weight.shape
    rows, columns = at.pick([(at.other_size(rows), columns), (rows, at.other_size(columns))])
    if isinstance(old, nn.Embedding):
        new: nn.Module = nn.Embedding(rows, columns)
    else:
        new = nn.Linear(columns, rows, bias=at.rng.random() < 0.7)
    parent._modules[name] = filled(new)


def network(at: Subject) -> None:
    parent, name, old = at.child(FeedForward)
    hidden = at.other_size(old.layer1.out_features)
    activation = at.pick([nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Tanh()])
    parent._modules[name] = filled(FeedForward(old.layer1.in_features, hidden, 0.0, activation))


def norm(at: Subject) -> None:
    parent, name, old = at.child(nn.LayerNorm)
    width = old.normalized_shape[0]
    new = [nn.LayerNorm(width, eps=0.3), nn.LayerNorm(width, elementwise_affine=False)]
    new += [nn.LayerNorm(width, bias=False), nn.LayerNorm(at.other_size(width))]
    parent._modules[name] = at.pick([*new, nn.Identity()])


def attribute(at: Subject) -> None:
    """Any attribute of any submodule, to another value of its type."""
    own = set(vars(nn.Module())) - {"training"}
    module, name, old = at.pick(
        (module, name, value)
        for module in at.model.modules()
        for name, value in vars(module).items()
        if name not in own and isinstance(value, bool | int | float | str | torch.device)
    )
    if isinstance(old, bool):
        new: Any = not old
    elif isinstance(old, int):
        new = at.pick([0, -1, at.other_size(old), at.other_size(old), old + 3])
    elif name == "p":
        new = at.pick([0.0, 1.0])  # either way the results are not random
    elif isinstance(old, float):
        new = at.pick([0.0, 0.5 * old, 2 * old + 0.1, torch.tensor(0.7)])
    else:
        new = at.pick(["relu", "tanh", "sigmoid", "none", "other"])
    setattr(module, name, new)


def config(at: Subject) -> None:
    if not hasattr(at.model, "config"):
        raise NotApplicable
    field = at.pick(dataclasses.fields(at.model.config))
    old = getattr(at.model.config, field.name)
    if isinstance(old, bool):
        new: Any = not old
    elif isinstance(old, int):
        new = at.other_size(old)
    elif isinstance(old, float):
        new = old / 2 + 0.1
    else:
        raise NotApplicable
    try:
        at.model.config = dataclasses.replace(at.model.config, **{field.name: new})
    except ValueError:
        raise NotApplicable from None


def parameter_shape(at: Subject) -> None:
    module, name, old = at.parameter()
    shape = list(old.shape) or [1]
    axis = at.rng.randrange(len(shape))
    shape[axis] = at.other_size(shape[axis])
    setattr(module, name, nn.Parameter(0.3 * torch.randn(shape)))


def parameter_type(at: Subject) -> None:
    module, name, old = at.parameter()
    setattr(module, name, nn.Parameter(old.detach().to(at.pick(DTYPES))))


def parameter_in_memory(at: Subject) -> None:
    module, name, parameter = at.parameter()
    old = parameter.detach()
    transposed = old.mT.contiguous().mT if old.dim() > 1 else None
    part_of_a_larger_one, expanded = torch.cat([old] * 2)[: len(old)], old[:1].expand_as(old)
    elsewhere = old.to("meta"), old.to_sparse(), torch._neg_view(old)
    new = at.pick([transposed, part_of_a_larger_one, expanded, *elsewhere, None])
    setattr(module, name, None if new is None else nn.Parameter(new))


def bias(at: Subject) -> None:
    module = at.child(nn.Linear)[2]
    new = nn.Parameter(torch.randn(module.out_features))
    module.bias = new if module.bias is None else None


def buffer(at: Subject) -> None:
    module, name, old = at.pick(
        (module, name, old)
        for module in at.model.modules()
        for name, old in module.named_buffers(recurse=False)
    )
    setattr(module, name, at.pick([old[: len(old) // 2].clone(), old.double(), 2 * old]))


def whole_type(at: Subject) -> None:
    dtype = at.pick(DTYPES)
    at.model.to(dtype)
    if at.rng.random() < 0.7:
        for name, value in at.inputs.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                at.inputs[name] = value.detach().to(dtype).requires_grad_()


def part(at: Subject) -> None:
    """A submodule, everywhere, is another module or a function."""
    parent, name, old = at.child()
    new = at.pick([nn.Identity(), nn.ReLU(), nn.Softmax(0), nn.Dropout(0.0), lambda x: 2 * x])
    for module in list(at.model.modules()):
        child = module._modules.get(name)
        if type(module) is type(parent) and type(child) is type(old):
            delattr(module, name)
            setattr(module, name, copy.deepcopy(new))


def memory(at: Subject) -> None:
    """The memory of a feedback model, of other sizes or types."""
    if not hasattr(at.model, "scan"):
        raise NotApplicable
    slots = at.model.scan(at.inputs["x"])[1].slots().values()
    keys, values = (each.detach().clone() for each in slots)
    other = [(keys, values[:1]), (keys, values.double()), (keys, None)]
    other += [(keys[:, :1], values[:, :1]), (keys[..., :1], values[..., :1])]
    given = FeedbackMemory(*at.pick(other))
    at.case = dataclasses.replace(at.case, call=lambda model, x, **_: model.scan(x, given)[0])


def layers(at: Subject) -> None:
    _, _, found = at.child(nn.ModuleList)
    new = list(found)
    one_more, twice = [*new, copy.deepcopy(new[0])], [*new[:-1], new[0]]
    new = at.pick([one_more, new[:-1], new[::-1], twice])
    found._modules = {str(i): layer for i, layer in enumerate(new)}


def without_gradients(at: Subject) -> None:
    for parameter in at.model.parameters():
        parameter.requires_grad_(at.rng.random() < 0.5)


def given_parameters(at: Subject) -> None:
    """`functional_call`, with one parameter of another shape or type."""
    at.given = {name: p.detach().clone() for name, p in at.model.named_parameters()}
    name = at.pick(at.given)
    old = at.given[name]
    smaller = old[: max(1, len(old) // 2)]
    at.given[name] = at.pick([torch.cat([old, old]), smaller, old.double(), 2 * old])


def argument(at: Subject) -> None:
    """Inputs of another shape, type or order in memory."""
    floating = [n for n, x in at.inputs.items() if isinstance(x, Tensor) and x.is_floating_point()]
    name = at.pick(floating)
    old = at.inputs[name].detach()
    shapes = [old[: max(1, len(old) // 2)], torch.cat([old, old]), old[:0]]
    shapes += [old[:, :1], old[:, 0], old[..., :-1]]
    types = [old.double(), old.to(torch.complex64), old.long()]
    in_memory = [old.flip(0).contiguous().flip(0)]  # reversed
    new = at.pick([*shapes, *types, *in_memory, torch.where(old > 1, torch.inf, old)])
    at.inputs[name] = new if new.dtype == torch.long else new.clone().requires_grad_()


def large_or_expanded_argument(at: Subject) -> None:
    name = at.pick(n for n, x in at.inputs.items() if getattr(x, "requires_grad", False))
    old = at.inputs[name].detach()
    at.is_rough = at.rng.random() < 0.5
    at.inputs[name] = (100 * old).requires_grad_() if at.is_rough else old[:, :1].expand_as(old)


def training(at: Subject) -> None:
    for module in at.model.modules():
        module.training = at.rng.random() < 0.5
        if isinstance(module, nn.Dropout):
            module.p = at.pick([0.0, 1.0])


# Outside of the module.
def default_type(at: Subject) -> None:
    at.undo.callback(torch.set_default_dtype, torch.get_default_dtype())
    torch.set_default_dtype(at.pick([torch.float64, torch.bfloat16, torch.float16]))


def default_device(at: Subject) -> None:
    at.undo.callback(torch.set_default_device, None)
    torch.set_default_device("meta")


def autocast(at: Subject) -> None:
    at.is_rough = True
    # What is cast without gradients would be taken, before PyTorch 2.13, where there are some.
    at.undo.enter_context(torch.autocast("cpu", torch.bfloat16, cache_enabled=False))


class Louder(TorchFunctionMode):
    """A mode in which some of PyTorch's functions return twice as much."""

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **kwargs or {})
        louder = getattr(function, "__name__", "") in ("linear", "softmax", "tanh", "einsum")
        return 2 * result if louder else result


def function_mode(at: Subject) -> None:
    at.undo.enter_context(Louder())


#: Made last, since the other changes make tensors.
OUTSIDE = (global_hook, default_type, default_device, autocast, function_mode)
OTHERS = (
    *(attribute, map_or_table, argument, config, parameter_in_memory, part, whole_type, network),
    *(norm, parameter_shape, parameter_type, bias, buffer, layers, memory, given_parameters),
    *(training, large_or_expanded_argument, without_gradients),
    *(default_type, default_device, function_mode, autocast),
)
CHANGES = INTERVENTIONS | {change.__name__: change for change in OTHERS}


def is_made(at: Subject, *names: str) -> bool:
    """Make changes, if the module has what they change."""
    try:
        for change in sorted((CHANGES[name] for name in names), key=OUTSIDE.__contains__):
            change(at)
    except (NotApplicable, IndexError, TypeError, RuntimeError, AttributeError):
        at.undo.close()
        return False
    return True


def call_with(parameters: dict[str, Tensor], model: nn.Module, call: Callable[..., Any]) -> Any:
    """`call(model)`, in which the model has other parameters."""

    class Calling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Any:
            return call(self.model)

    named = {f"model.{name}": parameter for name, parameter in parameters.items()}
    return functional_call(Calling(), named, ())


def result(at: Subject) -> Observed | str:
    """Outputs and gradients, or the exception."""

    def call(model: nn.Module) -> Observed:
        return observe(at.case, model, at.inputs)

    try:
        if at.given:
            return call_with({name: p.clone() for name, p in at.given.items()}, at.model, call)
        return call(at.model)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def difference(actual: Observed | str, expected: Observed | str, tolerance: float) -> str:
    """Empty if both are the same, or both raise."""
    if isinstance(actual, str) or isinstance(expected, str):
        if isinstance(actual, str) and isinstance(expected, str):
            return ""
        return f"with kernels {actual}; without {expected}"
    if actual.gradients.keys() != expected.gradients.keys():
        return "other gradients"
    pairs = list(zip(actual.outputs, expected.outputs, strict=True))
    pairs += [(actual.gradients[name], grad) for name, grad in expected.gradients.items()]
    for one, other in pairs:
        if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
            return f"{one.dtype} {[*one.shape]} for {other.dtype} {[*other.shape]}"
        if one.device.type == "meta":
            continue
        # Where the definition has no number, kernels need not have the same none (decision 036).
        one = one.where(~other.isnan(), other)
        allowed = max(tolerance, LOW.get(one.dtype, 0.0))
        scale = other.abs().nan_to_num(0, 0, 0).max().item() if other.numel() else 0.0
        if not torch.allclose(
            one, other, rtol=allowed, atol=allowed * max(1, scale), equal_nan=True
        ):
            away = (one - other).abs().nan_to_num(torch.inf).max().item()
            return f"the results differ by {away:.2g} of {scale:.2g}"
    return ""


def trial(said: str, at: Subject) -> tuple[str, str]:
    """What came of a change, and a description if that is a fault."""
    actual = result(at)
    with kernels.disabled():
        expected = result(at)
    # An amplified rounding error is no fault.
    rough = at.is_rough or any(p.dtype in LOW for p in at.model.parameters())
    tolerance = max(10 * at.case.tolerance, 1e-3, 0.2 * rough)
    if fault := difference(actual, expected, tolerance):
        return "different", f"{said}: {fault}"
    return "raised" if isinstance(expected, str) else "equal", ""


def random_changes(first: int, count: int) -> Iterator[tuple[str, Subject]]:
    """A module of each seed, with one or two changes, and what they were."""
    for seed in range(first, first + count):
        rng, at = random.Random(seed), None
        while at is None:
            made = Subject(rng.choice(SUBJECTS), rng)
            names = rng.choices(list(CHANGES), k=rng.choice([1, 1, 1, 2]))
            at = made if is_made(made, *names) else None
        yield f"seed {seed}: {type(at.model).__name__}, {at.case.name}: {', '.join(names)}", at


def on_every_lesson() -> Iterator[tuple[str, Subject]]:
    """A change of each kind of each lesson, and what they were."""
    for lesson, change in product(LESSONS, CHANGES):
        said = f"{lesson}: {change}"
        at = Subject(LESSONS[lesson], random.Random(said))
        if is_made(at, change):
            yield said, at


def main(*seeds: int) -> int:
    torch.set_num_threads(1)
    numbers: Counter[str] = Counter()
    for said, at in random_changes(*seeds) if seeds else on_every_lesson():
        print(said, file=sys.stderr)  # the last one, if the process ends
        with at.undo:
            what, fault = trial(said, at)
        numbers[what] += 1
        if fault:
            print(fault, flush=True)
    print(", ".join(f"{number} {what}" for what, number in sorted(numbers.items())))
    return int(bool(numbers["different"]))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
