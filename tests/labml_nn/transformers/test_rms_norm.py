"""RMSNorm in its forms, beside PyTorch's, and at the edges of what numbers can hold."""

import copy
import pickle

import pytest
import torch
from torch import nn

from labml_nn.transformers.rms_norm import RMSNorm

T, B, C = 5, 2, 12


def norm(**changes):
    torch.manual_seed(0)
    made = RMSNorm(C, **changes)
    nn.init.normal_(made.weight)
    return made


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("shape", [(T, B, C), (C,), (3, T, B, C)])
def test_equals_pytorchs_with_gradients(shape, dtype, tolerance):
    ours, theirs = norm().to(dtype), nn.RMSNorm(C, eps=1e-5, dtype=dtype)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    cotangent = torch.randn(shape, dtype=dtype)
    results = []
    for module, call in ((ours, ours), (ours, ours.read), (theirs, theirs)):
        y = call(x)
        results.append((y, *torch.autograd.grad(y, (x, module.weight), cotangent)))
    for result in results[:2]:
        for mine, other in zip(result, results[2], strict=True):
            torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_gradients_by_finite_differences():
    made = norm().double()
    x = torch.randn(3, B, C, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: _with(made, w)(x), (x, made.weight))


def _with(made, weight):
    return lambda x: torch.func.functional_call(made, {"weight": weight}, (x,))


def test_second_derivatives_are_refused_and_not_wrong():
    x = torch.randn(T, B, C, requires_grad=True)
    (gradient,) = torch.autograd.grad(norm()(x).cos().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_vector_of_zeros_stays_zero_with_a_finite_gradient():
    x = torch.zeros(T, B, C, requires_grad=True)
    y = norm()(x)
    y.sum().backward()
    assert not y.any()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_neither_overflow_nor_lose_their_digits(dtype):
    made = norm().to(dtype)
    x = (1000 * torch.randn(T, B, C)).to(dtype)  # the square of 1000 is infinite in float16
    y = made(x)
    assert y.dtype == dtype
    expected = norm().double().read(x.double())
    assert (y.double() - expected).abs().max() < 0.03


def test_autocast_keeps_the_dtype():
    with torch.autocast("cpu", torch.bfloat16):
        assert norm()(torch.randn(T, B, C).bfloat16()).dtype == torch.bfloat16


def test_not_contiguous():
    made, x = norm(), torch.randn(B, C, T).permute(2, 0, 1).requires_grad_()
    made(x).cos().sum().backward()
    expected = torch.autograd.grad(made.read(x).cos().sum(), x)[0]
    torch.testing.assert_close(x.grad, expected)


def test_starts_again_with_gains_of_one():
    made = norm()
    made.reset_parameters()
    assert torch.equal(made.weight, torch.ones(C))


def test_copies_and_pickles():
    made, x = norm(), torch.randn(T, B, C)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(other(x), made(x))
    assert repr(made) == "RMSNorm(12, eps=1e-05)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d_model": 0}, ValueError, r"`d_model` \(0\) must be at least 1"),
        ({"d_model": 12, "eps": 0.0}, ValueError, r"`eps` \(0.0\) must be more than 0"),
        ({"d_model": 12, "eps": -1e-5}, ValueError, "must be more than 0"),
    ],
)
def test_arguments_that_cannot_be(unhooked, arguments, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.rms_norm").RMSNorm(**arguments)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(T, B, 7), ValueError, r"`x` has shape \[5, 2, 7\].*12"),
        (torch.zeros(T, B, C).double(), TypeError, "float64"),
    ],
)
def test_vectors_that_do_not_fit(unhooked, x, error, message):
    with pytest.raises(error, match=message):
        unhooked("labml_nn.transformers.rms_norm").RMSNorm(C)(x)
