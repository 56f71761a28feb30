"""Multi-head attention and layers of the same size and weights: labml-nn's, PyTorch's and ours."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contest import Run
from benchmarks.peers import published
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

PUBLISHED, TORCH, OURS = "labml-nn", "PyTorch", "ours"
#: Who attends to what.
KINDS = ("causal", "self", "cross")


@dataclass(frozen=True)
class Size:
    """Width, heads, length, texts; who attends to what, and how many weights are dropped."""

    width: int
    heads: int
    length: int
    texts: int
    kind: str = "causal"
    dropout: float = 0.0

    def but(self, **changes: Any) -> "Size":
        """With something else changed."""
        return replace(self, **changes)

    @property
    def tokens(self) -> int:
        """Of all texts."""
        return self.length * self.texts

    def operations(self) -> float:
        """How many additions and multiplications a forward pass cannot do without.

        Four products of $T B$ rows with a $C \\times C$ matrix are $4 \\cdot 2 T B C^2$. Scores
        and means are $2 \\cdot 2 T^2 B C$, of which a causal mask needs a half. Backward is twice
        as much, for the gradients of either factor.
        """
        products = 8 * self.length * self.texts * self.width**2
        pairs = self.length**2 / (2 if self.kind == "causal" else 1)
        return products + 4 * pairs * self.texts * self.width


@dataclass(frozen=True)
class Contender:
    """A module, what it reads, and how it is called with that."""

    module: nn.Module
    inputs: list[Tensor]
    call: Callable[..., Tensor]

    def forward(self) -> Run:
        """The result alone."""

        def run() -> None:
            with torch.no_grad():
                self.call(*self.inputs)

        return run

    def train(self) -> Run:
        """Forward and backward, to all parameters and inputs."""
        wanted = [*self.module.parameters(), *self.inputs]
        x = self.inputs[0]
        cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(x.device)
        for tensor in wanted:
            tensor.grad = torch.zeros_like(tensor)

        def run() -> None:
            torch.autograd.backward(self.call(*self.inputs), cotangent)

        return run

    def gradients(self) -> list[Tensor]:
        """The result, and the gradients of the inputs."""
        result = self.call(*self.inputs)
        return [result, *torch.autograd.grad(result.square().sum(), self.inputs)]


def inputs(size: Size, device: torch.device | str = "cpu") -> list[Tensor]:
    """One sequence that attends to itself, or one that attends to another."""
    generator = torch.Generator().manual_seed(1)
    count = 2 if size.kind == "cross" else 1
    return [
        torch.randn(size.length, size.texts, size.width, generator=generator)
        .to(device)
        .requires_grad_()
        for _ in range(count)
    ]


def attentions(
    size: Size,
    names: tuple[str, ...] = (PUBLISHED, TORCH, OURS),
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Each with the same weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(size.heads, size.width, size.dropout).to(device)
    causal = size.kind == "causal"
    mask = subsequent_mask(size.length).to(device) if causal else None
    made: dict[str, Any] = {}
    for name in names:
        if name == TORCH:
            theirs = nn.MultiheadAttention(size.width, size.heads, dropout=size.dropout)
            as_pytorch(ours, theirs.to(device))
            forbidden = future(size).to(device) if causal else None
            made[name] = Contender(theirs, inputs(size, device), _call_torch(theirs, forbidden))
            continue
        module: nn.Module = ours
        if name == PUBLISHED:
            mha = published("labml_nn.transformers.mha")
            module = mha.MultiHeadAttention(size.heads, size.width, size.dropout).to(device)
            module.load_state_dict(ours.state_dict())
        made[name] = Contender(module, inputs(size, device), _call_ours(module, mask))
    return made


def _call_ours(module: nn.Module, mask: Tensor | None) -> Callable[..., Tensor]:
    def call(query: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = query if memory is None else memory
        result: Tensor = module(query=query, key=memory, value=memory, mask=mask)
        return result

    return call


def future(size: Size) -> Tensor:
    """What PyTorch's modules are told to leave out."""
    return nn.Transformer.generate_square_subsequent_mask(size.length)


def _call_torch(module: nn.Module, forbidden: Tensor | None) -> Callable[..., Tensor]:
    causal = forbidden is not None

    def call(query: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = query if memory is None else memory
        told = {"attn_mask": forbidden, "is_causal": causal, "need_weights": False}
        result: Tensor = module(query, memory, memory, **told)[0]
        return result

    return call


@torch.no_grad()
def as_pytorch(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Give PyTorch's module the weights of ours."""
    linears = [part.linear for part in (ours.query, ours.key, ours.value)]
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears]))
    theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def layers(size: Size, device: torch.device | str = "cpu") -> dict[str, Contender]:
    """Whole layers: attention, and a network four times as wide, each added to the rows."""
    torch.manual_seed(0)
    width, mask = size.width, subsequent_mask(size.length).to(device)
    ours = TransformerLayer(
        d_model=width,
        self_attn=MultiHeadAttention(size.heads, width, size.dropout),
        feed_forward=FeedForward(width, 4 * width, size.dropout),
        dropout_prob=size.dropout,
    )
    theirs = nn.TransformerEncoderLayer(width, size.heads, 4 * width, size.dropout, norm_first=True)
    assert isinstance(ours.self_attn, MultiHeadAttention)
    as_pytorch(ours.self_attn, theirs.self_attn)
    pairs = {"linear1": "feed_forward.layer1", "linear2": "feed_forward.layer2"}
    pairs |= {"norm1": "norm_self_attn", "norm2": "norm_ff"}
    for their_name, our_name in pairs.items():
        part = ours.get_submodule(our_name)
        theirs.get_submodule(their_name).load_state_dict(part.state_dict())
    mha, whole, thinks = (
        published(f"labml_nn.transformers.{name}") for name in ("mha", "models", "feed_forward")
    )
    old = whole.TransformerLayer(
        d_model=width,
        self_attn=mha.MultiHeadAttention(size.heads, width, size.dropout),
        feed_forward=thinks.FeedForward(width, 4 * width, size.dropout),
        dropout_prob=size.dropout,
    )
    old.load_state_dict(ours.state_dict())
    for model in (ours, theirs, old):
        model.to(device)
    forbidden = future(size).to(device)
    return {
        PUBLISHED: Contender(old, inputs(size, device), lambda x: old(x=x, mask=mask)),
        TORCH: Contender(
            theirs, inputs(size, device), lambda x: theirs(x, src_mask=forbidden, is_causal=True)
        ),
        OURS: Contender(ours, inputs(size, device), lambda x: ours(x=x, mask=mask)),
    }


def check_equal(contenders: dict[str, Contender]) -> None:
    """All give the same result, and the same gradients, or there is nothing to compare.

    What counts is the length of the difference: a ReLU whose input is almost zero may be open in
    one and closed in another, and that moves single numbers.
    """
    (first, *others) = contenders
    expected = contenders[first].gradients()
    for name in others:
        for own, theirs in zip(contenders[name].gradients(), expected, strict=True):
            apart = ((own - theirs).norm() / theirs.norm().clamp_min(1e-12)).item()
            assert apart <= 1e-3, f"{name} and {first} differ by {apart:.1e}"
