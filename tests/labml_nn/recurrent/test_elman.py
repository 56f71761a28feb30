"""What is the Elman network's own: steps by hand, initialisation, first states, other cells.

What it shares with others is tested for all recurrent layers.
"""

import math

import pytest
import torch

from labml_nn import kernels
from labml_nn.recurrent.elman import Elman, ElmanCell, ElmanLayer

# Pairwise distinct, so that a swapped axis fails.
T, B, C, N, L = 5, 2, 12, 7, 3


@pytest.fixture(autouse=True)
def reference():
    """The page itself; kernels are compared with it elsewhere."""
    torch.manual_seed(0)
    with kernels.disabled():
        yield


def randomised(module):
    """In double precision, with numbers wherever a new module has zeros."""
    module.double()
    for tensor in [*module.parameters(), *module.buffers()]:
        tensor.data.add_(torch.randn_like(tensor) / 4)
    return module


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(nonlinearity="tanh"):
    """Two units, one input: W = [1, -2], U = [[0.5, 1], [-1, 0]], b = [0.25, 0]."""
    layer = ElmanLayer(1, 2, nonlinearity=nonlinearity)
    with torch.no_grad():
        layer.cell.input.weight.copy_(torch.tensor([[1.0], [-2.0]]))
        layer.cell.input.bias.copy_(torch.tensor([0.25, 0.0]))
        layer.cell.recurrent.weight.copy_(torch.tensor([[0.5, 1.0], [-1.0, 0.0]]))
    return layer


def test_sigmoid_and_relu_by_hand():
    states, _ = by_hand("sigmoid")(torch.tensor([3.0]).view(1, 1, 1))
    expected = [[[1 / (1 + math.exp(-3.25)), 1 / (1 + math.exp(6))]]]
    torch.testing.assert_close(states, torch.tensor(expected))
    states, _ = by_hand("relu")(torch.tensor([3.0, -1.0]).view(2, 1, 1))
    assert states.tolist() == [[[3.25, 0.0]], [[0.875, 0.0]]]


def test_initialisation():
    """U is orthogonal, h_0 is zero and no parameter unless it is learned."""
    layer = ElmanLayer(C, N)
    u = layer.cell.recurrent.weight
    torch.testing.assert_close(u @ u.T, torch.eye(N))
    names = {"cell.input.weight", "cell.input.bias", "cell.recurrent.weight"}
    assert set(dict(layer.named_parameters())) == names
    assert set(layer.state_dict()) == names | {"h_0"} and not layer.h_0.any()
    assert ElmanLayer(C, N, bias=False).cell.input.bias is None
    assert ElmanCell(C, N).input.bias is not None
    learned = Elman(C, N, L, learn_h_0=True)
    learned(torch.randn(T, B, C))[0].sum().backward()
    assert all(layer.h_0.grad.abs().max() > 0 for layer in learned.layers)


def test_without_a_state_it_starts_from_h_0():
    network, x = randomised(Elman(C, N, L)), random(T, B, C)
    assert network.initial(B).shape == (L, B, N)
    torch.testing.assert_close(network(x, network.initial(B)), network(x))
    assert torch.equal(network.initial(B)[1, 1], network.layers[1].h_0)


def test_a_layer_explains_a_wrong_state(unhooked):
    layer = unhooked("labml_nn.recurrent.elman").ElmanLayer(4, 5)
    with pytest.raises(ValueError, match=r"\[1, 5\]; expected \[2, 5\], \[B, N\]"):
        layer(torch.randn(7, 2, 4), torch.randn(1, 5))


def test_a_cell_without_an_output_size_can_replace_the_cell(unhooked):
    """Any module that takes and returns what `ElmanCell` does."""
    layer = unhooked("labml_nn.recurrent.elman").ElmanLayer(4, 5)
    layer.cell = torch.nn.GRUCell(4, 5)
    states, _ = layer(torch.randn(7, 2, 4), torch.randn(2, 5))
    assert states.shape == (7, 2, 5)
