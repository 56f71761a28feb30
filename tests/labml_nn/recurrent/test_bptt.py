"""Backpropagation through time: the equations of the page, and its numbers."""

import pytest
import torch
from torch import nn

from labml_nn.recurrent.elman import ACTIVATIONS
from labml_nn.recurrent.elman.bptt import DERIVATIVES, recurrent_grad, run_backward, run_forward

T, B, N = 5, 2, 7
NONLINEARITIES = pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", "relu"])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@NONLINEARITIES
def test_derivatives_are_those_of_the_activations(nonlinearity):
    z = random(13).requires_grad_()
    h = ACTIVATIONS[nonlinearity](z)
    (expected,) = torch.autograd.grad(h.sum(), z)
    torch.testing.assert_close(DERIVATIVES[nonlinearity](h.detach()), expected)


@NONLINEARITIES
@pytest.mark.parametrize("masked", [False, True])
def test_the_equations_are_the_gradient(nonlinearity, masked):
    leaves = [t.requires_grad_() for t in (random(T, B, N), random(B, N), random(N, N) / 2)]
    inputs, h_0, recurrent = leaves
    mask = random(T, B, 1) > 0 if masked else None
    states = run_forward(inputs, h_0, recurrent, mask, nonlinearity)
    first = ACTIVATIONS[nonlinearity](inputs[0] + h_0 @ recurrent.T)
    torch.testing.assert_close(states[0], torch.where(mask[0], first, h_0) if masked else first)
    grad_states = random(T, B, N)
    expected = torch.autograd.grad((states * grad_states).sum(), leaves)
    states = states.detach()
    deltas, grad_h_0 = run_backward(grad_states, states, recurrent, mask, nonlinearity)
    got = deltas, grad_h_0, recurrent_grad(deltas, states, h_0)
    torch.testing.assert_close(got, expected)
    if masked:
        assert (deltas[~mask[..., 0]] == 0).all()


def arriving(radius, steps):
    recurrent = radius * nn.init.orthogonal_(torch.empty(128, 128, dtype=torch.float64))
    inputs = random(steps, 16, 1) * (0.5 * random(128))
    h_0 = torch.zeros(16, 128, dtype=torch.float64, requires_grad=True)
    last = run_forward(inputs, h_0, recurrent)[-1]
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
    for steps, number, factor in zip((1, 10, 30, 100), expected, (1.2, 2, 4, 100), strict=True):
        got = arriving(radius, steps)
        assert number / factor < got < number * factor, (radius, steps, got)


def test_without_inputs_an_orthogonal_matrix_loses_nothing():
    recurrent = nn.init.orthogonal_(torch.empty(N, N, dtype=torch.float64))
    h_0 = torch.zeros(B, N, dtype=torch.float64, requires_grad=True)
    last = run_forward(torch.zeros(100, B, N, dtype=torch.float64), h_0, recurrent)[-1]
    (arrived,) = torch.autograd.grad(last, h_0, sent := random(B, N))
    torch.testing.assert_close(arrived.norm(dim=1), sent.norm(dim=1))
