"""What an Elman net costs beside nn.RNN and a plain loop, to train and to read.

    python -m benchmarks.elman
    python -m benchmarks.elman --threads 1 --tables speed --no-record
    python -m benchmarks.elman --device cuda

All have the same parameters, and outputs and gradients are found equal before a clock is started.
Training is forward, backward and a step of AdamW; the inputs have gradients, as those that come out
of an embedding have.

It prints, and records for the page of the site:

* `speed`: settings, training and forward, and the share of the machine's limit
* `growth`: training steps over time steps, units and texts, and their exponents
* `memory`: forward and backward, over time steps

On a GPU `nn.RNN` is cuDNN's kernel, and so is ours where it can be. There are also tokens per
second, launches of a step, and files of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.command import Parts, Shown, go_through, options
from benchmarks.contest import Run, contest
from benchmarks.device import CPU, Place
from benchmarks.growth import Axes, Rows, sweep
from labml_nn.kernels.build import is_switched_off
from labml_nn.recurrent.elman import Elman
from labml_nn.recurrent.elman.kernel import KERNEL
from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn

PEER, LINEARS = "nn.RNN", "loop of nn.Linear"
#: Ours, by the `backend` that chooses it.
BACKENDS = {
    "ours, loop": "loop",
    "ours, unrolled": "unrolled",
    "ours, kernel": "kernel",
    "ours, cuDNN": "torch",
}
NAMES = (PEER, LINEARS, *BACKENDS)
GROWING = (PEER, "ours, unrolled", "ours, kernel", "ours, cuDNN")
#: A training step computes forward, and two gradients for each product.
WORK = {"train": 3, "forward": 1}
TABLES = ("speed", "growth", "memory")
SHOWN: Shown = {
    "speed": (
        "Milliseconds",
        [
            *("setting", "work", "form", "ms", "low", "high", "ratio", "processor_ms"),
            *("processor_ratio", "share", "tokens_s", "launches", "kernels"),
        ],
    ),
    "growth": ("Growth of a training step", ["axis", "size", "form", "ms", "ratio"]),
    "exponents": ("Exponents", ["axis", "form", "exponent", "processor_exponent"]),
    "memory": ("MiB, forward and backward", ["length", "form", "mib"]),
}


@dataclass(frozen=True)
class Size:
    """Units, time steps, texts and layers. As many features come in as there are units."""

    units: int
    steps: int
    texts: int
    layers: int = 1

    def but(self, **changes: int) -> "Size":
        """With something else changed."""
        return replace(self, **changes)

    def operations(self) -> float:
        """How many additions and multiplications a forward pass cannot do without: two products."""
        return self.steps * self.texts * self.layers * 2 * 2 * self.units**2


SETTINGS = {
    "A": Size(256, 256, 32),
    "B": Size(256, 256, 32, layers=2),
    "C": Size(128, 64, 8),
    "D": Size(512, 64, 64),
    "E": Size(128, 512, 1),
}
TINY = {"A": Size(16, 9, 3), "B": Size(24, 5, 2, layers=2)}
LENGTHS = (64, 256, 1024)
#: What grows, one at a time, from what.
GROWTH: tuple[Size, Axes] = (
    Size(256, 128, 16),
    {"steps": (64, 128, 256, 512), "units": (64, 128, 256, 512), "texts": (1, 4, 16, 64)},
)
QUICK: tuple[Size, Axes] = (Size(16, 9, 3), {"steps": (4, 8), "units": (8, 24), "texts": (1, 2)})


class Linears(nn.Module):
    """What one writes without looking for anything: two linear maps, and a loop around them."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(size.units, size.units) for _ in range(2 * size.layers))

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, N] in, [T, B, N] out."""
        h = [torch.zeros_like(x[0]) for _ in range(0, len(self.maps), 2)]
        outputs = []
        for x_t in x:
            for layer in range(len(h)):
                x_t = h[layer] = torch.tanh(
                    self.maps[2 * layer](x_t) + self.maps[2 * layer + 1](h[layer])
                )
            outputs.append(x_t)
        return torch.stack(outputs)


@dataclass(frozen=True)
class Contender:
    """A model, how it is called, and what it reads."""

    model: nn.Module
    read: Callable[[Tensor], Tensor]
    x: Tensor

    def forward(self) -> Run:
        """Reading alone."""

        def run() -> None:
            with torch.no_grad():
                self.read(self.x)

        return run

    def backward(self) -> Run:
        """Forward and backward, into gradients that are there."""
        for leaf in (self.x, *self.model.parameters()):
            leaf.grad = torch.zeros_like(leaf)

        def run() -> None:
            states = self.read(self.x)
            torch.autograd.backward(states, states.detach())

        return run

    def train(self) -> Run:
        """Forward, backward, and a step of AdamW, PyTorch's fastest."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            self.x.grad = None
            states = self.read(self.x)
            torch.autograd.backward(states, states.detach())
            optimizer.step()

        return run


