"""Layer normalisation and RMSNorm equal PyTorch's: values, gradients, names, dtypes; and errors."""

from contextlib import nullcontext

import pytest
import torch
from lesson_pages import Page
from torch import nn

from labml_nn.kernels import disabled
from labml_nn.transformers import layer_norm
from labml_nn.transformers.layer_norm import LayerNorm
from labml_nn.transformers.modern import RMSNorm

N, T, B, C = 3, 5, 2, 12
BOTH = pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])


def pair(kind, *arguments, **options):
    """Ours and PyTorch's, with the same random parameters."""
    torch.manual_seed(0)
    eps = {"eps": 1e-5} if kind is RMSNorm else {}
    theirs = getattr(nn, kind.__name__)(*arguments, **eps | options)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = kind(*arguments, **options)
    ours.load_state_dict(theirs.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("context", [nullcontext, disabled])
@pytest.mark.parametrize(
    ("kind", "size", "options"),
    [
        *((RMSNorm, C, options) for options in ({}, {"eps": 0.3})),
        *(
            (LayerNorm, size, options)
            for size in (C, [C], (B, C))
            for options in ({}, {"eps": 0.3}, {"elementwise_affine": False}, {"bias": False})
        ),
    ],
)
@pytest.mark.parametrize("shape", [(N, T, B, C), (0, B, C)])
def test_equals_pytorch(kind, size, options, shape, context):
    ours, theirs = pair(kind, size, **options)
    x, cotangent = 3 * torch.randn(shape) + 2, torch.randn(shape)
    results = []
    for module in (ours, theirs):
        leaf = x.clone().requires_grad_()
        with context():
            y = module(leaf)
        results.append((y, *torch.autograd.grad(y, (leaf, *module.parameters()), cotangent)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits(kind, dtype):
    """Values whose squares float16 cannot hold."""
    ours, theirs = pair(kind, C)
    x = (300 * torch.randn(T, B, C)).to(dtype)
    found = ours.to(dtype)(x)
    assert found.dtype == dtype and found.isfinite().all()
    exact = theirs.to(dtype).double()(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=0.02, atol=0.02)
    with torch.autocast("cpu", torch.bfloat16):
        found = pair(kind, C)[0](x.bfloat16())
    assert found.dtype == torch.bfloat16


@BOTH
def test_equal_features_have_a_finite_gradient_and_strides_do_not_matter(kind):
    x = torch.zeros(T, B, C, requires_grad=True)
    y = kind(C)(x)
    y.backward(torch.randn(T, B, C))
    assert not y.any() and x.grad.isfinite().all()
    strided = torch.randn(B, C, T).permute(2, 0, 1)
    torch.testing.assert_close(kind(C)(strided), kind(C)(strided.contiguous()))


@BOTH
def test_it_starts_as_it_can_be_reset(kind):
    norm = pair(kind, C)[0]
    norm.reset_parameters()
    for name, parameter in norm.named_parameters():
        assert torch.equal(parameter, kind(C).get_parameter(name)), name
        assert (parameter == (name == "weight")).all(), name


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
