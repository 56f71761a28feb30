"""Attention alone, in three forms: equal to each other, by hand, masked, dropped, and refused."""

import math

import pytest
import torch

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.scaled_dot_product import (
    attention_weights,
    dot_products,
    einsum_attention,
    fused_attention,
    matmul_attention,
    weighted_mean,
)
from labml_nn.transformers.utils import padding_mask

T, S, B, H, K, D = 5, 7, 2, 3, 4, 6

FORMS = {"einsum": einsum_attention, "matmul": matmul_attention, "fused": fused_attention}
EACH = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)

with_blind = torch.ones(T, S, B, H, dtype=torch.bool).tril(-1)
with_blind[2, :, 1, 0] = False
with_blind[3, 4:, 0] = True
MASKS = {
    "none": None,
    "pairs": torch.ones(T, S, dtype=torch.bool).tril()[:, :, None, None],
    "padding": padding_mask(torch.tensor([S, 3]))[..., None],
    "blind sequences": padding_mask(torch.tensor([0, 3]), S)[..., None],
    "blind queries, each head its own": with_blind,
}


def vectors(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = ((T, B, H, K), (S, B, H, K), (S, B, H, D))
    return [
        torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in shapes
    ]


def result_and_gradients(form, dtype, mask, **options):
    inputs = vectors(dtype)
    result = form(*inputs, mask, **options)
    assert result.shape == (T, B, H, D)
    assert result.dtype == dtype
    cotangent = torch.linspace(-1, 1, result.numel(), dtype=dtype).view(result.shape)
    return [result.detach(), *torch.autograd.grad(result, inputs, cotangent)]


@pytest.mark.parametrize(("dtype", "exact"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("mask", MASKS)
def test_three_forms_are_one_function(mask, scale, dtype, exact):
    """Outputs and the gradients of queries, keys and values."""
    results = [
        result_and_gradients(form, dtype, MASKS[mask], scale=scale) for form in FORMS.values()
    ]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=exact)


@EACH
def test_every_sequence_and_head_by_itself(form):
    """Eq. 1 with matrices of two axes."""
    query, key, value = vectors()
    expected = torch.empty(T, B, H, D, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            scores = query[:, b, h] @ key[:, b, h].T / math.sqrt(K)
            expected[:, b, h] = (scores.exp() / scores.exp().sum(1, keepdim=True)) @ value[:, b, h]
    torch.testing.assert_close(form(query, key, value), expected, rtol=0, atol=1e-10)


@EACH
def test_one_query_by_hand(form):
    # Scores 0 and ln 3 after division by the square root of 4: weights 1/4 and 3/4.
    query = torch.tensor([2.0, 0, 0, 0]).view(1, 1, 1, 4)
    key = torch.tensor([[0.0, 5, 0, 0], [math.log(3), 0, 1, 0]]).view(2, 1, 1, 4)
    value = torch.tensor([[4.0], [8.0]]).view(2, 1, 1, 1)
    assert form(query, key, value).item() == pytest.approx(7)


@EACH
def test_who_sees_nothing_gets_zero_and_sends_no_gradient(form):
    query, key, value = vectors()
    mask = torch.ones(T, S, B, 1, dtype=torch.bool)
    mask[2, :, 1] = False
    result = form(query, key, value, mask)
    assert (result[2, 1] == 0).all()
    assert (result.flatten(2).abs().sum(2) == 0).sum() == 1
    result.sum().backward()
    assert (query.grad[2, 1] == 0).all()
    assert (query.grad[2, 0] != 0).all()
    assert all(x.grad.isfinite().all() for x in (query, key, value))


@EACH
def test_dropout_takes_whole_keys_and_scales_the_rest(form):
    # Values that are unit vectors show the weights as they were used; equal keys make them equal.
    torch.manual_seed(0)
    keys, value = torch.zeros(64, B, 1, K), torch.eye(64)[:, None, None].expand(-1, B, 1, -1)
    used = form(torch.randn(T, B, 1, K), keys, value, dropout_prob=0.5)
    torch.testing.assert_close(used.unique(), torch.tensor([0.0, 2 / 64]))
    assert 0.4 < (used == 0).float().mean() < 0.6


@EACH
def test_the_mean_over_many_draws_is_that_without_dropout(form):
    torch.manual_seed(0)
    query, key, value = (x.detach() for x in vectors())
    mean = torch.stack([form(query, key, value, dropout_prob=0.2) for _ in range(2000)]).mean(0)
    torch.testing.assert_close(mean, form(query, key, value), rtol=0, atol=0.06)


def test_leaf_pieces():
    query, key, value = vectors()
    scores = dot_products(query, key)
    assert scores[1, 2, 0, 1].item() == pytest.approx((query[1, 0, 1] @ key[2, 0, 1]).item())
    mask = MASKS["blind queries, each head its own"]
    weights = attention_weights(scores, mask)
    torch.testing.assert_close(weights.sum(1), mask.any(1).double())
    assert (weights[~mask] == 0).all()
    last = attention_weights(scores.movedim(1, -1), mask.movedim(1, -1), axis=-1)
    torch.testing.assert_close(last.movedim(-1, 1), weights)
    alone = attention_weights(scores, mask, softmax=lambda scores: torch.sigmoid(scores))
    torch.testing.assert_close(alone, torch.where(mask, scores.sigmoid(), 0.0))
    assert weighted_mean(weights, value).shape == (T, B, H, D)


@pytest.mark.parametrize("store_attn", [False, True], ids=["fast", "readable"])
def test_multi_head_attention_is_projections_around_it(store_attn):
    torch.manual_seed(0)
    module = MultiHeadAttention(H, 12, 0.0, store_attn=store_attn, d_k=K, d_v=D).double()
    x, y = torch.randn(T, B, 12).double(), torch.randn(S, B, 12).double()
    mask = MASKS["padding"]
    heads = einsum_attention(module.query(x), module.key(y), module.value(y), mask)
    expected = module.output(heads.flatten(2))
    torch.testing.assert_close(module(query=x, key=y, value=y, mask=mask[..., 0]), expected)


@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(form, dtype):
    mask = MASKS["blind queries, each head its own"]
    query, key, value = (x.detach() for x in vectors(torch.float32))
    expected = form(query, key, value, mask)
    result = form(query.to(dtype), key.to(dtype), value.to(dtype), mask)
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.03)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # Keys that were projected under autocast are narrower than what is not projected.
        result = form(query, key.bfloat16(), value.bfloat16(), mask)
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("name", ["einsum_attention", "matmul_attention", "fused_attention"])
def test_compiles_and_exports(unhooked, name):
    form = getattr(unhooked("labml_nn.transformers.scaled_dot_product"), name)
    inputs, mask = vectors(), MASKS["padding"]
    expected = form(*inputs, mask)
    compiled = torch.compile(form, fullgraph=True, backend="aot_eager")
    result = compiled(*inputs, mask)
    torch.testing.assert_close(result, expected)
    gradients = torch.autograd.grad(result.square().sum(), inputs)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.square().sum(), inputs))

    class Module(torch.nn.Module):
        def forward(self, query, key, value, mask):
            return form(query, key, value, mask)

    exported = torch.export.export(Module(), (*inputs, mask)).module()
    torch.testing.assert_close(exported(*inputs, mask), expected)


