"""Multi-head attention: values by hand, PyTorch's module, masks, dropout, errors."""

import contextlib
import gc
import math
from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from labml_nn import kernels
from labml_nn.kernels.attention import is_causal
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

T, S, B, C, H = 5, 7, 2, 12, 3
MODULE = "labml_nn.transformers.mha"


@pytest.fixture(params=["kernels", "reference"], autouse=True)
def implementation(request):
    """Every test of this file runs with kernels and without."""
    with contextlib.nullcontext() if request.param == "kernels" else kernels.disabled():
        yield request.param


@pytest.fixture
def vectors():
    torch.manual_seed(0)
    shapes = {"query": (T, B, C), "key": (S, B, C), "value": (S, B, C)}
    return {name: torch.randn(shape, requires_grad=True) for name, shape in shapes.items()}


def identity(heads, d_model):
    """Attention whose four projections change nothing."""
    attention = MultiHeadAttention(heads, d_model, dropout_prob=0.0)
    linears = (attention.query.linear, attention.key.linear, attention.value.linear)
    for linear in (*linears, attention.output):
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return attention


def column(*rows):
    """A sequence of vectors, `[S, 1, C]`."""
    return torch.tensor(rows, dtype=torch.float).unsqueeze(1)


def lower_triangle():
    return torch.ones(T, S, dtype=torch.bool).tril()[:, :, None]


def recorded(attention, **inputs):
    """The attention weights of a call."""
    with kernels.disabled():
        attention(**inputs)
    return attention.attn


def test_two_heads_by_hand():
    # Head 0 has weights 1/4 and 3/4 of the first feature, head 1 4/5 and 1/5 of the second.
    result = identity(2, 2)(
        query=column([1, 1]),
        key=column([0, math.log(4)], [math.log(3), 0]),
        value=column([4, 10], [8, 20]),
    )
    torch.testing.assert_close(result, column([7, 12]))


# PyTorch's module.
MASKS = {
    "none": (None, {}),
    "padding": (
        torch.arange(S)[None, :, None] < torch.tensor([S, 3]),
        {"key_padding_mask": torch.arange(S) >= torch.tensor([[S], [3]])},
    ),
    "every pair": (lower_triangle(), {"attn_mask": ~lower_triangle()[:, :, 0]}),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", MASKS)
def test_equals_pytorch(vectors, mask, bias):
    """Outputs, weights and gradients with copied parameters."""
    theirs = nn.MultiheadAttention(C, H, bias=bias)
    ours = MultiHeadAttention(H, C, dropout_prob=0.0, bias=bias)
    linears = (ours.query.linear, ours.key.linear, ours.value.linear)
    with torch.no_grad():
        for linear, weight in zip(linears, theirs.in_proj_weight.chunk(3), strict=True):
            linear.weight.copy_(weight)
        for linear in linears if bias else ():
            linear.bias.uniform_(-1, 1)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in linears]))
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    inputs = list(vectors.values())
    our_mask, their_mask = MASKS[mask]
    expected, weights = theirs(*inputs, average_attn_weights=False, **their_mask)
    result = ours(**vectors, mask=our_mask)
    torch.testing.assert_close(result, expected)
    shown = recorded(ours, **vectors, mask=our_mask)
    torch.testing.assert_close(shown.permute(2, 3, 0, 1), weights)
    cotangent = torch.randn_like(result)
    grads = [torch.autograd.grad(each, inputs, cotangent) for each in (result, expected)]
    torch.testing.assert_close(*grads)


