"""The encoder–decoder and a stack against PyTorch's, with PyTorch's weights copied into ours."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labml_nn.transformers import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    MultiHeadAttention,
    TransformerLayer,
)
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.utils import subsequent_mask

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

# T, S, B, C, H, F, V: all different, so that no axis can stand in for another.
T, S, B, C, H, F = 5, 7, 2, 12, 3, 28
SRC_VOCAB, TGT_VOCAB = 17, 19
LENGTHS = torch.tensor([7, 4])
#: PyTorch's masks say where *not* to look, and keep padding apart.
PADDING = torch.arange(S)[None, :] >= LENGTHS[:, None]
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)

Pairs = Iterator[tuple[nn.Parameter, nn.Parameter, slice]]

orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])


def layer(decoder: bool, norm_first: bool) -> nn.Module:
    made: nn.Module = TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )
    return made


# Which parameters belong together.


def module_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    for name, parameter in theirs.named_parameters():
        yield ours.get_parameter(name), parameter, slice(None)


def attention_pairs(ours: nn.Module, theirs: nn.MultiheadAttention) -> Pairs:
    # PyTorch keeps the three input projections in one matrix, one above the other.
    for i, part in enumerate((ours.query, ours.key, ours.value)):
        rows = slice(i * C, (i + 1) * C)
        yield part.linear.weight, theirs.in_proj_weight, rows
        if theirs.in_proj_bias is not None:
            yield part.linear.bias, theirs.in_proj_bias, rows
    yield from module_pairs(ours.output, theirs.out_proj)


def layer_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    yield from attention_pairs(ours.self_attn, theirs.self_attn)
    norms = [ours.norm_self_attn, ours.norm_ff]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        yield from attention_pairs(ours.src_attn, theirs.multihead_attn)
        norms.insert(1, ours.norm_src_attn)
    for i, norm in enumerate(norms, start=1):
        yield from module_pairs(norm, getattr(theirs, f"norm{i}"))
    yield from module_pairs(ours.feed_forward.layer1, theirs.linear1)
    yield from module_pairs(ours.feed_forward.layer2, theirs.linear2)


def stack_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    assert len(ours.layers) == len(theirs.layers)
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        yield from layer_pairs(our_layer, their_layer)
    if theirs.norm is not None:
        yield from module_pairs(ours.norm, theirs.norm)


# Two modules that take the same inputs.


class Call(nn.Module):
    """A module and how it is called: with tensors alone, in the order of the inputs."""

    def __init__(self, modules: dict[str, nn.Module], call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(modules)
        self.call = call

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(*self.parts.values(), *inputs)


@dataclass
class Twins:
    ours: Call
    theirs: Call
    pairs: list[tuple[nn.Parameter, nn.Parameter, slice]]
    inputs: tuple[Tensor, ...]

    def copy_weights(self) -> "Twins":
        assert {id(p) for p, _, _ in self.pairs} == {id(p) for p in self.ours.parameters()}
        with torch.no_grad():
            for our_parameter, theirs, rows in self.pairs:
                # Norms and biases of PyTorch start at ones and zeros, which hide mistakes.
                theirs[rows] += 0.1 * torch.randn_like(theirs[rows])
                our_parameter.copy_(theirs[rows])
        return self

    def gradients(self, module: Call) -> list[Tensor]:
        """Output of `module`, and gradients of its inputs and parameters."""
        module.zero_grad()
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in self.inputs]
        output = module(*leaves)
        weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(9))
        (output * weight.to(output)).sum().backward()
        found = [leaf.grad for leaf in leaves if leaf.requires_grad]
        for ours, theirs, rows in self.pairs:
            found.append(ours.grad if module is self.ours else theirs.grad[rows])
        assert all(gradient is not None and gradient.isfinite().all() for gradient in found)
        return [output.detach(), *found]

    def assert_same(self, tolerance: float) -> None:
        """Outputs and all gradients agree."""
        mine, expected = self.gradients(self.ours), self.gradients(self.theirs)
        torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance)


def whole(norm_first: bool, dtype: torch.dtype = torch.float32) -> Twins:
    """From tokens to logits; PyTorch's lacks embeddings and generator, so it is given some."""
    torch.manual_seed(0)
    mine = EncoderDecoder(
        Encoder(layer(False, norm_first), 2),
        Decoder(layer(True, norm_first), 3),
        nn.Embedding(SRC_VOCAB, C),
        nn.Embedding(TGT_VOCAB, C),
        Generator(TGT_VOCAB, C),
    )
    theirs = {
        "transformer": nn.Transformer(C, H, 2, 3, F, 0.0, norm_first=norm_first, dtype=dtype),
        "src_embed": nn.Embedding(SRC_VOCAB, C, dtype=dtype),
        "tgt_embed": nn.Embedding(TGT_VOCAB, C, dtype=dtype),
        "generator": nn.Linear(C, TGT_VOCAB, dtype=dtype),
    }

    def call_ours(module: Any, src: Tensor, tgt: Tensor) -> Tensor:
        return module.logits(src, tgt, ~PADDING.T[None], subsequent_mask(T))

    def call_theirs(
        transformer: nn.Module,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
        src: Tensor,
        tgt: Tensor,
    ) -> Tensor:
        padding = {"src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
        rows = transformer(src_embed(src), tgt_embed(tgt), tgt_mask=FUTURE, **padding)
        return generator(rows)

    pairs = [
        *stack_pairs(mine.encoder, theirs["transformer"].encoder),
        *stack_pairs(mine.decoder, theirs["transformer"].decoder),
        *module_pairs(mine.src_embed, theirs["src_embed"]),
        *module_pairs(mine.tgt_embed, theirs["tgt_embed"]),
        *module_pairs(mine.generator.projection, theirs["generator"]),
    ]
    inputs = torch.randint(SRC_VOCAB, (S, B)), torch.randint(TGT_VOCAB, (T, B))
    mine.to(dtype)
    twins = Twins(Call({"it": mine}, call_ours), Call(theirs, call_theirs), pairs, inputs)
    return twins.copy_weights()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@orders
def test_outputs_and_gradients(norm_first, dtype, tolerance):
    """With masks for the future and for padding."""
    whole(norm_first, dtype).assert_same(tolerance)


@orders
def test_stack_without_a_last_norm(norm_first):
    """The paper's post-norm stack: `nn.TransformerEncoder` without its optional norm."""
    pattern = nn.TransformerEncoderLayer(C, H, F, 0.0, norm_first=norm_first)
    theirs = nn.TransformerEncoder(pattern, 3, norm=None, enable_nested_tensor=False)
    mine = Encoder(layer(False, norm_first), 3, final_norm=False)
    pair = Twins(
        Call({"it": mine}, lambda it, x: it(x, subsequent_mask(T))),
        Call({"it": theirs}, lambda it, x: it(x, mask=FUTURE)),
        list(stack_pairs(mine, theirs)),
        (torch.randn(T, B, C),),
    )
    pair.copy_weights().assert_same(1e-5)


def test_the_comparison_notices():
    """A weight that differs in one entry fails both forms of the comparison."""
    pair = whole(norm_first=True)
    with torch.no_grad():
        pair.pairs[0][0][0, 0] += 0.01
    with pytest.raises(AssertionError, match="not close"):
        pair.assert_same(1e-5)
