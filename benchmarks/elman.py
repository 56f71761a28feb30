"""The Elman network beside `torch.nn.RNN`, to train and to run.

All candidates have the same parameters; states and gradients of the inputs are found equal first.
Training is forward, backward (to the inputs too) and a step of AdamW.

Tables: `speed`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Rows, Run, Tables, check_equal, compare, matmul_gflops
from labml_nn import kernels
from labml_nn.recurrent.elman import Elman

PEER, REFERENCE, KERNEL = "nn.RNN", "ours, reference", "ours, C++ kernel"


@dataclass(frozen=True)
class Size:
    """Units (and input features), steps, sequences in a batch, layers."""

    units: int
    seq_len: int
    batch: int
    layers: int = 1

    def operations(self) -> float:
        """Floating-point operations of a forward pass: two products for each step."""
        return self.seq_len * self.batch * self.layers * 2 * 2 * self.units**2


SETTINGS = {
    "A": Size(256, 256, 32),
    "B": Size(256, 256, 32, layers=2),
    "C": Size(128, 64, 8),
    "D": Size(512, 64, 64),
    "E": Size(128, 512, 1),
}
TINY = {"A": Size(16, 9, 3), "B": Size(24, 5, 2, layers=2)}


@dataclass(frozen=True)
class Candidate:
    """A network, its input, and the kernels that it runs with."""

    model: nn.Module
    x: Tensor
    context: Callable[[], AbstractContextManager[None]] = nullcontext

    def states(self) -> Tensor:
        """Of the last layer at each step."""
        with self.context():
            found: Tensor = self.model(self.x)[0]
        return found

    def forward(self) -> Run:
        """Inference."""

        def run() -> None:
            with torch.no_grad():
                self.states()

        return run

    def train(self) -> Run:
        """A training step with PyTorch's fused AdamW."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            self.x.grad = None
            states = self.states()
            torch.autograd.backward(states, states.detach())
            optimizer.step()

        return run


def candidates(size: Size) -> dict[str, Candidate]:
    """`nn.RNN`, and ours with its weights: our one bias is the sum of its two."""
    torch.manual_seed(0)
    theirs = nn.RNN(size.units, size.units, size.layers)
    ours = Elman(size.units, size.units, size.layers)
    with torch.no_grad():
        for number, layer in enumerate(ours.layers):
            cell: Any = layer.get_submodule("cell")
            cell.input.weight.copy_(getattr(theirs, f"weight_ih_l{number}"))
            cell.recurrent.weight.copy_(getattr(theirs, f"weight_hh_l{number}"))
            biases = (getattr(theirs, f"bias_{kind}_l{number}") for kind in ("ih", "hh"))
            cell.input.bias.copy_(sum(biases))
    x = torch.randn(size.seq_len, size.batch, size.units)
    return {
        PEER: Candidate(theirs, x.clone().requires_grad_()),
        REFERENCE: Candidate(ours, x.clone().requires_grad_(), kernels.disabled),
        KERNEL: Candidate(ours, x.clone().requires_grad_()),
    }


def measure(quick: bool, rounds: int) -> Tables:
    """All tables."""
    rows: Rows = []
    for setting, size in (TINY if quick else SETTINGS).items():
        found = candidates(size)
        results = {}
        for name, one in found.items():
            states = one.states()
            results[name] = [states, *torch.autograd.grad(states.square().sum(), one.x)]
        check_equal(results)
        sizes = {"units": size.units, "seq_len": size.seq_len, "batch": size.batch}
        for work, times in (("train", 3), ("forward", 1)):
            runs = {name: getattr(one, work)() for name, one in found.items()}
            least = times * size.operations() / matmul_gflops() / 1e6
            about = {"setting": setting, "work": work, **sizes, "layers": size.layers}
            for row in compare(runs, rounds=rounds, **about):
                rows.append({**row, "share": least / row["ms"]})
    yield "speed", rows
