"""Random changes of random modules, with kernels and without: the same result, or both raise.

``python random_changes.py FIRST COUNT`` tries the changes of so many seeds, each in a process of
its own, because a kernel that reads beyond the end of a tensor ends its process. It prints a line
for each seed whose results differ, and ends with the numbers of changes by what came of them.
"""

import copy
import dataclasses
import os
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from kernel_cases import CASES, LESSONS, Case, Observed, observe
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from labml_nn import kernels
from labml_nn.kernels import decoding, elman, feedback_cpp, feedback_decoding
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackMemory

#: Every case of every kernel, and the lessons as a whole.
SUBJECTS = [*LESSONS.values(), *(case for cases in CASES.values() for case in cases)]
SECONDS = 60
LOW = {torch.float16: 2e-2, torch.bfloat16: 1e-1}


class NotApplicable(Exception):
    """A change that this module does not have."""


@dataclasses.dataclass
class Subject:
    """A module with its arguments, to be changed."""

    case: Case
    model: nn.Module
    inputs: dict[str, Any]
    rng: random.Random
    #: Parameters that replace those of the module during a call.
    given: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    def pick(self, values: Any) -> Any:
        values = list(values)
        if not values:
            raise NotApplicable
        return self.rng.choice(values)

    def module(self, *classes: type) -> tuple[nn.Module, str, nn.Module]:
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

    def other_size(self, size: int) -> int:
        return max(1, self.rng.choice([size + 1, size - 1, 2 * size, size // 2, size + 64]))


@torch.no_grad()
def filled(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.normal_(std=0.3)
    return module


def linear(at: Subject) -> str:
    parent, name, old = at.module(nn.Linear)
    sizes = [old.in_features, old.out_features]
    axis = at.rng.randrange(2)
    sizes[axis] = at.other_size(sizes[axis])
    parent._modules[name] = filled(nn.Linear(*sizes, bias=at.rng.random() < 0.7))
    return f"{name} is a linear map {sizes}"


def embedding(at: Subject) -> str:
    parent, name, old = at.module(nn.Embedding)
    sizes = [old.num_embeddings, old.embedding_dim]
    axis = at.rng.randrange(2)
    sizes[axis] = at.other_size(sizes[axis])
    parent._modules[name] = filled(nn.Embedding(*sizes))
    return f"{name} is an embedding {sizes}"


def network(at: Subject) -> str:
    parent, name, old = at.module(FeedForward)
    width, hidden = old.layer1.in_features, at.other_size(old.layer1.out_features)
    activation = at.pick([nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Tanh()])
    parent._modules[name] = filled(FeedForward(width, hidden, 0.0, activation))
    return f"{name} has {hidden} features and {activation}"


def norm(at: Subject) -> str:
    parent, name, old = at.module(nn.LayerNorm)
    width = old.normalized_shape[0]
    parent._modules[name] = at.pick(
        [
            nn.LayerNorm(width, eps=0.3),
            nn.LayerNorm(width, elementwise_affine=False),
            nn.LayerNorm(width, bias=False),
            nn.LayerNorm(at.other_size(width)),
            nn.Identity(),
        ]
    )
    return f"{name} is {parent._modules[name]}"


def attribute(at: Subject) -> str:
    """Any attribute of any submodule, to another value of its type."""
    own = set(vars(nn.Module())) - {"training"}
    module, name = at.pick(
        (module, name)
        for module in at.model.modules()
        for name, value in vars(module).items()
        if name not in own and isinstance(value, bool | int | float | str | torch.device)
    )
    old = getattr(module, name)
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
    return f"{type(module).__name__}.{name} is {new!r}"


def config(at: Subject) -> str:
    model = at.model
    if not hasattr(model, "config"):
        raise NotApplicable
    field = at.pick(dataclasses.fields(model.config))
    old = getattr(model.config, field.name)
    if isinstance(old, bool):
        new: Any = not old
    elif isinstance(old, int):
        new = at.other_size(old)
    elif isinstance(old, float):
        new = old / 2 + 0.1
    else:
        raise NotApplicable
    try:
        model.config = dataclasses.replace(model.config, **{field.name: new})
    except ValueError:
        raise NotApplicable from None
    return f"the configuration's {field.name} is {new}"


def parameter_shape(at: Subject) -> str:
    module, name, old = at.parameter()
    shape = list(old.shape) or [1]
    axis = at.rng.randrange(len(shape))
    shape[axis] = at.other_size(shape[axis])
    setattr(module, name, nn.Parameter(0.3 * torch.randn(shape)))
    return f"{type(module).__name__}.{name} is {shape}"


def parameter_type(at: Subject) -> str:
    module, name, old = at.parameter()
    dtype = at.pick([torch.float64, torch.float16, torch.bfloat16, torch.complex64])
    setattr(module, name, nn.Parameter(old.detach().to(dtype)))
    return f"{type(module).__name__}.{name} has {dtype}"


def parameter_in_memory(at: Subject) -> str:
    module, name, old = at.parameter()
    how, new = at.pick(
        [
            ("is transposed in memory", old.detach().mT.contiguous().mT if old.dim() > 1 else None),
            ("is a part of a larger one", torch.cat([old.detach()] * 2)[: len(old)]),
            ("is one number, expanded", old.detach()[:1].expand_as(old)),
            ("is on the device meta", old.detach().to("meta")),
            ("is sparse", old.detach().to_sparse()),
            ("has the bit of a negative", torch._neg_view(old.detach())),
            ("is no parameter", old.detach().clone()),
            ("is missing", None),
        ]
    )
    if how == "is no parameter":
        del module._parameters[name]
        setattr(module, name, new)
    else:
        setattr(module, name, None if new is None else nn.Parameter(new))
    return f"{type(module).__name__}.{name} {how}"


def bias(at: Subject) -> str:
    _, name, module = at.module(nn.Linear)
    has = module.bias is not None
    module.bias = None if has else nn.Parameter(torch.randn(module.out_features))
    return f"{name} has {'no' if has else 'a'} bias"


def buffer(at: Subject) -> str:
    module, name, old = at.pick(
        (module, name, old)
        for module in at.model.modules()
        for name, old in module.named_buffers(recurse=False)
    )
    how, new = at.pick(
        [
            ("is shorter", old[: len(old) // 2].clone()),
            ("is in double precision", old.double()),
            ("is doubled", 2 * old),
        ]
    )
    setattr(module, name, new)
    return f"{type(module).__name__}.{name} {how}"


def whole_type(at: Subject) -> str:
    dtype = at.pick([torch.float64, torch.float16, torch.bfloat16, torch.complex64])
    at.model.to(dtype)
    if at.rng.random() < 0.7:
        for name, value in at.inputs.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                at.inputs[name] = value.detach().to(dtype).requires_grad_()
    return f"all parameters have {dtype}"


def default_type(at: Subject) -> str:
    dtype = at.pick([torch.float64, torch.bfloat16, torch.float16])
    torch.set_default_dtype(dtype)
    return f"the default is {dtype}"


def default_device(at: Subject) -> str:
    torch.set_default_device("meta")
    return "the default device is meta"


def part(at: Subject) -> str:
    """A submodule, everywhere, is another module or a function."""
    parent, name, old = at.module()
    new = at.pick([nn.Identity(), nn.ReLU(), nn.Softmax(0), nn.Dropout(0.0), lambda x: 2 * x])
    for module in list(at.model.modules()):
        child = module._modules.get(name)
        if type(module) is type(parent) and type(child) is type(old):
            delattr(module, name)
            setattr(module, name, copy.deepcopy(new))
    return f"{type(parent).__name__}.{name} is {new}"


class Louder(TorchFunctionMode):
    """A mode in which some of PyTorch's functions return twice as much."""

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **kwargs or {})
        louder = getattr(function, "__name__", "") in ("linear", "softmax", "tanh", "einsum")
        return 2 * result if louder else result


def function_mode(at: Subject) -> str:
    Louder().__enter__()
    return "a mode changes some functions"


def memory(at: Subject) -> str:
    """The memory of a feedback model, of other sizes or types."""
    if not hasattr(at.model, "scan"):
        raise NotApplicable
    keys, values = at.model.scan(at.inputs["x"])[1].slots().values()
    how, keys, values = at.pick(
        [
            ("one value", keys, values[:1]),
            ("values in double precision", keys, values.double()),
            ("one sequence", keys[:, :1], values[:, :1]),
            ("one feature", keys[..., :1], values[..., :1]),
            ("no values", keys, None),
        ]
    )
    given = FeedbackMemory(
        *(None if each is None else each.detach().clone() for each in (keys, values))
    )
    at.case = dataclasses.replace(at.case, call=lambda model, x, **_: model.scan(x, given)[0])
    return f"a memory with {how}"


def layers(at: Subject) -> str:
    _, name, found = at.module(nn.ModuleList)
    how = at.pick(["one more", "one less", "reversed", "one twice"])
    if how == "one more":
        found.append(copy.deepcopy(found[0]))
    elif how == "one less":
        del found[-1]
    elif how == "reversed":
        found._modules = dict(zip(found._modules, reversed(found._modules.values()), strict=True))
    else:
        found[-1] = found[0]
    return f"{name}: {how}"


def tie(at: Subject) -> str:
    module, name, old = at.parameter()
    if at.rng.random() < 0.5:
        setattr(module, name, nn.Parameter(1.5 * old.detach()))
        return f"{type(module).__name__}.{name} is a parameter of its own"
    same = [p for p in at.model.parameters() if p.shape == old.shape and p is not old]
    setattr(module, name, at.pick(same))
    return f"{type(module).__name__}.{name} is shared"


def without_gradients(at: Subject) -> str:
    for parameter in at.model.parameters():
        parameter.requires_grad_(at.rng.random() < 0.5)
    return "some parameters need no gradient"


def given_parameters(at: Subject) -> str:
    """`functional_call`, with one parameter of another shape or type."""
    parameters = {name: p.detach().clone() for name, p in at.model.named_parameters()}
    name = at.pick(parameters)
    old = parameters[name]
    how, new = at.pick(
        [
            ("larger", torch.cat([old, old])),
            ("smaller", old[: max(1, len(old) // 2)]),
            ("in double precision", old.double()),
            ("doubled", 2 * old),
        ]
    )
    at.given = parameters | {name: new}
    return f"functional_call with {name} {how}"


def argument(at: Subject) -> str:
    """Inputs of another shape, type or order in memory."""
    floating = [n for n, x in at.inputs.items() if isinstance(x, Tensor) and x.is_floating_point()]
    name = at.pick(floating)
    old = at.inputs[name].detach()
    how, new = at.pick(
        [
            ("shorter", old[: max(1, len(old) // 2)]),
            ("longer", torch.cat([old, old])),
            ("one sequence", old[:, :1]),
            ("without the batch", old[:, 0]),
            ("narrower", old[..., :-1]),
            ("in double precision", old.double()),
            ("complex", old.to(torch.complex64)),
            ("integers", old.long()),
            ("empty", old[:0]),
            ("reversed in memory", old.flip(0).contiguous().flip(0)),
            ("expanded", old[:, :1].expand_as(old)),
            ("infinite", torch.where(old > 1, torch.inf, old)),
            ("large", 1e4 * old),
        ]
    )
    differs = new.is_floating_point() or new.is_complex()
    at.inputs[name] = new.clone().requires_grad_() if differs and "expanded" not in how else new
    return f"{name} is {how}"


def training(at: Subject) -> str:
    for module in at.model.modules():
        module.training = at.rng.random() < 0.5
        if isinstance(module, nn.Dropout):
            module.p = at.pick([0.0, 1.0])
    return "some submodules are in training mode"


def autocast(at: Subject) -> str:
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    return "autocast to bfloat16"


CHANGES: dict[Callable[[Subject], str], int] = {
    attribute: 8,
    config: 3,
    linear: 3,
    embedding: 2,
    network: 2,
    norm: 2,
    parameter_shape: 2,
    parameter_type: 2,
    parameter_in_memory: 3,
    bias: 2,
    buffer: 2,
    whole_type: 3,
    default_type: 2,
    default_device: 1,
    layers: 2,
    part: 3,
    function_mode: 1,
    memory: 2,
    tie: 2,
    without_gradients: 1,
    given_parameters: 2,
    argument: 5,
    training: 2,
    autocast: 1,
}


def changed(seed: int) -> tuple[str, Subject]:
    """The module of a seed, with one or two changes, and what they were."""
    rng = random.Random(seed)
    while True:
        case = rng.choice(SUBJECTS)
        at = Subject(case, *case.make(), rng)
        chosen = rng.choices(list(CHANGES), list(CHANGES.values()), k=rng.choice([1, 1, 1, 2]))
        # Defaults are changed last: the other changes make tensors.
        last = (default_type, default_device, autocast, function_mode)
        chosen.sort(key=last.__contains__)
        said = []
        try:
            said += [change(at) for change in chosen]
        except (NotApplicable, IndexError, TypeError, RuntimeError, AttributeError):
            torch.set_default_device("cpu")
            torch.set_default_dtype(torch.float32)
            torch.set_autocast_enabled("cpu", False)
            continue
        return f"{type(at.model).__name__}, {case.name}: {'; '.join(said)}", at


def result(at: Subject) -> Observed | str:
    """Outputs and gradients, or the exception."""

    class Calling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Any:
            return observe(at.case, self.model, inputs)

    try:
        # PyTorch cannot copy sparse weights.
        model, inputs = copy.deepcopy((at.model, at.inputs))
        if at.given:
            named = {f"model.{name}": p.clone() for name, p in at.given.items()}
            return functional_call(Calling(), named, ())
        return observe(at.case, model, inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def difference(with_kernels: Observed | str, without: Observed | str, tolerance: float) -> str:
    """Empty if both are the same, or both raise."""
    if isinstance(with_kernels, str) or isinstance(without, str):
        if isinstance(with_kernels, str) and isinstance(without, str):
            return ""
        names = {True: "raises", False: "computes"}
        kinds = [names[isinstance(each, str)] for each in (with_kernels, without)]
        error = with_kernels if isinstance(with_kernels, str) else without
        return f"the kernel {kinds[0]}, the reference {kinds[1]}: {error}"
    pairs = list(zip(with_kernels.outputs, without.outputs, strict=True))
    if with_kernels.gradients.keys() != without.gradients.keys():
        return "other gradients"
    pairs += [(with_kernels.gradients[n], g) for n, g in without.gradients.items()]
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
    with_kernels = result(at)
    with kernels.disabled():
        without = result(at)
    # An amplified rounding error is no fault: half precision anywhere, or huge inputs.
    low = any(p.dtype in LOW for p in at.model.parameters()) or torch.is_autocast_enabled("cpu")
    low = low or "is large" in said
    tolerance = max(10 * at.case.tolerance, 1e-3, 0.2 * low)
    if fault := difference(with_kernels, without, tolerance):
        return "different", f"{said}: {fault}"
    return "raised" if isinstance(without, str) else "equal", ""


def isolated(seed: int) -> tuple[str, str]:
    """The same in a process of its own."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        signal.alarm(SECONDS)
        with os.fdopen(writing, "wb") as file:
            try:
                said, at = changed(seed)
                file.write(f"{said}\n".encode())
                file.flush()
                found = trial(said, at)
            except BaseException:
                found = "different", traceback.format_exc()
            file.write("\0".join(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        said, _, found = file.read().partition("\n")
    _, status = os.waitpid(process, 0)
    if ended := os.waitstatus_to_exitcode(status):
        return "crashed", f"{said}: the process ended with status {ended}"
    what, _, fault = found.partition("\0")
    return what, fault


def main(first: int, count: int) -> int:
    torch.set_num_threads(1)
    # Compiled here, they are not compiled again in each process.
    for module in (decoding, elman, feedback_cpp, feedback_decoding):
        module.KERNEL.find()
    numbers: Counter[str] = Counter()
    for seed in range(first, first + count):
        what, fault = isolated(seed)
        numbers[what] += 1
        if fault:
            print(f"seed {seed}: {fault}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in sorted(numbers.items())))
    return int(bool(numbers["different"] or numbers["crashed"]))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
