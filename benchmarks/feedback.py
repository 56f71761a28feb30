"""The feedback transformer beside labml-nn 0.5.1 and feedback-transformer-pytorch 0.0.11.

Ours has the parameters of `FeedbackTransformerKV` of labml-nn 0.5.1; outputs and gradients are
found equal before anything is timed. The peer feedback-transformer-pytorch has the same recurrence
(with `seq_len=1`) but other parts: its feed-forward network is gated and half as large again, and
it embeds tokens and predicts them. Training is forward, backward and a step of AdamW.

Tables: `speed` (settings A and B), `memory` (forward and backward over the sequence length), and
`architectures`: a training step beside those of a Transformer and of an Elman network of the same
width and number of layers, each as its page has it and with its kernels.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Rows, Run, Tables, check_equal, compare, matmul_gflops, peak_memory
from benchmarks.peers import MissingPeer, peer, published
from labml_nn import kernels
from labml_nn.kernels import feedback_cpp
from labml_nn.recurrent.elman import Elman
from labml_nn.transformers import feedback as ours
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import Encoder, TransformerLayer
from labml_nn.transformers.utils import subsequent_mask

KV, PUBLISHED, PEER = "labml-nn, KV", "labml-nn", "feedback-transformer-pytorch"
REFERENCE, BY_HAND, KERNEL = "ours, reference", "ours, by hand", "ours, C++ kernel"
#: Which kernels are switched off while each of ours runs.
OURS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    REFERENCE: kernels.disabled,
    BY_HAND: partial(kernels.disabled, feedback_cpp),
    KERNEL: nullcontext,
}
VOCABULARY = 65


@dataclass(frozen=True)
class Size:
    """Features, heads, layers, steps, and sequences in a batch."""

    d_model: int
    heads: int
    n_layers: int
    seq_len: int
    batch: int

    def operations(self) -> float:
        """Floating-point operations that a forward pass needs at least.

        For each token and layer 10 products with a C x C matrix (query, output, and a feed-forward
        network four times as wide), 2 for all layers together (key and value), and attention: 3 C
        products for each of T / 2 earlier steps on average. A product and a sum are two operations.
        """
        products = (10 * self.n_layers + 2) * 2 * self.d_model**2
        attention = self.n_layers * (self.seq_len / 2) * 3 * 2 * self.d_model
        return self.seq_len * self.batch * (products + attention)


A, B = Size(128, 4, 4, 128, 16), Size(256, 8, 6, 256, 8)
TINY = Size(16, 2, 2, 12, 3)


@dataclass(frozen=True)
class Candidate:
    """A model, its input, and the kernels that it runs with."""

    model: nn.Module
    x: Tensor
    context: Callable[[], AbstractContextManager[None]] = nullcontext

    def forward(self) -> Run:
        """Inference."""

        def run() -> None:
            with torch.no_grad(), self.context():
                self.model(self.x)

        return run

    def backward(self) -> None:
        """Forward and backward, into the parameters' gradients."""
        with self.context():
            self.model(self.x).square().mean().backward()

    def train(self) -> Run:
        """A training step with PyTorch's fused AdamW."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            self.backward()
            optimizer.step()

        return run


def our_model(size: Size) -> nn.Module:
    """With the parameters of 0.5.1."""
    attention = ours.FeedbackAttention(size.heads, size.d_model, 0.0, is_kv_precomputed=True)
    layer = ours.FeedbackTransformerLayer(
        d_model=size.d_model,
        attn=attention,
        feed_forward=FeedForward(size.d_model, 4 * size.d_model, 0.0),
        dropout_prob=0.0,
    )
    return ours.FeedbackTransformerKV(layer, size.n_layers, size.d_model, size.heads)


def published_model(size: Size, kv: bool) -> nn.Module:
    """One of the two of labml-nn 0.5.1: with shared keys and values, or without."""
    theirs = published("labml_nn.transformers.feedback")
    layer = theirs.FeedbackTransformerLayer(
        d_model=size.d_model,
        attn=theirs.FeedbackAttention(size.heads, size.d_model, 0.0, is_kv_precomputed=kv),
        feed_forward=theirs.FeedForward(size.d_model, 4 * size.d_model, 0.0),
        dropout_prob=0.0,
    )
    if kv:
        model = theirs.FeedbackTransformerKV(layer, size.n_layers, size.d_model, size.heads)
    else:
        model = theirs.FeedbackTransformer(layer, size.n_layers)
    assert isinstance(model, nn.Module)
    return model


def peer_model(size: Size) -> nn.Module:
    """`seq_len=1` lets each token attend to the memory of all before it."""
    model: nn.Module = peer("feedback_transformer_pytorch").FeedbackTransformer(
        num_tokens=VOCABULARY,
        dim=size.d_model,
        depth=size.n_layers,
        heads=size.heads,
        dim_head=size.d_model // size.heads,
        seq_len=1,
        mem_len=size.seq_len,
    )
    return model


def candidates(size: Size, names: tuple[str, ...] | None = None) -> dict[str, Candidate]:
    """Those that are installed, 0.5.1 with shared keys and values first."""
    torch.manual_seed(0)
    x = torch.randn(size.seq_len, size.batch, size.d_model)
    tokens = torch.randint(VOCABULARY, (size.batch, size.seq_len))
    first = published_model(size, kv=True)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(torch.randn_like(parameter) / 50)
    found = {KV: Candidate(first, x), PUBLISHED: Candidate(published_model(size, kv=False), x)}
    try:
        found[PEER] = Candidate(peer_model(size), tokens)
    except MissingPeer as missing:
        print(f"No rows for {PEER}: {missing}.")
    for name, context in OURS.items():
        model = our_model(size)
        model.load_state_dict(first.state_dict())
        found[name] = Candidate(model, x, context)
    return {name: one for name, one in found.items() if names is None or name in names}


def check(models: dict[str, Candidate]) -> None:
    """The same outputs and gradients, where the inputs of the ReLUs are far from zero.

    In 32 bits a ReLU with an input of almost zero is open in one implementation, closed in another,
    which changes a gradient by 1e-3. So every second unit is open for this, and the others closed.
    """
    results: dict[str, list[Any]] = {}
    for name in (KV, *OURS):
        model = models[name].model
        biases = [p for key, p in model.named_parameters() if key.endswith("layer1.bias")]
        before = [bias.detach().clone() for bias in biases]
        with torch.no_grad():
            for bias in biases:
                bias.copy_(torch.tensor([20.0, -20.0]).repeat(len(bias) // 2))
        model.zero_grad()
        models[name].backward()
        results[name] = [parameter.grad for parameter in model.parameters()]
        with torch.no_grad(), models[name].context():
            results[name].append(model(models[name].x))
            for bias, values in zip(biases, before, strict=True):
                bias.copy_(values)
    check_equal(results)


def speed(settings: dict[str, Size], rounds: int) -> Rows:
    """Training steps and forward passes, with the share of the machine's limit."""
    rows: Rows = []
    for setting, size in settings.items():
        models = candidates(size)
        check(models)
        for work, times in (("train", 3), ("forward", 1)):
            runs = {name: getattr(one, work)() for name, one in models.items()}
            least = times * size.operations() / matmul_gflops() / 1e6
            some = rounds if setting == "A" else max(3, rounds // 2)
            for row in compare(runs, rounds=some, setting=setting, work=work):
                share = least / row["ms"] if row["form"] != PEER else None
                rows.append({**row, "share": share})
    return rows


def memory(size: Size, lengths: tuple[int, ...]) -> Rows:
    """Forward and backward at several lengths; gradients and parameters are there before."""
    rows: Rows = []
    for length in lengths:
        for name, one in candidates(replace(size, seq_len=length), (KV, BY_HAND, KERNEL)).items():
            rows.append({"seq_len": length, "form": name, "mib": peak_memory(one.backward)})
    return rows


def architectures(size: Size, rounds: int) -> Rows:
    """Three networks on the same vectors; ratios are speed-ups over the first."""
    layer = TransformerLayer(
        d_model=size.d_model,
        self_attn=MultiHeadAttention(size.heads, size.d_model, 0.0),
        feed_forward=FeedForward(size.d_model, 4 * size.d_model, 0.0),
        dropout_prob=0.0,
    )
    mask = subsequent_mask(size.seq_len)
    networks = {
        "Transformer": Masked(Encoder(layer, size.n_layers), mask),
        "Elman network": Outputs(Elman(size.d_model, size.d_model, size.n_layers)),
        "Feedback Transformer": our_model(size),
    }
    x = torch.randn(size.seq_len, size.batch, size.d_model)
    runs = {
        f"{name}, {form}": Candidate(network, x, context).train()
        for name, network in networks.items()
        for form, context in (("as on its page", kernels.disabled), ("kernels", nullcontext))
    }
    return compare(runs, rounds=rounds)


class Masked(nn.Module):
    """An encoder that does not see the future."""

    def __init__(self, encoder: Encoder, mask: Tensor) -> None:
        super().__init__()
        self.encoder, self.mask = encoder, mask

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, `[T, B, C]`."""
        output: Tensor = self.encoder(x, self.mask)
        return output


class Outputs(nn.Module):
    """A recurrent network without the state that it returns."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, `[T, B, C]`."""
        output: Tensor = self.network(x)[0]
        return output


def measure(quick: bool, rounds: int) -> Tables:
    """All tables."""
    yield "speed", speed({"A": TINY} if quick else {"A": A, "B": B}, rounds)
    yield "memory", memory(TINY if quick else A, (6, 12) if quick else (128, 256))
    yield "architectures", architectures(TINY if quick else A, rounds)
