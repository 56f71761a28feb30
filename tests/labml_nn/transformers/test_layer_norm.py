"""Layer normalisation: equal to PyTorch's in numbers, gradients and names, and what it refuses."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labml_nn.transformers.layer_norm import LayerNorm

MODULE = "labml_nn.transformers.layer_norm"
T, B, C, D = 5, 2, 12, 3

precise = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)]
)
half = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def pair(*arguments, dtype=torch.float32, **named):
    """Ours and PyTorch's, with the same random parameters."""
    torch.manual_seed(0)
    theirs = nn.LayerNorm(*arguments, **named)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = LayerNorm(*arguments, **named)
    ours.load_state_dict(theirs.state_dict())
    return ours.to(dtype), theirs.to(dtype)


def assert_same(ours, theirs, x, tolerance):
    """Outputs, and gradients of the input and of all parameters."""
    close = {"rtol": tolerance, "atol": tolerance}
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    results = [module(leaf) for module, leaf in zip((ours, theirs), leaves, strict=True)]
    torch.testing.assert_close(*results, **close)
    cotangent = torch.randn_like(results[0])
    for result in results:
        result.backward(cotangent)
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **close)
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name).grad, parameter.grad, **close)


def test_by_hand():
    norm = LayerNorm(4, eps=0.0)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        norm.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    # Mean 5, variance (9 + 1 + 1 + 9) / 4 = 5.
    root = math.sqrt(5)
    expected = torch.tensor([-3 / root, -2 / root, 3 / root, 12 / root + 1])
    torch.testing.assert_close(norm(torch.tensor([2.0, 4.0, 6.0, 8.0])), expected)


@precise
@pytest.mark.parametrize("size", [C, [C], (B, C), (T, B, C), torch.Size([C])])
@pytest.mark.parametrize(
    "options",
    [{}, {"eps": 0.3}, {"elementwise_affine": False}, {"bias": False}],
    ids=["usual", "eps", "no parameters", "no bias"],
)
def test_equals_pytorch(size, options, dtype, tolerance):
    ours, theirs = pair(size, dtype=dtype, **options)
    x = 3 * torch.randn(D, T, B, C, dtype=dtype) + 2
    assert_same(ours, theirs, x, tolerance)


@settings(deadline=None, max_examples=30)
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_equals_pytorch_over_any_last_axes(shape, data):
    first = data.draw(st.integers(0, len(shape) - 1))
    ours, theirs = pair(shape[first:], dtype=torch.float64)
    assert_same(ours, theirs, torch.randn(shape, dtype=torch.float64), 1e-10)


@half
def test_half_precision_computes_in_32_bits(dtype):
    """Values whose squares float16 cannot hold, and PyTorch's result to the last bit."""
    ours, theirs = pair(C, dtype=dtype)
    x = (300 * torch.randn(T, B, C)).to(dtype)
    assert x.abs().max() > 256
    assert ours(x).dtype == dtype
    torch.testing.assert_close(ours(x), theirs(x))
    assert ours(x).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast(dtype):
    ours, theirs = pair(C)
    x = torch.randn(T, B, C, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16):
        result, expected = ours(x), theirs(x)
    assert result.dtype == expected.dtype == dtype
    torch.testing.assert_close(result, expected)


def test_checkpoints_go_both_ways():
    for options in ({}, {"bias": False}, {"elementwise_affine": False}):
        ours, theirs = pair(C, **options)
        theirs.load_state_dict(ours.state_dict())
        assert list(ours.state_dict()) == list(theirs.state_dict())


def test_begins_with_nothing_but_the_normalisation():
    norm = LayerNorm(C)
    assert torch.equal(norm.weight, torch.ones(C))
    assert torch.equal(norm.bias, torch.zeros(C))
    nn.init.normal_(norm.weight)
    norm.reset_parameters()
    assert torch.equal(norm.weight, torch.ones(C))


def test_equal_features_are_finite_both_ways():
    """Why eps stands under the root: beside it the backward pass is not a number."""
    x = torch.full((T, B, C), 7.0, requires_grad=True)
    norm = LayerNorm(C)
    norm(x).backward(torch.randn(T, B, C))
    assert torch.equal(norm(x), torch.zeros(T, B, C))
    assert x.grad.isfinite().all()

    y = torch.full((T, B, C), 7.0, requires_grad=True)
    centred = y - y.mean(-1, keepdim=True)
    (centred / (centred.square().mean(-1, keepdim=True).sqrt() + 1e-5)).sum().backward()
    assert y.grad.isnan().all()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), scale=st.floats(0.1, 100), shift=st.floats(-100, 100))
