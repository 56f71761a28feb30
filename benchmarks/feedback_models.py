"""Feedback transformers of the same size: the published ones, a peer's, and ours in each form."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contest import Run
from benchmarks.peers import MissingPeer, peer, published
from labml_nn.kernels.build import is_switched_off
from labml_nn.transformers import feedback as ours
from labml_nn.transformers.feedback import gpu
from labml_nn.transformers.feedback.by_hand import form_of
from labml_nn.transformers.feedback.gpu import graphs
from labml_nn.transformers.feedback.kernel import KERNEL

#: Ours, by the `backend=` that chooses it.
BACKENDS = {
    "ours, plain": "plain",
    "ours, by hand": "by_hand",
    "ours, kernel": "kernel",
    "ours, graphs": "graphs",
    "ours, triton": "triton",
}
PUBLISHED_KV, PUBLISHED = "labml-nn, KV", "labml-nn, plain"
LUCIDRAINS = "feedback-transformer-pytorch"
NAMES = (PUBLISHED_KV, PUBLISHED, LUCIDRAINS, *BACKENDS)
#: Of the peer that reads tokens and bets on them. Those of Tiny Shakespeare.
VOCABULARY = 65


@dataclass(frozen=True)
class Size:
    """Width, heads, layers, steps and texts."""

    width: int
    heads: int
    layers: int
    steps: int
    texts: int

    def but(self, **changes: int) -> "Size":
        """With something else changed."""
        return replace(self, **changes)

    def operations(self) -> float:
        """How many additions and multiplications a forward pass cannot do without.

        A product of a vector and a $C \\times C$ matrix is $2 C^2$ of them. Each token needs, in
        each layer, one for its query and one for the output of attention, and eight for the
        feed-forward network, which is four times as wide; and once, for all layers, two for the
        key and the value of its memory. Attention needs $3 \\cdot 2 C$ in each layer for each
        earlier step, of which there are $T / 2$ on average: a score by content, a score by
        distance, and the mixture. Backward is twice as much, for the gradients of either factor.
        """
        products = (10 * self.layers + 2) * 2 * self.width**2
        attention = self.layers * (self.steps / 2) * 3 * 2 * self.width
        return self.steps * self.texts * (products + attention)


@dataclass(frozen=True)
class Contender:
    """A model, and what it reads."""

    model: nn.Module
    x: Tensor

    @property
    def parameters(self) -> int:
        """All numbers that it learns."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def forward(self) -> Run:
        """Reading alone."""

        def run() -> None:
            with torch.no_grad():
                self.model(self.x)

        return run

    def backward(self) -> Run:
        """Forward and backward, into gradients that are there."""
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return lambda: self.model(self.x).square().mean().backward()

    def train(self) -> Run:
        """Forward, backward, and a step of AdamW, PyTorch's fastest."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            self.model(self.x).square().mean().backward()
            optimizer.step()

        return run


def contenders(
    size: Size, names: tuple[str, ...] = NAMES, device: torch.device | str = "cpu"
) -> dict[str, Contender]:
    """Those of the names that can be had on the device. A line says why a peer cannot."""
    makers: dict[str, Callable[[], nn.Module]] = {
        PUBLISHED_KV: partial(published_model, size, "FeedbackTransformerKV"),
        PUBLISHED: partial(published_model, size, "FeedbackTransformer"),
        LUCIDRAINS: partial(lucidrains_model, size),
        **{name: partial(our_model, size, backend) for name, backend in BACKENDS.items()},
    }
    torch.manual_seed(0)
    vectors = torch.randn(size.steps, size.texts, size.width)
    tokens = torch.randint(VOCABULARY, (size.texts, size.steps))
    found = {}
    for name in names:
        try:
            model = makers[name]().to(device)
        except MissingPeer as missing:
            print(f"No rows for {name}: {missing}.")
            continue
        x = (tokens if name == LUCIDRAINS else vectors).to(device)
        if can_run(BACKENDS.get(name), model, x):
            found[name] = Contender(model, x)
    same_parameters(found)
    return found


def can_run(backend: str | None, model: Any, x: Tensor) -> bool:
    """Whether a form of ours is there, of the processor or of a GPU; others always are."""
    if backend == "kernel":
        return not x.is_cuda and not is_switched_off() and KERNEL.find() is not None
    if backend in gpu.BACKENDS:
        return gpu.unsuited(str(backend), form_of(model), x) is None
    return True


def forget() -> None:
    """Give back what forms keep between their runs."""
    graphs.forget()


def our_model(size: Size, backend: str) -> nn.Module:
    """Ours, in one of its forms."""
    attention = ours.FeedbackAttention(size.heads, size.width, 0.0, is_kv_precomputed=True)
    layer = ours.FeedbackTransformerLayer(
        d_model=size.width,
        attn=attention,
        feed_forward=ours.FeedForward(size.width, 4 * size.width, 0.0),
        dropout_prob=0.0,
    )
    return ours.FeedbackTransformerKV(layer, size.layers, size.width, size.heads, backend=backend)


def published_model(size: Size, name: str) -> nn.Module:
    """One of the two of labml-nn 0.5.1."""
    theirs = published("labml_nn.transformers.feedback")
    shares = name.endswith("KV")
    layer = theirs.FeedbackTransformerLayer(
        d_model=size.width,
        attn=theirs.FeedbackAttention(size.heads, size.width, 0.0, is_kv_precomputed=shares),
        feed_forward=theirs.FeedForward(size.width, 4 * size.width, 0.0),
        dropout_prob=0.0,
    )
    more = (size.width, size.heads) if shares else ()
    model: nn.Module = getattr(theirs, name)(layer, size.layers, *more)
    return model


def lucidrains_model(size: Size, vocabulary: int = VOCABULARY) -> nn.Module:
    """The same recurrence: `seq_len=1` lets each token see what all before it have left.

    The rest differs. Its feed-forward network is gated, and so half as large again. It reads
    tokens and returns scores for the next one, a small part of its work. It adds a number to each
    score of attention by the distance of the two tokens; but a token that comes alone is taken to
    be at the first place, before all others, and to them the number is the same.
    """
    package = peer("feedback_transformer_pytorch")
    model: nn.Module = package.FeedbackTransformer(
        num_tokens=vocabulary,
        dim=size.width,
        depth=size.layers,
        heads=size.heads,
        dim_head=size.width // size.heads,
        seq_len=1,
        mem_len=size.steps,
    )
    return model


# Equal, before a clock starts.


def same_parameters(models: dict[str, Contender]) -> None:
    """Give all that are one model the same parameters: the published one with KV, and ours."""
    alike = [models[name].model for name in (PUBLISHED_KV, *BACKENDS) if name in models]
    with torch.no_grad():
        for parameter in alike[0].parameters() if alike else ():
            parameter.add_(torch.randn_like(parameter) / 50)
    for model in alike[1:]:
        model.load_state_dict(alike[0].state_dict())


def check_equal(models: dict[str, Contender]) -> None:
    """Outputs are equal to 1e-5, and gradients to 1e-4, each by the length of the difference.

    In 64 bits they agree to the last digits, the tests say. In 32 a ReLU whose input is almost zero
    is open in one form and closed in the other, and a gradient may be off by 1e-3. So gradients are
    compared where every second ReLU is wide open, and the others are closed.
    """
    alike = {name: models[name] for name in (PUBLISHED_KV, *BACKENDS) if name in models}
    outputs: dict[str, dict[str, Tensor]] = {}
    gradients: dict[str, dict[str, Tensor]] = {}
    for name, contender in alike.items():
        with torch.no_grad():
            outputs[name] = {"output": contender.model(contender.x)}
        with _away_from_kinks(contender.model):
            contender.model(contender.x).square().mean().backward()
        gradients[name] = {
            f"gradient of {key}": parameter.grad
            for key, parameter in contender.model.named_parameters()
            if parameter.grad is not None
        }
        contender.model.zero_grad()
    for answers, most in ((outputs, 1e-5), (gradients, 1e-4)):
        first, *others = answers
        for name in others:
            for key, expected in answers[first].items():
                _check(f"{key} of {name} and {first}", answers[name][key], expected, most)


@contextmanager
def _away_from_kinks(model: nn.Module) -> Iterator[None]:
    parameters = dict(model.named_parameters())
    biases = [p.data for name, p in parameters.items() if name.endswith("layer1.bias")]
    kept = [bias.clone() for bias in biases]
    for bias in biases:
        bias[0::2] += 5
        bias[1::2] -= 5
    yield
    for bias, before in zip(biases, kept, strict=True):
        bias.copy_(before)


def _check(what: str, found: Tensor, expected: Tensor, most: float) -> None:
    apart = ((found - expected).norm() / expected.norm().clamp_min(1e-12)).item()
    if not apart <= most:
        raise SystemExit(f"{what} differ by {apart:.1e}; nothing was measured")
