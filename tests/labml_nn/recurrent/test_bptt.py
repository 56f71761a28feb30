"""Backpropagation through time: the equations of the page, and its numbers."""

import inspect
import re

import pytest
import torch
from torch import nn

from labml_nn.recurrent.elman import ACTIVATIONS, bptt
from labml_nn.recurrent.elman.bptt import recurrent_grad, run_backward, run_forward

T, B, N = 5, 2, 7
NONLINEARITIES = pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", "relu"])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


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


#: After so many steps a network is in the middle of a text.
STEPS = 200


def arriving(radius, distances):
    """The length of a gradient of length 1 at the last state, so many steps before."""
    recurrent = radius * nn.init.orthogonal_(torch.empty(128, 128, dtype=torch.float64))
    inputs = random(STEPS, 16, 1) * (0.5 * random(128))
    states = run_forward(inputs, torch.zeros(16, 128, dtype=torch.float64), recurrent)
    sent, lengths = random(16, 128), []
    for steps in distances:
        part = inputs[-steps:], states[-1 - steps].requires_grad_(), recurrent
        last = run_forward(*part)[-1]
        (arrived,) = torch.autograd.grad(last, part[1], sent)
        lengths.append((arrived.norm(dim=1) / sent.norm(dim=1)).mean().item())
    return lengths


def test_the_table_of_arriving_gradients():
    """Within what chance does to them: a factor that grows with the distance."""
    table = re.findall(r"(?m)^# \| (\d\.\d) \| (.*) \|$", inspect.getsource(bptt))
    assert [radius for radius, _ in table] == ["0.5", "0.9", "1.0", "1.1", "1.5", "2.0"]
    for radius, cells in table:
        told = [float(cell.replace(",", "")) for cell in cells.split("|")]
        got = arriving(float(radius), distances := (1, 10, 30, 100))
        for steps, number, length, factor in zip(
            distances, told, got, (1.2, 2, 4, 100), strict=True
        ):
            assert number / factor < length < number * factor, (radius, steps, length)