# Masks.
@pytest.mark.parametrize("per_sequence", [False, True])
def test_a_fully_masked_query(vectors, per_sequence):
    """Zeros from the heads, so that the output bias remains; finite numbers in every gradient."""
    attention = MultiHeadAttention(H, C, dropout_prob=0.0)
    mask = torch.ones(T, S, B if per_sequence else 1, dtype=torch.bool)
    mask[2, :, -1] = False
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        result = attention(**vectors, mask=mask)
        result.sum().backward()
    rows = (~mask.any(dim=1)).expand(T, B)
    expected = attention.output.bias.expand_as(result)
    torch.testing.assert_close(result[rows], expected[rows])
    assert not torch.isclose(result[~rows], expected[~rows]).all(dim=-1).any()
    assert torch.equal((vectors["query"].grad != 0).any(dim=-1), ~rows)
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())
    sums = recorded(attention, **vectors, mask=mask).sum(dim=1)
    torch.testing.assert_close(sums, (~rows).float()[:, :, None].expand(T, B, H))
    without = MultiHeadAttention(H, C, output_bias=False).eval()
    assert (without(**vectors, mask=mask)[rows] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masked_keys_get_nothing_in_any_precision(dtype):
    """Also where the visible scores are far below those of masked keys."""
    attention = identity(1, 2).to(dtype)
    result = attention(
        query=column([100, 0]).to(dtype),
        key=column([-100, 0], [100, 0]).to(dtype),
        value=column([3, 4], [500, 600]).to(dtype),
        mask=torch.tensor([True, False])[None, :, None],
    )
    torch.testing.assert_close(result, column([3, 4]).to(dtype))


def test_integer_masks_of_older_code(unhooked, vectors):
    attention = unhooked(MODULE).MultiHeadAttention(H, C).eval()
    expected = attention(**vectors, mask=lower_triangle())
    for dtype in (torch.uint8, torch.int64):
        result = attention(**vectors, mask=lower_triangle().to(dtype))
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.ones(T, S).bool(), ValueError, r"\[5, 7\]; .* B = 2, .* mask\[:, :, None\]"),
        (torch.ones(S, B).bool(), ValueError, r"\[7, 2\]; .* mask\[None\]"),
        (torch.ones(B, S).bool(), ValueError, r"\[2, 7\]; .* mask\.T\[None\]"),
        (torch.ones(B, T, S).bool(), ValueError, r"\[2, 5, 7\]; .* mask\.permute\(1, 2, 0\)"),
        (torch.ones(B, H, T, S).bool(), ValueError, r"mask\.permute\(2, 3, 0, 1\)"),
        (torch.ones(T, S, B, 2).bool(), ValueError, r"\[5, 7, 2, 2\].* H = 3$"),
        ([[True]], TypeError, r"`mask` is a list; .* torch\.tensor\(mask\)"),
        (torch.ones(S, T, 1).bool(), ValueError, r"\[7, 5, 1\]"),
        (torch.ones(T, 1, 1).bool(), ValueError, r"\[5, 1, 1\]"),
        (torch.ones(T, S, 3).bool(), ValueError, r"\[5, 7, 3\]"),
        (torch.zeros(T, S, 1), TypeError, r"torch\.float32; .* mask == 0 converts"),
    ],
)
def test_masks_that_do_not_fit(unhooked, vectors, mask, error, message):
    attention = unhooked(MODULE).MultiHeadAttention(H, C)
    with pytest.raises(error, match=message):
        attention(**vectors, mask=mask)


def test_a_mask_for_each_head(vectors):
    """Each head sees what it would see if its mask were that of all heads."""
    attention = MultiHeadAttention(H, C).eval()
    mask = torch.rand(T, S, B, H) < 0.5
    mask[1, :, 0, 2] = False
    weights = recorded(attention, **vectors, mask=mask)
    for head in range(H):
        expected = recorded(attention, **vectors, mask=mask[..., head])
        torch.testing.assert_close(weights[..., head], expected[..., head])
    shared = attention(**vectors, mask=lower_triangle())
    for same in (lower_triangle()[..., None], lower_triangle()[..., None].expand(T, S, B, H)):
        torch.testing.assert_close(attention(**vectors, mask=same), shared)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"query": torch.randn(T, C)}, r"`query` has shape \[5, 12\]; .*query\[:, None\]"),
        ({"value": torch.randn(S - 1, B, C)}, r"`key` has 7 positions and `value` 6"),
        ({"value": torch.randn(1, B, C)}, r"`key` has 7 positions and `value` 1"),
        (
            {"key": torch.randn(S, B, 1, C)},
            r"`key` has shape \[7, 2, 1, 12\]; expected \[T, B, C\]$",
        ),
    ],
)
def test_inputs_that_do_not_fit(unhooked, vectors, inputs, message):
    """The same error with kernels and without; one value would be broadcast to all keys."""
    attention = unhooked(MODULE).MultiHeadAttention(H, C)
    with pytest.raises(ValueError, match=message):
        attention(**vectors | inputs)
    with unhooked("labml_nn.kernels").disabled(), pytest.raises(ValueError, match=message):
        attention(**vectors | inputs)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 80), st.integers(0, 2**31), st.integers(0, 80), st.integers(0, 80))
