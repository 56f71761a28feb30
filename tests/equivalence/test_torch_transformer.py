"""Our layers and stacks against PyTorch's, with PyTorch's weights copied into ours."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask

# T, S, B, C, H, F, V: all different, so that no axis can stand in for another.
T, S, B, C, H, F = 5, 7, 2, 12, 3, 28
SRC_VOCAB, TGT_VOCAB = 17, 19
LENGTHS = torch.tensor([7, 4])
#: PyTorch's masks say where *not* to look, and keep padding apart.
PADDING = torch.arange(S)[None, :] >= LENGTHS[:, None]
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)

precise = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)]
)
orders = pytest.mark.parametrize("norm_first", [True, False])
masks = pytest.mark.parametrize("masked", [True, False])

Pairs = Iterator[tuple[nn.Parameter, nn.Parameter, slice]]


def layer(decoder: bool, norm_first: bool) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )


def attention_pairs(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Pairs:
    # PyTorch keeps the three input projections in one matrix, one above the other.
    for i, part in enumerate((ours.query, ours.key, ours.value)):
        rows = slice(i * C, (i + 1) * C)
        yield part.linear.weight, theirs.in_proj_weight, rows
        yield part.linear.bias, theirs.in_proj_bias, rows
    yield from module_pairs(ours.output, theirs.out_proj)


def module_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    yield ours.weight, theirs.weight, slice(None)
    yield ours.bias, theirs.bias, slice(None)


def layer_pairs(ours: TransformerLayer, theirs: nn.Module) -> Pairs:
    yield from attention_pairs(ours.self_attn, theirs.self_attn)
    norms = [ours.norm_self_attn, ours.norm_ff]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        yield from attention_pairs(ours.src_attn, theirs.multihead_attn)
        norms.insert(1, ours.norm_src_attn)
    for i, norm in enumerate(norms, start=1):
        yield from module_pairs(norm, getattr(theirs, f"norm{i}"))
    yield from module_pairs(ours.feed_forward.layer1, theirs.linear1)
    yield from module_pairs(ours.feed_forward.layer2, theirs.linear2)


def stack_pairs(ours: Encoder | Decoder, theirs: nn.Module) -> Pairs:
    assert len(ours.layers) == len(theirs.layers)
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        yield from layer_pairs(our_layer, their_layer)
    if theirs.norm is not None:
        yield from module_pairs(ours.norm, theirs.norm)


def copy_weights(ours: nn.Module, pairs: list[tuple[nn.Parameter, nn.Parameter, slice]]) -> None:
    assert {id(p) for p, _, _ in pairs} == {id(p) for p in ours.parameters()}
    with torch.no_grad():
        for our_parameter, theirs, rows in pairs:
            # Norms and biases of PyTorch start at ones and zeros, which hide mistakes.
            theirs[rows] += 0.1 * torch.randn_like(theirs[rows])
            our_parameter.copy_(theirs[rows])


def assert_same(
    ours: Tensor,
    theirs: Tensor,
    pairs: list[tuple[nn.Parameter, nn.Parameter, slice]],
    inputs: list[tuple[Tensor, Tensor]],
    tolerance: float,
) -> None:
    """Outputs, gradients of the inputs and gradients of all parameters agree."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    cotangent = torch.randn_like(ours)
    (ours * cotangent).sum().backward()
    (theirs * cotangent).sum().backward()
    for our_input, their_input in inputs:
        assert our_input.grad.abs().max() > 0
        torch.testing.assert_close(our_input.grad, their_input.grad, rtol=tolerance, atol=tolerance)
    for our_parameter, their_parameter, rows in pairs:
        torch.testing.assert_close(
            our_parameter.grad, their_parameter.grad[rows], rtol=tolerance, atol=tolerance
        )


