"""Attention in two halves: keys and values that are kept, queries that come; widths of heads."""

import copy
import math

import pytest
import torch

from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
from labml_nn.transformers.utils import padding_mask, subsequent_mask

T, S, B, C, H, K, D = 5, 7, 2, 12, 3, 8, 6

#: Both forms must do all of this.
BOTH = pytest.mark.parametrize("store_attn", [False, True], ids=["fast", "readable"])


@pytest.fixture
def vectors():
    torch.manual_seed(0)
    shapes = {"query": (T, B, C), "key": (S, B, C), "value": (S, B, C)}
    return {
        name: torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for name, shape in shapes.items()
    }


def attention(**options):
    torch.manual_seed(1)
    return MultiHeadAttention(H, C, dropout_prob=0.0, **options).double()


def by_hand(module, query, key, value, mask, d_k, d_v):
    """One head at a time, one sequence at a time, with matrices of two axes."""
    maps = (module.query.linear, module.key.linear, module.value.linear)
    result = torch.empty(*query.shape[:2], H * d_v, dtype=query.dtype)
    for b in range(B):
        visible = mask.expand(T, S, B)[:, :, b]
        q, k, v = (
            x[:, b] @ linear.weight.T + linear.bias
            for x, linear in zip((query, key, value), maps, strict=True)
        )
        for h in range(H):
            ours = slice(h * d_k, (h + 1) * d_k)
            scores = q[:, ours] @ k[:, ours].T / math.sqrt(d_k)
            weights = (scores.exp() * visible) / (scores.exp() * visible).sum(1, keepdim=True)
            result[:, b, h * d_v : (h + 1) * d_v] = weights @ v[:, h * d_v : (h + 1) * d_v]
    return result @ module.output.weight.T + module.output.bias


@BOTH
@pytest.mark.parametrize(("d_k", "d_v"), [(K, D), (K, None), (None, D), (1, 5), (None, None)])
def test_widths_of_heads_against_a_loop_over_heads(vectors, store_attn, d_k, d_v):
    module = attention(store_attn=store_attn, d_k=d_k, d_v=d_v)
    mask = padding_mask(torch.tensor([S, 4]))
    d_k, d_v = d_k or C // H, d_v or C // H
    assert (module.d_k, module.d_v) == (d_k, d_v)
    assert module.scale == 1 / math.sqrt(d_k)
    everything = [*vectors.values(), *module.parameters()]

    result = module(**vectors, mask=mask)
    expected = by_hand(module, **vectors, mask=mask, d_k=d_k, d_v=d_v)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-10)
    cotangent = torch.randn_like(result)
    gradients = torch.autograd.grad(result, everything, cotangent)
    expected = torch.autograd.grad(expected, everything, cotangent)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-10)


def test_shapes_of_parameters_with_widths_of_their_own():
    shapes = {
        name: tuple(parameter.shape)
        for name, parameter in attention(d_k=K, d_v=D).named_parameters()
    }
    assert shapes == {
        "query.linear.weight": (H * K, C),
        "query.linear.bias": (H * K,),
        "key.linear.weight": (H * K, C),
        "key.linear.bias": (H * K,),
        "value.linear.weight": (H * D, C),
        "value.linear.bias": (H * D,),
        "output.weight": (C, H * D),
        "output.bias": (C,),
    }