def test_size_and_level_are_forgotten(seed, scale, shift):
    torch.manual_seed(seed)
    norm, x = LayerNorm(C, eps=0.0).double(), torch.randn(T, B, C, dtype=torch.float64)
    torch.testing.assert_close(norm(scale * x + shift), norm(x))
    torch.testing.assert_close(norm(-x), -norm(x))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999))
def test_gradient_of_the_page(seed):
    """With eps: the formula is exact, and the two directions are missing without it."""
    torch.manual_seed(seed)
    x = torch.randn(T, B, C, dtype=torch.float64, requires_grad=True)
    gamma = torch.randn(T, B, C, dtype=torch.float64)
    eps = 0.1
    (gradient,) = torch.autograd.grad(LayerNorm(C, eps).double()(x), x, gamma)

    def mean(a):
        return a.mean(-1, keepdim=True)

    root = ((x - mean(x)).square().mean(-1, keepdim=True) + eps).sqrt()
    x_hat = (x - mean(x)) / root
    expected = (gamma - mean(gamma) - x_hat * mean(gamma * x_hat)) / root
    torch.testing.assert_close(gradient, expected)

    (gradient,) = torch.autograd.grad(LayerNorm(C, 0.0).double()(x), x, gamma)
    nothing = torch.zeros(T, B, 1, dtype=torch.float64)
    torch.testing.assert_close(mean(gradient), nothing)
    torch.testing.assert_close(mean(gradient * x_hat), nothing)


def test_first_and_second_derivatives_numerically():
    norm = LayerNorm(4).double()
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, x)
    assert torch.autograd.gradgradcheck(norm, x)


def test_copies_and_pickles():
    ours, _ = pair(C)
    x = torch.randn(T, B, C)
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(twin(x), ours(x))
    assert repr(ours) == "LayerNorm((12,), eps=1e-05, elementwise_affine=True)"


def test_compiles_whole_and_is_exported(unhooked):
    norm, x = unhooked(MODULE).LayerNorm(C), torch.randn(T, B, C)
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), norm(x))
    lengths = ({0: torch.export.Dim("T", min=2, max=100)},)
    exported = torch.export.export(norm, (x,), dynamic_shapes=lengths).module()
    longer = torch.randn(9, B, C)
    torch.testing.assert_close(exported(longer), norm(longer))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, r"`normalized_shape` \(0\) must be at least 1"),
        (([2, -3],), ValueError, r"`normalized_shape` \(-3\) must be at least 1"),
        (([],), ValueError, "`normalized_shape` is empty; expected the number of features"),
        ((12.0,), TypeError, r"`normalized_shape` \(12\.0\) must be a whole number"),
        ((12, -1e-5), ValueError, r"`eps` \(-1e-05\) must be 0 or more, and finite; 1e-5"),
        ((12, math.nan), ValueError, r"`eps` \(nan\) must be 0 or more"),
        ((12, "small"), TypeError, r"`eps` \('small'\) must be a number, not a str"),
    ],
)
def test_impossible_norms(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).LayerNorm(*arguments)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(T, B, 9), ValueError, r"`x` has shape \[5, 2, 9\].*normalized_shape = \[12\]"),
        (torch.tensor(1.0), ValueError, r"`x` has shape \[\]; expected its last axes"),
        (torch.zeros(T, B, C).long(), TypeError, "`x` has dtype torch.int64.*embed tokens first"),
        (
            torch.zeros(T, B, C).double(),
            TypeError,
            r"float64 but the parameters have torch\.float3",
        ),
    ],
)
def test_vectors_that_do_not_fit(unhooked, x, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).LayerNorm(C)(x)


def test_several_axes_that_do_not_fit(unhooked):
    with pytest.raises(ValueError, match=r"\[5, 12, 2\].*normalized_shape = \[2, 12\]"):
        unhooked(MODULE).LayerNorm((B, C))(torch.zeros(T, C, B))