def contenders(
    size: Size, names: tuple[str, ...] = NAMES, device: torch.device | str = "cpu"
) -> dict[str, Contender]:
    """Those that can be had on the device, with the same parameters."""
    torch.manual_seed(0)
    rnn = nn.RNN(size.units, size.units, size.layers).to(device)
    x = torch.randn(size.steps, size.texts, size.units).to(device)
    makers: dict[str, Callable[[], nn.Module]] = {
        PEER: lambda: rnn,
        LINEARS: partial(linears_of, rnn, size),
        **{name: partial(our_model, rnn, backend) for name, backend in BACKENDS.items()},
    }
    found = {}
    for name in names:
        if not can_run(BACKENDS.get(name), x):
            continue
        model = makers[name]()
        found[name] = Contender(model, partial(states_of, model), x.clone().requires_grad_())
    return found


def can_run(backend: str | None, x: Tensor) -> bool:
    """Our kernel is for a processor, and may be missing; cuDNN's is for a GPU."""
    if backend == "kernel":
        return not x.is_cuda and not is_switched_off() and KERNEL.find() is not None
    return backend != "torch" or x.is_cuda


def states_of(model: nn.Module, x: Tensor) -> Tensor:
    """The states of the last layer at each step."""
    given = model(x)
    return cast(Tensor, given if isinstance(given, Tensor) else given[0])


def our_model(rnn: nn.RNN, backend: str) -> Elman:
    """Ours, in one of its forms."""
    model = from_torch_rnn(rnn)
    model.backend = backend
    return model


def linears_of(rnn: nn.RNN, size: Size) -> Linears:
    """The loop, with the parameters of nn.RNN."""
    model = Linears(size).to(next(rnn.parameters()).device)
    with torch.no_grad():
        for number, linear in enumerate(model.maps):
            kind = f"{'hh' if number % 2 else 'ih'}_l{number // 2}"
            cast(nn.Linear, linear).weight.copy_(getattr(rnn, f"weight_{kind}"))
            cast(nn.Linear, linear).bias.copy_(getattr(rnn, f"bias_{kind}"))
    return model


def check_equal(models: dict[str, Contender]) -> None:
    """States and gradients of the inputs are equal to 1e-4, relative to the largest of each."""
    answers = {}
    for name, contender in models.items():
        states = contender.read(contender.x)
        (gradient,) = torch.autograd.grad(states, contender.x, states.detach())
        answers[name] = (states.detach(), gradient)
    first, *others = answers
    for name in others:
        for expected, got in zip(answers[first], answers[name], strict=True):
            apart = float((got - expected).abs().max() / expected.abs().max())
            if not apart <= 1e-4:
                raise AssertionError(f"{name} is {apart:.1e} away from {first}")


# The tables.


def speed(settings: dict[str, Size], rounds: int, place: Place = CPU) -> Rows:
    """Each form, at each kind of work."""
    rows: Rows = []
    limit = place.gflops()
    for setting, size in settings.items():
        place.check(partial(check_equal, contenders(size, device=place.device)))
        for work, times in WORK.items():
            forms = contenders(size, device=place.device)
            runs = {name: getattr(contender, work)() for name, contender in forms.items()}
            least = 1000 * times * size.operations() / (limit * 1e9)
            for row in contest(place.all_waiting(runs), first=PEER, rounds=rounds):
                known: dict[str, Any] = {"setting": setting, "work": work, "form": row["name"]}
                about = {"d_model": size.units, "seq_len": size.steps, "texts": size.texts}
                known |= about | {"layers": size.layers}
                more = place.counted(runs[row["name"]], row["ms"], size.steps * size.texts)
                rows.append({**known, **row, "share": least / row["ms"], **more})
    return rows


def growth(base: Size, axes: Axes, rounds: int, place: Place = CPU) -> dict[str, Rows]:
    """Training steps while one size grows and the others stay, and the exponents that fit."""

    def runs(axis: str, number: int) -> dict[str, Run]:
        forms = contenders(base.but(**{axis: number}), GROWING, place.device)
        return place.all_waiting({name: form.train() for name, form in forms.items()})

    return sweep(axes, runs, first=PEER, rounds=rounds)


def memory(size: Size, lengths: tuple[int, ...], place: Place = CPU) -> Rows:
    """The most that tensors take, forward and backward, at several lengths."""
    rows: Rows = []
    for length in lengths:
        for name in NAMES:
            for form in contenders(size.but(steps=length), (name,), place.device).values():
                rows.append({"length": length, "form": name, "mib": place.peak(form.backward())})
    return rows


def main() -> None:
    """Measure, print and record."""
    chosen = options(__doc__, tables=TABLES, devices=("cpu", "cuda"))
    settings, place = TINY if chosen.quick else SETTINGS, chosen.place
    few = max(1, chosen.rounds // 2)
    lengths = (6, 12) if chosen.quick else LENGTHS
    parts: Parts = {
        "speed": lambda: {"speed": speed(settings, chosen.rounds, place)},
        "growth": lambda: growth(*(QUICK if chosen.quick else GROWTH), few, place),
        "memory": lambda: {"memory": memory(settings["A"], lengths, place)},
    }
    go_through("elman", chosen, parts, SHOWN)


if __name__ == "__main__":
    main()