def test_only_a_lower_triangle_is_causal(length, seed, row, key):
    mask = subsequent_mask(length)
    assert is_causal(mask, length, length)
    assert is_causal(torch.ones(90, 90).tril().bool()[:length, :length, None], length, length)
    shifted = torch.zeros(1 + mask.numel(), dtype=torch.bool)[1:].view(mask.shape)
    assert is_causal(shifted.copy_(mask), length, length)
    mask = mask.clone()
    mask[row % length, key % length] ^= True
    assert not is_causal(mask, length, length)
    assert not is_causal(subsequent_mask(length + 1)[:length], length, length + 1)


def of_numpy():
    return torch.from_numpy(subsequent_mask(9).numpy())


def of_inference():
    with torch.inference_mode():
        return subsequent_mask(9)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (partial(subsequent_mask, 9), lambda mask: mask[0, 3].fill_(True)),
        # PyTorch does not count these changes.
        (partial(subsequent_mask, 9), lambda mask: mask.data[1, 4].fill_(True)),
        (partial(subsequent_mask, 9), lambda mask: mask.numpy().__setitem__((1, 4), True)),
        (of_numpy, lambda mask: mask.numpy().__setitem__((0, 3), True)),
        (of_inference, torch.inference_mode()(lambda mask: mask[0, 3].fill_(True))),
        (partial(subsequent_mask, 9), lambda mask: mask.resize_(8, 9, 1)),
    ],
)
def test_a_causal_mask_that_changes(make, change):
    mask = make()
    assert is_causal(mask, 9, 9) and is_causal(mask, 9, 9)
    change(mask)
    assert not is_causal(mask, len(mask), 9)


# Dropout.
@pytest.mark.parametrize("length", [64, 600])
def test_dropout_removes_weights_and_scales_the_rest(length):
    """Long sequences go through blocks where there are kernels."""
    attention = MultiHeadAttention(1, 64, dropout_prob=0.25)
    # Values that are unit vectors show the weights as they were used; equal keys make them equal.
    query, key = torch.randn(length, B, 1, 64), torch.zeros(64, B, 1, 64)
    value = torch.eye(64)[:, None, None].expand(-1, B, 1, -1)
    used = attention.attend(query, key, value)
    torch.testing.assert_close(used.unique(), torch.tensor([0.0, 1 / 48]))
    assert 0.2 < (used == 0).float().mean() < 0.3
    attention.eval()
    used = attention.attend(query, key, value)
    torch.testing.assert_close(used, torch.full_like(used, 1 / 64))


def test_dropout_lets_no_masked_key_in():
    attention = identity(1, 2)
    attention.dropout.p = 0.5
    x = torch.zeros(200, 1, 2)
    value = torch.arange(400.0).view(200, 1, 2)
    result = attention(query=x, key=x, value=value, mask=subsequent_mask(200))
    assert (result[:, 0, 0] <= 2 * value[:, 0, 0] + 1e-3).all()


