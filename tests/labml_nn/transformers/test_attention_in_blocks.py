"""Attention in blocks: the same as the readable form, and with dropout the same both ways."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from labml_nn.transformers import attention_in_blocks as blocks
from labml_nn.transformers.attention_in_blocks import attention_in_blocks, is_for_blocks
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.scaled_dot_product import fused_attention
from labml_nn.transformers.utils import share_among_heads, subsequent_mask

B, H, T, S, K, D = 2, 3, 11, 13, 4, 5
P = 0.3

MASKS = {
    "none": None,
    "pairs": torch.ones(1, 1, T, S, dtype=torch.bool).tril(),
    "padding": (torch.arange(S) < torch.tensor([S, 3])[:, None])[:, None, None],
    "each text": torch.rand(B, 1, T, S, generator=torch.Generator().manual_seed(3)) < 0.6,
    "each head": torch.rand(1, H, T, S, generator=torch.Generator().manual_seed(4)) < 0.6,
}
for mask in MASKS.values():
    if mask is not None:
        mask[..., 0] = True  # nobody is blind


@pytest.fixture(autouse=True, params=[(4, 100), (4, 10**6), (64, 2**18), (5, 1)], ids=str)
def _sizes(request, monkeypatch):
    """Blocks of all kinds: ragged, of one head, of all heads of all texts."""
    queries, scores = request.param
    monkeypatch.setattr(blocks, "QUERIES", queries)
    monkeypatch.setattr(blocks, "SCORES", scores)


def vectors(length=S):
    generator = torch.Generator().manual_seed(0)
    shapes = ((B, H, T, K), (B, H, length, K), (B, H, length, D))
    return [
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in shapes
    ]


def both(attend, inputs):
    result = attend(*inputs)
    cotangent = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)
    return [result, *torch.autograd.grad(result, inputs, cotangent)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [None, 0.7])
def test_without_dropout_it_is_attention(mask, scale):
    visible = MASKS[mask]
    made = both(lambda *x: attention_in_blocks(*x, visible, scale=scale), vectors())
    expected = both(
        lambda *x: F.scaled_dot_product_attention(*x, attn_mask=visible, scale=scale), vectors()
    )
    torch.testing.assert_close(made, expected)


def test_nobody_looks_ahead():
    made = both(lambda *x: attention_in_blocks(*x, causal=True), vectors(T))
    expected = both(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), vectors(T))
    torch.testing.assert_close(made, expected)


def kept_weights(length, causal):
    """With values that are unit vectors, results are the weights that were used."""
    query, key, _ = vectors(length)
    unit = torch.eye(length, dtype=torch.float64).expand(B, H, length, length)
    return attention_in_blocks(query, key, unit, None, P, causal) != 0


@pytest.mark.parametrize("causal", [False, True])
def test_the_same_weights_are_dropped_both_ways(causal):
    length = T if causal else S
    torch.manual_seed(7)
    kept = kept_weights(length, causal)

    def by_hand(query, key, value):
        scores = query @ key.mT / K**0.5
        if causal:
            scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        return (scores.softmax(-1) * kept / (1 - P)) @ value

    torch.manual_seed(7)
    made = both(lambda *x: attention_in_blocks(*x, None, P, causal), vectors(length))
    torch.testing.assert_close(made, both(by_hand, vectors(length)))


def test_gradients():
    inputs = [x.detach()[:, :2, :6].clone().requires_grad_() for x in vectors()]

    def attend(*inputs):
        torch.manual_seed(5)
        return attention_in_blocks(*inputs, MASKS["each text"][:, :, :6, :6], P)

    assert torch.autograd.gradcheck(attend, inputs)


def test_a_seed_decides_and_no_two_calls_are_alike():
    results = []
    for seed in (1, 1, None):
        if seed is not None:
            torch.manual_seed(seed)
        results.append(attention_in_blocks(*vectors(), None, P))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_how_many_are_dropped():
    torch.manual_seed(0)
    share = torch.stack([kept_weights(S, False) for _ in range(100)]).double().mean()
    count = 100 * B * H * T * S
    assert abs(share - (1 - P)) < 4 * (P * (1 - P) / count) ** 0.5


def test_two_forwards_before_one_backward():
    torch.manual_seed(2)
    inputs = vectors()
    results = [attention_in_blocks(*inputs, None, P) for _ in range(2)]
    together = torch.autograd.grad(results[0].sum() + results[1].square().sum(), inputs)
    torch.manual_seed(2)
    first = torch.autograd.grad(attention_in_blocks(*inputs, None, P).sum(), inputs)
    second = torch.autograd.grad(attention_in_blocks(*inputs, None, P).square().sum(), inputs)
    torch.testing.assert_close(together, tuple(a + b for a, b in zip(first, second, strict=True)))


def test_nothing_as_large_as_all_pairs_is_kept(monkeypatch):
    monkeypatch.setattr(blocks, "FEW", 1)
    length, kept = 64, []
    module = MultiHeadAttention(H, 6, 0.1).train()
    x, mask = torch.randn(length, 1, 6, requires_grad=True), subsequent_mask(length)

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(query=x, key=x, value=x, mask=mask).sum().backward()
    assert max(kept) < length**2


def test_who_takes_it(monkeypatch):
    monkeypatch.setattr(blocks, "FEW", T * T)
    query = torch.zeros(B, H, T, K)
    assert is_for_blocks(query, query, 0.1)
    assert is_for_blocks(query.double(), query.double(), 0.1)
    for probability, x in itertools.product((0.0, 1.0), (query, query.double())):
        assert not is_for_blocks(x, x, probability)
    for other in (query[:, :, 1:], query.bfloat16(), query.to("meta")):
        assert not is_for_blocks(other, query, 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_for_blocks(query, query, 0.1)


@pytest.mark.parametrize("known", [True, False])
def test_fused_attention_takes_it(monkeypatch, known):
    """With blind queries, too, and with the mean of many draws where no dropout would be."""
    monkeypatch.setattr(blocks, "FEW", 1)
    mask = share_among_heads(subsequent_mask(T))
    if not known:
        mask = mask.clone()
        mask[3] = False
    query, key, value = (x.detach().permute(2, 0, 1, 3) for x in vectors(T))
    expected = fused_attention(query, key, value, mask)
    torch.manual_seed(0)
    mean = sum(fused_attention(query, key, value, mask, dropout_prob=P) for _ in range(300)) / 300
    assert bool((mean[3] == 0).all()) is not known
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.25)
