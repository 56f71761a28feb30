"""What holds for stacks of layers, whatever the rows: causality, padding, batches, order of keys.

Each stack is a function of rows and of a mask of real positions, both orders of normalisation.
"""

from functools import cache

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from labml_nn.transformers import Decoder, Encoder, MultiHeadAttention, TransformerLayer
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.utils import combine_masks, subsequent_mask

C, H, F, L, S = 12, 3, 28, 2, 7
FEW = settings(deadline=None, max_examples=12)
lengths = st.integers(2, 8)
seeds = st.integers(0, 999)


def randomised(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.double()


def layer(norm_first: bool, decoder: bool = False) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(H, C, 0.0),
        src_attn=MultiHeadAttention(H, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
        norm_first=norm_first,
    )


def feedback_layer(shared: bool) -> FeedbackTransformerLayer:
    return FeedbackTransformerLayer(
        d_model=C,
        attn=FeedbackAttention(H, C, 0.0, is_kv_precomputed=shared, max_distance=5),
        feed_forward=FeedForward(C, F, 0.0),
        dropout_prob=0.0,
    )


def memory(batch: int) -> Tensor:
    """What a decoder reads: something else for every sequence, the same at each call."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, S, C, generator=generator, dtype=torch.float64)[:batch].transpose(0, 1)


def causal(x: Tensor, real: Tensor | None) -> Tensor | None:
    return combine_masks(subsequent_mask(len(x)), None if real is None else real[None])


def build(name: str) -> nn.Module:
    norm_first = "post" not in name
    if name.startswith("encoder"):
        return Encoder(layer(norm_first), L, final_norm=norm_first)
    if name.startswith("decoder"):
        return Decoder(layer(norm_first, decoder=True), L, final_norm=norm_first)
    if "own" in name:
        return FeedbackTransformer(feedback_layer(shared=False), L)
    return FeedbackTransformerKV(feedback_layer(shared=True), L, C, H)


@cache
def stack(name: str) -> nn.Module:
    return randomised(build(name))


def read(name: str, x: Tensor, real: Tensor | None = None, order: list[int] | None = None):
    """Run a stack over `x` so that no position sees the future, or what is not `real`."""
    module = stack(name)
    if name.startswith("encoder"):
        return module(x, causal(x, real))
    if name.startswith("decoder"):
        source = memory(4)[:, order or range(x.shape[1])]
        return module(x, source, None, causal(x, real))
    return module.scan(x, real=real)[0]


NAMES = [
    "encoder, pre-norm",
    "encoder, post-norm",
    "decoder, pre-norm",
    "decoder, post-norm",
    "feedback, own maps",
    "feedback, shared maps",
]
every = pytest.mark.parametrize("name", NAMES)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-9)


@every
@FEW
@given(T=lengths, seed=seeds, data=st.data())
def test_no_position_sees_the_future(name, T, seed, data):
    torch.manual_seed(seed)
    t = data.draw(st.integers(1, T - 1))
    x = random(T, 2, C)
    other = torch.cat([x[:t], random(T - t, 2, C)])
    before, after = read(name, x), read(name, other)
    assert close(before[:t], after[:t])
    assert not close(before[t], after[t])
    # Who reads the beginning alone gets the same.
    assert close(read(name, x[:t]), before[:t])


@every
@FEW
@given(T=lengths, seed=seeds)
def test_gradients_do_not_come_from_the_future(name, T, seed):
    torch.manual_seed(seed)
    x = random(T, 1, C).requires_grad_()
    rows = read(name, x)
    for t in range(T):
        (gradient,) = torch.autograd.grad(rows[t].sin().sum(), x, retain_graph=True)
        assert torch.equal(gradient[t + 1 :], torch.zeros_like(gradient[t + 1 :]))
        assert (gradient[: t + 1].abs().amax((1, 2)) > 0).all()


@every
@FEW
@given(T=lengths, seed=seeds, order=st.permutations(range(4)))
def test_order_of_the_batch_does_not_matter(name, T, seed, order):
    torch.manual_seed(seed)
    x = random(T, 4, C)
    assert close(read(name, x[:, order], order=order), read(name, x)[:, order])


@every
@FEW
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), first=st.booleans(), seed=seeds)
def test_padding_has_no_influence(name, sizes, first, seed):
    """Before a sequence or behind it: it comes out as if it were alone."""
    torch.manual_seed(seed)
    T = max(sizes) + 1
    x, real = random(T, len(sizes), C), torch.zeros(T, len(sizes), dtype=torch.bool)
    places = [slice(T - n, T) if first else slice(n) for n in sizes]
    for b, place in enumerate(places):
        real[place, b] = True
    together = read(name, x, real)
    assert together.isfinite().all()
    for b, place in enumerate(places):
        assert close(together[place, [b]], read(name, x[place, [b]], order=[b]))


@pytest.mark.parametrize("norm_first", [True, False])
@FEW
@given(T=lengths, seed=seeds, data=st.data())
def test_without_positions_an_encoder_sees_a_set(norm_first, T, seed, data):
    """Its result is in the new order; with a mask for the future it is another one."""
    torch.manual_seed(seed)
    module = stack(f"encoder, {'pre' if norm_first else 'post'}-norm")
    order = data.draw(st.permutations(range(T)))
    x = random(T, 2, C)
    assert close(module(x[order], None), module(x, None)[order])
    masked = close(module(x[order], subsequent_mask(T)), module(x, subsequent_mask(T))[order])
    assert masked == (list(order) == sorted(order))


@pytest.mark.parametrize("norm_first", [True, False])
@FEW
@given(T=lengths, seed=seeds, order=st.permutations(range(S)))
def test_a_decoder_sees_the_source_as_a_set(norm_first, T, seed, order):
    """Rows of the source and their mask, moved together, change nothing."""
    torch.manual_seed(seed)
    module = stack(f"decoder, {'pre' if norm_first else 'post'}-norm")
    x, source = random(T, 2, C), memory(2)
    real = torch.arange(S)[None, :, None] < torch.tensor([7, 4])
    moved = module(x, source[order], real[:, order], subsequent_mask(T))
    assert close(moved, module(x, source, real, subsequent_mask(T)))