def test_weights_are_recorded_before_dropout(vectors):
    attention = MultiHeadAttention(H, C, dropout_prob=0.5)
    weights = recorded(attention, **vectors)
    assert weights.shape == (T, S, B, H) and not weights.requires_grad
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(T, B, H))


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("implementation", ["kernels"], indirect=True)
def test_looking_at_the_weights_is_free_until_somebody_looks(is_causal, vectors):
    """The weights of the last call, never of one before; nothing of their size is kept."""
    attention = MultiHeadAttention(H, C, dropout_prob=0.5)
    x, mask = torch.randn(131, B, C), subsequent_mask(131) if is_causal else None
    recorded(attention, **vectors)
    attention(query=x, key=x, value=x, mask=mask)
    del mask
    gc.collect()
    alive = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    assert not any(each.dim() == 4 and each.shape[:2] == (131, 131) for each in alive)
    weights = attention.attn
    assert weights.shape == (131, 131, B, H) and weights is attention.attn
    mask = subsequent_mask(131) if is_causal else None
    expected = recorded(attention, query=x, key=x, value=x, mask=mask)
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_have_the_precision_of_the_definition(dtype, vectors):
    attention = MultiHeadAttention(H, C).eval()
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
        attention(**vectors)
        weights = attention.attn
        expected = recorded(attention, **vectors)
    assert weights.dtype == expected.dtype
    torch.testing.assert_close(weights, expected)


def test_weights_that_cannot_be_known_any_more(implementation):
    attention, tensors = MultiHeadAttention(H, C).eval(), torch.randn(3, S, B, H, C // H)
    attention.attend(*tensors)
    before = attention.attn
    attention.attend(*tensors)
    tensors.zero_()
    if implementation == "kernels":
        with pytest.raises(RuntimeError, match="modified in place"):
            attention.attn.sum()
    else:
        torch.testing.assert_close(attention.attn, before)


def test_a_subclass_may_set_the_weights_or_give_the_name_to_a_module(vectors):
    class Other(MultiHeadAttention):
        def __init__(self):
            super().__init__(H, C)
            self.attn = nn.Linear(C, C)

    assert Other().attn.weight.shape == (C, C)
    attention = MultiHeadAttention(H, C)
    attention.attn = torch.ones(1)
    assert attention.attn == 1
    del attention.attn
    assert not hasattr(attention, "attn")


# Parameters, errors, and everything that a module goes through.
@pytest.mark.parametrize(
    ("biases", "expected"),
    [
        ({"bias": False}, set()),
        ({"bias": False, "output_bias": True}, {"value.linear", "output"}),
        ({"output_bias": False}, {"query.linear", "key.linear"}),
    ],
)
def test_biases(biases, expected):
    names = dict(MultiHeadAttention(H, C, **biases).named_parameters())
    assert {name[:-5] for name in names if name.endswith(".bias")} == expected


def test_widths_of_heads(vectors):
    attention = MultiHeadAttention(5, C, d_k=3, d_v=4)
    assert attention.query.linear.weight.shape == attention.key.linear.weight.shape == (15, C)
    assert attention.value.linear.weight.shape == (20, C)
    assert attention.output.weight.shape == (C, 20)
    assert attention(**vectors).shape == (T, B, C)
    assert MultiHeadAttention(5, 10, d_k=3).d_v == 2


@pytest.mark.parametrize("implementation", ["kernels"], indirect=True)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trained", ["all", "input", "tied", "projections"])
def test_self_attention_as_one_node(trained, bias):
    """Values, gradients and second derivatives, and the result may be changed in place."""
    attention = MultiHeadAttention(H, C, dropout_prob=0.0, bias=bias).double()
    x = torch.randn(13, B, C, dtype=torch.float64, requires_grad=trained != "projections")
    attention.requires_grad_(trained != "input")
    attention.output.requires_grad_(trained != "projections")
    if trained == "tied":
        attention.key.linear.weight = attention.query.linear.weight
    wanted = [each for each in (x, *attention.parameters()) if each.requires_grad]

    def derivatives():
        y = attention(query=x, key=x, value=x, mask=subsequent_mask(13))
        assert y.grad_fn is not None
        weights, y = attention.attn, y.mul_(2)
        plain = torch.autograd.grad(y.square().sum(), wanted, retain_graph=True)
        first = torch.autograd.grad(y.square().sum(), wanted, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), wanted)
        return [y, weights, *plain, *first, *second]

    with kernels.disabled():
        expected = derivatives()
    torch.testing.assert_close(derivatives(), expected)
