"""Muon equals PyTorch's, resumes exactly, and refuses what is no matrix."""

import copy
import math

import pytest
import torch
from torch import nn

from labml_nn.optimizers.muon import COEFFICIENTS, Muon, orthogonalise

MODULE = "labml_nn.optimizers.muon"
SHAPES = [(12, 20), (20, 12), (7, 5), (8, 8), (1, 6), (6, 1)]


def matrices():
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def train(optimizer, parameters, seeds):
    for seed in seeds:
        generator = torch.Generator().manual_seed(100 + seed)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return parameters


def apart(ours, theirs):
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("options", [{}, {"momentum": 0.0, "weight_decay": 0.3}])
def test_equals_pytorchs(monkeypatch, options):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor.clone())
    ours, theirs, options = matrices(), matrices(), {"lr": 0.02, **options}
    train(Muon(ours, **options), ours, range(5))
    train(torch.optim.Muon(theirs, **options), theirs, range(5))
    assert apart(ours, theirs) <= 1e-6 and apart(ours, matrices()) > 0.02


@pytest.mark.parametrize("shape", [(9, 31), (31, 9), (16, 16)])
def test_singular_values_become_one_and_directions_stay(shape):
    torch.manual_seed(0)
    given = torch.randn(shape, dtype=torch.float64)
    result = orthogonalise(given)
    assert result.dtype == torch.float64
    u, sigma, vt = torch.linalg.svd(given, full_matrices=False)
    inside = u.mT @ result @ vt.mT
    sizes = inside.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(inside, torch.diag_embed(sizes), atol=1e-9, rtol=0)
    assert sizes.min() > 0.68 and sizes.max() < 1.21
    expected = sigma / sigma.square().sum(-1, keepdim=True).sqrt()
    a, b, c = COEFFICIENTS
    for _ in range(5):
        expected = a * expected + b * expected**3 + c * expected**5
    torch.testing.assert_close(sizes, expected, atol=1e-9, rtol=0)


def test_zeros():
    assert not orthogonalise(torch.zeros(5, 7)).any()
    weight = nn.Parameter(torch.ones(5, 7))
    weight.grad = torch.zeros(5, 7)
    Muon([weight], lr=0.5, weight_decay=0.1).step()
    torch.testing.assert_close(weight.detach(), torch.full((5, 7), 0.95))


def test_resumes_exactly():
    whole, halves = matrices(), matrices()
    train(Muon(whole), whole, range(4))
    first = Muon(halves)
    train(first, halves, range(2))
    second = Muon(halves, lr=0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(second, halves, range(2, 4))
    assert apart(whole, halves) == 0


def test_groups_and_parameters_without_gradient():
    slow, fast, still = (nn.Parameter(torch.zeros(5, 7)) for _ in range(3))
    optimizer = Muon([{"params": [slow], "lr": 0.01}, {"params": [fast, still]}], lr=0.1)
    slow.grad = fast.grad = torch.randn(5, 7)
    optimizer.step()
    torch.testing.assert_close(fast.detach(), 10 * slow.detach())
    assert not still.any() and still not in optimizer.state


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": [torch.zeros(3)]}, r"shape \[3\].*expected real matrices.*AdamW"),
        ({"params": [torch.zeros(2, 3, dtype=torch.complex64)]}, "complex64"),
        ({"lr": -0.1}, r"`lr` \(-0.1\) must be 0 or more"),
        ({"weight_decay": math.inf}, r"`weight_decay` \(inf\)"),
        ({"momentum": 1.0}, r"`momentum` \(1.0\) must be at least 0 and less than 1"),
        ({"steps": 0}, r"`steps` \(0\) must be at least 1"),
    ],
)
def test_refused(unhooked, options, message):
    options = {"params": [torch.zeros(2, 3)], **options}
    params = [nn.Parameter(tensor) for tensor in options.pop("params")]
    with pytest.raises(ValueError, match=message):
        unhooked(MODULE).Muon(params, **options)


def test_a_closure_computes_the_gradients_and_its_loss_is_returned():
    weight, twin = (nn.Parameter(torch.ones(4, 3)) for _ in range(2))

    def closure():
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert Muon([weight]).step(closure).item() == 12
    twin.square().sum().backward()
    assert Muon([twin]).step() is None
    torch.testing.assert_close(weight, twin)