def test_widths_of_their_own_need_not_divide_the_model():
    module = MultiHeadAttention(heads=5, d_model=C, d_k=4, d_v=3)
    x = torch.randn(T, B, C)
    assert module(query=x, key=x, value=x).shape == (T, B, C)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"d_k": 4}, ValueError, r"`d_model` \(12\) must be divisible by `heads` \(5\)"),
        ({"d_v": 4}, ValueError, r"`d_model` \(12\) must be divisible by `heads` \(5\)"),
        ({"d_k": 0, "d_v": 4}, ValueError, r"`d_k` \(0\) must be at least 1"),
        ({"d_k": 4, "d_v": -1}, ValueError, r"`d_v` \(-1\) must be at least 1"),
        ({"d_k": 4, "d_v": 2.0}, TypeError, r"`d_v` \(2\.0\) must be a whole number"),
    ],
)
def test_impossible_widths(unhooked, options, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.mha").MultiHeadAttention(5, C, **options)


@BOTH
def test_two_halves_are_the_whole(vectors, store_attn):
    module = attention(store_attn=store_attn, d_k=K, d_v=D)
    mask = torch.rand(T, S, B) < 0.5
    query, key, value = vectors.values()
    past = module.project(key=key, value=value)
    assert past.keys.shape == (S, B, H, K)
    assert past.values.shape == (S, B, H, D)
    halves = module.attend_to(query=query, past=past, mask=mask)
    torch.testing.assert_close(halves, module(**vectors, mask=mask), rtol=0, atol=0)


@BOTH
def test_what_was_kept_can_be_asked_many_times_and_grow(vectors, store_attn):
    """One position at a time, each with a row more of keys and values, is the causal whole."""
    module, x = attention(store_attn=store_attn, d_k=K, d_v=D), vectors["key"]
    whole = module(query=x, key=x, value=x, mask=subsequent_mask(S))
    first = past = module.project(key=x[:1], value=x[:1])
    rows = []
    for t in range(S):
        if t:
            row = module.project(key=x[t : t + 1], value=x[t : t + 1])
            past = KeysValues(*(torch.cat(pair) for pair in zip(past, row, strict=True)))
        rows.append(module.attend_to(query=x[t : t + 1], past=past))
    torch.testing.assert_close(torch.cat(rows), whole, rtol=0, atol=1e-10)
    again = module.attend_to(query=x[:1], past=first)
    torch.testing.assert_close(again, whole[:1], rtol=0, atol=1e-10)


@BOTH
def test_gradients_reach_what_was_kept(vectors, store_attn):
    module = attention(store_attn=store_attn)
    query, key, value = vectors.values()
    whole = torch.autograd.grad(module(**vectors).square().sum(), (key, value))
    past = module.project(key=key, value=value)
    halves = sum(
        module.attend_to(query=query[t : t + 1], past=past).square().sum() for t in range(T)
    )
    torch.testing.assert_close(torch.autograd.grad(halves, (key, value)), whole)


def test_overridden_parts_are_used_in_both_halves(vectors):
    class Own(MultiHeadAttention):
        def project(self, *, key, value):
            past = super().project(key=key, value=value)
            return past._replace(values=past.values + 1)

        def get_scores(self, query, key):
            return super().get_scores(query, key) * 0

    torch.manual_seed(1)
    module = Own(H, C, dropout_prob=0.0).double()
    result = module(**vectors)
    mean = (module.value.linear(vectors["value"]) + 1).mean(dim=0)
    torch.testing.assert_close(result, module.output(mean).expand(T, B, C))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda past: past._replace(keys=past.keys.flatten(2)),
            ValueError,
            r"`key` has shape \[7, 2, 24\]; expected \[S, B, H, K\]",
        ),
        (
            lambda past: past._replace(keys=past.keys[:4]),
            ValueError,
            "`key` has 4 positions and `value` 7; expected the same number",
        ),
        (
            lambda past: type(past)(*(x[:, :1] for x in past)),
            ValueError,
            r"have batches of 2, 1 and 1; expected the same",
        ),
        (
            lambda past: type(past)(*(x[:0] for x in past)),
            ValueError,
            r"`key` has shape \[0, 2, 3, 8\]; .* at least one position",
        ),
        (
            lambda past: past._replace(values=past.values[:, :, :2]),
            ValueError,
            r"have 3, 3 and 2 heads",
        ),
        (
            lambda past: past._replace(keys=past.keys[..., :5]),
            ValueError,
            r"`query` has 8 features per head and `key` 5",
        ),
        (
            lambda past: past._replace(values=past.values[..., :5]),
            ValueError,
            r"`past\.values` has shape \[7, 2, 3, 5\]; expected d_v = 6 features",
        ),
        (
            lambda past: type(past)(*(x.double() for x in past)),
            TypeError,
            r"dtypes torch\.float32, torch\.float64 and torch\.float64",
        ),
    ],
)
def test_a_past_that_does_not_fit(unhooked, change, error, message):
    module = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C, d_k=K, d_v=D)
    x = torch.randn(S, B, C)
    past = module.project(key=x, value=x)
    with pytest.raises(error, match=message):
        module.attend_to(query=x[:T], past=change(past))


def test_a_mask_is_read_against_the_past(unhooked):
    module = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C)
    x = torch.randn(S, B, C)
    past = module.project(key=x, value=x)
    with pytest.raises(ValueError, match=r"expected \[T or 1, S, B or 1\] with T = 1, S = 7"):
        module.attend_to(query=x[:1], past=past, mask=subsequent_mask(T))


def test_keys_kept_under_autocast():
    module, x = MultiHeadAttention(H, C, dropout_prob=0.0), torch.randn(S, B, C)
    expected = module(query=x[:T], key=x, value=x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        past = module.project(key=x, value=x)
        result = module.attend_to(query=x[:T], past=past)
    assert past.keys.dtype == result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.02)


@BOTH
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_halves_compile_into_one_graph(unhooked, store_attn, backend):
    mha = unhooked("labml_nn.transformers.mha")
    module = mha.MultiHeadAttention(
        H, C, dropout_prob=0.0, store_attn=store_attn, d_k=K, d_v=D
    ).eval()
    x = torch.randn(S, B, C)

    def step(x, past, mask):
        row = module.project(key=x, value=x)
        past = mha.KeysValues(*(torch.cat(pair) for pair in zip(past, row, strict=True)))
        return module.attend_to(query=x, past=past, mask=mask), past

    mask = torch.ones(1, 5, 1, dtype=torch.bool)
    with torch.no_grad():
        past = module.project(key=x[:4], value=x[:4])
        expected = step(x[4:5], past, mask)
        result = torch.compile(step, fullgraph=True, backend=backend)(x[4:5], past, mask)
    torch.testing.assert_close(result, expected)
    assert isinstance(result[1], mha.KeysValues)


def test_export(unhooked):
    mha = unhooked("labml_nn.transformers.mha")
    module = mha.MultiHeadAttention(H, C, d_k=K, d_v=D).eval()
    x = torch.randn(T, B, C)
    mask = subsequent_mask(T)
    exported = torch.export.export(
        module, (), {"query": x, "key": x, "value": x, "mask": mask}
    ).module()
    torch.testing.assert_close(
        exported(query=x, key=x, value=x, mask=mask), module(query=x, key=x, value=x, mask=mask)
    )


def test_copies_keep_the_widths():
    module = copy.deepcopy(MultiHeadAttention(H, C, d_k=K, d_v=D))
    assert (module.d_k, module.d_v, module.scale) == (K, D, 1 / math.sqrt(K))
