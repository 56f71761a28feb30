"""Muon equals PyTorch's, goes on exactly where it was, and refuses what is no matrix."""

import copy
import math

import pytest
import torch
from torch import nn

from labml_nn.optimizers.muon import COEFFICIENTS, Muon, orthogonalise

SHAPES = [(12, 20), (20, 12), (12, 20), (20, 12), (7, 5), (8, 8), (1, 6), (6, 1)]


def matrices(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]
    return [nn.Parameter(matrix) for matrix in made]


def give_gradients(parameters, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        parameter.grad = gradient.to(parameter.dtype)


def apart(ours, theirs):
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.95, 0.1), (0.0, 0.3)])
def test_equals_pytorchs_in_its_own_dtype(nesterov, momentum, weight_decay):
    options = {"lr": 0.02, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    ours, theirs = matrices(), matrices()
    our = Muon(ours, dtype=torch.bfloat16, **options)
    their = torch.optim.Muon(theirs, **options)
    for seed in range(5):
        for parameters in (ours, theirs):
            give_gradients(parameters, seed)
        our.step()
        their.step()
    # Products of several matrices at once add up in another order, and a sum that is rounded to
    # eight bits may come out one step higher or lower.
    assert apart(ours[4:], theirs[4:]) <= 1e-6
    assert apart(ours, theirs) <= 1e-4
    assert apart(ours, matrices()) > 0.02  # they did move


def test_equals_pytorchs_in_float32(monkeypatch):
    """PyTorch rounds to bfloat16; without that the two compute the same."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor.clone())
    ours, theirs = matrices(), matrices()
    our, their = Muon(ours, lr=0.02), torch.optim.Muon(theirs, lr=0.02)
    for seed in range(5):
        for parameters in (ours, theirs):
            give_gradients(parameters, seed)
        our.step()
        their.step()
    assert apart(ours, theirs) <= 1e-6


def test_the_dtype_is_that_of_the_matrices_unless_said():
    exact, rounded = matrices(), matrices()
    for parameters, dtype in ((exact, None), (rounded, torch.bfloat16)):
        give_gradients(parameters, 0)
        Muon(parameters, lr=1.0, dtype=dtype).step()
    assert 1e-3 < apart(exact, rounded) < 0.2


@pytest.mark.parametrize("shape", [(9, 31), (31, 9), (16, 16), (3, 9, 31), (3, 31, 9)])
def test_directions_stay_and_sizes_become_one(shape):
    torch.manual_seed(0)
    given = torch.randn(shape, dtype=torch.float64)
    made = orthogonalise(given)
    u, sigma, vt = torch.linalg.svd(given, full_matrices=False)
    inside = u.mT @ made @ vt.mT
    sizes = inside.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(inside, torch.diag_embed(sizes), atol=1e-9, rtol=0)
    assert sizes.min() > 0.68
    assert sizes.max() < 1.21
    expected = sigma / sigma.square().sum(-1, keepdim=True).sqrt()
    a, b, c = COEFFICIENTS
    for _ in range(5):
        expected = a * expected + b * expected**3 + c * expected**5
    torch.testing.assert_close(sizes, expected, atol=1e-9, rtol=0)


def test_several_are_each_alone():
    torch.manual_seed(0)
    given = torch.randn(3, 12, 7)
    alone = torch.stack([orthogonalise(matrix) for matrix in given])
    torch.testing.assert_close(orthogonalise(given), alone)


def test_nothing_stays_nothing():
    assert not orthogonalise(torch.zeros(5, 7)).any()
    weight = nn.Parameter(torch.ones(5, 7))
    weight.grad = torch.zeros(5, 7)
    Muon([weight], lr=0.5, weight_decay=0.1).step()
    torch.testing.assert_close(weight.detach(), torch.full((5, 7), 0.95))


@pytest.mark.parametrize(("rows", "columns"), [(48, 12), (12, 48), (24, 24)])
def test_outputs_change_as_much_as_inputs_are_large(rows, columns):
    """The reason for the root of the shape: features of size s move by lr times s."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(rows, columns))
    weight.grad = torch.randn(rows, columns)
    Muon([weight], lr=0.1, weight_decay=0.0, steps=20).step()
    x = 3 * torch.randn(500, columns)
    changed = (x @ weight.T).square().mean().sqrt().item()
    assert changed == pytest.approx(0.1 * 3, rel=0.2)


def test_goes_on_exactly_where_it_was():
    whole, halves = matrices(), matrices()
    one, first = Muon(whole, lr=0.02), Muon(halves, lr=0.02)
    for seed in range(4):
        give_gradients(whole, seed)
        one.step()
    for seed in range(2):
        give_gradients(halves, seed)
        first.step()
    state = copy.deepcopy(first.state_dict())
    second = Muon(halves, lr=0.5)
    second.load_state_dict(state)
    for seed in range(2, 4):
        give_gradients(halves, seed)
        second.step()
    assert all(torch.equal(a, b) for a, b in zip(whole, halves, strict=True))


def test_leaves_alone_what_has_no_gradient():
    first, second = matrices()[0], nn.Parameter(torch.ones(12, 20))
    optimizer = Muon([first, second])
    first.grad = torch.randn(12, 20)
    optimizer.step()
    assert torch.equal(second, torch.ones(12, 20))
    assert second not in optimizer.state


def test_groups_have_options_of_their_own():
    slow, fast = nn.Parameter(torch.zeros(5, 7)), nn.Parameter(torch.zeros(5, 7))
    optimizer = Muon([{"params": [slow], "lr": 0.01}, {"params": [fast]}], lr=0.1)
    slow.grad = fast.grad = torch.randn(5, 7)
    optimizer.step()
    torch.testing.assert_close(fast.detach(), 10 * slow.detach())


def test_calls_the_closure():
    weight = nn.Parameter(torch.ones(5, 7))
    optimizer = Muon([weight])

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 35.0
    assert optimizer.step() is None


def test_learns():
    torch.manual_seed(0)
    target, weight = torch.randn(9, 13), nn.Parameter(torch.zeros(9, 13))
    optimizer = Muon([weight], lr=0.3, weight_decay=0.0)
    for step in range(60):
        optimizer.param_groups[0]["lr"] = 0.3 * (1 - step / 60)
        optimizer.zero_grad()
        (weight - target).square().sum().backward()
        optimizer.step()
    assert (weight - target).norm() < 0.2 * target.norm()


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (torch.zeros(3), r"shape \[3\].*expected real matrices.*AdamW"),
        (torch.zeros(2, 3, 4), r"shape \[2, 3, 4\]"),
        (torch.zeros(2, 3, dtype=torch.complex64), "complex64"),
    ],
)
def test_refuses_what_is_no_matrix(unhooked, parameter, message):
    muon = unhooked("labml_nn.optimizers.muon")
    with pytest.raises(ValueError, match=message):
        muon.Muon([nn.Parameter(parameter)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, r"`lr` \(-0.1\) must be 0 or more"),
        ({"lr": math.nan}, r"`lr` \(nan\)"),
        ({"weight_decay": math.inf}, r"`weight_decay` \(inf\)"),
        ({"momentum": 1.0}, r"`momentum` \(1.0\) must be at least 0 and less than 1"),
        ({"steps": 0}, r"`steps` \(0\) must be at least 1"),
    ],
)
def test_refuses_numbers_that_cannot_be(unhooked, options, message):
    muon = unhooked("labml_nn.optimizers.muon")
    with pytest.raises(ValueError, match=message):
        muon.Muon(matrices(), **options)


def test_refuses_sparse_gradients():
    table = nn.Embedding(10, 4, sparse=True)
    table(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ValueError, match=r"sparse gradient.*sparse=False"):
        Muon(table.parameters()).step()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_computes_in_bfloat16():
    weight = nn.Parameter(torch.zeros(12, 20, device="cuda"))
    other = nn.Parameter(torch.zeros(12, 20, device="cuda"))
    weight.grad = other.grad = torch.randn(12, 20, device="cuda")
    Muon([weight]).step()
    torch.optim.Muon([other], lr=0.02).step()
    torch.testing.assert_close(weight, other, atol=1e-4, rtol=1e-2)
