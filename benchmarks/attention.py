"""Multi-head attention, and a whole layer, beside labml-nn 0.5.1 and PyTorch's own modules.

All candidates have the same weights; outputs and gradients of the inputs are found equal first.
`nn.MultiheadAttention` gets every option that makes it fast: `need_weights=False`, `is_causal`.
Training is forward and backward, to parameters and inputs.

Tables: `speed` (two large settings), `sizes` (ours beside PyTorch's over lengths, batches and kinds
of attention), `layer` (training of a whole
transformer layer), `memory` (forward and backward).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from benchmarks.harness import Rows, Run, Tables, check_equal, compare, matmul_gflops, peak_memory
from benchmarks.peers import published
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer
from labml_nn.transformers.utils import subsequent_mask

PUBLISHED, TORCH, OURS = "labml-nn", "PyTorch", "ours"
KINDS = ("causal", "self", "cross")
#: Lengths and batches; all pairs of at most so many tokens are measured.
LENGTHS, BATCHES, MOST = (64, 256, 512, 2048), (1, 4, 16), 4096


@dataclass(frozen=True)
class Size:
    """Features, heads, sequence length, batch, kind of attention."""

    d_model: int
    heads: int
    length: int
    batch: int
    kind: str = "causal"

    def operations(self) -> float:
        """Floating-point operations of a forward pass; a causal mask needs half of the pairs."""
        products = 8 * self.length * self.batch * self.d_model**2
        pairs = self.length**2 / (2 if self.kind == "causal" else 1)
        return products + 4 * pairs * self.batch * self.d_model


SETTINGS = {"B 8, T 512": Size(256, 8, 512, 8), "B 1, T 2,048": Size(256, 8, 2048, 1)}
TINY = {"B 8, T 512": Size(32, 4, 24, 3), "B 1, T 2,048": Size(32, 4, 40, 1)}


@dataclass(frozen=True)
class Candidate:
    """A module, its inputs, and how it is called."""

    module: nn.Module
    inputs: list[Tensor]
    call: Callable[..., Tensor]

    def forward(self) -> Run:
        """Inference."""

        def run() -> None:
            with torch.no_grad():
                self.call(*self.inputs)

        return run

    def train(self) -> Run:
        """Forward and backward."""
        wanted = [*self.module.parameters(), *self.inputs]
        cotangent = torch.randn_like(self.inputs[0]).detach()
        for tensor in wanted:
            tensor.grad = torch.zeros_like(tensor)
        return lambda: torch.autograd.backward(self.call(*self.inputs), cotangent)

    def results(self) -> list[Tensor]:
        """The output, and the gradients of the inputs."""
        output = self.call(*self.inputs)
        return [output, *torch.autograd.grad(output.square().sum(), self.inputs)]


def inputs(size: Size) -> list[Tensor]:
    """A sequence that attends to itself; for cross-attention a second one."""
    generator = torch.Generator().manual_seed(1)
    shape = (size.length, size.batch, size.d_model)
    count = 2 if size.kind == "cross" else 1
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(count)]


@torch.no_grad()
def copy_to_torch(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Give PyTorch's module the weights of ours."""
    linears = [part.linear for part in (ours.query, ours.key, ours.value)]
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in linears]))
    theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def attentions(size: Size, names: tuple[str, ...]) -> dict[str, Candidate]:
    """Attention modules with the same weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(size.heads, size.d_model, 0.0)
    causal = size.kind == "causal"
    mask = subsequent_mask(size.length) if causal else None
    forbidden = nn.Transformer.generate_square_subsequent_mask(size.length) if causal else None
    made: dict[str, nn.Module] = {OURS: ours}
    if TORCH in names:
        theirs = nn.MultiheadAttention(size.d_model, size.heads, dropout=0.0)
        copy_to_torch(ours, theirs)
        made[TORCH] = theirs
    if PUBLISHED in names:
        old = published("labml_nn.transformers.mha")
        made[PUBLISHED] = old.MultiHeadAttention(size.heads, size.d_model, 0.0)
        made[PUBLISHED].load_state_dict(ours.state_dict())

    def call(name: str) -> Callable[..., Tensor]:
        module = made[name]

        def run(query: Tensor, memory: Tensor | None = None) -> Tensor:
            memory = query if memory is None else memory
            output: Tensor
            if name == TORCH:
                options = {"attn_mask": forbidden, "is_causal": causal, "need_weights": False}
                output = module(query, memory, memory, **options)[0]
            else:
                output = module(query=query, key=memory, value=memory, mask=mask)
            return output

        return run

    return {name: Candidate(made[name], inputs(size), call(name)) for name in names}


def layers(size: Size) -> dict[str, Candidate]:
    """Pre-norm layers with a feed-forward network four times as wide."""
    torch.manual_seed(0)
    width, mask = size.d_model, subsequent_mask(size.length)
    ours = TransformerLayer(
        d_model=width,
        self_attn=MultiHeadAttention(size.heads, width, 0.0),
        feed_forward=FeedForward(width, 4 * width, 0.0),
        dropout_prob=0.0,
    )
    theirs = nn.TransformerEncoderLayer(width, size.heads, 4 * width, 0.0, norm_first=True)
    assert isinstance(ours.self_attn, MultiHeadAttention)
    copy_to_torch(ours.self_attn, theirs.self_attn)
    pairs = {"linear1": "feed_forward.layer1", "linear2": "feed_forward.layer2"}
    pairs |= {"norm1": "norm_self_attn", "norm2": "norm_ff"}
    for their_name, our_name in pairs.items():
        state = ours.get_submodule(our_name).state_dict()
        theirs.get_submodule(their_name).load_state_dict(state)
    names = ("mha", "models", "feed_forward")
    mha, models, feed_forward = (published(f"labml_nn.transformers.{name}") for name in names)
    old = models.TransformerLayer(
        d_model=width,
        self_attn=mha.MultiHeadAttention(size.heads, width, 0.0),
        feed_forward=feed_forward.FeedForward(width, 4 * width, 0.0),
        dropout_prob=0.0,
    )
    old.load_state_dict(ours.state_dict())
    forbidden = nn.Transformer.generate_square_subsequent_mask(size.length)
    return {
        PUBLISHED: Candidate(old, inputs(size), lambda x: old(x=x, mask=mask)),
        TORCH: Candidate(
            theirs, inputs(size), lambda x: theirs(x, src_mask=forbidden, is_causal=True)
        ),
        OURS: Candidate(ours, inputs(size), lambda x: ours(x=x, mask=mask)),
    }


def check(found: dict[str, Candidate]) -> None:
    """The same outputs and gradients."""
    check_equal({name: one.results() for name, one in found.items()})


def speed(settings: dict[str, Size], rounds: int) -> Rows:
    """The large settings."""
    rows: Rows = []
    for setting, size in settings.items():
        found = attentions(size, (PUBLISHED, TORCH, OURS))
        check(found)
        for work, times in (("train", 3), ("forward", 1)):
            runs = {name: getattr(one, work)() for name, one in found.items()}
            least = times * size.operations() / matmul_gflops() / 1e6
            for row in compare(runs, rounds=rounds, setting=setting, work=work):
                rows.append({**row, "share": least / row["ms"]})
    return rows


def sizes(base: Size, grid: tuple[tuple[int, ...], tuple[int, ...]], rounds: int) -> Rows:
    """Ours beside PyTorch's; a ratio above 1 means that ours is faster."""
    rows: Rows = []
    for kind, length, batch in itertools.product(KINDS, *grid):
        if length * batch > MOST:
            continue
        found = attentions(replace(base, kind=kind, length=length, batch=batch), (TORCH, OURS))
        check(found)
        for work in ("train", "forward"):
            runs = {name: getattr(one, work)() for name, one in found.items()}
            # Short runs are disturbed most, so they get more rounds.
            many = rounds * max(1, min(16, MOST // (length * batch)))
            about = {"kind": kind, "length": length, "batch": batch, "work": work}
            rows += compare(runs, rounds=many, **about)
    return rows


def measure(quick: bool, rounds: int) -> Tables:
    """All tables."""
    settings = TINY if quick else SETTINGS
    yield "speed", speed(settings, rounds)
    grid = ((12,), (1, 2)) if quick else (LENGTHS, BATCHES)
    yield "sizes", sizes(next(iter(settings.values())), grid, rounds)
    rows: Rows = []
    for setting, size in settings.items():
        found = layers(size)
        check(found)
        runs = {name: one.train() for name, one in found.items()}
        rows += compare(runs, rounds=max(3, rounds // 2), setting=setting)
    yield "layer", rows
    yield (
        "memory",
        [
            {"setting": setting, "form": name, "mib": peak_memory(one.train())}
            for setting, size in settings.items()
            for name, one in attentions(size, (PUBLISHED, TORCH, OURS)).items()
        ],
    )
