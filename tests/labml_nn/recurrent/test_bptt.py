"""Backpropagation through time: the equations of the page, and its numbers."""

import pytest
import torch
from elman_tools import NONLINEARITIES, B, N, T, random, some_mask
from torch import nn

from labml_nn.recurrent.elman import bptt
from labml_nn.recurrent.elman.bptt import ACTIVATIONS, SLOPES, run_backward, run_forward, unroll

MASKED = pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])


@NONLINEARITIES
def test_slopes_are_those_of_the_activations(nonlinearity):
    z = random(13).requires_grad_()
    h = ACTIVATIONS[nonlinearity](z)
    (expected,) = torch.autograd.grad(h.sum(), z)
    torch.testing.assert_close(SLOPES[nonlinearity](h.detach()), expected)


def problem(masked):
    z, h_0, weight = random(T, B, N), random(B, N, seed=1), random(N, N, seed=2) / 2
    mask = some_mask()[..., None] if masked else None
    return [tensor.requires_grad_() for tensor in (z, h_0, weight)], mask


@NONLINEARITIES
@MASKED
def test_the_gradients_of_the_page(nonlinearity, masked):
    """What autograd finds in the loop is what the equations say."""
    leaves, mask = problem(masked)
    z, h_0, weight = leaves
    states = run_forward(z, h_0, weight, mask, nonlinearity)
    outside = random(T, B, N, seed=3)
    expected = torch.autograd.grad((states * outside).sum(), leaves)
    deltas, blame = run_backward(outside, states.detach(), weight, mask, nonlinearity)
    before = torch.cat([h_0[None], states[:-1]])
    summed = sum(delta.T @ h for delta, h in zip(deltas, before, strict=True))
    torch.testing.assert_close((deltas, blame, summed), expected)
    if masked:
        assert (deltas[~mask[..., 0]] == 0).all()


@NONLINEARITIES
@MASKED
def test_unroll_has_them(nonlinearity, masked):
    leaves, mask = problem(masked)
    flat = None if mask is None else mask[..., 0]
    outside = random(T, B, N, seed=3)
    results = []
    for states in (
        run_forward(*leaves, mask, nonlinearity),
        unroll(*leaves, flat, nonlinearity),
        bptt._forward_op(*leaves, mask, nonlinearity),
    ):
        results.append([states, *torch.autograd.grad((states * outside).sum(), leaves)])
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


@MASKED
def test_the_operators_keep_the_rules_of_operators(masked):
    """Shapes foretold are the real ones, nothing is changed, gradients are registered."""
    leaves, mask = problem(masked)
    torch.library.opcheck(bptt._forward_op, (*leaves, mask, "tanh"))
    gradients, states = random(T, B, N), random(T, B, N, seed=4).tanh()
    torch.library.opcheck(bptt._backward_op, (gradients, states, leaves[2].detach(), mask, "tanh"))


def test_gradients_of_gradients_in_a_compiler_too():
    leaves, _ = problem(False)
    leaves = [leaf.detach()[:3].clone().requires_grad_() for leaf in leaves]
    z, h_0, weight = leaves[0][..., :3].detach(), random(B, 3), random(3, 3)
    inputs = [tensor.clone().requires_grad_() for tensor in (z, h_0, weight)]
    assert torch.autograd.gradgradcheck(
        lambda *tensors: bptt._forward_op(*tensors, None, "tanh"), inputs
    )


def arriving(radius, steps, dtype=torch.float64):
    weight = radius * nn.init.orthogonal_(torch.empty(128, 128, dtype=dtype))
    z = torch.randn(steps, 16, 1, dtype=dtype) * (0.5 * torch.randn(128, dtype=dtype))
    h_0 = torch.zeros(16, 128, dtype=dtype, requires_grad=True)
    last = unroll(z, h_0, weight)[-1]
    sent = torch.randn_like(last)
    (arrived,) = torch.autograd.grad(last, h_0, sent)
    return (arrived.norm(dim=1) / sent.norm(dim=1)).mean().item()


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (0.5, (0.44, 0.0002, 2e-11, 3e-37)),
        (0.9, (0.81, 0.05, 0.0001, 2e-14)),
        (1.0, (0.89, 0.12, 0.001, 1e-10)),
        (1.1, (0.97, 0.24, 0.007, 6e-8)),
        (1.5, (1.3, 1.9, 1.6, 1.0)),
        (2.0, (1.8, 10, 110, 4e5)),
    ],
)
def test_the_table_of_arriving_gradients(radius, expected):
    """Within what chance does to them: a factor that grows with the distance."""
    torch.manual_seed(0)
    for steps, number, factor in zip((1, 10, 30, 100), expected, (1.2, 2, 4, 100), strict=True):
        got = arriving(radius, steps)
        assert number / factor < got < number * factor, (radius, steps, got)


def test_without_inputs_a_rotation_loses_nothing():
    weight = nn.init.orthogonal_(torch.empty(N, N, dtype=torch.float64))
    h_0 = torch.zeros(B, N, dtype=torch.float64, requires_grad=True)
    last = unroll(torch.zeros(100, B, N, dtype=torch.float64), h_0, weight)[-1]
    (arrived,) = torch.autograd.grad(last, h_0, sent := random(B, N))
    torch.testing.assert_close(arrived.norm(dim=1), sent.norm(dim=1))