REFUSED = {
    "three axes": (
        {"query": torch.zeros(T, B, K)},
        ValueError,
        r"`query` has shape \[5, 2, 4\]; expected \[T, B, H, K\]",
    ),
    "no position": (
        {"query": torch.zeros(0, B, H, K)},
        ValueError,
        r"`query` has shape \[0, 2, 3, 4\]; .* with at least one position",
    ),
    "keys without values": (
        {"key": torch.zeros(4, B, H, K)},
        ValueError,
        "`key` has 4 positions and `value` 7; expected the same number",
    ),
    "batches": (
        {"query": torch.zeros(T, 1, H, K)},
        ValueError,
        r"batches of 1, 2 and 2; expected the same: use \.expand\(-1, B, \.\.\.\)",
    ),
    "heads": (
        {"key": torch.zeros(S, B, 1, K)},
        ValueError,
        r"have 3, 1 and 3 heads; expected the same number: use \.expand\(-1, -1, H, -1\)",
    ),
    "widths": (
        {"key": torch.zeros(S, B, H, 5)},
        ValueError,
        r"`query` has 4 features per head and `key` 5; expected the same number, d_k",
    ),
    "dtypes": (
        {"value": torch.zeros(S, B, H, D, dtype=torch.float64)},
        TypeError,
        r"dtypes torch\.float32, torch\.float32 and torch\.float64; .* \.to\(torch\.float32\)",
    ),
    "no heads in the mask": (
        {"mask": torch.ones(T, S, B, dtype=torch.bool)},
        ValueError,
        r"`mask` has shape \[5, 7, 2\]; expected \[T or 1, S, B or 1, H or 1\] with T = 5, S = 7, "
        r"B = 2, H = 3\. A mask \[T, S, B\] lacks the heads: add them with mask\[\.\.\., None\]",
    ),
    "keys of a mask stretched": (
        {"mask": torch.ones(T, 1, B, 1, dtype=torch.bool)},
        ValueError,
        r"`mask` has shape \[5, 1, 2, 1\]",
    ),
    "mask of another batch": (
        {"mask": torch.ones(T, S, 4, 1, dtype=torch.bool)},
        ValueError,
        r"`mask` has shape \[5, 7, 4, 1\]",
    ),
    "mask of numbers": (
        {"mask": torch.zeros(T, S, 1, 1)},
        TypeError,
        r"`mask` has dtype torch\.float32; expected torch\.bool with True = may attend",
    ),
    "probability": (
        {"dropout_prob": 1.5},
        ValueError,
        r"`dropout_prob` \(1\.5\) must be from 0 to 1",
    ),
}


@pytest.mark.parametrize("name", ["einsum_attention", "matmul_attention", "fused_attention"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(unhooked, name, case):
    form = getattr(unhooked("labml_nn.transformers.scaled_dot_product"), name)
    changes, error, message = REFUSED[case]
    query, key, value = (x.detach() for x in vectors(torch.float32))
    with pytest.raises(error, match=message):
        form(**{"query": query, "key": key, "value": value, **changes})
