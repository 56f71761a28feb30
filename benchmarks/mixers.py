"""Attention, recurrent networks, and the mixers of recurrent language models, by length of a text.

One sequence, layers of one width. The forms of a mixer have the same parameters; their outputs and
gradients of the inputs are found equal first. Mixers, networks and attention compute different
things: their times tell what a layer costs.

Tables: `speed` (a whole sequence, forward and with backward, to parameters and inputs), `tokens`
(one more token after a sequence, and the bytes of the state that it needs).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Rows, Run, Tables, check_equal, compare
from labml_nn import kernels
from labml_nn.lstm import LSTM
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

WIDTH, HEADS, LENGTHS = 64, 4, (256, 1024, 4096)
TINY = (5, 9)
#: A token takes a tenth of a millisecond, too short for a clock: a run makes several.
TOKENS = 10
FORMS = ("chunks", "table", "loop")


@dataclass(frozen=True)
class Mixer:
    """A module, its class, and how the functions of its forms begin."""

    module: str
    cls: str
    prefix: str

    def make(self) -> nn.Module:
        """With new parameters."""
        module = import_module(f"labml_nn.recurrent.{self.module}")
        made: nn.Module = getattr(module, self.cls)(WIDTH, HEADS)
        return made

    def forms(self) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
        """The chunks of each mixer are what it runs with; another form takes their place."""
        module = import_module(f"labml_nn.recurrent.{self.module}")
        usual = f"{self.prefix}_chunks"
        functions = {form: getattr(module, f"{self.prefix}_{form}", None) for form in FORMS}
        return {
            form: partial(patch.object, module, usual, function)
            for form, function in functions.items()
            if function is not None
        }


#: A new mixer is a line.
MIXERS = {
    "linear attention": Mixer("linear_attention", "LinearAttention", "linear_attention"),
    "DeltaNet": Mixer("delta_net", "DeltaNet", "delta_rule"),
    "Gated DeltaNet": Mixer("gated_delta_net", "GatedDeltaNet", "gated_delta_rule"),
    "Mamba-2": Mixer("mamba2", "Mamba2", "ssd"),
}


class Attention(nn.Module):
    """Causal attention of a sequence to itself; `fused` leaves all of it to PyTorch."""

    def __init__(self, *, fused: bool = False) -> None:
        super().__init__()
        self.attention, self.fused = MultiHeadAttention(HEADS, WIDTH, 0.0), fused

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Returns the output, and all keys and values."""
        layer, cache = self.attention, KVCache(*(state or ()))
        if self.fused:
            projections = (layer.query, layer.key, layer.value)
            q, k, v = (part(x).permute(1, 2, 0, 3) for part in projections)
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return layer.output(found.permute(2, 0, 1, 3).flatten(-2)), state
        mask = subsequent_mask(len(x)) if len(x) > 1 else None
        y = layer(query=x, key=x, value=x, mask=mask, cache=cache)
        return y, (cache.keys, cache.values)


@dataclass(frozen=True)
class Candidate:
    """A layer, and in which context it runs; `group` has one set of parameters."""

    group: str
    layer: nn.Module
    context: Callable[[], AbstractContextManager[Any]] = nullcontext

    def forward(self, x: Tensor) -> Run:
        """Inference."""

        def run() -> None:
            with torch.no_grad(), self.context():
                self.layer(x)

        return run

    def train(self, x: Tensor) -> Run:
        """Forward and backward."""
        cotangent = torch.randn_like(x)

        def run() -> None:
            x.grad = None
            self.layer.zero_grad()
            with self.context():
                self.layer(x)[0].backward(cotangent)

        return run

    def results(self, x: Tensor) -> list[Tensor]:
        """The output, and the gradient of the input."""
        with self.context():
            y = self.layer(x)[0]
        return [y, *torch.autograd.grad(y.square().sum(), x)]


def candidates() -> dict[str, Candidate]:
    """All layers with all their implementations."""
    torch.manual_seed(0)
    attention, fused, lstm = Attention(), Attention(fused=True), LSTM(WIDTH, WIDTH, 1)
    fused.load_state_dict(attention.state_dict())
    found = {
        "attention": Candidate("attention", attention),
        "attention, reference": Candidate("attention", attention, kernels.disabled),
        "attention, PyTorch's alone": Candidate("attention", fused),
        "nn.LSTM": Candidate("nn.LSTM", nn.LSTM(WIDTH, WIDTH)),
        "nn.GRU": Candidate("nn.GRU", nn.GRU(WIDTH, WIDTH)),
        "LSTM": Candidate("LSTM", lstm),
        "LSTM, reference": Candidate("LSTM", lstm, kernels.disabled),
    }
    for name, mixer in MIXERS.items():
        layer = mixer.make()
        for form, context in mixer.forms().items():
            found[f"{name}, {form}"] = Candidate(name, layer, context)
    return found


def several(layer: nn.Module, x: Tensor, state: Any) -> Run:
    """A run of some tokens, each after the same state."""

    def run() -> None:
        with torch.no_grad():
            for _ in range(TOKENS):
                layer(x, state)

    return run


def bytes_of(state: Any) -> int:
    """The memory of all tensors of a state."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    return sum(map(bytes_of, state))


def measure(quick: bool, rounds: int) -> Tables:
    """All tables."""
    layers = candidates()
    speed: Rows = []
    tokens: Rows = []
    for length in TINY if quick else LENGTHS:
        x = torch.randn(length, 1, WIDTH, requires_grad=True)
        for group in dict.fromkeys(one.group for one in layers.values()):
            own = {name: one for name, one in layers.items() if one.group == group}
            check_equal({name: one.results(x) for name, one in own.items()})
        for work in ("train", "forward"):
            runs = {name: getattr(one, work)(x) for name, one in layers.items()}
            speed += compare(runs, rounds=rounds, work=work, length=length)
        # One candidate for each set of parameters: for a single token all forms are one.
        first = {one.group: one.layer for one in reversed(list(layers.values()))}
        first["attention"] = layers["attention"].layer
        with torch.no_grad():
            states = {name: layer(x)[1] for name, layer in reversed(list(first.items()))}
        runs = {name: several(first[name], x[:1], state) for name, state in states.items()}
        for row in compare(runs, rounds=rounds, length=length):
            each = {key: row[key] / TOKENS for key in ("ms", "low", "high", "cpu_ms")}
            tokens.append({**row, **each, "bytes": bytes_of(states[row["form"]])})
    yield "speed", speed
    yield "tokens", tokens
