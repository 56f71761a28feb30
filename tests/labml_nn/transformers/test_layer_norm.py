"""Layer normalisation equals PyTorch's: values, gradients, names, dtypes; and its errors."""

import pytest
import torch
from lesson_pages import Page
from torch import nn

from labml_nn.transformers import layer_norm
from labml_nn.transformers.layer_norm import LayerNorm
from labml_nn.transformers.modern import RMSNorm

N, T, B, C = 3, 5, 2, 12


def pair(*arguments, dtype=torch.float32, **options):
    """Ours and PyTorch's, with the same random parameters."""
    torch.manual_seed(0)
    theirs = nn.LayerNorm(*arguments, **options)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = LayerNorm(*arguments, **options)
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours.to(dtype), theirs.to(dtype)


@pytest.mark.parametrize("size", [C, [C], (B, C)])
@pytest.mark.parametrize(
    "options", [{}, {"eps": 0.3}, {"elementwise_affine": False}, {"bias": False}]
)
def test_equals_pytorch(size, options):
    ours, theirs = pair(size, **options)
    x, cotangent = torch.randn(2, N, T, B, C)
    x, results = 3 * x + 2, []
    for module in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = module(leaf)
        results.append((y, *torch.autograd.grad(y, (leaf, *module.parameters()), cotangent)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits(dtype):
    """Values whose squares float16 cannot hold."""
    ours, theirs = pair(C, dtype=dtype)
    x = (300 * torch.randn(T, B, C)).to(dtype)
    assert ours(x).dtype == dtype and ours(x).isfinite().all()
    torch.testing.assert_close(ours(x), theirs(x))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(pair(C)[0](x.bfloat16()), pair(C)[1](x.bfloat16()))


def test_equal_features_have_a_finite_gradient():
    x = torch.full((T, B, C), 7.0, requires_grad=True)
    y = LayerNorm(C)(x)
    y.backward(torch.randn(T, B, C))
    assert torch.equal(y, torch.zeros(T, B, C)) and x.grad.isfinite().all()


def test_it_starts_as_it_can_be_reset():
    norm = LayerNorm(C)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    norm.reset_parameters()
    assert (norm.weight == 1).all() and (norm.bias == 0).all()


@pytest.mark.parametrize("norm", [LayerNorm(4), LayerNorm((2, 4)), RMSNorm(4)])
def test_inputs_of_another_width(norm):
    """One feature would be broadcast to all; PyTorch's modules raise as well."""
    with pytest.raises(ValueError, match=r"`x` has shape \[3, 2, 1\]; expected \[..., "):
        norm(torch.randn(3, 2, 1))


def test_the_worked_example_of_the_page():
    norm, x = LayerNorm(4, eps=0.0), torch.tensor([2.0, 0, 4, 2])
    expected = torch.tensor([0, -1.414, 1.414, 0])
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=5e-4)
    torch.testing.assert_close(norm(100 * x), expected, rtol=0, atol=5e-4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 1, 2, 1]))
        norm.bias.copy_(torch.tensor([0.0, 0, 0, 1]))
    expected = torch.tensor([0, -1.414, 2.828, 1])
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=5e-4)
    told = "(2, 0, 4, 2)", "(0, -1.414, 1.414, 0)", "(0, -1.414, 2.828, 1)"
    Page(layer_norm).has(*told)