def leaf_pair(*shape: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x = torch.randn(*shape, dtype=dtype)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


@precise
@orders
@masks
def test_encoder_layer(norm_first, masked, dtype, tolerance):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(C, H, F, 0.0, norm_first=norm_first, dtype=dtype)
    ours = layer(False, norm_first).to(dtype)
    pairs = list(layer_pairs(ours, theirs))
    copy_weights(ours, pairs)
    x, y = leaf_pair(S, B, C, dtype=dtype)
    future = torch.ones(S, S, dtype=torch.bool).triu(1)
    mask = subsequent_mask(S) & ~PADDING.T[None]
    our_output = ours(x=x, mask=mask if masked else None)
    their_output = theirs(
        y,
        src_mask=future if masked else None,
        src_key_padding_mask=PADDING if masked else None,
    )
    assert_same(our_output, their_output, pairs, [(x, y)], tolerance)


@precise
@orders
@masks
def test_decoder_layer(norm_first, masked, dtype, tolerance):
    torch.manual_seed(1)
    theirs = nn.TransformerDecoderLayer(C, H, F, 0.0, norm_first=norm_first, dtype=dtype)
    ours = layer(True, norm_first).to(dtype)
    pairs = list(layer_pairs(ours, theirs))
    copy_weights(ours, pairs)
    x, y = leaf_pair(T, B, C, dtype=dtype)
    src, memory = leaf_pair(S, B, C, dtype=dtype)
    our_output = ours(
        x=x,
        mask=subsequent_mask(T) if masked else None,
        src=src,
        src_mask=~PADDING.T[None] if masked else None,
    )
    their_output = theirs(
        y,
        memory,
        tgt_mask=FUTURE if masked else None,
        memory_key_padding_mask=PADDING if masked else None,
    )
    assert_same(our_output, their_output, pairs, [(x, y), (src, memory)], tolerance)


@orders
def test_stack_without_a_last_norm(norm_first):
    """The paper's post-norm stack: `nn.TransformerEncoder` without its optional norm."""
    torch.manual_seed(2)
    pattern = nn.TransformerEncoderLayer(C, H, F, 0.0, norm_first=norm_first)
    theirs = nn.TransformerEncoder(pattern, 3, norm=None, enable_nested_tensor=False)
    ours = Encoder(layer(False, norm_first), 3, final_norm=False)
    pairs = list(stack_pairs(ours, theirs))
    copy_weights(ours, pairs)
    x, y = leaf_pair(T, B, C, dtype=torch.float32)
    our_output = ours(x, subsequent_mask(T))
    assert_same(our_output, theirs(y, mask=FUTURE), pairs, [(x, y)], 1e-5)


@precise
@orders
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_whole_transformer(norm_first, dtype, tolerance):
    torch.manual_seed(3)
    theirs = nn.Transformer(C, H, 2, 3, F, 0.0, norm_first=norm_first, dtype=dtype)
    ours = EncoderDecoder(
        Encoder(layer(False, norm_first), 2),
        Decoder(layer(True, norm_first), 3),
        nn.Embedding(SRC_VOCAB, C),
        nn.Embedding(TGT_VOCAB, C),
        Generator(TGT_VOCAB, C),
    ).to(dtype)
    their_embeddings = [nn.Embedding(n, C, dtype=dtype) for n in (SRC_VOCAB, TGT_VOCAB)]
    their_generator = nn.Linear(C, TGT_VOCAB, dtype=dtype)
    pairs = [
        *stack_pairs(ours.encoder, theirs.encoder),
        *stack_pairs(ours.decoder, theirs.decoder),
        (ours.src_embed.weight, their_embeddings[0].weight, slice(None)),
        (ours.tgt_embed.weight, their_embeddings[1].weight, slice(None)),
        *module_pairs(ours.generator.projection, their_generator),
    ]
    copy_weights(ours, pairs)

    src, tgt = torch.randint(SRC_VOCAB, (S, B)), torch.randint(TGT_VOCAB, (T, B))
    our_output = ours.logits(src, tgt, ~PADDING.T[None], subsequent_mask(T))
    their_output = theirs(
        their_embeddings[0](src),
        their_embeddings[1](tgt),
        tgt_mask=FUTURE,
        src_key_padding_mask=PADDING,
        memory_key_padding_mask=PADDING,
    )
    assert_same(our_output, their_generator(their_output), pairs, [], tolerance)
